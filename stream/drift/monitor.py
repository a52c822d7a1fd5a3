"""Monitors: detectors on the quantities of a stream, step by step, and when to act.

Rule: a step's alarms are found before the next step is executed, or as if they were: whatever the
monitors of the model have seen of a later one is void once an alarm acts, for they begin anew then.
What features say does not depend on the model, so they are looked at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Floats
from stream.data.state import State
from stream.drift.detectors import build
from stream.drift.rule import ANEW, WORSE, DriftRule, MonitorRule
from stream.errors import StateError

__all__ = ["RECENTLY", "Alarm", "Monitor", "Monitors", "Series"]

RECENTLY = 1000  # values after an alarm for which drift counts as detected


class Series(NamedTuple):
    """A quantity over a block: the steps that have a value, int64 ascending, and the values."""

    step: NDArray[np.int64]
    value: Floats


class Alarm(NamedTuple):
    """An alarm of one monitor.

    Parameters
    ----------
    at
        The step of the block; in a result, the event.
    monitor
        Its number in the rule.
    before, after
        The mean of what it watches before the change and behind it, as its detector tells them.
    scored
        In a result: how many predictions had been scored by then.
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
        Values passed over at the beginning.

    Attributes
    ----------
    alarms : int
        How many there were.
    since : int
        Values since the last one; -1 before any.
    """

    def __init__(self, rule: MonitorRule, warm_up: int) -> None:
        self.rule = rule
        self.alarms = 0
        self.since = -1
        self._warm_up = warm_up if rule.feature is None else 0
        self.begin()

    def begin(self) -> None:
        """Begin anew; alarms stay counted."""
        self._detector = build(self.rule.type, self.rule.parameters)
        self._rest = self._warm_up

    @property
    def detected(self) -> bool:
        """Whether its last alarm is recent."""
        return 0 <= self.since < RECENTLY

    def look(self, values: Floats) -> int:
        """Take values up to the first alarm; its index, or -1. A fall of an error is none."""
        at = min(self._rest, values.size)
        self._rest -= at
        while (i := self._detector.update_many(values[at:])) >= 0:
            at += i + 1
            if self.rule.on not in WORSE or self._detector.after > self._detector.before:
                return at - 1
        return -1

    def alarm(self, step: int, number: int) -> Alarm:
        """The alarm just found."""
        return Alarm(step, number, self._detector.before, self._detector.after)

    def count(self, steps: NDArray[np.int64], alarms: Sequence[Alarm]) -> None:
        """Values came at these steps, and these alarms of it hold."""
        if alarms:
            self.alarms += len(alarms)
            self.since = int(np.count_nonzero(steps > alarms[-1].at))
        elif self.since >= 0:
            self.since += steps.size

    def to_state(self) -> State:
        """Everything but the rule, as a copy."""
        header = {"alarms": self.alarms, "since": self.since, "rest": self._rest}
        return State.join({"own": State(header), "detector": self._detector.to_state()})

    def load_state(self, state: State) -> None:
        """Become what `to_state` saved. StateError: it is damaged."""
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
        self._ahead: list[Alarm] = []  # of features, in this block

    def begin(self, features: Mapping[str, Series]) -> None:
        """Look at the features over a new block."""
        for number, monitor in enumerate(self.each):
            if monitor.rule.feature is None:
                continue
            series = features[monitor.rule.feature]
            alarms = self._all(number, series, None)
            monitor.count(series.step, alarms)
            self._ahead += alarms

    def look(self, said: Mapping[str, Series], last: int) -> tuple[list[Alarm], int | None]:
        """Look at what the model said since the last look, up to a step at which to act.

        Parameters
        ----------
        said
            error, log_loss and score, as far as they are watched.
        last
            The block's last step.

        Returns
        -------
        list of Alarm
            In the order of their steps.
        int or None
            The step behind which the model begins anew; then the next look begins with the one
            after it. None: there is nothing to do, and the block is done.
        """
        found = list(self._ahead)
        stop = min((a.at for a in found if self._acts(a)), default=last)
        for number, monitor in enumerate(self.each):
            if monitor.rule.feature is None:
                mine = self._all(number, said[monitor.rule.on], stop)
                stop = min((a.at for a in mine if self._acts(a)), default=stop)
                found += mine
        alarms = sorted(a for a in found if a.at <= stop)
        self._ahead = [a for a in self._ahead if a.at > stop]
        acted = any(map(self._acts, alarms))
        for number, monitor in enumerate(self.each):
            if monitor.rule.feature is None:
                steps = said[monitor.rule.on].step
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
        return self.rule.monitors[alarm.monitor].action in ANEW

    def to_state(self) -> State:
        """The monitors, as a copy."""
        return State.join({str(i): monitor.to_state() for i, monitor in enumerate(self.each)})

    def load_state(self, state: State) -> None:
        """Become what `to_state` saved.

        Raises
        ------
        StateError
            It is damaged, or of another rule.
        """
        if len(state.header) != len(self.each):
            raise StateError(
                f"expected the state of {len(self.each)} detectors, got {len(state.header)}"
            )
        for i, monitor in enumerate(self.each):
            monitor.load_state(state.nested(str(i)))
