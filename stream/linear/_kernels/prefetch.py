"""prefetch: have a row of an array brought into the cache, while other work is done."""

from __future__ import annotations

from typing import Any

from stream.kernel import intrinsic, machine

__all__ = ["prefetch"]

FOR_WRITING, KEEP, DATA = 1, 3, 1  # see the LLVM reference on llvm.prefetch


def _prefetch(array: Any, i: int) -> None:
    """The twin of `prefetch`."""
    if not 0 <= i < array.shape[0]:
        raise IndexError(f"expected a row below {array.shape[0]}, got {i}")


@intrinsic(_prefetch)
def prefetch(typing: Any, array: Any, i: Any) -> Any:
    """Row i of an array, which must exist. It has no effect but that a later access is faster."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        kind = signature.args[0]
        whole = context.make_array(kind)(context, builder, given[0])
        at = [given[1], *[given[1].type(0)] * (kind.ndim - 1)]
        place = machine.cgutils.get_item_pointer(
            context, builder, kind, whole, at, wraparound=False
        )
        number, pointer = machine.ir.IntType(32), machine.ir.IntType(8).as_pointer()
        call = machine.cgutils.get_or_insert_function(
            builder.module,
            machine.ir.FunctionType(machine.ir.VoidType(), [pointer, number, number, number]),
            "llvm.prefetch.p0",
        )
        how = [number(FOR_WRITING), number(KEEP), number(DATA)]
        builder.call(call, [builder.bitcast(place, pointer), *how])
        return context.get_dummy_value()

    return machine.types.void(array, i), generate
