"""The records of the faults: two data sets, labels late, early, double, other ones, of nobody.

Some records are broken. Ids are dense numbers, so that equality of sets is exact. One seed is one
feed.
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

from kafka.partitioner.default import murmur2

from stream import GaussianNB, MultinomialNB
from stream.learner.base import Learner
from tests.faults.checker import Names
from tests.faults.seen import Seen

__all__ = ["KINDS", "LABELS", "OBSERVATIONS", "Kind", "broken", "records"]

SHARED = Path(os.environ.get("HEADWATER_SHARED", Path(__file__).resolve().parents[3] / "shared"))
OBSERVATIONS, LABELS = 3, 2  # partitions: five inputs
LATE = 40  # records between an observation and its label
CHANGED = 0.03  # so many labels are told again, as another one


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

    @cache  # noqa: B019
    def labels(self) -> list[str]:
        """All that occur."""
        return sorted({label for _, label in self.records()})


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
    kind: Kind, names: Names, random: Random, *, keyed: int = 0
) -> Iterator[list[tuple[str, int, str, bytes]]]:
    """An observation and what is sent beside it, as (topic, partition, key, value); endless.

    With `keyed` inputs have so many partitions, and the key says which; else they are drawn.
    """

    def place(id_: str, count: int) -> int:
        return (murmur2(id_.encode()) & 0x7FFFFFFF) % keyed if keyed else random.randrange(count)

    waiting: list[tuple[str, str]] = []
    answered: list[tuple[str, str]] = []
    for number, (x, label) in enumerate(cycle(kind.records())):
        id_ = str(number)
        out = []
        value = json.dumps({"id": id_, **x}).encode()
        chance = random.random()
        if chance < 0.02:
            value = value[: random.randrange(len(value))]  # not JSON: a dead letter
        elif chance < 0.04:
            out.append((names.labels, place(id_, LABELS), id_, _label(id_, label)))
        if chance > 0.02:
            waiting.append((id_, label))
        out.append((names.observations, place(id_, OBSERVATIONS), id_, value))
        if len(waiting) > LATE:
            late_id, late = waiting.pop(random.randrange(10))
            times = 2 if chance > 0.97 else 0 if chance > 0.92 else 1
            told = b"[]" if chance > 0.995 else _label(late_id, late)
            out += [(names.labels, place(late_id, LABELS), late_id, told)] * times
            answered = [*answered[-LATE:], (late_id, late)]
        if 0.04 < chance < 0.05:
            out.append(
                (names.labels, place(f"no-{id_}", 1), f"no-{id_}", _label(f"no-{id_}", label))
            )
        if 0.05 < chance < 0.05 + CHANGED and answered:
            old_id, old = random.choice(answered)
            other = random.choice([each for each in kind.labels() if each != old])
            out.append((names.labels, place(old_id, LABELS), old_id, _label(old_id, other)))
        yield out


def _label(id_: str, label: str) -> bytes:
    return json.dumps({"id": id_, "label": label}).encode()
