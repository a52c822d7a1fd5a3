"""How late labels come, beside a join by hand."""

from __future__ import annotations

import random

import pytest

from consumers.offline.lateness import DAY_MS, lateness


@pytest.mark.parametrize("seed", range(30))
def test_horizon_covers_every_delay_and_the_room_every_observation_that_waits(seed) -> None:
    """Counted one by one: no label of the sample would be late, and no observation evicted."""
    rng = random.Random(seed)
    gap, longest = rng.choice([1, 1000, 60_000]), rng.choice([10, 10**6, 40 * DAY_MS])
    times = [gap * i for i in range(500)]
    labels = [
        (str(i), times[i] + rng.randrange(-5, longest)) for i in range(500) if rng.random() < 0.8
    ]
    rng.shuffle(labels)
    found = lateness([(str(i), time) for i, time in enumerate(times)], labels)

    horizon, room = found.horizon(7 * DAY_MS), found.pending(10)
    waits = [max(0, at - times[int(id_)]) for id_, at in labels]
    assert sorted(waits) == list(found.delays)
    assert max(waits) <= horizon
    assert found.after(max(waits)) == 0
    most = max(sum(t <= t2 <= t + max(waits) for t2 in times) for t in times)
    assert room >= most - 1
