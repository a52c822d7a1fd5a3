"""Convert rows to arrays of a State and back: numbers, categories, texts, encoded or not.

Only the cells are saved. The columns come from the rows they are loaded into.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream.data.rows import Floats, Rows, are_notes
from stream.data.state import Saved, State, pack, unpack
from stream.errors import StateError

__all__ = ["loaded", "stored"]


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
    memo = state.array("memo", np.float64, 3)
    if len(memo) != n or not are_notes(memo):
        raise StateError(f"saved rows: expected {n} rows of earlier predictions, got others")
    return memo


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
