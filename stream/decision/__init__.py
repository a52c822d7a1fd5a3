"""Decisions by risk: the best action, given the posterior and the losses."""

from typing import TYPE_CHECKING

from stream.lazy import lazy

if TYPE_CHECKING:
    from stream.decision.budget import BudgetView, FalsePositiveBudget
    from stream.decision.overall import OverallRisk, RiskScores
    from stream.decision.risk import BayesDecision, Decision, Decisions
    from stream.decision.rule import Budget

__all__ = [
    "BayesDecision",
    "Budget",
    "BudgetView",
    "Decision",
    "Decisions",
    "FalsePositiveBudget",
    "OverallRisk",
    "RiskScores",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "stream.decision.budget": ("BudgetView", "FalsePositiveBudget"),
        "stream.decision.overall": ("OverallRisk", "RiskScores"),
        "stream.decision.risk": ("BayesDecision", "Decision", "Decisions"),
        "stream.decision.rule": ("Budget",),
    },
)
