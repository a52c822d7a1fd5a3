"""Explanations of a prediction: contributions of features, and a linear view if there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from stream.data.schema import Label

__all__ = ["BIAS", "PRIOR", "Explanation", "LinearView", "TextSpan"]

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
    >>> from stream.learner.explain import Explanation
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
