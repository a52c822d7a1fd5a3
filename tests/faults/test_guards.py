"""Guards of the Kafka owner that only a real broker can try."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from uuid import uuid4

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.errors import CommitFailedError, KafkaTimeoutError
from kafka.producer.future import FutureProduceResult

from consumers.base.errors import FencedError, RecordsMissingError, TransportError
from consumers.base.records import Outgoing, Partition
from consumers.transports.kafka.log import KafkaLog
from consumers.transports.kafka.producer import BatchProducer, PendingSends
from tests.waiting import PATIENCE, until


@pytest.fixture
def log(kafka_bootstrap: str):
    """A log on the broker."""
    with closing(KafkaLog([kafka_bootstrap], {"max_partition_fetch_bytes": 4096})) as opened:
        yield opened


@pytest.fixture
def source(log: KafkaLog) -> Partition:
    """An input of one partition."""
    topic = f"guarded-{uuid4().hex[:8]}"
    log.create_topic(topic, 1)
    return Partition(topic, 0)


@pytest.mark.kafka
def test_records_that_retention_removes_under_way_are_told_not_jumped(
    log, source, kafka_bootstrap
) -> None:
    """A client that went on at the end would lose them in silence."""
    log.append([Outgoing(source.topic, None, b"x" * 2_000)] * 100)
    owner = log.owner(source.topic, 0, [source])
    owner.seek({source: 0})
    admin = KafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    admin.delete_records({TopicPartition(*source): 95})
    admin.close()
    offsets: list[int] = []

    def consume() -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for chunk in owner.poll(max_records=10, timeout=0.1):
                offsets.extend(chunk.offsets)

    with pytest.raises(RecordsMissingError, match="no longer exist"):
        consume()

    assert offsets == list(range(len(offsets)))


@pytest.mark.kafka
def test_offsets_of_a_failed_commit_never_come_with_the_next(log, source, monkeypatch) -> None:
    """This client keeps the offsets of a commit that failed, and sends them with the next one."""
    log.create_topic(f"{source.topic}.journal", 1)
    log.create_topic(f"{source.topic}.other", 1)
    entry = Outgoing(f"{source.topic}.journal", None, b"entry", partition=0)
    other = Partition(f"{source.topic}.other", 0)
    owner = log.owner(source.topic, 0, [source, other])
    owner.seek({source: 0, other: 0})
    original = KafkaProducer.send_offsets_to_transaction

    def refused(producer, offsets, group):
        producer._transaction_manager._pending_txn_offset_commits.update(offsets)
        raise CommitFailedError

    monkeypatch.setattr(KafkaProducer, "send_offsets_to_transaction", refused)
    with pytest.raises(TransportError):
        owner.commit([], entry, {source: 7})
    monkeypatch.setattr(KafkaProducer, "send_offsets_to_transaction", original)

    with pytest.raises(TransportError, match="take ownership again"):
        owner.commit([], entry, {other: 1})
    successor = log.owner(source.topic, 0, [source, other])
    successor.commit([], entry, {other: 1})
    assert successor.committed() == {other: 1}


@pytest.mark.kafka
def test_record_only_its_future_tells_of_fails_the_commit(log, source, monkeypatch) -> None:
    """One that expired under way leaves this client's transaction open; its commit succeeds."""
    log.create_topic(f"{source.topic}.journal", 1)
    entry = Outgoing(f"{source.topic}.journal", None, b"entry", partition=0)
    owner = log.owner(source.topic, 0, [source])
    original = BatchProducer.send_many

    def send(producer, topic, *records):
        if topic != source.topic:
            return original(producer, topic, *records)
        result = FutureProduceResult(TopicPartition(*source))
        result.success((-1, -1, lambda _: KafkaTimeoutError("expired")))
        return [PendingSends(result, 1, ("topic", 0))]

    monkeypatch.setattr(BatchProducer, "send_many", send)
    with pytest.raises(TransportError, match="expired"):
        owner.commit([Outgoing(source.topic, None, b"lost", partition=0)], entry, {source: 0})
    monkeypatch.undo()
    successor = log.owner(source.topic, 0, [source])

    assert successor.committed() == {}
    successor.commit([], entry, {source: 0})


@pytest.mark.kafka
def test_transaction_that_the_broker_timed_out_fails_the_commit(
    kafka_bootstrap, source, monkeypatch
) -> None:
    """The client asks for a new epoch in silence, and its commit of what is gone returns."""
    options = {
        "transaction_timeout_ms": 1_500,
        "delivery_timeout_ms": 1_400,
        "request_timeout_ms": 1_000,
    }
    with closing(KafkaLog([kafka_bootstrap], options)) as log:
        log.create_topic(f"{source.topic}.journal", 1)
        first, entry = (
            Outgoing(f"{source.topic}.journal", None, value, partition=0)
            for value in (b"first", b"entry")
        )
        owner = log.owner(source.topic, 0, [source])
        original = BatchProducer.send_many

        def slow(producer, topic, partition, records):
            handed = original(producer, topic, partition, records)
            if records != [entry]:  # that comes too late, and its answer while the client commits
                producer.flush(10)
                _wait_for_abort(kafka_bootstrap, f"{source.topic}.0")
            return handed

        monkeypatch.setattr(BatchProducer, "send_many", slow)
        with pytest.raises((TransportError, FencedError)) as raised:
            owner.commit([first], entry, {source: 0})
        assert not isinstance(raised.value.__cause__, AssertionError)
        monkeypatch.undo()
        successor = log.owner(source.topic, 0, [source])

        assert successor.committed() == {}
        successor.commit([], entry, {source: 0})


def _wait_for_abort(bootstrap: str, name: str) -> None:
    """Until the coordinator has given a transaction up; the client may have begun anew since."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        until(
            lambda: (
                admin.describe_transactions([name])[name].state.value in {"CompleteAbort", "Empty"}
            ),
            f"abort of {name}",
        )


@pytest.mark.kafka
def test_record_of_a_topic_that_is_gone_fails_the_commit(kafka_bootstrap, source) -> None:
    """The client would hand back a future, and commit without the record."""
    gone = f"{source.topic}.gone"
    with closing(KafkaLog([kafka_bootstrap], {"max_block_ms": 500})) as log:
        for topic in (gone, f"{source.topic}.journal"):
            log.create_topic(topic, 1)
        entry = Outgoing(f"{source.topic}.journal", None, b"entry", partition=0)
        log.topics()
        owner = log.owner(source.topic, 0, [source])
        admin = KafkaAdminClient(bootstrap_servers=kafka_bootstrap)
        admin.delete_topics([gone])
        admin.close()
        with pytest.raises(TransportError):
            owner.commit([Outgoing(gone, None, b"lost", partition=0)], entry, {source: 0})
        successor = log.owner(source.topic, 0, [source])

        assert successor.committed() == {}
        successor.commit([], entry, {source: 0})


@pytest.mark.kafka
def test_owner_that_lost_its_group_without_noticing_commits_nothing(
    kafka_bootstrap, source
) -> None:
    """The broker takes offsets of who says it is no member: only the fence stops them."""
    with (
        closing(KafkaLog([kafka_bootstrap], {})) as stalled,
        closing(KafkaLog([kafka_bootstrap], {})) as log,
    ):
        journal = f"{source.topic}.journal"
        log.create_topic(journal, 1)
        entry = Outgoing(journal, None, b"entry", partition=0)
        member = stalled.member(source.topic, journal, 1)
        _wait_given(member)
        old = stalled.owner(source.topic, 0, [source])
        old.commit([], entry, {source: 1})
        member.close()
        with closing(log.member(source.topic, journal, 1)) as successor:
            _wait_given(successor)
            new = log.owner(source.topic, 0, [source])
            new.commit([], entry, {source: 7})
            with pytest.raises(FencedError):
                old.commit([], entry, {source: 2})

            assert new.committed() == {source: 7}


def runs(member) -> frozenset[int]:
    """The shards that the group gives to the member."""
    return frozenset() if (assigned := member.assigned()) is None else assigned.runs


def _wait_given(member) -> None:
    """Until the group gives it the shard."""
    deadline = time.monotonic() + PATIENCE
    while not runs(member):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.kafka
def test_owner_replaced_while_its_commit_hung_is_fenced(
    kafka_bootstrap, source, monkeypatch
) -> None:
    """A process that slept past its own limit must not start over: that would fence the new one."""
    with closing(KafkaLog([kafka_bootstrap], {"request_timeout_ms": 1000})) as log:
        log.create_topic(f"{source.topic}.journal", 1)
        entry = Outgoing(f"{source.topic}.journal", None, b"entry", partition=0)
        zombie = log.owner(source.topic, 0, [source])
        successors = []
        original = KafkaProducer.send_offsets_to_transaction

        def overtaken(producer, offsets, group):
            original(producer, offsets, group)
            successors.append(log.owner(source.topic, 0, [source]))
            threading.Event().wait(30)

        monkeypatch.setattr(KafkaProducer, "send_offsets_to_transaction", overtaken)
        with pytest.raises(FencedError, match="another one has taken over"):
            zombie.commit([], entry, {source: 0})
        monkeypatch.undo()

        assert len(successors) == 1
        successors[0].commit([], entry, {source: 0})


@pytest.mark.kafka
def test_records_that_were_given_up_are_not_written_later(
    kafka_bootstrap, source, monkeypatch
) -> None:
    """This client's own close leaves a sender running that still has records in hand."""
    producers = []
    original = BatchProducer.send_many

    def send(producer, *records):
        producers.append(producer)
        return original(producer, *records)

    def unanswered(producer, futures, seconds):
        raise TransportError("nobody answers")

    monkeypatch.setattr(BatchProducer, "send_many", send)
    monkeypatch.setattr("consumers.transports.kafka.log.acknowledged", unanswered)
    with closing(KafkaLog([kafka_bootstrap], {"linger_ms": 5_000})) as log:
        with pytest.raises(TransportError, match="nobody answers"):
            log.append([Outgoing(source.topic, None, b"late", partition=0)])
        sender = producers[0]._sender  # a thread, from kafka-python 3.1 on a coroutine
        running = sender.is_running if hasattr(sender, "is_running") else sender.is_alive
        until(lambda: not running())

        assert log.end_offsets([source]) == {source: 0}


@pytest.mark.kafka
def test_who_runs_shards_keeps_them_when_others_join_and_leave(log, source) -> None:
    """A standby that starts interrupts nobody, and shards are shared out one by one (0016)."""
    journal = f"{source.topic}.journal"
    log.create_topic(journal, 2)

    def until(condition) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert runs(first) or not settled, "what was its own was taken away for a moment"
            assert time.monotonic() < deadline
            time.sleep(0.005)

    settled = False
    with closing(log.member(source.topic, journal, 1)) as first:
        until(lambda: runs(first) == {0, 1})
        settled = True
        with closing(log.member(source.topic, journal, 1)) as second:
            second.caught_up(frozenset({0, 1}))  # or no shard would move to it
            until(lambda: len(runs(second)) == 1)
            kept = runs(first)
            with closing(log.member(source.topic, journal, 1)) as third:
                deadline = time.monotonic() + 2
                until(lambda: time.monotonic() > deadline)

                assert runs(third) == set()
                assert runs(first) == kept
        until(lambda: runs(first) == {0, 1})
