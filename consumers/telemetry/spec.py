"""One metric: its name, its meaning, and how it is read from the committed view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from consumers.shard.views import ShardView
from consumers.telemetry.class_names import MAX_CLASSES
from consumers.telemetry.last_only import LastOnly
from stream.evaluate.quality import QualityView

__all__ = ["BucketCounts", "MetricSpec", "Read", "Sample", "ScrapeView", "by_key", "of_shard"]


class BucketCounts(NamedTuple):
    """A histogram.

    Parameters
    ----------
    bounds
        Upper bounds of the buckets, ascending.
    counts
        Values in each bucket; the last bucket is above all bounds.
    total
        The sum of all values.
    """

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


Sample = tuple[tuple[str, ...], float | BucketCounts | None]  # label values, value


@dataclass(frozen=True, slots=True)
class ScrapeView:
    """What a scrape reads.

    Parameters
    ----------
    view
        The newest committed view.
    last_only
        Scores that are computed at most once per second.
    max_classes
        Classes with a name of their own.
    confusions
        Whether challengers show their confusion too.
    """

    view: ShardView
    last_only: LastOnly
    max_classes: int = MAX_CLASSES
    confusions: bool = False

    @property
    def shard(self) -> tuple[str]:
        """The shard's number, as label values."""
        return (str(self.view.shard),)

    @property
    def champion(self) -> tuple[str, str]:
        """The shard's number and the champion's name, as label values."""
        return (str(self.view.shard), self.view.champion[0])

    def models(self) -> Iterator[tuple[tuple[str, str], QualityView]]:
        """Label values and scores: of the champion, then of each challenger."""
        yield self.champion, self.view.quality
        for challenger in self.view.challengers:
            yield (str(self.view.shard), challenger.name), challenger.quality


Read = Callable[[ScrapeView], Iterable[Sample] | None]


class MetricSpec(NamedTuple):
    """One metric as `docs/metrics.md` shows it.

    Parameters
    ----------
    name, type, labels, help
        As Prometheus shows them.
    read
        Reads its samples from the committed view; if it returns None, the metric has no family.
        None for a metric of the process, which is not in the state of a shard.
    """

    name: str
    type: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    read: Read | None = None


def of_shard(value: Callable[[ShardView], float | None]) -> Read:
    """One number of the shard."""
    return lambda look: [(look.shard, value(look.view))]


def by_key(counts: Callable[[ShardView], Mapping[str, int]], known: Iterable[str] = ()) -> Read:
    """A count per key; the known keys exist from the first view, at 0."""

    def read(look: ScrapeView) -> Iterator[Sample]:
        for key, count in (dict.fromkeys(known, 0) | dict(counts(look.view))).items():
            yield (*look.shard, key), count

    return read
