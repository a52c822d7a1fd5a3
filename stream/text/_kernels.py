"""Kernels of text. Self-contained, so that their compiled form on disk is never stale."""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True)
def checksum(code: int, crc: int, table: Any) -> int:
    """CRC-32, so far `crc` (not yet inverted), continued by the UTF-8 bytes of `code` < 0x10000.

    table int64 (256,): the CRC of each byte. int64 throughout: numba mixes uint64 to float.
    """
    last = code
    if code >= 0x80:
        last = 0x80 | code & 63
        if code < 0x800:
            crc = table[(crc ^ (0xC0 | code >> 6)) & 255] ^ (crc >> 8)
        else:
            crc = table[(crc ^ (0xE0 | code >> 12)) & 255] ^ (crc >> 8)
            crc = table[(crc ^ (0x80 | code >> 6 & 63)) & 255] ^ (crc >> 8)
    return int(table[(crc ^ last) & 255] ^ (crc >> 8))


@njit(cache=True)
def scatter(key: Any, shift: int, mask: int, bins: Any, out: Any) -> None:
    """Copy key int64 (k,) to out, ordered by (key >> shift) & mask, equals as they stand.

    bins int64: scratch, longer than any of these digits.
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


@njit(cache=True)
def sort(key: Any, other: Any, bins: Any) -> None:
    """Keys as `scan` writes them to rising ones in other int64 (k,): digit by digit, O(k).

    bins int64: scratch, longer than 2048 and than the number of rows.
    """
    scatter(key, 0, 0x7FF, bins[:2049], other)
    scatter(other, 11, 0x3FF, bins[:1025], key)
    scatter(key, 21, 0x7FFFFFFF, bins, other)


@njit(cache=True)
def scan(
    code: Any, end: Any, folding: Any, table: Any, mask: int, most: int, key: Any, hard: Any
) -> int:
    """The tokens of each text as key int64: row << 21 | 1 + bucket; returns how many.

    code int32 (n,): the code points of all texts; end int64 (t,): where each text ends. folding
    int32: 4 · lower case + kind (0 word, 1 space, 2 sign), -1 where that cannot be said. A text
    with more than `most` tokens is cut there and gets the bucket -1 once. A text with a code
    point that has no folding gets no key and hard bool (t,) of True. key: room for n + t.
    """
    k = 0
    start = 0
    for row in range(end.shape[0]):
        begin, last, crc = k, 1, 0xFFFFFFFF
        for i in range(start, end[row] + 1):
            folded = 1  # behind the last character, a space ends the last token
            if i < end[row]:
                c = code[i]
                folded = folding[c] if c < folding.shape[0] else -1
            if folded < 0:
                hard[row] = True
                k = begin
                break
            # Where a token ends nobody can foretell: so no jumps, but a key that may be kept.
            kind = folded & 3
            other = kind != last
            key[k] = row << 21 | 1 + ((crc ^ 0xFFFFFFFF) & mask)
            k += 1 if other and last != 1 else 0
            crc = 0xFFFFFFFF if other else crc
            crc = checksum(folded >> 2, crc, table)
            last = kind
        if k - begin > most:
            k = begin + most
            key[k] = row << 21
            k += 1
        start = end[row]
    return k


@njit(cache=True)
def count(key: Any, start: Any, bucket: Any, times: Any) -> int:
    """Equal keys as one bucket with its times; returns how many buckets there are.

    key int64 (k,), rising. start int64 (t + 1,): row r has buckets start[r] … start[r+1]-1.
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
        bucket[n] = (key[i] & 0x1FFFFF) - 1
        times[n] = 1
        n += 1
    while row < start.shape[0]:
        start[row] = n
        row += 1
    return n
