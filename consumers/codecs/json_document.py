"""Bytes to a JSON object, within bounds: the slow, obvious way, by the standard library.

Rule: whether a record is refused depends on its bytes alone. The interpreter's own limit of
nesting depends on how deep the caller stands, which differs between a live run and its replay;
so brackets are counted here, before anything is parsed.

`RULES` numbers what is read how, because a journal replays under the rules it was begun with. Under
rules 1 UTF-16 and UTF-32 were read too, and integers of 2**53 and more that are categories were
rounded, so that neighbours became one.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from consumers.base.errors import RecordError

__all__ = ["DEEPEST", "LARGEST_RECORD", "RULES", "SHORT", "parse", "plain"]

RULES = 2

LARGEST_RECORD = 1 << 20
DEEPEST = 128  # objects and lists in one another
SHORT = 2 * DEEPEST  # bytes in which nothing can lie too deep
MOST_DIGITS = 4300  # of an integer: what both parsers can read

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)  # an open one ends with the text
_BRACKET = re.compile(r"[\[\]{}]")


def parse(value: bytes | None, rules: int = RULES) -> dict[str, Any]:
    """The JSON object in `value`, by the standard library.

    Parameters
    ----------
    rules
        1 for a journal that was begun before there were rules 2.

    Raises
    ------
    RecordError
        It is too large, not JSON, or not an object.
    """
    if value is None:
        raise RecordError("unparsable", "expected a JSON object, got no value")
    if len(value) > LARGEST_RECORD:
        raise RecordError("oversize", f"{len(value):,} bytes, at most {LARGEST_RECORD:,}")
    try:
        encoding = json.detect_encoding(value)
        if rules > 1 and not encoding.startswith("utf-8"):
            raise RecordError("unparsable", f"expected JSON in UTF-8, got {encoding.upper()}")
        text = value.decode(encoding)
        if _too_deep(text):
            raise RecordError("unparsable", f"more than {DEEPEST} objects or lists in one another")
        document = json.loads(text, parse_int=_integer)
        json.dumps(document, ensure_ascii=False).encode()  # lone surrogates cannot go out again
    except (ValueError, RecursionError) as error:
        raise RecordError("unparsable", f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise RecordError("unparsable", f"expected a JSON object, got {type(document).__name__}")
    return document


def plain(value: bytes | None) -> bytes:
    """`value` where the typed decoder refuses all that the slow way does; else a DecodeError.

    It skips undeclared fields unread: their bytes need not be UTF-8, their depth has no end.
    """
    if value is None or len(value) > LARGEST_RECORD:
        raise msgspec.DecodeError
    if len(value) > SHORT and value.count(b"{") + value.count(b"[") > DEEPEST:
        raise msgspec.DecodeError
    if not value.isascii():
        try:
            value.decode()
        except UnicodeDecodeError:
            raise msgspec.DecodeError from None
    return value


def _too_deep(text: str) -> bool:
    """Whether more than `DEEPEST` brackets are open at once, those inside strings not counted."""
    if text.count("{") + text.count("[") <= DEEPEST:
        return False
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "{[" else -1
        if depth > DEEPEST:
            return True
    return False


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits.lstrip("-")) <= MOST_DIGITS else float(digits)
