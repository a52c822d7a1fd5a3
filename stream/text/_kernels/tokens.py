"""Kernels of tokens in buckets."""

from __future__ import annotations

from typing import Any

from numpy import uint64

from stream.kernel import kernel

BUCKET = 1 << 20  # flag: the key has a bucket. A key without it marks a truncated text


@kernel
def put_before(code: int, key: int, size: int, shares: Any) -> int:
    """The key of `size` bytes with the UTF-8 bytes of `code`, 0x80 … 0xFFFF, prepended."""
    key ^= shares[size, (0x80 | code & 63) << 2]
    if code < 0x800:
        return int(key ^ shares[size + 1, (0xC0 | code >> 6) << 2])
    key ^= shares[size + 1, (0x80 | code >> 6 & 63) << 2]
    return int(key ^ shares[size + 2, (0xE0 | code >> 12) << 2])


@kernel
def scatter(key: Any, shift: int, mask: int, bins: Any, out: Any) -> None:
    """Copy key int64 (k,) to out, stably sorted by (key >> shift) & mask.

    bins int64: scratch, longer than the largest digit.
    """
    bins[:] = 0
    for i in range(key.shape[0]):
        bins[(key[i] >> shift & mask) + 1] += 1
    for b in range(1, bins.shape[0]):
        bins[b] += bins[b - 1]
    for i in range(key.shape[0]):
        digit = key[i] >> shift & mask
        out[bins[digit]] = key[i]
        bins[digit] += 1


@kernel
def sort(key: Any, other: Any, bins: Any) -> None:
    """Sort keys written by `scan` into other int64 (k,): digit by digit, O(k).

    bins int64: scratch, longer than 2048 and longer than the number of rows.
    """
    scatter(key, 0, 0x7FF, bins[:2049], other)
    scatter(other, 11, 0x3FF, bins[:1025], key)
    scatter(key, 21, 0x7FFFFFFF, bins, other)


@kernel
def scan(code: Any, end: Any, folding: Any, shares: Any, most: int, key: Any, hard: Any) -> int:
    """The tokens of each text as key int64: row << 21 | BUCKET | bucket; returns their number.

    code int32 (n,): the code points of all texts; end int64 (t,): the end of each text. folding
    int32: 4 · lower case + kind (0 word, 1 space, 2 sign); -1 if it depends on neighbours. shares
    int32 (sizes, 1024): what a byte adds to the bucket of its token, by the number of following
    bytes, at 4 · byte + any kind. A text gets no key and hard bool (t,) = True if it has a code
    point without folding, more than `most` tokens, or a token longer than sizes - 3. key: room for
    n + t.
    """
    # Backwards, so that the number of following bytes is known and no byte depends on the one
    # before it. The start of a token cannot be predicted, so instead of branching, a key is written
    # that may be kept. One loop over all texts is compiled better than nested loops. Unsigned
    # indices need no check for negative values.
    row = end.shape[0]
    first = i = code.shape[0]
    k = begin = 0
    empty = token = size = 0
    last = 1  # as if a space followed the last character
    while True:
        i -= 1
        if i < first:
            if last != 1:
                key[k] = token
                k += 1
            if k - begin > most:
                hard[row] = True
                k = begin
            row -= 1
            if row < 0:
                return k
            first, i, begin = end[row - 1] if row > 0 else 0, end[row], k
            empty = token = row << 21 | BUCKET
            size, last = 0, 1
            continue
        c = code[uint64(i)]
        folded = folding[uint64(c)] if c < folding.shape[0] else -1
        if folded < 0 or size > shares.shape[0] - 3:
            hard[row] = True
            k, last, i = begin, 1, first
            continue
        kind = folded & 3
        begins = int(kind != last)
        key[uint64(k)] = token
        k += begins & int(last != 1)
        token ^= (token ^ empty) & -begins
        size &= begins - 1
        last = kind
        if folded < 0x200:
            token ^= shares[uint64(size), uint64(folded)]
            size += 1
        else:
            low = folded >> 2
            token = put_before(low, token, size, shares)
            size += 2 if low < 0x800 else 3


@kernel
def count(key: Any, start: Any, bucket: Any, times: Any) -> int:
    """Combine equal keys into one bucket with its count. Returns the number of buckets.

    key int64 (k,), rising. start int64 (t + 1,): row r has the buckets start[r] … start[r+1]-1.
    bucket, times int64: room for k.
    """
    n = 0
    row = 0
    for i in range(key.shape[0]):
        if i > 0 and key[i] == key[i - 1]:
            times[n - 1] += 1
            continue
        while row <= key[i] >> 21:
            start[row] = n
            row += 1
        bucket[n] = key[i] & BUCKET - 1 if key[i] & BUCKET else -1
        times[n] = 1
        n += 1
    while row < start.shape[0]:
        start[row] = n
        row += 1
    return n
