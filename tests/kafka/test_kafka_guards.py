"""Each guard of the Kafka owner against the way it would otherwise lose or double records.

The promises every transport keeps are in tests/contract; here is what only Kafka can do wrong.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from uuid import uuid4

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.errors import DuplicateSequenceNumberError, KafkaTimeoutError, ProducerFencedError
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from kafka.producer.sender import Sender
from kafka.protocol.producer import EndTxnRequest

from consumers.base.errors import ConfigError, FencedError, TransportError
from consumers.base.records import Outgoing, Partition
from consumers.transports.kafka.errors import within
from consumers.transports.kafka.log import KafkaLog
from consumers.transports.kafka.owner import KafkaOwner
from consumers.transports.kafka.producer import BatchProducer, acknowledged
from tests.waiting import PATIENCE, until

Make = Callable[..., KafkaLog]


@pytest.fixture
def name() -> str:
    """A name nobody else uses."""
    return f"guard-{uuid4().hex[:12]}"


@pytest.fixture
def make(kafka_bootstrap: str) -> Iterator[Make]:
    """Open a log on the broker with the given options; all are closed at the end."""
    logs: list[KafkaLog] = []

    def made(**options: object) -> KafkaLog:
        logs.append(KafkaLog([kafka_bootstrap], options))
        return logs[-1]

    yield made
    for log in logs:
        log.close()


@pytest.fixture
def topics(make: Make, name: str) -> SimpleNamespace:
    """An input of one partition, an output and a journal."""
    log = make()
    for suffix in ("in", "out", "journal"):
        log.create_topic(f"{name}.{suffix}", 1)
    return SimpleNamespace(
        source=Partition(f"{name}.in", 0),
        out=Partition(f"{name}.out", 0),
        journal=Partition(f"{name}.journal", 0),
    )


def owned(log: KafkaLog, name: str, source: Partition) -> KafkaOwner:
    """The owner of a shard, at the beginning of its input."""
    owner = log.owner(name, 0, [source])
    owner.seek(log.beginning_offsets([source]))
    return owner


def commit(owner: KafkaOwner, topics: SimpleNamespace, *values: bytes) -> int:
    """Commit some values, an entry and a position."""
    outputs = [Outgoing(topics.out.topic, None, value) for value in values]
    entry = Outgoing(topics.journal.topic, None, b"entry of " + values[0], partition=0)
    return owner.commit(outputs, entry, {topics.source: 0})


def visible(log: KafkaLog, partition: Partition) -> list[bytes | None]:
    """What a reader of committed records sees."""
    starts, ends = log.beginning_offsets([partition]), log.end_offsets([partition])
    return [value for chunk in log.read(starts, ends) for value in chunk.values]


@pytest.mark.kafka
@pytest.mark.parametrize(
    "stalled", ["send_many", "send_offsets_to_transaction", "commit_transaction"]
)
def test_commit_the_broker_has_timed_out_writes_nothing(
    make, topics, name, stalled, kafka_bootstrap, monkeypatch
):
    """A stall longer than the transaction's timeout is an error, never a commit that was none."""
    log = make()
    # Refused as an option, beside the other timeouts: so the test need not wait for them.
    log._options._given["transaction_timeout_ms"] = 1000
    owner = owned(log, name, topics.source)
    admin = KafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    transaction, calls = f"{name}.0", []
    original = getattr(BatchProducer, stalled)

    def aborted() -> bool:
        told = admin.describe_transactions([transaction])
        return "CompleteAbort" in str(told)

    def stall(producer, *args, **kwargs):
        calls.append(stalled)
        if stalled != "send_many" or len(calls) == 2:  # some are with the broker, some are not
            producer.flush(10)
            until(aborted)
        return original(producer, *args, **kwargs)

    monkeypatch.setattr(BatchProducer, stalled, stall)
    with pytest.raises((FencedError, TransportError)) as caught:
        commit(owner, topics, b"lost", b"lost too")
    monkeypatch.undo()
    admin.close()
    overtaken = owner.overtaken()
    successor = owned(make(), name, topics.source)
    positions = successor.committed()
    commit(successor, topics, b"kept")

    assert "\n" not in str(caught.value)
    assert not overtaken  # the broker's own fence is nobody's takeover
    assert positions == {}
    until(lambda: visible(log, topics.out) == [b"kept"])
    until(lambda: visible(log, topics.journal) == [b"entry of kept"])


@pytest.mark.kafka
def test_zombie_is_fenced_and_then_refuses_every_call(make, topics, name):
    """Once fenced, an owner neither commits nor polls again, and harms nobody."""
    zombie = owned(make(), name, topics.source)
    commit(zombie, topics, b"first")
    owner = owned(make(), name, topics.source)
    with pytest.raises(FencedError, match="another one has taken over"):
        commit(zombie, topics, b"zombie")

    for call in (
        lambda: commit(zombie, topics, b"again"),
        lambda: zombie.poll(max_records=1, timeout=0),
        zombie.ends,
        zombie.committed,
        lambda: zombie.seek({topics.source: 0}),
    ):
        with pytest.raises(TransportError, match="take ownership again"):
            call()
    commit(owner, topics, b"second")
    until(lambda: visible(make(), topics.out) == [b"first", b"second"])


def end_late(kafka_bootstrap: str, name: str, identity: object) -> int:
    """Commit whatever transaction this producer has open, as a delayed request; the error code."""
    admin = KafkaAdminClient(bootstrap_servers=kafka_bootstrap)
    request = EndTxnRequest(
        transactional_id=f"{name}.0",
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=True,
        max_version=3,
    )
    answer = admin._manager.run(admin._manager.send, request)
    admin.close()
    return answer.error_code


@pytest.mark.kafka
def test_late_end_commits_half_a_transaction_of_its_epoch_and_none_of_the_next_owner(
    make, topics, name, kafka_bootstrap
):
    """Why the end is sent once for an epoch: the protocol of this client names no transaction."""
    owner = owned(make(), name, topics.source)
    commit(owner, topics, b"first")
    owner._producer.begin_transaction()
    owner._producer.send_many(topics.out.topic, 0, [Outgoing(topics.out.topic, None, b"torn")])
    owner._producer.flush(PATIENCE)
    assert end_late(kafka_bootstrap, name, owner._identity) == 0
    until(lambda: visible(make(), topics.out) == [b"first", b"torn"])

    successor = owned(make(), name, topics.source)
    successor._producer.begin_transaction()
    whole = [Outgoing(topics.out.topic, None, b"whole")]
    successor._producer.send_many(topics.out.topic, 0, whole)
    successor._producer.flush(PATIENCE)
    refused = end_late(kafka_bootstrap, name, owner._identity)

    assert refused == ProducerFencedError.errno
    assert visible(make(), topics.out) == [b"first", b"torn"]
    assert visible(make(), topics.journal) == [b"entry of first"]
    successor._finish(successor._producer, {topics.source: 0})
    until(lambda: visible(make(), topics.out) == [b"first", b"torn", b"whole"])


@pytest.mark.kafka
def test_record_the_broker_refuses_fails_the_whole_commit(make, topics, name):
    """This client would commit the transaction without the record."""
    log = make(max_request_size=32 * 2**20)
    owner = owned(log, name, topics.source)

    with pytest.raises(TransportError, match=r"raise its max\.message\.bytes"):
        commit(owner, topics, b"small", b"x" * (9 * 2**20))
    successor = owned(log, name, topics.source)
    positions = successor.committed()

    assert positions == {}
    assert visible(log, topics.out) == []
    assert visible(log, topics.journal) == []


@pytest.mark.kafka
def test_commit_that_never_returns_is_given_up(make, topics, name):
    """Offsets of a topic that is gone are retried for ever by the client; the owner is dead."""
    owner = owned(make(request_timeout_ms=1000), name, topics.source)
    entry = Outgoing(topics.journal.topic, None, b"entry", partition=0)

    with pytest.raises(TransportError, match=r"commit within 1 s, .* is unknown"):
        owner.commit([], entry, {Partition(f"{name}.gone", 0): 1})
    with pytest.raises(TransportError, match="take ownership again"):
        commit(owner, topics, b"again")


@pytest.mark.kafka
@pytest.mark.parametrize("which", ["the outputs", "the entry"])
def test_batch_the_broker_claims_to_hold_already_fails_the_commit(
    make, topics, name, which, monkeypatch
):
    """DUPLICATE_SEQUENCE_NUMBER: the client calls it success, at offset -1."""
    owner = owned(make(), name, topics.source)
    spoilt = topics.out if which == "the outputs" else topics.journal
    original = Sender._complete_batch

    def complete(sender, batch, answer):
        if batch.topic_partition == TopicPartition(*spoilt):
            answer.error_code, answer.base_offset = DuplicateSequenceNumberError.errno, -1
        original(sender, batch, answer)

    monkeypatch.setattr(Sender, "_complete_batch", complete)
    with pytest.raises(TransportError, match="whether it was written exactly once is unknown"):
        commit(owner, topics, b"doubtful")
    monkeypatch.undo()
    successor = owned(make(), name, topics.source)
    at = commit(successor, topics, b"certain")

    assert next(make().read({topics.journal: at}, {topics.journal: at + 1})).offsets == [at]
    until(lambda: visible(make(), topics.out) == [b"certain"])


@pytest.mark.parametrize("failure", [None, KafkaTimeoutError("expired")])
def test_record_without_an_acknowledgement_is_an_error(failure):
    """Whether its future never ended, or ended badly in a way that leaves the transaction open."""
    result = FutureProduceResult(TopicPartition("out", 0))
    future = FutureRecordMetadata(result, 0, 0, None, -1, 1, -1)
    if failure is not None:
        result.failure(failure)
    producer = SimpleNamespace(flush=lambda seconds: None)

    with pytest.raises((TransportError, KafkaTimeoutError)):
        acknowledged(producer, [future], 1.0)


def test_call_that_hangs_is_left_behind():
    """With one line that says how long it was waited for."""
    with pytest.raises(TransportError, match=r"expected Kafka to commit within 0\.05 s"):
        within(0.05, "commit", threading.Event().wait)


@pytest.mark.kafka
def test_unknown_input_is_named_and_nobody_is_fenced(make, topics, name):
    """A start that must fail leaves the present owner alone."""
    log = make()
    owner = owned(log, name, topics.source)

    with pytest.raises(TransportError) as caught:
        make().owner(name, 0, [topics.source, Partition(f"{name}.nowhere", 0)])

    assert f"{name}.nowhere" in str(caught.value)
    assert "headwater check CONFIG --create" in str(caught.value)
    assert "\n" not in str(caught.value)
    commit(owner, topics, b"still ours")


@pytest.mark.kafka
@pytest.mark.parametrize("position", [5, 1])
def test_position_the_partition_does_not_hold_is_refused(make, topics, name, position):
    """Records removed by retention, or a recreated topic, are reported before any learning."""
    log = make()
    log.append([Outgoing(topics.source.topic, None, b"x")] * 3)
    if position == 1:
        admin = KafkaAdminClient(bootstrap_servers=log._options.servers)
        admin.delete_records({TopicPartition(*topics.source): 2})
        admin.close()
    owner = log.owner(name, 0, [topics.source])

    with pytest.raises(TransportError, match=f"to hold offset {position}, but it holds"):
        owner.seek({topics.source: position})


@pytest.mark.kafka
@pytest.mark.parametrize("ending", ["committed", "aborted", "open"])
def test_input_is_caught_up_whatever_follows_its_last_record(
    make, topics, name, ending, kafka_bootstrap
):
    """Markers, aborted records and unfinished transactions are no records to wait for."""
    log = make()
    upstream = KafkaProducer(bootstrap_servers=kafka_bootstrap, transactional_id=f"up-{name}")
    upstream.init_transactions()
    source = topics.source

    def write(value: bytes) -> None:
        upstream.begin_transaction()
        upstream.send(source.topic, value, partition=0)
        upstream.flush(10)

    write(b"0")
    upstream.commit_transaction()
    if ending != "committed":
        write(b"1")
    if ending == "aborted":
        upstream.abort_transaction()
    until(lambda: log.end_offsets([source])[source] > 1)  # the marker of the first is written
    owner = owned(log, name, source)
    found = []

    def caught_up() -> bool:
        for chunk in owner.poll(max_records=10, timeout=0.05):
            found.extend(zip(chunk.offsets, chunk.values, strict=True))
        return bool(found) and owner.ends()[source] <= found[-1][0] + 1

    until(caught_up)
    assert found == [(0, b"0")]
    if ending == "open":
        upstream.commit_transaction()
        until(lambda: caught_up() and len(found) == 2)
        assert [value for _, value in found] == [b"0", b"1"]
    upstream.close(timeout=5)


@pytest.mark.kafka
def test_input_skipped_for_long_loses_nothing(make, name):
    """Far more of it than is held back comes later, once and in order."""
    log, count = make(), 9000
    log.create_topic(f"{name}.in", 2)
    full, wanted = Partition(f"{name}.in", 0), Partition(f"{name}.in", 1)
    for partition in (full, wanted):
        log.append(
            [
                Outgoing(partition.topic, None, b"%d" % i, partition=partition.number)
                for i in range(count)
            ]
        )
    owner = log.owner(name, 0, [full, wanted])
    owner.seek(log.beginning_offsets([full, wanted]))
    found: dict[Partition, list[bytes | None]] = {full: [], wanted: []}
    most = []

    def poll(skip: list[Partition]) -> None:
        fetched = owner.poll(max_records=700, timeout=0.2, skip=skip)
        most.append(sum(map(len, fetched)))
        for chunk in fetched:
            found[chunk.partition] += chunk.values

    for turn in range(6):  # skipped and not in turns, with records of both under way
        poll([full] if turn % 2 else [])
    before = len(found[full])
    while len(found[wanted]) < count:
        poll([full])
    skipped = len(found[full]) - before
    until(lambda: poll([]) or len(found[full]) >= count)

    numbers = [b"%d" % i for i in range(count)]
    assert skipped == 0
    assert found == {full: numbers, wanted: numbers}
    assert max(most) <= 700


@pytest.fixture
def nobody() -> Iterator[str]:
    """HOST:PORT where nobody listens, and nobody else can."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def run(program: str) -> subprocess.CompletedProcess[str]:
    """A program of Python that ends with 0, in a process of its own."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)


@pytest.mark.parametrize("call", ["topics()", "owner('n', 0, [])"])
def test_no_broker_is_one_line_soon(nobody, call):
    """What to do about it, and nothing of the client's own complaints."""
    program = (
        "from consumers.base.errors import HeadwaterError\n"
        "from consumers.transports.kafka.log import KafkaLog\n"
        f"try: KafkaLog(['{nobody}'], {{'bootstrap_timeout_ms': 2000}}).{call}\n"
        "except HeadwaterError as error: print(type(error).__name__, error)\n"
    )

    ended = run(program)

    assert ended.stdout.count("\n") == 1
    assert ended.stdout.startswith(f"NoAnswerError no Kafka broker at {nobody}; start one or")
    assert ended.stderr == ""


@pytest.mark.parametrize("call", ["topics()", "owner('n', 0, [])"])
def test_too_few_file_descriptors_are_no_error_of_the_configuration(nobody, call):
    """A service that is live starts over, and then ends with 1: a supervisor may start it again."""
    program = (
        "import os, resource\n"
        "from consumers.base.errors import HeadwaterError\n"
        "from consumers.transports.kafka.log import KafkaLog\n"
        f"log = KafkaLog(['{nobody}'], {{'bootstrap_timeout_ms': 2000}})\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir('/proc/self/fd')), hard))\n"
        f"try: log.{call}\n"
        "except HeadwaterError as error: print(type(error).__name__, error.exit_code, error)\n"
    )

    ended = run(program)

    assert ended.stdout.startswith("TransportError 1 could not connect: this process may not have")
    assert "Too many open files" in ended.stdout
    assert "`ulimit -n`" in ended.stdout


@pytest.mark.parametrize(
    "option",
    [
        "acks",
        "auto_offset_reset",
        "enable_auto_commit",
        "enable_idempotence",
        "group_id",
        "isolation_level",
        "key_deserializer",
        "retries",
        "transactional_id",
        "value_serializer",
    ],
)
def test_option_that_exactly_once_depends_on_is_refused(option):
    """Whatever its value."""
    with pytest.raises(ConfigError, match=rf"\[kafka\] {option} is fixed, .* remove it"):
        KafkaLog(["127.0.0.1:1"], {option: "read_uncommitted"})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sasl_password": "hush"}, "did you mean 'ssl_password'"),
        ({"linger_ms": "hush"}, "linger_ms: expected a whole number, got text"),
        ({"bootstrap_servers": "hush"}, "[input] transport"),
    ],
)
def test_wrong_option_is_told_without_its_value(options, told):
    """A value may be a password under a wrong name."""
    with pytest.raises(ConfigError) as caught:
        KafkaLog(["127.0.0.1:1"], options)

    assert told in str(caught.value)
    assert "hush" not in str(caught.value)
