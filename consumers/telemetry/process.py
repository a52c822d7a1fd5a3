"""How entries of `METRICS` read a fact of the process.

Rule: a fact is stored under the name of its metric (`ProcessFacts`). So a counter is one entry of
the table and the line that counts it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from consumers.base.records import Partition, Uncommitted
from consumers.telemetry.spec import BucketCounts, FactReader, ProcessFacts, Sample

__all__ = ["age", "counted", "kept_back", "lag", "named", "newest", "observed"]


def counted(*known: str) -> FactReader:
    """A count, by the value of the last label; the known values are there from the start, at 0.

    Without known values the metric has no other label than those of `ProcessFacts`.
    """

    def read(facts: ProcessFacts, metric: str) -> Iterator[Sample]:
        found = dict(facts.counts.get(metric, Counter()))
        for value, count in (dict.fromkeys(known or ("",), 0) | found).items():
            yield (*facts.labels, *([value] if known else ())), count

    return read


def newest(facts: ProcessFacts, metric: str) -> list[Sample]:
    """The newest value; no sample before the first."""
    return [(facts.labels, facts.values.get(metric))]


def age(facts: ProcessFacts, metric: str) -> list[Sample]:
    """Seconds since the event; no sample before the first. A clock that was set back reads 0."""
    at = facts.times.get(metric)
    return [(facts.labels, None if at is None else max(0.0, facts.clock() - at))]


def observed(bounds: Sequence[float]) -> FactReader:
    """A histogram with these bounds."""
    empty = BucketCounts(bounds, (0,) * (len(bounds) + 1), 0.0)

    def read(facts: ProcessFacts, metric: str) -> list[Sample]:
        return [(facts.labels, facts.histograms.get(metric, empty))]

    return read


def named(facts: ProcessFacts, metric: str) -> list[Sample]:
    """A count by its only label, without those of `ProcessFacts`."""
    return [((value,), count) for value, count in facts.counts.get(metric, Counter()).items()]


def lag(facts: ProcessFacts, _: str) -> Iterator[Sample]:
    """Records from the committed position to the newest known end of each input."""
    ends = facts.ends
    for partition, position in _positions(facts):
        if partition in ends:
            # A commit may be newer than the last look at the ends: then nothing is known to lag
            yield _series(facts, partition), max(0, ends[partition] - position)


def kept_back(value: Callable[[Uncommitted], float]) -> FactReader:
    """What open transactions keep back from each input whose end is known; 0 without one."""

    def read(facts: ProcessFacts, _: str) -> Iterable[Sample]:
        ends, found = facts.ends, facts.uncommitted
        for partition, _position in _positions(facts):
            if partition in ends:
                at = found.get(partition)
                yield _series(facts, partition), 0 if at is None else value(at)

    return read


def _positions(facts: ProcessFacts) -> Iterable[tuple[Partition, int]]:
    view = facts.view()
    return () if view is None else view.positions.items()


def _series(facts: ProcessFacts, partition: Partition) -> tuple[str, ...]:
    return (*facts.labels, partition.topic, str(partition.number))
