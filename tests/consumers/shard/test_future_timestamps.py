"""A timestamp after the commit's clock goes no further than the value of what it came with."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from consumers.base.records import Outgoing, Partition
from consumers.shard.views import Committed
from consumers.telemetry.event_logger import EventLogger
from tests.consumers.feeds import NOW, batch, fill, phishing, seen, shard
from tests.consumers.service.test_at_least_once import Dying, run
from tests.telemetry.test_event_logger import view

HOUR = 3_600_000


@given(
    st.lists(st.tuples(st.integers(-HOUR, 4 * HOUR), st.booleans()), min_size=1, max_size=12),
    st.integers(0, 2 * HOUR),
    st.booleans(),
)
def test_only_the_records_timestamp_is_clamped_and_each_is_counted(rows, clock, events) -> None:
    """Predictions and dead letters: at most the clock; key, value, headers and place as without."""
    records = [
        seen(str(i), i, ts=NOW + ahead, **({"a": 1.0} if good else {"a": "x"}))
        for i, (ahead, good) in enumerate(rows)
    ]
    now = NOW + clock
    outcome = shard(cloudevents=events).process(batch(records), now)  # events: one by one
    free = replace(outcome, now=1 << 62)
    said = [*outcome.predictions(), *outcome.dead_letters()]
    unclamped = [*free.predictions(), *free.dead_letters()]
    late = sorted((Partition("obs", 0), r.offset, r.timestamp - now) for r in records)

    assert [r.timestamp for r in said] == [min(r.timestamp, now) for r in unclamped]
    assert [r._replace(timestamp=None) for r in said] == [
        r._replace(timestamp=None) for r in unclamped
    ]
    assert sorted(outcome.ahead()) == [found for found in late if found[2] > 0]
    for prediction in outcome.predictions():
        value = json.loads(prediction.value)
        assert value["ts"] == records[value["position"]["offset"]].timestamp


def test_what_is_said_again_carries_the_clock_of_its_entry(make_service) -> None:
    """Recovery repeats an entry later: the repeat is the same record, its timestamp included."""
    service = make_service("memory")
    fill(service.log, phishing(120))
    far = 1 << 50  # beyond any clock
    poison = [
        Outgoing("obs", None, b'{"id": "far"}', far, partition=0),
        Outgoing("obs", None, b"not a record", far, partition=0),
    ]
    service.log.append(poison)
    run(service, Dying(service.log, 3, 1.0))
    outputs = [Partition(t, n) for t, n in (("svc-predictions", 0), ("svc-dead-letters", 0))]
    times = defaultdict(list)
    starts, ends = service.log.beginning_offsets(outputs), service.log.end_offsets(outputs)
    for chunk in service.log.read(starts, ends):
        for key, value, at in zip(chunk.keys, chunk.values, chunk.timestamps, strict=True):
            times[chunk.partition.topic, key, value].append(at)

    repeated = [found for found in times.values() if len(found) > 1]
    assert repeated
    assert all(len(set(found)) == 1 for found in times.values())
    assert max(at for found in times.values() for at in found) < far


def test_a_timestamp_far_ahead_is_reported_with_its_place_once_a_minute(caplog) -> None:
    """Not one within the minute that any clock may be off."""
    caplog.set_level(logging.WARNING, logger="headwater")
    now = [0.0]
    event_logger = EventLogger(lambda: now[0])
    done = Committed(1, 1, 0, {}, {}, 0.1, 3, ahead=1)
    near = replace(done, furthest=(Partition("obs", 1), 7, 59_000))
    far = replace(done, furthest=(Partition("obs", 0), 5, 3 * HOUR))

    for event in (near, far, far):
        event_logger.committed(event, view(dead_letters={}, labels={}))

    assert [line for line in caplog.messages if "timestamp" in line] == [
        "obs[0] offset 5 has a timestamp 10800 s after the clock of its commit; its output has "
        "that clock instead; correct the clock of its producer"
    ]
