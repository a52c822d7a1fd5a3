"""A record of a topic as a line of `tail --envelope`, and back as a record to write.

Rule: every record that a topic can hold comes back as it was: tombstones, other bytes than JSON or
UTF-8, numbers that JSON has not, and headers. What JSON cannot show is there as base64 beside what
people read. A JSON object is written again from its fields, because programs between both commands
change them.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from consumers.base.converter import UNDECODABLE, Converter
from consumers.base.records import Header, Outgoing, Record
from consumers.codecs.encoded import encoded

__all__ = ["Envelope", "enveloped", "opened", "outgoing", "text"]

# Codes that move the cursor, colour or clear; not tabs and line ends, which JSON can have.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")


class Envelope(msgspec.Struct, omit_defaults=True):
    """A line of `tail --envelope`.

    Attributes
    ----------
    value
        The value as JSON; as text if it is no JSON; None for a tombstone.
    key
        The key as text.
    headers
        Name and text of each. A third element is base64 of its bytes, if the text is not all.
    value_base64, key_base64
        The bytes, if `value` or `key` is not all.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    value: Any
    key: str | None = None
    headers: list[list[str]] = []
    value_base64: str | None = None
    key_base64: str | None = None


_envelope = Converter(Envelope)


def text(value: bytes | None) -> str:
    """Bytes as text, with other bytes than UTF-8 and terminal codes escaped; `null` for None.

    Examples
    --------
    >>> text("né".encode()), text(b"\\xff!"), text(None), text(b"\\x1b[31mred")
    ('né', '\\\\xff!', 'null', '\\\\x1b[31mred')
    """
    if value is None:
        return "null"
    shown = value.decode(errors="backslashreplace")
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", shown)


def enveloped(record: Record) -> str:
    """A record with its metadata, as one line of JSON.

    Examples
    --------
    >>> print(enveloped(Record("visits", 0, 7, 1000, b"a", b'{"x": 1}')))
    {"topic":"visits","partition":0,"offset":7,"timestamp":1000,"key":"a","headers":[],"value":{"x":1}}
    """
    value: object = text(record.value)
    with suppress(*UNDECODABLE):  # else it stays text
        value = msgspec.json.decode(record.value or b"null")
    shown: dict[str, object] = {
        **record._asdict(),
        "key": None if record.key is None else text(record.key),
        "headers": [_header(name, header) for name, header in record.headers],
    }
    if record.key is not None and text(record.key).encode() != record.key:
        shown["key_base64"] = _base64(record.key)
    if record.value is not None and not isinstance(value, dict):
        shown["value_base64"] = _base64(record.value)
    del shown["value"]  # added last
    line = json.dumps({**shown, "value": value}, ensure_ascii=False, separators=(",", ":"))
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", line)  # only strings have them


def opened(line: Mapping[str, object]) -> Envelope:
    """An envelope from its JSON object.

    Raises
    ------
    ValueError
        It is no line of `tail --envelope`.
    """
    try:
        return _envelope(line)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def outgoing(found: Envelope, topic: str) -> Outgoing:
    """The record to write, with the key, the headers and the timestamp that it had.

    Raises
    ------
    ValueError
        Some base64 is damaged.
    """
    key = None if found.key is None else found.key.encode()
    value = None if found.value is None else encoded(found.value)
    if found.key_base64 is not None:
        key = _bytes(found.key_base64)
    if found.value_base64 is not None:
        value = _bytes(found.value_base64)
    headers = tuple(map(_opened_header, found.headers))
    return Outgoing(topic, key, value, found.timestamp, headers)


def _header(name: str, value: bytes) -> list[str]:
    shown = text(value)
    return [name, shown] if shown.encode() == value else [name, shown, _base64(value)]


def _opened_header(header: list[str]) -> Header:
    if not 2 <= len(header) <= 3:
        raise ValueError("a header has a name, a text and perhaps base64")
    name, shown, *exact = header
    return name, _bytes(exact[0]) if exact else shown.encode()


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Error as error:
        raise ValueError(f"damaged base64: {error}") from None
