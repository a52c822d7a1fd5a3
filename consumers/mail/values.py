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

__all__ = ["text_of", "words_decoded"]

_WORD = re.compile(r"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*)\?=")
_FOLD = re.compile(r"\n[ \t]*")


def text_of(raw: bytes, charset: str = "") -> str:
    """The text of a header's value.

    Parameters
    ----------
    raw
        Its bytes, which may be several lines.
    charset
        That of the mail's text, which bytes that are neither ASCII nor UTF-8 may have.

    Examples
    --------
    >>> text_of(b" =?utf-8?B?Y2Fm?=\\n =?utf-8?Q?=C3=A9?= au\\n lait")
    'café au lait'
    """
    raw = raw[: limits.LONGEST_VALUE]
    text = raw.decode() if raw.isascii() else undeclared(raw, charset)
    if "\n" in text:
        text = _FOLD.sub(" ", text)
    return words_decoded(text.strip())


def words_decoded(text: str) -> str:
    """The text with its encoded words decoded.

    Examples
    --------
    >>> words_decoded("a =?utf-8?Q?b=C3?= =?utf-8?Q?=A9?= =?koi8-r?B?wQ==?= c")
    'a béа c'
    """
    if "=?" not in text:
        return text
    out: list[str] = []
    held: list[bytes] = []
    named, at = "", 0
    for found in _WORD.finditer(text):
        between = text[at : found.start()]
        at = found.end()
        charset = found[1].partition("*")[0].lower()
        adjacent = bool(held) and not between.strip()
        if held and not (adjacent and charset == named):
            out.append(decoded(b"".join(held), named)[0])
            held = []
        if not adjacent:
            out.append(between)
        named = charset
        content = found[3].encode("utf-8", "replace")
        held.append(
            unbase64(content)[0] if found[2] in "bB" else binascii.a2b_qp(content, header=True)
        )
    if held:
        out.append(decoded(b"".join(held), named)[0])
    out.append(text[at:])
    return "".join(out)
