"""Drift detection of a shard: what is monitored, and alarms with record and time. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from consumers.base.errors import TransportError
from consumers.base.records import Batch, Partition
from consumers.shard.views import LATEST, DriftAlarm, DriftView, MonitorView
from stream.data.block import Floats, Rows
from stream.data.state import State
from stream.drift import DriftRule
from stream.drift.watch import Alarm
from stream.errors import SchemaError
from stream.evaluate.progressive import Progressive
from stream.join.events import Integers

__all__ = ["DriftAlarms"]

UNWATCHED = DriftRule()


class DriftAlarms:
    """What a machine monitors, and its last alarms.

    Parameters
    ----------
    machine
        The progressive validation that raises the alarms.
    """

    def __init__(self, machine: Progressive) -> None:
        self._machine = machine
        self._last: deque[DriftAlarm] = deque(maxlen=LATEST)

    @property
    def rule(self) -> DriftRule:
        """What is monitored."""
        drift = self._machine.drift
        return UNWATCHED if drift is None else drift.rule

    def change(self, rule: DriftRule) -> dict[str, Any] | None:
        """The rule to journal, so that it is watched; None if it is already."""
        return None if self.rule == rule else rule.to_json()

    def watch(self, rule: Mapping[str, Any]) -> None:
        """Monitor by this journaled rule. A new rule starts with empty detectors.

        Raises
        ------
        TransportError
            A newer version journaled it.
        """
        try:
            self._machine.watch(DriftRule.from_json(rule))
        except (SchemaError, TypeError, KeyError) as error:
            raise TransportError(
                f"the journaled [drift] rule is not supported by this version ({error}); "
                "run the version that wrote it"
            ) from None
        self._last.clear()

    def features(self, rows: Rows) -> dict[str, Floats]:
        """The values of each monitored feature, one per row."""
        if self._machine.drift is None:
            return {}
        names = rows.numeric_names
        return {name: rows.numeric[:, names.index(name)] for name in self.rule.features}

    def locate(
        self, alarms: Sequence[Alarm], batch: Batch, at: Sequence[int], times: Integers
    ) -> list[DriftAlarm]:
        """The alarms of a batch, each with the record that caused it.

        Parameters
        ----------
        at
            Index in the batch of each event.
        times
            Stream time at each event.
        """
        located = []
        for alarm in alarms:
            monitor, i = self.rule.monitors[alarm.monitor], at[alarm.at]
            located.append(
                DriftAlarm(
                    monitor.type,
                    monitor.on,
                    monitor.action,
                    alarm.before,
                    alarm.after,
                    int(times[alarm.at]),
                    alarm.scored,
                    *batch.place(i),
                )
            )
        self._last.extend(located)
        return located

    def view(self, model: str) -> DriftView | None:
        """A frozen copy, for a model of this name. None if nothing is monitored."""
        drift = self._machine.drift
        if drift is None:
            return None
        monitors = tuple(
            MonitorView(m.rule.type, m.rule.on, m.alarms, m.detected) for m in drift.monitors.each
        )
        return DriftView(model, monitors, dict(drift.actions), tuple(self._last), drift.rule.keep)

    def to_state(self) -> dict[str, State]:
        """A copy of the detectors and the last alarms. Empty if nothing is monitored."""
        if self._machine.drift is None:
            return {}
        last = [[*alarm[:-2], *alarm.partition, alarm.offset] for alarm in self._last]
        watch = self._machine.drift.to_state()
        return {"drift": State.join({"watch": watch, "alarms": State({"last": last})})}

    def load_state(self, state: State) -> None:
        """Load what `to_state` returned, from the state of the whole shard."""
        self.watch({})
        if "drift" not in state.header:
            return
        drift = state.nested("drift")
        self._machine.load_drift(drift.nested("watch"))
        for alarm in drift.nested("alarms").header["last"]:
            *what, topic, number, offset = alarm
            self._last.append(DriftAlarm._make([*what, Partition(topic, number), offset]))
