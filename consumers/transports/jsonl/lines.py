"""The line of a record, which other programs write too."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Annotated, NamedTuple

import msgspec

from consumers.base.records import Header

__all__ = ["Row", "decode", "encode"]

_BRACKETS = 500  # a deeper value is decoded or not depending on the stack, so it would not replay


class Row(NamedTuple):
    """A record without its place."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class _Line(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    offset: int | None = None
    timestamp: Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)] = 0
    key: str | None = None
    value: msgspec.Raw
    headers: tuple[Header, ...] = ()
    base64: bool = False


_encoder = msgspec.json.Encoder()
_decode_line = msgspec.json.Decoder(_Line).decode


def encode(offset: int, row: Row) -> bytes:
    """The line of a record; key and value in base64 if one of them is not UTF-8.

    Examples
    --------
    >>> encode(7, Row(1_700_000_000_000, b"a", b'{"x": 1}'))
    b'{"offset":7,"timestamp":1700000000000,"key":"a","value":"{\\\\"x\\\\": 1}"}\\n'
    """
    cells = (row.key, row.value)
    base64 = False
    try:
        key, value = (None if cell is None else cell.decode() for cell in cells)
    except UnicodeDecodeError:
        base64 = True
        key, value = (None if cell is None else b64encode(cell).decode() for cell in cells)
    line = _Line(
        offset=offset,
        timestamp=row.timestamp,
        key=key,
        value=msgspec.Raw(_encoder.encode(value)),
        headers=row.headers,
        base64=base64,
    )
    return _encoder.encode(line) + b"\n"


def decode(line: bytes) -> Row:
    """The record of a line, which any program may have written.

    An object with a `value` that is a text, an object or null, and otherwise only members that
    `encode` writes, is a record. Every other line is a value alone, at time 0 (1970).

    Examples
    --------
    >>> decode(b'{"timestamp": 5, "value": {"x": 1}}\\n').value, decode(b'{"x": 1}\\n').value
    (b'{"x": 1}', b'{"x": 1}')
    """
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    try:
        found = _decode_line(line)
        raw = bytes(found.value)
        if raw[:1] == b"{" and not found.base64 and raw.count(b"{") + raw.count(b"[") < _BRACKETS:
            value: bytes | None = raw
        elif raw == b"null":
            value = None
        else:  # ValidationError where it is no text
            value = _cell(msgspec.json.decode(raw, type=str), found.base64)
        key = None if found.key is None else _cell(found.key, found.base64)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Row(0, None, line)
    return Row(found.timestamp, key, value, found.headers)


def _cell(text: str, base64: bool) -> bytes:
    return b64decode(text, validate=True) if base64 else text.encode()
