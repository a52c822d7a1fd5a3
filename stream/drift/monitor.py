"""Monitors: detectors on quantities of a stream, and the steps at which an alarm acts.

Rule: the result is as if the alarms of a step were found before the next step is executed. When an
alarm acts, the monitors of the model restart, so later values that they have seen have no effect.
Features do not depend on the model, so their values are checked once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats
from stream.data.state import State
from stream.drift.detectors import build
from stream.drift.rule import RESTARTS, WORSE, DriftRule, MonitorRule
from stream.errors import StateError

__all__ = ["RECENTLY", "Alarm", "Monitor", "Monitors", "Series"]

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
