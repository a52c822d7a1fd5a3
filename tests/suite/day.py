"""The day run: every kind of test, each in its short form. `--all` runs the rest too.

Rule: measured seconds decide, by one table and in one place. A *family* is a test function with its
parameters. By day it may take `FAMILY` seconds times the square root of the number of its cases, so
a law of all learners has more than one example has. Of its cases as many run as fit, an arbitrary
sample that is always the same; the others are of the night, and so is a family of which not even
one case fits. The cheapest family of a file keeps one case if that takes at most `LONGEST` seconds,
so that few files are silent by day. What the table does not have is cheap. A test or a file that is
named on the command line always runs.

`tests/run --all --hypothesis-profile day --write-seconds` measures the table again.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

__all__ = ["FAMILY", "LONGEST", "Measured", "by_day", "family_of", "load", "write"]

TABLE = Path(__file__).with_name("seconds.tsv")
FAMILY = 0.6  # seconds
LONGEST = 8.0  # seconds
LEAST = 0.1  # seconds; cheaper families are not in the table


class Measured(NamedTuple):
    """What a family took in a whole run."""

    cases: int
    seconds: float

    @property
    def each(self) -> float:
        """Seconds of a case."""
        return self.seconds / self.cases


def family_of(nodeid: str) -> str:
    """A test's id without its parameters."""
    path, _, name = nodeid.partition("::")
    return f"{path}::{name.partition('[')[0]}"


def load() -> dict[str, Measured]:
    """The table: families that take long, each with its cases and seconds."""
    if not TABLE.exists():
        return {}
    with TABLE.open(newline="") as lines:
        rows = csv.reader(lines, delimiter="\t")
        return {name: Measured(int(cases), float(seconds)) for name, cases, seconds in rows}


def by_day(nodeids: Iterable[str], table: Mapping[str, Measured]) -> set[str]:
    """Which of these tests run by day; `table` is as `load` gives it."""
    families = _grouped(nodeids)
    cheapest: dict[str, tuple[float, str]] = {}  # file -> seconds of a case, family
    for family in families:
        path, found = family.partition("::")[0], table.get(family)
        cost = found.each if found else 0.0
        cheapest[path] = min(cheapest.get(path, (cost, family)), (cost, family))
    kept: set[str] = set()
    for family, cases in families.items():
        found = table.get(family)
        fit = len(cases) if found is None else int(FAMILY * sqrt(found.cases) / found.each)
        cost, first = cheapest[family.partition("::")[0]]
        least = first == family and cost <= LONGEST
        kept.update(_sample(cases, max(fit, least)))
    return kept


def _sample(cases: Sequence[str], count: int) -> list[str]:
    """So many of them. At equal distances they could all have the same value of one parameter."""
    return sorted(cases, key=lambda nodeid: crc32(nodeid.encode()))[:count]


def _grouped(nodeids: Iterable[str]) -> dict[str, list[str]]:
    families: dict[str, list[str]] = defaultdict(list)
    for nodeid in nodeids:
        families[family_of(nodeid)].append(nodeid)
    return families


def write(seconds: Mapping[str, float], skipped: Iterable[str]) -> None:
    """Write the table, from the seconds of each test of a whole run.

    A family of which a case was skipped keeps its row: here it took less than where it runs.
    """
    kept = {*map(family_of, skipped)}
    rows = {name: found for name, found in load().items() if name in kept}
    for family, cases in _grouped(seconds).items():
        total = sum(seconds[case] for case in cases)
        if total >= LEAST and family not in rows:
            rows[family] = Measured(len(cases), total)
    with TABLE.open("w", newline="") as lines:
        writer = csv.writer(lines, delimiter="\t", lineterminator="\n")
        writer.writerows((name, n, f"{took:.2f}") for name, (n, took) in sorted(rows.items()))
