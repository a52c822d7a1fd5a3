"""Intrinsics for eight features in adjacent lanes: see `gaussian`.

`Lanes` writes vector code that the compiler does not generate from loops. Choices that depend on a
lane use arithmetic instead of branches. The twins compute the same with arrays of eight.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from operator import add, mul
from typing import Any

from numpy import where

from stream.kernel import intrinsic, machine

LANES = 8
HEAD = 2  # rows of a chunk before the moments
# Offsets in a chunk, in numbers, relative to a weight; SCALED: from the anchor of a lane.
MEAN, M2, VAR = 8, 16, 24
SCALED = 8
NEAR_SQUARE, FAR_SQUARE = 2.0**-400, 2.0**400
SMALL, LARGE = 2.0**-120, 2.0**120  # a product of eight between them keeps all digits
TWO_PI = 2.0 * pi


def _eight(data: Any, at: Any) -> Any:
    """The eight numbers from `at` of data, float64 (n,)."""
    if not 0 <= at <= data.size - LANES:
        raise IndexError(f"expected eight numbers from {at}, got an array of {data.size}")
    return data[int(at) : int(at) + LANES]


def _values(xs: Any, r: Any, s: Any, b: Any) -> Any:
    """The row's values at xs[r] as the chunk at s[b] has them."""
    return (_eight(xs, r) - _eight(s, b)) * _eight(s, int(b) + SCALED)


def _fold(v: Any, by: Callable[[float, float], float]) -> float:
    """Reduce eight numbers as `Lanes.folded`."""
    found = [float(x) for x in v]
    while len(found) > 1:
        half = len(found) // 2
        found = [by(found[i], found[half + i]) for i in range(half)]
    return found[0]


def _evidence(
    xs: Any, r: Any, s: Any, b: Any, a: Any, smoothing: float
) -> tuple[float, float, bool]:
    """The twin of `evidence`."""
    a, v, spread = int(a), _values(xs, r, s, b), _eight(s, int(b) + 8 * HEAD + VAR)
    evident = (v == v) & (spread > 0.0)
    d = where(evident, v - _eight(s, a + MEAN), 0.0)
    var = _eight(s, a + VAR) + spread * smoothing
    squares = d * d / where(evident, var, 1.0)
    scaled = where(evident, var * TWO_PI, 1.0)
    usual = bool(((scaled > SMALL) & (scaled < LARGE)).all())
    return _fold(squares, add), _fold(scaled, mul), usual


def _learn(xs: Any, r: Any, s: Any, b: Any, a: Any, w: float, scale: float) -> None:
    """The twin of `learn`."""
    a, v = int(a), _values(xs, r, s, b)
    n, mean, m2, var = (_eight(s, a + off) for off in (0, MEAN, M2, VAR))
    here = v == v
    after = n + where(here, w, 0.0)
    inverse = 1.0 / (after * scale)
    share = where(here & (n > 0.0), w * scale * inverse, 1.0)
    d = where(here, v - mean, 0.0)
    new_m2 = m2 + d * d * (n * share)
    new_mean, new_var = mean + d * share, where(here, new_m2 * inverse, var)
    n[:], mean[:], m2[:], var[:] = after, new_mean, new_m2, new_var


def _outlying(xs: Any, r: Any, s: Any, b: Any) -> bool:
    """The twin of `outlying`."""
    v = _values(xs, r, s, b)
    square = v * v
    return bool(((v != 0.0) & (v == v) & ((square < NEAR_SQUARE) | (square > FAR_SQUARE))).any())


def _numbers() -> Any:
    return machine.ir.VectorType(machine.ir.DoubleType(), LANES)


def _place() -> Any:
    return machine.ir.IntType(32)


def _by(instruction: str, *how: str) -> Any:
    """A method that applies an instruction to another eight lanes, or to one number."""

    def do(self: Lanes, x: Any) -> Lanes:
        two = self.value, self.all_of(x)
        return Lanes(self.builder, getattr(self.builder, instruction)(*how, *two))

    return do


class Lanes:
    """Eight numbers or truth values in the code of an intrinsic. Operators apply to all eight."""

    __add__, __sub__, __mul__, __truediv__ = map(_by, ("fadd", "fsub", "fmul", "fdiv"))
    __and__, __or__ = _by("and_"), _by("or_")
    __gt__, __lt__, differs = (_by("fcmp_ordered", how) for how in (">", "<", "!="))

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def all_of(self, x: Any) -> Any:
        """One number in all eight lanes, or the lanes of `x`."""
        if isinstance(x, Lanes):
            return x.value
        if isinstance(x, float):
            return machine.ir.Constant(_numbers(), [x] * LANES)
        first = self.builder.insert_element(self.value, x, machine.ir.Constant(_place(), 0))
        return self.at(first, [0] * LANES)

    def at(self, value: Any, places: list[int]) -> Any:
        """The elements of a vector at these positions."""
        mask = machine.ir.Constant(machine.ir.VectorType(_place(), len(places)), places)
        return self.builder.shuffle_vector(
            value, machine.ir.Constant(value.type, machine.ir.Undefined), mask
        )

    def there(self) -> Lanes:
        """Which lanes are not NaN."""
        return Lanes(self.builder, self.builder.fcmp_ordered("ord", self.value, self.value))

    def where(self, truths: Lanes, otherwise: Any) -> Lanes:
        """These where `truths` are, `otherwise` elsewhere."""
        chosen = self.builder.select(truths.value, self.value, self.all_of(otherwise))
        return Lanes(self.builder, chosen)

    def folded(self, instruction: str) -> Any:
        """Reduce all lanes by an instruction: the first half with the second, and so on."""
        v = self.value
        for half in (4, 2, 1):
            ends = self.at(v, list(range(half))), self.at(v, list(range(half, 2 * half)))
            v = getattr(self.builder, instruction)(*ends)
        return self.builder.extract_element(v, machine.ir.Constant(_place(), 0))

    def truths(self, how: str, bits: int) -> Any:
        """Whether all truth values (==, 2**LANES - 1) or any (!=, 0) are set, one per bit."""
        found = self.builder.bitcast(self.value, machine.ir.IntType(LANES))
        return self.builder.icmp_unsigned(how, found, machine.ir.Constant(found.type, bits))


def _memory(context: Any, builder: Any, signature: Any, args: Any, n: int) -> Any:
    """Functions that read and write the eight lanes at an index (also an argument) of the n-th
    argument."""
    data = context.make_array(signature.args[n])(context, builder, args[n]).data

    def place(i: int, off: int) -> Any:
        at = builder.gep(data, [builder.add(args[i], machine.ir.Constant(args[i].type, off))])
        return builder.bitcast(at, _numbers().as_pointer())

    return (
        lambda i, off=0: Lanes(builder, builder.load(place(i, off), align=8)),
        lambda i, off, lanes: builder.store(lanes.value, place(i, off), align=8),
    )


@intrinsic(_evidence)
def evidence(typing: Any, xs: Any, r: Any, s: Any, b: Any, a: Any, smoothing: Any) -> Any:
    """The evidence of the row's eight values at xs[r], for the chunk at s[b] and its class at s[a].

    Returns the sum of squares over variances, the product of 2 pi variances, and whether that is
    precise.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (row, _), (cell, _) = (_memory(context, builder, signature, args, n) for n in (0, 2))
        v, spread = (row(1) - cell(3)) * cell(3, SCALED), cell(3, 8 * HEAD + VAR)
        evident = v.there() & (spread > 0.0)
        d, var = (v - cell(4, MEAN)).where(evident, 0.0), cell(4, VAR) + spread * args[5]
        squares = d * d / var.where(evident, 1.0)
        scaled = (var * TWO_PI).where(evident, 1.0)
        usual = ((scaled > SMALL) & (scaled < LARGE)).truths("==", 2**LANES - 1)
        found = squares.folded("fadd"), scaled.folded("fmul"), usual
        return context.make_tuple(builder, signature.return_type, found)

    found = machine.types.Tuple(
        (machine.types.float64, machine.types.float64, machine.types.boolean)
    )
    return found(xs, r, s, b, a, smoothing), code


@intrinsic(_learn)
def learn(typing: Any, xs: Any, r: Any, s: Any, b: Any, a: Any, w: Any, scale: Any) -> Any:
    """Learn the row's eight values at xs[r] with weight w > 0: the chunk at s[b], its moments at
    s[a].

    scale: 1, or SCALE if w is so small that its inverse might overflow.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (row, _), (cell, put) = (_memory(context, builder, signature, args, n) for n in (0, 2))
        v = (row(1) - cell(3)) * cell(3, SCALED)
        n, mean, m2, var = cell(4), cell(4, MEAN), cell(4, M2), cell(4, VAR)
        here, one, weight = v.there(), *(Lanes(builder, v.all_of(x)) for x in (1.0, args[5]))
        after = n + weight.where(here, 0.0)
        inverse = one / (after * args[6])
        share = (weight * args[6] * inverse).where(here & (n > 0.0), 1.0)
        d = (v - mean).where(here, 0.0)
        m2 = m2 + d * d * (n * share)
        after_mean, after_var = mean + d * share, (m2 * inverse).where(here, var)
        for off, lanes in (0, after), (MEAN, after_mean), (M2, m2), (VAR, after_var):
            put(4, off, lanes)
        return context.get_dummy_value()

    return machine.types.void(xs, r, s, b, a, w, scale), code


@intrinsic(_outlying)
def outlying(typing: Any, xs: Any, r: Any, s: Any, b: Any) -> Any:
    """Whether one of the row's eight values at xs[r] may need another scale than the chunk at s[b]
    has."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (row, _), (cell, _) = (_memory(context, builder, signature, args, n) for n in (0, 2))
        v = (row(1) - cell(3)) * cell(3, SCALED)
        square = v * v
        return (v.differs(0.0) & ((square < NEAR_SQUARE) | (square > FAR_SQUARE))).truths("!=", 0)

    return machine.types.boolean(xs, r, s, b), code
