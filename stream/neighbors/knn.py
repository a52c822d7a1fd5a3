"""KNNClassifier: the nearest records in a sliding window vote.

Distances by name, the parameters that select them, and the volume of a ball.

Rule: an attribute is used only if a record of the window has it. `KNNClassifier` documents the
treatment of missing values by metric; the kernels implement it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, inf, isfinite, lgamma, log
from sys import float_info
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, PREDICT, Block, Floats, Rows
from stream.data.parameters import number, one_of, shown, whole
from stream.data.schema import HEAVIEST, Kind, Label, Schema
from stream.data.state import State
from stream.errors import InvalidRecordError, NotLearnedError, NotSupportedError, SchemaError
from stream.kernel.interrupts import uninterrupted
from stream.learner.base import Learner, Predictions
from stream.learner.predictions import Explanation
from stream.learner.registry import Facts, registered
from stream.neighbors._kernels import search as kernels
from stream.neighbors._kernels import window as window_kernels
from stream.neighbors._kernels.search import (
    ALWAYS,
    CHEBYSHEV,
    COSINE,
    EUCLIDEAN,
    HAMMING,
    IF_NOMINAL,
    MANHATTAN,
    MINKOWSKI,
    NEVER,
    Query,
    Rule,
)
from stream.neighbors._kernels.window import BY_RANGE, BY_STD, LANES, UNSCALED, Ints
from stream.neighbors.categories import PER_CATEGORY
from stream.neighbors.memory import MAX_WINDOW, Id, Memory, Neighbor

__all__ = [
    "KNNClassifier",
    "Neighbor",
]

# Name to the kernel's metric, and to when an attribute that x does not have adds 1.
METRICS = {
    "auto": (EUCLIDEAN, IF_NOMINAL),
    "euclidean": (EUCLIDEAN, NEVER),
    "heom": (EUCLIDEAN, ALWAYS),
    "manhattan": (MANHATTAN, NEVER),
    "chebyshev": (CHEBYSHEV, NEVER),
    "minkowski": (MINKOWSKI, NEVER),
    "cosine": (COSINE, NEVER),
    "hamming": (HAMMING, NEVER),
}
SCALES = {None: UNSCALED, "range": BY_RANGE, "std": BY_STD}
WEIGHTS = ("uniform", "distance")
NORMS = {1.0: MANHATTAN, 2.0: EUCLIDEAN, inf: CHEBYSHEV}


def exponent(p: float) -> float:
    """Check that Minkowski's `p` is at least 1, since it is not a norm otherwise. Infinity is
    allowed."""
    return p if isinstance(p, float) and p == inf else number("p", p, 1.0)


def rule(n_neighbors: int, metric: str, p: float, weights: str) -> Rule:
    """The parameters in the form that kernels take. Special cases of Minkowski have their own
    loops."""
    kind, strict = METRICS[metric]
    if kind == MINKOWSKI:
        kind = NORMS.get(float(p), MINKOWSKI)
    power = float(p) if isfinite(p) else 1.0  # not used by the maximum
    return Rule(kind, strict, power, n_neighbors, int(weights == "distance"))


def log_volume(rule: Rule, q: Query, radius: float) -> float | None:
    """Log volume of a ball around q.x, (2 Γ(1/p + 1))ᵈ / Γ(d/p + 1) · rᵈ in scaled units.

    None if the ball has no volume: the radius is 0, or x and the window have no common attribute.
    """
    used = (q.held > 0) & ~np.isnan(q.x) & (q.inverse > 0)
    d = int(used.sum())
    if radius == 0.0 or d == 0:
        return None
    share = {MANHATTAN: 1.0, EUCLIDEAN: 0.5, CHEBYSHEV: 0.0}.get(rule.metric, 1.0 / rule.p)
    side = log(2.0) + lgamma(share + 1.0) + log(radius)
    units = sum(log(inverse) for inverse in q.inverse[used].tolist())
    return d * side - lgamma(d * share + 1.0) - units


STEPS = 4096  # steps executed at a time, to bound memory
SEEN = 2**18  # bound of the values noted for these steps


@registered(
    Facts(
        model="the nearest records of a window",
        cost="window·D; D",
        memory="window·D",
        missing="at a distance of the feature's range",
        source="Zaki and Meira 18.3",
        reads={"numeric": "used", "binary": "the numbers 0 and 1", "categorical": "used"},
    )
)
class KNNClassifier(Learner):
    """K nearest neighbours in a sliding window, one record at a time.

    Parameters
    ----------
    n_neighbors
        K: how many neighbours vote.
    window
        The number of records in the window: the newest ones. At most 2**20; see Notes for the
        number of attributes.
    metric
        ``"auto"``: HEOM while a record in the window has a categorical attribute, otherwise
        Euclidean. ``"euclidean"``, ``"manhattan"``, ``"chebyshev"``, ``"minkowski"``: the norms of
        the differences. ``"heom"``: Euclidean, with missing values as in Wilson and Martinez.
        ``"cosine"``: 1 - cosine of the angle, rounded to 2**-48 so that parallel vectors tie.
        ``"hamming"``: the share of attributes that differ.
    p
        The exponent of ``"minkowski"``, at least 1.
    scale
        What a numeric difference is divided by: the ``"range"`` or ``"std"`` (1/n) of the attribute
        over the window. None: not divided. With ``"range"`` predictions do not depend on units, and
        two different categories have the same distance as the largest numeric difference. An
        attribute whose values are all equal is divided by infinity.
    weights
        ``"uniform"``: a neighbour votes with its weight. ``"distance"``: with its weight divided by
        its distance; if records are equal to x, only they vote.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned. A class without a record in the window has
        probability 0. A class is removed when all its records were unlearned or forgotten.
    features : list of str
        Attributes in the order they were first learned.

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: an infinite number, a number in a field of categories or
        a category in a field of numbers.

    Notes
    -----
    P(class | x) = K_i / K over the smallest ball around x that holds K records. Records at the same
    distance are all inside or all outside, so all ties at the edge vote (K is then larger). A
    record without any known attribute has the same distance to every record, so its posterior is
    the share of each class in the window. If the window is empty but classes are known, they have
    equal probabilities.

    Truth values are the numbers 0 and 1. Categories differ by 0 or 1 (with cosine: one-hot
    vectors). If a record of the window has no value of an attribute, its difference from x is the
    scaled range of the attribute (1 with ``"range"``). With Hamming it counts as different, with
    cosine as 0. An attribute that x does not have is left out. With HEOM it adds 1 for every
    record, which changes their distances but not their order. With cosine it is 0. An attribute
    that no record of the window has is ignored, and so are fields that a schema declares to be
    texts.

    A weight multiplies the vote of a record. It does not change its one place in the window.
    O(window · D) to predict, O(D) to learn (plus O(window) if an extreme value leaves the window).
    Minkowski's powers cost about 40 times as much as Euclidean distances. Memory: 8 bytes for each
    value of a record, plus a quarter. At most 2**25 values: a window of n records has at most 2**25
    / n attributes, and at most 65,536 (32 with 2**20 records). Further attributes are left out;
    ``overflows["features"]`` counts them. Source: Zaki and Meira, Data Mining and Machine Learning,
    chapter 18.3; Wilson and Martinez 1997, Improved Heterogeneous Distance Functions.

    Examples
    --------
    >>> from stream import KNNClassifier
    >>> model = KNNClassifier(n_neighbors=3)
    >>> for i, (size, colour, y) in enumerate(
    ...     [(1.0, "red", "a"), (1.2, "red", "a"), (3.0, "blue", "b"), (3.1, "red", "b")]
    ... ):
    ...     model.learn_one({"size": size, "colour": colour}, y, id=i)
    >>> x = {"size": 1.1, "colour": "red"}
    >>> model.predict_one(x)
    'a'
    >>> [(near.id, near.label) for near in model.neighbors_one(x)]
    [(1, 'a'), (0, 'a'), (3, 'b')]
    >>> model.forget(0)
    1
    """

    kinds: ClassVar[frozenset[Kind]] = frozenset(("numeric", "binary", "categorical"))
    not_applicable: ClassVar[Mapping[str, str]] = {
        "weight_two_is_twice": "a record has one place in the window, whatever its weight",
        "contributions_sum_exactly_to_the_log_odds": "votes have no contributions of features",
        "an_explanation_of_the_converse_is_the_negative": "votes have no contributions of features",
        "parameters_are_counted": "it has records instead of parameters",
        "the_evidence_normalises_the_joint_likelihood": "its joint leaves out the ball's volume",
    }

    def __init__(
        self,
        n_neighbors: int = 5,
        window: int = 1000,
        metric: str = "auto",
        p: float = 2.0,
        scale: Literal["range", "std"] | None = "range",
        weights: Literal["uniform", "distance"] = "uniform",
    ) -> None:
        self.window = whole("window", window, 1, MAX_WINDOW)
        self.n_neighbors = whole("n_neighbors", n_neighbors, 1, MAX_WINDOW)
        if self.n_neighbors > self.window:
            raise SchemaError(f"n_neighbors must be at most window = {window}, got {n_neighbors}")
        self.metric = one_of("metric", metric, METRICS)
        self.p = exponent(p)
        self.scale = one_of("scale", scale, SCALES)
        self.weights = one_of("weights", weights, WEIGHTS)
        self._begin()

    def _start(self) -> None:
        self._rule = rule(self.n_neighbors, self.metric, self.p, self.weights)
        self._memory = Memory(self.window)

    @property
    def features(self) -> list[str]:
        return list(self._memory.features)

    @property
    def overflows(self) -> dict[str, int]:
        """How many values each bound has rejected, by the bound's name."""
        return {**super().overflows, "features": self._memory.features.overflow}

    def limit(self, max_bytes: int, schema: Schema, max_classes: int) -> int:
        """See `Learner.limit`. The window and the fields bound the memory."""
        super().limit(max_bytes, schema, max_classes)
        cells = len(schema.numeric) + len(schema.categorical)
        needed = self.window * (12 * (cells + 8) + 2 * PER_CATEGORY * len(schema.categorical))
        if needed > max_bytes:
            raise SchemaError(
                f"{self.window:,} records with these fields need {needed:,} bytes, but "
                f"{max_bytes:,} are allowed"
            )
        return super().limit(max_bytes, schema, max_classes)

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """See `Attributes.refusals`."""
        return self._memory.refusals(rows)

    # Learning and predicting.

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0, id: Id | None = None) -> None:  # noqa: A002
        """Learn one record.

        Parameters
        ----------
        x
            Feature to value. Absent values, None and NaN are missing.
        y
            The label: text, an integer or a truth value.
        w
            Weight of its vote, > 0 and at most 2**53.
        id
            A name for the record, text or an integer, for `neighbors_one` and `forget`.

        Raises
        ------
        InvalidRecordError
            A value or label cannot be learned. The model did not change.
        """
        if id is not None:
            _check_id(id)
            with uninterrupted():  # the record and its id
                self.learn_one(x, y, w)
                self._memory.window.name_newest(id)
        elif not self._learned_quickly(x, y, w):
            self.run(Block.of(self.rows([x]), LEARN, [y], w))

    def _learned_quickly(self, x: Mapping[Any, Any], y: Any, w: float) -> bool:
        """Learn a plain record of known attributes and class without a block. Otherwise do
        nothing."""
        c = self._classes.codes.get(y, -1) if type(y) in (str, int, bool) else -1
        if c < 0 or type(self._classes.values[c]) is not type(y):
            return False
        if type(w) not in (float, int) or not 0 < w <= HEAVIEST:
            return False
        values = self._memory.vector(x, strangers=False)
        if values is None:
            return False
        with self._turns.learning:
            self._memory.window.learn(values, c, float(w), SCALES[self.scale])
        return True

    def predict_proba_one(self, x: Mapping[Any, Any], **_: Any) -> dict[Label, float]:
        """The posterior of each known class; empty before the first record was learned. Pure."""
        values = self._memory.vector(x, strangers=True)
        if values is None or not self._classes:
            return super().predict_proba_one(x)
        with self._turns.predicting:
            window, s = self._memory.window, self._memory.arrays
            window.rescale(SCALES[self.scale])
            query = Query(values, s.held, s.inverse, s.gap, s.nominal)
            known, room = len(self._classes), self._memory.room(self.n_neighbors)
            out = np.empty(known)
            kernels.answer_one(
                self._rule, query, s.span, known, s.cells, s.label, s.weight, room, out
            )
            return dict(zip(self._classes.values, out.tolist(), strict=True))

    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        x = self._memory.admit(block, len(self._classes))
        y = label[block.y]
        at, known = 0, before
        steps = max(1, min(STEPS, SEEN // max(x.shape[1], 1)))
        for i in range(0, len(block), steps):
            part = slice(i, i + steps)
            op = block.op[part]
            m = int(np.count_nonzero(op != LEARN))
            self._memory.window.make_room(int(np.count_nonzero(op != PREDICT)))
            here = Predictions(out.classes, out.proba[at : at + m], out.known[at : at + m])
            self._run(op, y[part], block.w[part], x[block.row[part]], known, here)
            known = max(known, int(y[part][op != PREDICT].max(initial=-1)) + 1)
            at += m

    def _run(self, op: Any, y: Ints, w: Floats, x: Floats, known: int, out: Predictions) -> None:
        """Run a few steps: note the window of each prediction, then make all predictions."""
        s, m = self._memory.arrays, len(out)
        span, held = np.empty((m, 2), dtype=np.int64), np.empty((m, x.shape[1]), dtype=np.int64)
        noted = (span, held, np.empty(held.shape), np.empty(held.shape), out.known)
        scale, lane = SCALES[self.scale], np.empty(LANES)
        window_kernels.advance(op, y, w, x, known, self.window, scale, s, lane, *noted)
        if m:
            asked = Query(x[op != LEARN], *noted[1:4], s.nominal)
            room, records = self._memory.room(self.n_neighbors), (s.cells, s.label, s.weight)
            kernels.answer(self._rule, asked, span, out.known, *records, room, out.proba)

    def compile_kernels(self) -> None:
        """Compile the kernels for blocks and for single records by running them on a throw-away
        copy."""
        trial, x = self.clone(), {"warm": 1.0}
        for _ in range(2):
            trial.learn_one(x, "warm")
        trial.predict_proba_one(x)
        trial.progressive_many(Block.of(trial.rows([x]), PREDICT))

    # Reading the model.

    def _query(self, x: Mapping[Any, Any]) -> Query:
        rows = self._checked(x)
        s = self._memory.arrays
        self._memory.window.rescale(SCALES[self.scale])
        return Query(self._memory.vectors(rows)[0], s.held, s.inverse, s.gap, s.nominal)

    def _checked(self, x: Mapping[Any, Any]) -> Rows:
        rows = self.rows([x])
        for refusal in self.refusals(rows).values():
            raise refusal
        return rows

    def _ball(self, query: Query) -> tuple[Ints, Floats, Floats]:
        """Places in the window, distances and votes of the neighbours, oldest first."""
        s, live = self._memory.arrays, self._memory.window.live
        room = self._memory.own_room(self.n_neighbors, live.stop - live.start)
        vote = np.empty(live.stop - live.start)
        n = kernels.neighbours(
            self._rule, query, live.start, live.stop, s.cells, s.weight, room, vote
        )
        return room.near[:n], room.found[:n], vote[:n]

    def neighbors_one(self, x: Mapping[Any, Any]) -> list[Neighbor]:
        """The records in the smallest ball around x that has K records, nearest first.

        Records at the same distance are ordered from the newest. There are more than K if some tie
        at the edge.
        """
        at, distance, vote = self._ball(self._query(x))
        window, classes = self._memory.window, self.classes
        ids, label = window.ids(), window.label
        return [
            Neighbor(ids[at[i]], float(distance[i]), classes[label[at[i]]], float(vote[i]))
            for i in np.lexsort((-at, distance)).tolist()
        ]

    def joint_log_likelihood_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """log K_i / K of each known class; equals P(class) · p(x | class) up to a common factor.

        The common factor is the volume of the ball, see `density_one`. -inf for a class without a
        neighbour.
        """
        return {c: log(p) if p > 0 else -inf for c, p in self.predict_proba_one(x).items()}

    def density_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """p(x | class) = K_i / (n_i · V) of each known class, in the units of the data.

        V is the volume of the smallest ball around x that has K records (a ball of the metric's
        norm; with a scale, an ellipsoid), over the attributes that x and the window have. With a
        scale, constant attributes are left out. K_i and n_i are sums of weights, in the ball and in
        the window. The result is empty if the ball has no volume: K records are equal to x, or no
        attribute is known. A density that is too large for a double becomes the largest double.

        Raises
        ------
        NotSupportedError
            A record in the window has a categorical attribute, or the metric is not a norm.
        """
        chosen, query = self._rule, self._query(x)
        if chosen.metric in (COSINE, HAMMING) or (query.held[query.nominal == 1] > 0).any():
            raise NotSupportedError(
                f"a density needs numeric attributes and a norm, got metric {self.metric!r} over "
                f"{self.features}"
            )
        at, distance, _ = self._ball(query)
        volume = log_volume(chosen, query, float(distance.max(initial=0.0)))
        if volume is None:
            return {}
        label, weight = self._memory.window.label, self._memory.window.weight
        out: dict[Label, float] = {}
        for c, name in enumerate(self.classes):
            near = sum(weight[at[label[at] == c]].tolist())
            height = log(near) - log(sum(weight[label == c].tolist())) - volume if near else -inf
            out[name] = exp(height) if height < log(float_info.max) else float_info.max
        return out

    def explain_one(
        self, x: Mapping[Any, Any], label: Label | None = None, against: Label | None = None
    ) -> Explanation:
        """Not supported: votes have no contributions of features. `neighbors_one` has the voting
        records."""
        raise NotSupportedError("votes have no contributions of features; use neighbors_one(x)")

    # Unlearning and merging.

    def unlearn_rows(self, rows: Rows, y: Any, w: float = 1.0, *, age: int | None = None) -> None:
        """Remove the newest record that equals the one row of `rows` from the window.

        Parameters
        ----------
        rows, y, w
            As they were learned.
        age
            Not used, because nothing fades.

        Raises
        ------
        NotLearnedError
            No record in the window equals it. The model did not change. A record that has left the
            window can no longer be unlearned.
        """
        for refusal in self.refusals(rows).values():
            raise refusal
        label = Block.of(rows, PREDICT, [y], w).labels[0]
        c = self._classes.codes.get(label)
        if c is None or type(self.classes[c]) is not type(label):
            raise NotLearnedError(f"expected one of the classes {self.classes}, got {label!r}")
        at = -1
        if not self._memory.unknown(rows):
            at = self._memory.window.find(self._memory.vectors(rows)[0], c, float(w))
        if at < 0:
            raise NotLearnedError(f"no record in the window equals this record of class {label!r}")
        self._remove(np.array([at]))

    def forget(self, id: Id) -> int:  # noqa: A002
        """Remove the records learned with this id from the window. Returns how many there were.

        Raises
        ------
        SchemaError
            The id is neither a text nor an integer.
        """
        _check_id(id)
        ids = self._memory.window.ids()
        at = [i for i, name in enumerate(ids) if name == id and type(name) is type(id)]
        self._remove(np.array(at, dtype=np.int64))
        return len(at)

    def _remove(self, at: Ints) -> None:
        with uninterrupted():
            for c in self._memory.remove(at):
                self._classes.remove(self._classes.values[c])

    def merge(self, other: Learner) -> Self:
        """Learn the records of `other` after those of this learner.

        Raises
        ------
        SchemaError
            The other learner has another type or other parameters.
        InvalidRecordError
            Labels or fields differ in kind, or there are more classes than the bound. Nothing was
            merged.
        """
        other = self._alike(other)
        self._memory.clashes(other._memory)
        self._memory.merge(other._memory, self._admit_classes(other.classes))
        return self

    def _export(self) -> State:
        return self._memory.export()

    def _restore(self, state: State) -> None:
        self._memory = Memory.restored(state, self.window, len(self._classes))


def _check_id(id_: Any) -> None:
    if isinstance(id_, bool) or not isinstance(id_, str | int):
        raise SchemaError(f"an id must be text or an integer, got {shown(id_)}")
