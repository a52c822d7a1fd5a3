"""What a prediction rests on: the shares of the features, and the line where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stream.data.schema import Label

__all__ = ["PRIOR", "Explanation", "LinearView"]

PRIOR = "(prior)"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one class rather than another: a log likelihood ratio a feature or token.

    Attributes
    ----------
    label, against
        The class that is explained, and the one it is compared with.
    log_odds
        log P(label | x) - log P(against | x): exactly ``sum(contributions.values())``.
    contributions
        Feature or token to its share, in nats; the prior's has the name "(prior)". `largest` drops
        the small ones.

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
        """The n largest contributions, either way, largest first."""
        return sorted(self.contributions.items(), key=lambda item: -abs(item[1]))[:n]

    def largest(self, n: int) -> Explanation:
        """This with its n largest contributions only; `log_odds` stays the sum of all."""
        if len(self.contributions) <= n:
            return self
        return Explanation(self.label, self.against, self.log_odds, dict(self.top(n)))


@dataclass(frozen=True, slots=True)
class LinearView:
    """The log-odds of two classes as a line: bias + Σ weights[f] · x[f].

    Attributes
    ----------
    label, against
        The two classes: the logistic function of the line is the posterior of `label` among them.
    bias
        The value where every feature is 0.
    weights
        Feature or token to its weight.
    """

    label: Label
    against: Label
    bias: float
    weights: Mapping[str, float]
