"""The fields of a mail, name to kind. It needs no parser."""

from __future__ import annotations

from collections.abc import Mapping

from stream.data.schema import Kind

__all__ = ["FIELDS", "RULES"]

RULES = 1  # the version of the rules that make these fields
FIELDS: Mapping[str, Kind] = {
    "subject": "text",
    "text": "text",
    "hidden": "text",
    "from": "text",
    "reply_to": "text",
    "links": "text",
    "attachments": "text",
    "charsets": "text",
    "received": "text",
    "headers": "text",
    "structure": "text",
    "size": "numeric",
    "parts": "numeric",
    "link_count": "numeric",
}
