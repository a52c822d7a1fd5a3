"""A recorded log as one file: every record of every topic, with its offset."""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from kafka import KafkaProducer

from consumers.base.records import Outgoing, Partition, Record
from consumers.transports.protocol import Log


def read(log: Log) -> list[Record]:
    """Everything that is in a log."""
    parts = [Partition(topic, n) for topic, count in log.topics().items() for n in range(count)]
    chunks = log.read(log.beginning_offsets(parts), log.end_offsets(parts))
    found = [
        Record(*chunk.partition, *columns)
        for chunk in chunks
        for columns in zip(chunk.offsets, chunk.timestamps, chunk.keys, chunk.values, strict=True)
    ]
    return sorted(found, key=lambda r: r[:3])


def save(path: Path, topics: dict[str, int], records: list[Record]) -> None:
    """Write the file: the topics' partitions, then a line a record."""
    lines = [json.dumps(topics)]
    for topic, number, offset, timestamp, *cells, _ in records:
        texts = [None if cell is None else base64.b64encode(cell).decode() for cell in cells]
        lines.append(json.dumps([topic, number, offset, timestamp, *texts]))
    path.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9))


def load(path: Path) -> tuple[dict[str, int], list[Record]]:
    """The inverse of `save`."""
    first, *lines = lzma.decompress(path.read_bytes()).decode().splitlines()
    found = []
    for topic, number, offset, timestamp, *texts in map(json.loads, lines):
        key, value = (None if text is None else base64.b64decode(text) for text in texts)
        found.append(Record(topic, number, offset, timestamp, key, value))
    return json.loads(first), found


def restore(log: Log, topics: dict[str, int], records: list[Record], bootstrap: str = "") -> None:
    """Put the records into an empty log, each at its offset.

    On Kafka the end of a transaction takes an offset. So each run of consecutive offsets that is
    followed by a gap becomes a transaction.
    """
    for topic, count in topics.items():
        log.create_topic(topic, count)
    if not bootstrap:
        log.append([Outgoing(r.topic, r.key, r.value, r.timestamp, (), r.partition)
                    for r in records])  # fmt: skip
        return
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        transactional_id="recorded",
        max_in_flight_requests_per_connection=1,
    )
    try:
        producer.init_transactions()
        for _, of in groupby(records, key=lambda r: r[:2]):
            for run in _runs(list(of)):
                producer.begin_transaction()
                for r in run:
                    producer.send(r.topic, r.value, r.key, None, r.partition, r.timestamp)
                producer.commit_transaction()
    finally:
        producer.close()


def _runs(records: list[Record]) -> Iterator[list[Record]]:
    """Consecutive offsets; a gap of more than one offset is not restored."""
    start = 0
    for i in range(1, len(records) + 1):
        gap = records[i].offset - records[i - 1].offset if i < len(records) else 2
        assert gap in (1, 2), records[i]
        if gap == 2:
            yield records[start:i]
            start = i
