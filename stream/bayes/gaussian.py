"""Gaussian naive Bayes: each feature normal given the class, independently of the others."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite, log
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stream.base import Learner, Predictions
from stream.bayes._kernels import gaussian as kernels
from stream.bayes._kernels.gaussian import Moments
from stream.block import PREDICT, Block, Floats
from stream.errors import SchemaError, StateError
from stream.schema import Label
from stream.state import State

__all__ = ["GaussianNB"]


class GaussianNB(Learner):
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

    def __init__(
        self,
        variance: Literal["ml", "sample"] = "ml",
        var_smoothing: float = 1e-9,
        priors: Mapping[Label, float] | None = None,
    ) -> None:
        if variance not in ("ml", "sample"):
            raise SchemaError(f'variance must be "ml" or "sample", got {variance!r}')
        if not (isfinite(var_smoothing) and var_smoothing >= 0):
            raise SchemaError(f"var_smoothing must be finite and >= 0, got {var_smoothing!r}")
        for label, p in (priors or {}).items():
            if not (isfinite(p) and 0 <= p <= 1):
                raise SchemaError(f"priors[{label!r}] must lie in [0, 1], got {p!r}")
        if priors is not None and not any(priors.values()):
            raise SchemaError(f"priors must not all be 0, got {dict(priors)!r}")
        self.variance = variance
        self.var_smoothing = var_smoothing
        self.priors = priors
        self._begin()

    def _start(self) -> None:
        self._s = Moments(
            np.zeros(0), *(np.zeros((0, 0)) for _ in range(3)), *(np.zeros(0) for _ in range(4))
        )

    def _execute(
        self, block: Block, label: NDArray[np.int64], before: int, out: Predictions
    ) -> None:
        source, column = _ordered(self._admit_features(block))
        self._s = _resized(self._s, len(self._classes), len(self._features))
        kernels.progressive(
            block.op,
            block.row,
            block.y,
            block.w,
            block.rows.numeric,
            source,
            column,
            label,
            before,
            1.0 if self.variance == "sample" else 0.0,
            float(self.var_smoothing),
            self._log_prior(),
            self._s,
            np.empty(len(self._classes)),
            out.proba,
            out.known,
        )

    def _log_prior(self) -> Floats:
        if self.priors is None:
            return np.empty(0)
        # A configuration's keys are text, whatever the labels are.
        given = [self.priors.get(c, self.priors.get(_named(c), 0.0)) for c in self.classes]
        return np.array([log(p) if p > 0 else -inf for p in given])

    def joint_log_likelihood_one(self, x: Mapping[str, float]) -> dict[Label, float]:
        """log P(class) + log p(x | class) of each known class; -inf where truly impossible."""
        block = Block.of(self.rows([x]), PREDICT)
        out = np.empty(len(self._classes))
        kernels.joint_log_likelihood(
            block.rows.numeric[0],
            *_ordered(self._admit_features(block)),
            len(self._classes),
            1.0 if self.variance == "sample" else 0.0,
            float(self.var_smoothing),
            self._log_prior(),
            self._s,
            out,
        )
        return dict(zip(self.classes, out.tolist(), strict=True))

    @property
    def means(self) -> dict[Label, dict[str, float]]:
        return self._table(self._s.mean + self._s.anchor)

    @property
    def variances(self) -> dict[Label, dict[str, float]]:
        ddof = 1.0 if self.variance == "sample" else 0.0
        return self._table(self._s.m2 / np.maximum(self._s.n - ddof, np.finfo(float).tiny))

    def _table(self, values: Floats) -> dict[Label, dict[str, float]]:
        seen = self._s.n > 0
        return {
            label: {f: float(values[c, j]) for j, f in enumerate(self.features) if seen[c, j]}
            for c, label in enumerate(self.classes)
        }

    def _export(self) -> State:
        return State({}, self._s._asdict())

    def _restore(self, state: State) -> None:
        loaded = [
            state.array(name, np.float64, 2 if name in ("n", "mean", "m2") else 1)
            for name in Moments._fields
        ]
        self._s = Moments(*loaded)
        c, d = len(self._classes), len(self._features)
        shapes = [(c,), *[(c, d)] * 3, *[(d,)] * 4]
        if [a.shape for a in loaded] != shapes:
            raise StateError(f"expected moments of {c} classes and {d} features, got other shapes")


def _named(label: Label) -> str:
    return str(label).lower() if isinstance(label, bool) else str(label)


def _ordered(column: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The block's columns that have a column of state, in the state's order, and that column.

    Terms are added in this order, so it must not depend on how a block's columns lie.
    """
    source = np.argsort(column, kind="stable")
    source = source[np.searchsorted(column[source], 0) :]
    return source, column[source]


def _resized(s: Moments, c: int, d: int) -> Moments:
    """`s` with zeros for the classes and features that are new."""
    if s.n.shape == (c, d):
        return s
    out = []
    for name, old in zip(Moments._fields, s, strict=True):
        shape = (c, d) if old.ndim == 2 else ((c,) if name == "weight" else (d,))
        new = np.zeros(shape)
        new[tuple(slice(0, k) for k in old.shape)] = old
        out.append(new)
    return Moments(*out)
