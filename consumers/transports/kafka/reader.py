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
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError, UnsupportedCodecError
from kafka.protocol.consumer import IsolationLevel, ListOffsetsRequest

from consumers.base.cells import lengths
from consumers.base.records import Fetched, Partition, joined
from consumers.transports.kafka.batches import (
    MAGIC,
    Columns,
    PlainRun,
    body,
    columns_of,
    one_by_one,
    place,
    plain_run,
    starts_plain,
)
from consumers.transports.registry import NO_KEY_HEADERS, KeyHeaders

__all__ = ["column_consumer"]

# A batch, and its records; b"" if it has one of the oldest formats.
_Body = tuple[Any, bytes | memoryview]

_CONSUMER = -1  # the sender of a request: a replica by its broker's number, or a consumer
_UNPACKED = 8  # times `fetch_max_bytes`: the size to which a batch may decompress
_RESTING = 4  # times `fetch_max_wait_ms`: how long a broker waits while there are no records
_RUN = 2**20  # bytes of records that are looked for in one call
_COLLECTED = 32 * 2**20  # bytes of records between two collections of some milliseconds each


class _ColumnConsumer(KafkaConsumer):  # type: ignore[misc]
    """The client's consumer, with positions and ends of many partitions at once."""

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

    def rest(self, longer: bool) -> None:
        """Whether the next fetches may wait longer for records."""
        wait = self.config["fetch_max_wait_ms"]
        most = max(wait, self.config["request_timeout_ms"] // 2)
        self._fetcher.config["fetch_max_wait_ms"] = min(_RESTING * wait, most) if longer else wait

    def beginning_offsets(self, parts: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each."""
        return self._complete(super().beginning_offsets, parts)

    def end_offsets(self, parts: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record of each."""
        return self._complete(super().end_offsets, parts)

    def _complete(
        self,
        ask: Callable[[Sequence[TopicPartition]], dict[TopicPartition, int]],
        parts: Sequence[TopicPartition],
    ) -> dict[TopicPartition, int]:
        """The offsets of all partitions, also of topics that the client does not know yet.

        If it knows others of them, kafka-python 3.0.12 asks only for these, requests the metadata
        of the missing ones, and raises KeyError.
        """
        deadline = time.monotonic() + self.config["request_timeout_ms"] / 1000
        while True:
            try:
                return ask(parts)
            except KeyError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(self.config["retry_backoff_ms"] / 1000)

    def highwaters(self) -> dict[TopicPartition, int]:
        """The newest known end of each assigned partition that has one, as `highwater`."""
        assigned = self._subscription.assignment.items()
        return {part: state.highwater for part, state in assigned if state.highwater is not None}


def column_consumer(
    settings: Mapping[str, Any],
    *,
    together: bool = False,
    key_headers: KeyHeaders = NO_KEY_HEADERS,
) -> Any:
    """A `KafkaConsumer` whose `poll` returns lists of `Fetched` by partition.

    It also has `positions` and `highwaters`, the next offsets and the ends of many partitions at
    once.

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
        fetcher._fetchable_partitions = lambda: (
            [] if _unpolled(fetcher) or _all_asked(fetcher) else every()
        )
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


def _all_asked(fetcher: Any) -> bool:
    """Whether every broker has a fetch to answer. Then the client would look at each partition and
    ask for none."""
    brokers = {broker.node_id for broker in fetcher._manager.cluster.brokers()}
    return bool(brokers) and brokers <= fetcher._nodes_with_pending_fetch_requests


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
    _after: tuple[int, int] | None = None  # of the last batch: its leader, and the offset after it
    _damaged = False  # a plain batch has a damaged record

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
        """The records of the batches that have committed ones, of many batches at once."""
        while records.has_next():
            if self._is_plain(records) and (run := plain_run(records, _RUN)) is not None:
                yield from self._plain(tp, records, run)
                continue
            for batches in _runs(self._wanted(tp, records)):
                yield from self._found(tp, batches)
        if self._after is not None:
            # Compaction may remove the last records of a batch.
            self.leader_epoch, self.next_fetch_offset = self._after

    def _is_plain(self, records: Any) -> bool:
        """Whether one call can read the next batches, all of which are committed."""
        aborted = self.aborted_transactions or self.aborted_producer_ids
        return not (aborted or self._damaged) and starts_plain(records)

    def _plain(self, tp: Any, records: Any, run: PlainRun) -> Iterator[Fetched]:
        """The records of plain batches."""
        try:
            found = run.columns(self.headers.get(tp.topic))
        except CorruptRecordError:
            self._damaged = True
            place(records, run.start)  # batch by batch: those before it are still returned
            return
        self.leader_epoch = run.epoch
        self._after = run.epoch, run.next_offset
        self.bytes_read += run.end - run.start
        yield from self._chunk(tp, found)

    def _wanted(self, tp: Any, records: Any) -> Iterator[_Body]:
        """The batches that have committed records, up to the next plain one. At least one."""
        first = True
        while records.has_next() and (first or not self._is_plain(records)):
            batch, first = records.next_batch(), False
            self._after = (batch.leader_epoch, batch.next_offset) if batch.magic == MAGIC else None
            if not batch.validate_crc():
                raise CorruptRecordError(
                    f"Record batch for partition {tp} at offset {batch.base_offset} failed crc "
                    "check"
                )
            if batch.magic == MAGIC and self._unwanted(batch):
                self.leader_epoch = batch.leader_epoch
                self.next_fetch_offset = batch.next_offset
                continue
            self.bytes_read += batch.size_in_bytes
            try:
                records_of = body(batch, self.most) if batch.magic == MAGIC else b""
            except UnsupportedCodecError as error:
                where = f"partition {tp.partition} of {tp.topic} at offset {batch.base_offset}"
                raise type(error)(f"{error} ({where})") from None
            yield batch, records_of

    def _found(self, tp: Any, run: Sequence[_Body]) -> Iterator[Fetched]:
        """The records of a run of batches. Those before a damaged batch are still returned."""
        header = self.headers.get(tp.topic)
        found: Columns | None
        try:
            if run[0][0].magic < MAGIC:
                found = one_by_one(run[0][0], header)
            else:
                found = columns_of([batch for batch, _ in run], [each for _, each in run], header)
                self.leader_epoch = run[-1][0].leader_epoch
        except CorruptRecordError:
            if len(run) == 1:
                raise
            found = None
        if found is None:
            for each in run:
                yield from self._found(tp, [each])
            return
        yield from self._chunk(tp, found)

    def _chunk(self, tp: Any, found: Columns) -> Iterator[Fetched]:
        """The records from the position on, if there are any."""
        self.garbage.grow(int(lengths(found[3]).sum()))
        part = Fetched(Partition(*tp), *found)
        before = bisect_left(part.offsets, self.fetch_offset)
        if before:  # a fetch returns whole batches
            part.shift(before)
        if len(part):
            yield part

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


def _runs(batches: Iterable[_Body]) -> Iterator[list[_Body]]:
    """Batches whose records are looked for together, because a call costs as much as ten records.

    A batch of the oldest formats is alone, and all of a run were written under one leader. An error
    comes after the batches before it.
    """
    run: list[_Body] = []
    size, leader, failed = 0, None, None
    try:
        for batch, records in batches:
            epoch = batch.leader_epoch if batch.magic == MAGIC else None
            if run and (epoch is None or epoch != leader or size + len(records) > _RUN):
                yield run
                run, size = [], 0
            run.append((batch, records))
            size, leader = size + len(records), epoch
    except Exception as error:
        failed = error
    if run:
        yield run
    if failed is not None:
        raise failed
