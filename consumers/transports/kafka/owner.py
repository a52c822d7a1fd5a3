"""The owner of a shard on Kafka: the one sequence of calls that makes kafka-python's commits safe.

Fence first. Then for each commit: send, flush, check that every record is acknowledged, send the
offsets, commit within a time limit. After any exception this owner is dead: its producer may carry
offsets of the failed commit into the next one, or report a commit that the broker has aborted. It
is never used again, and recovery creates a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import (
    AuthorizationError,
    ProducerFencedError,
    TransactionalIdNotFoundError,
    UnsupportedVersionError,
)
from kafka.structs import OffsetAndMetadata

from consumers.base.errors import FencedError, HeadwaterError, TransportError
from consumers.base.failpoints import reach
from consumers.base.records import (
    UNBOUNDED,
    Fetched,
    Outgoing,
    OutgoingColumns,
    Partition,
    Uncommitted,
)
from consumers.transports.kafka.errors import CONNECT, explain, explained, within
from consumers.transports.kafka.inputs import KafkaInputs
from consumers.transports.kafka.options import KafkaOptions
from consumers.transports.kafka.producer import (
    BatchProducer,
    acknowledged,
    by_place,
    discard,
    send,
)
from consumers.transports.kafka.reader import column_consumer
from consumers.transports.registry import NO_KEY_HEADERS, KeyHeaders

__all__ = ["KafkaOwner", "committed_offsets"]

_ABORTED = ("PrepareAbort", "CompleteAbort")
# A broker before 3.0, no permission to ask, or an id that the broker no longer knows.
_CANNOT_TELL = (UnsupportedVersionError, AuthorizationError, TransactionalIdNotFoundError)


def committed_offsets(
    options: KafkaOptions, name: str, partitions: Sequence[Partition]
) -> dict[Partition, int]:
    """The committed offsets of a group, for partitions that have one, without joining the group."""
    # Its own client: in a group, the client that polls would follow the coordinator.
    consumer = KafkaConsumer(**options.consumer(), group_id=name)
    try:
        limit = options["request_timeout_ms"]
        found = {p: consumer.committed(TopicPartition(*p), timeout_ms=limit) for p in partitions}
    finally:
        consumer.close(autocommit=False, timeout_ms=1000)
    return {partition: offset for partition, offset in found.items() if offset is not None}


class KafkaOwner:
    """The owner of a shard, created by `KafkaLog.owner`.

    Parameters
    ----------
    options
        The clients' settings.
    name, shard
        The consumer group, and with the shard the transactional id.
    inputs
        The partitions to consume.
    place
        The partition of a record; TransportError if its topic is unknown.
    key_headers
        See `open_log`.
    """

    fenced = ""  # a broker does not report the process of an older owner

    def __init__(
        self,
        options: KafkaOptions,
        name: str,
        shard: int,
        inputs: Sequence[Partition],
        place: Callable[[Outgoing], int],
        key_headers: KeyHeaders = NO_KEY_HEADERS,
    ) -> None:
        self._options = options
        self._name = name
        self._transactional_id = f"{name}.{shard}"
        self._parts = {TopicPartition(*partition): partition for partition in inputs}
        self._place = place
        self._dead: str | None = None
        self._consumer: Any = None
        self._producer: Any = None
        self._identity: Any = None  # producer id and epoch
        with self._guarded(CONNECT):
            self._producer = BatchProducer(**options.producer(self._transactional_id))
            reach("in_fence")
            # Fence before anything is read: this aborts the open transaction of the old owner.
            self._producer.init_transactions()
            self._identity = self._producer._transaction_manager.producer_id_and_epoch
            self._consumer = column_consumer(
                options.consumer(), together=True, key_headers=key_headers
            )
            self._inputs = KafkaInputs(self._consumer, inputs)

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Start polling each input at its position.

        Raises
        ------
        TransportError
            A position is not within the offsets of the partition.
        """
        with self._guarded("find the inputs' positions"):
            self._inputs.seek(positions)

    def poll(
        self,
        *,
        max_records: int,
        timeout: float,
        skip: Collection[Partition] = (),
        max_bytes: int = UNBOUNDED,
        each: int = UNBOUNDED,
    ) -> list[Fetched]:
        """Records from the inputs except `skip`; empty if none arrived within `timeout`.

        A record that cannot be read raises once. Another poll of this client would never return,
        which is one more reason why the owner is dead then.
        """
        with self._guarded("poll the inputs"):
            return self._inputs.poll(
                max_records=max_records, timeout=timeout, skip=skip, max_bytes=max_bytes, each=each
            )

    def ends(self) -> dict[Partition, int]:
        """The newest known end of each input, or the caller's position at the end of records.

        So an input is read completely when its end is not greater than the caller's next offset,
        whatever transaction markers follow its last record.
        """
        with self._guarded("find the inputs' ends"):
            return self._inputs.ends()

    def uncommitted(self) -> dict[Partition, Uncommitted]:
        """The records of each input hidden by open transactions, as of the last `ends`."""
        return self._inputs.uncommitted()

    def commit(
        self, records: Sequence[Outgoing], journal: Outgoing, positions: Mapping[Partition, int]
    ) -> int:
        """Write everything in one transaction. Returns the offset of the journal record."""
        with self._guarded("commit"):
            producer = self._producer
            # The journal record is last, so that its offset is that of the last batch.
            parts = [*self._parts_of(records), *self._parts_of([journal])]
            reach("before_begin")
            producer.begin_transaction()
            handed = send(producer, parts)
            reach("mid_send")
            # Before the offsets and the commit, because neither of them reports a failure.
            acknowledged(producer, handed, self._options.seconds("delivery_timeout_ms"))
            reach("after_check")
            self._finish(producer, positions)
            reach("after_commit")
            return handed[-1].last_offset

    def _parts_of(
        self, records: Sequence[Outgoing]
    ) -> list[tuple[tuple[str, int], Sequence[Outgoing]]]:
        """The records of each topic and partition. Columns remain columns."""
        if not isinstance(records, OutgoingColumns):
            return by_place((record, self._place(record)) for record in records)
        parts = records.by_partition()
        if parts:
            self._place(records[int(records.partitions.argmax())])  # raises unless all exist
        columns = [((records.topic, number), own) for number, own in parts]
        return [*columns, *self._parts_of(records.rest)]

    def confirm(self, positions: Mapping[Partition, int]) -> None:
        """Commit a transaction with only the present offsets, which only an owner can do."""
        with self._guarded("confirm the ownership"):
            self._producer.begin_transaction()
            self._finish(self._producer, positions)

    def _finish(self, producer: BatchProducer, positions: Mapping[Partition, int]) -> None:
        offsets = {
            TopicPartition(*partition): OffsetAndMetadata(position, "", -1)
            for partition, position in positions.items()
        }

        def finish() -> None:
            # Also without an offset: the coordinator then checks that we still own the shard.
            producer.send_offsets_to_transaction(offsets, self._name)
            reach("after_offsets")
            reach("in_commit")
            producer.commit_transaction()

        # Both calls wait without a limit. A request that took longer than its limit may have been
        # sent twice, and the second could end a later transaction: so the result is unknown.
        within(self._options.seconds("request_timeout_ms"), "commit", finish)

    def committed(self) -> dict[Partition, int]:
        """The group's committed offsets of the inputs that have one."""
        with self._guarded("read the committed offsets"):
            return committed_offsets(self._options, self._name, list(self._parts.values()))

    @property
    def closed(self) -> bool:
        """Whether it has released its clients: it was closed, or has failed."""
        return self._dead is not None

    def close(self) -> None:
        """Stop polling. The ownership ends with the next owner."""
        if self._dead is None:
            self._die("it was closed")

    @contextmanager
    def _guarded(self, doing: str) -> Iterator[None]:
        """Any exception inside ends this owner, also an interrupt during a commit."""
        if self._dead is not None:
            raise TransportError(
                f"expected a usable owner to {doing}, but {self._dead}; take ownership again"
            )
        try:
            yield
        except BaseException as error:
            self._die("it has failed before")
            if isinstance(error, FencedError) or not isinstance(error, Exception):
                raise
            # Also after our own time limit: a process that was stopped for so long continues here,
            # and starting over would fence its successor.
            if self._overtaken():
                error = ProducerFencedError()
            if isinstance(error, HeadwaterError):
                raise
            raise explain(error, self._options.servers, doing) from error

    def overtaken(self) -> bool:
        """Whether another owner has taken over, as the coordinator knows."""
        doing = "ask for the owner of the shard"
        limit = self._options.seconds("request_timeout_ms")
        with explained(self._options.servers, doing):
            return bool(within(limit, doing, self._ask_owner))

    def _overtaken(self) -> bool:
        """The same within 4 s, or False. Then the first error is the better answer."""
        with suppress(Exception):
            return within(4, "name the owner", self._ask_owner) is True
        return False

    def _ask_owner(self) -> bool:
        """Whether the coordinator knows a newer owner than this one.

        While another owner takes over, a broker answers the end of our transaction with whatever
        state it is in, for example "unknown server error". If that counted as a failure of the
        broker, this process would start over and fence the newer owner.
        """
        manager = getattr(self._producer, "_transaction_manager", None)
        ours = getattr(manager, "producer_id_and_epoch", None)
        if ours is None or not ours.is_valid:  # while the client asks for a new one
            ours = self._identity
        if ours is None:
            return False
        admin = KafkaAdminClient(**self._options.admin())
        try:
            found = admin.describe_transactions([self._transactional_id])
        except _CANNOT_TELL:
            return False
        finally:
            admin.close()
        now = found[self._transactional_id]
        if (now.producer_id, now.producer_epoch) == (ours.producer_id, ours.epoch + 1):
            # The broker increments the epoch when it aborts a timed-out transaction of ours.
            return str(now.state.value) not in _ABORTED
        return bool(now.producer_id != ours.producer_id or now.producer_epoch > ours.epoch)

    def _die(self, why: str) -> None:
        """Refuse every further call, and release the clients within 4 s if possible."""
        self._dead = why
        producer, consumer = self._producer, self._consumer

        def close() -> None:
            if producer is not None:
                # An open transaction stays open: fencing by the next owner aborts it.
                discard(producer)
            if consumer is not None:
                consumer.close(autocommit=False, timeout_ms=1000)

        with suppress(Exception):
            within(4, "close", close)
