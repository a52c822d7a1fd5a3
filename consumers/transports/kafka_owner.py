"""The owner of a shard on Kafka: the one call pattern with which kafka-python's commits are safe.

Fence first. Send, flush, see every record acknowledged, then the offsets, then the commit, within
a limit. After any exception this owner is dead: its producer may carry offsets of the failed
commit into the next one, or report a commit that the broker has aborted. It is never used again,
recovery makes a new one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from consumers.errors import HeadwaterError, TransportError
from consumers.records import Fetched, Outgoing, Partition
from consumers.transports.kafka_errors import CONNECT, explain, within
from consumers.transports.kafka_options import KafkaOptions

__all__ = ["KafkaOwner", "acknowledged", "fetched"]

_STABLE_SECONDS = 0.2  # at least this long between two questions where committed records end


def fetched(partition: Partition, records: Sequence[Any]) -> Fetched:
    """The client's records of one partition as columns."""
    return Fetched(
        partition,
        [record.offset for record in records],
        [record.timestamp for record in records],
        [record.key for record in records],
        [record.value for record in records],
    )


def acknowledged(futures: Sequence[Any]) -> None:
    """Raise what befell the first record that was not written.

    A failed record does not fail its transaction in this client: the commit would succeed
    without it. And the commit of a transaction that the broker has timed out returns normally:
    only the record's own future tells.
    """
    for future in futures:
        if future.exception is not None:
            raise future.exception
        if not future.is_done:
            raise TransportError(
                "expected Kafka to acknowledge every record, one is still unanswered; see whether "
                "the broker is up, then start again"
            )


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
        self._inputs = {TopicPartition(*partition): partition for partition in inputs}
        self._place = place
        self._next: dict[TopicPartition, int] = {}  # where the caller is: after its last record
        self._stable: dict[TopicPartition, int] = {}  # where committed records ended, when asked
        self._asked = 0.0
        self._silent: set[TopicPartition] = set()  # neither skipped nor served by the last poll
        self._skipped: frozenset[TopicPartition] = frozenset()
        self._dead: str | None = None
        self._consumer: Any = None
        self._producer: Any = None
        with self._guarded(CONNECT):
            self._producer = KafkaProducer(**options.producer(f"{name}.{shard}"))
            # Fence before anything is read: what the old owner has in hand is aborted by this.
            self._producer.init_transactions()
            # Partitions are assigned, never subscribed to: a member that lost its group without
            # noticing could still commit offsets.
            self._consumer = KafkaConsumer(**options.consumer())

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Start polling each input at its position.

        Raises
        ------
        TransportError
            A position is not within what the partition holds.
        """
        with self._guarded("find the inputs' positions"):
            consumer, parts = self._consumer, list(self._inputs)
            first, self._stable = consumer.beginning_offsets(parts), consumer.end_offsets(parts)
            consumer.assign(parts)
            for part, partition in self._inputs.items():
                position = positions[partition]
                if not first[part] <= position <= self._stable[part]:
                    raise TransportError(
                        f"expected {partition} to hold offset {position}, it holds {first[part]} "
                        f"to {self._stable[part]}: its retention is too short or the topic was "
                        "made anew; restore it, or start under a new name"
                    )
                consumer.seek(part, position)
                self._next[part] = position

    def poll(
        self, *, max_records: int, timeout: float, skip: Collection[Partition] = ()
    ) -> list[Fetched]:
        """Records from the inputs but those of `skip`; empty when none came within `timeout`.

        A record that cannot be read raises once; asking this client again would never return,
        which is one more reason why the owner is dead then.
        """
        with self._guarded("poll the inputs"):
            skipped = frozenset(TopicPartition(*partition) for partition in skip)
            if skipped != self._skipped:
                self._consumer.resume(*(self._skipped - skipped))
                self._consumer.pause(*(skipped - self._skipped))
                self._skipped = skipped
            polled = self._consumer.poll(timeout_ms=int(timeout * 1000), max_records=max_records)
            for part, records in polled.items():
                self._next[part] = records[-1].offset + 1
            self._silent = self._inputs.keys() - polled.keys() - skipped
            return [fetched(self._inputs[part], records) for part, records in polled.items()]

    def ends(self) -> dict[Partition, int]:
        """The newest known end of each input; of one that has no more to give, where polls are.

        Offsets have gaps, and the last one of a transaction is a marker nobody is given: once the
        client has passed all there is, the caller's own next offset is the end. What an unfinished
        transaction has written is not there yet: the end of that is asked for now and then.
        """
        with self._guarded("find the inputs' ends"):
            lagging = {}
            ends = {}
            for part, partition in self._inputs.items():
                end = self._consumer.highwater(part)  # told by each fetch, nothing is asked
                if end is None:
                    end = self._stable[part]
                position = self._consumer.position(part)
                if position >= end:
                    ends[partition] = self._next[part]
                else:
                    ends[partition] = end
                    lagging[part] = position
            doubtful = lagging.keys() & self._silent
            if doubtful and time.monotonic() - self._asked >= _STABLE_SECONDS:
                self._stable |= self._consumer.end_offsets(list(doubtful))
                self._asked = time.monotonic()
            for part in doubtful:
                # Equal, not beyond: where the position has moved on, the answer is too old.
                if self._stable[part] == lagging[part]:
                    ends[self._inputs[part]] = self._next[part]
            return ends

    def commit(
        self, records: Sequence[Outgoing], journal: Outgoing, positions: Mapping[Partition, int]
    ) -> int:
        """Write records, journal entry and offsets in one transaction; the entry's offset."""
        with self._guarded("commit"):
            producer, place = self._producer, self._place
            outgoing = [(record, place(record)) for record in (*records, journal)]
            offsets = {
                TopicPartition(*partition): OffsetAndMetadata(position, "", -1)
                for partition, position in positions.items()
            }
            producer.begin_transaction()
            futures = [
                producer.send(
                    record.topic,
                    record.value,
                    record.key,
                    list(record.headers),
                    partition,
                    record.timestamp,
                )
                for record, partition in outgoing
            ]
            producer.flush(self._options.seconds("delivery_timeout_ms"))
            acknowledged(futures)  # before the offsets and the commit, see there

            def finish() -> None:
                # Also without an offset: this asks the coordinator whether we still own the shard.
                producer.send_offsets_to_transaction(offsets, self._name)
                producer.commit_transaction()

            # Both wait without a limit. One that took longer than a request may take was possibly
            # sent twice, and the second could end a later transaction: unknown is the safe word.
            within(self._options.seconds("request_timeout_ms"), "commit", finish)
            return int(futures[-1].value.offset)

    def committed(self) -> dict[Partition, int]:
        """The group's committed offsets of the inputs that have one."""
        with self._guarded("read the committed offsets"):
            # A client of its own: in a group, the one that polls would mind the coordinator.
            consumer = KafkaConsumer(**self._options.consumer(), group_id=self._name)
            try:
                limit = self._options["request_timeout_ms"]
                found = {
                    partition: consumer.committed(part, timeout_ms=limit)
                    for part, partition in self._inputs.items()
                }
            finally:
                consumer.close(autocommit=False, timeout_ms=1000)
            return {partition: offset for partition, offset in found.items() if offset is not None}

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
            if isinstance(error, HeadwaterError) or not isinstance(error, Exception):
                raise
            raise explain(error, self._options.servers, doing) from error

    def _die(self, why: str) -> None:
        """Refuse every further call and let go of the clients, at their best within a moment."""
        self._dead = why
        producer, consumer = self._producer, self._consumer

        def close() -> None:
            if producer is not None:
                with suppress(Exception):
                    # An open transaction is left open: the next owner aborts it by its fence.
                    producer.close(timeout=1)
            if consumer is not None:
                consumer.close(autocommit=False, timeout_ms=1000)

        with suppress(Exception):
            within(4, "close", close)
