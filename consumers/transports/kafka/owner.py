"""The owner of a shard on Kafka: the one call pattern with which kafka-python's commits are safe.

Fence first. Send, flush, see every record acknowledged, then the offsets, then the commit, within
a limit. After any exception this owner is dead: its producer may carry offsets of the failed
commit into the next one, or report a commit that the broker has aborted. It is never used again,
recovery makes a new one.
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
from consumers.base.records import UNBOUNDED, Fetched, Outgoing, Partition, Uncommitted
from consumers.transports.kafka.errors import CONNECT, explain, explained, within
from consumers.transports.kafka.inputs import KafkaInputs
from consumers.transports.kafka.options import KafkaOptions
from consumers.transports.kafka.producer import BatchProducer, acknowledged, discard, send
from consumers.transports.kafka.reader import column_consumer

__all__ = ["KafkaOwner", "committed_offsets"]

_ABORTED = ("PrepareAbort", "CompleteAbort")
# A broker before 3.0, no right to ask, or nothing known of this id any more.
_CANNOT_TELL = (UnsupportedVersionError, AuthorizationError, TransactionalIdNotFoundError)


def committed_offsets(
    options: KafkaOptions, name: str, partitions: Sequence[Partition]
) -> dict[Partition, int]:
    """The offsets a group has committed, of those partitions that have one; without joining it."""
    # A client of its own: in a group, the one that polls would mind the coordinator.
    consumer = KafkaConsumer(**options.consumer(), group_id=name)
    try:
        limit = options["request_timeout_ms"]
        found = {p: consumer.committed(TopicPartition(*p), timeout_ms=limit) for p in partitions}
    finally:
        consumer.close(autocommit=False, timeout_ms=1000)
    return {partition: offset for partition, offset in found.items() if offset is not None}


class KafkaOwner:
    """The owner of a shard; made by `KafkaLog.owner`.

    Parameters
    ----------
    options
        The clients' settings.
    name, shard
        The consumer group, and with the shard the transactional id.
    inputs
        The partitions to consume.
    place
        The partition a record goes to; TransportError where its topic is unknown.
    """

    fenced = ""  # a broker does not tell which process an older owner is

    def __init__(
        self,
        options: KafkaOptions,
        name: str,
        shard: int,
        inputs: Sequence[Partition],
        place: Callable[[Outgoing], int],
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
            # Fence before anything is read: what the old owner has in hand is aborted by this.
            self._producer.init_transactions()
            self._identity = self._producer._transaction_manager.producer_id_and_epoch
            self._consumer = column_consumer(options.consumer(), together=True)
            self._inputs = KafkaInputs(self._consumer, inputs)

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Start polling each input at its position.

        Raises
        ------
        TransportError
            A position is not within what the partition holds.
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
    ) -> list[Fetched]:
        """Records from the inputs but those of `skip`; empty when none came within `timeout`.

        A record that cannot be read raises once; asking this client again would never return,
        which is one more reason why the owner is dead then.
        """
        with self._guarded("poll the inputs"):
            return self._inputs.poll(
                max_records=max_records, timeout=timeout, skip=skip, max_bytes=max_bytes
            )

    def ends(self) -> dict[Partition, int]:
        """The newest known end of each input; of one that has no more to give, where the caller is.

        So an input is caught up when its end is not beyond the caller's next offset, whatever
        markers of transactions lie behind its last record.
        """
        with self._guarded("find the inputs' ends"):
            return self._inputs.ends()

    def uncommitted(self) -> dict[Partition, Uncommitted]:
        """What open transactions of others keep from each input, as of the last `ends`."""
        return self._inputs.uncommitted()

    def commit(
        self, records: Sequence[Outgoing], journal: Outgoing, positions: Mapping[Partition, int]
    ) -> int:
        """Write records, journal record and offsets in one transaction; the entry's offset."""
        with self._guarded("commit"):
            producer = self._producer
            placed = [(record, self._place(record)) for record in (*records, journal)]
            reach("before_begin")
            producer.begin_transaction()
            handed = send(producer, placed)
            reach("mid_send")
            # Before the offsets and the commit: neither of them would tell.
            acknowledged(producer, handed, self._options.seconds("delivery_timeout_ms"))
            reach("after_check")
            self._finish(producer, positions)
            reach("after_commit")
            return handed[-1].last_offset

    def confirm(self, positions: Mapping[Partition, int]) -> None:
        """A transaction of nothing but the offsets as they are: only an owner can make it."""
        with self._guarded("confirm the ownership"):
            self._producer.begin_transaction()
            self._finish(self._producer, positions)

    def _finish(self, producer: BatchProducer, positions: Mapping[Partition, int]) -> None:
        offsets = {
            TopicPartition(*partition): OffsetAndMetadata(position, "", -1)
            for partition, position in positions.items()
        }

        def finish() -> None:
            # Also without an offset: this asks the coordinator whether we still own the shard.
            producer.send_offsets_to_transaction(offsets, self._name)
            reach("after_offsets")
            reach("in_commit")
            producer.commit_transaction()

        # Both wait without a limit. One that took longer than a request may take was possibly
        # sent twice, and the second could end a later transaction: unknown is the safe word.
        within(self._options.seconds("request_timeout_ms"), "commit", finish)

    def committed(self) -> dict[Partition, int]:
        """The group's committed offsets of the inputs that have one."""
        with self._guarded("read the committed offsets"):
            return committed_offsets(self._options, self._name, list(self._parts.values()))

    @property
    def closed(self) -> bool:
        """Whether it has let go of its clients: it was closed, or has failed."""
        return self._dead is not None

    def close(self) -> None:
        """Give up polling; ownership ends with the next owner."""
        if self._dead is None:
            self._die("it was closed")

    @contextmanager
    def _guarded(self, doing: str) -> Iterator[None]:
        """Whatever is raised inside ends this owner, also an interrupt in mid-commit."""
        if self._dead is not None:
            raise TransportError(
                f"expected an owner in use to {doing}, {self._dead}; take ownership again"
            )
        try:
            yield
        except BaseException as error:
            self._die("it has failed before")
            if isinstance(error, FencedError) or not isinstance(error, Exception):
                raise
            # Also where our own limit was passed: a process that was stopped for as long wakes to
            # that, and starting over would fence whoever has taken its place.
            if self._overtaken():
                error = ProducerFencedError()
            if isinstance(error, HeadwaterError):
                raise
            raise explain(error, self._options.servers, doing) from error

    def overtaken(self) -> bool:
        """Whether another owner has taken over since, as the coordinator knows it."""
        doing = "ask whose the shard is"
        limit = self._options.seconds("request_timeout_ms")
        with explained(self._options.servers, doing):
            return bool(within(limit, doing, self._ask_owner))

    def _overtaken(self) -> bool:
        """The same within a moment, or False: then the first error is the better answer."""
        with suppress(Exception):
            return within(4, "name the owner", self._ask_owner) is True
        return False

    def _ask_owner(self) -> bool:
        """Whether the coordinator knows a newer owner than this one.

        While another one takes over, a broker answers the end of our transaction with whatever
        its state machine met, "unknown server error" for one. Taken for a failure of the broker,
        it would be followed by a fresh start, and that would fence the newer owner.
        """
        manager = getattr(self._producer, "_transaction_manager", None)
        ours = getattr(manager, "producer_id_and_epoch", None)
        if ours is None or not ours.is_valid:  # while the client asks for a new one
            ours = self._identity
        if ours is None:
            return False
        admin = KafkaAdminClient(**self._options.admin())
        try:
            told = admin.describe_transactions([self._transactional_id])
        except _CANNOT_TELL:
            return False
        finally:
            admin.close()
        now = told[self._transactional_id]
        if (now.producer_id, now.producer_epoch) == (ours.producer_id, ours.epoch + 1):
            # The broker counts one on when it aborts a transaction of ours that took too long.
            return str(now.state.value) not in _ABORTED
        return bool(now.producer_id != ours.producer_id or now.producer_epoch > ours.epoch)

    def _die(self, why: str) -> None:
        """Refuse every further call and let go of the clients, at their best within a moment."""
        self._dead = why
        producer, consumer = self._producer, self._consumer

        def close() -> None:
            if producer is not None:
                # An open transaction is left open: the next owner aborts it by its fence.
                discard(producer)
            if consumer is not None:
                consumer.close(autocommit=False, timeout_ms=1000)

        with suppress(Exception):
            within(4, "close", close)
