"""The overall risk: the losses of decisions whose true classes are known; and the table of its
scores, where everything that is true of one is in its entry.

Rule: metrics, the live page, `/status`, the Grafana panels and docs/quality.md are made from this
table. To add a score, compute it in `RiskScores` and add an entry here
(docs/decisions/scores.md#a-score-is-one-entry-of-one-table).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import fsum
from typing import Literal

import numpy as np

from stream.data.parameters import shown, whole
from stream.data.schema import Label
from stream.data.state import State
from stream.decision.risk import BayesDecision, Decision, Decisions, named
from stream.errors import SchemaError, StateError

__all__ = ["RISK_SCORES", "OverallRisk", "RiskScoreSpec", "RiskScores"]


LAST = 1000
FADING_FACTOR = 0.999
NOTHING = (0.0, 0.0, 0.0, 0.0)  # scored, total loss, rejected, loss of the others


@dataclass(frozen=True, slots=True)
class RiskScores:
    """The losses of decisions over one window.

    Parameters
    ----------
    scored
        Number of decisions whose true class came (the effective number if they fade).
    risk
        Their mean loss, including the loss of rejections; None without decisions.
    coverage
        The share of them that were not rejections.
    selective_risk
        Mean loss of those that were not rejections; None if all were.

    Notes
    -----
    Coverage and selective risk are defined by El-Yaniv and Wiener (2010). A rule can always reduce
    one by reducing the other.
    """

    scored: float
    risk: float | None
    coverage: float | None
    selective_risk: float | None

    @staticmethod
    def of(scored: float, loss: float, rejected: float, decided: float) -> RiskScores:
        """The scores of sums: count, total loss, count of rejections, loss of the others."""
        if not scored:
            return RiskScores(0.0, None, None, None)
        covered = scored - rejected
        selective = decided / covered if covered > 0 else None
        return RiskScores(scored, loss / scored, covered / scored, selective)


class OverallRisk:
    """The overall risk so far: the mean loss of the decisions whose true class came.

    Parameters
    ----------
    rule
        The decision rule.
    window
        The N of the last N decisions.

    Attributes
    ----------
    count
        Number of decisions whose true class came.
    rejected
        Number of rejections among them.
    total
        Sum of their losses.
    true
        True class, as text, to the number of decisions.

    Notes
    -----
    A decision is judged as it was made, by what was known then. Loading the state of another rule
    starts empty, because the losses of two rules have no common mean.

    Examples
    --------
    >>> from stream.decision import BayesDecision, OverallRisk
    >>> risk = OverallRisk(BayesDecision())
    >>> risk.update("a", risk.rule.decide_one({"a": 0.75, "b": 0.25}))
    >>> risk.update("b", risk.rule.decide_one({"a": 0.75, "b": 0.25}))
    >>> risk.value
    0.5
    """

    def __init__(self, rule: BayesDecision, window: int = LAST) -> None:
        if not isinstance(rule, BayesDecision):
            raise SchemaError(f"expected a BayesDecision, got {shown(rule)}")
        self.rule, self.window = rule, whole("window", window, 1, 2**31 - 1)
        self.count = 0
        self.rejected = 0
        self.total = 0.0
        self.true: dict[str, int] = {}
        self._decided = 0.0  # loss of decisions that were not rejections
        self._last: deque[tuple[float, bool]] = deque()
        self._fading: tuple[float, ...] = NOTHING

    @property
    def windows(self) -> tuple[RiskScores, RiskScores, RiskScores]:
        """Over all time, over the last N decisions, and fading by 0.1 % with each decision."""
        losses = [loss for loss, _ in self._last]
        decided = [loss for loss, rejected in self._last if not rejected]
        n = len(losses)
        return (
            RiskScores.of(self.count, self.total, self.rejected, self._decided),
            RiskScores.of(n, fsum(losses), n - len(decided), fsum(decided)),
            RiskScores.of(*self._fading),
        )

    @property
    def value(self) -> float | None:
        """Mean loss of a decision; None before the first one."""
        return self.total / self.count if self.count else None

    @property
    def constant(self) -> tuple[Label | None, float] | None:
        """The baseline: `BayesDecision.constant` on the same decisions."""
        return self.rule.constant(self.true)

    def update(self, true: Label, decision: Decision) -> None:
        """Add the loss of a decision whose true class is known."""
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
            decided = 0.0 if rejected else loss
            self._decided += decided
            new = zip(self._fading, (1.0, loss, float(rejected), decided), strict=True)
            self._fading = tuple(FADING_FACTOR * was + more for was, more in new)
            self._last.append((loss, rejected))
            while len(self._last) > self.window:
                self._last.popleft()

    def to_state(self) -> State:
        """The sums, and the rule that made the decisions."""
        rule = dict(self.rule.to_state().header)
        sums = {"count": self.count, "rejected": self.rejected, "total": self.total}
        own = {**sums, "decided": self._decided, "fading": list(self._fading)}
        losses = np.array([loss for loss, _ in self._last], dtype=np.float64)
        rejected = np.array([rejected for _, rejected in self._last], dtype=np.bool_)
        last = {"losses": losses, "rejected": rejected}
        return State({"rule": rule, **own, "true": dict(self.true)}, last)

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved. The state of another rule is loaded as empty.

        Raises
        ------
        StateError
            The state is damaged.
        """
        try:
            keys = ("rule", "count", "rejected", "total", "true", "decided", "fading")
            rule, *own = (state.header[k] for k in keys)
        except KeyError as error:
            raise StateError(f"the state of this overall risk is damaged: {error!r}") from None
        same = rule == dict(self.rule.to_state().header)
        if not same:
            own = [0, 0, 0.0, {}, 0.0, NOTHING]
        self.count, self.rejected, self.total, true, self._decided, fading = own
        self.true, self._fading = dict(true), tuple(fading)
        losses = state.array("losses", np.float64, 1).tolist() if same else []
        rejected = state.array("rejected", np.bool_, 1).tolist() if same else []
        self._last = deque(zip(losses, rejected, strict=True))


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
