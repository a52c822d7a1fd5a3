"""The fields of a mail, name to kind, and what decides the words in them, with its version.

Rule: another version may give other words from the same bytes, so it gives another model. Therefore
these versions are part of the identity of a service that reads mail.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from stream.data.schema import Kind

__all__ = ["FAULTS", "FIELDS", "MODULES", "RULES", "versions"]

RULES = 6  # the version of the rules that make these fields
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


MODULES = ("selectolax", "tinycss2", "webencodings", "chardetng_py", "publicsuffixlist")


@cache
def versions() -> dict[str, str]:
    """Name to version: the rules here, the parsers, names of charsets, the Public Suffix List.

    Examples
    --------
    >>> list(versions())
    ['rules', 'selectolax', 'tinycss2', 'webencodings', 'chardetng-py', 'publicsuffixlist']
    """
    from importlib.metadata import version  # only services that read mail ask for it

    return {"rules": str(RULES)} | {name.replace("_", "-"): version(name) for name in MODULES}
