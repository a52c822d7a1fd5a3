"""What an owner reads on Kafka: its inputs, where they end, and what is held back for later.

`KafkaConsumer.pause` is not used: with kafka-python 3.0.12 a partition paused while some of its
fetched records are undelivered may never deliver again (they are given back only while no other
partition's fetch is in line, and meanwhile nothing new is fetched). Records of a skipped input
are held here instead, and once there are many of them the partition is unassigned for a while.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka import TopicPartition

from consumers.base.errors import TransportError
from consumers.base.records import Fetched, Partition, Uncommitted

__all__ = ["KafkaInputs"]

_HELD_BYTES = 4 * 2**20  # of skipped inputs, before they are unassigned
_STABLE_SECONDS = 0.2  # at least this long between two questions where committed records end


class KafkaInputs:
    """The inputs of one owner.

    Parameters
    ----------
    consumer
        A `column_consumer` for these alone. Partitions are assigned to it, never subscribed to:
        a member that lost its group without noticing could still commit offsets.
    inputs
        The partitions.
    """

    def __init__(self, consumer: Any, inputs: Sequence[Partition]) -> None:
        self._consumer = consumer
        self._inputs = {TopicPartition(*partition): partition for partition in inputs}
        self._assigned: set[TopicPartition] = set()
        self._next: dict[TopicPartition, int] = {}  # after the last record the caller was given
        self._polled: dict[TopicPartition, int] = {}  # after the last record the client gave
        self._ends: dict[TopicPartition, int] = {}  # the newest known, of aborted records too
        self._stable: dict[TopicPartition, int] = {}  # where committed records ended, when asked
        self._asked = 0.0
        # Inputs read up to an open transaction: its first offset, and since when.
        self._stuck: dict[TopicPartition, tuple[int, float]] = {}
        self._silent: set[TopicPartition] = set()  # of which the last poll brought nothing
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
                    f"expected {partition} to hold offset {position}, it holds {first[part]} to "
                    f"{self._stable[part]}: its retention is too short or the topic was made "
                    "anew; restore it, or start under a new name"
                )
            self._next[part] = self._polled[part] = position
        self._assign(set(parts))

    def poll(
        self, *, max_records: int, timeout: float, skip: Collection[Partition], max_bytes: int
    ) -> list[Fetched]:
        """Records from the inputs but those of `skip`; empty when none came within `timeout`.

        What a poll of the client brings beyond `max_bytes`, or of skipped inputs, is held for
        later: at most what one fetch brought and `_HELD_BYTES`.
        """
        skipped = {TopicPartition(*partition) for partition in skip}
        deadline = time.monotonic() + timeout
        while not (served := self._serve(max_records, max_bytes, skipped)):
            held = sum(chunk.nbytes for part in skipped for chunk in self._held[part])
            full = {part for part in skipped if self._held[part] and held >= _HELD_BYTES}
            self._assign(self._inputs.keys() - full)
            left = max(0.0, deadline - time.monotonic())
            polled = self._consumer.poll(timeout_ms=int(left * 1000), max_records=max_records)
            for part, chunks in polled.items():
                self._polled[part] = chunks[-1].offsets[-1] + 1
                self._held[part].extend(chunks)
            self._silent = self._inputs.keys() - polled.keys() - skipped
            if not polled and time.monotonic() >= deadline:
                break
        return served

    def _serve(
        self, max_records: int, max_bytes: int, skipped: Collection[TopicPartition]
    ) -> list[Fetched]:
        """What is held of the inputs that are wanted."""
        served = []
        wanted = [part for part, held in self._held.items() if held and part not in skipped]
        for part in wanted:
            held = self._held[part]
            while held and max_records > 0 and max_bytes > 0:
                count = min(max_records, held[0].within(max_bytes))
                chunk = held.popleft() if count == len(held[0]) else held[0].shift(count)
                self._next[part] = chunk.offsets[-1] + 1
                max_records -= count
                max_bytes -= chunk.nbytes
                served.append(chunk)
            self._held[part] = self._held.pop(part)  # last next time: none is served last for ever
        return served

    def _assign(self, parts: set[TopicPartition]) -> None:
        """Let the client fetch these only; those that come back go on where they were."""
        if parts == self._assigned:
            return
        self._learn_ends()
        self._consumer.assign([part for part in self._inputs if part in parts])
        for part in parts - self._assigned:
            self._consumer.seek(part, self._polled[part])
        self._assigned = parts

    def _learn_ends(self) -> None:
        for part in self._assigned:
            end = self._consumer.highwater(part)  # told by each fetch, nothing is asked
            if end is not None:
                self._ends[part] = end

    def ends(self) -> dict[Partition, int]:
        """The newest known end of each input; of one that has no more to give, where the caller is.

        Offsets have gaps, and the last one of a transaction is a marker nobody is given: once the
        client has passed all there is, the caller's own next offset is the end. What an unfinished
        transaction has written is not there yet: the end of that is asked for now and then.
        """
        self._learn_ends()
        lagging = self._consumer.positions([p for p in self._assigned if not self._held[p]])
        passed = {part for part, position in lagging.items() if position >= self._ends[part]}
        doubtful = (lagging.keys() - passed) & self._silent
        if doubtful and time.monotonic() - self._asked >= _STABLE_SECONDS:
            self._stable |= self._consumer.end_offsets(list(doubtful))
            self._asked = time.monotonic()
        # Equal, not beyond: where the position has moved on, the answer is too old.
        stuck = {part for part in doubtful if self._stable[part] == lagging[part]}
        passed |= stuck
        self._note_stuck(stuck, lagging)
        return {
            partition: self._next[part] if part in passed else self._ends[part]
            for part, partition in self._inputs.items()
        }

    def uncommitted(self) -> dict[Partition, Uncommitted]:
        """What open transactions keep from each input that is read up to them; as of `ends`."""
        now = time.monotonic()
        return {
            self._inputs[part]: Uncommitted(at, self._ends[part] - at, now - since)
            for part, (at, since) in self._stuck.items()
        }

    def _note_stuck(
        self, parts: Collection[TopicPartition], read: Mapping[TopicPartition, int]
    ) -> None:
        """These stand at their last stable offset, before their high watermark."""
        now = time.monotonic()
        for part in parts:
            if part not in self._stuck or self._stuck[part][0] != self._stable[part]:
                self._stuck[part] = self._stable[part], now
        for part, (at, _) in list(self._stuck.items()):
            if read.get(part, at + 1) > at or self._ends[part] <= at:
                del self._stuck[part]
