"""Bytes to a JSON object, within bounds: the slow path, by the standard library.

Rule: whether a record is rejected depends on its bytes only. The interpreter's limit of nesting
depends on the depth of the caller's stack, which differs between a live run and its replay. So
brackets are counted here, before parsing.

Half of a surrogate pair, which a program leaves when it cuts an emoji, becomes U+FFFD in its value:
no text can be written with it, and one cut text must not cost the other fields.

A journal replays by these rules. So a version that changes them, or the list
`consumers.base.fields.MISSING`, has to journal by which rules a service began.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from consumers.base.errors import RecordError

__all__ = [
    "DEEPEST",
    "LARGEST_RECORD",
    "LONGEST_ID",
    "SHORT",
    "check_size",
    "parse",
    "parse_quickly",
    "plain",
    "too_deep",
    "uncut",
]

LARGEST_RECORD = 1 << 20
LONGEST_ID = 512  # characters
DEEPEST = 128  # levels of nested objects and lists
SHORT = 2 * DEEPEST  # bytes; a shorter record cannot be nested too deep
MOST_DIGITS = 4300  # of an integer: the most that both parsers accept

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_WITH_A_SCHEMA = (
    "; a record with a schema begins so too: set [registry] url and [input] format if it is one"
)
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)  # unclosed: to the end
_BRACKET = re.compile(r"[\[\]{}]")
_ESCAPE = re.compile(  # a pair, else half of one, else any other escape
    rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>\\u[dD][89a-fA-F]..)|\\.", re.DOTALL
)


def check_size(value: bytes) -> None:
    """Raise RecordError if a record is too large."""
    if len(value) > LARGEST_RECORD:
        raise RecordError("oversize", f"{len(value):,} bytes, at most {LARGEST_RECORD:,}")


def parse(value: bytes | None) -> dict[str, Any]:
    """The JSON object in `value`, by the standard library.

    Raises
    ------
    RecordError
        It is too large, not JSON, or not an object.
    """
    if value is None:
        raise RecordError("unparsable", "expected a JSON object, got no value")
    check_size(value)
    try:
        encoding = json.detect_encoding(value)
        if not encoding.startswith("utf-8"):
            raise RecordError(
                "unparsable",
                f"expected JSON in UTF-8, got {encoding.upper()}"
                + (_WITH_A_SCHEMA if value.startswith(b"\0") else ""),
            )
        text = uncut(value).decode(encoding)
        if too_deep(text):
            raise RecordError("unparsable", f"expected at most {DEEPEST} levels of nesting")
        document = json.loads(text, parse_int=_integer)
    except (ValueError, RecursionError) as error:
        raise RecordError("unparsable", f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise RecordError("unparsable", f"expected a JSON object, got {type(document).__name__}")
    return document


def uncut(value: bytes) -> bytes:
    """JSON with U+FFFD for each escape that is half of a surrogate pair; of the same length.

    Examples
    --------
    >>> uncut(rb'{"note": "\\ud83d", "face": "\\ud83d\\ude00"}')
    b'{"note": "\\\\ufffd", "face": "\\\\ud83d\\\\ude00"}'
    """
    return _ESCAPE.sub(_whole, value) if b"\\ud" in value or b"\\uD" in value else value


def _whole(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if escape["half"] else escape[0]


def parse_quickly(value: bytes | None) -> dict[str, Any]:
    """The same as `parse`, sooner for most records."""
    try:
        return _decode(plain(value))
    except (msgspec.DecodeError, RecursionError):
        return parse(value)


def plain(value: bytes | None) -> bytes:
    """`value` if the typed decoder rejects all that the slow path rejects; else a DecodeError.

    The typed decoder does not read undeclared fields: they can hold bytes that are not UTF-8 and
    be nested without a limit.
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


def too_deep(text: str) -> bool:
    """Whether more than `DEEPEST` brackets are open at once, without those inside strings."""
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
