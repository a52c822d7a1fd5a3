"""The inputs of an owner on Kafka: records, ends, and records kept for later.

`KafkaConsumer.pause` is not used. With kafka-python 3.0.12 a partition that is paused while some of
its fetched records are undelivered may never deliver again (they are returned only while no other
partition's fetch is waiting, and meanwhile nothing new is fetched). Records of a skipped input are
kept here instead. When they are many, the partition is unassigned for a while.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka import TopicPartition

from consumers.base.errors import TransportError
from consumers.base.records import UNBOUNDED, Fetched, Partition, Uncommitted

__all__ = ["KafkaInputs"]

_HELD_BYTES = 4 * 2**20  # of skipped inputs, after which they are unassigned
_QUIET_SECONDS = 5.0  # without a record, after which a broker may wait longer for the next one
_STABLE_SECONDS = 0.2  # minimum time between two requests for the ends of committed records


class KafkaInputs:
    """The inputs of one owner.

    Parameters
    ----------
    consumer
        A `column_consumer` for these only. Partitions are assigned to it, never subscribed,
        because a member that lost its group without noticing could still commit offsets.
    inputs
        The partitions.
    """

    def __init__(self, consumer: Any, inputs: Sequence[Partition]) -> None:
        self._consumer = consumer
        self._inputs = {TopicPartition(*partition): partition for partition in inputs}
        self._assigned: set[TopicPartition] = set()
        self._next: dict[TopicPartition, int] = {}  # after the last record the caller received
        self._polled: dict[TopicPartition, int] = {}  # after the last record the client returned
        self._ends: dict[TopicPartition, int] = {}  # the newest known, including aborted records
        self._stable: dict[TopicPartition, int] = {}  # ends of committed records, when requested
        self._asked = 0.0
        # Inputs read up to an open transaction: its first offset, and the time of that.
        self._stuck: dict[TopicPartition, tuple[int, float]] = {}
        self._heard = time.monotonic()  # when the last records came
        self._silent: set[TopicPartition] = set()  # without records in the last poll
        self._held: dict[TopicPartition, deque[Fetched]] = {p: deque() for p in self._inputs}

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Start polling each input at its position."""
        parts = list(self._inputs)
        first = self._consumer.beginning_offsets(parts)
        self._stable = self._consumer.end_offsets(parts)
        self._ends = dict(self._stable)
        for part, partition in self._inputs.items():
            position = positions[partition]
            if not first[part] <= position <= self._stable[part]:
                raise TransportError(
                    f"expected {partition} to hold offset {position}, but it holds {first[part]} "
                    f"to {self._stable[part]}: its retention is too short or the topic was "
                    "recreated; restore it, or start under a new name"
                )
            self._next[part] = self._polled[part] = position
        self._assign(set(parts))

    def poll(
        self,
        *,
        max_records: int,
        timeout: float,
        skip: Collection[Partition],
        max_bytes: int,
        each: int = UNBOUNDED,
    ) -> list[Fetched]:
        """Records from the inputs except `skip`; empty if none arrived within `timeout`.

        Records of a poll beyond `max_bytes`, or of skipped inputs, are kept for later: at most one
        fetch and `_HELD_BYTES`.
        """
        skipped = {TopicPartition(*partition) for partition in skip}
        deadline = time.monotonic() + timeout
        while not (served := self._serve(max_records, max_bytes, skipped, each)):
            held = sum(chunk.nbytes for part in skipped for chunk in self._held[part])
            full = {part for part in skipped if self._held[part] and held >= _HELD_BYTES}
            self._assign(self._inputs.keys() - full)
            self._rest()
            left = max(0.0, deadline - time.monotonic())
            polled = self._consumer.poll(timeout_ms=int(left * 1000), max_records=max_records)
            if polled:
                self._heard = time.monotonic()
            for part, chunks in polled.items():
                self._polled[part] = chunks[-1].offsets[-1] + 1
                self._held[part].extend(chunks)
            self._silent = self._inputs.keys() - polled.keys() - skipped
            if not polled and time.monotonic() >= deadline:
                break
        return served

    def _rest(self) -> None:
        """Let a broker wait longer for records if none have come for seconds, because each request
        lists all partitions. Not if an open transaction hides records: the requests for its end
        would wait as long."""
        quiet = time.monotonic() - self._heard > _QUIET_SECONDS
        self._consumer.rest(quiet and not self._stuck and len(self._assigned) == len(self._inputs))

    def _serve(
        self, max_records: int, max_bytes: int, skipped: Collection[TopicPartition], each: int
    ) -> list[Fetched]:
        """Kept records of the inputs that are not skipped."""
        served = []
        wanted = [part for part, held in self._held.items() if held and part not in skipped]
        for part in wanted:
            if max_records <= 0 or max_bytes <= 0:
                break
            held, left = self._held[part], min(each, max_bytes)
            while held and max_records > 0 and left > 0:
                count = min(max_records, held[0].within(left))
                chunk = held.popleft() if count == len(held[0]) else held[0].shift(count)
                self._next[part] = chunk.offsets[-1] + 1
                max_records -= count
                max_bytes -= chunk.nbytes
                left -= chunk.nbytes
                served.append(chunk)
            self._held[part] = self._held.pop(part)  # last next time, so that none is always last
        return served

    def _assign(self, parts: set[TopicPartition]) -> None:
        """Let the client fetch only these. Added ones continue at their positions."""
        if parts == self._assigned:
            return
        self._learn_ends()
        self._consumer.assign([part for part in self._inputs if part in parts])
        for part in parts - self._assigned:
            self._consumer.seek(part, self._polled[part])
        self._assigned = parts

    def _learn_ends(self) -> None:
        self._ends |= self._consumer.highwaters()  # included in each fetch, so it is no request

    def ends(self) -> dict[Partition, int]:
        """The newest known end of each input, or the caller's position at the end of records.

        Offsets have gaps, and the last one of a transaction is a marker that is not returned. When
        the client has passed everything, the caller's own next offset is the end. Records of an
        unfinished transaction do not exist yet, so the end before them is requested periodically.
        """
        self._learn_ends()
        lagging = self._consumer.positions([p for p in self._assigned if not self._held[p]])
        passed = {part for part, position in lagging.items() if position >= self._ends[part]}
        doubtful = (lagging.keys() - passed) & self._silent
        if doubtful and time.monotonic() - self._asked >= _STABLE_SECONDS:
            self._stable |= self._consumer.end_offsets(list(doubtful))
            self._asked = time.monotonic()
        # Equal, not greater: if the position has moved on, the answer is too old.
        stuck = {part for part in doubtful if self._stable[part] == lagging[part]}
        passed |= stuck
        self._note_stuck(stuck, lagging)
        return {
            partition: self._next[part] if part in passed else self._ends[part]
            for part, partition in self._inputs.items()
        }

    def uncommitted(self) -> dict[Partition, Uncommitted]:
        """The records that open transactions hide in inputs read up to them; as of `ends`."""
        now = time.monotonic()
        return {
            self._inputs[part]: Uncommitted(at, self._ends[part] - at, now - since)
            for part, (at, since) in self._stuck.items()
        }

    def _note_stuck(
        self, parts: Collection[TopicPartition], read: Mapping[TopicPartition, int]
    ) -> None:
        """These inputs are at their last stable offset, before their high watermark."""
        now = time.monotonic()
        for part in parts:
            if part not in self._stuck or self._stuck[part][0] != self._stable[part]:
                self._stuck[part] = self._stable[part], now
        for part, (at, _) in list(self._stuck.items()):
            if read.get(part, at + 1) > at or self._ends[part] <= at:
                del self._stuck[part]
