"""Transfer encodings of a part, as senders write them, rightly or not. In linear time.

Rule: as `email` with policy.default, and more lenient where mail programs are: names with comments
or in another spelling, and base64 without its last characters.
"""

from __future__ import annotations

import binascii
import re
from typing import NamedTuple

__all__ = ["Enclosed", "enclosed_in", "encoding_of", "unbase64", "untransferred"]

_NAME = re.compile(rb"[\w-]+")
_KNOWN = {
    b"base64": "base64",
    b"quotedprintable": "quoted-printable",
    b"uuencode": "uuencode",
    b"uue": "uuencode",
}
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NO_BASE64 = bytes(set(range(256)) - set(_BASE64))
_BEGIN = re.compile(rb"^begin [0-7]{3,4} ([^\n]{1,200})\n", re.MULTILINE)
_END = re.compile(rb"^end[ \t]*(?:\n|\Z)", re.MULTILINE)
_MOST = 20  # files in one text


class Enclosed(NamedTuple):
    """A text without the files that are written into it, and their names and contents."""

    text: bytes
    files: list[tuple[bytes, bytes]]


def encoding_of(value: bytes) -> str:
    """The encoding that a header names: `base64`, `quoted-printable`, `uuencode` or "".

    Examples
    --------
    >>> encoding_of(b"Base-64; (really)"), encoding_of(b"x-uuencode"), encoding_of(b"8bit")
    ('base64', 'uuencode', '')
    """
    found = _NAME.search(value)
    name = found.group().lower().removeprefix(b"x-").replace(b"-", b"") if found else b""
    return _KNOWN.get(name, "")


def untransferred(raw: bytes, encoding: str) -> tuple[bytes, bool]:
    """The bytes that were encoded, and whether the encoding was broken."""
    if encoding == "base64":
        return unbase64(raw)
    if encoding == "quoted-printable":
        return binascii.a2b_qp(raw), False
    if encoding == "uuencode":
        found = _BEGIN.search(raw)
        if found is None:
            return raw, True
        return _uudecoded(raw[found.end() :])
    return raw, False


def unbase64(raw: bytes) -> tuple[bytes, bool]:
    """The bytes, and whether their end is missing. What is no base64 is left out.

    Examples
    --------
    >>> unbase64(b"aGVs!bG8=\\nfooter"), unbase64(b"aGVsbG8gd29ybG"), unbase64(b"aGVsb")
    ((b'hello', False), (b'hello worl', True), (b'hel', True))
    """
    try:
        return binascii.a2b_base64(raw), False
    except binascii.Error:
        clean = raw.translate(None, _NO_BASE64)
        clean = clean[: len(clean) - (len(clean) % 4 == 1)]
        return binascii.a2b_base64(clean + b"=" * (-len(clean) % 4)), True


def enclosed_in(text: bytes) -> Enclosed:
    """What mail programs show of a text in which files are uuencoded.

    Examples
    --------
    >>> enclosed_in(b"see\\nbegin 644 a.txt\\n#:&D*\\n`\\nend\\nbye")
    Enclosed(text=b'see\\nbye', files=[(b'a.txt', b'hi\\n')])
    """
    kept: list[bytes] = []
    files: list[tuple[bytes, bytes]] = []
    at = 0
    for _ in range(_MOST):
        begin = _BEGIN.search(text, at)
        end = _END.search(text, begin.end()) if begin else None
        if begin is None or end is None:
            break
        content, broken = _uudecoded(text[begin.end() : end.start()])
        if broken or not content:  # a text that has such a line
            kept.append(text[at : begin.end()])
            at = begin.end()
            continue
        kept.append(text[at : begin.start()])
        files.append((begin[1].strip(), content))
        at = end.end()
    return Enclosed(b"".join([*kept, text[at:]]), files)


def _uudecoded(lines: bytes) -> tuple[bytes, bool]:
    """The bytes of the lines up to `end`, and whether a line is broken."""
    out, broken = [], False
    for line in lines.split(b"\n"):
        if not line.strip():
            continue
        if line.rstrip() == b"end":
            break
        try:
            out.append(binascii.a2b_uu(line))
        except binascii.Error:
            # Some encoders count wrongly: the first character says how many there are.
            count = (((line[0] - 32) & 63) * 4 + 5) // 3 if line else 0
            try:
                out.append(binascii.a2b_uu(line[:count]))
            except binascii.Error:
                broken = True
    return b"".join(out), broken
