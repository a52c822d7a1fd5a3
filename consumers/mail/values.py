"""The value of a header as text: its lines joined, its encoded words decoded (RFC 2047).

Rule: words that follow each other in one charset are one text, because senders split characters
between two words. Everything takes time in proportion to the value.
"""

from __future__ import annotations

import binascii
import re

from consumers.mail import limits
from consumers.mail.charsets import decoded, undeclared
from consumers.mail.transfer import unbase64

__all__ = ["line_of", "text_of", "words_decoded"]

_WORD = re.compile(rb"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*)\?=")
_FOLD = re.compile(rb"\n[ \t]*")


def line_of(raw: bytes, charset: str = "") -> str:
    r"""A header's value as one line, with its encoded words as they are.

    Parameters
    ----------
    raw
        Its bytes, which may be several lines.
    charset
        That of the mail's text, which bytes that are neither ASCII nor UTF-8 may have.

    Examples
    --------
    >>> line_of(b" a\n b")
    'a b'
    """
    raw = _unfolded(raw)
    return raw.decode() if _is_plain(raw) else undeclared(raw, charset)


def text_of(raw: bytes, charset: str = "") -> str:
    r"""The text of a header's value; see `line_of` for the parameters.

    Examples
    --------
    >>> text_of(b" =?utf-8?B?Y2Fm?=\n =?utf-8?Q?=C3=A9?= au\n lait")
    'café au lait'
    """
    raw = _unfolded(raw)
    if b"=?" in raw:
        return _decoded(raw, charset)
    return raw.decode() if _is_plain(raw) else undeclared(raw, charset)


def words_decoded(text: str) -> str:
    """The text with its encoded words decoded.

    Examples
    --------
    >>> words_decoded("a =?utf-8?Q?b=C3?= =?utf-8?Q?=A9?= =?koi8-r?B?wQ==?= c")
    'a béа c'
    """
    return _decoded(text.encode("utf-8", "replace"), "") if "=?" in text else text


def _is_plain(raw: bytes) -> bool:
    """Whether it is ASCII and no Japanese in seven bits."""
    return raw.isascii() and b"\x1b" not in raw


def _unfolded(raw: bytes) -> bytes:
    if len(raw) > limits.LONGEST_VALUE:
        raw = raw[: limits.LONGEST_VALUE]
    return (_FOLD.sub(b" ", raw) if b"\n" in raw else raw).strip()


def _decoded(raw: bytes, charset: str) -> str:
    """The text of bytes with encoded words."""
    out: list[str] = []
    held: list[bytes] = []
    named, at = "", 0
    for found in _WORD.finditer(raw):
        between = raw[at : found.start()]
        at = found.end()
        name = found[1].partition(b"*")[0].decode("ascii", "replace").lower()
        adjacent = bool(held) and not between.strip()
        if held and not (adjacent and name == named):
            out.append(decoded(b"".join(held), named)[0])
            held = []
        if not adjacent:
            out.append(undeclared(between, charset))
        named = name
        content = found[3]
        held.append(
            unbase64(content)[0] if found[2] in b"bB" else binascii.a2b_qp(content, header=True)
        )
    if held:
        out.append(decoded(b"".join(held), named)[0])
    return "".join([*out, undeclared(raw[at:], charset)])
