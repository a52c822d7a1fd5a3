"""A service gets on: after the last fault it commits, or comes to an end, in every life."""

from __future__ import annotations

import pytest

from consumers.base.errors import TransportError
from consumers.transports.kafka.inputs import KafkaInputs
from consumers.transports.kafka.owner import KafkaOwner
from tests.simulation.crowd import Crowd
from tests.simulation.weather import LIVELY
from tests.simulation.world import SMALL, World


def waits_for_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An input ends where the log does, also if its last offsets hold no records."""

    def ends(self):
        self._learn_ends()
        return {partition: self._ends[part] for part, partition in self._inputs.items()}

    monkeypatch.setattr(KafkaInputs, "ends", ends)


@pytest.mark.parametrize("kind", [World, Crowd])
def test_service_that_waits_for_what_never_comes_is_found(kind, tmp_path, monkeypatch) -> None:
    """The world spares it, and it does not come to an end."""
    waits_for_markers(monkeypatch)
    world = kind(0, tmp_path, **SMALL)
    world._look = lambda: None  # what it has committed so far
    told = world.run()

    assert told.stuck
    assert f"nothing was committed for {LIVELY:.0f} s after the last fault" in told.stuck[0]


def test_life_that_ends_where_nothing_has_failed_is_found(tmp_path, monkeypatch) -> None:
    """It gets on as little as one that waits."""
    original = KafkaOwner.commit

    def commit(self, records, journal, positions):
        if journal.key == b"3":
            raise TransportError("this one never succeeds")
        return original(self, records, journal, positions)

    monkeypatch.setattr(KafkaOwner, "commit", commit)
    monkeypatch.setattr("tests.simulation.world.LIVES", 5)
    world = World(0, tmp_path, **SMALL)

    with pytest.raises(AssertionError, match="gets nowhere"):
        world.run()

    assert "nothing failed, and a life ended: this one never succeeds" in world.told.stuck
