"""A store of rows by number. It grows by what a call asks for, whatever it has already.

Numbers are in arrays that grow without a copy (`memory.py`). Such memory cannot hold objects,
because nobody would count the references in it. So objects are in pieces: arrays of numpy, of which
a larger store has more.

Rows are saved as arrays of a State: numbers, categories, texts, encoded or not. Only the cells are
saved. The columns come from the rows they are loaded into.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from stream.data.memory import ResizableArray
from stream.data.rows import Floats, Objects, Rows, are_notes
from stream.data.state import Saved, State, pack, unpack

__all__ = ["ObjectPieces", "RowStore", "loaded", "stored"]

CELLS = 2**16  # of a piece of objects: 512 KiB, which are written in less than 1 ms

_Index = NDArray[np.int64]


class ObjectPieces:
    """An array of objects, (rows, columns), in pieces. A cell that was not written has None.

    Parameters
    ----------
    columns
        The columns. Without any, no memory is used.

    Examples
    --------
    >>> cells = ObjectPieces(1)
    >>> cells.grow(1_000_000)
    >>> cells.put(np.array([999_999]), np.array([["x"]], dtype=object))
    >>> cells.take(np.array([3, 999_999])).tolist()
    [[None], ['x']]
    """

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._each = max(1, CELLS // max(1, columns))  # rows of a piece
        self._rows = 0
        # None until a row of it is written. Only the first one may have fewer rows.
        self._pieces: list[Objects | None] = []
        self._any = False  # whether there is a piece

    def grow(self, rows: int) -> None:
        """Make room for that many rows."""
        if rows <= self._rows:
            return
        self._pieces += [None] * (-(-rows // self._each) - len(self._pieces))
        first, needed = self._pieces[0], min(rows, self._each)
        if first is not None and len(first) < needed:
            self._pieces[0] = np.concatenate((first, self._missing(needed - len(first))))
        self._rows = rows

    def take(self, index: _Index) -> Objects:
        """The rows at `index`, copied."""
        out = self._missing(index.size)
        for piece, at, where in self._written(index):
            out[where] = piece[at]
        return out

    def put(self, index: _Index, cells: Objects) -> None:
        """Write over the rows at `index`."""
        for number, at, where in self._parts(index):
            piece = self._pieces[number]
            if piece is None:
                piece = self._missing(self._each if number else min(self._rows, self._each))
                self._pieces[number], self._any = piece, True
            piece[at] = cells[where]

    def clear(self, index: _Index) -> None:
        """Release the objects of the rows at `index`."""
        for piece, at, _ in self._written(index):
            piece[at] = None

    def _written(self, index: _Index) -> Iterator[tuple[Objects, _Index, _Index | slice]]:
        """As `_parts`, with the pieces that were written."""
        for number, at, where in self._parts(index) if self._any else ():
            piece = self._pieces[number]
            if piece is not None:
                yield piece, at, where

    def _missing(self, rows: int) -> Objects:
        return np.full((rows, self.columns), None, dtype=object)

    def _parts(self, index: _Index) -> Iterator[tuple[int, _Index, _Index | slice]]:
        """Each piece with rows of `index`: its number, their places in it and those in `index`."""
        if not (self.columns and index.size):
            return
        low, high = int(index.min()) // self._each, int(index.max()) // self._each
        if low == high:
            yield low, index - low * self._each, slice(None)
            return
        number, at = np.divmod(index, self._each)
        small = number.astype(np.min_scalar_type(len(self._pieces)))  # which is sorted faster
        order = np.argsort(small, kind="stable")
        starts = np.flatnonzero(np.diff(small[order], prepend=small.dtype.type(0))).tolist()
        for start, stop in zip([0, *starts], [*starts, index.size], strict=True):
            if start < stop:
                where = order[start:stop]
                yield int(number[where[0]]), at[where], where


class RowStore:
    """Rows by number, without memos. A row that was not written has no value.

    Parameters
    ----------
    like
        Any number of rows with the columns of the store.

    Attributes
    ----------
    like : Rows
        No rows, with the columns of the store.

    Examples
    --------
    >>> rows = Rows.from_dicts([{"a": 1.0, "c": "x"}])
    >>> store = RowStore(rows)
    >>> store.grow(3)
    >>> store.put(np.array([2]), rows)
    >>> len(store), store.take(np.array([1, 2])).dicts()
    (3, [{}, {'a': 1.0, 'c': 'x'}])
    """

    def __init__(self, like: Rows) -> None:
        self._begin(like.take(np.empty(0, dtype=np.int64)).with_memo(None))

    def _begin(self, like: Rows) -> None:
        self.like = like
        self._rows = 0
        self._numeric = ResizableArray(like.numeric.copy())
        self._categorical = ObjectPieces(len(like.categorical_names))
        self._text = ObjectPieces(len(like.text_names))

    def __len__(self) -> int:
        return self._rows

    def align(self, rows: Rows) -> Rows:
        """`rows` with the columns of this store. The store adds columns that it did not have,
        which copies it."""
        like = self.like.with_columns_of(rows)
        if like is not self.like:
            n, every = len(self), np.arange(len(self))
            held = self.take(every).with_columns_of(like)
            self._begin(like)
            self.grow(n)
            self.put(every, held)
        return rows.with_columns_of(like)

    def grow(self, rows: int) -> None:
        """Make room for that many rows."""
        if rows <= self._rows:
            return
        self._numeric.grow(rows, np.nan)
        self._categorical.grow(rows)
        self._text.grow(rows)
        self._rows = rows

    def take(self, index: _Index) -> Rows:
        """The rows at `index`, copied."""
        like = self.like
        return Rows(
            like.numeric_names,
            self._numeric.array[index],
            like.categorical_names,
            self._categorical.take(index),
            like.text_names,
            self._text.take(index),
            like.binary_names,
        )

    def put(self, index: _Index, rows: Rows) -> None:
        """Write `rows` (same columns) over the rows at `index`."""
        self._numeric.array[index] = rows.numeric
        self._categorical.put(index, rows.categorical)
        self._text.put(index, rows.text)

    def clear(self, index: _Index) -> None:
        """Release the categories and texts at `index`. Numbers do not free memory, so they stay."""
        self._categorical.clear(index)
        self._text.clear(index)


def stored(rows: Rows) -> dict[str, NDArray[np.generic]]:
    """The cells of rows, as arrays for a State."""
    arrays: dict[str, NDArray[np.generic]] = {"numeric": rows.numeric}
    for name, values in (("categorical", rows.categorical), ("text", rows.text)):
        flat = values.ravel().tolist()
        tokens = [v for v in flat if isinstance(v, np.ndarray)]
        widths = [v.shape[1] if isinstance(v, np.ndarray) else -1 for v in flat]
        arrays[f"{name}_widths"] = np.array(widths, dtype=np.int64)
        arrays[f"{name}_tokens"] = (
            np.concatenate(tokens, axis=1) if tokens else np.empty((2, 0), dtype=np.int64)
        )
        strings = pack(v if isinstance(v, str) else None for v in flat)
        arrays |= {f"{name}_{k}": v for k, v in strings.items()}
    if rows.memo is not None:
        noted = np.flatnonzero(~np.isnan(rows.memo).all(axis=(0, 2)))
        if noted.size:
            arrays["memo"] = rows.memo[:, : int(noted[-1]) + 1]
    return arrays


def loaded(state: State, n: int, like: Rows) -> Rows:
    """Load n rows saved by `stored`, in the columns of `like`.

    Raises
    ------
    StateError
        The arrays are damaged or have other columns.
    """
    table = {"numeric": Saved(np.float64, (n, like.numeric.shape[1]))}
    numeric = state.read(table)["numeric"]
    columns = {}
    for name, cells in (("categorical", like.categorical), ("text", like.text)):
        strings = unpack({k: state.arrays[f"{name}_{k}"] for k in ("lengths", "bytes")})
        widths = state.array(f"{name}_widths", np.int64, 1).tolist()
        tokens = state.array(f"{name}_tokens", np.int64, 2)
        values = _restored(strings, widths, tokens)
        column = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            column[i] = value
        columns[name] = column.reshape(n, cells.shape[1])
    return Rows(
        like.numeric_names,
        numeric,
        like.categorical_names,
        columns["categorical"],
        like.text_names,
        columns["text"],
        like.binary_names,
        _memo(state, n),
    )


def _memo(state: State, n: int) -> Floats | None:
    """The saved memo; None if nothing was predicted for the rows."""
    if "memo" not in state.arrays:
        return None
    table = {"memo": Saved(np.float64, (n, "classes", "notes"))}
    return state.read(table, {"earlier predictions": lambda a: are_notes(a["memo"])})["memo"]


def _restored(
    strings: Sequence[str | None], widths: list[int], tokens: NDArray[np.int64]
) -> list[object]:
    out: list[object] = []
    at = 0
    for string, width in zip(strings, widths, strict=True):
        if width < 0:
            out.append(string)
            continue
        out.append(np.ascontiguousarray(tokens[:, at : at + width]))
        at += width
    return out
