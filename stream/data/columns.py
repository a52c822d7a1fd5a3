"""Names of numeric columns, and tables that grow.

Map the numeric columns of a block to the columns of a part's state.

Tables with spare room for classes, so that a new class seldom copies a table.

Rule: spare room is filled with zeros, and no result depends on its size. There is room for at most
`most` classes, which a limit of bytes may have set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Block, Rows, learning
from stream.data.parameters import shown
from stream.data.schema import Dictionary
from stream.data.state import State, count_in
from stream.errors import StateError

__all__ = [
    "MAX_FEATURES",
    "admit",
    "columns_for",
    "find",
    "grown",
    "named",
    "padded",
    "restored",
    "rows_for",
]

MAX_FEATURES = 65536

Columns = tuple[NDArray[np.int64], NDArray[np.int64]]


def find(features: Dictionary, rows: Rows) -> Columns:
    """The known columns of the rows, in the order of the state, and the state's column of each.

    Terms are added in this order, so it must not depend on the order of a block's columns.
    """
    codes = features.codes
    return _ordered(np.array([codes.get(n, -1) for n in rows.numeric_names], dtype=np.int64))


def admit(features: Dictionary, block: Block) -> Columns:
    """`find`, with a column for each feature that the block learns a value of.

    A feature gets its column at the first step that learns it. Features of the same step are
    ordered by name. So blocks of any size give the same columns.
    """
    codes = features.codes
    names = block.rows.numeric_names
    column = np.array([codes.get(name, -1) for name in names], dtype=np.int64)
    if column.size and column[0] >= 0 and (column[1:] > column[:-1]).all():
        return np.arange(column.size), column  # the common case: all known, and in order
    missing = np.flatnonzero(column < 0)
    if missing.size:
        steps = learning(block)
        present = ~np.isnan(block.rows.numeric[np.ix_(block.row[steps], missing)])
        seen = present.any(axis=0)
        order = sorted(
            (int(np.argmax(present[:, k])), names[missing[k]], int(missing[k]), int(k))
            for k in np.flatnonzero(seen)
        )
        for _, name, j, k in order:
            column[j] = features.add(name)
            if column[j] < 0:  # counted once for each record, as one-record calls do
                features.overflow += int(np.count_nonzero(present[:, k])) - 1
    return _ordered(column)


def named(features: Dictionary) -> dict[str, Any]:
    """Names of features, and the number of rejected ones, as the header of a state."""
    # Omitted if 0; an absent count is read as 0.
    refused = {"features_refused": features.overflow} if features.overflow else {}
    return {"features": list(features), **refused}


def restored(features: Dictionary, state: State) -> Dictionary:
    """The dictionary of a header made by `named`.

    Raises
    ------
    StateError
        The header is damaged.
    """
    refused = count_in(state.header, "features_refused", absent=0)
    return features.renewed(names_in(state), refused)


def names_in(state: State, key: str = "features") -> list[str]:
    """Distinct names of a header. StateError: it has no such list."""
    names: Any = state.header.get(key)
    texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not texts or len(set(names)) != len(names):
        raise StateError(f"{key}: expected distinct names, got {shown(names)}")
    return list(names)


def amounts(state: State, key: str, features: Dictionary) -> dict[str, float]:
    """Numbers by feature in a header, which has none if it has no such key. StateError: they are
    not those of known features."""
    found = state.header.get(key, {})
    if not isinstance(found, dict) or not {*found} <= {*features}:
        raise StateError(f"{key}: expected numbers of known features, got {shown(found)}")
    return {name: float(amount) for name, amount in found.items()}


def _ordered(column: NDArray[np.int64]) -> Columns:
    source = np.argsort(column, kind="stable")
    source = source[np.searchsorted(column[source], 0) :]
    return source, column[source]


def grown(needed: int, have: int, most: int) -> int:
    """The new room if `needed` is asked for: at least twice the old one, if it has to grow."""
    return have if needed <= have else max(needed, min(2 * have, most))


def columns_for(a: NDArray[Any], rows: int, classes: int, most: int) -> NDArray[Any]:
    """`a`, or a copy with at least this many rows and with columns for these classes."""
    return padded(a, (max(rows, a.shape[0]), grown(classes, a.shape[1], most)))


def rows_for(a: NDArray[Any], shape: tuple[int, ...], most: int) -> NDArray[Any]:
    """`a` padded with zeros to this shape: the first rows of a table that may have more.

    Nothing is copied if only rows are added and the table that `a` is a view of has room.
    """
    if a.shape == shape:
        return a
    room: object = a.base  # bytes, if the array was unpickled
    if (
        isinstance(room, np.ndarray)
        and room.shape[1:] == shape[1:]
        and room.dtype == a.dtype
        and room.ctypes.data == a.ctypes.data
        and room.shape[0] >= shape[0] >= a.shape[0]
    ):
        return room[: shape[0]]
    rows = grown(shape[0], a.shape[0], most) if a.shape[1:] == shape[1:] else shape[0]
    out = np.zeros((rows, *shape[1:]), dtype=a.dtype)
    out[tuple(slice(0, k) for k in a.shape)] = a
    return out[: shape[0]]


def padded(a: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """`a`, or a copy of this shape with zeros where `a` has nothing."""
    if a.shape == shape:
        return a
    out = np.zeros(shape, dtype=a.dtype)
    out[tuple(map(slice, a.shape))] = a
    return out
