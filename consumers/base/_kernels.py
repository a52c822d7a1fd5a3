"""Kernels that several rooms share."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj
from numpy import int64, uint64

from stream.kernel import kernel

__all__ = ["copy_bytes", "pack", "pack_parts", "signed", "unsigned"]


@intrinsic
def copy_bytes(typing: Any, out: Any, at: Any, data: Any, start: Any, count: Any) -> Any:
    """Copy bytes between two arrays of uint8 that do not overlap."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, source = (
            builder.gep(arrayobj.make_array(kind)(context, builder, args[i]).data, [args[i + 1]])
            for i, kind in ((0, signature.args[0]), (2, signature.args[2]))
        )
        cgutils.raw_memcpy(builder, to, source, args[4], ir.Constant(args[4].type, 1))
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64, types.int64), code


@intrinsic
def _copy_from(typing: Any, out: Any, at: Any, address: Any, count: Any) -> Any:
    """Copy bytes from an address of memory into an array of uint8."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        made = arrayobj.make_array(signature.args[0])(context, builder, args[0]).data
        source = builder.inttoptr(args[2], made.type)
        to = builder.gep(made, [args[1]])
        cgutils.raw_memcpy(builder, to, source, args[3], ir.Constant(args[3].type, 1))
        return context.get_dummy_value()

    return types.void(out, types.int64, types.int64, types.int64), code


@kernel
def pack_parts(addresses: Any, counts: Any, starts: Any, sizes: Any, out: Any) -> None:
    """Copy the cells of many arrays into a row.

    addresses int64 (parts,): of the bytes of each part, which the caller keeps; counts int64
    (parts,): its cells; starts and sizes int64 (n,): of all cells; a negative size: nothing is
    copied; out uint8, as long as all cells together.
    """
    at = first = 0
    for p in range(addresses.size):
        for i in range(first, first + counts[p]):
            if sizes[i] > 0:
                _copy_from(out, at, addresses[p] + starts[i], sizes[i])
                at += sizes[i]
        first += counts[p]


@kernel
def pack(data: Any, starts: Any, sizes: Any, gap: int, out: Any) -> None:
    """Copy cells into a row.

    data uint8 (bytes,); starts and sizes int64 (n,): of each cell; a negative size: nothing is
    copied; `gap`: zero bytes after each cell; out uint8: what is after the last cell becomes 0.
    """
    at = 0
    for i in range(starts.size):
        size = sizes[i]
        if size > 0:
            copy_bytes(out, at, data, starts[i], size)
            at += size
        for _ in range(gap):
            out[at] = 0
            at += 1
    while at < out.size:
        out[at] = 0
        at += 1


@kernel
def unsigned(data: Any, at: int, size: int) -> Any:
    """The uint64 in `size` bytes, at most 8, the highest first."""
    found = uint64(0)
    for i in range(at, at + size):
        found = (found << uint64(8)) | uint64(data[i])
    return found


@kernel
def signed(data: Any, at: int, size: int) -> Any:
    """The int64 in `size` bytes, at most 8, the highest first."""
    unused = uint64(64 - 8 * size)
    return int64(unsigned(data, at, size) << unused) >> int64(unused)
