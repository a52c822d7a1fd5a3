"""The mail inside an opaque S/MIME signature (RFC 8551): no library, because only its place counts.

The signature is not verified: a sender of spam may sign it.
"""

from __future__ import annotations

__all__ = ["signed_content"]

_SEQUENCE, _SET, _INTEGER, _OID, _TAGGED = 0x30, 0x31, 0x02, 0x06, 0xA0
_OCTETS, _PIECES = 0x04, 0x24
_SIGNED = bytes.fromhex("2a864886f70d010702")  # 1.2.840.113549.1.7.2
_MOST_DEPTH = 20


def signed_content(value: bytes) -> bytes | None:
    """The content of CMS SignedData in BER; None if it is something else, or broken.

    Examples
    --------
    >>> oid = bytes.fromhex("06092a864886f70d010702")
    >>> inner = bytes.fromhex("020101310030") + b"\\x0f\\x06\\x07abcdefg\\xa0\\x04\\x04\\x02hi"
    >>> data = b"\\x30" + bytes([len(inner)]) + inner
    >>> whole = oid + b"\\xa0" + bytes([len(data)]) + data
    >>> signed_content(b"\\x30" + bytes([len(whole)]) + whole)
    b'hi'
    """
    try:
        return _content(value)
    except (IndexError, ValueError):
        return None


def _content(value: bytes) -> bytes | None:
    at, _ = _enter(value, 0, _SEQUENCE)
    start, end = _enter(value, at, _OID)
    if value[start:end] != _SIGNED:
        return None
    at, _ = _enter(value, end, _TAGGED)
    at, _ = _enter(value, at, _SEQUENCE)
    _, at = _enter(value, at, _INTEGER)
    at = _after(value, at, 0)
    at, _ = _enter(value, at, _SEQUENCE)
    _, at = _enter(value, at, _OID)
    at, _ = _enter(value, at, _TAGGED)
    if value[at] == _OCTETS:
        start, end = _enter(value, at, _OCTETS)
        return value[start:end]
    at, end = _enter(value, at, _PIECES)
    pieces = []
    while at < (end if end >= 0 else len(value)) and value[at] == _OCTETS:
        start, at = _enter(value, at, _OCTETS)
        pieces.append(value[start:at])
    return b"".join(pieces)


def _enter(value: bytes, at: int, tag: int) -> tuple[int, int]:
    """Where the content of an element begins and ends; -1: at an element of two zeros."""
    if value[at] != tag:
        raise ValueError("another element")
    length = value[at + 1]
    if length < 0x80:
        return at + 2, at + 2 + length
    if length == 0x80:
        return at + 2, -1
    start = at + 2 + (length & 0x7F)
    return start, start + int.from_bytes(value[at + 2 : start])


def _after(value: bytes, at: int, depth: int) -> int:
    """Where the element after this one begins."""
    start, end = _enter(value, at, value[at])
    if end >= 0:
        return end
    if depth > _MOST_DEPTH:
        raise ValueError("too deep")
    while value[start : start + 2] != b"\0\0":
        start = _after(value, start, depth + 1)
    return start + 2
