"""What decides the words of a mail, with its version.

Rule: another version may give other words from the same bytes, so it gives another model. Therefore
these versions are part of the identity of a service that reads mail.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

from consumers.mail.fields import RULES

__all__ = ["MODULES", "versions"]

MODULES = ("selectolax", "tinycss2", "webencodings", "chardetng_py", "publicsuffixlist")


@cache
def versions() -> dict[str, str]:
    """Name to version: the rules here, the parsers, names of charsets, the Public Suffix List.

    Examples
    --------
    >>> list(versions())
    ['rules', 'selectolax', 'tinycss2', 'webencodings', 'chardetng-py', 'publicsuffixlist']
    """
    return {"rules": str(RULES)} | {name.replace("_", "-"): version(name) for name in MODULES}
