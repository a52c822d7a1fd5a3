"""kafka-python as it is, lies included, over the broker in memory.

Each class has the calls of the client, and of the service's own faces of it, that the service
makes. Its lies, by the names of the notes:

P2  a transaction that the broker has timed out is committed without a word
P4  a batch that was not delivered fails its future, and nothing else
P24 a batch that the broker says it holds already is a success at offset -1
again   the end of a transaction and its offsets are sent once more after a lost connection

`BatchProducer` puts an end to the last one, so it is none of `LIES`.

Without them the client is as it should be: then the first failure fails the transaction. That
offsets are taken from somebody who is no member any more is the broker's way, no lie of it.
Offsets that a failed commit leaves behind cannot show here: each commit tells all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from kafka import TopicPartition
from kafka.errors import (
    CommitFailedError,
    DuplicateSequenceNumberError,
    IllegalStateError,
    InvalidProducerEpochError,
    InvalidTimestampError,
    InvalidTxnStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    OffsetOutOfRangeError,
    ProducerFencedError,
)

from consumers.base.records import Fetched, Outgoing, Partition
from tests.simulation.broker import Broker, Record
from tests.simulation.weather import HungError, Weather

__all__ = ["AGAIN", "LIES", "Admin", "Consumer", "Producer"]

LIES = frozenset({"P2", "P4", "P24"})
AGAIN = "again"
# How late the first copy of a request is; None: it was in time, and its answer is lost.
LATE = (None, 0.002, 0.01, 0.05, 0.5, 20.0)


class Admin:
    """`KafkaAdminClient`."""

    def __init__(self, broker: Broker, weather: Weather, **options: Any) -> None:
        self._broker, self._weather = broker, weather

    def describe_topics(self, topics: Sequence[str] | None = None) -> list[dict[str, Any]]:
        if topics is not None:
            self._weather.met("describe", KafkaTimeoutError)
        return [self._topic(topic) for topic in (self._broker.topics if topics is None else topics)]

    def _topic(self, topic: str) -> dict[str, Any]:
        count = self._broker.topics.get(topic)
        parts = [TopicPartition(topic, n) for n in range(count or 0)]
        return {
            "name": topic,
            "topic_id": self._broker.ids.get(topic),
            "error_code": 0 if count else 3,
            "is_internal": False,
            "partitions": [
                {"partition_index": part.partition, "leader_epoch": self._broker.epoch(part)}
                for part in parts
            ],
        }

    def describe_transactions(self, names: Sequence[str]) -> dict[str, Any]:
        told = {}
        for name in names:
            id_, epoch, state = self._broker.known(name)
            told[name] = SimpleNamespace(
                producer_id=id_, producer_epoch=epoch, state=SimpleNamespace(value=state)
            )
        return told

    def close(self) -> None:
        """Nothing to release."""


class Consumer:
    """`column_consumer`: partitions are assigned to it; it drains one after the other."""

    def __init__(self, broker: Broker, weather: Weather, **options: Any) -> None:
        assert options["auto_offset_reset"] == "none"
        assert not options["enable_auto_commit"]
        self._broker, self._weather = broker, weather
        self._committed = options["isolation_level"] == "read_committed"
        self._group = options.get("group_id", "")
        self._at: dict[TopicPartition, int] = {}
        self._epoch: dict[TopicPartition, int] = {}  # of the last record, none after a seek
        self._seen: dict[TopicPartition, int] = {}
        self.rests = False

    def rest(self, longer: bool) -> None:
        self.rests = longer

    def assign(self, parts: Sequence[TopicPartition]) -> None:
        self._at = {part: self._at.get(part, 0) for part in parts}

    def unsubscribe(self) -> None:
        self._at = {}

    def seek(self, part: TopicPartition, offset: int) -> None:
        self._at[part] = offset
        self._epoch.pop(part, None)

    def positions(self, parts: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {part: self._at[part] for part in parts}

    def highwaters(self) -> dict[TopicPartition, int]:
        return {part: self._seen[part] for part in self._at if part in self._seen}

    def committed(self, part: TopicPartition, timeout_ms: int) -> int | None:
        return self._broker.offsets.get((self._group, part))

    def beginning_offsets(self, parts: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(parts, 0)

    def end_offsets(self, parts: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        self._weather.met("end_offsets", KafkaTimeoutError)
        end = self._broker.stable if self._committed else self._broker.end
        return {part: end(part) for part in parts}

    def poll(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Fetched]]:
        """A few of some partitions, in no order that means anything."""
        self._weather.met("poll", KafkaConnectionError)
        parts = list(self._at)
        self._weather.random.shuffle(parts)
        left = self._weather.random.randint(1, max_records)
        polled = {}
        for part in parts:
            found = self._fetch(part, left)
            if found:
                polled[part] = [_columns(part, found)]
                left -= len(found)
            if not left or self._weather.random.random() < 0.3:
                break
        if not polled:
            self._weather.pass_time(timeout_ms / 1000)
        return polled

    def _fetch(self, part: TopicPartition, count: int) -> list[Record]:
        """Records, and past the markers and aborted ones before, between and behind them."""
        if part.topic not in self._broker.topics:
            return []  # the client asks for metadata, again and again
        epoch = self._epoch.get(part)
        if epoch is not None and self._broker.end_of(part, epoch) < self._at[part]:
            raise LogTruncationError({part: None})
        if self._at[part] > self._broker.end(part):
            raise OffsetOutOfRangeError({part: self._at[part]})
        self._seen[part] = self._broker.end(part)
        found: list[Record] = []
        while len(found) < count:
            chunk = self._broker.fetch(part, self._at[part], count - len(found), self._committed)
            if not chunk:
                break
            self._at[part] = chunk[-1].offset + 1
            self._epoch[part] = chunk[-1].epoch
            found += [r for r in chunk if not r.marker and self._visible(r)]
        return found

    def _visible(self, record: Record) -> bool:
        transaction = record.transaction
        return not self._committed or transaction is None or transaction.status == "committed"

    def close(self, autocommit: bool = False, timeout_ms: int = 0) -> None:
        """Nothing to release."""


def _columns(part: TopicPartition, records: Sequence[Record]) -> Fetched:
    return Fetched(
        Partition(*part),
        [r.offset for r in records],
        [r.timestamp for r in records],
        [r.key for r in records],
        [r.value for r in records],
    )


class _Handed:
    """`PendingSends`: a batch on its way."""

    def __init__(self, part: TopicPartition, records: Sequence[Outgoing]) -> None:
        self.part, self.count, self.place = part, len(records), (part.topic, part.partition)
        self.records = [(r.timestamp or 0, r.key, r.value, tuple(r.headers)) for r in records]
        self.is_done, self.base_offset = False, -1
        self.exception: Exception | None = None

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.count - 1

    def written(self, base: int) -> None:
        self.is_done, self.base_offset = True, base

    def failed(self, error: Exception) -> None:
        self.is_done, self.exception = True, error


class Producer:
    """`BatchProducer` with a transactional id, or without one."""

    def __init__(
        self, broker: Broker, weather: Weather, lies: frozenset[str], **options: Any
    ) -> None:
        self._broker, self._weather, self._lies = broker, weather, lies
        self._name = options["transactional_id"]
        self._timeout = options["transaction_timeout_ms"] / 1000
        self._id = self._epoch = -1
        self._begun = self._started = self._bumped = False
        self._failed: Exception | None = None
        self._added: set[TopicPartition] = set()  # to the transaction
        self._batches: list[_Handed] = []
        self._sender = SimpleNamespace(force_close=self._batches.clear)
        self._transaction_manager = SimpleNamespace(producer_id_and_epoch=None)

    def init_transactions(self) -> None:
        self._weather.met("init", KafkaTimeoutError)
        self._known(*self._broker.init(self._name, self._timeout))

    def _known(self, id_: int, epoch: int) -> None:
        self._id, self._epoch = id_, epoch
        self._transaction_manager.producer_id_and_epoch = SimpleNamespace(
            is_valid=True, producer_id=id_, epoch=epoch
        )

    def begin_transaction(self) -> None:
        if self._begun or self._failed:
            raise IllegalStateError("a transaction is open, or the producer has failed")
        self._begun, self._started, self._bumped = True, False, False
        self._added.clear()

    def send_many(self, topic: str, partition: int, records: Sequence[Outgoing]) -> list[_Handed]:
        if self._weather.happens("no_metadata"):
            raise KafkaTimeoutError("simulated: no metadata came")
        batch = _Handed(TopicPartition(topic, partition), records)
        self._batches.append(batch)
        return [batch]

    def wake(self) -> None:
        """Batches are sent by `flush`."""

    def flush(self, seconds: float) -> None:
        while self._batches:
            batch = self._batches.pop(0)
            self._weather.met("produce")
            if self._bumped or self._failed is not None:
                batch.failed(KafkaTimeoutError("the transaction has failed"))
            elif self._weather.happens("undelivered"):
                self._unlucky(batch, KafkaTimeoutError("it was not delivered"))
            else:
                self._deliver(batch)

    def _deliver(self, batch: _Handed) -> None:
        new = batch.part not in self._added
        try:
            base = self._broker.produce(self._name, self._epoch, batch.part, batch.records, new=new)
        except InvalidProducerEpochError as error:
            self._bump(batch, error)
            return
        except (ProducerFencedError, InvalidTxnStateError) as error:
            self._failed = error
            batch.failed(error)
            return
        except InvalidTimestampError as error:
            self._unlucky(batch, error)
            return
        self._started = True
        self._added.add(batch.part)
        if self._weather.happens("unacknowledged"):
            self._unlucky(batch, KafkaTimeoutError("nobody answered"))
        elif self._weather.happens("answered_twice"):
            # Sent again because no answer came; DUPLICATE_SEQUENCE_NUMBER tells no offset.
            if "P24" in self._lies:
                batch.written(-1)
            else:
                self._unlucky(batch, DuplicateSequenceNumberError("it is there already"))
        else:
            batch.written(base)

    def _unlucky(self, batch: _Handed, error: Exception) -> None:
        """Its future fails; the transaction only where the client does not lie."""
        batch.failed(error)
        if "P4" not in self._lies and self._name is not None:
            self._failed = error

    def _bump(self, batch: _Handed, error: Exception) -> None:
        """It asks for a new epoch; the transaction it was in is forgotten."""
        batch.failed(error)
        try:
            id_, epoch = self._broker.init(self._name, self._timeout, self._epoch)
        except ProducerFencedError as fenced:
            self._failed = fenced
            return
        self._known(id_, epoch)
        self._bumped, self._started = True, False
        if "P2" not in self._lies:
            self._failed = error

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, Any], group: str
    ) -> None:
        self._weather.met("send_offsets")
        self._raise()
        if self._bumped:
            raise IllegalStateError("no transaction is open")
        if self._weather.happens("offsets_refused"):
            self._failed = CommitFailedError("the group has another member")
            raise self._failed
        told = {part: at.offset for part, at in offsets.items()}
        add = partial(self._broker.add_offsets, self._name, self._epoch, group, told)
        add_late = partial(self._broker.add_offsets_late, self._name, self._epoch, group, told)
        self._ask(add, add_late, "offsets_repeated")
        self._started = True

    def commit_transaction(self) -> None:
        self._weather.met("commit")
        self._raise()
        self._begun = False
        if not self._started:
            return  # nothing was sent, or it thinks so
        late = self._weather.random.choice([0.0, 0.5, 20.0])
        if self._weather.happens("commit_late"):
            self._broker.finish_late(self._name, self._epoch, late, commit=True)
            raise HungError
        finish = partial(self._broker.finish, self._name, self._epoch, commit=True)
        finish_late = partial(self._broker.finish_late, self._name, self._epoch, commit=True)
        self._known(self._id, self._ask(finish, finish_late, "end_repeated"))
        if self._weather.happens("commit_unanswered"):
            raise HungError
        self._weather.met("committed")

    def _ask(self, now: Callable[[], Any], late: Callable[..., None], fault: str) -> Any:
        """Make a request. With the fault the connection is lost before it is answered."""
        try:
            if self._weather.happens(fault):
                after = self._weather.random.choice(LATE)
                if after is None:
                    now()
                else:
                    late(after=after)
                if AGAIN not in self._lies:
                    raise KafkaError("simulated: the connection was lost before Kafka answered")
            return now()
        except Exception as error:
            self._failed = error
            raise

    def _raise(self) -> None:
        if self._failed is not None:
            raise self._failed

    def close(self, timeout: float | None = None) -> None:
        """What it has open stays open, until the next one or the timeout."""
