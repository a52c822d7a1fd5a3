"""The service on a real broker: every prediction once, scores as river's, whatever kills it."""

from __future__ import annotations

import json
import re
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kafka import KafkaConsumer, TopicPartition
from river import evaluate, metrics

from consumers.base.records import Outgoing
from consumers.config import load
from consumers.service.recovery import rebuild, sources
from consumers.snapshots.store import SnapshotStore
from consumers.transports import open_log
from stream import GaussianNB
from tests.acceptance.kafka_feed import (
    DELAY,
    START,
    Feed,
    Stream,
    committed,
    configure,
    elec2,
    fill,
    outgoing,
    stored,
)
from tests.acceptance.service import Service
from tests.calling import call

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
        call("check", path, "--create", code=0)
        return path

    return configured


@pytest.fixture
def small(kafka_bootstrap: str, stream: Stream) -> Feed:
    """Topics that do not exist yet."""
    topic = f"small-{uuid4().hex[:8]}"
    return Feed(kafka_bootstrap, topic, f"{topic}-labels", tuple(stream[0][0]))


@pytest.fixture
def predicted(kafka_bootstrap: str, name: str) -> Iterator[Callable[[], int]]:
    """How far the committed predictions reach: their number and one marker a commit."""
    told = TopicPartition(f"{name}-predictions", 0)
    watcher = KafkaConsumer(bootstrap_servers=kafka_bootstrap, isolation_level="read_committed")
    yield lambda: watcher.end_offsets([told])[told]
    watcher.close()


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
    observations = keys(feed)
    assert len(predictions) == len(observations)
    for number, (told, seen) in enumerate(zip(predictions, observations, strict=True)):
        assert ids(told) == list(seen.values())
        assert [p["position"] for p in told] == [
            {"topic": feed.observations, "partition": number, "offset": offset} for offset in seen
        ]
    return predictions


@cache
def keys(feed: Feed) -> list[dict[int, str]]:
    """Offset to id of each observation, by partition; of topics that are complete."""
    found = stored(feed.bootstrap, feed.observations)
    return [{record.offset: record.key.decode() for record in part} for part in found]


def assert_state_is_the_journals(config: Path) -> None:
    """The newest snapshot, which needs no replay, is what the journal alone gives."""
    settings = load(config)
    log = open_log(settings.input.transport, kafka=settings.kafka)
    try:
        found = sources(settings, log)
        end = log.end_offsets([found.journal])[found.journal]
        store = SnapshotStore(settings.snapshots.directory / settings.name / "shard-0", 3)
        live = rebuild(settings, log, found, store, end=end)
    finally:
        log.close()
    replayed = call("replay", config, "--journal", "--json", code=0)
    told = json.loads(replayed.stdout)
    assert live.replayed == 0
    assert told["source"]["entries"] == live.seq > 0
    assert told["fingerprint"] == live.shard.fingerprint()


@pytest.mark.kafka
def test_one_partition_scores_as_rivers_loop_to_the_last_digit(
    feed: Feed, made: Made, name: str, stream: Stream, rivers_accuracy: float
) -> None:
    """Predictions = observations, each once and in order; the page tells the same after a start."""
    config = made(feed)
    call("run", config, "--drain", code=0)

    predictions = assert_each_once_in_order(feed, name)
    assert ids(predictions[0]) == [str(i) for i in range(len(stream))]
    assert accuracy_of(predictions, stream) == rivers_accuracy
    of = f'{{model="{name}",shard="0",window="all"}}'
    with Service(config, "--shards", "0") as service:
        said = service.wait_said(r"live at journal record (\d+), ([\d,]+) records? replayed")
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
    call("run", config, "--drain", code=0)

    predictions = assert_each_once_in_order(feed, name)
    assert min(map(len, predictions)) > len(stream) / 4
    assert Counter(i for part in predictions for i in ids(part)) == {
        str(i): 1 for i in range(len(stream))
    }
    assert accuracy_of(predictions, stream) == rivers_accuracy


@pytest.mark.kafka
def test_kill_9_in_mid_stream_loses_and_doubles_nothing(
    feed: Feed,
    made: Made,
    name: str,
    stream: Stream,
    rivers_accuracy: float,
    predicted: Callable[[], int],
) -> None:
    """Killed at a third and at two thirds; the state is the journal's, bit for bit."""
    # About 180 commits. The kills are far from the snapshots, which are due after 25,000 and 50,000
    # records: else there may be nothing to replay.
    config = made(feed, max_records=len(stream) // 90, every_records=25_000)
    for share in (1 / 3, 2 / 3):
        enough = int(share * len(stream))
        with Service(config, "--shards", "0") as service:
            service.wait_until(lambda: predicted() >= enough)  # noqa: B023  asked at once
            service.kill()
        assert predicted() < len(stream)
    drained = call("run", config, "--drain", code=0).stderr
    assert re.search(r"(\S+) records? replayed", drained)[1] != "0"  # type: ignore[index]

    predictions = assert_each_once_in_order(feed, name)
    assert accuracy_of(predictions, stream) == rivers_accuracy
    assert_state_is_the_journals(config)


@pytest.mark.kafka
def test_second_service_of_the_name_fences_the_first_in_mid_stream(
    kafka_bootstrap: str, made: Made, name: str, stream: Stream, predicted: Callable[[], int]
) -> None:
    """The first ends with 3 and one line; the second goes on where it was.

    A broker may answer the first with the fence, or let its request fail. Then it looks who owns
    the shard.
    """
    feed = fill(kafka_bootstrap, stream[:9_000], 1)
    slow, fast = made(feed, max_records=20), made(feed)  # 900 commits: the second comes in time
    with Service(slow, "--shards", "0") as first:
        first.wait_until(lambda: predicted() > 0)
        with Service(fast, "--drain") as second:
            assert first.wait() == 3
            taken_over = int(second.wait_said(r"live at journal record (\d+)")[1])
            assert second.wait() == 0

    assert one_line(first.output).startswith("headwater: expected to own ")
    assert 1 < taken_over < 900
    assert_each_once_in_order(feed, name)
    assert_state_is_the_journals(fast)


@pytest.mark.kafka
def test_idle_service_that_was_fenced_ends_at_its_next_record(
    small: Feed, made: Made, name: str, stream: Stream, predicted: Callable[[], int]
) -> None:
    """Nothing more is committed by it; the one that took over answers the record."""
    config = made(small)
    records = list(outgoing(stream[:20], small))
    append(small, records[:10])
    with Service(config, "--shards", "0") as first:
        first.wait_until(lambda: predicted() >= 10)
        with Service(config, "--shards", "0") as second:
            second.wait_said("live at journal record")
            append(small, records[10:])
            assert first.wait() == 3
            second.wait_until(lambda: second.metric('headwater_learned_total{shard="0"}') == 20)
            assert second.terminate() == 0

    assert one_line(first.output).startswith("headwater: expected to own ")
    assert_each_once_in_order(small, name)


@pytest.mark.kafka
def test_labels_that_begin_after_the_observations_are_learned_and_sigterm_keeps_the_state(
    small: Feed, made: Made, name: str, stream: Stream
) -> None:
    """SIGTERM ends with 0 and a snapshot, so that the next start replays nothing."""
    config = made(small)
    records = list(outgoing(stream[:300], small))
    append(small, [r for r in records if r.topic == small.observations])
    with Service(config, "--shards", "0") as service:
        service.wait_until(lambda: service.metric('headwater_predictions_total{shard="0"}') == 300)
        assert service.metric('headwater_learned_total{shard="0"}') == 0
        append(small, [r for r in records if r.topic == small.labels])
        service.wait_until(lambda: service.metric('headwater_learned_total{shard="0"}') == 300)
        assert service.terminate() == 0
    with Service(config, "--shards", "0") as service:
        said = service.wait_said(
            r"live .* (\d+) records replayed, (\d+) observations known, 300 labels learned"
        )
        assert service.get("/readyz") == "live\n"
        assert service.terminate() == 0

    assert said.groups() == ("0", "300")
    [predictions] = assert_each_once_in_order(small, name)
    assert {p["prediction"] for p in predictions} == {None}


@pytest.mark.kafka
def test_missing_topics_are_one_line_that_names_the_command_which_makes_them(
    small: Feed, tmp_path: Path, name: str
) -> None:
    """Exit 2; the command shows and makes them; then the service runs."""
    config = configure(tmp_path, small, name)
    before = call("run", config, "--drain", code=2)
    created = call("check", config, "--create", code=0)
    call("run", config, "--drain", code=0)

    assert f"`headwater check {config} --create`" in one_line(before.stderr)
    assert re.findall(r"^create +(\S+): 1 partition$", created.stdout, re.MULTILINE) == [
        small.observations,
        small.labels,
        *(f"{name}-{topic}" for topic in ("predictions", "dead-letters", "journal")),
    ]


def test_no_broker_is_one_line_and_soon(stream: Stream, tmp_path: Path, name: str) -> None:
    """`run` failed (1); `check` found something wrong (2)."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # nobody listens on it, and nobody else can
        nobody = f"127.0.0.1:{held.getsockname()[1]}"
        config = configure(tmp_path, Feed(nobody, "in", "labels", tuple(stream[0][0])), name)
        with Service(config, "--shards", "0") as run:
            check = call("check", config, code=2)
            assert run.wait() == 1

    assert one_line(run.output).startswith(f"headwater: no Kafka broker at {nobody}; start one")
    assert one_line(check.stderr).startswith("headwater: 1 thing is wrong with")
    assert f"wrong    transport: no Kafka broker at {nobody}; start one" in check.stdout


@pytest.mark.kafka
def test_bad_records_end_as_dead_letters_with_their_bytes_and_the_service_goes_on(
    small: Feed, made: Made, name: str, stream: Stream
) -> None:
    """Not JSON, an infinity, a byte too many; each with its reason and its place."""
    config = made(small)
    records = list(outgoing(stream[:20], small))
    first = small.features[0]
    bad = {
        b'{"id": "torn", ': b"unparsable",
        f'{{"id": "far", "{first}": Infinity}}'.encode(): b"infinite",
        b'{"id": "big", "note": "'.ljust(MIB - 1, b"x") + b'"}': b"oversize",
    }
    append(small, records[:20])
    append(small, [Outgoing(small.observations, b"bad", value, START) for value in bad])
    append(small, records[20:])
    call("run", config, "--drain", code=0)

    assert max(map(len, bad)) == MIB + 1
    [letters] = stored(small.bootstrap, f"{name}-dead-letters")
    assert {letter.value: dict(letter.headers)["reason"] for letter in letters} == bad
    [observations] = stored(small.bootstrap, small.observations)
    assert [
        (h["topic"], h["partition"], h["offset"])
        for h in (dict(letter.headers) for letter in letters)
    ] == [
        (small.observations.encode(), b"0", b"%d" % record.offset)
        for record in observations
        if record.value in bad
    ]
    [predictions] = committed(small.bootstrap, name)
    assert ids(predictions) == [str(i) for i in range(20)]
    assert_state_is_the_journals(config)


def one_line(said: str) -> str:
    """The one line a user is told at the end, among those of the log."""
    assert "Traceback" not in said
    lines = [line for line in said.splitlines() if line.startswith("headwater: ")]
    assert lines == said.splitlines()[-1:]
    return lines[0]
