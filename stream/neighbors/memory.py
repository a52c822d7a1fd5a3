"""The newest records: named attributes over the columns of a sliding window.

The window has the records in contiguous columns, oldest first. A new record is appended at the end,
and the oldest one is dropped by moving the start. When the room ends, the records are moved to its
front. So loops run over contiguous memory in order of age, and results do not depend on the
position in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Block, Floats, Rows
from stream.data.columns import named, restored
from stream.data.schema import HEAVIEST, LARGEST, Label
from stream.data.state import Rules, Saved, State
from stream.errors import InvalidRecordError, StateError
from stream.neighbors._kernels import window as kernels
from stream.neighbors._kernels.search import CHUNK, GROUP, Scratch
from stream.neighbors._kernels.window import LANES, Ints, WindowArrays
from stream.neighbors.categories import CategoryCodes
from stream.neighbors.columns import MAX_WINDOW, Attributes

__all__ = ["MAX_WINDOW", "Id", "Memory", "Neighbor"]


Id = str | int
SLACK = 64  # spare room: at least this, or a quarter of the records


class Neighbor(NamedTuple):
    """A record near x: its id (or None), its distance to x, its label, and its vote.

    With ``weights="uniform"`` the vote is the record's weight. With ``"distance"`` it is the
    weight, multiplied by the distance of the nearest record and divided by the record's own
    distance. If records are equal to x, their votes are their weights, and other votes are 0.
    """

    id: Id | None
    distance: float
    label: Label
    weight: float


class SlidingWindow:
    """At most `size` records of D attributes, each with a label, a weight and perhaps an id.

    Attributes
    ----------
    size : int
        The largest number of records. One more evicts the oldest.
    arrays : Window
        The arrays that kernels work on.
    mixed : bool
        Whether an attribute is categorical.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.mixed = False
        self._lane = np.empty(LANES)
        self._ids: dict[int, Id] = {}  # by tag; also of some that have left the window
        self._next_tag = 1
        self.arrays = WindowArrays(
            cells=np.zeros((0, 0)),
            label=_none(),
            weight=np.zeros(0),
            tag=_none(),
            span=np.zeros(3, dtype=np.int64),
            nominal=_none(),
            held=_none(),
            seen=_none(),
            classes=_none(),
            low=np.zeros(0),
            high=np.zeros(0),
            n_low=_none(),
            n_high=_none(),
            inverse=np.zeros(0),
            gap=np.zeros(0),
        )

    def __len__(self) -> int:
        return int(self.arrays.span[1] - self.arrays.span[0])

    @property
    def live(self) -> slice:
        """The slice of the columns that has the records."""
        return slice(int(self.arrays.span[0]), int(self.arrays.span[1]))

    @property
    def cells(self) -> Floats:
        """The values of the records, float64 (D, n)."""
        return self.arrays.cells[:, self.live]

    @property
    def label(self) -> Ints:
        """The class codes of the records."""
        return self.arrays.label[self.live]

    @property
    def weight(self) -> Floats:
        """The weights of the records."""
        return self.arrays.weight[self.live]

    def widen(self, nominal: Sequence[bool], classes: int) -> None:
        """Make room for new attributes, categorical or not, and for `classes` classes in total."""
        s = self.arrays
        if nominal:
            self.mixed = self.mixed or any(nominal)
            more = len(nominal)
            columns = {"nominal": np.array(nominal, dtype=np.int64)}
            for name in ("held", "seen", "low", "high", "n_low", "n_high", "inverse", "gap"):
                columns[name] = np.zeros(more, dtype=getattr(s, name).dtype)
            grown = {k: np.concatenate((getattr(s, k), v)) for k, v in columns.items()}
            empty = np.full((more, s.label.size), np.nan)
            s = s._replace(cells=np.concatenate((s.cells, empty)), **grown)
            s.span[2] = 0
        if classes > s.classes.size:
            more = classes - s.classes.size
            s = s._replace(classes=np.concatenate((s.classes, np.zeros(more, dtype=np.int64))))
        self.arrays = s

    def make_room(self, more: int) -> None:
        """Make room to append `more` records; amortised O(D) for each record.

        The records are copied, also where they only move to the front: an exception on the way,
        such as that of Ctrl-C, leaves the arrays as they were.
        """
        s = self.arrays
        if s.span[1] + more <= s.label.size:
            return
        n = len(self)
        slack = max(n // 4, SLACK)
        live, room = self.live, s.label.size
        if n + more + slack // 2 > room:
            room = n + more + slack
        fresh = s._replace(
            cells=np.full((len(s.cells), room), np.nan),
            label=np.zeros(room, dtype=np.int64),
            weight=np.zeros(room),
            tag=np.zeros(room, dtype=np.int64),
            span=np.array([0, n, s.span[2]], dtype=np.int64),
        )
        for name in ("cells", "label", "weight", "tag"):
            getattr(fresh, name)[..., :n] = getattr(s, name)[..., live]
        self.arrays = fresh

    def learn(self, x: Floats, c: int, w: float, scale: int) -> None:
        """Append one record, float64 (D,)."""
        self.make_room(1)
        kernels.learn_one(x, c, w, self.size, scale, self._lane, *self.arrays)

    def rescale(self, scale: int) -> None:
        """Update the scale of each attribute."""
        if self.arrays.span[2] == 0:
            kernels.rescale(scale, self.arrays, self._lane)

    # Ids.

    def name_newest(self, name: Id) -> None:
        """Give the newest record an id."""
        self.arrays.tag[self.live.stop - 1] = self._next_tag
        self._ids[self._next_tag] = name
        self._next_tag += 1
        if len(self._ids) > 2 * self.size + SLACK:
            self._ids = {t: self._ids[t] for t in self._tags() if t}

    def ids(self) -> list[Id | None]:
        """The id of each record, or None."""
        return [self._ids[t] if t else None for t in self._tags()]

    def _tags(self) -> list[int]:
        tags: list[int] = self.arrays.tag[self.live].tolist()
        return tags

    # Unlearning and merging.

    def find(self, x: Floats, c: int, w: float) -> int:
        """The index of the newest record with these values (D,), class and weight; -1 if no record
        matches."""
        same = (self.label == c) & (self.weight == w)
        for column, v in zip(self.cells, x.tolist(), strict=True):
            same &= (column == v) if v == v else np.isnan(column)
        found = np.flatnonzero(same)
        return int(found[-1]) if found.size else -1

    def remove(self, at: Ints) -> tuple[list[int], list[int]]:
        """Remove the records at these indices, as if they had never been learned.

        Returns
        -------
        tuple
            The attributes and the classes that no learned record has any longer; they were removed
            from here, and later ones have moved up.
        """
        s, n = self.arrays, len(self)
        there = (~np.isnan(self.cells[:, at])).sum(axis=1)
        s.held[:] -= there
        s.seen[:] -= there
        np.subtract.at(s.classes, self.label[at], 1)
        start = self.live.start
        for name in ("cells", "label", "weight", "tag"):
            array = getattr(s, name)
            array[..., start : start + n - at.size] = np.delete(array[..., self.live], at, axis=-1)
        s.span[1] -= at.size
        self._forget_caches()
        columns = np.flatnonzero(s.seen == 0)
        classes = np.flatnonzero(s.classes == 0)
        self._drop(columns, classes)
        return columns.tolist(), classes.tolist()

    def _drop(self, columns: Ints, classes: Ints) -> None:
        s = self.arrays
        if columns.size:
            names = ("nominal", "held", "seen", "low", "high", "n_low", "n_high", "inverse", "gap")
            left = {name: np.delete(getattr(s, name), columns) for name in names}
            s = s._replace(cells=np.delete(s.cells, columns, axis=0), **left)
            self.mixed = bool(s.nominal.any())
        if classes.size:
            s.label[self.live] -= np.searchsorted(classes, s.label[self.live])
            s = s._replace(classes=np.delete(s.classes, classes))
        self.arrays = s

    def _forget_caches(self) -> None:
        """Recompute ranges and scales when they are next needed. They depend only on the
        records."""
        self.arrays.n_low[:] = 0
        self.arrays.n_high[:] = 0
        self.arrays.span[2] = 0

    def extend(self, cells: Floats, other: SlidingWindow, column: Ints, classes: Ints) -> None:
        """Learn the records of another window after these; the newest `size` of all stay.

        Parameters
        ----------
        cells
            float64 (D, m): the values of the other window, in the columns of this one.
        other
            The other window.
        column, classes
            For its attributes the column here, or -1; for its classes the code here.
        """
        names = [*self.ids(), *other.ids()][-self.size :]
        all_cells = np.concatenate((self.cells, cells), axis=1)[:, -self.size :]
        label = np.concatenate((self.label, classes[other.label]))[-self.size :]
        weight = np.concatenate((self.weight, other.weight))[-self.size :]
        kept = np.flatnonzero(column >= 0)
        np.add.at(self.arrays.seen, column[kept], other.arrays.seen[kept])
        np.add.at(self.arrays.classes, classes, other.arrays.classes)
        self._fill(all_cells, label, weight, names)

    def _fill(self, cells: Floats, label: Ints, weight: Floats, names: Sequence[Id | None]) -> None:
        """Replace the records by these."""
        tag = np.zeros(label.size, dtype=np.int64)
        named = [i for i, name in enumerate(names) if name is not None]
        tag[named] = np.arange(1, len(named) + 1)
        self._ids = {int(tag[i]): names[i] for i in named}  # type: ignore[misc]
        self._next_tag = len(named) + 1
        self.arrays = self.arrays._replace(
            cells=np.ascontiguousarray(cells),
            label=np.ascontiguousarray(label),
            weight=np.ascontiguousarray(weight),
            tag=tag,
            span=np.array([0, label.size, 0], dtype=np.int64),
            held=np.count_nonzero(~np.isnan(cells), axis=1).astype(np.int64),
        )
        self._forget_caches()

    # Saving and loading.

    def export(self) -> State:
        """The records by age. The state does not depend on their position in memory."""
        s, there = self.arrays, ~np.isnan(self.cells)
        header = {"ids": [[i, name] for i, name in enumerate(self.ids()) if name is not None]}
        arrays: dict[str, NDArray[np.generic]] = {
            "cells": np.where(there, self.cells, 0.0),
            "there": there.astype(np.uint8),
            "label": self.label,
            "weight": self.weight,
            "nominal": s.nominal,
            "seen": s.seen,
            "classes": s.classes,
        }
        return State(header, arrays)

    @classmethod
    def restored(cls, state: State, size: int, features: int, classes: int) -> SlidingWindow:
        """The window of a state made by `export`. StateError, KeyError, TypeError: it is
        damaged."""
        table = {
            "cells": Saved(np.float64, (features, "records"), -LARGEST, LARGEST),
            "there": Saved(np.uint8, (features, "records")),
            "label": Saved(np.int64, ("records",), 0, classes - 1),
            "weight": Saved(np.float64, ("records",), 0, HEAVIEST),
            "nominal": Saved(np.int64, (features,)),
            "seen": Saved(np.int64, (features,)),
            "classes": Saved(np.int64, (classes,)),
        }
        rules: Rules = {
            f"at most {size} records": lambda a: a["label"].size <= size,
            "weights above 0": lambda a: a["weight"] > 0,
        }
        cells, there, label, weight, nominal, seen, learned = state.read(table, rules).values()
        names: list[Id | None] = [None] * label.size
        for at, name in state.header["ids"]:
            if not (0 <= at < label.size and isinstance(name, str | int)):
                raise StateError("ids: expected those of records, got others")
            names[at] = name
        fresh = cls(size)
        fresh.widen(nominal.astype(bool).tolist(), classes)
        fresh.arrays.seen[:], fresh.arrays.classes[:] = seen, learned
        fresh._fill(np.where(there > 0, cells, np.nan), label, weight, names)
        return fresh


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


class Memory(Attributes):
    """The window of a learner, with names of columns and codes of categories.

    Attributes
    ----------
    features : Dictionary
        Attribute to column, in the order they were first learned.
    window : SlidingWindow
        The records.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.window = SlidingWindow(size)
        self._room: Scratch | None = None

    @property
    def arrays(self) -> WindowArrays:
        """The arrays that kernels work on."""
        return self.window.arrays

    @property
    def nominal(self) -> Ints:
        return self.arrays.nominal

    def codes_in_use(self) -> Floats:
        out: Floats = self.window.cells[self.nominal == 1]
        return out

    def room(self, k: int) -> Scratch:
        """Scratch buffers for a search of the k nearest, reused between calls. They hold no
        state."""
        n = len(self.window)
        if self._room is None or self._room.acc.size < n:
            self._room = self.own_room(k, min(self.window.size, 2 * n))
        return self._room

    @staticmethod
    def own_room(k: int, n: int) -> Scratch:
        """Own scratch buffers for a search among n records, for results that are read after the
        call.

        By then another thread may use `room`.
        """
        acc, near, found = np.empty(n), np.empty(n + 1, dtype=np.int64), np.empty(n + 1)
        chunk, lane, best = np.empty((2, CHUNK)), np.empty(GROUP), np.empty(k)
        which = np.empty(GROUP, dtype=np.int64)
        return Scratch(chunk[0], chunk[1], lane, which, acc, near, found, best)

    def admit(self, block: Block, classes: int) -> Floats:
        """The rows of the block, float64 (n, D), after what its steps learn got columns and
        codes."""
        x, learns, fresh = self.encode(block)
        if learns:
            self.window.widen(fresh, classes)
        return x

    def vector(self, x: Any, strangers: bool) -> Floats | None:
        """`vectors` of one record of plain numbers, at a tenth of the cost; None for any other
        record.

        strangers: whether the record may have unknown attributes, which are left out.
        """
        if type(x) is not dict:
            return None
        codes, out = self.features.codes, [nan] * len(self.features)
        for name, value in x.items():
            kind = type(value)
            if (kind is not float and kind is not int) or type(name) is not str:
                return None
            if not -LARGEST <= value <= LARGEST:  # also NaN
                return None
            j = codes.get(name)
            if j is not None:
                out[j] = value + 0.0
            elif not strangers:
                return None
        return None if self.window.mixed else np.array(out, dtype=np.float64)

    def unknown(self, rows: Rows) -> list[str]:
        """Attributes that the one row has, but no learned record."""
        numbers = self._numbers(rows)
        pairs = zip(numbers.numeric_names, numbers.numeric[0].tolist(), strict=True)
        return [name for name, v in pairs if v == v and name not in self.features]

    def remove(self, at: Ints) -> list[int]:
        """Unlearn the records at these indices. Returns the classes that are gone, in falling
        order."""
        columns, classes = self.window.remove(at)
        for name in [self.features.values[j] for j in columns]:
            self.features.remove(name)
        return classes[::-1]

    def clashes(self, other: Memory) -> None:
        """Raise InvalidRecordError if an attribute is numeric in one window and categorical in the
        other."""
        for nominal in (0, 1):
            both = sorted({*self.named(nominal)} & {*other.named(1 - nominal)})
            if both:
                raise InvalidRecordError(
                    "wrong_kind", f"fields of different kinds in the two learners: {both}"
                )

    def merge(self, other: Memory, classes: Ints) -> None:
        """Learn the records of `other` after these. `classes`: for each of its classes, the code
        here."""
        before = len(self.features)
        column = np.array([self.features.add(name) for name in other.features], dtype=np.int64)
        kinds = dict(zip(other.features, other.nominal.tolist(), strict=True))
        fresh = [kinds[name] == 1 for name in self.features.values[before:]]
        self.window.widen(fresh, int(max(classes.max(initial=-1) + 1, self.arrays.classes.size)))
        theirs = other.window.cells.copy()
        nominal = other.nominal == 1
        theirs[nominal] = self._categories.translate(theirs[nominal], other._categories)
        cells = np.full((len(self.features), theirs.shape[1]), np.nan)
        kept = column >= 0
        cells[column[kept]] = theirs[kept]
        self.window.extend(cells, other.window, column, classes)

    def export(self) -> State:
        """The state; arrays are copied only if needed."""
        records = self.window.export()
        nominal = self.nominal == 1
        codes, categories = self._categories.export(self.codes_in_use())
        cells = records.arrays["cells"].copy()
        cells[nominal] = np.where(np.isnan(codes), 0.0, codes)
        records = State(records.header, {**records.arrays, "cells": cells})
        names = State(named(self.features))
        return State.join({"names": names, "records": records, "categories": categories})

    @classmethod
    def restored(cls, state: State, size: int, classes: int) -> Memory:
        """The memory of a state made by `export`. StateError, KeyError, TypeError: it is
        damaged."""
        out = cls(size)
        out.features = restored(out.features, state.nested("names"))
        records, features = state.nested("records"), len(out.features)
        out.window = SlidingWindow.restored(records, size, features, classes)
        own = state.nested("categories")
        out._categories = CategoryCodes.restored(out.codes_in_use(), own)
        return out
