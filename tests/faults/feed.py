"""The records of the faults: two data sets, labels late, early, double, of nobody; some broken.

Ids are dense numbers, so that equality of sets is exact. One seed is one feed.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

from stream import GaussianNB, MultinomialNB
from stream.base import Learner
from tests.faults.checker import Names
from tests.faults.seen import Seen

__all__ = ["KINDS", "LABELS", "OBSERVATIONS", "Kind", "broken", "records"]

SHARED = Path(os.environ.get("HEADWATER_SHARED", Path(__file__).resolve().parents[3] / "shared"))
OBSERVATIONS, LABELS = 3, 2  # partitions: five inputs
LATE = 40  # records between an observation and its label


@dataclass(frozen=True)
class Kind:
    """A data set, its features and the model over them."""

    path: str
    label: str
    feature: str  # the kind of each feature
    make: Callable[[], Learner]

    @cache  # noqa: B019  two kinds, for the life of the process
    def records(self) -> list[tuple[dict[str, Any], str]]:
        """Features and label of each record."""
        with gzip.open(SHARED / "data" / self.path, "rt", newline="") as lines:
            rows = list(csv.DictReader(lines))
        numeric = self.feature == "numeric"
        return [
            ({k: float(v) if numeric else v for k, v in row.items()}, label)
            for row in rows
            for label in [row.pop(self.label)]
        ]


KINDS = {
    "elec2": Kind("elec2/elec_skmultiflow.csv.gz", "class", "numeric", GaussianNB),
    "sms": Kind("sms_spam/sms_spam.csv.gz", "label", "text", MultinomialNB),
}


def broken(record: Seen) -> bool:
    """Whether a record of the feed below must become a dead letter."""
    try:
        return not isinstance(json.loads(record.value or b""), dict)
    except ValueError:
        return True


def records(
    kind: Kind, names: Names, random: Random
) -> Iterator[list[tuple[str, int, str, bytes]]]:
    """An observation and what is sent beside it, as (topic, partition, key, value); endless."""
    waiting: list[tuple[str, str]] = []
    for number, (x, label) in enumerate(cycle(kind.records())):
        id_ = str(number)
        out = []
        value = json.dumps({"id": id_, **x}).encode()
        chance = random.random()
        if chance < 0.02:
            value = value[: random.randrange(len(value))]  # not JSON: a dead letter
        elif chance < 0.04:
            out.append((names.labels, random.randrange(LABELS), id_, _label(id_, label)))
        if chance > 0.02:
            waiting.append((id_, label))
        out.append((names.observations, random.randrange(OBSERVATIONS), id_, value))
        if len(waiting) > LATE:
            late_id, late = waiting.pop(random.randrange(10))
            times = 2 if chance > 0.97 else 0 if chance > 0.92 else 1
            told = b"[]" if chance > 0.995 else _label(late_id, late)
            out += [(names.labels, random.randrange(LABELS), late_id, told)] * times
        if 0.04 < chance < 0.05:
            out.append((names.labels, 0, f"no-{id_}", _label(f"no-{id_}", label)))
        yield out


def _label(id_: str, label: str) -> bytes:
    return json.dumps({"id": id_, "label": label}).encode()
