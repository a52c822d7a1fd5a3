"""A service over messages with many rows: each row is a record, and a message is never cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from consumers.base.errors import ConfigError, TransportError
from consumers.base.records import Outgoing, Partition
from consumers.codecs.arrow.messages import documents, message_of
from consumers.service.recovery import sources
from consumers.snapshots.store import open_store
from consumers.timetravel.audit import audit
from tests.consumers.arrow_tables import ArrowService, fill, in_messages
from tests.consumers.conftest import Service
from tests.consumers.feeds import NOW, phishing
from tests.consumers.service.test_runner import Flaky
from tests.consumers.timetravel.test_relearn import NEW, cut_to, learned
from tests.seed import seeds

pa = pytest.importorskip("pyarrow")

RECORDS = phishing(300)
DEAD = Partition("svc-dead-letters", 0)
SIZES = (7, 1, 40, 0, 13, 3)
MESSAGES = in_messages(RECORDS, SIZES)
PLACES = [(k, i) for k, message in enumerate(MESSAGES) for i in range(len(message))]


@contextmanager
def making(parent: Path) -> Iterator[Callable[..., Service]]:
    """Make services on logs of their own."""
    services: list[Service] = []

    def make(kind: type[Service] = ArrowService) -> Service:
        directory = parent / str(len(services))
        directory.mkdir()
        services.append(kind(f"memory:{uuid4()}", directory))
        return services[-1]

    yield make
    for service in services:
        service.log.close()


@pytest.fixture
def made(tmp_path):
    """Make a service on a log of its own."""
    with making(tmp_path) as make:
        yield make


def predicted(service: Service) -> list[dict[str, Any]]:
    """The predictions, in order."""
    return [json.loads(value or b"") for _, _, value in service.predictions()]


def places(service: Service) -> list[tuple[int, int]]:
    """Offset and index of each prediction."""
    return [(p["position"]["offset"], p["position"]["index"]) for p in predicted(service)]


def letters(service: Service) -> list[tuple[dict[str, str], bytes]]:
    """Headers and value of each dead letter."""
    out = []
    for record in service.log.follow({DEAD: 0}, poll_seconds=0.01):
        headers = {name: value.decode() for name, value in record.headers}
        out.append((headers, record.value or b""))
        if record.offset == service.ends("svc-dead-letters")[0] - 1:
            break
    return out


def without_index(predictions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The predictions without their positions."""
    return [{**each, "position": None} for each in predictions]


def test_rows_are_predicted_as_records_of_their_own(made) -> None:
    """With the same timestamps, the same predictions and scores as JSON records."""
    rows, alone = made(), made(Service)
    fill(rows.log, MESSAGES, RECORDS)
    fill(alone.log, MESSAGES, RECORDS, alone=True)
    view, expected = rows.run(), alone.run(max_records=17)

    assert places(rows) == PLACES
    assert without_index(predicted(rows)) == without_index(predicted(alone))
    assert view.quality.scores == expected.quality.scores
    assert (
        (view.observations, view.learned) == (expected.observations, expected.learned) == (300, 300)
    )


@seeds(0.01)
def test_stops_and_deaths_anywhere_write_each_row_once(tmp_path_factory, seed) -> None:
    """Commits, snapshots, lost and repeated commits at random: the same predictions and state."""
    with making(tmp_path_factory.mktemp("services")) as made:
        random, whole, cut = Random(seed), made(), made()
        partitions = random.choice([1, 2])
        for service in (whole, cut):
            fill(service.log, MESSAGES, RECORDS, partitions=partitions)
        whole.run(max_records=300)
        for _ in range(12):
            log = Flaky(cut.log, "commit", random.randint(1, 4), after=random.random() < 0.5)
            sizes = {
                "max_records": random.randint(40, 90),
                "every_records": random.choice([30, 10**6]),
            }
            with suppress(TransportError):  # the last one before a stop
                cut.run(log, stop_after=random.randint(1, 3), **sizes)
        cut.run(max_records=60)

        assert sorted(cut.predictions()) == sorted(whole.predictions())
        assert len(cut.entries()) > len(whole.entries()) > 1
        rebuilt = cut.rebuilt(), whole.rebuilt()
        assert rebuilt[0].shard.fingerprint() == rebuilt[1].shard.fingerprint()


def test_commit_counts_rows_and_cuts_no_message(made) -> None:
    """At most `max_records` rows and labels, and a message of as many rows alone."""
    service = made()
    fill(service.log, in_messages(RECORDS, (40, 10, 25)), RECORDS)
    service.run(max_records=50)

    sizes = [
        e.predictions + sum(r.count for r in e.ranges if r.topic == "ans")
        for e in service.entries()
    ]
    assert sum(e.predictions for e in service.entries()) == 300
    assert max(sizes) <= 50
    assert {e.max_rows for e in service.entries()} == {50}


def test_bad_row_is_a_dead_letter_of_its_own(made) -> None:
    """With its index, as a message that can be written again; the other rows go on."""
    service = made()
    rows = [
        {"id": "a", "a": 1.0},
        {"id": "b", "a": float("inf")},
        {"id": None, "a": 2.0},
        {"id": "d"},
    ]
    messages = [message_of(rows), b"garbage", message_of([{"a": 1.0}]), message_of(rows[:1] * 9)]
    write(service, messages)
    view = service.run(features=("a",), max_records=8)

    assert [p["id"] for p in predicted(service)] == ["a", "d"]
    found = [(h["reason"], h["offset"], h.get("index")) for h, _ in letters(service)]
    assert found == [
        ("infinite", "0", "1"),
        ("no_id", "0", "2"),
        ("unparsable", "1", None),
        ("no_id", "2", None),
        ("oversize", "3", None),
    ]
    values = [value for _, value in letters(service)]
    assert documents(values[0], 9) == [rows[1]]
    assert values[2:] == messages[1:]
    assert "9 rows, at most 8 ([commit] max_records)" in letters(service)[4][0]["detail"]
    assert (view.observations, sum(view.dead_letters.values())) == (7, 5)

    write(service, [values[0]])
    service.run(features=("a",), max_records=8)
    assert [(h["reason"], h["offset"], h["index"]) for h, _ in letters(service)[5:]] == [
        ("infinite", "4", "0")
    ]


def test_replay_keeps_the_limit_of_its_time(made) -> None:
    """A message that was too large stays a dead letter when `max_records` has grown since."""
    service = made()
    fill(service.log, in_messages(RECORDS, (9, 30)), RECORDS)
    service.run(max_records=20, stop_after=3)
    service.run(max_records=80)

    before, after = (
        {e.max_rows for e in part} for part in (service.entries()[:3], service.entries()[3:])
    )
    assert (before, after) == ({20}, {80})
    shards = [service.rebuilt(max_records=size).shard for size in (1, 500)]
    assert shards[0].fingerprint() == shards[1].fingerprint()
    assert 0 < shards[0].view().dead_letters["oversize"] < 8


def test_every_row_can_be_audited(made) -> None:
    """By its place with the index, and by its id: the same bytes."""
    service = made()
    fill(service.log, MESSAGES, RECORDS)
    service.run()
    config = service.config()
    found, store = sources(config, service.log), open_store(config)
    for what in ("obs:0:2:39", "47", "obs:0:0:0"):
        again = audit(config, service.log, found, store, what)
        assert again.same, what
    with pytest.raises(
        ConfigError, match=r"obs\[0\] offset 0 row 7 was consumed and not predicted"
    ):
        audit(config, service.log, found, store, "obs:0:0:7")


def test_messages_without_rows_are_consumed(made) -> None:
    """They predict nothing and are no dead letters, at any place of a commit."""
    service = made()
    empty = message_of([])
    rows = [message_of([{"id": str(i), "a": 1.0}]) for i in range(3)]
    write(service, [empty, empty])
    service.run(features=("a",))
    write(service, [empty, rows[0], empty, *rows[1:], empty])
    view = service.run(features=("a",))

    assert (view.observations, view.records, sum(view.dead_letters.values())) == (3, 3, 0)
    assert service.rebuilt(features=("a",)).shard.positions[Partition("obs", 0)] == 8


def test_silence_is_journaled_by_row(made) -> None:
    """The bits of a commit are those of its rows, and a replay takes them."""
    more = '[labels]\ncorrections = true\nsilence = false\nafter = "15s"\n'
    service = made()
    fill(service.log, MESSAGES, RECORDS)
    service.run(more=more, stop_after=4)
    view = service.run(more=more)

    assert view.labels["silence"]
    assert any(e.against for e in service.entries())
    assert service.rebuilt(more=more).shard.view().labels == view.labels


def test_history_has_whole_messages(made) -> None:
    """A rollback removes them, and relearning reads them again, as those of a fresh service."""
    service, fresh, cut = made(), made(), made()
    for each in (service, fresh, cut):
        fill(each.log, MESSAGES, RECORDS)
    service.run(max_records=60)
    cut.run(max_records=60)
    fresh.run(max_records=45, model=NEW)
    before = predicted(service)
    learned(service, model=NEW)

    assert predicted(service) == before
    changed = service.rebuilt(model=NEW).shard
    assert changed.fingerprint() == fresh.rebuilt(model=NEW).shard.fingerprint()
    middle = 1 + len(cut.entries()) // 2
    then = cut.rebuilt(middle).shard.view()
    cut_to(cut, middle)
    now = cut.rebuilt().shard.view()
    assert (now.observations, now.learned) == (then.observations, then.learned)
    assert now.positions[Partition("obs", 0)] == len(MESSAGES)


def write(service: Service, values: list[bytes]) -> None:
    """Append messages; the topics are made if they are missing."""
    for topic in ("obs", "ans", "svc-predictions", "svc-dead-letters", "svc-journal"):
        if topic not in service.log.topics():
            service.log.create_topic(topic, 1)
    start = service.ends("obs")[0]
    service.log.append(
        [Outgoing("obs", b"key", value, NOW + start + i, (), 0) for i, value in enumerate(values)]
    )
