"""Tokens to buckets: CRC-32 of the UTF-8 bytes, its lowest 20 bits.

It is the same on all machines and in all versions, so buckets may be saved. Tokens in the same
bucket count as the same token. Only the first `MAX_TOKENS` tokens of a text are used. A truncated
text has the additional bucket -1 with count 1.
"""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from stream.data.parameters import shown
from stream.data.schema import BUCKETS
from stream.data.state import Saved
from stream.errors import SchemaError
from stream.text._kernels import tokens as kernels
from stream.text.tokens import folding, tokens

__all__ = ["LEARNED_BUCKETS", "MAX_TOKENS", "HashedTexts", "bucket", "encode", "encode_many"]

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
    O(characters). Texts of independent characters below U+3000 (see `stream.text.tokens.folding`)
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
