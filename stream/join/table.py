"""The table of ids: each id that the join knows, with what it knows, as a row of arrays.

An id is found by a keyed hash and compared byte by byte. The ids of each kind are in a list of
their own, ordered by time of arrival; any of them can be removed.

Rule: no call moves all ids. The table grows by one chain of entries for each id that is added, and
arrays grow without a copy (`memory.py`). Removed ids leave gaps in the store of bytes; the next
store, which may be larger, takes over the ids entry by entry, as many at each call as it takes to
be done in time. Then the memory of the other store is given back in pieces.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.memory import SHRINKS, ResizableArray
from stream.join._kernels import ids as kernels
from stream.join._kernels.ids import (
    AFTER,
    BUCKETS,
    COUNT,
    COUNTERS,
    EARLY,
    ENTRIES,
    FIRST,
    FREE,
    FREE_ENTRY,
    ID_BYTES,
    KIND,
    LENGTH,
    MASK,
    SETTLED,
    SIDE,
    SLOTS,
    START,
    UNHEARD,
    USED,
    WAITING,
)

__all__ = ["EARLY", "SETTLED", "WAITING", "IdArrays", "IdTable", "as_bytes", "random_key"]

FEWEST = 64  # entries, chains and slots at the beginning
BYTES = 1024  # of ids at the beginning
MOVED = 256  # entries whose ids are moved at least, at each call
PIECE = 2**22  # bytes of a store that are given back at each call, in less than 1 ms
SHARE = 32  # arrays grow by this part of them
# Arrays that grow together: for entries, chains and slots. And the stores of bytes.
ENTRY, CHAIN, SLOT = ("links", "values", "weights"), ("heads",), ("sizes", "free", "place")
STORES = ("first", "second")


class IdArrays(NamedTuple):
    """The arrays, for compiled loops. The columns are those of `_kernels.ids`.

    Parameters
    ----------
    heads
        int32: the first entry of each chain.
    links, values, weights
        int32 (n, 8), int64 (n, 4) and float64 (n,): the entries.
    first, second
        uint8: two stores of the bytes of ids. New ids go to that of `counts[SIDE]`.
    counts
        int64: counters.
    key
        uint64 (2,): of the hash.
    sizes, free, place
        int64: bytes of the row in each slot; free slots, the last freed one last; see `keep`.
    """

    heads: NDArray[np.int32]
    links: NDArray[np.int32]
    values: NDArray[np.int64]
    weights: NDArray[np.float64]
    first: NDArray[np.uint8]
    second: NDArray[np.uint8]
    counts: NDArray[np.int64]
    key: NDArray[np.uint64]
    sizes: NDArray[np.int64]
    free: NDArray[np.int64]
    place: NDArray[np.int64]


def random_key() -> NDArray[np.uint64]:
    """The key of the hash: of this process, as that of Python's texts. No result depends on it."""
    keys = [hash("ids of the join"), hash("the other half of the key")]
    return np.array(keys, dtype=np.int64).view(np.uint64)


def as_bytes(id_: str) -> NDArray[np.uint8]:
    """The bytes of an id, as the kernels take them."""
    return np.frombuffer(id_.encode("utf-8", "surrogatepass"), dtype=np.uint8)


class IdTable:
    """Ids with what is known about each.

    Attributes
    ----------
    arrays : IdArrays
        The arrays. They may be exchanged by `reserve`.
    counts : memoryview
        The counters, which are read as integers of Python.

    Examples
    --------
    >>> ids = IdTable()
    >>> a, b = ids.insert_all(as_bytes("ab"), np.array([1, 1]), WAITING).tolist()
    >>> ids.find("b") == b, ids.find("c"), ids.id_of(a), ids.ids(WAITING)
    (True, -1, 'a', ['a', 'b'])
    >>> ids.remove(ids.find("a"))
    >>> ids.find("a"), ids.ids(WAITING)
    (-1, ['b'])
    """

    def __init__(self, key: NDArray[np.uint64] | None = None) -> None:
        counts = np.zeros(COUNTERS, dtype=np.int64)
        counts[FIRST:COUNT] = -1  # and LAST
        counts[UNHEARD] = -1
        counts[FREE_ENTRY], counts[BUCKETS], counts[MASK] = -1, FEWEST, FEWEST - 1
        self.arrays = IdArrays(
            np.full(FEWEST, -1, dtype=np.int32),
            np.zeros((FEWEST, 8), dtype=np.int32),
            np.zeros((FEWEST, 4), dtype=np.int64),
            np.zeros(FEWEST),
            np.zeros(BYTES, dtype=np.uint8),
            np.zeros(0, dtype=np.uint8),
            counts,
            random_key() if key is None else key,
            *(np.zeros(FEWEST, dtype=np.int64) for _ in range(3)),
        )
        names = (*ENTRY, *CHAIN, *SLOT, *STORES)
        self._sized = {name: ResizableArray(getattr(self.arrays, name)) for name in names}
        self.counts: memoryview[int] = counts.data
        self._last: tuple[str, int] | None = None  # the last id that was looked up
        self._moved = -1  # entries whose ids were moved to the new store; -1: all
        self._pace = 0.0  # entries to move for each byte that is added
        self._unmoved = 0  # the most bytes that they may have
        self._left = False  # whether a part of the other store is still to be given back

    def count(self, kind: int) -> int:
        """How many ids of a kind there are."""
        return self.counts[COUNT + kind]

    def oldest(self, kind: int) -> int:
        """The oldest entry of a kind; -1 without one."""
        return self.counts[FIRST + kind]

    def find(self, id_: str) -> int:
        """The entry of an id; -1 without one."""
        last = self._last
        if last is not None and last[0] is id_:
            return last[1]
        entry = int(kernels.look_up(self.arrays, as_bytes(id_)))
        self._last = (id_, entry)
        return entry

    def changed(self) -> None:
        """Kernels changed the arrays."""
        self._last = None

    def kind(self, entry: int) -> int:
        """The kind of an entry; FREE for -1."""
        return FREE if entry < 0 else int(self.arrays.links[entry, KIND])

    def insert_all(
        self, data: NDArray[np.uint8], lengths: NDArray[np.int64], kind: int
    ) -> NDArray[np.int64] | None:
        """New entries for packed ids, in order; None if one is there already."""
        entries = np.empty(lengths.size, dtype=np.int64)
        self.reserve(lengths.size, data.size)
        starts = np.append(np.int64(0), np.cumsum(lengths))
        data = data.copy()
        data.flags.writeable = False  # as those of `as_bytes`, or kernels are compiled twice
        return entries if kernels.insert_all(self.arrays, data, starts, kind, entries) else None

    def remove(self, entry: int) -> None:
        """Remove an entry."""
        self._last = None
        kernels.delete(self.arrays, entry)

    def id_of(self, entry: int) -> str:
        """The id of an entry."""
        place, length = int(self.arrays.values[entry, START]), int(self.arrays.links[entry, LENGTH])
        store = self.arrays.second if place & 1 else self.arrays.first
        return store[place >> 1 : (place >> 1) + length].tobytes().decode("utf-8", "surrogatepass")

    def after(self, entry: int) -> int:
        """The next entry of the same kind; -1 for the last."""
        return int(self.arrays.links[entry, AFTER])

    def entries(self, kind: int) -> NDArray[np.int64]:
        """The entries of a kind, the oldest first."""
        out = np.empty(self.count(kind), dtype=np.int64)
        kernels.ordered(self.arrays, kind, out)
        return out

    def packed(self, entries: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """The ids of entries, as `stream.data.state.pack` would save them."""
        lengths = self.arrays.links[entries, LENGTH].astype(np.int64)
        ends = np.cumsum(lengths)
        data = np.empty(int(lengths.sum()), dtype=np.uint8)
        kernels.copy_ids(self.arrays, entries, ends - lengths, data)
        return {"lengths": lengths, "bytes": data}

    def ids(self, kind: int) -> list[str]:
        """The ids of a kind, the oldest first."""
        return [self.id_of(entry) for entry in self.entries(kind).tolist()]

    def reserve(self, ids: int, size: int) -> None:
        """Make room for that many ids, with that many bytes together, and a row for each."""
        t, counts = self.arrays, self.counts
        # The last array of each group, which grows last if memory is short.
        entries, chains, slots = t.weights.size, t.heads.size, t.place.size
        room = (t.second if counts[SIDE] else t.first).size
        del t  # nothing may refer to arrays that grow
        if counts[ENTRIES] + ids > entries:
            self._grow(ENTRY, entries, counts[ENTRIES] + ids)
        if counts[BUCKETS] + ids > chains:
            self._grow(CHAIN, chains, counts[BUCKETS] + ids)
        if counts[SLOTS] + ids > slots:
            self._grow(SLOT, slots, counts[SLOTS] + ids)
        if self._moved >= 0 or counts[USED] + size > room:
            self._reserve_bytes(size)
        elif self._left:
            self._give_back()

    def _grow(self, names: tuple[str, ...], now: int, needed: int) -> None:
        """Make room for that many rows in arrays that have `now` rows."""
        self._resize(names, max(needed, now + max(FEWEST, now // SHARE)))

    def _reserve_bytes(self, size: int) -> None:
        """Make room for the bytes of ids; move some ids if the store has just been exchanged."""
        c = self.counts
        if self._moved >= 0:
            self._move(max(MOVED, int(size * self._pace) + 1))
        room = len(self._sized[STORES[c[SIDE]]].array)
        if c[USED] + self._unmoved + size <= room:
            return
        if self._moved >= 0:
            self._move(c[ENTRIES])  # more came at once than the pace allows for
        held = c[ID_BYTES]
        spare = max(BYTES, held, 2 * size)
        side = 1 - c[SIDE]
        self._resize((STORES[side],), held + spare)
        c[SIDE], c[USED], self._left = side, 0, False
        self._moved, self._pace, self._unmoved = 0, 2.0 * c[ENTRIES] / spare, held
        self._move(max(MOVED, int(size * self._pace) + 1))

    def _move(self, entries: int) -> None:
        """Move the ids of that many more entries to the present store."""
        c = self.counts
        start, stop = self._moved, min(self._moved + entries, c[ENTRIES])
        before = c[USED]
        kernels.move_ids(self.arrays, start, stop)
        self._moved, self._unmoved = stop, self._unmoved - (c[USED] - before)
        if stop == c[ENTRIES]:
            self._moved, self._unmoved = -1, 0
            self._give_back()

    def _give_back(self) -> None:
        """Give back a piece of the store that is no longer used."""
        other = STORES[1 - self.counts[SIDE]]
        left = max(0, len(self._sized[other].array) - PIECE) if SHRINKS else 0
        self._resize((other,), left)
        self._left = left > 0

    def _resize(self, names: tuple[str, ...], rows: int) -> None:
        """Give arrays that many rows. Until then nothing may refer to them."""
        nothing: dict[str, Any] = dict.fromkeys(names)
        self.arrays = self.arrays._replace(**nothing)
        try:
            for name in names:
                self._sized[name].resize(rows)
        finally:
            arrays = {name: self._sized[name].array for name in names}
            self.arrays = self.arrays._replace(**arrays)
