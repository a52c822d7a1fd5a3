"""Bytes as numbers: loads and stores without checks of bounds, and operations of 64 bits.

The caller ensures that every byte exists. Words are little-endian, as on all machines of numba's
wheels.
"""

from __future__ import annotations

from typing import Any

from numpy import float64, frombuffer, int64, uint8, uint64

from stream.kernel import intrinsic, machine

__all__ = ["as_double", "byte_at", "high_product", "high_zeros", "low_zeros", "put_word", "word_at"]

WORD_BYTES = 8


def _part(data: Any, at: int, count: int) -> slice:
    """`count` bytes from `at` of data, uint8 (n,), for a twin."""
    if not 0 <= at <= data.size - count:
        raise IndexError(f"expected {count} bytes from {at}, got {data.size} bytes")
    return slice(int(at), int(at) + count)


def _bits(count: int) -> Any:
    return machine.ir.IntType(count)


def _place(context: Any, builder: Any, signature: Any, given: Any, kind: Any) -> Any:
    data = context.make_array(signature.args[0])(context, builder, given[0]).data
    return builder.bitcast(builder.gep(data, [given[1]]), kind.as_pointer())


def _byte_at(data: Any, at: int) -> Any:
    """The twin of `byte_at`."""
    return int64(data[_part(data, at, 1)].item())


@intrinsic(_byte_at)
def byte_at(typing: Any, data: Any, at: Any) -> Any:
    """The byte at `at` of data, uint8 (n,), as int64."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        place = _place(context, builder, signature, given, _bits(8))
        return builder.zext(builder.load(place), _bits(64))

    return machine.types.int64(data, machine.types.int64), code


def _word_at(data: Any, at: int) -> Any:
    """The twin of `word_at`."""
    return uint64(int.from_bytes(data[_part(data, at, WORD_BYTES)].tobytes(), "little"))


@intrinsic(_word_at)
def word_at(typing: Any, data: Any, at: Any) -> Any:
    """The eight bytes from `at` of data, uint8 (n,), as uint64."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.load(_place(context, builder, signature, given, _bits(64)), align=1)

    return machine.types.uint64(data, machine.types.int64), code


def _put_word(data: Any, at: int, word: Any) -> None:
    """The twin of `put_word`."""
    data[_part(data, at, WORD_BYTES)] = frombuffer(int(word).to_bytes(WORD_BYTES, "little"), uint8)


@intrinsic(_put_word)
def put_word(typing: Any, data: Any, at: Any, word: Any) -> Any:
    """Write eight bytes from `at` of data, uint8 (n,)."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        builder.store(given[2], _place(context, builder, signature, given, _bits(64)), align=1)
        return context.get_dummy_value()

    return machine.types.void(data, machine.types.int64, machine.types.uint64), code


def _high_zeros(word: Any) -> Any:
    """The twin of `high_zeros`."""
    return int64(64 - int(word).bit_length())


@intrinsic(_high_zeros)
def high_zeros(typing: Any, word: Any) -> Any:
    """The number of zero bits above the highest bit of a word that is not 0."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.ctlz(given[0], machine.ir.Constant(machine.ir.IntType(1), 1))

    return machine.types.int64(machine.types.uint64), code


def _low_zeros(word: Any) -> Any:
    """The twin of `low_zeros`."""
    return int64((int(word) & -int(word)).bit_length() - 1)


@intrinsic(_low_zeros)
def low_zeros(typing: Any, word: Any) -> Any:
    """The number of zero bits below the lowest bit of a word that is not 0."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.cttz(given[0], machine.ir.Constant(machine.ir.IntType(1), 1))

    return machine.types.int64(machine.types.uint64), code


def _high_product(a: Any, b: Any) -> Any:
    """The twin of `high_product`."""
    return uint64((int(a) * int(b)) >> 64)


@intrinsic(_high_product)
def high_product(typing: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of the product of two words. The lower ones are a * b."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        both = builder.mul(*[builder.zext(each, _bits(128)) for each in given])
        return builder.trunc(builder.lshr(both, machine.ir.Constant(_bits(128), 64)), _bits(64))

    return machine.types.uint64(machine.types.uint64, machine.types.uint64), code


def _as_double(word: Any) -> Any:
    """The twin of `as_double`."""
    return uint64(word).view(float64)


@intrinsic(_as_double)
def as_double(typing: Any, word: Any) -> Any:
    """The double with these bits."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.bitcast(given[0], machine.ir.DoubleType())

    return machine.types.float64(machine.types.uint64), code
