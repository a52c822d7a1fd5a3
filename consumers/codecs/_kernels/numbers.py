"""Decimal numbers as the nearest double.

The method is that of Eisel and Lemire: D. Lemire, "Number parsing at a gigabyte per second",
Software: Practice and Experience 51 (2021). With at most 19 digits it is exact without another
method: N. Mushtak and D. Lemire, "Fast number parsing without fallback" (2023). Numbers with more
digits, and those below the normal doubles, are not plain: they are left to the slow path.
"""

from __future__ import annotations

from typing import Any

from numpy import array, int64, nan, uint64

from consumers.codecs._kernels.words import (
    as_double,
    byte_at,
    high_product,
    high_zeros,
    low_zeros,
    word_at,
)
from stream.kernel import inlined

__all__ = ["EXACT_POWER", "LEAST", "MOST", "NOT_PLAIN", "number", "skip_number"]

NOT_PLAIN = -1
LEAST, MOST = -342, 308  # the powers of ten with which 19 digits can be a double
MOST_DIGITS = 19  # of which every one is below 2**64
EXACT = 2**53  # up to it, every integer is a double
EXACT_POWER = 22  # and every power of ten up to this one
MANTISSA = 52
BIAS = 1023
ZEROS, SIXES, UPPER = 0x3030303030303030, 0x0606060606060606, 0xF0F0F0F0F0F0F0F0
PAIRS = 0x000000FF000000FF
TENS = array([10**count for count in range(9)], uint64)
ZERO, MINUS, PLUS, POINT = 48, 45, 43, 46


@inlined
def _nearest(w: Any, power: int, fives: Any) -> Any:
    """The double nearest to w · 10^power; NaN if it is not a normal one. w uint64, not 0."""
    zeros = high_zeros(w)
    w <<= uint64(zeros)
    upper, lower = fives[power - LEAST, 0], fives[power - LEAST, 1]
    low, high = w * upper, high_product(w, upper)
    if high & uint64(0x1FF) == uint64(0x1FF):
        more = high_product(w, lower)
        low += more
        if more > low:
            high += uint64(1)
    top = high >> uint64(63)
    mantissa = high >> (top + uint64(9))
    two = ((217706 * power) >> 16) + 63 + int64(top) - zeros + BIAS
    if two <= 0 or two >= 2 * BIAS:
        return nan
    exact = low <= uint64(1) and -4 <= power <= 23 and mantissa << (top + uint64(9)) == high
    if exact and mantissa & uint64(3) == uint64(1):  # half-way between two: to the even one
        mantissa &= ~uint64(1)
    mantissa = (mantissa + (mantissa & uint64(1))) >> uint64(1)
    if mantissa >= uint64(2) << uint64(MANTISSA):
        mantissa = uint64(1) << uint64(MANTISSA)
        two += 1
    mantissa &= ~(uint64(1) << uint64(MANTISSA))
    return as_double(mantissa | uint64(two) << uint64(MANTISSA))


@inlined
def _digits(data: Any, at: int, w: int) -> Any:
    """`w` followed by the digits from `at`, modulo 2**64, and where they end.

    Up to eight digits become one number without a branch: neighbours are joined, thrice.
    """
    while True:
        word = word_at(data, at)
        other = (word & uint64(UPPER)) ^ uint64(ZEROS)
        other |= ((word + uint64(SIXES)) & uint64(UPPER)) ^ uint64(ZEROS)
        count = low_zeros(other) >> 3 if other != uint64(0) else 8  # the bytes that are digits
        if count == 0:
            return w, at
        word = (word - uint64(ZEROS)) << uint64(64 - 8 * count)  # as if zeros were before them
        word = word * uint64(10) + (word >> uint64(8))
        low = (word & uint64(PAIRS)) * uint64(100 + (1_000_000 << 32))
        high = ((word >> uint64(16)) & uint64(PAIRS)) * uint64(1 + (10_000 << 32))
        w = w * TENS[count] + ((low + high) >> uint64(32))
        at += count
        if count < 8:
            return w, at


@inlined
def _exponent(data: Any, at: int) -> Any:
    """The exponent after the letter e, at most 9999, and where it ends; else NOT_PLAIN."""
    sign = byte_at(data, at)
    if sign in (MINUS, PLUS):
        at += 1
    start, power = at, 0
    while True:
        digit = byte_at(data, at) - ZERO
        if digit < 0 or digit > 9:
            break
        power = min(10 * power + digit, 9999)
        at += 1
    return -power if sign == MINUS else power, at if at > start else NOT_PLAIN


@inlined
def number(data: Any, at: int, fives: Any, tens: Any) -> Any:
    """The double nearest to the number at `at`, and where that ends; NOT_PLAIN: not plain.

    data uint8 (n,) with eight bytes after every byte but its padding. fives uint64 (MOST - LEAST +
    1, 2): the powers of five as fractions of 128 bits, a positive one rounded down, a negative one
    up. tens float64 (EXACT_POWER + 1,): the powers of ten that are doubles.
    """
    negative = byte_at(data, at) == MINUS
    if negative:
        at += 1
    start, w = at, uint64(0)
    w, at = _digits(data, at, w)
    count = at - start
    if count == 0 or (count > 1 and byte_at(data, start) == ZERO):
        return nan, NOT_PLAIN
    power = 0
    if byte_at(data, at) == POINT:
        point = at + 1
        w, at = _digits(data, point, w)
        if at == point:
            return nan, NOT_PLAIN
        power = point - at
        count -= power
    if count > MOST_DIGITS:
        while byte_at(data, start) == ZERO or byte_at(data, start) == POINT:
            count -= byte_at(data, start) == ZERO  # a zero in front
            start += 1
        if count > MOST_DIGITS:
            return nan, NOT_PLAIN
    if byte_at(data, at) | 32 == 101:
        more, at = _exponent(data, at + 1)
        power += more
    value = 0.0
    if w != uint64(0):
        if w <= uint64(EXACT) and -EXACT_POWER <= power <= EXACT_POWER:
            value = float(w) * tens[power] if power >= 0 else float(w) / tens[-power]
        elif LEAST <= power <= MOST:
            value = _nearest(w, power, fives)
        else:
            value = nan
        if value != value:
            return nan, NOT_PLAIN
    return -value if negative else value, at


@inlined
def _after_digits(data: Any, at: int) -> int:
    while ZERO <= byte_at(data, at) <= ZERO + 9:
        at += 1
    return at


@inlined
def skip_number(data: Any, at: int) -> int:
    """Where the number at `at` ends; else NOT_PLAIN."""
    if byte_at(data, at) == MINUS:
        at += 1
    start = at
    at = _after_digits(data, at)
    if at == start or (at > start + 1 and byte_at(data, start) == ZERO):
        return NOT_PLAIN
    if byte_at(data, at) == POINT:
        point = at + 1
        at = _after_digits(data, point)
        if at == point:
            return NOT_PLAIN
    if byte_at(data, at) | 32 == 101:
        _, at = _exponent(data, at + 1)
    return at
