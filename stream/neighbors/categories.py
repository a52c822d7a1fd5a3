"""Codes of categories. Only equality of codes is used, so their values do not affect a result.

Rule: a category gets its code when a record with it is learned. It loses the code some time after
the last such record left the window. The table has at most about twice as many categories as the
window.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from stream.data.block import Floats
from stream.data.rows import Objects
from stream.data.schema import PER_NAME, text_bytes
from stream.data.state import State, pack, texts
from stream.errors import StateError
from stream.neighbors._kernels.window import Ints

__all__ = ["CategoryCodes"]

LONGEST = 128  # bytes; a longer category is replaced by its hash
PER_CATEGORY = LONGEST + PER_NAME  # the most bytes that a category needs
STRANGER = -2.0  # the code of a category that no record has
SPARE = 1024


class CategoryCodes:
    """Category to code, in one table for all attributes."""

    def __init__(self, values: list[str] | None = None) -> None:
        self._codes = {value: code for code, value in enumerate(values or [])}
        self._next = len(self._codes)
        self._full = 2 * len(self._codes) + SPARE

    def add(self, values: Objects) -> None:
        """Give the categories among these values (None: missing) a code."""
        for value in dict.fromkeys(values.ravel().tolist()):
            if value is not None and (name := known_by(value)) not in self._codes:
                self._codes[name] = self._next
                self._next += 1

    def encode(self, values: Objects) -> Floats:
        """Their codes; NaN for missing values."""
        get = self._codes.get
        every = values.ravel().tolist()
        flat = [np.nan if v is None else get(known_by(v), STRANGER) for v in every]
        return np.array(flat, dtype=np.float64).reshape(values.shape)

    def translate(self, cells: Floats, other: CategoryCodes) -> Floats:
        """Codes of another table as codes of this table; unknown categories get new codes."""
        names = {float(code): value for value, code in other._codes.items()}
        values: Objects = np.empty(cells.size, dtype=np.object_)
        values[:] = [names.get(code) for code in cells.ravel().tolist()]
        self.add(values)
        return self.encode(values).reshape(cells.shape)

    def sweep(self, cells: Floats) -> None:
        """If the table has grown too large, keep only the codes that are in the cells."""
        if len(self._codes) <= self._full:
            return
        held = set(cells.ravel().tolist())
        self._codes = {value: code for value, code in self._codes.items() if code in held}
        self._full = 2 * len(self._codes) + SPARE

    def export(self, cells: Floats) -> tuple[Floats, State]:
        """The cells with codes 0, 1, 2, … in order of appearance, and the categories of these
        codes."""
        there = ~np.isnan(cells)
        found, first, inverse = np.unique(cells[there], return_index=True, return_inverse=True)
        rank = np.empty(found.size, dtype=np.int64)
        rank[np.argsort(first)] = np.arange(found.size)
        out = np.full(cells.shape, np.nan)
        out[there] = rank[inverse]
        names = {code: value for value, code in self._codes.items()}
        ordered = [names[int(code)] for code in found[np.argsort(first)].tolist()]
        return out, State({}, dict(pack(ordered)))

    @classmethod
    def restored(cls, cells: Floats, state: State) -> CategoryCodes:
        """The table for cells made by `export`. StateError: the state is damaged."""
        names = [known_by(value) for value in texts(state)]
        used: Ints = np.unique(cells[~np.isnan(cells)])
        if not np.array_equal(used, np.arange(len(names))) or len({*names}) < len(names):
            raise StateError(f"expected codes of {len(names)} distinct categories, got others")
        return cls(names)


def known_by(value: str) -> str:
    """The text that is kept for a category: itself, or its hash if it is long.

    Examples
    --------
    >>> known_by("red"), len(known_by("x" * 10**6))
    ('red', 65)
    """
    if text_bytes(value) <= LONGEST:
        return value
    hashed = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=32)
    return f"#{hashed.hexdigest()}"
