"""Decisions by risk: the best action, given the posterior and the losses."""

from stream.decision.budget import Budget, BudgetView, FalsePositiveBudget
from stream.decision.overall import OverallRisk, RiskScores
from stream.decision.risk import BayesDecision, Decision, Decisions

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
