"""Explanations of a prediction: contributions of features, and a linear view if there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stream.data.schema import Label

__all__ = ["PRIOR", "Explanation", "LinearView"]

PRIOR = "(prior)"


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
        Feature or token to its contribution, in nats. The prior is called "(prior)". `largest`
        drops the small contributions.

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

    def top(self, n: int) -> list[tuple[str, float]]:
        """The n contributions of largest absolute value, largest first."""
        return sorted(self.contributions.items(), key=lambda item: -abs(item[1]))[:n]

    def largest(self, n: int) -> Explanation:
        """A copy with the n largest contributions only. `log_odds` stays the sum of all."""
        if len(self.contributions) <= n:
            return self
        return Explanation(self.label, self.against, self.log_odds, dict(self.top(n)))


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
