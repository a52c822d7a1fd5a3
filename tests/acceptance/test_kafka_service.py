"""The service on a real broker: every prediction once, scores as river's, whatever kills it."""

from __future__ import annotations

import json
import re
import socket
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kafka import KafkaConsumer, TopicPartition
from river import evaluate, metrics

from consumers.config import load
from consumers.records import Outgoing
from consumers.recovery import rebuild, sources
from consumers.snapshots.store import SnapshotStore
from consumers.transports import open_log
from stream import GaussianNB
from tests.acceptance.kafka_feed import (
    DELAY,
    Feed,
    Stream,
    committed,
    configure,
    elec2,
    fill,
    outgoing,
    stored,
)
from tests.acceptance.service import Service, headwater

MIB = 2**20
Made = Callable[..., Path]


@pytest.fixture(scope="module")
def stream() -> Stream:
    """The records."""
    return elec2()


@pytest.fixture(scope="module")
def rivers_accuracy(stream: Stream) -> float:
    """River's own loop with our learner."""
    accuracy = metrics.Accuracy()
    evaluate.progressive_val_score(stream, GaussianNB(), accuracy, delay=DELAY)
    return accuracy.get()


@pytest.fixture(scope="module")
def feed(kafka_bootstrap: str, stream: Stream) -> Feed:
    """All of it on the broker, one partition a topic."""
    return fill(kafka_bootstrap, stream, 1)


@pytest.fixture
def name() -> str:
    """A service nobody else runs: a broker outlives the test."""
    return f"service-{uuid4().hex[:8]}"


@pytest.fixture
def made(tmp_path: Path, name: str) -> Made:
    """Write a configuration for a feed and make the topics that are missing, as a user does."""

    def configured(feed: Feed, **settings: int) -> Path:
        path = configure(tmp_path, feed, name, **settings)
        created = headwater("check", path, "--create")
        assert created.returncode == 0, created.stdout + created.stderr
        return path

    return configured


@pytest.fixture
def small(kafka_bootstrap: str, stream: Stream) -> Feed:
    """Topics that do not exist yet."""
    topic = f"small-{uuid4().hex[:8]}"
    return Feed(kafka_bootstrap, topic, f"{topic}-labels", tuple(stream[0][0]))


def append(feed: Feed, records: list[Outgoing]) -> None:
    """Write records."""
    log = open_log(f"kafka://{feed.bootstrap}")
    try:
        log.append(records)
    finally:
        log.close()


def accuracy_of(predictions: list[list[dict[str, Any]]], stream: Stream) -> float:
    """The share of right predictions, told from the topic and the data set alone."""
    said = [p for part in predictions for p in part if p["prediction"] is not None]
    return sum(p["prediction"] == stream[int(p["id"])][1] for p in said) / len(said)


def ids(records: list[dict[str, Any]]) -> list[str]:
    return [record["id"] for record in records]


def assert_each_once_in_order(feed: Feed, name: str) -> list[list[dict[str, Any]]]:
    """Each observation has one prediction, in its partition and in its order."""
    predictions = committed(feed.bootstrap, name)
    observations = stored(feed.bootstrap, feed.observations)
    assert len(predictions) == len(observations)
    for number, (told, seen) in enumerate(zip(predictions, observations, strict=True)):
        assert ids(told) == [record.key.decode() for record in seen]
        assert [p["position"] for p in told] == [
            {"topic": feed.observations, "partition": number, "offset": record.offset}
            for record in seen
        ]
    return predictions


def fingerprints(config: Path) -> dict[str, str]:
    """Of the state by the newest snapshot alone, by the journal alone, and by the command."""
    settings = load(config)
    log = open_log(settings.input.transport, kafka=settings.kafka)
    try:
        found = sources(settings, log)
        end = log.end_offsets([found.journal])[found.journal]
        store = SnapshotStore(settings.snapshots.directory / settings.name / "shard-0", 3)
        restored = rebuild(settings, log, found, store, end=end)
        replayed = rebuild(settings, log, found, None, end=end)
    finally:
        log.close()
    assert restored.replayed == 0
    assert replayed.seq == restored.seq > 0
    told = headwater("replay", config, "--journal", "--json")
    assert told.returncode == 0, told.stderr
    return {
        "snapshot": restored.shard.fingerprint(),
        "journal": replayed.shard.fingerprint(),
        "command": json.loads(told.stdout)["fingerprint"],
    }


@pytest.mark.kafka
def test_one_partition_scores_as_rivers_loop_to_the_last_digit(
    feed: Feed, made: Made, name: str, stream: Stream, rivers_accuracy: float
) -> None:
    """Predictions = observations, each once and in order; the page tells the same after a start."""
    config = made(feed)
    with Service(config, "--drain") as service:
        assert service.wait() == 0

    predictions = assert_each_once_in_order(feed, name)
    assert ids(predictions[0]) == [str(i) for i in range(len(stream))]
    assert accuracy_of(predictions, stream) == rivers_accuracy
    of = f'{{model="gaussian_nb",shard="0",window="all"}}'
    with Service(config) as service:
        said = service.wait_said(r"live at journal entry (\d+), (\d+) records replayed")
        assert int(said[1]) > 1
        assert said[2] == "0"
        assert service.metric(f"headwater_accuracy_ratio{of}") == rivers_accuracy
        assert service.terminate() == 0


@pytest.mark.kafka
def test_three_partitions_score_the_same(
    kafka_bootstrap: str, made: Made, name: str, stream: Stream, rivers_accuracy: float
) -> None:
    """Equal too: every record has a timestamp of its own (a label the one before the observation
    that follows it), so the merge has one order. That holds for topics that are filled before; a
    live topic may be late by more than `input.max_wait_ms`, and is then merged as it comes.
    """
    feed = fill(kafka_bootstrap, stream, 3)
    config = made(feed)
    with Service(config, "--drain") as service:
        assert service.wait() == 0

    predictions = assert_each_once_in_order(feed, name)
    assert min(map(len, predictions)) > len(stream) / 4
    assert Counter(i for part in predictions for i in ids(part)) == {
        str(i): 1 for i in range(len(stream))
    }
    assert accuracy_of(predictions, stream) == rivers_accuracy


@pytest.mark.kafka
def test_kill_9_in_mid_stream_loses_and_doubles_nothing(
    feed: Feed, made: Made, name: str, stream: Stream, rivers_accuracy: float
) -> None:
    """Killed at a third and at two thirds; the state is the journal's, bit for bit."""
    config = made(feed, max_records=500)
    told = TopicPartition(f"{name}-predictions", 0)
    watcher = KafkaConsumer(bootstrap_servers=feed.bootstrap, isolation_level="read_committed")
    try:
        for share in (1 / 3, 2 / 3):
            enough = int(share * len(stream))
            with Service(config) as service:
                service.wait_until(lambda: watcher.end_offsets([told])[told] >= enough)
                service.kill()
                assert service.code == -9
            assert watcher.end_offsets([told])[told] < len(stream)
    finally:
        watcher.close()
    with Service(config, "--drain") as service:
        assert service.wait() == 0
        assert int(service.wait_said(r"(\d+) records replayed")[1]) > 0

    predictions = assert_each_once_in_order(feed, name)
    assert accuracy_of(predictions, stream) == rivers_accuracy
    assert len(set(fingerprints(config).values())) == 1


@pytest.mark.kafka
def test_second_service_of_the_name_fences_the_first_in_mid_stream(
    feed: Feed, made: Made, name: str, stream: Stream, rivers_accuracy: float
) -> None:
    """The first ends with 3 and one line; the second goes on where it was."""
    slow, fast = made(feed, max_records=100), made(feed)
    with Service(slow) as first:
        first.wait_until(lambda: committed_by(first) > 0)
        with Service(fast, "--drain") as second:
            assert first.wait() == 3
            assert second.wait() == 0
        assert_one_line(first.output, "expected to own the shard")

    assert committed_by_drain(second.output) > 0
    predictions = assert_each_once_in_order(feed, name)
    assert accuracy_of(predictions, stream) == rivers_accuracy
