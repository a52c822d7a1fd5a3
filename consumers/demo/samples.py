"""The sample sets that `headwater sample` writes, each one entry."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any

from consumers.demo.data import FEEDS, bundled
from consumers.demo.payments import RECORDS, payments

__all__ = ["Sample", "as_csv", "samples"]

Records = Iterator[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Sample:
    """Records with their labels inside, and what they are."""

    about: str
    label: str
    records: Callable[[], Records]


def samples() -> dict[str, Sample]:
    """All sample sets by name: one that is computed, and those that ship with river."""
    about = f"{RECORDS:,} payments, few of them fraud; fraud changes within the file"
    found = {"payments": Sample(about, "fraud", payments)}
    for name, (origin, label) in FEEDS.items():
        found[name] = Sample(origin, label, bundled(name).records)
    return found


def as_csv(records: Records) -> tuple[str, int]:
    """The records as the text of a CSV file, and their number.

    Examples
    --------
    >>> as_csv(iter([{"amount": 1.5, "fraud": True}, {"amount": None, "fraud": False}]))
    ('amount,fraud\\n1.5,true\\n,false\\n', 2)
    """
    text = StringIO()
    rows = csv.writer(text, lineterminator="\n")
    count = 0
    for record in records:
        if not count:
            rows.writerow(record)
        rows.writerow(map(_cell, record.values()))
        count += 1
    return text.getvalue(), count


def _cell(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
