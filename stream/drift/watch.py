"""Watch a stream for drift, and restart the model if an alarm requires it.

`forget` and `reset` both drop the learned model. Not every learner can reduce the weight of what it
has learned (a tree of river or a window of neighbours cannot). But any learner can restart and
learn the last records again. This is exact, bounded by `keep`, and the same for all learners.
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
    """Monitors, the records for a restart, and counts of actions.

    Parameters
    ----------
    rule
        The monitors and their actions.
    like
        Any number of rows with the columns of the stream, as the learner prepares them.

    Attributes
    ----------
    monitors : Monitors
        The monitors that raise alarms.
    actions : Counter
        Number of restarts of a model and changes of the champion, by action.

    Notes
    -----
    Memory: the monitors and, if an action is ``"forget"``, the last `keep` learned records.
    """

    def __init__(self, rule: DriftRule, like: Rows) -> None:
        self.rule = rule
        self.monitors = Monitors(rule)
        forgets = any(monitor.action == "forget" for monitor in rule.monitors)
        self._recent = Recent(rule.keep, like) if forgets else None
        self.actions: Counter[str] = Counter()
        self._since: int | None = None  # records learned since the model restarted

    def learned(self, block: Block, steps: NDArray[np.int64], codes: NDArray[np.int64]) -> None:
        """Add the records of these learning steps. `codes`: the classes of the block's labels."""
        if self._since is not None:
            self._since += steps.size
        if self._recent is not None and steps.size:
            last = steps[-self.rule.keep :]
            rows = block.rows.take(block.row[last])
            rows.memo = None  # of a learner that is not the one they are kept for
            self._recent.learn(rows, codes[block.y[steps]], block.w[steps])

    def forgot(self, age: int) -> bool:
        """Whether the model no longer has a record, or has it in another way than it was learned.

        Parameters
        ----------
        age
            Number of records learned after it.
        """
        return self._since is not None and age >= self._since

    def corrected(self, age: int, code: int, w: float) -> None:
        """Replace the label of a record, which the learner counts as one more record."""
        if self._since is not None:
            self._since += 1
        if self._recent is not None:
            self._recent.corrected(age, code, w)

    def replacement(
        self, learner: Learner, proven: bool, alarms: Collection[Alarm], labels: list[Label]
    ) -> Learner:
        """The learner that replaces `learner` after these alarms.

        Parameters
        ----------
        proven
            Whether `learner` had learned a record before the alarms, see `Learner.restarted`.
            It may also have learned later records.
        alarms
            The alarms of the step. A reset has priority over forgetting.
        labels
            The label of each class code.
        """
        due: set[Action] = {self.rule.monitors[alarm.monitor].action for alarm in alarms}
        self._since = 0
        fresh = learner.restarted(proven)
        if self._recent is not None and "reset" in due:
            self._recent.clear()
        elif self._recent is not None:
            fresh.run(self._recent.block(labels))
        self.actions["reset" if "reset" in due else "forget"] += 1
        return fresh

    def to_state(self) -> State:
        """A copy of everything, including the rule."""
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
        """Load what `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged or has other columns than `like`.
        """
        own = state.nested("own").header
        drift = cls(DriftRule.from_json(own["rule"]), like)
        drift.actions = Counter(own["actions"])
        drift._since = own["since"]
        drift.monitors.load_state(state.nested("monitors"))
        if drift._recent is not None:
            drift._recent.load_state(state.nested("recent"))
        return drift
