"""Elec2 in topics of a real broker, and what a service made of it, read by a consumer of its own.

Rule: results are read with kafka-python directly, read_committed, not by the code under test.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

from kafka import KafkaConsumer, TopicPartition

from consumers.base.records import Outgoing
from consumers.offline.feed import LateLabels, timed
from consumers.transports import open_log
from tests.waiting import PATIENCE

__all__ = [
    "DELAY",
    "START",
    "Feed",
    "Stream",
    "committed",
    "configure",
    "elec2",
    "fill",
    "outgoing",
    "stored",
]

DELAY = 100
START = 1_700_000_000_000  # any moment that has passed: results do not depend on the wall clock
ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("HEADWATER_SHARED", ROOT.parent / "shared"))

CONFIG = """
name = "{name}"
[input]
transport = "kafka://{bootstrap}"
observations = "{observations}"
labels = "{labels}"
# Whoever lags is being fetched: on a slow machine too, the order must be that of the timestamps.
[features]
{features}
[model]
type = "GaussianNB"
[commit]
max_records = {max_records}
[snapshots]
every_records = {every_records}
[http]
port = 0
"""

Stream = Sequence[tuple[dict[str, float], Any]]


@dataclass(frozen=True)
class Feed:
    """An observations and a labels topic on a broker, and the features."""

    bootstrap: str
    observations: str
    labels: str
    features: tuple[str, ...]


def elec2() -> Stream:
    """Elec2 in order; where it is absent river's Phishing, repeated to 10,000 records."""
    path = SHARED / "data/elec2/elecNormNew.csv.gz"
    if path.exists():
        with gzip.open(path, "rt", newline="") as lines:
            rows = list(csv.DictReader(lines))
        names = sorted(set(rows[0]) - {"class"})
        return [({name: float(row[name]) for name in names}, row["class"]) for row in rows]
    from river.datasets import Phishing

    few = [({name: float(x[name]) for name in sorted(x)}, y) for x, y in Phishing()]
    return [few[i % len(few)] for i in range(10_000)]


def outgoing(stream: Stream, feed: Feed) -> Iterator[Outgoing]:
    """Observations with running ids, and labels `DELAY` records late."""
    late = LateLabels(feed.labels, "class", DELAY)
    whole = ({**x, "class": y} for x, y in stream)
    return timed(whole, feed.observations, start=START, labels=late)


def fill(bootstrap: str, stream: Stream, partitions: int) -> Feed:
    """Write a whole stream into topics of its own, keyed by the id."""
    topic = f"elec2-{uuid4().hex[:8]}"
    feed = Feed(bootstrap, topic, f"{topic}-labels", tuple(stream[0][0]))
    log = open_log(f"kafka://{bootstrap}")
    try:
        for name in (feed.observations, feed.labels):
            log.create_topic(name, partitions)
        records = outgoing(stream, feed)
        while chunk := list(islice(records, 5_000)):
            log.append(chunk)
    finally:
        log.close()
    return feed


def configure(
    directory: Path, feed: Feed, name: str, *, max_records: int = 5_000, every_records: int = 20_000
) -> Path:
    """A configuration; its snapshots lie beside it."""
    path = directory / f"{name}-{max_records}.toml"
    features = "\n".join(f'{feature} = "numeric"' for feature in feed.features)
    path.write_text(
        CONFIG.format(
            name=name,
            bootstrap=feed.bootstrap,
            observations=feed.observations,
            labels=feed.labels,
            features=features,
            max_records=max_records,
            every_records=every_records,
        )
    )
    return path


def stored(bootstrap: str, topic: str) -> list[list[Any]]:
    """Every committed record of a topic now, a list for each partition."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False
    )
    try:
        numbers = consumer.partitions_for_topic(topic) or set()
        parts = [TopicPartition(topic, number) for number in sorted(numbers)]
        consumer.assign(parts)
        consumer.seek_to_beginning(*parts)
        ends = consumer.end_offsets(parts)
        found: dict[TopicPartition, list[Any]] = {part: [] for part in parts}
        deadline = time.monotonic() + PATIENCE
        while any(consumer.position(part) < ends[part] for part in parts):
            assert time.monotonic() < deadline, f"{topic} could not be read to its end"
            for part, records in consumer.poll(200, max_records=5_000).items():
                found[part] += [record for record in records if record.offset < ends[part]]
        return list(found.values())
    finally:
        consumer.close()


def committed(bootstrap: str, name: str) -> list[list[dict[str, Any]]]:
    """The predictions of a service, a list for each partition."""
    found = stored(bootstrap, f"{name}-predictions")
    return [[json.loads(record.value) for record in records] for records in found]
