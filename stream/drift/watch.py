"""Watch a stream for drift, and restart the model if an alarm requires it.

`forget` and `reset` both drop the learned model. Not every learner can reduce the weight of what it
has learned (a tree of river or a window of neighbours cannot). But any learner can restart and
learn the last records again, which are kept here. This is exact, bounded by `keep`, and the same
for all learners.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, Block, Floats, Rows
from stream.data.schema import Label
from stream.data.state import Saved, State
from stream.data.stored import loaded, stored
from stream.drift.monitor import Alarm, Monitors
from stream.drift.rule import Action, DriftRule
from stream.learner.base import Learner

__all__ = [
    "DriftWatch",
    "Recent",
]


class Recent:
    """A ring of rows, labels and weights, in the order they were learned.

    Parameters
    ----------
    keep
        The largest number of records.
    like
        Any number of rows with the columns of the stream.

    Notes
    -----
    The caller defines the codes of labels. O(columns) for each record.
    """

    def __init__(self, keep: int, like: Rows) -> None:
        self._keep = keep
        self._rows = like.take(np.empty(0, dtype=np.int64))
        self._y = np.zeros(keep, dtype=np.int64)
        self._w: Floats = np.zeros(keep)
        self._number = np.full(keep, -1, dtype=np.int64)  # number of records learned before it
        self._pushed = 0  # number of records learned since it was empty
        self._learned = 0

    def learn(self, rows: Rows, y: NDArray[np.int64], w: Floats) -> None:
        """Add learned records. Rows that do not fit into the ring may be left out.

        Parameters
        ----------
        rows
            The last ones of the learned rows.
        y, w
            int64 and float64, (n,): label code and weight of all learned records.
        """
        n, keep = y.size, self._keep
        last = min(n, keep)
        self._rows = self._rows.with_columns_of(rows)
        rows = rows.with_columns_of(self._rows)
        at = (self._pushed + np.arange(n - last, n)) % keep
        room = min(keep, self._pushed + n)
        if room > len(self._rows):
            self._rows = self._rows.grown(min(keep, max(room, 2 * len(self._rows))))
        self._rows.put(at, rows.take(np.arange(len(rows) - last, len(rows))))
        self._y[at], self._w[at] = y[n - last :], w[n - last :]
        self._number[at] = self._learned + np.arange(n - last, n)
        self._pushed += n
        self._learned += n

    def corrected(self, age: int, y: int, w: float) -> None:
        """Replace the label of the record after which `age` others were learned.

        It counts as one more learned record, as it does for the learner.
        """
        at = np.flatnonzero(self._number == self._learned - 1 - age)
        self._y[at], self._w[at] = y, w
        self._learned += 1

    def clear(self) -> None:
        """Remove all records."""
        self._pushed = 0
        self._number[:] = -1

    def block(self, labels: list[Label]) -> Block:
        """The records as learning steps. `labels`: the label of each code."""
        at = self._order()
        n = at.size
        op, row = np.full(n, LEARN, dtype=np.int8), np.arange(n, dtype=np.int64)
        return Block(
            self._rows.take(at), op, row, self._y[at].astype(np.int32), self._w[at], labels
        )

    def _order(self) -> NDArray[np.int64]:
        """The indices of the records, from the oldest to the newest."""
        n = min(self._pushed, self._keep)
        return (self._pushed - n + np.arange(n)) % self._keep

    def to_state(self) -> State:
        """The records, from the oldest to the newest."""
        at = self._order()
        arrays = {"y": self._y[at], "w": self._w[at], "number": self._number[at]}
        return State({"learned": self._learned}, {**stored(self._rows.take(at)), **arrays})

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged or has other columns.
        """
        integers, numbers = (Saved(kind, ("records",)) for kind in (np.int64, np.float64))
        table = {"y": integers, "w": numbers, "number": integers}
        y, w, number = state.read(table).values()
        self.clear()
        self.learn(loaded(state, y.size, self._rows), y, w)
        self._number[: y.size] = number
        self._learned = state.header["learned"]


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
