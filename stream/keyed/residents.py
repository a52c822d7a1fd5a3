"""Which keys are in memory. All others are rows of a store: of a file in the service, of a dict in
tests.

Rule: no result depends on which keys are in memory, or on when one left.

The sums of a key as one row of bytes, and back.

A row is, in little-endian numbers of 8 bytes:

    int64 (5,)     place of the key in the order of first learning, C, D, E, number of entries n
    float64        weight (C,), anchor (D,), moments (D, C, 3), seen (E, C), as in the kernels
    int64 (n,)     the tags of its entries, without the slot
    float64 (n, C) their counts

Rule: a row has the classes and features that were known when it was made. What came later is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stream.data.columns import padded
from stream.errors import StateError
from stream.keyed.table import LOW, KeyTable

__all__ = [
    "KeyRows",
    "KeyStore",
    "KeysView",
    "Residents",
    "all_in_memory",
    "number_of",
]

Ints = NDArray[np.int64]
HEAD = 5  # integers
NO_SLOT = (1 << LOW) - 1


def pack_slots(table: KeyTable, slots: Ints, numbers: Ints) -> list[bytes]:
    """The rows of these slots, whose keys have these places in the order of first learning."""
    s, e, n = table.slots, table.entries, slots.size
    known, shape = (s.weight.shape[1], s.anchor.shape[1], s.seen.shape[1]), (n, -1)
    parts = s.weight[slots], s.anchor[slots], s.moments[slots], s.seen[slots]
    floats = np.concatenate([part.reshape(n, part[0].size) for part in parts], axis=1)
    at = np.full(len(s.weight), -1, dtype=np.int64)
    at[slots] = np.arange(n)
    tag = e.tag[: int(e.used[0])]
    of = at[tag >> LOW]
    mine = np.flatnonzero(of >= 0)
    mine = mine[np.argsort(of[mine], kind="stable")]
    count = np.bincount(of[mine], minlength=n)
    head = np.empty((n, HEAD), dtype=np.int64)
    head[:, 0], head[:, 1:4], head[:, 4] = numbers, known, count
    fixed = np.concatenate([head.view(np.float64), floats], axis=1).reshape(shape)
    size, whole = 8 * fixed.shape[1], fixed.tobytes()
    rows = [whole[i : i + size] for i in range(0, n * size, size)]
    if mine.size:
        wide, given = 8 * known[0], np.zeros((mine.size, known[0]))
        given[:, : e.counts.shape[1]] = e.counts[mine]
        low, counts = (tag[mine] & NO_SLOT).tobytes(), given.tobytes()
        end = 0
        for i in np.flatnonzero(count).tolist():
            start, end = end, end + int(count[i])
            rows[i] += low[8 * start : 8 * end] + counts[wide * start : wide * end]
    return rows


def unpack_rows(rows: Sequence[bytes], slots: Ints, table: KeyTable) -> Ints:
    """Put rows into slots, which are empty. There is room for everything.

    Returns
    -------
    int64 array
        The place of each key in the order of first learning.

    Raises
    ------
    StateError
        A row is damaged.
    """
    head, s = _heads(rows), table.slots
    if not rows:
        return head[:, 0]
    most = s.weight.shape[1], s.anchor.shape[1], s.seen.shape[1]
    if (head < 0).any() or (head[:, 1:4] > most).any():
        raise StateError("a row of a key is damaged: it has unknown classes or features")
    _, kind = np.unique(head[:, 1:4], axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    for one in range(int(kind.max(initial=-1)) + 1):
        at = np.flatnonzero(kind == one)
        _unpack_alike([rows[i] for i in at.tolist()], head[at], slots[at], table)
    return np.ascontiguousarray(head[:, 0])


def _heads(rows: Sequence[bytes]) -> Ints:
    joined = b"".join(row[: 8 * HEAD] for row in rows)
    if len(joined) != 8 * HEAD * len(rows):
        raise StateError("a row of a key is damaged: it is too short")
    return np.frombuffer(joined, dtype=np.int64).reshape(len(rows), HEAD)


def _unpack_alike(rows: list[bytes], head: Ints, slots: Ints, table: KeyTable) -> None:
    """`unpack_rows` of rows with the same number of classes and features."""
    classes, numbers, categories = head[0, 1:4].tolist()
    sizes = classes, numbers, 3 * numbers * classes, categories * classes
    start, end = 8 * HEAD, 8 * (HEAD + sum(sizes))
    sound = (len(r) == end + 8 * n * (1 + classes) for r, n in zip(rows, head[:, 4], strict=True))
    if not all(sound):
        raise StateError("a row of a key is damaged: it has another size than it names")
    joined = b"".join(row[start:end] for row in rows)
    n, s = len(rows), table.slots
    floats = np.frombuffer(joined).reshape(n, sum(sizes))
    weight, anchor, moments, seen = np.split(floats, np.cumsum(sizes)[:-1], axis=1)
    s.weight[slots, :classes] = weight
    s.anchor[slots, :numbers] = anchor
    s.moments[slots, :numbers, :classes] = moments.reshape(n, numbers, classes, 3)
    s.seen[slots, :categories, :classes] = seen.reshape(n, categories, classes)
    count = head[:, 4]
    if count.any():
        middle = [end + 8 * many for many in count.tolist()]
        tags = (row[end:at] for row, at in zip(rows, middle, strict=True))
        low = np.frombuffer(b"".join(tags), dtype=np.int64)
        counts = np.frombuffer(b"".join(row[at:] for row, at in zip(rows, middle, strict=True)))
        if ((low < 0) | (low > NO_SLOT)).any():
            raise StateError("a row of a key is damaged: it has entries of no feature")
        table.add_entries((np.repeat(slots, count) << LOW) | low, counts.reshape(-1, classes))


def entries_in(rows: Sequence[bytes]) -> int:
    """How many entries these rows have."""
    return int(_heads(rows)[:, 4].sum())


def number_of(row: bytes) -> int:
    """The place of the key of a row in the order of first learning."""
    return int(_heads([row])[0, 0])


def weights_of(row: bytes) -> list[float]:
    """The weight of each class in a row."""
    classes = int(_heads([row])[0, 1])
    found: list[float] = np.frombuffer(row, offset=8 * HEAD, count=classes).tolist()
    return found


class KeyRows(Protocol):
    """The rows of a commit, to be read only."""

    def rows(self) -> Iterator[tuple[str, bytes]]:
        """All keys with their newest rows, in any order."""

    def restore(self, point: Mapping[str, Any] | None) -> None:
        """Return to the rows of a commit; None: without any row.

        Raises
        ------
        StateError
            The rows of this commit do not exist any more, or are damaged.
        """


class KeyStore(KeyRows, Protocol):
    """One row of bytes for each key, and points to which all rows can return.

    What is put belongs to the next commit. A store that fails raises an error, and then its learner
    is unusable.
    """

    @property
    def size(self) -> int:
        """Its bytes, for people."""

    def get(self, keys: Sequence[str]) -> list[bytes | None]:
        """The newest row of each key; None for a key without a row."""

    def put(self, keys: Sequence[str], rows: Sequence[bytes]) -> None:
        """Store the newest row of each key."""

    def commit(self) -> Mapping[str, Any]:
        """Make all rows durable. Returns a JSON mapping that names this point for `restore`."""


SHARE = 16  # one of so many keys leaves memory at once, because choosing them takes time
PIECE = 4096  # keys that are packed at once, because they are copied
OFTEN = 1024  # keys of blocks, after which changed rows are put, so that a commit has few left


@dataclass(frozen=True, slots=True)
class KeysView:
    """Where the keys of a learner are, for pages and metrics.

    Parameters
    ----------
    known, in_memory
        How many keys have a model, and how many of them are in memory.
    loads, evictions
        How many were read from the store since this process began, and how many left memory.
    size
        Bytes of the store.
    """

    known: int
    in_memory: int
    loads: int
    evictions: int
    size: int


def all_in_memory(
    rows: dict[str, bytes], table: KeyTable, bound: int
) -> tuple[list[str], KeyTable]:
    """All keys in the order of first learning, and a table with a slot for each in it.

    The sums of all records are those of `table`, which does not change. `rows` is emptied.
    """
    names = sorted(rows, key=lambda name: number_of(rows[name]))
    out = table.first_only()
    out.make_slots(len(names) + 1, bound + 1)
    for at in range(0, len(names), PIECE):
        some_names = names[at : at + PIECE]
        places = np.arange(at + 1, at + 1 + len(some_names))
        found = unpack_rows([rows.pop(name) for name in some_names], places, out)
        if (found != places).any():
            raise StateError("the rows of the keys are damaged: two keys have one number")
    return names, out


class Residents:
    """The keys with a slot, and the least recently used ones that leave it.

    Parameters
    ----------
    store
        Where the other keys are. It belongs to this object only.
    room
        How many keys may be in memory, at least 1.
    entries
        How many entries they may have. The keys of one block may have more.
    bound
        How many keys there may be.

    Attributes
    ----------
    codes : dict
        Key to slot, of the keys in memory.
    known : int
        How many keys have been learned.
    overflow : int
        How many records had one more key.
    loads, evictions : int
        How many keys were read from the store, and how many left memory.
    """

    def __init__(self, store: KeyStore, room: int, entries: int, bound: int) -> None:
        self.store, self.room, self.entries, self.bound = store, max(1, room), entries, bound
        self.loads = self.evictions = 0
        self._untouched = True  # the store may have the rows of an earlier learner
        self._empty()

    def _empty(self) -> None:
        self.codes: dict[str, int] = {}
        self.known = self.overflow = 0
        self._names: list[str] = [""]  # by slot
        self._free: list[int] = []
        self._turn = self._wanted = 0
        self._lately = 0, 0  # the turns when changed rows were put
        self._number, self._used = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self._dirty = np.zeros(1, dtype=np.bool_)

    def view(self) -> KeysView:
        """Where the keys are now."""
        size = 0 if self._untouched else self.store.size
        return KeysView(self.known, len(self.codes), self.loads, self.evictions, size)

    def restore(self, point: Mapping[str, Any] | None, known: int, refused: int) -> None:
        """Return to a commit of the store; None: to nothing. StateError: that is impossible."""
        self.store.restore(point)
        self._untouched = False
        self._empty()
        self.known, self.overflow = known, refused

    def stretch(self, keys: Sequence[str | None], start: int) -> int:
        """The end of the longest run of keys from `start` on for which there is room at once."""
        if len(keys) - start <= self.room:
            return len(keys)
        found: set[str] = set()
        for at in range(start, len(keys)):
            key = keys[at]
            if key is not None and key not in found:
                if len(found) == self.room:
                    return at
                found.add(key)
        return len(keys)

    def admit(self, wanted: Sequence[str], learned: Sequence[str], table: KeyTable) -> None:
        """Give keys a slot, if they are known or will be learned now.

        Parameters
        ----------
        wanted
            Distinct keys, at most `room`.
        learned
            The key of each learning step, in order. Each is wanted too.
        """
        if self._untouched:
            self.restore(None, 0, 0)
        self._turn += 1
        asked = [key for key in wanted if key not in self.codes]
        here = [self.codes[key] for key in wanted if key in self.codes]
        self._used[here] = self._turn
        rows = self.store.get(asked) if self.known > len(self.codes) and asked else []
        found = {key: row for key, row in zip(asked, rows, strict=False) if row is not None}
        fresh = self._fresh(learned, found)
        if found or fresh:
            self._load(found, fresh, table)
        self._write_ahead(len(wanted), table)
        changed = [slot for key in learned if (slot := self.codes.get(key)) is not None]
        self._dirty[changed] = True

    def _write_ahead(self, wanted: int, table: KeyTable) -> None:
        """Now and then put the changed rows of keys that were not used lately. The others will
        probably change again soon."""
        self._wanted += wanted
        if self._wanted >= OFTEN:
            self._save(np.flatnonzero(self._dirty & (self._used <= self._lately[0])), table)
            self._lately, self._wanted = (self._lately[1], self._turn), 0

    def _fresh(self, learned: Iterable[str], found: Mapping[str, bytes]) -> list[str]:
        """The keys that are learned for the first time, in order."""
        fresh: dict[str, None] = {}
        for key in learned:
            if key in self.codes or key in found or key in fresh:
                continue
            if self.known + len(fresh) < self.bound:
                fresh[key] = None
            else:
                self.overflow += 1
        return list(fresh)

    def _load(self, found: Mapping[str, bytes], fresh: Sequence[str], table: KeyTable) -> None:
        keys = [*found, *fresh]
        self._make_room(len(keys), entries_in(list(found.values())), table)
        slots = np.array([self._slot(key) for key in keys], dtype=np.int64)
        self._grow(table)
        table.clear(slots)
        before = int(table.entries.used[0])
        self._number[slots[: len(found)]] = unpack_rows(
            list(found.values()), slots[: len(found)], table
        )
        table.entries.used[2] -= int(table.entries.used[0]) - before
        self._number[slots[len(found) :]] = np.arange(self.known + 1, self.known + 1 + len(fresh))
        self._used[slots], self._dirty[slots] = self._turn, False
        self.known += len(fresh)
        self.loads += len(found)

    def _slot(self, key: str) -> int:
        """A slot that nobody uses."""
        if self._free:
            slot = self._free.pop()
            self._names[slot] = key
        else:
            slot = len(self._names)
            self._names.append(key)
        self.codes[key] = slot
        return slot

    def _grow(self, table: KeyTable) -> None:
        """Make room for all slots in the table and in the columns."""
        table.make_slots(len(self._names), self.room + 1)
        size = len(table.slots.weight)
        if size > self._used.size:
            for name in ("_number", "_used", "_dirty"):
                setattr(self, name, padded(getattr(self, name), (size,)))

    def _make_room(self, keys: int, entries: int, table: KeyTable) -> None:
        """Have the least recently used keys leave, if the room for keys or entries is exceeded."""
        more = len(self.codes) + keys - self.room
        of_all = int(table.slots.values.sum())  # slot 0 has at most an entry for each value
        held = int(table.entries.used[0]) + entries - of_all - self.entries
        if more <= 0 and held <= 0:
            return
        used = self._used[: len(self._names)].copy()
        used[0] = used[self._free] = self._turn
        old = np.flatnonzero(used < self._turn)
        old = old[np.argsort(used[old], kind="stable")]
        have = np.bincount(table.owners(), minlength=len(used))[old]
        leave = max(more, self.room // SHARE)
        if held > 0:
            leave = max(leave, int(np.searchsorted(np.cumsum(have), held)) + 1)
        self._save(gone := np.sort(old[:leave]), table)
        for slot in gone.tolist():
            del self.codes[self._names[slot]]
            self._names[slot] = ""
        self._free.extend(gone.tolist())
        table.drop_entries(gone)
        self.evictions += len(gone)

    def _save(self, slots: Ints, table: KeyTable) -> None:
        """Put the rows of slots that have changed since they were read."""
        changed = slots[self._dirty[slots]]
        for at in range(0, changed.size, PIECE):
            some = changed[at : at + PIECE]
            keys = [self._names[slot] for slot in some.tolist()]
            self.store.put(keys, pack_slots(table, some, self._number[some]))
        self._dirty[changed] = False

    def outside(self, table: KeyTable) -> int:
        """How many entries the keys have, in memory or not."""
        e = table.entries
        return int(e.used[0] + e.used[2]) - int(np.count_nonzero(table.owners() == 0))

    def commit(self, table: KeyTable) -> Mapping[str, Any]:
        """Put all changed rows, and make them durable. Returns the point for `restore`."""
        if self._untouched:
            self.restore(None, 0, 0)
        self._save(np.flatnonzero(self._dirty), table)
        return self.store.commit()

    def take_over(self, names: Sequence[str], refused: int, table: KeyTable) -> None:
        """Put the keys of a learner that had all of them in memory, by slot, into the store."""
        self.restore(None, len(names), refused)
        for at in range(0, len(names), PIECE):
            slots = np.arange(at + 1, min(at + PIECE, len(names)) + 1)
            self.store.put(names[at : at + PIECE], pack_slots(table, slots, slots))
        table.keep_first()

    def whole(self, table: KeyTable, bound: int) -> tuple[list[str], KeyTable]:
        """All keys in the order of first learning, and a table with a slot for each in it. The
        table in use does not change. O(keys)."""
        rows = {} if self._untouched else dict(self.store.rows())
        slots = np.array(sorted(self.codes.values()), dtype=np.int64)
        for at in range(0, slots.size, PIECE):
            some = slots[at : at + PIECE]
            packed = pack_slots(table, some, self._number[some])
            rows.update(zip([self._names[slot] for slot in some.tolist()], packed, strict=True))
        return all_in_memory(rows, table, bound)

    def weights(self, key: str, table: KeyTable) -> list[float]:
        """The weight of each class of a key; none if it is not known."""
        slot = self.codes.get(key)
        if slot is not None:
            found: list[float] = table.slots.weight[slot].tolist()
            return found
        row = None if self._untouched else self.store.get([key])[0]
        return [] if row is None else weights_of(row)
