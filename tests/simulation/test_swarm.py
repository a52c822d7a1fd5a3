"""Features on and off at random, and faults likewise: no promise is broken."""

from __future__ import annotations

from collections import Counter

from tests.seed import seeds
from tests.simulation.swarm import FEATURES, found, swarm
from tests.simulation.weather import STORMY


@seeds(0.1)
def test_features_at_random_break_no_promise_among_faults_at_random(seed, tmp_path_factory) -> None:
    """What is predicted is what the same features predict without faults."""
    result = found(seed, tmp_path_factory.mktemp("world"))

    assert result is None or result[0] == []


def test_every_feature_and_fault_is_on_and_off() -> None:
    """Each in a share of the seeds that finds what two of them do to each other."""
    drawn = [swarm(seed) for seed in range(1000)]
    on = Counter(name for each in drawn for name in each.on)
    faults = Counter(name for each in drawn for name in each.chances)

    assert set(on) == set(FEATURES)
    assert min(on.values()) > 25
    assert set(faults) == set(STORMY)
    assert all(300 < count < 700 for name, count in faults.items() if name != "succeeded")


def test_most_configurations_are_taken(tmp_path) -> None:
    """One that a service refuses shows nothing."""
    results = [found(seed, tmp_path / str(seed)) for seed in range(4)]

    assert sum(result is not None for result in results) > 2
