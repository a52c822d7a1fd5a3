"""Poisson naive Bayes: counts of events, independent given the class, each with its own rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from river.base import tags

from stream.bayes._kernels import poisson as kernels
from stream.bayes._kernels.poisson import CountTotals
from stream.bayes.classifier import (
    BayesClassifier,
    check_priors,
    finite,
    left_after,
)
from stream.bayes.part import Line, Part, Steps, SumsPart, UnlearnAmount, given
from stream.data.block import Block, Floats, Rows
from stream.data.columns import admit, amounts
from stream.data.parameters import check_half_life, number
from stream.data.schema import Kind, Label
from stream.data.state import State
from stream.errors import InvalidRecordError, NotSupportedError
from stream.learner.predictions import LinearView
from stream.learner.registry import Facts, registered

__all__ = ["PoissonNB"]

SHAPE, RATE = 0.5, 0.0  # Jeffreys' prior of a rate: it does not depend on the scale
ROUNDING = 1e-9  # rounding error, as a share of the largest total
WHOLE = 2.0**53  # totals of whole numbers are exact up to it


class PoissonPart(SumsPart):
    """Numeric columns as counts with a Poisson distribution; see `PoissonNB`."""

    name: ClassVar[str] = "counts"
    sum_names: ClassVar[tuple[str, str]] = ("weight", "total")
    least_sum = 0.0

    def __init__(self, a: float = SHAPE, b: float = RATE) -> None:
        super().__init__()
        self._a, self._b = a, b
        self._taken: dict[str, float] = {}  # the largest total from which a count was unlearned

    @property
    def _totals(self) -> CountTotals:
        return CountTotals(*self._sums, self._unit)

    @property
    def rates(self) -> list[list[float]]:
        """The rate of each class, one column for each count; NaN if a class never had it."""
        s = self._totals
        unit = float(s.unit[0])
        a, b = self._a * unit, self._b * unit
        return [
            [kernels.rate(w, t, a, b) if w > 0 else np.nan for w, t in zip(*pair, strict=True)]
            for pair in zip(s.weight.tolist(), s.total.tolist(), strict=True)
        ]

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows with a number that is not a count: negative, or with a fraction."""
        x = rows.numeric
        bad = (x < 0) | ((np.floor(x) != x) & ~np.isnan(x))
        return {i: _no_count(rows, i, bad[i]) for i in np.flatnonzero(bad.any(axis=1)).tolist()}

    def execute(self, block: Block, steps: Steps, classes: int, joint: Floats) -> None:
        source, column = admit(self._features, block)
        self._make_room(classes)
        x = block.rows.numeric
        kernels.progressive(steps, x, source, column, self._a, self._b, self._totals, joint)

    def _scores(
        self, x: Floats, source: NDArray[np.int64], column: NDArray[np.int64], classes: int
    ) -> Floats:
        out = np.zeros((source.size, classes))
        kernels.terms(x, source, column, classes, self._a, self._b, self._totals, out)
        return out

    def line(self, classes: int) -> Line:
        """The log likelihood if all counts are 0, and what one more event of each adds."""
        column = np.arange(len(self._features))
        none, one = (
            self._scores(np.full(column.size, v), column, column, classes) for v in (0.0, 1.0)
        )
        base = np.zeros(classes)
        for row in none:
            base += row
        changes = one - none
        return base, [(name, changes[j]) for j, name in enumerate(self._features)]

    def lacks(self, rows: Rows, c: int, amount: UnlearnAmount) -> str | None:
        s = self._totals
        w = amount.w * amount.fade * float(s.unit[0])
        for name, value in given(rows):
            j = self._features.codes.get(name)
            if j is None:
                return f"count {name!r} was never learned"
            if left_after(s.weight[c, j], w, amount.slack) is None:
                return f"count {name!r} has less weight in its class"
            if s.total[c, j] - w * value < -self._rounding(name, float(s.total[c, j])):
                return f"count {name!r} has a lower total in its class"
        return None

    def _rounding(self, name: str, total: float) -> float:
        """The largest rounding error of a difference of totals."""
        return ROUNDING * max(total, self._taken.get(name, 0.0))

    def unlearn(self, rows: Rows, c: int, amount: UnlearnAmount) -> None:
        s = self._totals
        unit = float(s.unit[0])
        w = amount.w * amount.fade * unit
        for name, value in given(rows):
            j = self._features.codes[name]
            before = float(s.total[c, j])
            s.weight[c, j] = left_after(s.weight[c, j], w, amount.slack) or 0.0
            s.total[c, j] = max(before - w * value, 0.0) if s.weight[c, j] > 0 else 0.0
            exact = before <= WHOLE and before.is_integer() and (w * value).is_integer()
            if unit == 1.0 and not exact:
                self._taken[name] = max(before, self._taken.get(name, 0.0))
        self._forget_columns()
        self._taken = {k: v for k, v in self._taken.items() if k in self._features}

    def merge(self, other: Self, classes: NDArray[np.int64], size: int, fade: float) -> None:
        super().merge(other, classes, size, fade)
        for name, taken in other._taken.items():
            if name in self._features:
                self._taken[name] = max(taken, self._taken.get(name, 0.0))

    def export(self) -> State:
        state = super().export()
        taken = {"taken": self._taken} if self._taken else {}
        return State({**state.header, **taken}, state.arrays)

    def restore(self, state: State, classes: int) -> None:
        super().restore(state, classes)
        self._taken = amounts(state, "taken", self._features)


@registered(
    Facts(
        model="counts of events, independent and Poisson within a class",
        cost="C·D; D",
        memory="C·D",
        missing="no evidence",
        source="Murphy 2012, 3.5; Gelman et al. 2013, 2.6",
        reads={
            "numeric": "a count; below 0 and fractions refused",
            "binary": "the counts 0 and 1",
        },
        distribution="poisson",
    )
)
class PoissonNB(BayesClassifier):
    """Poisson naive Bayes over counts of events, one record at a time.

    A field is the number of times that something happened (calls, visits, errors per hour): a whole
    number from 0. A missing field (absent, None, NaN) is not evidence. Texts are rejected,
    categories are ignored.

    Parameters
    ----------
    a, b
        Shape and rate of the Gamma prior of each rate: as if records of weight b had a events. The
        defaults, 0.5 and 0, are Jeffreys' prior, which does not depend on the scale. 0 and 0 is
        maximum likelihood: if a count was always 0 in a class, a count above 0 makes the class
        impossible.
    priors
        Label, or its text ("true", "1"), to prior probability. A class without an entry has prior
        0. None: priors are learned.
    half_life
        Number of records after which what was learned has half its weight. None: no fading.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    features : list of str
        Fields in the order they were first learned.
    rates : dict
        Label to a dict from field to its rate, for the fields that the class had.

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        From `learn_one` and the predictions: a number below 0, with a fraction or beyond 1e100,
        an infinity, a text. The model is untouched.

    Notes
    -----
    P(x | class) = exp(-rate) · rate**x / x!, where rate = (a + Σ w·x) / (b + Σ w) over the class's
    records that had the field, of weight w: the posterior mean with a Gamma(a, b) prior, which is
    conjugate. If a class never had a field, the counts over all classes are used for it. Use it
    where a count's variance is about its mean; for counts that vary far more, bins or `GaussianNB`
    are less certain of themselves. At most 65,536 fields are learned; `overflows` counts others.

    O(C · D) to predict, O(D) to learn; memory 16 · C · D bytes. `merge` and `unlearn_one` are exact
    for whole weights and totals up to 2**53, else to about 1e-9 of the largest total.

    Source: the Poisson distribution with a Gamma prior is in Gelman et al., Bayesian Data Analysis,
    3rd edition, chapter 2.6; naive Bayes as a product of one such density a feature in Murphy,
    Machine Learning: A Probabilistic Perspective, chapter 3.5.

    Examples
    --------
    >>> from stream import PoissonNB
    >>> model = PoissonNB(a=1, b=1)
    >>> for calls, y in [(0, "quiet"), (2, "quiet"), (7, "busy"), (9, "busy")]:
    ...     model.learn_one({"calls": calls}, y)
    >>> model.rates["quiet"]
    {'calls': 1.0}
    >>> model.predict_one({"calls": 5})
    'busy'
    """

    strings: ClassVar[str] = "refused"
    kinds: ClassVar[frozenset[Kind]] = frozenset(("numeric", "binary"))

    def __init__(
        self,
        a: float = SHAPE,
        b: float = RATE,
        priors: Mapping[Label, float] | None = None,
        half_life: float | None = None,
    ) -> None:
        self.a = number("a", a, 0.0)
        self.b = number("b", b, 0.0)
        self.priors = check_priors(priors)
        self.half_life = check_half_life(half_life)
        self._begin()

    def _more_tags(self) -> set[str]:
        return {tags.POSITIVE_INPUT}

    @classmethod
    def number_part(cls) -> Part:
        """Numbers as counts, with the default prior."""
        return PoissonPart()

    def _new_parts(self) -> tuple[Part, ...]:
        self._counts = PoissonPart(self.a, self.b)
        return (self._counts,)

    @property
    def rates(self) -> dict[Label, dict[str, float]]:
        return {
            label: {f: rate for f, rate in zip(self.features, row, strict=True) if rate == rate}
            for label, row in zip(self.classes, self._counts.rates, strict=True)
        }

    def linear_view(self, label: Label | None = None, against: Label | None = None) -> LinearView:
        """The log-odds of two classes as a line over the counts; O(C · D).

        It is that of a record with every known field.

        Parameters
        ----------
        label, against
            Two known classes; left out, the first ones learned.

        Raises
        ------
        NotLearnedError
            Fewer than two classes are known, or one that is asked for is not.
        NotSupportedError
            With a = 0: a count that one of them has always had as 0.
        """
        a, b = self._compared(label, against, None)
        line = self._counts.line(len(self.classes))
        if not finite([line], a, b):
            raise NotSupportedError("a linear view needs rates above 0; give a a value above 0")
        return self._linear(a, b, [line])


def _no_count(rows: Rows, i: int, bad: NDArray[np.bool_]) -> InvalidRecordError:
    j = int(np.argmax(bad))
    name, value = rows.numeric_names[j], float(rows.numeric[i, j])
    return InvalidRecordError(
        "negative_count" if value < 0 else "wrong_kind",
        f"field {name!r} expects a count (a whole number from 0), got {value:g}",
    )
