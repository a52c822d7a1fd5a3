"""What a consumer asks the broker for, and when: nobody waits for a partition at its end."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from kafka import TopicPartition

from consumers.base.records import Outgoing, Partition
from consumers.transports.kafka.log import KafkaLog
from consumers.transports.kafka.options import KafkaOptions
from consumers.transports.kafka.reader import column_consumer
from tests.waiting import PATIENCE

LONG, SHORT = 6_000, 2_950  # records: both of several fetches, and not of whole polls
WAIT = 100_000  # ms a broker holds back an answer without records, in these tests


@pytest.fixture
def log(kafka_bootstrap: str) -> Iterator[KafkaLog]:
    """A log whose client has the longest of waits."""
    longer = ("request_timeout_ms", "delivery_timeout_ms", "transaction_timeout_ms")
    waits = {name: times * WAIT for times, name in enumerate(longer, 2)}
    log = KafkaLog([kafka_bootstrap], {"fetch_max_wait_ms": WAIT, **waits})
    yield log
    log.close()


@pytest.fixture
def parts(log: KafkaLog) -> tuple[Partition, Partition]:
    """A long partition and a short one."""
    name = f"fetches-{uuid4().hex[:12]}"
    out = []
    for suffix, count in (("long", LONG), ("short", SHORT)):
        log.create_topic(f"{name}.{suffix}", 1)
        log.append([Outgoing(f"{name}.{suffix}", b"k", b"v" * 500) for _ in range(count)])
        out.append(Partition(f"{name}.{suffix}", 0))
    return out[0], out[1]


class Cycle:
    """What only the collector of cycles frees."""

    def __init__(self, held: object) -> None:
        self.held, self.cycle = held, self


def brokers(fetcher: Any) -> list[Any]:
    """Those that the client knows."""
    return fetcher._manager.cluster.brokers()


def polled(consumer: Any, parts: tuple[Partition, ...]) -> list[set[str]]:
    """The topics of each request while a consumer reads all records, a few a poll."""
    asked: list[set[str]] = []
    create = consumer._fetcher._create_fetch_requests

    def noted() -> Any:
        requests = create()
        asked.extend({part.topic for part in offsets} for _, offsets in requests.values())
        return requests

    consumer._fetcher._create_fetch_requests = noted
    consumer.assign([TopicPartition(*part) for part in parts])
    for part in parts:
        consumer.seek(TopicPartition(*part), 0)
    left, deadline = LONG + SHORT, time.monotonic() + PATIENCE
    while left:
        assert time.monotonic() < deadline, f"{left} records have not come"
        for chunks in consumer.poll(500, max_records=100).values():
            left -= sum(map(len, chunks))
    return asked


@pytest.mark.parametrize("together", [True, False], ids=["together", "as the client does"])
def test_owner_asks_for_all_its_partitions_or_for_none(kafka_bootstrap, parts, together):
    """Or one at its end, asked for alone, would hold back those that have records."""
    options = KafkaOptions([kafka_bootstrap], {})
    consumer = column_consumer(options.consumer(), together=together)
    try:
        asked = polled(consumer, parts)
    finally:
        consumer.close(autocommit=False)
    every = {part.topic for part in parts}
    assert len(asked) > 2
    assert all(topics == every for topics in asked) is together


@pytest.mark.parametrize("order", [1, -1])
def test_reader_waits_for_nothing_at_its_end(log, parts, order):
    """Whoever works on what is read meets no fetch that asks for what was read to its end alone."""
    starts = dict.fromkeys(parts[::order], 0)
    ends = log.end_offsets(parts)
    count, began = 0, time.monotonic()
    for fetched in log.read(starts, ends):
        time.sleep(0.004)  # the next fetch comes meanwhile
        count += len(fetched)
    assert count == LONG + SHORT
    assert time.monotonic() - began < WAIT / 1000, "the broker held back an answer"


def test_record_comes_at_once_while_the_broker_waits_longer(kafka_bootstrap, log, parts):
    """A fetch may wait for minutes here, and the test waits less."""
    waits = {"fetch_max_wait_ms": 60_000, "request_timeout_ms": 500_000}
    settings = KafkaOptions([kafka_bootstrap], {}).consumer() | waits
    consumer = column_consumer(settings, together=True)
    part = TopicPartition(*parts[0])
    try:
        consumer.assign([part])
        consumer.seek(part, LONG)
        consumer.rest(True)
        assert consumer._fetcher.config["fetch_max_wait_ms"] == 240_000
        assert not consumer.poll(200)  # the fetch is with the broker
        log.append([Outgoing(part.topic, b"k", b"late")])
        (chunk,) = consumer.poll(60_000)[part]
        assert chunk.values == [b"late"]
        consumer.rest(False)
        assert consumer._fetcher.config["fetch_max_wait_ms"] == 60_000
    finally:
        consumer.close(autocommit=False, timeout_ms=1000)


def test_client_is_not_asked_for_fetches_while_each_broker_has_one(kafka_bootstrap, parts):
    """The client would look at every partition, and ask for none."""
    consumer = column_consumer(KafkaOptions([kafka_bootstrap], {}).consumer(), together=True)
    fetcher, part = consumer._fetcher, TopicPartition(*parts[0])
    try:
        consumer.assign([part])
        consumer.seek(part, LONG)
        assert not consumer.poll(200)
        fetcher._nodes_with_pending_fetch_requests = {broker.node_id for broker in brokers(fetcher)}
        assert fetcher._fetchable_partitions() == []
        fetcher._nodes_with_pending_fetch_requests = {-7}  # a broker that has left
        assert fetcher._fetchable_partitions() == [part]
    finally:
        consumer.close(autocommit=False, timeout_ms=1000)


FORGETFUL = """
import sys
from consumers.base.records import Partition
from consumers.transports.kafka.log import KafkaLog

log = KafkaLog([sys.argv[1]], {})
at = Partition(sys.argv[2], 0)
forgotten = log.read({at: 0}, {at: int(sys.argv[3])})
next(forgotten)
log.close()
"""


def test_process_ends_though_it_forgot_what_it_was_reading(kafka_bootstrap, parts):
    """When the interpreter finds it the client has no threads left: no call of it returns."""
    arguments = [kafka_bootstrap, parts[0].topic, str(LONG)]
    ended = subprocess.run([sys.executable, "-c", FORGETFUL, *arguments], timeout=PATIENCE)
    assert ended.returncode == 0


def test_client_asks_anew_as_soon_as_it_is_told_to(kafka_bootstrap):
    """Its part that knows the brokers is not handed the option by the client itself."""
    consumer = column_consumer(KafkaOptions([kafka_bootstrap], {"retry_backoff_ms": 7}).consumer())
    try:
        assert consumer._cluster.config["retry_backoff_ms"] == 7
    finally:
        consumer.close(autocommit=False)


def test_cycles_that_hold_records_are_collected_by_their_bytes(kafka_bootstrap, log) -> None:
    """As the client leaves them; few large records make too few objects for Python to look."""
    part = Partition(f"cycles-{uuid4().hex[:12]}", 0)
    log.create_topic(part.topic, 1)
    log.append([Outgoing(part.topic, None, bytes(900_000)) for _ in range(80)])
    consumer = column_consumer(KafkaOptions([kafka_bootstrap], {}).consumer())
    consumer.assign([TopicPartition(*part)])
    consumer.seek(TopicPartition(*part), 0)
    left: list[weakref.ref[Cycle]] = []
    alive, read = 0, 0

    gc.disable()
    try:
        while read < 80:
            for chunks in consumer.poll(500, max_records=1).values():
                for chunk in chunks:
                    read += len(chunk)
                    left.append(weakref.ref(Cycle(chunk)))
            alive = max(alive, sum(cycle() is not None for cycle in left))
    finally:
        gc.enable()
        consumer.close(autocommit=False)

    assert 0 < alive <= 60  # 32 MiB, and what lies unpacked


@pytest.mark.kafka
def test_offsets_are_found_also_of_topics_that_the_client_does_not_know_yet(
    log: KafkaLog, kafka_bootstrap: str
) -> None:
    """Beside one that it knows; the client alone then raises KeyError."""
    parts = [TopicPartition(f"offsets-{uuid4().hex[:12]}", 1) for _ in range(2)]
    for topic, number in parts:
        log.create_topic(topic, 2)
        log.append([Outgoing(topic, b"k", b"v", partition=number)])
    consumers = [column_consumer(KafkaOptions([kafka_bootstrap], {}).consumer()) for _ in range(2)]
    for consumer, asked, expected in zip(
        consumers, ("end_offsets", "beginning_offsets"), (1, 0), strict=True
    ):
        ask = getattr(consumer, asked)
        assert ask(parts[:1]) == {parts[0]: expected}
        assert ask(parts) == dict.fromkeys(parts, expected)
        consumer.close()
