"""Drift as the service tells it: what is watched, and alarms by topic, offset and time. Pure."""

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
from stream.drift.monitor import Alarm
from stream.errors import SchemaError
from stream.evaluate.progressive import Progressive

__all__ = ["DriftAlarms"]


class DriftAlarms:
    """What a machine watches for, and its last alarms.

    Parameters
    ----------
    machine
        What raises them.
    """

    def __init__(self, machine: Progressive) -> None:
        self._machine = machine
        self._last: deque[DriftAlarm] = deque(maxlen=LATEST)

    @property
    def rule(self) -> DriftRule:
        """What is watched."""
        drift = self._machine.drift
        return DriftRule() if drift is None else drift.rule

    def watch(self, rule: Mapping[str, Any]) -> None:
        """Watch by this rule, as journaled; what another one has seen is dropped.

        Raises
        ------
        TransportError
            It was journaled by a version that knows more.
        """
        try:
            self._machine.watch(DriftRule.from_json(rule))
        except (SchemaError, TypeError, KeyError) as error:
            raise TransportError(
                f"the journal tells to watch for drift in a way this version does not know "
                f"({error}); run the version that wrote it"
            ) from None
        self._last.clear()

    def features(self, rows: Rows) -> dict[str, Floats]:
        """The values of each feature that is watched, a row each."""
        names = rows.numeric_names
        return {name: rows.numeric[:, names.index(name)] for name in self.rule.features}

    def tell(
        self, alarms: Sequence[Alarm], batch: Batch, at: Sequence[int], times: Sequence[int]
    ) -> list[DriftAlarm]:
        """The alarms of a batch, each at its record.

        Parameters
        ----------
        at
            Index in the batch of each event.
        times
            Stream time at each event.
        """
        told = []
        for alarm in alarms:
            monitor, i = self.rule.monitors[alarm.monitor], at[alarm.at]
            told.append(
                DriftAlarm(
                    monitor.type,
                    monitor.on,
                    monitor.action,
                    alarm.before,
                    alarm.after,
                    times[alarm.at],
                    alarm.scored,
                    *batch.place(i),
                )
            )
        self._last.extend(told)
        return told

    def view(self, model: str) -> DriftView | None:
        """A frozen copy, of a model of this name; None where nothing is watched."""
        drift = self._machine.drift
        if drift is None:
            return None
        monitors = tuple(
            MonitorView(m.rule.type, m.rule.on, m.alarms, m.detected) for m in drift.monitors.each
        )
        return DriftView(model, monitors, dict(drift.actions), tuple(self._last), drift.rule.keep)

    def to_state(self) -> dict[str, State]:
        """What is watched, as a copy, and the last alarms; nothing where nothing is watched."""
        if self._machine.drift is None:
            return {}
        told = [[*alarm[:-2], *alarm.partition, alarm.offset] for alarm in self._last]
        watch = self._machine.drift.to_state()
        return {"drift": State.join({"watch": watch, "alarms": State({"last": told})})}

    def load_state(self, state: State) -> None:
        """Become what `to_state` made a part of this."""
        self.watch({})
        if "drift" not in state.header:
            return
        drift = state.nested("drift")
        self._machine.load_drift(drift.nested("watch"))
        for told in drift.nested("alarms").header["last"]:
            *what, topic, number, offset = told
            self._last.append(DriftAlarm._make([*what, Partition(topic, number), offset]))
