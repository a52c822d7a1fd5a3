"""Records into kafka-python's producer, and the proof that each of them was written.

`BatchProducer.send_many` is the client's `send` for many records of one partition: the same
checks in the same order, but whole batches instead of records go to its accumulator, and one
future is made a batch. From there on (sequence numbers, retries, transactions, acknowledgements)
all is the client's own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.errors import IllegalStateError, KafkaError, MessageSizeTooLargeError
from kafka.producer.producer_batch import ProducerBatch

from consumers.base.errors import TransportError
from consumers.base.failpoints import reach
from consumers.base.records import Outgoing
from consumers.transports.kafka.batches import written

__all__ = ["BatchProducer", "PendingSends", "acknowledged", "discard", "send"]


class PendingSends:
    """Records of one batch that were handed to the producer.

    Parameters
    ----------
    future
        The client's future of the batch.
    count
        How many records the batch holds.
    """

    def __init__(self, future: Any, count: int) -> None:
        self._future, self.count = future, count

    @property
    def is_done(self) -> bool:
        """Whether the batch was answered, or given up."""
        return bool(self._future.is_done)

    @property
    def exception(self) -> BaseException | None:
        """Why they were not written; None while that is not known."""
        if not self.is_done:
            return None
        if self._future.exception is not None:
            return self._future.exception  # type: ignore[no-any-return]
        why = self._future.value[2]  # a function of the record's number, where the batch failed
        if why is None:
            return None
        # A batch fails whole for one bad record; the others only say that they were beside it.
        found: list[BaseException] = [why(number) for number in range(self.count)]
        return next((error for error in found if type(error) is not KafkaError), found[0])

    @property
    def base_offset(self) -> int:
        """The offset of the first of them, once they are written; negative where it is unknown."""
        return int(self._future.value[0])

    @property
    def last_offset(self) -> int:
        """The offset of the last of them, once they are written."""
        return self.base_offset + self.count - 1


class BatchProducer(KafkaProducer):  # type: ignore[misc]
    """kafka-python's producer, to which records can be given by the batch."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # The client halves a batch that is too large for its topic, and gives the halves the
        # futures of their records. Ours has one: half of it could be lost unseen.
        self._sender._can_split = lambda batch, error: False

    def send_many(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> list[PendingSends]:
        """Hand over records of one partition, in order.

        Raises
        ------
        KafkaError
            The topic's metadata cannot be had; a record is larger than a request may be; the
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
            out.append(PendingSends(batch.produce_future, count))
        self._sender.wakeup()
        return out


@contextmanager
def _appending(accumulator: Any) -> Iterator[None]:
    """As the client marks an append under way: a forced close waits for it."""
    accumulator._appends_in_progress.increment()
    try:
        yield
    finally:
        accumulator._appends_in_progress.decrement()


def send(producer: BatchProducer, placed: Sequence[tuple[Outgoing, int]]) -> list[PendingSends]:
    """Hand the records to the producer, each for its partition and in order there.

    The last one's batch is the last of those returned.
    """
    parts: dict[tuple[str, int], list[Outgoing]] = {}
    for record, number in placed:
        where = (record[0], number)
        if where not in parts:
            parts[where] = []
        parts[where].append(record)
    if not placed:
        return []
    last = (placed[-1][0].topic, placed[-1][1])
    handed: list[PendingSends] = []
    for where, records in [*((w, r) for w, r in parts.items() if w != last), (last, parts[last])]:
        handed += producer.send_many(*where, records)
    return handed


def acknowledged(producer: Any, futures: Sequence[Any], seconds: float) -> None:
    """Wait until every record is written; raise what befell the first that was not.

    A failed record does not fail its transaction in this client: the commit would succeed
    without it. And the commit of a transaction that the broker has timed out returns normally:
    only the future of a batch tells. Nor does success prove it: where the broker answers that it
    holds the batch already (DUPLICATE_SEQUENCE_NUMBER), the client reports success at offset -1.
    """
    producer.flush(seconds)
    reach("after_flush")
    for future in futures:
        if future.exception is not None:
            raise future.exception
        if not future.is_done:
            raise TransportError(
                "expected Kafka to acknowledge every record, one is still unanswered; see whether "
                "the broker is up, then start again"
            )
        if future.base_offset < 0:
            raise TransportError(
                "expected the offset of every record, Kafka answered that it holds one of them "
                "already and not where: whether it was written once is unknown; start again"
            )


def discard(producer: Any) -> None:
    """Close a producer that is done with, whatever it still has in hand.

    The client's own `close` flushes first. Where that fails it raises and leaves everything
    running: the records are written later after all, and the end of the process is a traceback.
    """
    with suppress(Exception):
        producer._sender.force_close()
    with suppress(Exception):
        producer.close(timeout=1)
