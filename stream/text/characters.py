"""What each character is to the text features: its kind, its lower case, and what it looks like.

Rule: a character is looked at alone, so that a table has all answers. What depends on neighbours
(ς at the end of a word, a letter joined with its accent) is handled by the look-alikes: a word and
its look-alike are two features, and the second one is the same for both spellings.
"""

from __future__ import annotations

from functools import cache
from unicodedata import category, normalize

import numpy as np
from numpy.typing import NDArray

from stream.text._kernels.features import (
    DIGIT,
    DROPPED,
    HIDDEN,
    IDEOGRAPH,
    LATIN,
    SIGN,
    SPACE,
    TAGS,
    TAGS_END,
    UPPER,
    WORD,
)

__all__ = ["characters", "entry_of"]

SIZE = 0x20000  # code points in the table; see the kernel for those beyond it

# Letters and digits that look like a Latin letter. Case is folded first.
LOOK_ALIKES = {
    **dict(zip("авеікмнорстухѕјһԁԛԝ", "abeikmhopctyxsjhdqw", strict=True)),
    **dict(zip("αβεικνορτυχγ", "abeiknoptuxy", strict=True)),
    **dict(zip("ıłøđħɑɡᴏᴀ", "ilodhagoa", strict=True)),
    **dict(zip("01345789", "oieasgbg", strict=True)),
}
# Characters that nobody sees and that are not all called formats: those that Unicode lets programs
# ignore by default.
BLANK = "\u2800"  # a letter of Braille without a dot
UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2065\u3164\uffa0") | frozenset(
    map(chr, range(0xFFF0, 0xFFF9))
)
APOSTROPHES = "'\u2019\u02bc\uff07"
# Scripts without spaces between words: each character is a token, and pairs are its bigrams.
UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),
    (0x3005, 0x3007),
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),
)


@cache
def characters() -> NDArray[np.int64]:
    """The entry of each code point below `SIZE`: lower case | look-alike << 20 | flags << 40.

    Examples
    --------
    >>> entry = int(characters()[ord("É")])
    >>> chr(entry & 0xFFFFF), chr(entry >> 20 & 0xFFFFF)
    ('é', 'e')
    """
    table = np.empty(SIZE, dtype=np.int64)
    unspaced = np.zeros(SIZE, dtype=bool)
    for first, last in UNSPACED:
        unspaced[first : last + 1] = True
    for code in range(SIZE):
        table[code] = _entry(chr(code), bool(unspaced[code]))
    return table


def entry_of(c: str) -> int:
    """The entry of any character.

    Examples
    --------
    >>> entry_of("a") == int(characters()[ord("a")])
    True
    """
    code = ord(c)
    if code < SIZE:
        return int(characters()[code])
    flags = DROPPED | HIDDEN if TAGS <= code < TAGS_END else IDEOGRAPH
    return code | code << 20 | flags << 40


def _entry(c: str, unspaced: bool) -> int:
    kind = category(c)
    low = c.lower()
    low = low if len(low) == 1 else c
    base = normalize("NFKD", low)[0].lower() if ord(low) >= 0x80 else low
    base = base if len(base) == 1 else low
    flags = _kind_of(c, kind, unspaced)
    flags |= UPPER * (low != c) | DIGIT * c.isdecimal() | LATIN * ("a" <= base <= "z")
    return ord(low) | ord(LOOK_ALIKES.get(base, base)) << 20 | flags << 40


def _kind_of(c: str, kind: str, unspaced: bool) -> int:
    """Kind of a character of this Unicode category."""
    if c in APOSTROPHES or (kind[0] == "M" and not unspaced):
        return DROPPED  # "don't" is "dont", and an accent by itself is no letter
    if kind == "Cf" or c in UNSEEN:
        return DROPPED | HIDDEN  # zero-width characters and other invisible ones
    if c.isspace() or c == BLANK or (kind[0] in "ZC" and kind != "Co"):
        return SPACE
    if unspaced and kind[0] in "LMN":
        return IDEOGRAPH
    return WORD if kind[0] in "LN" or c == "_" else SIGN
