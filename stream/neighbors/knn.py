"""KNNClassifier: the nearest of the newest records vote."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, inf, log
from sys import float_info
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, PREDICT, Block, Floats, Rows
from stream.data.parameters import one_of, shown, whole
from stream.data.rows import conflicts
from stream.data.schema import HEAVIEST, Kind, Label, Schema
from stream.data.state import State
from stream.errors import InvalidRecordError, NotLearnedError, NotSupportedError, SchemaError
from stream.learner.base import Learner, Predictions
from stream.learner.explain import Explanation
from stream.learner.registry import Facts, registered
from stream.neighbors._kernels import search as kernels
from stream.neighbors._kernels import window as window_kernels
from stream.neighbors._kernels.search import COSINE, HAMMING, Query
from stream.neighbors._kernels.window import LANES, Ints
from stream.neighbors.categories import PER_CATEGORY
from stream.neighbors.distances import METRICS, SCALES, WEIGHTS, exponent, log_volume, rule
from stream.neighbors.memory import MAX_WINDOW, Memory
from stream.neighbors.window import Id, Neighbor

__all__ = ["KNNClassifier", "Neighbor"]

STEPS = 4096  # executed at a time, so that what they see takes bounded memory
SEEN = 2**18  # values noted for the steps executed at a time


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
        How many records are held: the newest ones. At most 2**20; see Notes for how many
        attributes they may have.
    metric
        ``"auto"``: Euclidean, or HEOM as soon as a record held has a categorical attribute.
        ``"euclidean"``, ``"manhattan"``, ``"chebyshev"``, ``"minkowski"``: the norms of the
        differences. ``"heom"``: Euclidean with gaps as Wilson and Martinez have them.
        ``"cosine"``: 1 - cosine of the angle, rounded to 2**-48 so that parallel vectors tie.
        ``"hamming"``: the share of attributes that differ.
    p
        Of ``"minkowski"``, at least 1.
    scale
        What a numeric difference is divided by: ``"range"`` or ``"std"`` (1/n) of the attribute
        over the records held, or None, nothing. By range, the default, the answer does not depend
        on units, and a category that differs weighs as much as the largest numeric difference.
        An attribute whose values are all equal is divided by infinity.
    weights
        ``"uniform"``: a neighbour votes with the weight it was learned with. ``"distance"``: with
        that over its distance; where records lie on x itself, they alone vote.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned. One without a record in the window has
        probability 0; one whose records were all unlearned or forgotten is a class no more.
    features : list of str
        Attributes in the order they were first learned.

    Raises
    ------
    SchemaError
        A parameter out of its range.
    InvalidRecordError
        From `learn_one` and the predictions: an infinity, a number where categories are known or
        the other way round.

    Notes
    -----
    P(class | x) = K_i / K over the smallest ball around x that holds K records. Records at the
    same distance are in it or out of it together, so ties at its edge all vote (K is then larger),
    and of twenty equal records none outvotes the others. A record without any known attribute is
    as near to every record: its posterior is the share of each class in the window. Where the
    window is empty but classes are known, each is as probable.

    Truth values are the numbers 0 and 1. Categories differ by 0 or 1 (in cosine: one-hot vectors).
    A value that a record of the window lacks differs from x's by the range of the attribute,
    scaled: 1 by range; in Hamming it differs; in cosine it is 0. An attribute that x lacks is left
    out; in HEOM it counts 1 for every record, which changes their distance, not their order;
    in cosine it is 0. An attribute that no record of the window has counts nowhere, nor do fields
    that a schema declares to be texts.

    A weight is how much a record's vote counts; it takes one place in the window all the same.
    O(window · D) to predict, O(D) to learn (O(window) more when an extreme value leaves);
    Minkowski's powers cost some 40 times as much as Euclid. Memory: 8 bytes a value and record,
    and a quarter more; at most 2**25 values, so a window of n has at most 2**25 / n attributes
    (65,536 at most; of 2**20 records 32). What comes after them is left out, and counted in
    ``overflows["features"]``. Source: Zaki and Meira, Data Mining and Machine Learning, chapter
    18.3; Wilson and Martinez 1997, Improved Heterogeneous Distance Functions.

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
        "weight_two_is_twice": "a record takes one place in the window, whatever its weight",
        "contributions_sum_exactly_to_the_log_odds": "a vote has no share of a feature",
        "an_explanation_of_the_converse_is_the_negative": "a vote has no share of a feature",
        "parameters_are_counted": "it keeps records, it has no parameters",
        "the_evidence_normalises_the_joint_likelihood": "its joint leaves the ball's volume out",
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
        """What was refused at a bound, by the bound's name."""
        return {**super().overflows, "features": self._memory.features.overflow}

    def limit(self, max_bytes: int, schema: Schema, max_classes: int) -> int:
        """See `Learner.limit`. What it holds is bounded by the window and the fields."""
        super().limit(max_bytes, schema, max_classes)
        cells = len(schema.numeric) + len(schema.categorical)
        needed = self.window * (12 * (cells + 8) + 2 * PER_CATEGORY * len(schema.categorical))
        if needed > max_bytes:
            raise SchemaError(
                f"{self.window:,} records of these fields need {needed:,} bytes, and "
                f"{max_bytes:,} are allowed"
            )
        return super().limit(max_bytes, schema, max_classes)

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows with a number where categories are known, or the other way round."""
        if not rows.categorical_names and not self._memory.arrays.nominal.any():
            return {}
        return conflicts(rows, self._memory.named(0), self._memory.named(1))

    # Learning and predicting.

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0, id: Id | None = None) -> None:  # noqa: A002
        """Learn one record.

        Parameters
        ----------
        x
            Feature to value; absent, None and NaN are missing.
        y
            The label: text, an integer or a truth value.
        w
            Weight of its vote, > 0 and at most 2**53.
        id
            A name for the record, text or an integer, for `neighbors_one` and `forget`.

        Raises
        ------
        InvalidRecordError
            A value or label that cannot be learned; the model is untouched.
        """
        if id is not None:
            _check_id(id)
        if not self._learned_quickly(x, y, w):
            self.run(Block.of(self.rows([x]), LEARN, [y], w))
        if id is not None:
            self._memory.window.name_newest(id)

    def _learned_quickly(self, x: Mapping[Any, Any], y: Any, w: float) -> bool:
        """Learn a plain record of known attributes and class without a block; else do nothing."""
        c = self._classes.codes.get(y, -1) if type(y) in (str, int, bool) else -1
        if c < 0 or type(self._classes.values[c]) is not type(y):
            return False
        if type(w) not in (float, int) or not 0 < w <= HEAVIEST:
            return False
        values = self._memory.vector(x, strangers=False)
        if values is None:
            return False
        self._memory.window.learn(values, c, float(w), SCALES[self.scale])
        return True

    def predict_proba_one(self, x: Mapping[Any, Any], **_: Any) -> dict[Label, float]:
        """Posterior of each known class; empty before anything was learned. Pure."""
        values = self._memory.vector(x, strangers=True)
        if values is None or not self._classes:
            return super().predict_proba_one(x)
        window, s = self._memory.window, self._memory.arrays
        window.rescale(SCALES[self.scale])
        query = Query(values, s.held, s.inverse, s.gap, s.nominal)
        known, room = len(self._classes), self._memory.room(self.n_neighbors)
        out = np.empty(known)
        kernels.answer_one(self._rule, query, s.span, known, s.cells, s.label, s.weight, room, out)
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
        """A few steps: note what each prediction sees, then answer all of them."""
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
        """Compile what this learner runs, by block and by record, on a throw-away copy."""
        trial, x = self.clone(), {"warm": 1.0}
        for _ in range(2):
            trial.learn_one(x, "warm")
        trial.predict_proba_one(x)
        trial.progressive_many(Block.of(trial.rows([x]), PREDICT))

    # Reading it.

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
        """The records in the smallest ball around x that holds K, the nearest first.

        Of those at one distance the newest first. More than K where some tie at the edge.
        """
        at, distance, vote = self._ball(self._query(x))
        window, classes = self._memory.window, self.classes
        ids, label = window.ids(), window.label
        return [
            Neighbor(ids[at[i]], float(distance[i]), classes[label[at[i]]], float(vote[i]))
            for i in np.lexsort((-at, distance)).tolist()
        ]

    def joint_log_likelihood_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """log K_i / K of each known class: P(class) · p(x | class) but for what all classes share.

        That is the volume of the ball, see `density_one`; -inf for a class without a neighbour.
        """
        return {c: log(p) if p > 0 else -inf for c, p in self.predict_proba_one(x).items()}

    def density_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """p(x | class) = K_i / (n_i · V) of each known class, in the units of the data.

        V is the volume of the smallest ball around x that holds K records (a ball of the metric's
        norm; under a scale, an ellipsoid), over the attributes that x and the window have; a
        scale leaves out constant ones. K_i and n_i are sums of weights, in the ball and in the
        window. Empty where the ball has no volume: K records lie on x, or no attribute is known.
        A density no double can hold is the largest one.

        Raises
        ------
        NotSupportedError
            A record in the window has a categorical attribute, or the metric is no norm.
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
        """Not by features: `neighbors_one` names the records that vote."""
        raise NotSupportedError("neighbours have no shares of features; ask neighbors_one(x)")

    # Taking back and putting together.

    def unlearn_rows(self, rows: Rows, y: Any, w: float = 1.0, *, age: int | None = None) -> None:
        """Take the newest record that equals the one row of `rows` out of the window.

        Parameters
        ----------
        rows, y, w
            As they were learned.
        age
            Not needed: nothing fades.

        Raises
        ------
        NotLearnedError
            No record in the window equals it; the model is untouched. One that has left the
            window can no longer be taken back.
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
            raise NotLearnedError(f"no record in the window equals this one of class {label!r}")
        self._remove(np.array([at]))

    def forget(self, id: Id) -> int:  # noqa: A002
        """Take the records learned under this id out of the window; how many there were.

        Raises
        ------
        SchemaError
            It is neither text nor an integer: records without an id cannot be named.
        """
        _check_id(id)
        ids = self._memory.window.ids()
        at = [i for i, name in enumerate(ids) if name == id and type(name) is type(id)]
        self._remove(np.array(at, dtype=np.int64))
        return len(at)

    def _remove(self, at: Ints) -> None:
        for c in self._memory.remove(at):
            self._classes.remove(self._classes.values[c])

    def merge(self, other: Learner) -> Self:
        """Become what learning `other`'s records after one's own would give: A, then B.

        Raises
        ------
        SchemaError
            Another kind of learner, or other parameters.
        InvalidRecordError
            Labels or fields of another kind, or more classes than the bound; nothing was merged.
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
