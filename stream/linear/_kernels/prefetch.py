"""prefetch: have a row of an array brought into the cache, while other work is done."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = ["prefetch"]

FOR_WRITING, KEEP, DATA = 1, 3, 1  # see the LLVM reference on llvm.prefetch


@intrinsic
def prefetch(typing: Any, array: Any, i: Any) -> Any:
    """Row i of an array, which must exist. It has no effect but that a later access is faster."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        kind = signature.args[0]
        whole = context.make_array(kind)(context, builder, given[0])
        at = [given[1], *[given[1].type(0)] * (kind.ndim - 1)]
        place = cgutils.get_item_pointer(context, builder, kind, whole, at, wraparound=False)
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        call = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [pointer, number, number, number]),
            "llvm.prefetch.p0",
        )
        how = [number(FOR_WRITING), number(KEEP), number(DATA)]
        builder.call(call, [builder.bitcast(place, pointer), *how])
        return context.get_dummy_value()

    return types.void(array, i), generate
