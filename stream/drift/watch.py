"""Drift: what watches a stream, and how a model begins anew where an alarm says so.

`forget` and `reset` both leave the learned model behind. What was learned cannot be weighted down
after the fact in every learner (a tree of river, a window of neighbours), but any learner can
begin anew and be taught the last records again: exact, bounded by `keep`, and the same for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Block, Rows
from stream.data.schema import Label
from stream.data.state import State
from stream.drift.monitor import Alarm, Monitors
from stream.drift.recent import Recent
from stream.drift.rule import Action, DriftRule
from stream.learner.base import Learner

__all__ = ["DriftWatch"]


class DriftWatch:
    """Monitors, the records to begin anew with, and what was done.

    Parameters
    ----------
    rule
        What is watched, and what an alarm does.
    like
        Rows of the stream's shape (any number), as the learner prepares them.

    Attributes
    ----------
    monitors : Monitors
        What raises the alarms.
    actions : Counter
        How often a model began anew, or another one became champion, by action.

    Notes
    -----
    Memory: the monitors', and where an alarm forgets the last `keep` records learned.
    """

    def __init__(self, rule: DriftRule, like: Rows) -> None:
        self.rule = rule
        self.monitors = Monitors(rule)
        forgets = any(monitor.action == "forget" for monitor in rule.monitors)
        self._recent = Recent(rule.keep, like) if forgets else None
        self.actions: Counter[str] = Counter()
        self._since: int | None = None  # records learned since a model began anew

    def learned(self, block: Block, steps: NDArray[np.int64], codes: NDArray[np.int64]) -> None:
        """These steps of a block learned; `codes` are the classes of the block's labels."""
        if self._since is not None:
            self._since += steps.size
        if self._recent is not None and steps.size:
            last = steps[-self.rule.keep :]
            rows = block.rows.take(block.row[last])
            self._recent.learn(rows, codes[block.y[steps]], block.w[steps])

    def forgot(self, age: int) -> bool:
        """Whether a record is no longer part of the model, or not as it was learned.

        Parameters
        ----------
        age
            Records learned since it was.
        """
        return self._since is not None and age >= self._since

    def corrected(self, age: int, code: int, w: float) -> None:
        """The label of a record was replaced; to the learner this is one more record."""
        if self._since is not None:
            self._since += 1
        if self._recent is not None:
            self._recent.corrected(age, code, w)

    def anew(
        self, learner: Learner, proven: bool, alarms: Collection[Alarm], labels: list[Label]
    ) -> Learner:
        """The learner that goes on in place of `learner` after these alarms.

        Parameters
        ----------
        proven
            Whether it has learned before them; it may have learned from what lies behind them.
        alarms
            Those of the step at which to act; a reset counts more than forgetting.
        labels
            What the codes of the classes stand for.
        """
        due: set[Action] = {self.rule.monitors[alarm.monitor].action for alarm in alarms}
        self._since = 0
        fresh = learner.anew(proven)
        if self._recent is not None and "reset" in due:
            self._recent.clear()
        elif self._recent is not None:
            fresh.run(self._recent.block(labels))
        self.actions["reset" if "reset" in due else "forget"] += 1
        return fresh

    def to_state(self) -> State:
        """Everything, the rule too, as a copy."""
        header: Mapping[str, Any] = {
            "rule": self.rule.to_json(),
            "actions": dict(self.actions),
            "since": self._since,
        }
        parts = {"own": State(header), "monitors": self.monitors.to_state()}
        if self._recent is not None:
            parts["recent"] = self._recent.to_state()
        return State.join(parts)

    @classmethod
    def from_state(cls, state: State, like: Rows) -> DriftWatch:
        """What `to_state` saved.

        Raises
        ------
        StateError
            It is damaged, or of other columns than `like`.
        """
        own = state.nested("own").header
        drift = cls(DriftRule.from_json(own["rule"]), like)
        drift.actions = Counter(own["actions"])
        drift._since = own["since"]
        drift.monitors.load_state(state.nested("monitors"))
        if drift._recent is not None:
            drift._recent.load_state(state.nested("recent"))
        return drift
