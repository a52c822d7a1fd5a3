"""Doubles as the shortest decimals that read back as the same doubles, in the notation of msgspec.

The digits are those of Schubfach (R. Giulietti, The Schubfach way to render doubles, 2020): the
decimals of the two shortest lengths beside x are compared with the bounds of the interval that
rounds to x. All products are of 128 bits, so nothing is rounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import int64, uint32, uint64

from consumers.codecs._kernels.words import high_product
from stream.kernel import inlined, kernel

__all__ = ["LONGEST", "POWERS", "put_double", "put_whole"]

LONGEST = 24  # bytes of a double: -1.2345678901234567e-300
FIRST, LAST = -292, 324  # the powers of ten that a double needs
FRACTION, IMPLICIT = uint64(2**52 - 1), uint64(2**52)
SIGN, INFINITY = uint64(2**63), uint64(0x7FF << 52)
ONE, TWO, FOUR, TEN, FORTY = (uint64(n) for n in (1, 2, 4, 10, 40))
HALF, HALF_POWER = 8, uint64(10**8)
POSITIONAL = 16  # digits before the point, at most; larger numbers have an exponent
LEADING = 5  # a number below 10 ** -LEADING has an exponent


def _scaled(power: int) -> Any:
    """The 128 highest bits of 10 ** power, rounded up."""
    ten = 10 ** abs(power)
    size = ten.bit_length()
    if power < 0:
        return -((-1 << 127 + size) // ten)
    return ten << 128 - size if size <= 128 else -(-ten >> size - 128)


# uint64 (617, 2): the high and the low word of each power.
POWERS = np.array(
    [divmod(_scaled(power), 1 << 64) for power in range(FIRST, LAST + 1)], dtype=np.uint64
)


@inlined
def _rounded(high: Any, low: Any, c: Any) -> Any:
    """The third word of (high, low) times c; its last bit is set if what is cut off is not 0."""
    carried, top = high_product(low, c), high_product(high, c)
    middle = high * c + carried
    if middle < carried:
        top += ONE
    return top | ONE if middle > ONE else top


@kernel
def _shortest(bits: Any, powers: Any) -> Any:
    """Digits and exponent of ten of a positive double, given its bits. Zeros may end the digits."""
    fraction, exponent = bits & FRACTION, int64(bits >> uint64(52))
    c, q = (fraction | IMPLICIT, exponent - 1075) if exponent else (fraction, int64(-1074))
    if -53 < q <= 0:
        whole = c >> uint64(-q)
        if whole << uint64(-q) == c:  # an integer below 2 ** 53
            return whole, int64(0)
    uneven = fraction == 0 and exponent > 1  # the double below x is half as far away
    odd = c & ONE
    k = (q * 1262611 - (524031 if uneven else 0)) >> 22
    shift = uint64(q + ((-k * 1741647) >> 19) + 1)
    high, low = powers[-k - FIRST, 0], powers[-k - FIRST, 1]
    x = c << TWO
    lower = _rounded(high, low, (x - (ONE if uneven else TWO)) << shift) + odd
    middle = _rounded(high, low, x << shift)
    upper = _rounded(high, low, (x + TWO) << shift) - odd
    s = middle >> TWO
    if s >= TEN:
        tenth = s // TEN
        below, above = lower <= FORTY * tenth, FORTY * (tenth + ONE) <= upper
        if below != above:
            return tenth + uint64(above), k + 1
    below, above = lower <= FOUR * s, FOUR * (s + ONE) <= upper
    if below != above:
        return s + uint64(above), k
    half = FOUR * s + TWO
    return s + uint64(middle > half or (middle == half and s & ONE == ONE)), k


@inlined
def _put_digits(out: Any, at: Any, number: Any, count: Any) -> None:
    """Write a number of this many digits. Its halves are independent, so they overlap."""
    end = uint64(at + count)
    if count > HALF:
        left = number // HALF_POWER
        low = uint32(number - left * HALF_POWER)
        for _ in range(HALF):
            rest = low // uint32(10)
            end -= ONE
            out[end] = uint32(48) + low - rest * uint32(10)
            low = rest
        number = left
    while number >= TEN:
        rest = number // TEN
        end -= ONE
        out[end] = 48 + (number - rest * TEN)
        number = rest
    out[end - ONE] = 48 + number


@kernel
def put_whole(out: Any, at: Any, number: Any) -> Any:
    """Write an int64. Returns the end."""
    if number < 0:
        out[at] = 45
        at += 1
    left = uint64(abs(number))
    count, more = 1, TEN
    while left >= more and count < 19:
        more *= TEN
        count += 1
    _put_digits(out, at, left, count)
    return at + count


@kernel
def put_double(out: Any, at: Any, bits: Any, powers: Any) -> Any:
    """Write a double, given its bits as a uint64. Returns the end.

    NaN and infinities are null, as in msgspec.
    """
    if bits & INFINITY == INFINITY:
        out[at], out[at + 1], out[at + 2], out[at + 3] = 110, 117, 108, 108
        return at + 4
    if bits & SIGN:
        out[at] = 45
        at += 1
        bits ^= SIGN
    digits, power = uint64(0), int64(0)
    if bits:
        digits, power = _shortest(bits, powers)
    while digits >= TEN:
        tenth = digits // TEN
        if tenth * TEN != digits:
            break
        digits = tenth
        power += 1
    n, least = int64(16), uint64(10**15)  # least: the smallest number of n digits
    while digits >= least * TEN:
        least *= TEN
        n += 1
    while digits < least and n > 1:
        least //= TEN
        n -= 1
    point = n + power  # digits before the point
    if -LEADING < point <= 0:
        for k in range(2 - point):
            out[at + k] = 48
        out[at + 1] = 46
        _put_digits(out, at + 2 - point, digits, n)
        return at + 2 - point + n
    _put_digits(out, at + 1, digits, n)
    before = point if 0 < point <= POSITIONAL else int64(1)
    for k in range(before):
        out[at + k] = out[at + k + 1] if k < n else 48
    out[at + before] = 46
    end = at + max(n, before) + 1
    if before < point or point <= 0:
        if n == 1:
            end -= 1
        out[end] = 101
        return put_whole(out, end + 1, point - 1)
    if n <= before:
        out[end] = 48
        end += 1
    return end
