"""The sums of all keys as arrays, with room to grow, and as a State.

Rule: spare room is filled with zeros, and no result depends on its size.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats
from stream.data.columns import grown, padded
from stream.data.state import FINITE, Rules, Saved, State, count_in
from stream.keyed import _kernels as kernels
from stream.keyed._kernels import Entries, Slots, Strengths

__all__ = ["KeyTable", "entry_bytes", "slot_bytes"]

Ints = NDArray[np.int64]
GRID = len(kernels.GRID)
LEAST_PLACES = 16
LOW = kernels.VALUE_BITS + kernels.FEATURE_BITS  # bits of a tag below the slot
MOST_RECORDS = 2**62


def slot_bytes(classes: int, numbers: int, categories: int) -> int:
    """The bytes of one slot."""
    return 8 * (classes + numbers * (1 + 3 * classes) + categories * classes)


def entry_bytes(classes: int) -> int:
    """The bytes of one entry: its tag, up to four places of the hash table, and its counts."""
    return 24 + 8 * classes


class KeyTable:
    """The arrays of the kernels.

    Attributes
    ----------
    slots, entries, strengths
        See the kernels. Slot 0 has the sums of all records.
    known : int
        How many slots are in use.
    """

    def __init__(self) -> None:
        none = np.zeros((0, 0))
        self.slots = Slots(
            np.zeros((1, 0)),
            np.zeros((1, 0)),
            np.zeros((1, 0, 0, 3)),
            np.zeros((1, 0, 0)),
            np.zeros(0, dtype=np.int64),
        )
        self.entries = Entries(np.zeros(0, dtype=np.int64), none, _places(0), np.zeros(3, np.int64))
        evidence = np.zeros(GRID + 2), np.zeros((0, GRID)), np.zeros((0, GRID))
        self.strengths = Strengths(*evidence, np.zeros((1, GRID)), np.zeros(1, np.int64))
        self.known = 1

    def make_room(
        self, slots: int, classes: int, numbers: int, categories: int, most_slots: int
    ) -> None:
        """Make room for this many of each. Slots at least double."""
        self.known = slots
        s = self.slots
        rows = grown(slots, len(s.weight), most_slots)
        shapes = (
            (rows, classes),
            (rows, numbers),
            (rows, numbers, classes, 3),
            (rows, categories, classes),
            (categories,),
        )
        # One after the other, so that only one old array exists beside its copy.
        for name, shape in zip(Slots._fields, shapes, strict=True):
            self.slots = self.slots._replace(**{name: padded(getattr(self.slots, name), shape)})
        g, grid = self.strengths, (GRID,)
        self.strengths = g._replace(
            numbers=padded(g.numbers, (numbers, *grid)),
            categories=padded(g.categories, (categories, *grid)),
        )

    def make_slots(self, slots: int, most_slots: int) -> None:
        """Make room for this many slots. The number of classes and features stays."""
        s = self.slots
        sizes = s.weight.shape[1], s.anchor.shape[1], s.seen.shape[1]
        self.make_room(slots, *sizes, most_slots)

    def clear(self, slots: Ints) -> None:
        """Set the sums of slots to 0. Their entries stay."""
        for name in Slots._fields[:-1]:
            getattr(self.slots, name)[slots] = 0.0

    def owners(self) -> Ints:
        """The slot of each entry."""
        found: Ints = self.entries.tag[: int(self.entries.used[0])] >> LOW
        return found

    def add_entries(self, tag: Ints, counts: Floats) -> None:
        """Add entries, int64 (n,) and float64 (n, C) with at most as many classes as there are."""
        first = int(self.entries.used[0])
        self.make_entries(tag.size, first + tag.size)
        e, end = self.entries, first + tag.size
        e.tag[first:end] = tag
        e.counts[first:end, : counts.shape[1]] = counts
        e.used[0] = end
        kernels.place_from(first, e)

    def drop_entries(self, slots: Ints) -> None:
        """Remove the entries of slots. They count as those of keys that are not in memory."""
        gone = np.zeros(len(self.slots.weight), dtype=np.bool_)
        gone[slots] = True
        kept, e = ~gone[self.owners()], self.entries
        before, used = int(e.used[0]), int(np.count_nonzero(kept))
        if used == before:
            return
        e.tag[:used], e.counts[:used] = e.tag[:before][kept], e.counts[:before][kept]
        e.counts[used:before] = 0.0
        e.used[0], e.used[2] = used, e.used[2] + before - used
        e.place.fill(0)
        kernels.place_from(0, e)

    def first_only(self) -> KeyTable:
        """A copy with slot 0 only. Its entries count as all that there are."""
        out, s = KeyTable(), self.slots
        sizes = s.weight.shape[1], s.anchor.shape[1], s.seen.shape[1]
        out.make_room(1, *sizes, 1)
        for name in Slots._fields[:-1]:
            getattr(out.slots, name)[0] = getattr(s, name)[0]
        out.slots.values[:] = s.values
        out.strengths = Strengths._make(array.copy() for array in self.strengths)
        mine = np.flatnonzero(self.owners() == 0)
        out.add_entries(self.entries.tag[mine], self.entries.counts[mine])
        out.entries.used[1] = self.entries.used[1]
        return out

    def keep_first(self) -> None:
        """Keep slot 0 only. All other entries count as those of keys that are not in memory."""
        first, total = self.first_only(), int(self.entries.used[0] + self.entries.used[2])
        self.slots, self.entries, self.known = first.slots, first.entries, 1
        self.entries.used[2] = total - int(self.entries.used[0])

    def make_entries(self, more: int, most: int) -> None:
        """Make room for up to `more` new entries, of at most `most`."""
        e, classes = self.entries, self.slots.weight.shape[1]
        needed = min(int(e.used[0]) + more, most)
        room = grown(needed, e.tag.size, most)
        if (room, classes) == e.counts.shape and e.place.size >= 2 * room:
            return
        place = e.place if e.place.size >= 2 * room else _places(room)
        counts = padded(e.counts, (room, classes))
        self.entries = Entries(padded(e.tag, (room,)), counts, place, e.used)
        if place is not e.place:
            kernels.place_from(0, self.entries)

    def export(self, *, ordered: bool = False) -> State:
        """The state without spare room. `ordered`: with the entries in the order of their tags."""
        used, e = int(self.entries.used[0]), self.entries
        slots = {
            name: array if name == "values" else array[: self.known]
            for name, array in self.slots._asdict().items()
        }
        entries = {"tag": e.tag[:used], "counts": e.counts[:used]}
        if ordered:
            order = np.argsort(e.tag[:used])
            entries = {name: array[order] for name, array in entries.items()}
        return State({"refused": int(e.used[1])}, {**slots, **entries, **self.strengths._asdict()})

    def restore(self, state: State, slots: int, classes: int, numbers: int, sizes: Ints) -> None:
        """Check the state and take it over.

        Parameters
        ----------
        slots, classes, numbers
            How many there are.
        sizes
            int64: the number of values of each category feature.

        Raises
        ------
        StateError
            It is damaged.
        """
        categories = sizes.size
        table = {
            "weight": Saved(np.float64, (slots, classes), 0.0),
            "anchor": Saved(np.float64, (slots, numbers), -FINITE),
            # Of weight, mean and sum of squares, the mean has any sign.
            "moments": Saved(np.float64, (slots, numbers, classes, 3), np.array([0, -FINITE, 0])),
            "seen": Saved(np.float64, (slots, categories, classes), 0.0),
            "evidence": Saved(np.float64, (GRID + 2,), -FINITE),
            "numbers": Saved(np.float64, (numbers, GRID), -FINITE),
            "categories": Saved(np.float64, (categories, GRID), -FINITE),
            "prior": Saved(np.float64, (1, GRID), -FINITE),
            "values": Saved(np.int64, (categories,), 0, sizes),
            "records": Saved(np.int64, (1,), 0, MOST_RECORDS - 1),
            "tag": Saved(np.int64, ("entries",)),
            "counts": Saved(np.float64, ("entries", classes), 0.0),
        }
        rules: Rules = {
            "distinct entries of known keys and values": lambda a: _are_tags(a["tag"], slots, sizes)
        }
        found, refused = state.read(table, rules), count_in(state.header, "refused")
        tag, counts = found.pop("tag"), found.pop("counts")
        self.known = slots
        self.slots = Slots._make(found[name] for name in Slots._fields)
        self.strengths = Strengths._make(found[name] for name in Strengths._fields)
        used = np.array([tag.size, refused, 0], dtype=np.int64)
        self.entries = Entries(tag, counts, _places(tag.size), used)
        kernels.place_from(0, self.entries)


def _places(entries: int) -> NDArray[np.int32]:
    """An empty hash table for that many entries, at most half full."""
    size = max(LEAST_PLACES, 1 << (2 * entries - 1).bit_length()) if entries else LEAST_PLACES
    return np.zeros(size, dtype=np.int32)


def _are_tags(tag: Ints, slots: int, sizes: Ints) -> bool:
    """Whether each is of a slot, feature and value, and none is there twice."""
    value = tag & ((1 << kernels.VALUE_BITS) - 1)
    feature = (tag >> kernels.VALUE_BITS) & ((1 << kernels.FEATURE_BITS) - 1)
    slot = tag >> (kernels.VALUE_BITS + kernels.FEATURE_BITS)
    known = bool(((slot >= 0) & (slot < slots) & (feature < sizes.size)).all())
    return known and bool((value < sizes[feature]).all()) and np.unique(tag).size == tag.size
