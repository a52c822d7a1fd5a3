"""The obvious twin of DecisionTreeClassifier: nodes as objects with lists of dicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import exp, log
from typing import Any

from stream.data.schema import Label
from tests.oracles.knn import SlowKNN

Record = tuple[dict[str, Any], Label, float]


@dataclass
class Node:
    """A node with its records; a leaf until it has a test."""

    depth: int = 0
    records: list[Record] = field(default_factory=list)
    weights: dict[Label, float] = field(default_factory=dict)
    test: tuple[str, Any] | None = None
    children: list[Node] = field(default_factory=list)
    odds: float = 0.0
    tried: int = 0

    def add(self, y: Label, w: float) -> None:
        """Count a record."""
        self.weights[y] = self.weights.get(y, 0.0) + w

    def child(self, x: dict[str, Any]) -> Node:
        """Where the record goes."""
        name, cut = self.test
        if name not in x:
            left, right = (sum(child.weights.values()) for child in self.children)
            return self.children[0 if left >= right else 1]
        return self.children[0 if passes(x[name], cut) else 1]


def passes(value: Any, cut: Any) -> bool:
    """Whether the record goes left."""
    return bool(value == cut if isinstance(cut, str) else value <= cut)


def by_class(records: list[Record]) -> dict[Label, float]:
    """The weight of each class."""
    out: dict[Label, float] = {}
    for _, y, w in records:
        out[y] = out.get(y, 0.0) + w
    return out


def purity(records: list[Record]) -> float:
    """The squared weights of the classes by their weight."""
    weights = by_class(records).values()
    return sum(w * w for w in weights) / sum(weights)


def likelihood(records: list[Record]) -> float:
    """The log likelihood of the classes by their own shares."""
    weights = by_class(records).values()
    return sum(w * log(w / sum(weights)) for w in weights)


class SlowTree:
    """The docstring of DecisionTreeClassifier read out loud."""

    def __init__(
        self,
        window: int = 10_000,
        grace_period: int = 50,
        max_depth: int = 20,
        max_nodes: int = 4095,
    ) -> None:
        self.window, self.grace, self.deepest, self.most = (
            window,
            grace_period,
            max_depth,
            max_nodes,
        )
        self.root = Node()
        self.kept: list[Record] = []
        self.names: list[str] = []
        self.classes: list[Label] = []
        self.learned, self.due, self.refused = 0, 100, 0

    def nodes(self) -> list[Node]:
        """All of them, breadth first."""
        found = [self.root]
        for node in found:
            found += node.children
        return found

    def path(self, x: dict[str, Any]) -> list[Node]:
        """From the root to the leaf."""
        found = [self.root]
        while found[-1].children:
            found.append(found[-1].child(x))
        return found

    def own(self, node: Node) -> dict[Label, float]:
        """The shares of the classes in a node."""
        total, known = sum(node.weights.values()), len(self.classes)
        return {y: (node.weights.get(y, 0.0) + 1 / known) / (total + 1) for y in self.classes}

    def mixed(self, path: list[Node]) -> dict[Label, float]:
        """What the first node of the path predicts, with all that are below it."""
        own = self.own(path[0])
        if len(path) == 1:
            return own
        below, share = self.mixed(path[1:]), 1 / (1 + exp(-path[0].odds))
        return {y: share * own[y] + (1 - share) * below[y] for y in self.classes}

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Label, float]:
        """All prunings, each by its posterior probability."""
        return self.mixed(self.path(SlowKNN.clean(x))) if self.classes else {}

    def learn_one(self, x: dict[str, Any], y: Label, w: float = 1.0) -> None:
        """Count it on its way, keep it in its leaf, and look for a test there."""
        kept = SlowKNN.clean(x)
        self.names += sorted(name for name in kept if name not in self.names)
        self.classes += [y] if y not in self.classes else []
        path = self.path(kept)
        ratios = [
            log(self.own(node)[y] / self.mixed(path[i + 1 :])[y])
            for i, node in enumerate(path[:-1])
        ]
        for node, ratio in zip(path, ratios, strict=False):
            node.odds = min(max(node.odds + min(w, 100.0) * ratio, -20.0), 20.0)
        for node in path:
            node.add(y, w)
        record, leaf = (kept, y, w), path[-1]
        if len(self.kept) == self.window:
            self.forget(self.kept.pop(0))
        self.kept.append(record)
        leaf.records.append(record)
        self.learned += 1
        if self.learned == self.due:
            self.due += min(self.due, self.window)
            self.grow()
        elif len(leaf.records) >= leaf.tried + max(self.grace, leaf.tried // 4):
            self.attempt(leaf)

    def forget(self, oldest: Record) -> None:
        """The oldest record is the first one of its leaf."""
        for leaf in self.nodes():
            if leaf.records and leaf.records[0] is oldest:
                leaf.records.pop(0)
                leaf.tried = min(leaf.tried, len(leaf.records))

    def grow(self) -> None:
        """The whole tree again."""
        self.root = Node(records=[*self.kept], weights=by_class(self.kept))
        waiting = [self.root]
        for node in waiting:
            self.attempt(node)
            waiting += node.children

    def attempt(self, leaf: Node) -> None:
        """Split a leaf, if that is worth it."""
        leaf.tried = len(leaf.records)
        if leaf.depth >= self.deepest or len({y for _, y, _ in leaf.records}) < 2:
            return
        test = self.best(leaf.records)
        if test is None:
            return
        if len(self.nodes()) + 2 > self.most:
            self.refused += 1
            return
        leaf.test, leaf.odds = test, -3.0
        leaf.children = [Node(leaf.depth + 1), Node(leaf.depth + 1)]
        name, cut = test
        present = [r for r in leaf.records if name in r[0]]
        for x, y, w in present:
            leaf.children[0 if passes(x[name], cut) else 1].add(y, w)
        home = leaf.child({})
        for record in leaf.records:
            x, y, w = record
            child = leaf.child(x) if name in x else home
            child.records.append(record)
            if name not in x:
                child.add(y, w)
        for child in leaf.children:
            child.tried = len(child.records)
        leaf.records, leaf.tried = [], 0

    def best(self, records: list[Record]) -> tuple[str, Any] | None:
        """The test that adds most to the likelihood, if it is worth its name."""
        found, most, used = None, 0.0, 0
        for name in self.names:
            present = [r for r in records if name in r[0]]
            cuts = self.cuts([x[name] for x, _, _ in present])
            if len(present) < 4 or not cuts:
                continue
            used += 1
            purest = None
            for cut in cuts:
                left = [r for r in present if passes(r[0][name], cut)]
                right = [r for r in present if not passes(r[0][name], cut)]
                if min(len(left), len(right)) >= 2:
                    score = purity(left) + purity(right)
                    if purest is None or score > purest[0]:
                        purest = score, cut, left, right
            if purest is None:
                continue
            _, cut, left, right = purest
            tests = len(cuts) - (isinstance(cut, str) and len(cuts) == 2)
            gain = likelihood(left) + likelihood(right) - likelihood(present)
            gain -= 0.5 * (log(tests) + 0.5 * (len(by_class(present)) - 1) * log(len(present)))
            if gain > most:
                found, most = (name, cut), gain
        return found if found and most > 0.5 * log(used) else None

    @staticmethod
    def cuts(values: list[Any]) -> list[Any]:
        """Each category, by first appearance; or the middles between numbers, rising."""
        if values and isinstance(values[0], str):
            distinct = list(dict.fromkeys(values))
            return distinct if len(distinct) > 1 else []
        rising = sorted(set(values))
        out = []
        for low, high in pairwise(rising):
            middle = 0.5 * low + 0.5 * high
            out.append(middle if low <= middle < high else low)
        return out
