"""What lies in the topics, as any reader of committed records sees it.

Rule: kafka-python and nothing of the code under test, so that no fault of it can hide here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafka import KafkaConsumer, TopicPartition

from tests.waiting import PATIENCE

__all__ = ["Log", "Seen", "Watcher", "committed_offsets", "read_topics"]


class Seen(NamedTuple):
    """One committed record."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


Log = Mapping[tuple[str, int], list[Seen]]


def read_topics(bootstrap: str, topics: Collection[str]) -> dict[tuple[str, int], list[Seen]]:
    """Every committed record of the topics now, by (topic, partition), in offset order."""
    with Watcher(bootstrap, topics) as watcher:
        return watcher.seen()


def committed_offsets(
    bootstrap: str, group: str, partitions: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """The offsets a group has committed, of the partitions that have one."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        isolation_level="read_committed",
        enable_auto_commit=False,
    )
    try:
        found = {each: consumer.committed(TopicPartition(*each)) for each in partitions}
    finally:
        consumer.close(autocommit=False)
    return {each: offset for each, offset in found.items() if offset is not None}


class Watcher:
    """A read_committed reader that runs beside the faults, from the beginning of the topics."""

    def __init__(self, bootstrap: str, topics: Collection[str]) -> None:
        self._bootstrap = bootstrap
        self._topics = sorted(topics)
        self._seen: dict[tuple[str, int], list[Seen]] = {}
        self._ending = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join(PATIENCE + 10)

    def seen(self) -> dict[tuple[str, int], list[Seen]]:
        """Read on to the present end, stop, and return everything."""
        self._ending.set()
        self._thread.join(PATIENCE + 10)
        if self._failed is not None:
            raise self._failed
        assert not self._thread.is_alive(), "the watcher did not come to its end"
        return self._seen

    def counts(self, topic: str) -> dict[int, int]:
        """How many records of each partition of a topic it has seen so far."""
        return {n: len(found) for (name, n), found in list(self._seen.items()) if name == topic}

    def _run(self) -> None:
        try:
            self._read()
        except BaseException as error:
            self._failed = error

    def _read(self) -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            metadata_max_age_ms=2_000,
            reconnect_backoff_max_ms=500,  # a broker that is back is seen at once
        )
        try:
            parts = [
                TopicPartition(topic, number)
                for topic in self._topics
                for number in sorted(consumer.partitions_for_topic(topic) or ())
            ]
            consumer.assign(parts)
            consumer.seek_to_beginning(*parts)
            self._seen = {(part.topic, part.partition): [] for part in parts}
            while not self._ending.is_set():
                self._take(consumer.poll(100, max_records=5_000))
            ends = consumer.end_offsets(parts)  # read_committed: the last stable offset
            deadline = time.monotonic() + PATIENCE
            while any(consumer.position(part) < ends[part] for part in parts):
                assert time.monotonic() < deadline, "the topics could not be read to their end"
                self._take(consumer.poll(100, max_records=5_000))
        finally:
            consumer.close(autocommit=False)

    def _take(self, polled: Mapping[Any, list[Any]]) -> None:
        for part, records in polled.items():
            self._seen[part.topic, part.partition] += [
                Seen(
                    r.topic,
                    r.partition,
                    r.offset,
                    r.timestamp,
                    r.key,
                    r.value,
                    tuple((name, bytes(value or b"")) for name, value in r.headers),
                )
                for r in records
            ]
