"""Whole powers in kernels: the same bits interpreted and compiled."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from stream.kernel._kernels import whole_power

# The power of each is about 0.7 … 1.4 times a power of two, so that no product is subnormal.
BASES = st.floats(0.5, 2.0)
EXPONENTS = st.integers(0, 1000)


@given(x=BASES, n=EXPONENTS)
def test_a_whole_power_is_the_same_interpreted_and_compiled(x: float, n: int) -> None:
    """`x ** n` itself differs for most pairs of these."""
    assert whole_power(x, n) == whole_power.py_func(x, n)


@given(x=BASES, n=EXPONENTS)
def test_a_whole_power_is_near_the_exact_one(x: float, n: int) -> None:
    """Each product is rounded once, and a square passes on twice the error of its root."""
    exact = Fraction(x) ** n

    assert abs(Fraction(whole_power(x, n)) / exact - 1) <= Fraction(2 * n + 1, 2**53)


@given(n=st.integers(0, 1023))
def test_a_whole_power_of_two_is_exact(n: int) -> None:
    """Up to the largest one, whose next square would be infinite."""
    assert whole_power(2.0, n) == math.ldexp(1.0, n)


def test_a_whole_power_that_is_too_large_is_infinite() -> None:
    """Python's own power raises an OverflowError."""
    for power in (whole_power, whole_power.py_func):
        assert power(1.5, 2**40) == math.inf
        assert power(0.0, 0) == 1.0
