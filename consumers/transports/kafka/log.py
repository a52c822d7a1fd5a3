"""Apache Kafka as the log, with kafka-python. `owner.py` explains the owner."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource
from kafka.errors import TopicAlreadyExistsError
from kafka.protocol.api_key import ApiKey

from consumers.base.errors import RecordsMissingError
from consumers.base.records import (
    Fetched,
    Outgoing,
    Partition,
    Record,
    Topic,
    TopicSettings,
    TransactionRules,
)
from consumers.transports.kafka.assignor import KafkaMember
from consumers.transports.kafka.errors import CONNECT, explained, hear_client, within
from consumers.transports.kafka.options import KafkaOptions
from consumers.transports.kafka.owner import KafkaOwner, committed_offsets
from consumers.transports.kafka.producer import (
    BatchProducer,
    PendingSends,
    acknowledged,
    by_place,
    discard,
    places,
    send,
)
from consumers.transports.kafka.reader import column_consumer
from consumers.transports.placement import Placement, no_such_partition, no_such_topic
from consumers.transports.protocol import ANY, Demand, first_offsets, nothing
from consumers.transports.registry import NO_KEY_HEADERS, KeyHeaders

__all__ = ["KafkaLog"]

_CHUNK = 5_000  # records per poll of `follow`
# Everything that was fetched. Then the client requests the next records of all partitions while
# these are processed, and never only those of one partition that is at its end, for which the
# broker would wait.
_ALL = 1 << 30
_NAMED = 4  # partitions by name in a message
_APPENDED = 2_000  # records in flight in `append`; more only load the garbage collector
_VERIFYING = 4  # the first version of AddPartitionsToTxn that verifies partitions (Kafka 3.6)
_LARGEST_RECORD = 8 * 2**20  # bytes, in created topics: a dead letter holds a whole record


class KafkaLog:
    """The topics of a Kafka cluster. It connects at the first use.

    Parameters
    ----------
    bootstrap_servers
        HOST:PORT of one broker or more.
    options
        Options of the client by kafka-python's names, the section [kafka] of a configuration.

    Raises
    ------
    ConfigError
        An option is unknown, of the wrong kind, or fixed.

    Examples
    --------
    >>> log = KafkaLog(["127.0.0.1:9092"], {"security_protocol": "SSL"})
    >>> log.close()
    """

    def __init__(
        self,
        bootstrap_servers: Sequence[str],
        options: Mapping[str, object],
        key_headers: KeyHeaders = NO_KEY_HEADERS,
    ) -> None:
        self._options, self._key_headers = KafkaOptions(bootstrap_servers, options), key_headers
        self._url = "kafka://" + ",".join(bootstrap_servers)
        self._placement = Placement()
        self._partitions: dict[str, int] = {}  # of the topics seen so far
        self._admin_client: Any = None
        self._producer: Any = None
        self._idle: list[Any] = []  # consumers for the next read: a new one costs 0.1 s
        self._owners: list[KafkaOwner] = []
        hear_client()

    def topics(self) -> dict[str, int]:
        """Topic to its number of partitions, without Kafka's own topics (`__…`)."""
        with self._explained("list the topics"):
            listed = self._bounded("list its topics", self._admin().describe_topics)
        self._partitions = {
            topic["name"]: len(topic["partitions"])
            for topic in listed
            if topic["partitions"] and not topic["is_internal"] and topic["name"][:2] != "__"
        }
        return dict(self._partitions)

    def describe(self, topics: Collection[str]) -> dict[str, Topic]:
        """Partitions, id and leader elections of these topics, of those that exist."""
        with self._explained("describe topics"):
            ask = self._admin().describe_topics
            answers = self._bounded("describe topics", lambda: ask(list(topics)))
        found = {t["name"]: _topic(t) for t in answers if not t["error_code"] and t["partitions"]}
        self._partitions |= {topic: known.partitions for topic, known in found.items()}
        return found

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic that keeps its records. Nothing happens if it exists."""
        settings = {
            "num_partitions": partitions,
            "replication_factor": self._options["replication_factor"],
            "configs": {
                "retention.ms": str(self._options["retention_ms"]),
                "retention.bytes": "-1",
                "max.message.bytes": str(_LARGEST_RECORD),
            },
        }
        with self._explained(f"create topic {topic!r}"):
            admin = self._admin()
            with suppress(TopicAlreadyExistsError):
                self._bounded("create a topic", lambda: admin.create_topics({topic: settings}))
            self._bounded("announce a new topic", lambda: admin.wait_for_topics([topic]))

    def topic_settings(self, topics: Collection[str]) -> dict[str, TopicSettings]:
        """Retention, cleanup and replicas of these topics, of those that exist."""
        with self._explained("read the settings of topics"):
            admin = self._admin()
            listed = self._bounded("describe topics", lambda: admin.describe_topics(list(topics)))
            there = {t["name"]: t["partitions"] for t in listed if not t["error_code"]}
            asked = [ConfigResource("topic", topic, configs=None) for topic in there]
            found = self._bounded(
                "read the settings of topics",
                lambda: admin.describe_configs(asked, config_filter="all"),
            )
        return {
            topic: _settings(found["topic"][topic], there[topic])
            for topic in there
            if topic in found.get("topic", {})
        }

    def transaction_rules(self) -> TransactionRules:
        """What the brokers know of a transaction, by the versions and features that one reports."""
        with self._explained("ask for the features of the brokers"):
            admin = self._admin()
            features = self._bounded("name its features", admin.describe_features)
            _, newest = admin.api_versions().get(ApiKey.AddPartitionsToTxn, (0, 0))
        _, version = features.get("transaction.version", {}).get("finalized", (0, 0))
        return TransactionRules(newest >= _VERIFYING, version)

    def check_writable(self, name: str) -> None:
        """Begin a producer's life under a transactional id of its own: nobody is fenced.

        It shows that the broker accepts transactions of ids that start with the service's name,
        not that each topic may be written.
        """
        with self._explained("begin a transaction"):
            producer = BatchProducer(**self._options.producer(f"{name}.doctor"))
            try:
                producer.init_transactions()
            finally:
                discard(producer)

    def beginning_offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The first retained offset of each. TransportError for an unknown topic."""
        return self._offsets(partitions, lambda consumer, parts: consumer.beginning_offsets(parts))

    def end_offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The offset after the last committed record of each, and after markers that follow it."""
        return self._offsets(partitions, lambda consumer, parts: consumer.end_offsets(parts))

    def offsets_at(self, partitions: Sequence[Partition], timestamp: int) -> dict[Partition, int]:
        """The first offset of each whose record is at or after `timestamp` (ms), or its end."""

        def ask(consumer: Any, parts: list[TopicPartition]) -> dict[TopicPartition, int]:
            found = consumer.offsets_for_times(dict.fromkeys(parts, max(timestamp, 0)))
            late = [part for part in parts if found[part] is None]
            return {part: at.offset for part, at in found.items() if at} | (
                consumer.end_offsets(late) if late else {}
            )

        # The broker also finds markers of transactions, which have the time of their commit, and
        # records of aborted transactions.
        found, ends = self._offsets(partitions, ask), self.end_offsets(partitions)
        return first_offsets(self, found, ends, lambda times: times >= timestamp)

    def read(
        self,
        starts: Mapping[Partition, int],
        ends: Mapping[Partition, int],
        *,
        demand: Demand = ANY,
    ) -> Generator[Fetched, None, None]:
        """Committed records of each partition from its start up to its end, in chunks.

        `demand` is called before each fetch. All records of a fetch are returned.
        """
        wanted = {TopicPartition(*p): p for p in starts if starts[p] < ends[p]}
        if not wanted:
            return
        self._expect(list(wanted.values()))
        patience = 3 * self._options.seconds("request_timeout_ms")
        doing = _reading(list(wanted.values()))
        with self._explained(doing), self._consumer() as consumer:
            consumer.assign(list(wanted))
            positions = {part: starts[partition] for part, partition in wanted.items()}
            for part, position in positions.items():
                consumer.seek(part, position)
            moved = time.monotonic()
            assigned = set(positions)
            while positions:
                full = {TopicPartition(*partition) for partition in demand.full()}
                # If the awaited records do not exist, the caller gets the others and notices it.
                if (now := positions.keys() - full or set(positions)) != assigned:
                    _assign(consumer, positions, now - assigned, now)
                    assigned = now
                for part, chunks in consumer.poll(500, max_records=_ALL).items():
                    for chunk in chunks:
                        wished = chunk.shift(bisect_left(chunk.offsets, ends[wanted[part]]))
                        if wished.offsets:
                            yield wished
                # By position, not by record, because it also passes markers and aborted records.
                reached = consumer.positions(assigned)
                if any(at > positions[part] for part, at in reached.items()):
                    moved = time.monotonic()
                positions |= reached
                positions = {p: at for p, at in positions.items() if at < ends[wanted[p]]}
                if time.monotonic() - moved > patience:
                    part, position = next(iter(positions.items()))
                    raise RecordsMissingError(
                        f"expected records of {wanted[part]} up to offset {ends[wanted[part]]} in "
                        f"{self._url}, but nothing arrived after {position} for {patience:g} s; "
                        "check that the broker runs"
                    )

    def follow(
        self,
        starts: Mapping[Partition, int],
        *,
        poll_seconds: float,
        idle: Callable[[], None] = nothing,
    ) -> Iterator[Record]:
        """Committed records as they arrive, for ever."""
        self._expect(list(starts))
        doing = "follow " + ", ".join(map(str, starts))
        with ExitStack() as stack:
            with self._explained(CONNECT):
                consumer = KafkaConsumer(**self._options.consumer())  # it also returns headers
            stack.callback(_close_consumer, consumer)
            with self._explained(doing):
                consumer.assign([TopicPartition(*partition) for partition in starts])
                for partition, start in starts.items():
                    consumer.seek(TopicPartition(*partition), start)
            while True:
                with self._explained(doing):
                    found = consumer.poll(int(poll_seconds * 1000), max_records=_CHUNK)
                if not found:
                    idle()  # its errors are not the broker's
                for records in found.values():
                    for r in records:
                        headers = tuple(r.headers)
                        yield Record(
                            r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, headers
                        )

    def append(self, records: Sequence[Outgoing]) -> list[tuple[int, int]]:
        """Write records. Returns when every in-sync replica has them.

        Returns partition and offset of each.
        """
        placed = [(record, self._place(record)) for record in records]  # all topics exist
        written: list[PendingSends] = []
        try:
            with self._explained("write records"):
                if self._producer is None:
                    with self._explained(CONNECT):
                        self._producer = BatchProducer(**self._options.producer(None))
                for first in range(0, len(placed), _APPENDED):
                    handed = send(self._producer, by_place(placed[first : first + _APPENDED]))
                    acknowledged(
                        self._producer, handed, self._options.seconds("delivery_timeout_ms")
                    )
                    written += handed
        except BaseException:
            # The unsent records of a failed producer must not be written by the next append.
            failed, self._producer = self._producer, None
            if failed is not None:
                discard(failed)
            raise
        return places(placed, written)

    def owner(self, name: str, shard: int, inputs: Sequence[Partition]) -> KafkaOwner:
        """Become the owner of a shard, and fence the previous one."""
        self._expect(inputs)  # first, because a start that fails must not fence anybody
        owner = KafkaOwner(self._options, name, shard, inputs, self._place, self._key_headers)
        self._owners = [*(other for other in self._owners if not other.closed), owner]
        return owner

    def committed(self, name: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The committed offsets of a service's group, for partitions that have one."""
        with self._explained("read the committed offsets"):
            return committed_offsets(self._options, name, partitions)

    def member(self, name: str, topic: str, standbys: int) -> KafkaMember:
        """A member of the service's group, which knows the shards of this process."""
        return KafkaMember(self._options, name, topic, standbys)

    def close(self) -> None:
        """Release all resources, including the owners of this log."""
        for owner in self._owners:
            owner.close()
        idle, self._idle = self._idle, []
        for consumer in idle:
            _close_consumer(consumer)
        for client in (self._producer, self._admin_client):
            if client is not None:
                with suppress(Exception):
                    within(3, "close", client.close)
        self._producer = self._admin_client = None

    def _admin(self) -> Any:
        if self._admin_client is None:
            with self._explained(CONNECT):
                self._admin_client = KafkaAdminClient(**self._options.admin())
        return self._admin_client

    @contextmanager
    def _consumer(self) -> Iterator[Any]:
        """A consumer to use. One that raised is not used again, because its poll may not return."""
        if self._idle:
            consumer = self._idle.pop()
        else:
            with self._explained(CONNECT):
                consumer = column_consumer(self._options.consumer(), key_headers=self._key_headers)
        try:
            yield consumer
            consumer.unsubscribe()
        except GeneratorExit:  # a reader that stops early: nothing is wrong
            # The generator may also be closed when the process ends. Then the client has no thread
            # any more, and a call of it would never return.
            self._idle.append(consumer)
            raise
        except BaseException:
            _close_consumer(consumer)
            raise
        self._idle.append(consumer)

    def _explained(self, doing: str) -> Any:
        return explained(self._options.servers, doing)

    def _bounded(self, what: str, call: Callable[[], Any]) -> Any:
        return within(2 * self._options.seconds("request_timeout_ms"), what, call)

    def _offsets(
        self,
        partitions: Sequence[Partition],
        ask: Callable[[Any, list[TopicPartition]], Mapping[TopicPartition, int]],
    ) -> dict[Partition, int]:
        if not partitions:
            return {}
        self._expect(partitions)
        with self._explained("find offsets"), self._consumer() as consumer:
            found = ask(consumer, [TopicPartition(*partition) for partition in partitions])
        return {partition: found[TopicPartition(*partition)] for partition in partitions}

    def _expect(self, partitions: Sequence[Partition]) -> None:
        """TransportError unless each exists, because the client would wait a long time for it."""
        for topic, number in partitions:
            count = self._count(topic)
            if number >= count:  # some may have been added
                count = self.describe([topic]).get(topic, Topic(count)).partitions
            if not 0 <= number < count:
                raise no_such_partition(topic, number, count)

    def _count(self, topic: str) -> int:
        if topic not in self._partitions:
            self.describe([topic])
        if topic not in self._partitions:
            raise no_such_topic(topic, self._url)
        return self._partitions[topic]

    def _place(self, record: Outgoing) -> int:
        return self._placement.choose(
            record, self._partitions.get(record.topic) or self._count(record.topic)
        )


def _assign(
    consumer: Any,
    positions: Mapping[TopicPartition, int],
    back: Collection[TopicPartition],
    parts: Collection[TopicPartition],
) -> None:
    """Let the client fetch `parts` only. Those in `back` continue at their positions."""
    consumer.assign([part for part in positions if part in parts])  # not pause: see inputs.py
    for part in back:
        consumer.seek(part, positions[part])


def _reading(partitions: Sequence[Partition]) -> str:
    """A description of a read, in one line."""
    named = ", ".join(map(str, partitions[:_NAMED]))
    more = len(partitions) - _NAMED
    return f"read {named} and {more} more partitions" if more > 0 else f"read {named}"


def _topic(answer: Mapping[str, Any]) -> Topic:
    """The topic of a metadata answer. Brokers before 2.8 give it no id."""
    partitions = answer["partitions"]
    elected = {part["partition_index"]: part.get("leader_epoch", -1) for part in partitions}
    made = str(answer.get("topic_id") or "").replace("-", "")
    return Topic(
        len(elected),
        made if made.strip("0") else "",
        tuple(epoch for _, epoch in sorted(elected.items())),
    )


def _settings(answer: Mapping[str, Any], partitions: Sequence[Mapping[str, Any]]) -> TopicSettings:
    """The settings of a topic, from the answers of the admin client."""
    values = {name: about["value"] for name, about in answer.items()}
    return TopicSettings(
        int(values.get("retention.ms") or -1),
        int(values.get("retention.bytes") or -1),
        "compact" in str(values.get("cleanup.policy")),
        min((len(partition["replica_nodes"]) for partition in partitions), default=0),
    )


def _close_consumer(consumer: Any) -> None:
    with suppress(Exception):
        within(3, "close", lambda: consumer.close(autocommit=False, timeout_ms=1000))
