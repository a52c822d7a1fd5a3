"""The table of ids: each id that the join knows, with what it knows, as a row of arrays.

An id is found by a keyed hash and compared byte by byte. The ids of each kind are in a list of
their own, ordered by time of arrival; any of them can be removed.

Rule: no call moves all ids. The table grows by one chain of entries for each id that is added, and
arrays grow in place. Removed ids leave gaps in the store of bytes; the next store, which may be
larger, takes over the ids entry by entry, as many at each call as it takes to be done in time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
SHARE = 32  # arrays grow by this part of them, so that little memory is filled at once


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
    >>> entry = ids.insert("a", WAITING)
    >>> ids.find("a") == entry, ids.find("b"), ids.id_of(entry), ids.ids(WAITING)
    (True, -1, 'a', ['a'])
    >>> ids.remove(entry)
    >>> ids.find("a"), ids.ids(WAITING)
    (-1, [])
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
        self.counts: memoryview[int] = counts.data
        self._last: tuple[str, int] | None = None  # the last id that was looked up
        self._moved = -1  # entries whose ids were moved to the new store; -1: all
        self._pace = 0.0  # entries to move for each byte that is added
        self._unmoved = 0  # the most bytes that they may have

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

    def insert(self, id_: str, kind: int) -> int:
        """A new entry, the last of its kind, for an id that is not there."""
        data = as_bytes(id_)
        self.reserve(1, data.size)
        entry = int(kernels.insert(self.arrays, data, kind))
        self._last = (id_, entry)
        return entry

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
        t = self.arrays
        counts = self.counts
        entries, slots = counts[ENTRIES] + ids, counts[SLOTS] + ids
        if entries > t.weights.size:
            room = _room(t.weights.size, entries)
            _grow(t.links, (room, 8))
            _grow(t.values, (room, 4))
            _grow(t.weights, (room,))
        chains = counts[BUCKETS] + ids
        if chains > t.heads.size:
            _grow(t.heads, (_room(t.heads.size, chains),))
        if slots > t.sizes.size:
            room = _room(t.sizes.size, slots)
            for array in (t.sizes, t.free, t.place):
                _grow(array, (room,))
        store = t.second if counts[SIDE] else t.first
        if self._moved >= 0 or counts[USED] + size > store.size:
            self._reserve_bytes(size)

    def _reserve_bytes(self, size: int) -> None:
        """Make room for the bytes of ids; move some ids if the store has just been exchanged."""
        c = self.arrays.counts
        if self._moved >= 0:
            self._move(max(MOVED, int(size * self._pace) + 1))
        store = self.arrays.second if c[SIDE] else self.arrays.first
        if int(c[USED]) + self._unmoved + size <= store.size:
            return
        if self._moved >= 0:
            self._move(int(c[ENTRIES]))  # more came at once than the pace allows for
        held = int(c[ID_BYTES])
        spare = max(BYTES, held, 2 * size)
        new = np.empty(held + spare, dtype=np.uint8)
        side = 1 - int(c[SIDE])
        c[SIDE], c[USED] = side, 0
        self._exchange(new, side)
        self._moved, self._pace, self._unmoved = 0, 2.0 * int(c[ENTRIES]) / spare, held
        self._move(max(MOVED, int(size * self._pace) + 1))

    def _move(self, entries: int) -> None:
        """Move the ids of that many more entries to the present store."""
        c = self.arrays.counts
        start, stop = self._moved, min(self._moved + entries, int(c[ENTRIES]))
        before = int(c[USED])
        kernels.move_ids(self.arrays, start, stop)
        self._moved, self._unmoved = stop, self._unmoved - (int(c[USED]) - before)
        if stop == int(c[ENTRIES]):
            self._exchange(np.zeros(0, dtype=np.uint8), 1 - int(c[SIDE]))
            self._moved, self._unmoved = -1, 0

    def _exchange(self, store: NDArray[np.uint8], side: int) -> None:
        t = self.arrays
        self.arrays = t._replace(second=store) if side else t._replace(first=store)


def _room(now: int, needed: int) -> int:
    return max(needed, now + max(FEWEST, now // SHARE))


def _grow(array: NDArray[Any], shape: tuple[int, ...]) -> None:
    """Enlarge an array in place. Where the system can move memory to another address without a
    copy, large ones are not copied."""
    array.resize(shape, refcheck=False)  # nothing else refers to it
