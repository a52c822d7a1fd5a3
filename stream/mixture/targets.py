"""Targets: how often each class came with each value of a few fields; bounded.

Rule: a value is known by a hash of 63 bits. A table doubles when a group of it is full. At the
largest size a new value takes the place of the one whose last label is oldest.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats, Rows
from stream.data.state import Rules, Saved, State, count_in
from stream.mixture._kernels import targets as kernels
from stream.mixture._kernels.targets import FULL, GROUP, TWO, Tallied
from stream.remembered import remembered

__all__ = ["FEWEST_SLOTS", "MOST_SLOTS", "SEPARATOR", "Targets"]

SEPARATOR = "\x1f"  # between the name of a field and a value, or a class
FEWEST_SLOTS, MOST_SLOTS = 2**6, 2**16
HEAVIEST = 1e290  # of a count in a state; never reached

Ints = NDArray[np.int64]


@remembered(2**14)
def tag_of(value: str, field: str) -> int:
    """The number of a value of a field, from 1 to 2**63 - 1.

    Examples
    --------
    >>> tag_of("JFK", "airport")
    6335439343336909332
    """
    text = f"{field}{SEPARATOR}{value}".encode("utf-8", "surrogatepass")
    return max(int.from_bytes(blake2b(text, digest_size=8).digest(), "little") >> 1, 1)


class Targets:
    """The counts of the values of these fields.

    Attributes
    ----------
    most : int
        The largest number of slots, a power of two.
    """

    def __init__(self, fields: Sequence[str], most: int = MOST_SLOTS) -> None:
        self.fields, self.most = list(fields), most
        self._counted = _empty(FEWEST_SLOTS, 0, len(self.fields))

    @property
    def distinct(self) -> Ints:
        """int64 (F,): how many values of each field were learned."""
        return self._counted.distinct

    @property
    def forgotten(self) -> int:
        """How many values had to make room for others."""
        return int(self._counted.labels[1])

    def widen(self, classes: int) -> None:
        """Make room for the counts of that many classes."""
        if more := classes - self._classes:
            counts = np.pad(self._counted.counts, ((0, 0), (0, 0), (0, more)))
            total = np.pad(self._counted.total, ((0, 0), (0, more)))
            self._counted = self._counted._replace(counts=counts, total=total)

    def tags(self, rows: Rows) -> Ints:
        """int64 (rows, F): the number of each value; 0 if it is missing."""
        tags = np.zeros((len(rows), len(self.fields)), dtype=np.int64)
        for j, name in enumerate(rows.categorical_names):
            if name in self.fields:
                cells = rows.categorical[:, j].tolist()
                found = {cell: tag_of(cell, name) for cell in set(cells) if cell is not None}
                tags[:, self.fields.index(name)] = [found.get(cell, 0) for cell in cells]
        return tags

    def follow(
        self, steps: tuple[Any, ...], span: Ints, tags: Ints, memo: Floats, limit: int
    ) -> Floats:
        """`follow` of the kernels: shares float64 (rows, F, C, 2) by the steps of `span`, which is
        changed."""
        shares = self._none(len(tags))
        source = np.zeros(len(tags), dtype=np.int8)
        grows = self._counted.tag.size < self.most
        rule = limit, grows, self._counted
        if kernels.follow(*steps, span, tags, memo, *rule, source, shares) == FULL:
            self._grow()
        return shares

    def now(self, known: int, tags: Ints, memo: Floats) -> Floats:
        """Shares of rows as they are noted in memo, or else by the present counts."""
        shares = self._none(len(tags))
        kernels.at_present(known, tags, memo, self._counted, shares)
        return shares

    def replace(self, tags: Ints, old: tuple[int, float], new: tuple[int, float], age: int) -> None:
        """Replace the class of a label, and its weight, in the counts of values int64 (F,)."""
        kernels.replace(tags, old[0], new[0], old[1], new[1], age, self._counted)

    @property
    def _classes(self) -> int:
        return int(self._counted.total.shape[1])

    def _none(self, rows: int) -> Floats:
        return np.full((rows, len(self.fields), self._classes, TWO), np.nan)

    def _grow(self) -> None:
        old = self._counted
        new = _empty(2 * old.tag.size, self._classes, old.distinct.size)
        kernels.move(old, new)
        self._counted = old._replace(tag=new.tag, used=new.used, counts=new.counts)

    def export(self) -> State:
        """The state; its arrays are not copied."""
        arrays = self._counted._asdict()
        labels, forgotten = arrays.pop("labels").tolist()
        return State({"learned": labels, "forgotten": forgotten}, arrays)

    def restore(self, own: State, classes: int) -> None:
        """StateError: the state is damaged."""
        learned, forgotten = count_in(own.header, "learned"), count_in(own.header, "forgotten")
        table = {
            "tag": Saved(np.int64, ("slots",), 0),
            "used": Saved(np.int64, ("slots",), 0, learned),
            "counts": Saved(np.float64, (TWO, "slots", classes), 0.0, HEAVIEST),
            "total": Saved(np.float64, (TWO, classes), 0.0, HEAVIEST),
            "distinct": Saved(np.int64, (len(self.fields),), 0),
        }
        rules: Rules = {
            f"a power of two of {FEWEST_SLOTS} to {self.most} slots": lambda a: (
                a["tag"].size in _sizes(self.most)
            ),
            "each value once, in its group": lambda a: _in_place(a["tag"]),
            "counts of values only": lambda a: (
                (a["used"][a["tag"] == 0] == 0).all() and not a["counts"][:, a["tag"] == 0].any()
            ),
            "values that were learned": lambda a: (a["used"][a["tag"] != 0] > 0).all(),
            "as many values as were learned": lambda a: (
                a["distinct"].sum() == (a["tag"] != 0).sum() + forgotten
            ),
        }
        found = own.read(table, rules)
        labels = np.array([learned, forgotten], dtype=np.int64)
        self._counted = Tallied(**found, labels=labels)


def _empty(slots: int, classes: int, fields: int) -> Tallied:
    return Tallied(
        tag=np.zeros(slots, dtype=np.int64),
        used=np.zeros(slots, dtype=np.int64),
        counts=np.zeros((TWO, slots, classes)),
        total=np.zeros((TWO, classes)),
        distinct=np.zeros(fields, dtype=np.int64),
        labels=np.zeros(2, dtype=np.int64),
    )


def _sizes(most: int) -> set[int]:
    return {2**k for k in range(FEWEST_SLOTS.bit_length() - 1, most.bit_length())}


def _in_place(tag: Ints) -> bool:
    """Whether each tag is in its group, and once."""
    at = np.flatnonzero(tag)
    groups = tag[at] & (tag.size // GROUP - 1)
    return bool((groups == at // GROUP).all()) and np.unique(tag[at]).size == at.size
