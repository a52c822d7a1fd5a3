"""Gaussian naive Bayes: each feature normal given the class, independently of the others."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from stream.bayes._kernels import gaussian as kernels
from stream.bayes._kernels.gaussian import Moments
from stream.bayes.classifier import BayesClassifier, check_half_life, check_priors, left_after
from stream.bayes.columns import MAX_FEATURES, admit, find
from stream.bayes.part import Amount, Part, Steps, Term
from stream.block import Block, Floats, Rows
from stream.errors import SchemaError, StateError
from stream.schema import Dictionary, Kind, Label
from stream.state import State

__all__ = ["GaussianNB", "GaussianPart"]


class GaussianPart(Part):
    """Numeric features, each normal given the class; see `GaussianNB`."""

    name: ClassVar[str] = "gaussian"

    def __init__(self, ddof: float, smoothing: float) -> None:
        self._ddof, self._smoothing = ddof, smoothing
        self._features = Dictionary(MAX_FEATURES)
        tables, vectors = [np.zeros((0, 0))] * 3, [np.zeros(0)] * 4
        self.moments = Moments._make([*tables, *vectors, np.ones(1)])

    @property
    def features(self) -> list[str]:
        return list(self._features)

    @property
    def overflows(self) -> dict[str, int]:
        return {"features": self._features.overflow}

    def execute(self, block: Block, steps: Steps, classes: int, joint: Floats) -> None:
        source, column = admit(self._features, block)
        self.moments = _resized(self.moments, classes, len(self._features))
        x = block.rows.numeric
        kernels.progressive(
            steps, x, source, column, self._ddof, self._smoothing, self.moments, joint
        )

    def terms(self, rows: Rows, classes: int) -> list[Term]:
        source, column = find(self._features, rows)
        out = np.zeros((source.size, classes))
        x = rows.numeric[0]
        kernels.terms(x, source, column, classes, self._ddof, self._smoothing, self.moments, out)
        names = [rows.numeric_names[j] for j in source.tolist()]
        return [(n, out[k]) for k, n in enumerate(names) if not np.isnan(x[source[k]])]

    def lacks(self, rows: Rows, c: int, amount: Amount) -> str | None:
        w = amount.w * amount.fade * float(self.moments.unit[0])
        present = {n: v for n, v in zip(rows.numeric_names, rows.numeric[0], strict=True) if v == v}
        for name in present:
            j = self._features.codes.get(name)
            if j is None or left_after(self.moments.n[c, j], w) is None:
                return f"feature {name!r} has less weight in its class"
        return None

    def unlearn(self, rows: Rows, c: int, amount: Amount) -> None:
        w = amount.w * amount.fade * float(self.moments.unit[0])
        kernels.unlearn(rows.numeric[0], *find(self._features, rows), c, w, self.moments)
        for j in np.flatnonzero(self.moments.total_n == 0.0)[::-1].tolist():
            self._features.remove(self._features.values[j])
            *moments, unit = self.moments
            self.moments = Moments._make([*(np.delete(a, j, axis=-1) for a in moments), unit])

    def drop_class(self, c: int) -> None:
        s = self.moments
        self.moments = s._replace(
            n=np.delete(s.n, c, 0), mean=np.delete(s.mean, c, 0), m2=np.delete(s.m2, c, 0)
        )

    def merge(self, other: Self, classes: NDArray[np.int64], size: int, fade: float) -> None:
        column = np.array([self._features.add(f) for f in other.features], dtype=np.int64)
        a = _resized(self.moments, size, len(self._features))
        kept = np.flatnonzero(column >= 0)  # the others are beyond the bound, and counted
        j, b = column[kept], other.moments
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
        self.moments = a._replace(unit=b.unit.copy())

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
        self._features, self.moments = features, Moments(*loaded)


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
        check_variance(variance, var_smoothing)
        check_priors(priors)
        check_half_life(half_life)
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


def check_variance(variance: str, var_smoothing: float) -> None:
    """SchemaError for an unknown estimate or a share that is none."""
    if variance not in ("ml", "sample"):
        raise SchemaError(f'variance must be "ml" or "sample", got {variance!r}')
    if not (isfinite(var_smoothing) and var_smoothing >= 0):
        raise SchemaError(f"var_smoothing must be finite and >= 0, got {var_smoothing!r}")


def _united(a: tuple[Floats, ...], b: tuple[Floats, ...]) -> tuple[Floats, Floats, Floats]:
    """Weight, mean and sum of squares of two sets of records (Chan, Golub and LeVeque 1983)."""
    n = a[0] + b[0]
    share = np.divide(b[0], n, out=np.zeros_like(n), where=n > 0)
    d = b[1] - a[1]
    theirs = np.where(b[0] > 0, b[1], 0.0)
    return n, np.where(a[0] > 0, a[1] + d * share, theirs), a[2] + b[2] + d * d * (a[0] * share)


def _resized(s: Moments, c: int, d: int) -> Moments:
    """`s` with zeros for the classes and features that are new."""
    if s.n.shape == (c, d):
        return s
    out = []
    for old in s[:-1]:
        new = np.zeros((c, d) if old.ndim == 2 else (d,))
        new[tuple(slice(0, k) for k in old.shape)] = old
        out.append(new)
    return Moments._make([*out, s.unit])
