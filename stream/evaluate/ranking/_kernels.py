"""Kernels of areas under curves. Self-contained, so that the compiled form is never stale.

Posteriors lie in 0 … 1, where floats are ordered as their bits are; so they are sorted as whole
numbers, digit by digit (LSD radix sort; Knuth, The Art of Computer Programming 3, 5.2.5): no
comparison can be mispredicted, and it takes less than half the time of a sort that compares.
Only whole numbers are made here.
"""

from __future__ import annotations

from typing import Any

from numba import njit
from numpy import empty, int64, uint64, zeros

DIGIT = 11  # bits: a digit's counts stay in the nearest cache, and six digits hold a key
DIGITS = 6
ONE = uint64(1)
MASK = uint64((1 << DIGIT) - 1)


@njit(cache=True)
def rank(true: Any, bits: Any) -> Any:
    """Where the records of each class stand among the rest, by the posterior of that class.

    true int64 (n,): classes; bits uint64 (n, R): the bits of the posteriors. Returns, by class,
    `members` int64 (R,), how many records are of it, and `in_order` int64 (R,), twice the pairs of
    one of them and one of the rest that are in order, equal ones counting half; and, by record of
    a class, one class behind the other, `mine` and `rest` int64: how many of the class and of the
    rest have its posterior or more. A class of all records, or of none, has no such part.
    """
    n, classes = bits.shape
    members, in_order = zeros(classes, int64), zeros(classes, int64)
    mine, rest = empty(n, int64), empty(n, int64)
    keys, spare = empty(n, uint64), empty(n, uint64)
    counts = empty((DIGITS, 1 << DIGIT), int64)
    end = 0
    for c in range(classes):
        for i in range(n):
            of = true[i] == c
            members[c] += of
            keys[i] = (bits[i, c] << ONE) | uint64(of)  # -0.0 becomes 0.0: its sign falls out
        m = members[c]
        if 0 < m < n:
            ordered = _sorted(keys, spare, counts)
            in_order[c] = _places(ordered, mine[end : end + m], rest[end : end + m])
            end += m
    return members, in_order, mine[:end], rest[:end]


@njit(cache=True)
def _places(ordered: Any, mine: Any, rest: Any) -> int:
    """Write `mine` and `rest` of a class from its sorted keys; the pairs in order, twice."""
    n, m = ordered.size, mine.size
    in_order = below = done = begin = 0
    while begin < n:
        score, end, ours = ordered[begin] >> ONE, begin, 0
        while end < n and ordered[end] >> ONE == score:
            if ordered[end] & ONE:
                ours += 1
            end += 1
        theirs = end - begin - ours
        in_order += ours * (2 * below + theirs)
        mine[done : done + ours] = m - done
        rest[done : done + ours] = n - m - below
        below, done, begin = below + theirs, done + ours, end
    return in_order


@njit(cache=True)
def _sorted(keys: Any, spare: Any, counts: Any) -> Any:
    """The keys in order, in one of the two arrays uint64 (n,); counts int64 (DIGITS, 2^DIGIT)."""
    counts[:] = 0
    for key in keys:
        left = key
        for d in range(DIGITS):
            counts[d, left & MASK] += 1
            left >>= uint64(DIGIT)
    for d in range(DIGITS):
        shift, places = uint64(DIGIT * d), counts[d]
        if places[(keys[0] >> shift) & MASK] == keys.size:
            continue  # all have the same
        at = 0
        for digit in range(places.size):
            places[digit], at = at, at + places[digit]
        for key in keys:
            digit = (key >> shift) & MASK
            spare[places[digit]] = key
            places[digit] += 1
        keys, spare = spare, keys
    return keys
