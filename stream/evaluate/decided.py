"""Progressive validation of decisions: each is judged as it was made, when its label arrives.

Rule: a decision is a function of the posterior, and the posterior of every observation that waits
for its label is kept. So the decision made then is made again from it, never stored beside it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, PREDICT, Block, Rows
from stream.decision import BayesDecision, OverallRisk
from stream.evaluate.breaker import Breaker
from stream.evaluate.progressive import Progressive
from stream.evaluate.quality import LAST
from stream.join.join import LabelJoin
from stream.join.plan import Plan
from stream.learner.base import Learner, Predictions

__all__ = ["DecidedProgressive"]


class DecidedProgressive(Progressive):
    """A learner, the join before it, the scores behind it and the risk of what was decided.

    Parameters
    ----------
    learner, join, like, breaker, window
        See `Progressive`.
    rule
        What decides.

    Attributes
    ----------
    risk : OverallRisk
        Of the decisions whose true class came, in the order in which the labels did. Its state is
        its own, not part of `to_state`: a service may begin or cease to decide at any time.
    """

    def __init__(
        self,
        learner: Learner,
        join: LabelJoin,
        like: Rows,
        rule: BayesDecision,
        breaker: Breaker | None = None,
        window: int = LAST,
    ) -> None:
        super().__init__(learner, join, like, breaker, window)
        self.risk = OverallRisk(rule, window)

    def _score(
        self,
        plan: Plan,
        block: Block,
        old: NDArray[np.int64],
        predictions: Predictions,
        said: NDArray[np.int64],
    ) -> None:
        # First: scoring hands the slots of what was answered on to new observations.
        asked = np.flatnonzero(block.op != LEARN)
        made = np.full(len(block.rows), -1, dtype=np.int64)  # row -> its prediction here
        made[block.row[asked]] = np.arange(asked.size)
        answered = np.flatnonzero(block.op != PREDICT)
        here, slots = made[block.row[answered]], old[answered]
        fresh = slots < 0

        waiting = self.waiting
        proba = np.zeros((answered.size, len(predictions.classes)))
        known = np.zeros(answered.size, dtype=np.bool_)
        proba[fresh] = predictions.proba[here[fresh]]
        known[fresh] = predictions.known[here[fresh]] > 0
        width = min(proba.shape[1], waiting.proba.shape[1])
        proba[~fresh, :width] = waiting.proba[slots[~fresh], :width]
        known[~fresh] = waiting.said[slots[~fresh], 0] >= 0

        decisions = self.risk.rule.decide(predictions.classes, proba, known)
        true = [block.labels[code] for code in block.y[answered].tolist()]
        self.risk.update_many(true, decisions)
        super()._score(plan, block, old, predictions, said)
