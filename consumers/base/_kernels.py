"""Kernels that several rooms share."""

from __future__ import annotations

from ctypes import string_at
from typing import Any

from numpy import frombuffer, int64, uint8, uint64

from stream.kernel import intrinsic, kernel, machine

__all__ = ["copy_bytes", "pack", "pack_parts", "signed", "unsigned"]


def _part(data: Any, at: int, count: int) -> slice:
    """`count` bytes from `at` of data, uint8 (n,), for a twin."""
    if at < 0 or count < 0 or at + count > data.size:
        raise IndexError(f"expected {count} bytes from {at}, got {data.size} bytes")
    return slice(int(at), int(at) + int(count))


def _copy_bytes(out: Any, at: int, data: Any, start: int, count: int) -> None:
    """The twin of `copy_bytes`."""
    out[_part(out, at, count)] = data[_part(data, start, count)]


def _copy_address(out: Any, at: int, address: int, count: int) -> None:
    """The twin of `_copy_from`."""
    out[_part(out, at, count)] = frombuffer(string_at(int(address), int(count)), uint8)


@intrinsic(_copy_bytes)
def copy_bytes(typing: Any, out: Any, at: Any, data: Any, start: Any, count: Any) -> Any:
    """Copy bytes between two arrays of uint8 that do not overlap."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, source = (
            builder.gep(context.make_array(kind)(context, builder, args[i]).data, [args[i + 1]])
            for i, kind in ((0, signature.args[0]), (2, signature.args[2]))
        )
        machine.cgutils.raw_memcpy(
            builder, to, source, args[4], machine.ir.Constant(args[4].type, 1)
        )
        return context.get_dummy_value()

    return machine.types.void(
        out, machine.types.int64, data, machine.types.int64, machine.types.int64
    ), code


@intrinsic(_copy_address)
def _copy_from(typing: Any, out: Any, at: Any, address: Any, count: Any) -> Any:
    """Copy bytes from an address of memory into an array of uint8."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, args[0]).data
        source = builder.inttoptr(args[2], made.type)
        to = builder.gep(made, [args[1]])
        machine.cgutils.raw_memcpy(
            builder, to, source, args[3], machine.ir.Constant(args[3].type, 1)
        )
        return context.get_dummy_value()

    return machine.types.void(
        out, machine.types.int64, machine.types.int64, machine.types.int64
    ), code


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
