"""Gaussian naive Bayes: each feature normal given the class, independently of the others."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from struct import pack_into, unpack_from
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from stream.bayes._kernels import gaussian as kernels
from stream.bayes._kernels.gaussian import Moments
from stream.bayes.classifier import BayesClassifier, check_half_life, check_priors, left_after
from stream.bayes.columns import MAX_FEATURES, admit, find
from stream.bayes.part import Amount, Part, Steps, Term
from stream.block import Block, Floats, Rows
from stream.errors import StateError
from stream.parameters import number, one_of
from stream.schema import HEAVIEST, LARGEST, Dictionary, Kind, Label
from stream.state import State

__all__ = ["GaussianNB", "GaussianPart"]

NUMBERS = (float, int)  # by type, not by isinstance: a truth value is an int
LABELS = (str, int, bool)


class GaussianPart(Part):
    """Numeric features, each normal given the class; see `GaussianNB`."""

    name: ClassVar[str] = "gaussian"

    def __init__(self, ddof: float, smoothing: float) -> None:
        self._ddof, self._smoothing = ddof, smoothing
        self._features = Dictionary(MAX_FEATURES)
        self._cells, self._unit = np.zeros((kernels.CLASSES, 0)), np.ones(1)
        self._desk, self._desk_of = np.zeros((0, 0)), np.zeros((0, 0))

    @property
    def moments(self) -> Moments:
        """The moments, to be read or written in place."""
        s, k = self._cells, kernels.PER_CLASS
        tables = [s[kernels.CLASSES + i :: k] for i in range(k)]
        return Moments._make([*tables, *s[: kernels.CLASSES], self._unit])

    @property
    def features(self) -> list[str]:
        return list(self._features)

    @property
    def overflows(self) -> dict[str, int]:
        return {"features": self._features.overflow}

    def execute(self, block: Block, steps: Steps, classes: int, joint: Floats) -> None:
        source, column = admit(self._features, block)
        self._widen(classes)
        glance = np.empty((kernels.GLANCES + kernels.PER_GLANCE * classes, column.size))
        x, how = block.rows.numeric, (self._ddof, self._smoothing)
        kernels.progressive(*steps, x, source, column, *how, self._cells, self._unit, glance, joint)

    # One record of known features, without a block: the same kernels, on a desk that is kept.

    def lay(self, x: Mapping[Any, Any], classes: int) -> bool:
        """Lay a plain record on the desk; False, and nothing done, where it is not plain.

        That is a dict of Python's own finite numbers of learned features, and of not too few.
        """
        codes = self._features.codes
        d = len(codes)
        if type(x) is not dict or not 0 < d <= 4 * len(x):
            return False
        if self._cells.shape != (_height(classes), d):  # something new has no room yet
            return False
        values = [nan] * d
        for name, value in x.items():
            j = codes.get(name)
            if j is None or type(value) not in NUMBERS or not -LARGEST <= value <= LARGEST:
                return False
            values[j] = value + 0.0  # as `number` does
        if self._desk_of is not self._cells:
            rows = kernels.GLANCE + kernels.GLANCES + kernels.PER_GLANCE * classes
            self._desk, self._desk_of = np.empty((rows, max(d, classes))), self._cells
        pack_into(f"{d}d", self._desk.data, 0, *values)
        return True

    def learn_laid(self, c: int, w: float) -> None:
        """Learn the record on the desk for class c, which is known; nothing fades."""
        kernels.learn_row(self._desk, c, w, self._smoothing, self._cells)

    def answer_laid(self, weight: Floats) -> tuple[float, ...]:
        """The posterior of the record on the desk; weight (C,): of each class."""
        ddof = self._ddof and self._ddof * float(self._unit[0])
        kernels.answer_row(self._desk, weight, ddof, self._smoothing, self._cells)
        at = kernels.ANSWER * self._desk.strides[0]
        return unpack_from(f"{weight.size}d", self._desk.data, at)

    def _widen(self, classes: int) -> None:
        """Make room for classes and features that are new."""
        old, shape = self._cells, (_height(classes), len(self._features))
        if old.shape != shape:
            self._cells = np.zeros(shape)
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
        for name in present:
            j = self._features.codes.get(name)
            if j is None or left_after(self.moments.n[c, j], w) is None:
                return f"feature {name!r} has less weight in its class"
        return None

    def unlearn(self, rows: Rows, c: int, amount: Amount) -> None:
        w = amount.w * amount.fade * float(self._unit[0])
        kernels.unlearn(rows.numeric[0], *find(self._features, rows), c, w, self._cells)
        for j in np.flatnonzero(self.moments.total_n == 0.0)[::-1].tolist():
            self._features.remove(self._features.values[j])
            self._cells = np.delete(self._cells, j, axis=1)

    def drop_class(self, c: int) -> None:
        self._cells = np.delete(self._cells, np.s_[_height(c) : _height(c + 1)], axis=0)

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
        self._unit = b.unit.copy()

    def n_parameters(self, classes: int) -> int:
        return 2 * classes * len(self._features)

    def export(self) -> State:
        return State({"features": self.features}, self.moments._asdict())

    def restore(self, state: State, classes: int) -> None:
        features = Dictionary(MAX_FEATURES, state.header["features"])
        loaded = [
            state.array(name, np.float64, 2 if name in ("n", "mean", "m2") else 1)
            for name in Moments._fields
        ]
        shapes = [(classes, len(features))] * 3 + [(len(features),)] * 4 + [(1,)]
        if [a.shape for a in loaded] != shapes:
            raise StateError(
                f"expected moments of {classes} classes and {len(features)} features, got others"
            )
        self._features, self._unit = features, loaded[-1]
        self._cells = np.empty((_height(classes), len(features)))
        for mine, came in zip(self.moments[:-1], loaded[:-1], strict=True):
            mine[:] = came


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
            self._gaussian.learn_laid(c, float(w))
            self._prior.weight[c] += float(w)
        else:
            super().learn_one(x, y, w)

    def predict_proba_one(self, x: Mapping[Any, Any], **_: Any) -> dict[Label, float]:
        if self.priors is not None or not self._laid(x):
            return super().predict_proba_one(x)
        posterior = self._gaussian.answer_laid(self._prior.weight)
        return dict(zip(self._classes.values, posterior, strict=True))

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


def _height(classes: int) -> int:
    """How many rows the cells of so many classes have."""
    return kernels.CLASSES + kernels.PER_CLASS * classes
