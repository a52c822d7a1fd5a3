"""How late labels come, whether they meet their observations, and what that needs. Pure.

Rule: what is written into a configuration covers every delay that was seen, and a quarter more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from consumers.base.fields import name_of

__all__ = ["FEWEST", "PENDING_BYTES", "Lateness", "day_text", "lateness", "meeting_fields"]

DAY_MS = 86_400_000
PENDING_BYTES = 750  # of an observation that waits, with 30 numbers and an id of 20 characters
FEWEST = 20  # labels; fewer are not reported
MORE = 1.25  # delays and rates that the first records do not show
MOST_PENDING = 100_000_000  # of [labels] max_pending


@dataclass(frozen=True, slots=True)
class Lateness:
    """The labels of a sample and their observations.

    Parameters
    ----------
    labels
        How many labels there are.
    delays
        The delay of each label that has its observation in the sample, in ms, sorted; 0 for one
        that came before it.
    observations, span
        How many observations there are, and from the first to the last one in ms.
    """

    labels: int
    delays: Sequence[int] = field(default_factory=list)
    observations: int = 0
    span: int = 0

    def after(self, horizon: int) -> int:
        """How many of the labels come after a horizon."""
        return sum(delay > horizon for delay in self.delays)

    def horizon(self, usual: int) -> int:
        """The horizon that covers every delay: whole days, or the usual one if that suffices.

        Examples
        --------
        >>> Lateness(2, [0, 20 * DAY_MS]).horizon(7 * DAY_MS) // DAY_MS
        25
        """
        longest = self.delays[-1] if self.delays else 0
        return usual if longest <= usual else ceil(MORE * longest / DAY_MS) * DAY_MS

    def pending(self, usual: int) -> int:
        """How many observations come while the latest label is awaited, at least the usual number.

        Examples
        --------
        >>> Lateness(2, [DAY_MS, DAY_MS], 200_001, DAY_MS).pending(100_000)
        250000
        """
        if not self.delays or self.observations < 2 or self.span <= 0:
            return usual
        need = MORE * self.delays[-1] * (self.observations - 1) / self.span
        step = 10 ** max(len(str(int(need))) - 2, 0)
        return usual if need <= usual else min(ceil(need / step) * step, MOST_PENDING)

    @property
    def told(self) -> str:
        """How late they come, in words.

        Examples
        --------
        >>> print(Lateness(3, [0, DAY_MS, 20 * DAY_MS]).told)
        labels come up to 20 days after their observation, half of them within 1 day
        """
        if not self.delays[-1]:
            return "labels come with their observation"
        half = self.delays[len(self.delays) // 2]
        return (
            f"labels come up to {day_text(self.delays[-1])} after their observation, half of them "
            f"within {day_text(half)}"
        )


def day_text(ms: int) -> str:
    """A duration in its largest unit, rounded up to one decimal.

    Examples
    --------
    >>> day_text(86_400_000), day_text(90_000), day_text(40)
    ('1 day', '1.5 minutes', '40 ms')
    """
    for size, unit in ((DAY_MS, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second")):
        if ms >= size:
            number = ceil(10 * ms / size) / 10
            return f"{number:g} {unit}{'' if number == 1 else 's'}"
    return f"{ms} ms"


def lateness(
    observations: Iterable[tuple[str | None, int]], labels: Iterable[tuple[str | None, int]]
) -> Lateness:
    """How late labels come.

    Parameters
    ----------
    observations, labels
        The id and the timestamp of each. The first one of an id counts, as in a service.

    Examples
    --------
    >>> found = lateness([("a", 0), ("b", 5)], [("a", 9), ("c", 9)])
    >>> found.labels, found.delays, found.observations, found.span
    (2, [9], 2, 5)
    """
    first: dict[str, int] = {}
    times = []
    for id_, time in observations:
        times.append(time)
        if id_ is not None:
            first.setdefault(id_, time)
    given: dict[str, int] = {}
    n = 0
    for id_, time in labels:
        n += 1
        if id_ is not None:
            given.setdefault(id_, time)
    delays = sorted(max(0, time - first[id_]) for id_, time in given.items() if id_ in first)
    return Lateness(n, delays, len(times), max(times) - min(times) if times else 0)


def meeting_fields(records: Iterable[Mapping[str, Any]], ids: Iterable[str]) -> dict[str, int]:
    """The fields of observations, nested ones by their paths, that hold these ids of labels; and
    how many of the ids each one has, the most first.

    Examples
    --------
    >>> meeting_fields([{"account": "x", "payment": {"id": 7}}], ["7", "8"])
    {'payment.id': 1}
    """
    wanted = set(ids)
    found: dict[str, set[str]] = {}
    for record in records:
        for path, value in _flat(record, ""):
            if value in wanted:
                found.setdefault(path, set()).add(value)
    counts = {path: len(values) for path, values in found.items()}
    return dict(sorted(counts.items(), key=lambda pair: -pair[1]))


def _flat(record: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, str]]:
    """The texts and integers of a record as texts, with their paths."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            yield prefix + name, str(name_of(value))
