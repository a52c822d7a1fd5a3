"""Numbers and bytes of many records, which become objects of Python only when they are asked for.

Both are sequences like the lists that they stand for, and equal to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from stream.data.sequences import ListLike, TextColumn, taken

__all__ = [
    "ByteCells",
    "Numbers",
    "as_texts",
    "chosen",
    "compile_cells",
    "joined",
    "joined_numbers",
    "lengths",
    "packed",
    "sizes",
]


class Numbers(ListLike):
    """Integers in an array of int64.

    Examples
    --------
    >>> offsets = Numbers(np.array([3, 4, 6]))
    >>> offsets[-1], offsets[1:], offsets == [3, 4, 6]
    (6, [4, 6], True)
    """

    __slots__ = ("array",)

    def __init__(self, array: NDArray[np.int64]) -> None:
        self.array = array

    def __len__(self) -> int:
        return self.array.size

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Numbers: ...
    def __getitem__(self, at: int | slice) -> int | Numbers:
        return Numbers(self.array[at]) if isinstance(at, slice) else int(self.array[at])

    def __iter__(self) -> Iterator[int]:
        return iter(self.array.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.array.astype(dtype or np.int64, copy=bool(copy))


class ByteCells(ListLike):
    """Keys or values of records as places in bytes.

    Parameters
    ----------
    data
        uint8: bytes that contain the cells. They are never changed.
    starts, sizes
        int64 (n,): where each cell starts, and its bytes; size -1: no cell.
    in_a_row
        Whether the data are the bytes of the cells, one after the other.

    Examples
    --------
    >>> data = np.frombuffer(b"abcd", dtype=np.uint8)
    >>> cells = ByteCells(data, np.array([0, 2, 0]), np.array([2, 2, -1]))
    >>> cells[1], cells.take(np.array([1, 0])), cells == [b"ab", b"cd", None]
    (b'cd', [b'cd', b'ab'], True)
    """

    __slots__ = ("data", "in_a_row", "sizes", "starts")

    def __init__(
        self,
        data: NDArray[np.uint8],
        starts: NDArray[np.int64],
        sizes: NDArray[np.int64],
        in_a_row: bool = False,
    ) -> None:
        data.flags.writeable = False  # so that kernels are compiled for one type of arrays
        self.data, self.in_a_row = data, in_a_row
        self.starts, self.sizes = np.ascontiguousarray(starts), np.ascontiguousarray(sizes)

    def __len__(self) -> int:
        return self.sizes.size

    @overload
    def __getitem__(self, at: int) -> bytes | None: ...
    @overload
    def __getitem__(self, at: slice) -> ByteCells: ...
    def __getitem__(self, at: int | slice) -> bytes | ByteCells | None:
        if isinstance(at, slice):
            return ByteCells(self.data, self.starts[at], self.sizes[at])
        start, size = int(self.starts[at]), int(self.sizes[at])
        return None if size < 0 else self.data[start : start + size].tobytes()

    def __iter__(self) -> Iterator[bytes | None]:
        each, data = lengths(self), packed(self).tobytes()
        ends = each.cumsum()
        pairs = zip((ends - each).tolist(), ends.tolist(), strict=True)
        if (self.sizes >= 0).all():
            return (data[a:b] for a, b in pairs)
        given = (self.sizes >= 0).tolist()
        return (data[a:b] if there else None for (a, b), there in zip(pairs, given, strict=True))

    def take(self, at: NDArray[np.int64]) -> ByteCells:
        """The cells at these places."""
        return ByteCells(self.data, self.starts[at], self.sizes[at])

    def compact(self) -> ByteCells:
        """The same cells, without other bytes if these are more than half."""
        if 2 * int(lengths(self).sum()) >= self.data.size:
            return self
        return _in_a_row(packed(self), self.sizes)


def packed(cells: Sequence[bytes | None], gap: int = 0, padding: int = 0) -> NDArray[np.uint8]:
    """The bytes of all cells, each followed by `gap` bytes 0; then `padding` more."""
    if not isinstance(cells, ByteCells):
        try:
            data = bytes(gap).join([*cells, bytes(padding)])  # type: ignore[list-item]
        except TypeError:
            data = bytes(gap).join([*(cell or b"" for cell in cells), bytes(padding)])
        return np.frombuffer(data, dtype=np.uint8)
    if cells.in_a_row and gap == padding == 0:
        return cells.data
    from consumers.base._kernels import pack  # numba, which most commands do not need

    size = int(lengths(cells).sum()) + gap * len(cells) + padding
    out = np.empty(size, dtype=np.uint8)
    pack(cells.data, cells.starts, cells.sizes, gap, out)
    out.flags.writeable = False
    return out


def _in_a_row(data: NDArray[np.uint8], sizes: NDArray[np.int64]) -> ByteCells:
    """Cells that are one after the other."""
    each = np.maximum(sizes, 0)
    return ByteCells(data, each.cumsum() - each, sizes, in_a_row=True)


def sizes(cells: Sequence[bytes | None]) -> NDArray[np.int64]:
    """The bytes of each cell; -1 for None."""
    if isinstance(cells, ByteCells):
        return cells.sizes
    try:
        return np.fromiter(map(len, cells), np.int64, len(cells))  # type: ignore[arg-type]
    except TypeError:
        found = (-1 if cell is None else len(cell) for cell in cells)
        return np.fromiter(found, np.int64, len(cells))


def lengths(cells: Sequence[bytes | None]) -> NDArray[np.int64]:
    """The bytes of each cell; 0 for None."""
    return np.maximum(sizes(cells), 0)


def chosen(cells: Sequence[bytes | None], at: NDArray[np.int64]) -> Sequence[bytes | None]:
    """The cells at these places."""
    if isinstance(cells, ByteCells):
        return cells.take(at)
    return taken(cells, at)


def joined(parts: Sequence[Sequence[bytes | None]]) -> Sequence[bytes | None]:
    """The cells of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    every = [part for part in parts if isinstance(part, ByteCells)]
    if not every or len(every) < len(parts):
        return [cell for part in parts for cell in part]
    from consumers.base._kernels import pack_parts  # numba, which most commands do not need

    sizes = np.concatenate([part.sizes for part in every])
    starts = np.concatenate([part.starts for part in every])
    addresses = np.array([part.data.ctypes.data for part in every], dtype=np.int64)
    counts = np.array([len(part) for part in every], dtype=np.int64)
    data = np.empty(int(np.maximum(sizes, 0).sum()), dtype=np.uint8)
    pack_parts(addresses, counts, starts, sizes, data)
    return _in_a_row(data, sizes)


def joined_numbers(parts: Sequence[Sequence[int]]) -> Sequence[int]:
    """The numbers of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Numbers(np.concatenate([np.asarray(part, dtype=np.int64) for part in parts]))


def compile_cells() -> None:
    """Copy cells of one array, and of two, so that the kernels are compiled."""
    cells = ByteCells(np.zeros(1, dtype=np.uint8), *np.zeros((2, 1), dtype=np.int64))
    packed(cells)
    joined([cells, cells])


def as_texts(cells: Sequence[bytes | None]) -> TextColumn:
    """The cells as texts; "" for none, and for one that is not UTF-8."""
    data, start = packed(cells), np.zeros(len(cells) + 1, dtype=np.int64)
    if data.tobytes().isascii():
        np.cumsum(lengths(cells), out=start[1:])
        return TextColumn(data, start)
    return TextColumn.of([_as_text(cell or b"") for cell in cells])


def _as_text(cell: bytes) -> str:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return ""
