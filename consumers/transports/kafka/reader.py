"""A consumer whose polls return columns. It changes only how the client decodes a batch.

Fetches, positions, sessions, checksums and the choice of committed batches are the client's. For
the answer of one partition to a fetch the client creates a `PartitionRecords`, whose `take` returns
single records. `_Taken` replaces their list: its length is the number of records, but it yields one
chunk.

Rule: garbage is collected by its bytes. Each wait of the client that times out leaves a reference
cycle of its error and the frames of the stack, and these hold the records that the poll returned.
Python counts objects, and large records are few objects: a gigabyte of them would stay uncollected.
"""

from __future__ import annotations

import gc
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError, UnsupportedCodecError
from kafka.protocol.consumer import IsolationLevel, ListOffsetsRequest

from consumers.base.cells import sizes
from consumers.base.records import Fetched, Partition, joined
from consumers.transports.kafka.batches import columns
from consumers.transports.registry import NO_KEY_HEADERS, KeyHeaders

__all__ = ["column_consumer"]

_CONSUMER = -1  # the sender of a request: a replica by its broker's number, or a consumer
_UNPACKED = 8  # times `fetch_max_bytes`: the size to which a batch may decompress
_COLLECTED = 32 * 2**20  # bytes of records between two collections of some milliseconds each


class _ColumnConsumer(KafkaConsumer):  # type: ignore[misc]
    """The client's consumer, with positions of many partitions at once."""

    def positions(self, parts: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offset to read of each assigned partition.

        The client's `position` checks every assigned partition to answer for one, so calling it
        for all of them is quadratic. `poll` makes the same checks, once for all.
        """
        assigned = self._subscription.assignment
        found = {}
        for part in parts:
            position = assigned[part].position
            found[part] = self.position(part) if position is None else position.offset
        return found


def column_consumer(
    settings: Mapping[str, Any],
    *,
    together: bool = False,
    key_headers: KeyHeaders = NO_KEY_HEADERS,
) -> Any:
    """A `KafkaConsumer` whose `poll` returns lists of `Fetched` by partition.

    It also has `positions`, the next offset of many partitions at once.

    Parameters
    ----------
    settings
        The client's settings.
    together
        Fetch all partitions at once, when no record waits to be polled. Otherwise the client
        fetches those partitions for which none waits. If these are at their end, the broker delays
        its answer for `fetch_max_wait_ms`, and until then no other partition is fetched.
    key_headers
        See `open_log`.
    """
    consumer = _ColumnConsumer(**settings)
    fetcher = consumer._fetcher

    class Bounded(_PartitionColumns):
        most = _UNPACKED * consumer.config["fetch_max_bytes"]
        headers: KeyHeaders = key_headers

    fetcher.PartitionRecords = Bounded
    if together:
        every = fetcher._fetchable_partitions
        fetcher._fetchable_partitions = lambda: [] if _unpolled(fetcher) else every()
    # The client does not pass the option to this part, which would sleep five times as long.
    consumer._cluster.config["retry_backoff_ms"] = consumer.config["retry_backoff_ms"]
    _ask_as_consumer(fetcher._manager)
    return consumer


def _ask_as_consumer(manager: Any) -> None:
    """Make this client request offsets as a consumer, whatever its default is.

    kafka-python 3.1.0.dev omits the replica's number, so it is 0. A broker answers replica 0 with
    the end of the log, including open transactions; a consumer gets the last stable offset.
    """
    send = manager.send

    def sent(request: Any, *args: Any, **named: Any) -> Any:
        if isinstance(request, ListOffsetsRequest):
            request.replica_id = _CONSUMER
        return send(request, *args, **named)

    manager.send = sent


def _unpolled(fetcher: Any) -> bool:
    """Whether records wait to be polled."""
    return bool(fetcher._completed_fetches or fetcher._next_partition_records)


class _Garbage:
    """Garbage that holds records in reference cycles."""

    def __init__(self) -> None:
        self._bytes = 0

    def grow(self, size: int) -> None:
        """Count bytes that were read. Every `_COLLECTED` bytes, young garbage is collected."""
        self._bytes += size
        if self._bytes >= _COLLECTED:
            self._bytes = 0
            gc.collect(1)


class _Taken:
    """A chunk with the length that the fetcher expects."""

    def __init__(self, chunk: Fetched) -> None:
        self._chunk = chunk

    def __len__(self) -> int:
        return len(self._chunk)

    def __iter__(self) -> Iterator[Fetched]:
        return iter((self._chunk,))


class _PartitionColumns(Fetcher.PartitionRecords):  # type: ignore[misc]
    """The records of one partition in a fetch."""

    most = 1 << 62  # bytes to which a batch may decompress
    headers: KeyHeaders = NO_KEY_HEADERS
    garbage = _Garbage()  # of the process
    _rest: Fetched | None = None  # decoded and not taken yet

    def _maybe_skip_record(self, _: Fetched) -> bool:
        return False  # `_unpack_records` omits records before the position

    def take(self, n: int | None = None) -> _Taken:
        """The next `n` records, fewer at the end. When none are left, it is drained."""
        self._maybe_raise_next_inline_exception()
        parts: list[Fetched] = []
        left = n or 1 << 62
        try:
            while left > 0:
                rest, self._rest = self._rest or next(self.record_iterator, None), None
                if rest is None:
                    self.drain()
                    break
                part = rest
                if len(rest) > left:
                    part, self._rest = rest.shift(left), rest
                parts.append(part)
                left -= len(part)
                self.next_fetch_offset = part.offsets[-1] + 1
        except Exception as error:
            if not parts:
                raise
            self._next_inline_exception = error  # raised by the next call, as the client does
        chunk = joined(Partition(*self.topic_partition), parts)
        self.records_read += len(chunk)
        return _Taken(chunk)

    def _unpack_records(self, tp: Any, records: Any, *_: Any) -> Iterator[Fetched]:
        """The records of each batch that has committed ones."""
        last = None
        while (batch := records.next_batch()) is not None:
            last = batch
            if not batch.validate_crc():
                raise CorruptRecordError(
                    f"Record batch for partition {tp} at offset {batch.base_offset} failed crc "
                    "check"
                )
            if batch.magic == 2:
                self.leader_epoch = batch.leader_epoch
                if self._unwanted(batch):
                    self.next_fetch_offset = batch.next_offset
                    continue
            try:
                found = columns(batch, self.most, self.headers.get(tp.topic))
            except UnsupportedCodecError as error:
                where = f"partition {tp.partition} of {tp.topic} at offset {batch.base_offset}"
                raise type(error)(f"{error} ({where})") from None
            self.bytes_read += batch.size_in_bytes
            self.garbage.grow(int(np.maximum(sizes(found[3]), 0).sum()))
            part = Fetched(Partition(*tp), *found)
            before = bisect_left(part.offsets, self.fetch_offset)
            if before:  # a fetch returns whole batches
                part.shift(before)
            if len(part):
                yield part
        if last is not None and last.magic == 2:
            self.next_fetch_offset = last.next_offset  # compaction may remove last records

    def _unwanted(self, batch: Any) -> bool:
        """Whether it has no records to return: markers, and aborted batches."""
        aborted = False
        if self.isolation_level == IsolationLevel.READ_COMMITTED and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            else:
                aborted = self._is_batch_aborted(batch)
        return aborted or batch.is_control_batch
