"""The fields of a mail, name to kind. It needs no parser."""

from __future__ import annotations

from collections.abc import Mapping

from stream.data.schema import Kind

__all__ = ["FAULTS", "FIELDS", "RULES"]

RULES = 5  # the version of the rules that make these fields
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
}
# What may be wrong with a mail. In `structure` each is a word that begins with `wrong_`.
FAULTS = ("bad_charset", "cut", "malformed", "nul", "too_deep", "unknown_charset")
