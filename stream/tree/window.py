"""The newest records and the tree that is grown from them.

Rule: a test of a node may name a category of which the window has no record any longer, so the
codes of categories that are in use are those of the window and of the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Block, Floats
from stream.data.columns import grown, named, padded, restored
from stream.data.schema import HEAVIEST, LARGEST
from stream.data.state import Rules, Saved, State, count_in
from stream.errors import StateError
from stream.neighbors.categories import CategoryCodes
from stream.neighbors.columns import Attributes
from stream.tree._kernels.progress import SUREST
from stream.tree._kernels.splits import (
    COUNTS,
    DUE,
    HELD,
    LEARNED,
    NODES,
    REFUSED,
    START,
    Bounds,
    Ints,
    TreeArrays,
    TreeScratch,
    push,
)

__all__ = ["Grown"]

FIRST = 100  # records after which the tree grows again for the first time
LARGEST_WEIGHT = 1e290  # of a class in a state; never reached
NODE_INTS = ("feature", "left", "depth", "first", "last", "held", "tried")
RECORD_INTS = ("label", "leaf", "after")
COUNTED = {"learned": LEARNED, "due": DUE, "refused": REFUSED}


class Grown(Attributes):
    """The window and the tree, with names of columns and codes of categories.

    Attributes
    ----------
    arrays : TreeArrays
        What kernels work on.
    """

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds.window)
        self._bounds = bounds
        self.arrays = _empty()
        self.arrays.counts[[NODES, DUE]] = 1, FIRST
        self._widen([], 0, 0)
        s = self.arrays  # by no kernel, because to make a learner loads no compiler
        s.feature[0] = s.first[0] = s.last[0] = -1

    @property
    def refused(self) -> int:
        """How many tests the bound of nodes has refused."""
        return int(self.arrays.counts[REFUSED])

    @property
    def nodes(self) -> int:
        """The number of nodes, with the leaves."""
        return int(self.arrays.counts[NODES])

    @property
    def nominal(self) -> Ints:
        return self.arrays.nominal

    def admit(self, block: Block, classes: int) -> Floats:
        """The rows of the block, float64 (n, D), after there is room for what its steps learn."""
        x, learns, fresh = self.encode(block)
        if learns:
            self._widen(fresh, classes, learns)
        return x

    def room(self) -> TreeScratch:
        """Scratch for the kernels. It holds no state."""
        s, depth = self.arrays, self._bounds.depth + 1
        records, classes = s.label.size, s.n.shape[1]
        return TreeScratch(
            np.empty(records),
            np.empty(records, dtype=np.int64),
            np.empty(records),
            np.empty(records, dtype=np.int64),
            np.empty(classes),
            np.empty(classes),
            np.empty(depth, dtype=np.int64),
            np.empty((depth, classes)),
        )

    def _widen(self, fresh: Sequence[bool], classes: int, learns: int) -> None:
        """Make room for new attributes, categorical or not, and for classes and records.

        The window is not yet full where it grows, so its records stay where they are.
        """
        s, bounds = self.arrays, self._bounds
        old, d = s.cells.shape[0], s.nominal.size + len(fresh)
        needed = min(bounds.window, int(s.counts[HELD]) + learns)
        records = grown(needed, old, bounds.window)
        # Each leaf had a record of its own since the tree grew, and at most two windows came.
        nodes = min(bounds.nodes, 4 * records + 1)
        changed: dict[str, NDArray[Any]] = {}
        if records > old or fresh:
            changed["cells"] = np.full((records, d), np.nan)
            changed["cells"][:old, : s.nominal.size] = s.cells
            kinds = np.array([*s.nominal.tolist(), *fresh], dtype=np.int64)
            changed |= {"nominal": kinds, "weight": padded(s.weight, (records,))}
            changed |= {name: padded(getattr(s, name), (records,)) for name in RECORD_INTS}
        if nodes > s.feature.size or classes > s.n.shape[1]:
            changed["n"] = padded(s.n, (nodes, grown(classes, s.n.shape[1], classes)))
            for name in (*NODE_INTS, "cut", "odds"):
                changed[name] = padded(getattr(s, name), (nodes,))
        self.arrays = s._replace(**changed)

    def _by_age(self) -> Ints:
        """The positions of the records, oldest first."""
        s = self.arrays
        out: Ints = (s.counts[START] + np.arange(s.counts[HELD])) % max(s.label.size, 1)
        return out

    def _named_categories(self) -> NDArray[np.bool_]:
        """bool (nodes,): which nodes test a category."""
        s = self.arrays
        feature = s.feature[: self.nodes]
        nominal = np.append(s.nominal, 0)  # of leaves, whose feature is -1
        out: NDArray[np.bool_] = nominal[feature] == 1
        return out

    def codes_in_use(self) -> Floats:
        """The codes in the window, oldest record first, and those of tests."""
        s = self.arrays
        cells = s.cells[self._by_age()][:, s.nominal == 1]
        return np.concatenate((cells.ravel(), s.cut[: self.nodes][self._named_categories()]))

    # Saving and loading.

    def export(self, classes: int) -> State:
        """The state. It does not depend on the positions of records in memory."""
        s, at, nodes = self.arrays, self._by_age(), self.nodes
        cells, cut, nominal = s.cells[at], s.cut[:nodes].copy(), s.nominal == 1
        codes, categories = self._categories.export(self.codes_in_use())
        split = cells[:, nominal].size
        cells[:, nominal] = codes[:split].reshape(cells[:, nominal].shape)
        cut[self._named_categories()] = codes[split:]
        there = ~np.isnan(cells)
        arrays: dict[str, NDArray[np.generic]] = {
            "cells": np.where(there, cells, 0.0),
            "there": there.astype(np.uint8),
            "nominal": s.nominal,
            "cut": cut,
            "n": s.n[:nodes, :classes],
        }
        arrays |= {name: getattr(s, name)[at] for name in ("label", "weight", "leaf")}
        for name in ("feature", "left", "odds", "tried"):
            arrays[name] = getattr(s, name)[:nodes]
        counts = {name: int(s.counts[k]) for name, k in COUNTED.items()}
        return State.join(
            {
                "names": State(named(self.features)),
                "tree": State(counts, arrays),
                "categories": categories,
            }
        )

    @classmethod
    def restored(cls, state: State, bounds: Bounds, classes: int) -> Grown:
        """What `export` saved. StateError, KeyError, TypeError: it is damaged."""
        out = cls(bounds)
        out.features = restored(out.features, state.nested("names"))
        own, features = state.nested("tree"), len(out.features)
        found = own.read(_table(features, classes, bounds), _rules(bounds))
        held, nodes = found["label"].size, found["feature"].size
        out._widen(found["nominal"].astype(bool).tolist(), classes, held)
        s = out.arrays
        for name in ("label", "weight"):
            getattr(s, name)[:held] = found[name]
        s.cells[:held] = np.where(found["there"] > 0, found["cells"], np.nan)
        s.counts[NODES] = nodes
        _place(found, s)
        for name, k in COUNTED.items():
            s.counts[k] = count_in(own.header, name)
        if s.counts[DUE] <= s.counts[LEARNED]:
            raise StateError("due: expected more records than were learned")
        for i, leaf in enumerate(found["leaf"].tolist()):
            push(leaf, i, s)
        s.counts[HELD] = held
        out._categories = CategoryCodes.restored(out.codes_in_use(), state.nested("categories"))
        return out


def _empty() -> TreeArrays:
    """Of no record, with room for none."""
    ints, numbers, tables = np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros((0, 0))
    return TreeArrays(
        cells=tables,
        label=ints,
        weight=numbers,
        leaf=ints,
        after=ints,
        nominal=ints,
        feature=ints,
        cut=numbers,
        left=ints,
        depth=ints,
        n=tables,
        odds=numbers,
        first=ints,
        last=ints,
        held=ints,
        tried=ints,
        counts=np.zeros(COUNTS, dtype=np.int64),
    )


def _table(features: int, classes: int, bounds: Bounds) -> dict[str, Saved]:
    """What the arrays of a state must be."""
    node, record = ("nodes",), ("records",)
    return {
        "cells": Saved(np.float64, ("records", features), -LARGEST, LARGEST),
        "there": Saved(np.uint8, ("records", features), 0, 1),
        "nominal": Saved(np.int64, (features,), 0, 1),
        "label": Saved(np.int64, record, 0, classes - 1),
        "weight": Saved(np.float64, record, 0.0, HEAVIEST),
        "leaf": Saved(np.int64, record, 0, bounds.nodes - 1),
        "feature": Saved(np.int64, node, -1, features - 1),
        "left": Saved(np.int64, node, 0, bounds.nodes - 1),
        "cut": Saved(np.float64, node, -LARGEST, LARGEST),
        "odds": Saved(np.float64, node, -SUREST, SUREST),
        "tried": Saved(np.int64, node, 0, bounds.window),
        "n": Saved(np.float64, ("nodes", classes), 0.0, LARGEST_WEIGHT),
    }


def _rules(bounds: Bounds) -> Rules:
    """How the arrays of a state must fit together."""
    return {
        f"at most {bounds.window} records": lambda a: a["label"].size <= bounds.window,
        f"1 to {bounds.nodes} nodes": lambda a: 1 <= a["feature"].size <= bounds.nodes,
        "weights above 0": lambda a: a["weight"] > 0,
        "each node but the first as a child of an earlier one": _is_tree,
        f"leaves at a depth of at most {bounds.depth}": lambda a: (
            _depths(a).max(initial=0) <= bounds.depth
        ),
        "records in leaves": lambda a: (
            a["leaf"].max(initial=0) < a["feature"].size and (a["feature"][a["leaf"]] == -1).all()
        ),
    }


def _is_tree(a: Mapping[str, NDArray[Any]]) -> bool:
    parents = np.flatnonzero(a["feature"] >= 0)
    left = a["left"][parents]
    children = np.sort(np.concatenate((left, left + 1)))
    every = np.arange(1, a["feature"].size)
    return bool(np.array_equal(children, every) and (left > parents).all())


def _depths(a: Mapping[str, NDArray[Any]]) -> Ints:
    """The depth of each node of a tree."""
    depth = np.zeros(a["feature"].size, dtype=np.int64)
    for k in np.flatnonzero(a["feature"] >= 0).tolist():
        left = a["left"][k]
        depth[left : left + 2] = depth[k] + 1
    return depth


def _place(found: Mapping[str, NDArray[Any]], s: TreeArrays) -> None:
    """The nodes of a state, without the records of leaves."""
    nodes = found["feature"].size
    s.depth[:nodes], s.first[:nodes], s.last[:nodes] = _depths(found), -1, -1
    for name in ("feature", "left", "cut", "odds", "tried"):
        getattr(s, name)[:nodes] = found[name]
    s.n[:nodes, : found["n"].shape[1]] = found["n"]
