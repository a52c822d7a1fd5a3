"""Decisions by risk: what to do, given the posterior and what each mistake costs."""

from stream.decision.overall import OverallRisk, RiskScores
from stream.decision.risk import BayesDecision, Decision, Decisions

__all__ = ["BayesDecision", "Decision", "Decisions", "OverallRisk", "RiskScores"]
