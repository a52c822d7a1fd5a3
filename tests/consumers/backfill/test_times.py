"""Times that are wrong, late or in the future: history and service together learn what a service
from the beginning learns."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from consumers.backfill.learn import learned
from consumers.base.errors import ConfigError
from consumers.base.records import Outgoing
from tests.consumers.backfill.histories import backfilled, fits, plan
from tests.seed import seeds

T0 = 1_700_000_000_000
MINUTE, DAY = 60_000, 86_400_000
FUTURE = 4_000_000_000_000
HOUR = '[labels]\nhorizon = "1h"\n'


def topics(service, records) -> None:
    """Put (topic, id, time, label or None) into the inputs, in their order."""
    for topic in ("obs", "ans", "svc-predictions", "svc-dead-letters", "svc-journal"):
        service.log.create_topic(topic, 1)
    service.log.append([outgoing(*record) for record in records])


def outgoing(topic: str, id_: str, ts: int, label: object) -> Outgoing:
    """An observation if `label` is None, else a label."""
    value = {"id": id_, "a": len(id_)} if topic == "obs" else {"id": id_, "label": label}
    return Outgoing(topic, id_.encode(), json.dumps(value).encode(), ts, (), 0)


def minutely(n: int, delay: int, start: int = T0):
    """An observation a minute and its label `delay` ms later, in the order of their times."""
    out = [("obs", f"r{i}", start + i * MINUTE, None) for i in range(n)]
    out += [("ans", f"r{i}", start + i * MINUTE + delay, "xy"[i % 2]) for i in range(n)]
    return sorted(out, key=lambda record: record[2])


def both(make_service, records, more: str = "", later=(), **options):
    """What history and service learn together, and what a service from the beginning learns."""
    service, other = make_service("sqlite"), make_service()
    for each in (service, other):
        topics(each, records)
    changes = {"features": ("a",), "more": more}
    found = backfilled(service, **options, **changes)
    for each in (service, other):
        each.log.append([outgoing(*record) for record in later])
    view = service.run(**changes)
    expected = other.run(**changes)
    return found.total("learned") + (view.learned if view else 0), expected.learned


def test_label_after_until_is_late_after_the_horizon(make_service) -> None:
    """Also if it is before --as-of: each label here is 110 minutes late."""
    options = {"until": T0 + 100 * MINUTE, "as_of": T0 + 300 * MINUTE, "size": 10}
    service = make_service("sqlite")
    topics(service, minutely(100, 110 * MINUTE))
    of = plan(service, features=("a",), more=HOUR, **options)

    assert learned(of, fits(of)).total("learned") == 0


@pytest.mark.parametrize("kind", ["obs", "ans"])
@pytest.mark.parametrize("until", [None, T0 + 300 * MINUTE, "now"])
def test_one_timestamp_of_the_future_loses_nothing(make_service, kind, until) -> None:
    """It neither ends the history nor moves its clock."""
    until = int(time.time() * 1000) if until == "now" else until
    records = minutely(400, 5)
    records.insert(20, (kind, "future", FUTURE, None if kind == "obs" else "x"))
    mine, expected = both(make_service, records, until=until, size=100)

    assert mine == expected == 400


@pytest.mark.parametrize("ts", [0, FUTURE])
def test_waiting_observation_with_a_wrong_time_does_not_expire_others(make_service, ts) -> None:
    """The last 50 labels come after the history."""
    records = minutely(200, 5)
    later = [r for r in records if r[0] == "ans" and int(r[1][1:]) >= 150]
    before = [r for r in records if r not in later]
    before.insert(310, ("obs", "wrong", ts, None))
    mine, expected = both(make_service, before, later=later, size=60)

    assert mine == expected == 200


@pytest.mark.parametrize("as_of", [100, 120, 150, 170])
def test_labels_between_as_of_and_until_are_learned_by_the_service(make_service, as_of) -> None:
    """Each comes 50 minutes after its observation, which waits for at most an hour."""
    records = minutely(200, 50 * MINUTE)
    options = {"until": T0 + 150 * MINUTE, "as_of": T0 + as_of * MINUTE, "size": 40}
    mine, expected = both(make_service, records, HOUR, **options)

    assert mine == expected == 200


@pytest.mark.parametrize("days", [6, 30])
def test_labels_far_after_until_wait_for_their_observations(make_service, days) -> None:
    """The history has labels of many days after its last observation."""
    records = []
    for i in range(600):
        at = T0 + i * DAY // 12
        records += [("obs", f"r{i}", at, None), ("ans", f"r{i}", at + MINUTE, "xy"[i % 2])]
    options = {"until": T0 + 20 * DAY, "as_of": T0 + (20 + days) * DAY, "size": 90}
    mine, expected = both(make_service, records, **options)

    assert mine == expected == 600


@pytest.mark.parametrize("future", [False, True])
def test_what_waits_depends_on_the_records_and_not_on_the_clock(make_service, future) -> None:
    """The records are years old, and --until may be in the future."""
    until = int(time.time() * 1000) + 20 * DAY if future else None
    records = minutely(200, 5)
    later = [r for r in records if r[0] == "ans" and int(r[1][1:]) >= 150]
    before = [r for r in records if r not in later]
    mine, expected = both(make_service, before, later=later, until=until, size=60)

    assert mine == expected == 200


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_observation_without_a_time_has_that_of_its_partition(make_service, size) -> None:
    """Every fifth has 0, as some producers write it."""
    records = []
    for i in range(50):
        at = T0 + i * DAY
        records += [("obs", f"r{i}", at if i % 5 else 0, None), ("ans", f"r{i}", at + 5, "x")]
    mine, expected = both(make_service, records, size=size)

    assert mine == expected


@seeds(0.02)
def test_any_cut_learns_what_a_service_learns(own_services, seed) -> None:
    """Delays around the horizon, repeated labels, gaps of hours, and any two cuts."""
    with own_services() as make_service:
        rng = np.random.default_rng(seed)
        records, at = [], T0
        for i in range(150):
            at += int(rng.choice([1000, 20_000, 3 * MINUTE, 90 * MINUTE], p=[0.5, 0.3, 0.19, 0.01]))
            records.append(("obs", f"r{i}", at, None))
            for _ in range(int(rng.choice([0, 1, 2], p=[0.1, 0.8, 0.1]))):
                delay = int(rng.choice([-2 * MINUTE, 1000, 30 * MINUTE, 59 * MINUTE, 70 * MINUTE]))
                records.append(("ans", f"r{i}", at + delay, "xy"[i % 2]))
        records.sort(key=lambda record: record[2])
        until, as_of = (int(rng.integers(T0 + 10 * MINUTE, at)) for _ in range(2))
        options = {"until": until, "as_of": as_of, "size": int(rng.integers(5, 100))}
        mine, expected = both(make_service, records, HOUR, **options)

        assert mine == expected


def test_what_waits_is_bounded_and_the_rest_is_counted(make_service) -> None:
    """The newest ones wait, as in the join of a service."""
    service = make_service("sqlite")
    topics(service, [r for r in minutely(100, 5) if r[0] == "obs" or r[1] == "r0"])
    more = "[labels]\nmax_pending = 10\n"
    found = backfilled(service, size=30, features=("a",), more=more)
    service.log.append([outgoing("ans", f"r{i}", T0 + DAY, "y") for i in range(100)])
    view = service.run(features=("a",), more=more)

    assert (found.waiting, found.evicted) == (10, 89)
    assert view.learned == 10


def test_odd_first_label_is_a_dead_letter(make_service) -> None:
    """The most common label of the first records decides the kind."""
    service = make_service("sqlite")
    topics(service, [("obs", "odd", T0, None), ("ans", "odd", T0, 7), *minutely(100, 5)])
    found = backfilled(service, until=T0 + 50 * MINUTE, size=20, features=("a",))

    assert found.total("learned") == 50
    assert found.splits[0].dead_letters == {"label_kind": 1}


def test_too_many_classes_together_are_refused(make_service) -> None:
    """Each split has few of them."""
    service = make_service("sqlite")
    records = [(t, i, ts, y and f"c{ts // MINUTE % 15}") for t, i, ts, y in minutely(60, 5)]
    topics(service, records)
    model = 'type = "GaussianNB"\nmax_classes = 10'
    of = plan(service, features=("a",), model=model, size=6)

    with pytest.raises(ConfigError, match=r"has 15 classes, and \[model\] allows 10"):
        learned(of, fits(of))
