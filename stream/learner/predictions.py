"""Predictions, the posteriors of a block in columns; and explanations of a prediction:
contributions of features, and a linear view if there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats
from stream.data.schema import Label
from stream.learner import _kernels as kernels

__all__ = ["BIAS", "PRIOR", "Explanation", "LinearView", "Predictions", "TextSpan", "connected"]

FEW_CLASSES = 8  # with few columns, comparing them is faster than argmax over short rows


@dataclass(slots=True)
class Predictions:
    """The posteriors of a block's predicting steps, in order.

    Parameters
    ----------
    classes
        The learner's classes after the block, in the order they were learned.
    proba
        float64, (n, len(classes)); 0 for a class that was not yet known.
    known
        int64, (n,): how many classes were known at each prediction.
    even
        float64, as `proba`: the posteriors if all classes had equal shares, which is what the
        evidence says; None: the learner does not know. A row of NaN is of a learner that does not
        know, if others do.
    """

    classes: list[Label]
    proba: Floats
    known: NDArray[np.int64]
    even: Floats | None = None

    def __len__(self) -> int:
        return int(self.known.shape[0])

    @property
    def judged(self) -> Floats:
        """What a budget decides by: `even`, or the posteriors."""
        if self.even is None:
            return self.proba
        return np.where(np.isnan(self.even), self.proba, self.even)

    @property
    def evidence(self) -> Floats | None:
        """What the record says for each known class, whatever the shares of the labels: its
        log-odds by `even`, less those of equal shares. Nothing known is 0.

        Examples
        --------
        >>> even = np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0]])
        >>> Predictions(["no", "yes"], even, np.array([2, 2, 1]), even).evidence.round(2).tolist()
        [[-1.39, 1.39], [0.0, 0.0], [0.0, 0.0]]
        """
        if self.even is None:
            return None
        out = np.zeros(self.even.shape)
        kernels.log_odds(np.ascontiguousarray(self.even), self.known, out)
        return out

    def part(self, first: int, end: int) -> Predictions:
        """Those from `first` to `end` - 1."""
        even = None if self.even is None else self.even[first:end]
        return Predictions(self.classes, self.proba[first:end], self.known[first:end], even)

    def best(self) -> NDArray[np.int64]:
        """Code of the most probable class; -1 if no class was known. Of equal ones the first
        learned wins."""
        n, classes = self.proba.shape
        if not 0 < classes <= FEW_CLASSES:
            best = np.argmax(self.proba, axis=1) if classes else np.zeros(n, dtype=np.int64)
        else:
            best, top = np.zeros(n, dtype=np.int64), self.proba[:, 0]
            for code in range(1, classes):
                p = self.proba[:, code]
                np.copyto(best, code, where=p > top)
                top = np.maximum(top, p)
        return best if self.known.all() else np.where(self.known > 0, best, -1)

    def labels(self) -> list[Label | None]:
        """The most probable label of each; None if no class was known."""
        return [None if code < 0 else self.classes[code] for code in self.best().tolist()]

    def ranked(self, top: int) -> list[list[tuple[Label, float]]]:
        """Label and probability of the `top` most probable classes of each.

        Equal probabilities keep the order in which the classes were learned.

        Examples
        --------
        >>> proba = np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0]])
        >>> Predictions(["no", "yes"], proba, np.array([2, 2, 1])).ranked(2)
        [[('yes', 0.8), ('no', 0.2)], [('no', 0.5), ('yes', 0.5)], [('no', 1.0)]]
        """
        return self._in_order(self.proba, top)

    def ranked_evidence(self, top: int) -> Sequence[list[tuple[Label, float]] | None]:
        """Label and evidence of the classes of `ranked`; None where no evidence is known.

        Examples
        --------
        >>> half = np.array([[0.5, 0.5]])
        >>> made = Predictions(["no", "yes"], np.array([[0.2, 0.8]]), np.array([2]), half)
        >>> made.ranked_evidence(1)
        [[('yes', 0.0)]]
        """
        if (evidence := self.evidence) is None:
            return [None] * len(self)
        pairs = self._in_order(evidence, top)
        return [row if row and row[0][1] == row[0][1] else None for row in pairs]

    def _in_order(self, of: Floats, top: int) -> list[list[tuple[Label, float]]]:
        """Label and a number of the `top` most probable classes of each."""
        if len(self) == 1:  # a request, of which each step counts
            (p,), (number,), (k,) = self.proba.tolist(), of.tolist(), self.known.tolist()
            best = sorted(range(k), key=lambda code: -p[code])[:top]
            return [[(self.classes[code], number[code]) for code in best]]
        known = np.arange(len(self.classes)) < self.known[:, None]  # the others come last
        order = np.argsort(np.where(known, -self.proba, 1.0), axis=1, kind="stable")[:, :top]
        found = np.take_along_axis(of, order, axis=1).tolist()
        names = np.empty(len(self.classes), dtype=object)
        names[:] = self.classes
        pairs = zip(names[order].tolist(), found, strict=True)
        if known.all():
            return [list(zip(labels, row, strict=True)) for labels, row in pairs]
        counts = self.known.tolist()
        return [
            list(zip(labels[:k], row, strict=False))
            for (labels, row), k in zip(pairs, counts, strict=True)
        ]

    def dicts(self) -> list[dict[Label, float]]:
        """Each posterior as a dict from label to probability."""
        return [
            dict(zip(self.classes[:k], row[:k], strict=True))
            for k, row in zip(self.known.tolist(), self.proba.tolist(), strict=True)
        ]


def connected(parts: Sequence[Predictions], classes: list[Label] | None = None) -> Predictions:
    """Predictions one after the other. A class that was not known yet has probability 0.

    `classes`: of the whole, of which those of a part are the first; None: those of the last part.

    Examples
    --------
    >>> one = Predictions(["no"], np.ones((1, 1)), np.array([1]))
    >>> two = Predictions(["no", "yes"], np.array([[0.2, 0.8]]), np.array([2]))
    >>> connected([one, two]).proba.tolist()
    [[1.0, 0.0], [0.2, 0.8]]
    """
    if len(parts) == 1 and classes is None:
        return parts[0]
    classes = parts[-1].classes if classes is None else classes
    n, at = sum(map(len, parts)), 0
    proba = np.zeros((n, len(classes)))
    even = np.zeros_like(proba) if any(part.even is not None for part in parts) else None
    for part in parts:
        here = slice(at, at + len(part)), slice(part.proba.shape[1])
        proba[here] = part.proba
        if even is not None:
            even[here] = np.nan if part.even is None else part.even
        at += len(part)
    known = [part.known for part in parts] or [np.zeros(0, dtype=np.int64)]
    return Predictions(classes, proba, np.concatenate(known), even)


PRIOR = "(prior)"
BIAS = "(bias)"


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A part of a text and its share of the log-odds.

    Attributes
    ----------
    field
        The name of the text.
    begin, end
        The first character and the one after the last, counted in code points.
    log_odds
        What its words, n-grams and pairs contribute, in nats. A feature that occurs more than once
        has equal shares in each place, and a pair of tokens equal shares in both.
    """

    field: str
    begin: int
    end: int
    log_odds: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one class rather than another: a log likelihood ratio for each feature or token.

    Attributes
    ----------
    label, against
        The class that is explained, and the one it is compared with.
    log_odds
        log P(label | x) - log P(against | x): exactly ``sum(contributions.values())``.
    contributions
        Feature or token to its contribution, in nats. The prior is called "(prior)", and
        what any evidence adds whatever it says "(bias)". `largest`
        drops the small contributions.
    spans
        The same for each part of the texts, in their order, without overlaps. They are empty if the
        learner does not know the places of its features. What belongs to no place, such as the
        prior and numbers, is only in `contributions`.

    Examples
    --------
    >>> from stream.learner.predictions import Explanation
    >>> e = Explanation("spam", "ham", 1.5, {"(prior)": -0.5, "free": 2.0})
    >>> e.top(1)
    [('free', 2.0)]
    """

    label: Label
    against: Label
    log_odds: float
    contributions: Mapping[str, float]
    spans: tuple[TextSpan, ...] = ()

    def top(self, n: int) -> list[tuple[str, float]]:
        """The n contributions of largest absolute value, largest first."""
        return sorted(self.contributions.items(), key=lambda item: -abs(item[1]))[:n]

    def largest(self, n: int) -> Explanation:
        """A copy with the n largest contributions only, and all spans. `log_odds` stays the sum of
        all."""
        if len(self.contributions) <= n:
            return self
        return replace(self, contributions=dict(self.top(n)))


@dataclass(frozen=True, slots=True)
class LinearView:
    """The log-odds of two classes as a linear function: bias + Σ weights[f] · x[f].

    Attributes
    ----------
    label, against
        The two classes. The logistic function of the log-odds is the posterior of `label` among
        these two.
    bias
        The value if every feature is 0.
    weights
        Feature or token to its weight.
    """

    label: Label
    against: Label
    bias: float
    weights: Mapping[str, float]
