"""Kernels that several rooms share: fading weights, logarithms, a search, a posterior."""

from __future__ import annotations

from math import exp, inf
from typing import Any

from numpy import empty, int64, true_divide

from stream.kernel import inlined, kernel

LARGEST_UNIT = 2.0**64  # above it, all weights are divided by it, which is exact
LOWEST = -1e300  # below every log likelihood of a double; finite, so that terms can be added
HALF_ROOT = 0x3FE6A09E667F3BCD  # the bits of the root of 1/2
HIGH_LN2, LOW_LN2 = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # their sum is ln 2
LOG2_E = 1.44269504088896338700
TO_WHOLE = 6755399441055744.0  # 1.5 · 2^52: a number of that size has no fraction


@kernel
def advance(unit: Any, growth: float) -> bool:
    """Advance the unit, float64 (1,), by one record: new weights count `growth` times as much.

    Returns whether the unit was divided by LARGEST_UNIT, as all weights then must be.
    """
    unit[0] *= growth
    if unit[0] <= LARGEST_UNIT:
        return False
    unit[0] /= LARGEST_UNIT
    return True


@kernel
def scale_down(table: Any) -> None:
    """Divide the weights of a table, float64 (n, m), by LARGEST_UNIT."""
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            table[i, j] /= LARGEST_UNIT


@kernel
def whole_power(x: float, n: int) -> float:
    """x to the power n >= 0, by squaring; infinity, and no error, if it is too large.

    `x ** n` has other bits when it is compiled: numba multiplies, and Python calls the library's
    pow. These products are the same in both.
    """
    result = 1.0
    while n > 0:
        if n & 1:
            result *= x
        n >>= 1
        x *= x
    return result


@inlined
def logs_of(p: Any, bits: Any, power: Any) -> None:
    """Replace each p, float64 (n,) above 0 with full precision, by its logarithm.

    bits: p.view(int64). power float64 (n,): scratch. Unlike the library's log, these loops are
    vectorised. The formula and its constants are from fdlibm's e_log.c: log(2^k (1 + f)) with 1 + f
    between the roots of 1/2 and 2; the error is below 1 ulp.
    """
    for i in range(p.shape[0]):
        k = (bits[i] - HALF_ROOT) >> 52
        power[i] = k
        bits[i] -= k << 52
    for i in range(p.shape[0]):
        k, f = power[i], p[i] - 1.0
        half = 0.5 * f * f
        r = true_divide(f, 2.0 + f)
        z = r * r
        u = z * z
        even = u * (0.3999999999940941908 + u * (0.2222219843214978396 + u * 0.1531383769920937332))
        odd = 0.2857142874366239149 + u * (0.1818357216161805012 + u * 0.1479819860511658591)
        odd = z * (0.6666666666666735130 + u * odd)
        low = r * (half + (odd + even)) + k * LOW_LN2
        p[i] = k * HIGH_LN2 - ((half - low) - f)


@kernel
def take_logs(p: Any) -> None:
    """Replace each p > 0, float64 (n,), with full precision, by its logarithm."""
    if p.size == 0:
        return
    logs_of(p, p.view(int64), empty(p.size))


@inlined
def exps_of(x: Any, bits: Any, power: Any, powers: Any) -> None:
    """Replace each x, float64 (n,) of at most 0, by exp(x); at least exp(-708), a normal number.

    bits: x.view(int64). power float64 (n,): scratch; powers: power.view(int64). As `logs_of`, from
    fdlibm's e_exp.c: 2^k exp(r) with r between -ln(2)/2 and ln(2)/2; the error is below 1 ulp.
    """
    for i in range(x.shape[0]):
        v = x[i] if x[i] > -708.0 else -708.0
        power[i] = v * LOG2_E + TO_WHOLE  # rounded: its last bits are those of k
        k = power[i] - TO_WHOLE
        high, low = v - k * HIGH_LN2, k * LOW_LN2
        r = high - low
        t = r * r
        c = 6.61375632143793436117e-05 + t * (
            -1.65339022054652515390e-06 + t * 4.13813679705723846039e-08
        )
        c = r - t * (1.66666666666666019037e-01 + t * (-2.77777777770155933842e-03 + t * c))
        x[i] = 1.0 - ((low - true_divide(r * c, 2.0 - c)) - high)
    for i in range(x.shape[0]):
        bits[i] += powers[i] << 52


@kernel
def first_not_below(x: float, values: Any, n: int) -> int:
    """Index of the first of n rising values that is not below x."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if values[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def normalise_row(joint: Any, prior: Any, k: int, known: int) -> None:
    """Turn row k of joint float64 (n, C) into its posterior; the prior if all are -inf."""
    top = -inf
    for c in range(known):
        top = max(top, joint[k, c])
    if top == -inf:
        for c in range(known):
            joint[k, c] = prior[k, c]
            top = max(top, joint[k, c])
    total = 0.0
    for c in range(known):
        lower = joint[k, c] - top if top > -inf else 0.0
        joint[k, c] = exp(lower) if lower < 0.0 else 1.0
        total += joint[k, c]
    share = true_divide(1.0, total)
    for c in range(known):
        joint[k, c] *= share
