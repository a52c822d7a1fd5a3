"""Tokens to buckets: CRC-32 of the UTF-8 bytes, its lowest 20 bits.

It is stable over machines and versions, so buckets may be saved; tokens that share a bucket are
one token from then on. A text counts up to `MAX_TOKENS` tokens; a text cut there says so by a
bucket of -1.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from stream.text.tokens import tokens

__all__ = ["BUCKETS", "MAX_TOKENS", "bucket", "encode"]

BUCKETS = 2**20
MAX_TOKENS = 100_000


def bucket(token: str) -> int:
    """The bucket of a token.

    Examples
    --------
    >>> bucket("free")
    967112
    """
    return crc32(token.encode("utf-8", "surrogatepass")) & (BUCKETS - 1)


def encode(text: str) -> NDArray[np.int64]:
    """Buckets of `text`, each once and rising, over their counts: int64, (2, k).

    Examples
    --------
    >>> encode("free, free money").tolist()
    [[689006, 967112, 988132], [1, 2, 1]]
    """
    stream = tokens(text)
    counts: dict[int, int] = {}
    for token, n in Counter(islice(stream, MAX_TOKENS)).items():
        b = bucket(token)
        counts[b] = counts.get(b, 0) + n
    if next(stream, None) is not None:
        counts[-1] = 1
    found = sorted(counts)
    return np.array([found, [counts[b] for b in found]], dtype=np.int64)
