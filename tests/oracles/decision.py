"""Obvious twins of the decisions by risk."""

from __future__ import annotations

from collections.abc import Mapping

Losses = Mapping[str, Mapping[str, float]]


def conditional_risks(losses: Losses, proba: Mapping[str, float]) -> dict[str, float]:
    """R(a | x) = sum over c of loss(a | c) P(c | x), every loss said."""
    risks = {}
    for action, row in losses.items():
        risk = 0.0
        for label, p in proba.items():
            risk += p * row[label]
        risks[action] = risk
    return risks


def decide(
    losses: Losses, proba: Mapping[str, float], reject: float | None
) -> tuple[str | None, float]:
    """The first action of least risk, or None where rejecting costs less; and its risk."""
    risks = conditional_risks(losses, proba)
    action = min(risks, key=risks.__getitem__)
    if reject is not None and reject < risks[action]:
        return None, reject
    return action, risks[action]
