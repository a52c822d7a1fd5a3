"""Gaussian naive Bayes: each feature normal given the class, independently of the others."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from struct import pack_into, unpack_from
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from stream.base import Predictions
from stream.bayes._kernels import gaussian as kernels
from stream.bayes._kernels import gaussian_undo
from stream.bayes.classifier import BayesClassifier, check_half_life, check_priors, left_after
from stream.bayes.columns import MAX_FEATURES, admit, find, named, restored
from stream.bayes.lanes import Moments, cells, height, packed, unpacked
from stream.bayes.moments import too_far
from stream.bayes.part import Amount, Part, Steps, Term
from stream.block import Block, Floats, Rows, learning
from stream.errors import StateError
from stream.parameters import number, one_of
from stream.schema import HEAVIEST, LARGEST, Dictionary, Kind, Label, Schema
from stream.state import State

__all__ = ["GaussianNB", "GaussianPart"]

LANES = kernels.LANES
NUMBERS = (float, int)  # by type, not by isinstance: a truth value is an int
LABELS = (str, int, bool)


class GaussianPart(Part):
    """Numeric features, each normal given the class; see `GaussianNB`."""

    name: ClassVar[str] = "gaussian"

    def __init__(self, ddof: float, smoothing: float) -> None:
        self._ddof, self._smoothing = ddof, smoothing
        self._features = Dictionary(MAX_FEATURES)
        self._cells, self._unit = cells(0, 0), np.ones(1)
        self._desk, self._answer = np.zeros((1, 0)), np.zeros((1, 0))
        self._desk_of: Floats | None = None
        self._format = ""

    @property
    def moments(self) -> Moments:
        """A copy of the moments."""
        return unpacked(self._cells, len(self._features), self._unit)

    def _take(self, moments: Moments) -> None:
        """Have these moments, of as many features as there are now."""
        self._cells, self._unit = packed(moments), moments.unit

    @property
    def features(self) -> list[str]:
        return list(self._features)

    @property
    def overflows(self) -> dict[str, int]:
        return {"features": self._features.overflow}

    def tables(self, schema: Schema, classes: int) -> int:
        """Of its cells, a line of lanes for every eight features."""
        return 8 * LANES * height(classes) * -(-len(schema.numeric) // LANES)

    def execute(self, block: Block, steps: Steps, classes: int, joint: Floats) -> None:
        used, s, x = self._lanes(block, classes)
        kernels.progressive(tuple(steps), x, self._ddof, self._smoothing, s, self._unit, joint)
        if s is not self._cells:
            self._cells[used] = s

    def answer(
        self, block: Block, code: NDArray[np.int64], known: int, weight: Floats, out: Predictions
    ) -> None:
        """The whole classifier, where nothing fades; weight (C,): of each class, learned too."""
        used, s, x = self._lanes(block, weight.size)
        steps = (block.op, block.row, block.y, block.w, known)
        how = self._ddof, self._smoothing
        kernels.posterior(steps, code, weight, x, how, s, out.proba, out.known)
        if s is not self._cells:
            self._cells[used] = s

    def _lanes(self, block: Block, classes: int) -> tuple[Any, Floats, Floats]:
        """The chunks of features that a block has; their cells; and its values in their lanes.

        Sums are of lanes in pairs, so a feature is always in its own, whatever else a block has.
        """
        x, before = block.rows.numeric, len(self._features)
        if list(block.rows.numeric_names) == self._features.values:  # as in nearly every block
            self._widen(classes)
            if before == len(self._cells) * LANES:
                return None, self._cells, np.ascontiguousarray(x)
            source = column = np.arange(before)
        else:
            source, column = admit(self._features, block)
            self._widen(classes)
            self._anchor(block, source, column, before)
        used = np.unique(column // LANES)
        lanes = np.full((len(x), used.size * LANES), nan)
        lanes[:, np.searchsorted(used, column // LANES) * LANES + column % LANES] = x[:, source]
        return used, self._cells if used.size == len(self._cells) else self._cells[used], lanes

    def _anchor(
        self, block: Block, source: NDArray[np.int64], column: NDArray[np.int64], before: int
    ) -> None:
        """Anchor the features that are new in this block to the first value it learns of each."""
        rows = block.row[learning(block)]
        for i in np.flatnonzero(column >= before).tolist():
            values = block.rows.numeric[rows, source[i]]
            j, k = divmod(int(column[i]), LANES)
            self._cells[j, 0, k] = values[np.argmax(~np.isnan(values))]

    # One record of known features, without a block: the same kernels, on a desk that is kept.

    def lay(self, x: Mapping[Any, Any], classes: int) -> bool:
        """Lay a plain record on the desk; False, and nothing done, where it is not plain.

        That is a dict of Python's own finite numbers of learned features, and of not too few.
        """
        codes = self._features.codes
        d = len(codes)
        if type(x) is not dict or not 0 < d <= 4 * len(x):
            return False
        if self._desk_of is not self._cells:
            chunks, rows, _ = self._cells.shape
            self._desk, self._desk_of = np.empty((1, chunks * LANES)), self._cells
            self._answer = np.empty((1, (rows - height(0)) // kernels.PER_CLASS))
            self._format = f"{self._desk.size}d"
        desk = self._desk
        if d > desk.size or classes != self._answer.size:  # something new has no room yet
            return False
        values = [nan] * desk.size
        for name, value in x.items():
            j = codes.get(name)
            if j is None or type(value) not in NUMBERS or not -LARGEST <= value <= LARGEST:
                return False
            values[j] = value + 0.0  # as `number` does
        pack_into(self._format, desk.data, 0, *values)
        return True

    def learn_laid(self, c: int, w: float, weight: Floats) -> None:
        """Learn the record on the desk for class c, which is known; weight (C,): of each class."""
        kernels.learn_row(self._desk, c, w, weight, self._smoothing, self._cells)

    def answer_laid(self, weight: Floats) -> tuple[float, ...]:
        """The posterior of the record on the desk; weight (C,): of each class."""
        ddof, out = self._ddof, self._answer
        kernels.answer_row(self._desk, weight, ddof, self._smoothing, self._cells, out)
        return unpack_from(f"{weight.size}d", self._answer.data)

    def _widen(self, classes: int) -> None:
        """Make room for classes and features that are new."""
        old, chunks = self._cells, -(-len(self._features) // LANES)
        if old.shape[:2] != (chunks, height(classes)):
            self._cells = cells(len(self._features), classes)
            self._cells[: old.shape[0], : old.shape[1]] = old

    def terms(self, rows: Rows, classes: int) -> list[Term]:
        source, column = find(self._features, rows)
        out = np.zeros((source.size, classes))
        x, ddof = rows.numeric[0], self._ddof * float(self._unit[0])
        kernels.terms(x, source, column, ddof, self._smoothing, self._cells, out)
        names = [rows.numeric_names[j] for j in source.tolist()]
        return [(n, out[k]) for k, n in enumerate(names) if not np.isnan(x[source[k]])]

    def lacks(self, rows: Rows, c: int, amount: Amount) -> str | None:
        w = amount.w * amount.fade * float(self._unit[0])
        present = {n: v for n, v in zip(rows.numeric_names, rows.numeric[0], strict=True) if v == v}
        m = self.moments
        for name, value in present.items():
            j = self._features.codes.get(name)
            if j is None or left_after(m.n[c, j], w) is None:
                return f"feature {name!r} has less weight in its class"
            at = value, float(m.anchor[j]), w
            for held in (m.n, m.mean, m.m2), (m.total_n, m.total_mean, m.total_m2):
                if too_far(*at, *(float(a[c, j] if a.ndim > 1 else a[j]) for a in held)):
                    return f"{name!r} = {value!r} is too far from the mean of what was learned"
        return None

    def unlearn(self, rows: Rows, c: int, amount: Amount) -> None:
        w = amount.w * amount.fade * float(self._unit[0])
        gaussian_undo.unlearn(rows.numeric[0], *find(self._features, rows), c, w, self._cells)
        moments = self.moments
        gone = np.flatnonzero(moments.total_n == 0.0)
        if gone.size:
            for j in gone[::-1].tolist():
                self._features.remove(self._features.values[j])
            left = [np.delete(a, gone, axis=-1) for a in moments[:-1]]
            self._take(Moments._make([*left, moments.unit]))

    def drop_class(self, c: int) -> None:
        moments = self.moments
        left = [np.delete(a, c, axis=0) for a in moments[:3]]
        self._take(Moments._make([*left, *moments[3:]]))

    def merge(self, other: Self, classes: NDArray[np.int64], size: int, fade: float) -> None:
        column = np.array([self._features.add(f) for f in other.features], dtype=np.int64)
        self._widen(size)
        a, b = self.moments, other.moments
        kept = np.flatnonzero(column >= 0)  # the others are beyond the bound, and counted
        j = column[kept]
        a.anchor[j] = np.where(a.total_n[j] > 0, a.anchor[j], b.anchor[kept])
        shift = b.anchor[kept] - a.anchor[j]
        for weights in (a.n, a.m2, a.total_n, a.total_m2):
            weights *= fade
        at = np.ix_(classes, j)
        theirs = (b.n[:, kept], b.mean[:, kept] + shift, b.m2[:, kept])
        a.n[at], a.mean[at], a.m2[at] = _united((a.n[at], a.mean[at], a.m2[at]), theirs)
        everywhere = (b.total_n[kept], b.total_mean[kept] + shift, b.total_m2[kept])
        a.total_n[j], a.total_mean[j], a.total_m2[j] = _united(
            (a.total_n[j], a.total_mean[j], a.total_m2[j]), everywhere
        )
        self._take(a._replace(unit=b.unit))

    def n_parameters(self, classes: int) -> int:
        return 2 * classes * len(self._features)

    def export(self) -> State:
        return State(named(self._features), self.moments._asdict())

    def restore(self, state: State, classes: int) -> None:
        features = restored(self._features, state)
        loaded = [
            state.array(name, np.float64, 2 if name in ("n", "mean", "m2") else 1)
            for name in Moments._fields
        ]
        shapes = [(classes, len(features))] * 3 + [(len(features),)] * 4 + [(1,)]
        if [a.shape for a in loaded] != shapes:
            raise StateError(
                f"expected moments of {classes} classes and {len(features)} features, got others"
            )
        self._features = features
        self._take(Moments._make(loaded))


class GaussianNB(BayesClassifier):
    """Gaussian naive Bayes (diagonal covariance), one record at a time.

    Parameters
    ----------
    variance
        ``"ml"`` divides the squared deviations by n (maximum likelihood), ``"sample"`` by n - 1.
    var_smoothing
        This share of a feature's *total* variance, over all classes, is added to its variance in
        each class. 0 gives the exact estimate: a class with zero variance on a feature is then a
        point, of density 1 on it and 0 beside it.
    priors
        Label, or its text ("true", "1"), to prior probability. A class that is not named has
        prior 0. None: learned.
    half_life
        Records after which what was learned counts half; None: it never fades.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    features : list of str
        Features in the order they were first learned.
    means, variances : dict
        Label to a dict from feature to its mean, or to its variance before smoothing.

    Raises
    ------
    SchemaError
        A parameter out of its range.
    InvalidRecordError
        From `learn_one` and the predictions: an infinity, text, a number beyond 1e100.

    Notes
    -----
    O(C · D) to predict, O(D) to learn, for C classes and D features present; memory O(C · D).
    Moments are kept of x minus the first value seen (Chan, Golub and LeVeque 1983 on shifted
    data; Welford 1962 for the update). A feature that is missing in the record, constant so
    far, or never learned is no evidence; one that a class has never seen counts for that class
    by its distribution over all classes. Source: Zaki and Meira, Data Mining and Machine
    Learning, chapter 18.2.

    `merge` and `unlearn_one` are exact to about 1e-9 of the largest magnitude held; unlearning
    gives the anchor of a feature back only with the feature's last value.

    Examples
    --------
    >>> from stream import GaussianNB
    >>> model = GaussianNB()
    >>> for height, y in [(1.6, "a"), (1.7, "a"), (1.9, "b"), (2.0, "b")]:
    ...     model.learn_one({"height": height}, y)
    >>> model.predict_one({"height": 1.62})
    'a'
    >>> model.predict_one({"height": 1.97, "weight": None})
    'b'
    """

    strings = "refused"
    kinds: ClassVar[frozenset[Kind]] = frozenset(("numeric", "binary"))

    def __init__(
        self,
        variance: Literal["ml", "sample"] = "ml",
        var_smoothing: float = 1e-9,
        priors: Mapping[Label, float] | None = None,
        half_life: float | None = None,
    ) -> None:
        variance = one_of("variance", variance, ("ml", "sample"))
        var_smoothing = number("var_smoothing", var_smoothing, 0.0)
        priors = check_priors(priors)
        half_life = check_half_life(half_life)
        self.variance = variance
        self.var_smoothing = var_smoothing
        self.priors = priors
        self.half_life = half_life
        self._begin()

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Laws that say nothing of this learner, and why."""
        if self.var_smoothing > 0:
            return super().not_applicable
        why = "without smoothing a class may be a point, missed by the last digit of its mean"
        return {**super().not_applicable, "unlearning_is_the_inverse_of_learning": why}

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        c = self._classes.codes.get(y, -1) if type(y) in LABELS else -1
        known = c >= 0 and type(self._classes.values[c]) is type(y)
        usual = self.half_life is None and type(w) in NUMBERS and 0 < w <= HEAVIEST
        if known and usual and self._laid(x):
            self._gaussian.learn_laid(c, float(w), self._prior.weight)
        else:
            super().learn_one(x, y, w)

    def predict_proba_one(self, x: Mapping[Any, Any], **_: Any) -> dict[Label, float]:
        if self.priors is not None or not self._laid(x):
            return super().predict_proba_one(x)
        posterior = self._gaussian.answer_laid(self._prior.weight)
        return dict(zip(self._classes.values, posterior, strict=True))

    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        if self.priors is not None or self.half_life is not None:
            super()._execute(block, label, before, out)
            return
        self._widen(len(self._classes))
        weight = self._prior.weight
        self._gaussian.answer(block, label, before, weight, out)

    def _laid(self, x: Mapping[Any, Any]) -> bool:
        """Whether the record is ready for its kernels, without a block."""
        classes = len(self._classes)
        return self._prior.weight.size == classes and self._gaussian.lay(x, classes)

    def compile_kernels(self) -> None:
        """Compile what this learner runs, by block and by record, on a throw-away copy."""
        trial = self.clone()
        for _ in range(2):  # a block of one first, for the feature is new
            trial.learn_one({"warm": 1.0}, "warm")
        trial.predict_proba_one({"warm": 1.0})
        trial.predict_proba_many([{"warm": 1.0}])

    def _new_parts(self) -> tuple[Part, ...]:
        self._gaussian = GaussianPart(float(self.variance == "sample"), float(self.var_smoothing))
        return (self._gaussian,)

    @property
    def means(self) -> dict[Label, dict[str, float]]:
        s = self._gaussian.moments
        return self._table(s.mean + s.anchor)

    @property
    def variances(self) -> dict[Label, dict[str, float]]:
        s = self._gaussian.moments
        ddof = float(self.variance == "sample") * s.unit[0]
        return self._table(s.m2 / np.maximum(s.n - ddof, np.finfo(float).tiny))

    def _table(self, values: Floats) -> dict[Label, dict[str, float]]:
        seen = self._gaussian.moments.n > 0
        return {
            label: {f: float(values[c, j]) for j, f in enumerate(self.features) if seen[c, j]}
            for c, label in enumerate(self.classes)
        }


def _united(a: tuple[Floats, ...], b: tuple[Floats, ...]) -> tuple[Floats, Floats, Floats]:
    """Weight, mean and sum of squares of two sets of records (Chan, Golub and LeVeque 1983)."""
    n = a[0] + b[0]
    share = np.divide(b[0], n, out=np.zeros_like(n), where=n > 0)
    d = b[1] - a[1]
    theirs = np.where(b[0] > 0, b[1], 0.0)
    return n, np.where(a[0] > 0, a[1] + d * share, theirs), a[2] + b[2] + d * d * (a[0] * share)
