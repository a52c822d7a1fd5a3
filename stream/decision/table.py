"""The table of the scores of decisions: everything that is true of one is in its entry.

Rule: metrics, the live page, `/status`, the Grafana panels and docs/quality.md are made from this
table. To add a score, compute it in `RiskScores` and add an entry here (decision 0050).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from stream.decision.overall import RiskScores

__all__ = ["RISK_SCORES", "RiskScoreSpec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskScoreSpec:
    """One score of decisions.

    Parameters
    ----------
    title
        Its name on the live page, in `/status` and in docs/quality.md.
    unit
        A share of decisions, or a plain number.
    value
        Reads it; None where it does not exist.
    metric, help
        Name and meaning in Prometheus.
    formula, limits
        How it is computed, and what it does not show, for docs/quality.md.
    panel, about
        Title and description of its Grafana panel.
    windows
        The windows that the panel shows.
    """

    title: str
    unit: Literal["share", "number"]
    value: Callable[[RiskScores], float | None]
    metric: str
    help: str
    formula: str
    limits: str
    panel: str
    about: str
    windows: tuple[str, ...]


RISK_SCORES: tuple[RiskScoreSpec, ...] = (
    RiskScoreSpec(
        title="risk of decisions",
        unit="number",
        value=lambda scores: scores.risk,
        metric="headwater_decision_risk",
        help="Mean loss of the decisions whose true class is known, each as it was made.",
        formula="mean loss of all decisions; a rejection costs `[decision] reject` "
        "(`reject_loss` in Python)",
        limits="a model that rejects more can have a lower risk",
        panel="Overall risk",
        about="Mean loss of the decisions whose true class came; where [decision] is set.",
        windows=("all", "fading"),
    ),
    RiskScoreSpec(
        title="coverage of decisions",
        unit="share",
        value=lambda scores: scores.coverage,
        metric="headwater_decision_coverage_ratio",
        help="Share of these decisions that are not rejections.",
        formula="share of decisions that are not rejections",
        limits="does not show what the decisions cost",
        panel="Coverage",
        about="Share of decisions that were not left to somebody else.",
        windows=("fading",),
    ),
)
