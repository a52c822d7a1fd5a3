"""The sums of all keys as arrays, with room to grow, and as a State.

Rule: spare room is filled with zeros, and no result depends on its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats
from stream.data.state import State
from stream.data.tables import grown
from stream.errors import StateError
from stream.keyed._kernels import slots as kernels
from stream.keyed._kernels.slots import Entries, Slots, Strengths

__all__ = ["KeyTable", "entry_bytes", "slot_bytes"]

Ints = NDArray[np.int64]
GRID = len(kernels.GRID)
LEAST_PLACES = 16
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
        self.entries = Entries(np.zeros(0, dtype=np.int64), none, _places(0), np.zeros(2, np.int64))
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
            self.slots = self.slots._replace(**{name: _padded(getattr(self.slots, name), shape)})
        g, grid = self.strengths, (GRID,)
        self.strengths = g._replace(
            numbers=_padded(g.numbers, (numbers, *grid)),
            categories=_padded(g.categories, (categories, *grid)),
        )

    def make_entries(self, more: int, most: int) -> None:
        """Make room for up to `more` new entries, of at most `most`."""
        e, classes = self.entries, self.slots.weight.shape[1]
        needed = min(int(e.used[0]) + more, most)
        room = grown(needed, e.tag.size, most)
        if (room, classes) == e.counts.shape and e.place.size >= 2 * room:
            return
        place = e.place if e.place.size >= 2 * room else _places(room)
        counts = _padded(e.counts, (room, classes))
        self.entries = Entries(_padded(e.tag, (room,)), counts, place, e.used)
        if place is not e.place:
            kernels.place_all(self.entries)

    def export(self) -> State:
        """The state without spare room."""
        used, e = int(self.entries.used[0]), self.entries
        slots = {
            name: array if name == "values" else array[: self.known]
            for name, array in self.slots._asdict().items()
        }
        entries = {"tag": e.tag[:used], "counts": e.counts[:used]}
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
        shapes = {
            "weight": (slots, classes),
            "anchor": (slots, numbers),
            "moments": (slots, numbers, classes, 3),
            "seen": (slots, categories, classes),
            "evidence": (GRID + 2,),
            "numbers": (numbers, GRID),
            "categories": (categories, GRID),
            "prior": (1, GRID),
        }
        floats = {name: _finite(state, name, shape) for name, shape in shapes.items()}
        values, records = (state.array(name, np.int64, 1) for name in ("values", "records"))
        tag, counts = state.array("tag", np.int64, 1), state.array("counts", np.float64, 2)
        if values.shape != (categories,) or records.shape != (1,):
            raise StateError(f"expected the values of {categories} features, got another number")
        if not 0 <= int(records[0]) < MOST_RECORDS:
            raise StateError(f"expected the number of learned records, got {int(records[0])}")
        if ((values < 0) | (values > sizes)).any():
            raise StateError("expected at most as many learned values as there are, got more")
        if counts.shape != (tag.size, classes) or not ((counts >= 0.0) & (counts < np.inf)).all():
            raise StateError(f"expected counts of {tag.size} entries in {classes} classes")
        _check_tags(tag, slots, sizes)
        self.known = slots
        self.slots = Slots._make([*(floats[name] for name in Slots._fields[:-1]), values])
        fits = [floats[name] for name in Strengths._fields[:-1]]
        self.strengths = Strengths._make([*fits, records])
        used = np.array([tag.size, _refused(state.header)], dtype=np.int64)
        self.entries = Entries(tag, counts, _places(tag.size), used)
        kernels.place_all(self.entries)


def _places(entries: int) -> NDArray[np.int32]:
    """An empty hash table for that many entries, at most half full."""
    size = max(LEAST_PLACES, 1 << (2 * entries - 1).bit_length()) if entries else LEAST_PLACES
    return np.zeros(size, dtype=np.int32)


def _padded(a: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """`a`, or a copy of this shape with zeros where `a` has nothing."""
    if a.shape == shape:
        return a
    out = np.zeros(shape, dtype=a.dtype)
    out[tuple(map(slice, a.shape))] = a
    return out


def _finite(state: State, name: str, shape: tuple[int, ...]) -> Floats:
    array = state.array(name, np.float64, len(shape))
    if array.shape != shape:
        raise StateError(f"array {name!r}: expected the shape {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise StateError(f"array {name!r} has non-finite values")
    weights = array[..., ::2] if name == "moments" else array
    if name in ("weight", "seen", "moments") and not (weights >= 0.0).all():
        raise StateError(f"array {name!r} has negative weights")
    return array


def _check_tags(tag: Ints, slots: int, sizes: Ints) -> None:
    """StateError: a tag of no slot, feature or value, or one that is there twice."""
    value = tag & ((1 << kernels.VALUE_BITS) - 1)
    feature = (tag >> kernels.VALUE_BITS) & ((1 << kernels.FEATURE_BITS) - 1)
    slot = tag >> (kernels.VALUE_BITS + kernels.FEATURE_BITS)
    sound = (slot >= 0) & (slot < slots) & (feature < sizes.size)
    if not sound.all() or not (value < sizes[feature]).all() or np.unique(tag).size < tag.size:
        raise StateError("expected distinct entries of known keys and values, got others")


def _refused(header: Mapping[str, Any]) -> int:
    refused = header["refused"]
    if type(refused) is not int or refused < 0:
        raise StateError(f"expected the number of refused entries, got {refused!r}")
    return refused
