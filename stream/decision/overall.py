"""The overall risk: what decisions have cost, now that the true classes are known."""

from __future__ import annotations

from collections.abc import Iterable

from stream.decision.risk import BayesDecision, Decision, Decisions, named
from stream.errors import StateError
from stream.schema import Label
from stream.state import State

__all__ = ["OverallRisk"]


class OverallRisk:
    """The overall risk so far: the mean loss of the decisions whose true class came.

    Parameters
    ----------
    rule
        What decides.

    Attributes
    ----------
    count
        Decisions whose true class came.
    rejected
        How many of them were rejections.
    total
        Sum of their losses.
    true
        True class, as text, to how many of them it was of.

    Notes
    -----
    A decision is judged as it was made, on what was known then. Loading the state of another rule
    starts anew: losses of two kinds have no common mean.

    Examples
    --------
    >>> from stream.decision import BayesDecision, OverallRisk
    >>> risk = OverallRisk(BayesDecision())
    >>> risk.update("a", risk.rule.decide_one({"a": 0.75, "b": 0.25}))
    >>> risk.update("b", risk.rule.decide_one({"a": 0.75, "b": 0.25}))
    >>> risk.value
    0.5
    """

    def __init__(self, rule: BayesDecision) -> None:
        self.rule = rule
        self.count = 0
        self.rejected = 0
        self.total = 0.0
        self.true: dict[str, int] = {}

    @property
    def value(self) -> float | None:
        """Mean loss a decision; None before any."""
        return self.total / self.count if self.count else None

    @property
    def constant(self) -> tuple[Label | None, float] | None:
        """The baseline: `BayesDecision.constant` on the very same decisions."""
        return self.rule.constant(self.true)

    def update(self, true: Label, decision: Decision) -> None:
        """Add what a decision cost, now that its true class is known."""
        self._add(true, self.rule.loss(decision, true), decision.rejected)

    def update_many(self, true: Iterable[Label], made: Decisions) -> None:
        """`update` of each in turn."""
        true = list(true)
        losses = self.rule.realised(made, true)
        for label, loss, rejected in zip(true, losses, made.rejected.tolist(), strict=True):
            self._add(label, loss, rejected)

    def _add(self, true: Label, loss: float | None, rejected: bool) -> None:
        if loss is not None:
            name = named(true)
            self.true[name] = self.true.get(name, 0) + 1
            self.count += 1
            self.rejected += rejected
            self.total += loss

    def to_state(self) -> State:
        """The sums, and the rule they are of."""
        rule = dict(self.rule.to_state().header)
        own = {"count": self.count, "rejected": self.rejected, "total": self.total}
        return State({"rule": rule, **own, "true": dict(self.true)})

    def load_state(self, state: State) -> None:
        """Become what `to_state` saved; empty where that was of another rule.

        Raises
        ------
        StateError
            It is damaged.
        """
        try:
            keys = ("rule", "count", "rejected", "total", "true")
            rule, *own = (state.header[k] for k in keys)
        except KeyError as error:
            raise StateError(f"the state of this overall risk is damaged: {error!r}") from None
        same = rule == dict(self.rule.to_state().header)
        self.count, self.rejected, self.total, true = own if same else (0, 0, 0.0, {})
        self.true = dict(true)
