"""Kernels that several rooms share."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from stream.kernel import kernel

__all__ = ["copy_bytes", "pack"]


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
