"""Text to tokens: words and the signs between them, in lower case. Only space is dropped.

A word is a run of letters, digits and underscores of any script, of any length. A run of signs
between words is also a token: "£", "!!!", ":)". Currency signs, exclamation marks and smileys are
evidence, and no list of words or signs is needed. On SMS spam in file order,
`MultinomialNB(alpha=1)` reaches a progressive accuracy of 98.46 %; with words only 98.21 %, with
words of at least two letters 97.90 %, with single signs 98.28 %. (For mail that was split into
words and signs before, such as Enron's, it is half a point better without signs.) In a script
without spaces, whole phrases become words.

`tokens` is the definition. `folding` is its table for characters that do not depend on neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from unicodedata import category, combining, normalize

import numpy as np
from numpy.typing import NDArray

from stream.data.parameters import shown
from stream.errors import SchemaError

__all__ = ["folding", "tokens"]

TOKEN = re.compile(r"\w+|[^\w\s]+")
FOLDED = 0x3000  # size of `folding`: alphabets, and signs below CJK
KINDS = (re.compile(r"\w"), re.compile(r"\s"), re.compile(""))  # word, space, sign


def tokens(text: str) -> Iterator[str]:
    """The tokens of `text` in order. O(length).

    Examples
    --------
    >>> list(tokens("WIN £1,000 now!!! C'est l'été"))
    ['win', '£', '1', ',', '000', 'now', '!!!', 'c', "'", 'est', 'l', "'", 'été']
    """
    if not isinstance(text, str):
        raise SchemaError(f"expected a text, got {shown(text)}")
    lowered = text.lower()
    if not lowered.isascii():
        lowered = normalize("NFC", lowered)  # é has two encodings in Unicode
    return (match.group() for match in TOKEN.finditer(lowered))


@cache
def folding() -> NDArray[np.int32]:
    """Lower case and kind of each code point below 0x3000, by itself.

    int32: 4 · lower case + kind (0 word, 1 space, 2 sign).
    -1 if neighbours matter: its lower case has several characters or depends on its position in the
    word, or NFC may join it with the previous character. A text with such a character, or with one
    beyond the table, needs `tokens`.

    Examples
    --------
    >>> int(folding()[ord("Q")]) == 4 * ord("q")
    True
    """
    table = np.full(FOLDED, -1, dtype=np.int32)
    for code in range(FOLDED):
        low = chr(code).lower()
        if len(low) > 1 or low == "σ" or not _stands_alone(low):
            continue
        kind = next(k for k, known in enumerate(KINDS) if known.match(low))
        table[code] = 4 * ord(low) + kind
    return table


def _stands_alone(character: str) -> bool:
    """Whether NFC never changes it, with any neighbours."""
    if normalize("NFC", character) != character or combining(character):
        return False
    vowel_or_final = 0x1100 <= ord(character) < 0x1200  # Hangul, joined by NFC
    return not vowel_or_final and not category(character).startswith("M")
