"""DecisionTreeClassifier: tests of one attribute, found in the newest records.

Rule: a leaf is split when the best test adds more to the log likelihood of its records than it
costs to name the test (docs/decisions/decision-tree.md#a-test-must-be-worth-its-description).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Block, Rows
from stream.data.parameters import whole
from stream.data.schema import Kind, Label, Schema
from stream.data.state import State
from stream.errors import InvalidRecordError, SchemaError
from stream.learner.base import Learner, Predictions
from stream.learner.predictions import PRIOR, Explanation
from stream.learner.registry import Facts, registered
from stream.neighbors.categories import PER_CATEGORY
from stream.neighbors.columns import MAX_WINDOW
from stream.tree._kernels import progress as kernels
from stream.tree._kernels.splits import Bounds
from stream.tree.window import Grown

__all__ = ["DecisionTreeClassifier"]

MOST_NODES = 2**20
DEEPEST = 64


@registered(
    Facts(
        model="tests of single fields, one after the other",
        cost="C·depth; C·depth, and the search of tests",
        memory="window·D + nodes·C",
        merge_unlearn="no, no",
        missing="goes where most records go",
        source="Helmbold and Schapire 1997; Breiman et al. 1984; Domingos and Hulten 2000",
        reads={"numeric": "used", "binary": "the numbers 0 and 1", "categorical": "used"},
    )
)
class DecisionTreeClassifier(Learner):
    """A decision tree over the newest records, one record at a time.

    Parameters
    ----------
    window
        The number of records from which tests are found: the newest ones. At most 2**20; see Notes
        for the number of attributes.
    grace_period
        How many records come to a leaf before a test is looked for; at least as many again, or a
        quarter of those it had, before the next time.
    max_depth
        The largest number of tests of a record, at most 64.
    max_nodes
        The largest number of nodes, leaves included, at most 2**20. ``overflows["nodes"]`` counts
        the tests that were left out.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    features : list of str
        Attributes in the order they were first learned.
    n_nodes : int
        The number of nodes, leaves included.

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: an infinite number, a number in a field of categories or
        a category in a field of numbers.

    Notes
    -----
    A node tests whether a number is at most a cut, or whether a category is a given one. A leaf
    keeps its records of the window. Of each attribute the test with the least Gini index is
    compared. The best one splits the leaf if it adds more to the log likelihood of the records'
    classes than log attributes + log cuts + (classes - 1) / 2 · log records, the length of its
    description (Rissanen 1978). The two new leaves get the records of the old one, so none is
    learned from twice or lost. Each side has at least 2 records.

    After 100, 200, 400 … records, and later after each window, the tree grows again from the
    records of the window. So a first test that was wrong, or is not right any longer, is replaced.

    P(class | x) is that of all prunings of the tree, each by its posterior probability. A node
    predicts the shares of its classes, (n_c + 1/C) / (n + 1), mixed with what its child predicts.
    The odds of the two change by the likelihood of each label, in which a record counts as at most
    100.

    A Hoeffding tree (Domingos and Hulten 2000) keeps sums instead of records, waits until the best
    test differs from the second one by Hoeffding's bound, and its new leaves begin without records.
    It needs less memory and about ten times as many records.

    Missing values are left out where tests are compared. A record without the tested attribute goes
    to the child with more weight. Truth values are the numbers 0 and 1. Fields that a schema
    declares to be texts are ignored. Memory: 8 bytes for each value of a record, and 40 for the
    record. At most 2**25 values: a window of n records has at most 2**25 / n attributes, and at
    most 65,536. Further attributes are left out; ``overflows["features"]`` counts them. `limit`
    makes the window smaller if its records need more than half of the bytes.

    Cost: O(C · depth) to predict. To learn the same, and the search for tests, which sorts the
    records of a leaf for each attribute: O(D · log window · depth) in the mean, while the record
    at which the tree grows again takes as long as the whole window.

    Source: Helmbold and Schapire 1997, Predicting Nearly as Well as the Best Pruning of a Decision
    Tree; Willems, Shtarkov and Tjalkens 1995, The Context-Tree Weighting Method; Breiman, Friedman,
    Olshen and Stone 1984, Classification and Regression Trees; Rissanen 1978, Modeling by Shortest
    Data Description.

    Examples
    --------
    >>> from stream import DecisionTreeClassifier
    >>> model = DecisionTreeClassifier()
    >>> for age in 2 * [*range(20, 80)]:
    ...     model.learn_one({"age": age}, "yes" if age < 40 or age >= 60 else "no")
    >>> model.predict_one({"age": 30}), model.predict_one({"age": 50}), model.n_nodes
    ('yes', 'no', 5)
    """

    kinds: ClassVar[frozenset[Kind]] = frozenset(("numeric", "binary", "categorical"))
    not_applicable: ClassVar[Mapping[str, str]] = {
        "weight_two_is_twice": "a record has one place in the window, whatever its weight",
        "merging_equals_learning_both": "its tests depend on the order of the records",
        "merging_with_oneself_is_learning_twice": "its tests depend on the order of the records",
        "merging_what_does_not_fit_is_refused": "its tests depend on the order of the records",
        "unlearning_is_the_inverse_of_learning": "its tests were found with the record",
        "unlearning_what_was_not_learned_is_refused": "its tests were found with the record",
        "the_posterior_is_the_normalised_joint_likelihood": "it has no joint likelihood",
        "the_evidence_normalises_the_joint_likelihood": "it has no joint likelihood",
        "parameters_are_counted": "a tree that grows again may have fewer tests",
    }

    def __init__(
        self,
        window: int = 10_000,
        grace_period: int = 50,
        max_depth: int = 20,
        max_nodes: int = 4095,
    ) -> None:
        self.window = whole("window", window, 1, MAX_WINDOW)
        self.grace_period = whole("grace_period", grace_period, 1, MAX_WINDOW)
        self.max_depth = whole("max_depth", max_depth, 1, DEEPEST)
        self.max_nodes = whole("max_nodes", max_nodes, 1, MOST_NODES)
        self._begin()

    def _start(self) -> None:
        self._bounds = Bounds(self.window, self.max_nodes, self.max_depth, self.grace_period)
        self._grown = Grown(self._bounds)

    @property
    def features(self) -> list[str]:
        return list(self._grown.features)

    @property
    def n_nodes(self) -> int:
        """The number of nodes, leaves included."""
        return self._grown.nodes

    @property
    def overflows(self) -> dict[str, int]:
        """How many values, or tests, each bound has rejected, by the bound's name."""
        refused = {"features": self._grown.features.overflow, "nodes": self._grown.refused}
        return {**super().overflows, **refused}

    def limit(self, max_bytes: int, schema: Schema, max_classes: int) -> int:
        """See `Learner.limit`. The window is smaller if its records need more than half of the
        bytes."""
        super().limit(max_bytes, schema, max_classes)
        cells = len(schema.numeric) + len(schema.categorical)
        per_record = 12 * (cells + 8) + 2 * PER_CATEGORY * len(schema.categorical)
        window = max(1, min(self.window, max_bytes // (2 * per_record)))
        nodes = min(self.max_nodes, 4 * window + 1)
        fixed = window * per_record + nodes * 8 * 9
        classes = min(max_classes, (max_bytes - fixed) // (8 * nodes))
        if classes < 2:
            raise SchemaError(
                f"{window:,} records with these fields, and {nodes:,} nodes, need "
                f"{fixed + 16 * nodes:,} bytes, but {max_bytes:,} are allowed"
            )
        self._bounds = self._bounds._replace(window=window)
        self._grown = Grown(self._bounds)
        return super().limit(max_bytes, schema, classes)

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """See `Attributes.refusals`."""
        return self._grown.refusals(rows)

    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        x = self._grown.admit(block, len(self._classes))
        steps = (block.op, block.row, label[block.y], block.w)
        room = self._grown.room()
        kernels.progressive(
            steps, x, before, self._bounds, self._grown.arrays, room, out.proba, out.known
        )

    def explain_rows(
        self, rows: Rows, label: Label | None = None, against: Label | None = None
    ) -> Explanation:
        """`explain_one` of the one row of `rows`, as `columns` makes them.

        The contribution of a field is what its tests on the way to the leaf add to the log-odds,
        each compared with the tree that ends before the test.
        """
        a, b = self._compared(label, against, rows)
        grown, classes = self._grown, self.classes
        x, room = grown.vectors(self.prepare(rows))[0], grown.room()
        depth = kernels.descend(x, grown.arrays, room.path)
        odds = []
        for end in range(depth + 1):
            kernels.mix(end, len(classes), grown.arrays, room)
            odds.append(float(np.log(room.mixed[0, a]) - np.log(room.mixed[0, b])))
        contributions = {PRIOR: odds[0]}
        for d in range(depth):
            name = grown.features.values[grown.arrays.feature[room.path[d]]]
            contributions[name] = contributions.get(name, 0.0) + odds[d + 1] - odds[d]
        whole_odds = fsum(contributions.values())
        return Explanation(classes[a], classes[b], whole_odds, contributions)

    def _export(self) -> State:
        return self._grown.export(len(self._classes))

    def _restore(self, state: State) -> None:
        self._grown = Grown.restored(state, self._bounds, len(self._classes))
