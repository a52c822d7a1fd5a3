"""Text to tokens, tokens to buckets or names, and the tokens of rows.

The tokens of rows, from texts and counts: in buckets, or exact by a vocabulary.

Rule: the order of a row's tokens depends on the row only, so sums over them do too.

Text to tokens: words and the signs between them, in lower case. Only space is dropped.

A word is a run of letters, digits and underscores of any script, of any length. A run of signs
between words is also a token: "£", "!!!", ":)". Currency signs, exclamation marks and smileys are
evidence, and no list of words or signs is needed. On SMS spam in file order,
`MultinomialNB(alpha=1)` reaches a progressive accuracy of 98.46 %; with words only 98.21 %, with
words of at least two letters 97.90 %, with single signs 98.28 %. (For mail that was split into
words and signs before, such as Enron's, it is half a point better without signs.) In a script
without spaces, whole phrases become words.

`tokens` is the definition. `folding` is its table for characters that do not depend on neighbours.

Tokens to buckets: CRC-32 of the UTF-8 bytes, its lowest 20 bits.

It is the same on all machines and in all versions, so buckets may be saved. Tokens in the same
bucket count as the same token. Only the first `MAX_TOKENS` tokens of a text are used. A truncated
text has the additional bucket -1 with count 1.

A bounded dictionary of tokens: exact, unlike hashing, and with names.

The code of a token is its row in a table. If a code becomes free, the last token gets it, so that
the table stays dense. Predictions and saved states must not depend on codes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice, pairwise
from typing import Any, NamedTuple
from unicodedata import category, combining, normalize
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats, Rows
from stream.data.parameters import shown
from stream.data.schema import BUCKETS, PER_NAME, Dictionary, text_bytes
from stream.data.state import Saved
from stream.errors import SchemaError
from stream.text._kernels import tokens as kernels

__all__ = [
    "LEARNED_BUCKETS",
    "MAX_TOKENS",
    "Bags",
    "HashedTexts",
    "Vocabulary",
    "bucket",
    "counted_tokens",
    "encode",
    "encode_many",
    "exact_bags",
    "folding",
    "hashed_bags",
    "hashed_texts",
    "named_buckets",
    "tokens",
    "without_numbers",
]

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


TEXTS = {str, np.str_}
LEARNED_BUCKETS = Saved(np.int64, ("tokens",), 0, BUCKETS - 1, rising=True)  # in a state
MAX_TOKENS = 100_000
CHARACTERS = 2**20  # read in one call, with 20 bytes of scratch memory each
FEW = 2000  # below this number of keys a comparison sort is faster than a radix sort


class HashedTexts(NamedTuple):
    """Tokens of texts: text r has start[r] … start[r+1]-1, each bucket once, rising.

    All int64: start (n + 1,), bucket and times (k,).
    """

    start: NDArray[np.int64]
    bucket: NDArray[np.int64]
    times: NDArray[np.int64]


def bucket(token: str) -> int:
    """The bucket of a token.

    Examples
    --------
    >>> bucket("free")
    967112
    """
    if not isinstance(token, str):
        raise SchemaError(f"expected a token as text, got {shown(token)}")
    return crc32(token.encode("utf-8", "surrogatepass")) & (BUCKETS - 1)


def encode(text: str) -> NDArray[np.int64]:
    """Buckets of `text`, each once and rising, over their counts: int64, (2, k).

    Examples
    --------
    >>> encode("free, free money").tolist()
    [[689006, 967112, 988132], [1, 2, 1]]
    """
    _, found, times = encode_many([text])
    return np.array((found, times))


def encode_many(texts: list[str]) -> HashedTexts:
    """The tokens of several texts, equal to those of `encode`.

    Notes
    -----
    O(characters). Texts of independent characters below U+3000 (see `stream.text.bags.folding`)
    take one compiled pass. Other texts take about ten times as long, and so do texts with a token
    of more than 253 bytes and truncated texts.

    Examples
    --------
    >>> encode_many(["free, free money", "free"])  # doctest: +NORMALIZE_WHITESPACE
    HashedTexts(start=array([0, 3, 4]), bucket=array([689006, 967112, 988132, 967112]),
         times=array([1, 2, 1, 1]))
    """
    if not isinstance(texts, list) or not set(map(type, texts)) <= TEXTS:
        raise SchemaError(f"expected a list of texts, got {shown(texts)}")
    if len(texts) == 1 and len(texts[0]) <= CHARACTERS:
        return _encoded(texts, np.array([len(texts[0])]))
    end = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))
    if not end.size or end[-1] <= CHARACTERS:
        return _encoded(texts, end)
    parts = []
    at = read = 0
    while at < len(texts):
        stop = max(at + 1, int(np.searchsorted(end, read + CHARACTERS, side="right")))
        parts.append(_encoded(texts[at:stop], end[at:stop] - read))
        at, read = stop, int(end[stop - 1])
    sizes = np.concatenate([np.diff(part.start) for part in parts])
    return HashedTexts(
        np.append(0, np.cumsum(sizes)),
        np.concatenate([part.bucket for part in parts]),
        np.concatenate([part.times for part in parts]),
    )


def _encoded(texts: list[str], end: NDArray[np.int64]) -> HashedTexts:
    """The tokens of texts, read in one call. `end`: the end of each text in the joined text."""
    n = len(texts)
    if not end.size or not end[-1]:  # the tables that texts need take long to make
        none = np.empty(0, dtype=np.int64)
        return HashedTexts(np.zeros(n + 1, dtype=np.int64), none, none)
    whole = "".join(texts).encode("utf-32-le", "surrogatepass")
    code = np.frombuffer(whole, dtype="<i4")
    key = np.empty(code.size + n, dtype=np.int64)
    hard = np.zeros(n, dtype=np.bool_)
    k = kernels.scan(code, end, folding(), _shares(), MAX_TOKENS, key, hard)
    key = key[:k]
    if hard.any():
        key = np.concatenate((key, *(_keys(texts[i], i) for i in np.flatnonzero(hard).tolist())))
    if key.size < FEW:
        key.sort()
    else:
        unsorted, key = key, np.empty_like(key)
        kernels.sort(unsorted, key, np.empty(max(n, 2048) + 1, dtype=np.int64))
    start = np.empty(n + 1, dtype=np.int64)
    found, times = np.empty(key.size, dtype=np.int64), np.empty(key.size, dtype=np.int64)
    k = kernels.count(key, start, found, times)
    return HashedTexts(start, found[:k], times[:k])


def _keys(text: str, row: int) -> NDArray[np.int64]:
    """The keys that the kernel `scan` writes for a text, computed by the definition."""
    stream = tokens(text)
    keys = [row << 21 | kernels.BUCKET | bucket(token) for token in islice(stream, MAX_TOKENS)]
    if next(stream, None) is not None:
        keys.append(row << 21)
    return np.array(keys, dtype=np.int64)


@cache
def _shares() -> NDArray[np.int32]:
    """What each byte adds to the bucket of a token, by the number of following bytes: int32 (256,
    1024).

    CRC-32 is linear: the CRC of a token is the CRC of equally many zeros, XOR a share of each byte.
    Here the share of a byte includes its zero. For the index 4 · byte + 0 … 3 see the kernel
    `scan`.
    """
    table = np.arange(256, dtype=np.int64)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ 0xEDB88320, table >> 1)
    shares = np.empty((256, 256), dtype=np.int64)
    shares[0] = table
    for following in range(1, 256):
        before = shares[following - 1]
        shares[following] = table[before & 255] ^ (before >> 8)
    zeros = np.array([crc32(bytes(size)) for size in range(257)], dtype=np.int64)
    shares ^= (zeros[1:] ^ zeros[:-1])[:, None]
    return np.repeat((shares & BUCKETS - 1).astype(np.int32), 4, axis=1)


class Vocabulary(Dictionary):
    """Tokens and their codes 0, 1, 2, …. It differs from `Dictionary` in `remove`.

    Examples
    --------
    >>> v = Vocabulary(3, ["free", "money", "now"])
    >>> v.remove("free")
    >>> v.codes
    {'money': 1, 'now': 0}
    """

    __slots__ = ()

    def remove(self, value: Any) -> None:
        """Forget a token. The last token gets its code. O(1)."""
        code, last = self.codes.pop(value), self.values.pop()
        self.bytes -= PER_NAME + text_bytes(value)
        if last != value:
            self.values[code] = last
            self.codes[last] = code

    def in_order(self) -> NDArray[np.int64]:
        """Codes in the order of their tokens."""
        order = sorted(range(len(self)), key=self.values.__getitem__)
        return np.array(order, dtype=np.int64)


def token_counts(texts: Iterable[str]) -> tuple[dict[str, int], int]:
    """The count of each token in the texts, and the number of texts truncated at `MAX_TOKENS`.

    Examples
    --------
    >>> token_counts(["free, free", "FREE"])
    ({'free': 3, ',': 1}, 0)
    """
    counts: Counter[str] = Counter()
    cut = 0
    for text in texts:
        stream = tokens(text)
        counts.update(islice(stream, MAX_TOKENS))
        cut += next(stream, None) is not None
    return dict(counts), cut


class Bags(NamedTuple):
    """Tokens of rows: row r has the tokens from start[r] to start[r+1] - 1.

    bucket: rising buckets, or codes in the order of the tokens; -1 marks a truncated text.
    """

    start: NDArray[np.int64]
    bucket: NDArray[np.int64]
    times: Floats


def hashed_texts(rows: Rows) -> Rows:
    """Replace each text by its buckets and counts, int64 (2, k), so that it is read once."""
    if not rows.text_names:
        return rows
    encoded = rows.text.ravel()
    at = [i for i, cell in enumerate(encoded.tolist()) if isinstance(cell, str)]
    if not at:
        return rows
    encoded = encoded.copy()
    start, found, times = encode_many([encoded[i] for i in at])
    both = np.array((found, times))
    for i, (a, b) in zip(at, pairwise(start.tolist()), strict=True):
        # A copy, because a row that waits for its label must not keep the whole block in memory.
        encoded[i] = both[:, a:b].copy()
    return replace(rows, text=encoded.reshape(rows.text.shape))


def hashed_bags(rows: Rows, used: NDArray[np.int64]) -> Bags:
    """The tokens of the rows at `used`, as buckets. Texts may be encoded or not."""
    if not rows.text_names and not rows.numeric_names:
        none = np.zeros(0, dtype=np.int64)
        return Bags(np.zeros(used.size + 1, dtype=np.int64), none, np.zeros(0))
    cells = rows.text[used].ravel().tolist()
    kinds = set(map(type, cells)) if len(cells) == used.size and not rows.numeric_names else set()
    if kinds == {str}:  # one text for each row, and so its tokens are in order
        read = encode_many(cells)
        return Bags(read.start, read.bucket, read.times.astype(np.float64))
    if kinds == {np.ndarray}:
        ends = np.array([0, *(cell.shape[1] for cell in cells)], dtype=np.int64).cumsum()
        bucket_of, times_of = np.concatenate(cells, axis=1)
        return Bags(ends, bucket_of, times_of.astype(np.float64))
    texts = [k for k, cell in enumerate(cells) if isinstance(cell, str)]
    read = encode_many([cells[k] for k in texts])
    known = [k for k, cell in enumerate(cells) if isinstance(cell, np.ndarray)]
    pairs = np.concatenate([np.empty((2, 0), np.int64), *(cells[k] for k in known)], axis=1)
    owners = np.array(texts + known, dtype=np.int64) // max(len(rows.text_names), 1)
    sizes = np.append(np.diff(read.start), [cells[k].shape[1] for k in known]).astype(np.int64)
    numeric = rows.numeric[used]
    at, column = np.nonzero(numeric > 0)  # not NaN and not 0
    names = np.array([bucket(name) for name in rows.numeric_names], dtype=np.int64)
    row = np.concatenate((np.repeat(owners, sizes), at))
    found = np.concatenate((read.bucket, pairs[0], names[column]))
    times = np.concatenate((read.times, pairs[1], numeric[at, column]), dtype=np.float64)
    start = np.append(0, np.cumsum(np.bincount(row, minlength=used.size))).astype(np.int64)
    # Sorted also by count: two columns may share a bucket, and their order must not matter.
    order = np.lexsort((times, found, row))
    return Bags(start, found[order], times[order])


def exact_bags(
    rows: Rows, used: NDArray[np.int64], vocabulary: Vocabulary, learned: Iterable[int] = ()
) -> Bags:
    """The known tokens of the rows at `used`, as codes in the order of the tokens.

    Tokens of the rows used[i], for i in `learned`, first get codes, in that order.
    """
    read = [counted_tokens(rows, i) for i in used.tolist()]
    for r in learned:
        for token in dict.fromkeys(token for token, _ in read[r][0]):
            vocabulary.add(token)
    codes = vocabulary.codes
    found: list[int] = []
    times: list[float] = []
    start = [0]
    for counted, cut in read:
        known = [(codes[token], n) for token, n in counted if token in codes]
        found += [-1] * cut + [code for code, _ in known]
        times += [1.0] * cut + [n for _, n in known]
        start.append(len(found))
    return Bags(
        np.array(start, dtype=np.int64),
        np.array(found, dtype=np.int64),
        np.array(times, dtype=np.float64),
    )


def counted_tokens(rows: Rows, i: int) -> tuple[list[tuple[str, float]], int]:
    """Tokens of row i with their counts, sorted, and the number of truncated texts."""
    counts, cut = token_counts(cell for cell in rows.text[i].tolist() if cell is not None)
    numbers = zip(rows.numeric_names, rows.numeric[i].tolist(), strict=True)
    return sorted([*counts.items(), *((name, v) for name, v in numbers if v > 0)]), cut


def named_buckets(rows: Rows) -> dict[str, str]:
    """ "bucket N" to its tokens, for the texts that are not yet encoded.

    Examples
    --------
    >>> named_buckets(Rows.from_dicts([{"text": "free money", "n": 3}], strings="text"))
    {'bucket 967112': 'free', 'bucket 988132': 'money'}
    """
    named: defaultdict[int, set[str]] = defaultdict(set)
    for text in rows.text.ravel().tolist():
        if isinstance(text, str):
            for token in set(tokens(text)):
                named[bucket(token)].add(token)
    return {f"bucket {b}": " or ".join(sorted(named[b])) for b in sorted(named)}


def without_numbers(rows: Rows) -> Rows:
    """The rows without their numbers."""
    return replace(rows, numeric_names=(), numeric=np.empty((len(rows), 0)))
