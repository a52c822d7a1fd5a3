"""Kernels of columns of texts."""

from __future__ import annotations

from typing import Any

from stream.kernel import kernel

__all__ = ["gather"]


@kernel
def gather(data: Any, start: Any, at: Any, out: Any) -> None:
    """Copy texts into a row.

    data uint8, start int64 (n + 1,): text k is data[start[k]:start[k + 1]]; at int64: which ones;
    out uint8, of the size of all of them.
    """
    end = 0
    for k in range(at.size):
        for i in range(start[at[k]], start[at[k] + 1]):
            out[end] = data[i]
            end += 1
