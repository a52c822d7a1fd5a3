"""Watch a stream for drift, and restart the model if an alarm requires it.

`forget` and `reset` both drop the learned model. Not every learner can reduce the weight of what it
has learned (a tree of river or a window of neighbours cannot). But any learner can restart and
learn the last records again, which are kept here. This is exact, bounded by `keep`, and the same
for all learners.

Monitors: detectors on quantities of a stream, and the steps at which an alarm acts.

Rule: the result is as if the alarms of a step were found before the next step is executed. When an
alarm acts, the monitors of the model restart, so later values that they have seen have no effect.
Features do not depend on the model, so their values are checked once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, Block, Floats, Rows
from stream.data.row_store import loaded, stored
from stream.data.schema import Label
from stream.data.state import Saved, State
from stream.drift.detectors import build
from stream.drift.rule import RESTARTS, WORSE, Action, DriftRule, MonitorRule
from stream.errors import StateError
from stream.learner.base import Learner

__all__ = ["Alarm", "DriftWatch", "Monitor", "Recent", "Series"]

RECENTLY = 1000  # number of values after an alarm during which drift counts as detected


class Series(NamedTuple):
    """A quantity over a block: the steps that have a value, rising int64, and the values."""

    step: NDArray[np.int64]
    value: Floats


class Alarm(NamedTuple):
    """An alarm of one monitor.

    Parameters
    ----------
    at
        The step of the block; in a result, the event.
    monitor
        The number of the monitor in the rule.
    before, after
        The mean of the quantity before and after the change, as reported by the detector.
    scored
        In a result: the number of predictions scored by then.
    """

    at: int
    monitor: int
    before: float
    after: float
    scored: int = 0


class Monitor:
    """A detector on one quantity.

    Parameters
    ----------
    rule
        Which.
    warm_up
        Number of values skipped at the start.

    Attributes
    ----------
    alarms : int
        Number of alarms.
    since : int
        Number of values since the last alarm; -1 before the first one.
    """

    def __init__(self, rule: MonitorRule, warm_up: int) -> None:
        self.rule = rule
        self.alarms = 0
        self.since = -1
        self._warm_up = warm_up if rule.feature is None else 0
        self.begin()

    def begin(self) -> None:
        """Restart the detector. Counts of alarms do not change."""
        self._detector = build(self.rule.type, self.rule.parameters)
        self._rest = self._warm_up

    @property
    def detected(self) -> bool:
        """Whether its last alarm is recent."""
        return 0 <= self.since < RECENTLY

    def look(self, values: Floats) -> int:
        """Add values up to the first alarm. Returns its index, or -1. A decrease of an error is not
        an alarm."""
        at = min(self._rest, values.size)
        self._rest -= at
        while (i := self._detector.update_many(values[at:])) >= 0:
            at += i + 1
            if self.rule.on not in WORSE or self._detector.after > self._detector.before:
                return at - 1
        return -1

    def alarm(self, step: int, number: int) -> Alarm:
        """The alarm that `look` has just found."""
        return Alarm(step, number, self._detector.before, self._detector.after)

    def count(self, steps: NDArray[np.int64], alarms: Sequence[Alarm]) -> None:
        """Count the values at these steps, and the alarms that took effect."""
        if alarms:
            self.alarms += len(alarms)
            self.since = int(np.count_nonzero(steps > alarms[-1].at))
        elif self.since >= 0:
            self.since += steps.size

    def to_state(self) -> State:
        """A copy of everything except the rule."""
        header = {"alarms": self.alarms, "since": self.since, "rest": self._rest}
        return State.join({"own": State(header), "detector": self._detector.to_state()})

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved. StateError: the state is damaged."""
        own = state.nested("own").header
        self.alarms, self.since, self._rest = own["alarms"], own["since"], own["rest"]
        self._detector.load_state(state.nested("detector"))


class Monitors:
    """All monitors of a rule, over the steps of blocks.

    Examples
    --------
    >>> rule = DriftRule((MonitorRule("error", "DDM", {}, "reset"),), warm_up=0)
    >>> monitors = Monitors(rule)
    >>> errors = Series(np.arange(300), np.repeat([0.0, 0.0, 0.0, 1.0, 1.0, 1.0], 50))
    >>> monitors.begin({})
    >>> alarms, stop = monitors.look({"error": errors}, last=299)
    >>> [alarm.at for alarm in alarms], stop
    ([150], 150)
    """

    def __init__(self, rule: DriftRule) -> None:
        self.rule = rule
        self.each = [Monitor(monitor, rule.warm_up) for monitor in rule.monitors]
        self._ahead: list[Alarm] = []  # alarms of features in this block

    def begin(self, features: Mapping[str, Series]) -> None:
        """Check the features of a new block."""
        for number, monitor in enumerate(self.each):
            if monitor.rule.feature is None:
                continue
            series = features[monitor.rule.feature]
            alarms = self._all(number, series, None)
            monitor.count(series.step, alarms)
            self._ahead += alarms

    def look(self, series: Mapping[str, Series], last: int) -> tuple[list[Alarm], int | None]:
        """Check the quantities of the model since the last call, up to a step at which an alarm
        acts.

        Parameters
        ----------
        series
            The series error, log_loss and score, if they are watched.
        last
            The last step of the block.

        Returns
        -------
        list of Alarm
            In the order of their steps.
        int or None
            The step after which the model restarts. The next call continues with the step after it.
            None: the block is complete.
        """
        found = list(self._ahead)
        stop = min((a.at for a in found if self._acts(a)), default=last)
        for number, monitor in enumerate(self.each):
            if monitor.rule.feature is None:
                mine = self._all(number, series[monitor.rule.on], stop)
                stop = min((a.at for a in mine if self._acts(a)), default=stop)
                found += mine
        alarms = sorted(a for a in found if a.at <= stop)
        self._ahead = [a for a in self._ahead if a.at > stop]
        acted = any(map(self._acts, alarms))
        for number, monitor in enumerate(self.each):
            if monitor.rule.feature is None:
                steps = series[monitor.rule.on].step
                of_it = [a for a in alarms if a.monitor == number]
                monitor.count(steps[steps <= stop], of_it)
                if acted:
                    monitor.begin()
        return alarms, stop if acted else None

    def _all(self, number: int, series: Series, stop: int | None) -> list[Alarm]:
        """The alarms of one monitor up to a step, or up to the first that acts."""
        monitor, found, at = self.each[number], list[Alarm](), 0
        end = series.step.size
        if stop is not None:
            end = int(np.searchsorted(series.step, stop, side="right"))
        while (i := monitor.look(series.value[at:end])) >= 0:
            at += i + 1
            found.append(monitor.alarm(int(series.step[at - 1]), number))
            if stop is not None and self._acts(found[-1]):
                break
        return found

    def _acts(self, alarm: Alarm) -> bool:
        return self.rule.monitors[alarm.monitor].action in RESTARTS

    def to_state(self) -> State:
        """A copy of the monitors."""
        return State.join({str(i): monitor.to_state() for i, monitor in enumerate(self.each)})

    def load_state(self, state: State) -> None:
        """Load what `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged or belongs to another rule.
        """
        if len(state.header) != len(self.each):
            raise StateError(
                f"expected the state of {len(self.each)} detectors, got {len(state.header)}"
            )
        for i, monitor in enumerate(self.each):
            monitor.load_state(state.nested(str(i)))


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
