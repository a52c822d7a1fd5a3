"""Additive: a learner whose joint log likelihood is a sum of terms, one for each feature."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from math import exp, fsum, inf, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.rows import Rows
from stream.data.schema import Label
from stream.errors import NotLearnedError
from stream.learner.base import Learner
from stream.learner.predictions import Explanation

__all__ = ["LOWEST", "Additive", "apart"]

LOWEST = -1e300  # stands for -inf if terms are subtracted

Floats = NDArray[np.float64]


class Additive(Learner, abc.ABC):
    """The common readings of such a learner. A family implements `_terms`."""

    @abc.abstractmethod
    def _terms(self, raw: Rows) -> Sequence[tuple[str, Floats]]:
        """Log prior and log likelihoods of one row, as `columns` makes it, float64 (C,) each, in
        the order of the sum."""

    def joint_log_likelihood_one(self, x: Mapping[Any, Any]) -> dict[Label, float]:
        """log P(class) + log p(x | class) of each known class; -inf only if x is impossible."""
        if not self._classes:
            return {}
        joint = np.zeros(len(self._classes))
        for _, term in self._terms(self.columns([x])):
            joint += term
        return dict(zip(self.classes, joint.tolist(), strict=True))

    def log_evidence_one(self, x: Mapping[Any, Any]) -> float:
        """log p(x) = log Σ P(class) · p(x | class) over the known classes: how likely such an x is.

        If x has numbers this is a density, in their units. It is low for a record unlike the
        learned ones. Missing values, unknown values and unknown tokens are ignored.

        Returns
        -------
        float
            -inf if every class is impossible. (The posterior is then the prior.)

        Raises
        ------
        NotLearnedError
            No class is known.
        """
        joint = sorted(self.joint_log_likelihood_one(x).values())
        if not joint:
            raise NotLearnedError("the evidence needs at least one class; learn a record first")
        *rest, top = joint
        return top + log1p(fsum(exp(v - top) for v in rest)) if top > -inf else -inf

    def explain_rows(
        self, rows: Rows, label: Label | None = None, against: Label | None = None
    ) -> Explanation:
        """`explain_one` of the one row of `rows`, as `columns` makes them."""
        a, b = self._compared(label, against, rows)
        contributions: dict[str, float] = {}
        for name, term in self._terms(rows):
            contributions[name] = contributions.get(name, 0.0) + apart(term, a, b)
        classes = self.classes
        return Explanation(classes[a], classes[b], sum(contributions.values()), contributions)


def apart(term: Floats, a: int, b: int) -> float:
    """What a term adds to the log-odds of classes a and b."""
    return max(float(term[a]), LOWEST) - max(float(term[b]), LOWEST)
