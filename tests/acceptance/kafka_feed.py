"""Elec2 in topics of a real broker, and what a service made of it, read by a consumer of its own.

Rule: results are read by kafka-python directly, read_committed, not by the code under test.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import batched, islice
from pathlib import Path
from typing import Any
from uuid import uuid4

from kafka import KafkaConsumer, TopicPartition

from consumers.feed import LateLabels, timed
from consumers.records import Outgoing
from consumers.transports import open_log

__all__ = ["Feed", "committed", "configure", "count", "filled", "records", "score"]

DELAY = 100
START = 1_700_000_000_000  # any moment that has passed: results do not depend on the wall clock
ROOT = Path(__file__).resolve().parents[2]
ELEC2 = Path(os.environ.get("HEADWATER_SHARED", ROOT.parent / "shared")) / "data/elec2"

CONFIG = """
name = "{name}"
[input]
transport = "kafka://{bootstrap}"
observations = "{observations}"
labels = "{labels}"
# The topics are filled: whoever lags is being fetched, and a slow machine must not change the order
max_wait_ms = 60000
[features]
{features}
[model]
type = "gaussian_nb"
[commit]
max_records = {max_records}
[snapshots]
every_records = {every_records}
[http]
port = 0
"""


@dataclass(frozen=True)
class Feed:
    """Topics on a broker, and the features of their records."""

    bootstrap: str
    observations: str
    labels: str
    features: tuple[str, ...]


def records() -> list[tuple[dict[str, float], Any]]:
    """Elec2 in order; where it is absent river's Phishing, repeated to 10,000 records."""
    path = ELEC2 / "elecNormNew.csv.gz"
    if path.exists():
        with gzip.open(path, "rt", newline="") as lines:
            rows = list(csv.DictReader(lines))
        return [({k: float(row[k]) for k in sorted(row) if k != "class"}, row["class"]) for row in rows]
    from river.datasets import Phishing

    stream = [({k: float(x[k]) for k in sorted(x)}, y) for x, y in Phishing()]
    return [stream[i % len(stream)] for i in range(10_000)]
