"""Write records with kafka-python's producer, and verify that each of them was written.

`BatchProducer.send_many` is the client's `send` for many records of one partition. It makes the
same checks in the same order, but passes whole batches to the accumulator and creates one future
per batch. The client does the rest (sequence numbers, retries, transactions, acknowledgements).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.errors import (
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
)
from kafka.producer.producer_batch import ProducerBatch
from kafka.producer.transaction_manager import EndTxnHandler, TxnOffsetCommitHandler

from consumers.base.errors import NoAnswerError, TransportError
from consumers.base.failpoints import reach
from consumers.base.records import Outgoing
from consumers.transports.kafka.batches import written

__all__ = [
    "BatchProducer",
    "PendingSends",
    "acknowledged",
    "by_place",
    "discard",
    "places",
    "send",
    "send_ends_once",
]

Place = tuple[str, int]


class PendingSends:
    """Records of one batch that were passed to the producer.

    Parameters
    ----------
    future
        The client's future of the batch.
    count
        How many records the batch holds.
    place
        Topic and partition of the batch.
    """

    def __init__(self, future: Any, count: int, place: tuple[str, int]) -> None:
        self._future, self.count, self.place = future, count, place

    @property
    def is_done(self) -> bool:
        """Whether the batch was acknowledged or has failed."""
        return bool(self._future.is_done)

    @property
    def exception(self) -> BaseException | None:
        """Why they were not written; None while that is not known."""
        if not self.is_done:
            return None
        if self._future.exception is not None:
            return self._future.exception  # type: ignore[no-any-return]
        why = self._future.value[2]  # a function of the record's number, if the batch failed
        if why is None:
            return None
        # One bad record fails the whole batch. The others only report that they were in it.
        found: list[BaseException] = [why(number) for number in range(self.count)]
        return next((error for error in found if type(error) is not KafkaError), found[0])

    @property
    def base_offset(self) -> int:
        """The offset of the first record, once it is written; negative if it is unknown."""
        return int(self._future.value[0])

    @property
    def last_offset(self) -> int:
        """The offset of the last record, once it is written."""
        return self.base_offset + self.count - 1


class BatchProducer(KafkaProducer):  # type: ignore[misc]
    """kafka-python's producer, with a method to send whole batches."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # The client splits a batch that is too large for its topic, and moves the futures of the
        # records to the halves. Our batch has one future, so half of it could be lost unnoticed.
        self._sender._can_split = lambda batch, error: False
        if self._transaction_manager is not None:
            send_ends_once(self._transaction_manager)

    def send_many(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> list[PendingSends]:
        """Pass records of one partition to the client, in order. It sends them after `wake`.

        Raises
        ------
        KafkaError
            The topic's metadata is not available, a record is larger than a request may be, or the
            transaction is not open or has failed.
        """
        part = TopicPartition(topic, partition)
        if partition not in self._wait_on_metadata(topic, self.config["max_block_ms"]):
            raise ValueError(f"no partition {partition} of topic {topic}")
        manager = self._transaction_manager
        if manager.is_transactional():
            manager.maybe_add_partition_to_transaction(part)
        accumulator, largest = self._accumulator, self.config["max_request_size"]
        out = []
        batches = written(
            records,
            compression=self.config["compression_attrs"],
            batch_size=min(self.config["batch_size"], largest),
        )
        for builder, count in batches:
            if builder.size_in_bytes() > largest:
                raise MessageSizeTooLargeError("a record is larger than max_request_size")
            batch = ProducerBatch(part, builder, now=time.monotonic())
            with _appending(accumulator), accumulator._tp_lock(part):
                if accumulator._closed:
                    raise IllegalStateError("the producer is closed")
                accumulator._batches[part].append(batch)
                accumulator._incomplete.add(batch)
            out.append(PendingSends(batch.produce_future, count, (topic, partition)))
        return out

    def wake(self) -> None:
        """Let the client send what it was passed."""
        self._sender.wakeup()


def send_ends_once(manager: Any) -> None:
    """Fail a transaction whose end, or whose offsets, may have been lost with the connection.

    The client sends such a request again. If both arrive, the later copy ends a transaction that
    the same producer has begun meanwhile, or sets its offsets back, because a request names
    producer and epoch and no transaction
    (docs/decisions/exactly-once.md#the-end-of-a-transaction-is-sent-once). A failed producer is
    given up, and the epoch of the next one makes the broker refuse what is still on its way.
    """
    enqueue = manager._enqueue_request

    def enqueue_once(handler: Any) -> None:
        if isinstance(handler, TxnOffsetCommitHandler | EndTxnHandler) and not handler.is_retry:
            handler.on_complete = partial(_completed, handler.on_complete)
        enqueue(handler)

    manager._enqueue_request = enqueue_once


def _completed(completed: Any, correlation_id: int, answer: Any) -> None:
    """Pass the answer to the client, a lost connection as an error after which it does not retry.

    An error that the broker answers is no such case: then the request has arrived.
    """
    if isinstance(answer, KafkaConnectionError):
        lost = " ".join(str(answer).split())
        answer = KafkaError(f"the connection was lost before Kafka answered ({lost})")
    completed(correlation_id, answer)


@contextmanager
def _appending(accumulator: Any) -> Iterator[None]:
    """Mark an append in progress, as the client does: a forced close waits for it."""
    accumulator._appends_in_progress.increment()
    try:
        yield
    finally:
        accumulator._appends_in_progress.decrement()


def by_place(placed: Iterable[tuple[Outgoing, int]]) -> list[tuple[Place, Sequence[Outgoing]]]:
    """The records of each topic and partition, in order."""
    parts: dict[Place, list[Outgoing]] = {}
    for record, number in placed:
        where = (record[0], number)
        if where not in parts:
            parts[where] = []
        parts[where].append(record)
    return list(parts.items())


def send(
    producer: BatchProducer, parts: Iterable[tuple[Place, Sequence[Outgoing]]]
) -> list[PendingSends]:
    """Send the records, part by part. The last record is in the last batch.

    The client is woken once. Otherwise it would send the first parts in requests of their own.
    """
    out = [batch for where, records in parts for batch in producer.send_many(*where, records)]
    producer.wake()
    return out


def places(
    placed: Sequence[tuple[Outgoing, int]], written: Sequence[PendingSends]
) -> list[tuple[int, int]]:
    """Partition and offset of each placed record, once `written`, its batches, are acknowledged.

    The batches of a partition are in the order of its records. Other producers may write between
    two batches.
    """
    offsets: dict[tuple[str, int], list[int]] = {}
    for batch in written:
        offsets.setdefault(batch.place, []).extend(range(batch.base_offset, batch.last_offset + 1))
    nexts = {place: iter(each) for place, each in offsets.items()}
    return [(number, next(nexts[record.topic, number])) for record, number in placed]


def acknowledged(producer: Any, futures: Sequence[Any], seconds: float) -> None:
    """Wait until every record is written. Raises the error of the first that was not.

    In this client a failed record does not fail its transaction: the commit would succeed without
    it. The commit of a transaction that the broker has timed out also returns normally. Only the
    future of a batch shows it. Even success is no proof: if the broker answers that it already has
    the batch (DUPLICATE_SEQUENCE_NUMBER), the client reports success at offset -1.
    """
    producer.flush(seconds)
    reach("after_flush")
    for future in futures:
        if future.exception is not None:
            raise future.exception
        if not future.is_done:
            raise NoAnswerError(
                "expected Kafka to acknowledge every record, but one is unanswered; check that the "
                "broker runs, then start again"
            )
        if future.base_offset < 0:
            raise TransportError(
                "expected the offset of every record, but Kafka answered that it already has one "
                "of them: whether it was written exactly once is unknown; start again"
            )


def discard(producer: Any) -> None:
    """Close a producer that is no longer used, with any records it still has.

    The client's own `close` flushes first. If that fails, it raises and leaves everything running:
    the records may be written later, and the process ends with a traceback.
    """
    with suppress(Exception):
        producer._sender.force_close()
    with suppress(Exception):
        producer.close(timeout=1)
