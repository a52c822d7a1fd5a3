"""Bytes as numbers: loads and stores without checks of bounds, and operations of 64 bits.

The caller ensures that every byte exists. Words are little-endian, as on all machines of numba's
wheels.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

__all__ = ["as_double", "byte_at", "high_product", "high_zeros", "low_zeros", "put_word", "word_at"]

BYTE, WORD, DOUBLE_WORD = ir.IntType(8), ir.IntType(64), ir.IntType(128)


def _place(context: Any, builder: Any, signature: Any, given: Any, kind: Any) -> Any:
    data = context.make_array(signature.args[0])(context, builder, given[0]).data
    return builder.bitcast(builder.gep(data, [given[1]]), kind.as_pointer())


@intrinsic
def byte_at(typing: Any, data: Any, at: Any) -> Any:
    """The byte at `at` of data, uint8 (n,), as int64."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        place = _place(context, builder, signature, given, BYTE)
        return builder.zext(builder.load(place), WORD)

    return types.int64(data, types.int64), code


@intrinsic
def word_at(typing: Any, data: Any, at: Any) -> Any:
    """The eight bytes from `at` of data, uint8 (n,), as uint64."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.load(_place(context, builder, signature, given, WORD), align=1)

    return types.uint64(data, types.int64), code


@intrinsic
def put_word(typing: Any, data: Any, at: Any, word: Any) -> Any:
    """Write eight bytes from `at` of data, uint8 (n,)."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        builder.store(given[2], _place(context, builder, signature, given, WORD), align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), code


@intrinsic
def high_zeros(typing: Any, word: Any) -> Any:
    """The number of zero bits above the highest bit of a word that is not 0."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.ctlz(given[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), code


@intrinsic
def low_zeros(typing: Any, word: Any) -> Any:
    """The number of zero bits below the lowest bit of a word that is not 0."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.cttz(given[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), code


@intrinsic
def high_product(typing: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of the product of two words. The lower ones are a * b."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        both = builder.mul(*[builder.zext(each, DOUBLE_WORD) for each in given])
        return builder.trunc(builder.lshr(both, ir.Constant(DOUBLE_WORD, 64)), WORD)

    return types.uint64(types.uint64, types.uint64), code


@intrinsic
def as_double(typing: Any, word: Any) -> Any:
    """The double with these bits."""

    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.bitcast(given[0], ir.DoubleType())

    return types.float64(types.uint64), code
