"""Which snapshots to keep: the newest, and one per day of the journaled clock. Pure."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["kept"]

_DAY_MS = 86_400_000


def kept(found: Mapping[int, int | None], keep: int, retention_ms: int) -> set[int]:
    """Positions of the snapshots to keep.

    Parameters
    ----------
    found
        Position to journaled clock in ms; None if the file does not contain one.
    keep
        How many of the newest are always kept.
    retention_ms
        The newest of each day is kept while it is at most this much older than the newest of all.

    Examples
    --------
    >>> hour, day = 3_600_000, 86_400_000
    >>> found = {1: 0, 2: hour, 3: day, 4: day + hour, 5: 2 * day, 6: 2 * day + hour}
    >>> sorted(kept(found, 1, 7 * day)), sorted(kept(found, 2, day))
    ([2, 4, 6], [4, 5, 6])
    """
    stay = set(sorted(found)[-keep:])
    clocks = {position: clock for position, clock in found.items() if clock is not None}
    if not clocks:
        return stay
    oldest = clocks[max(clocks)] - retention_ms
    newest_of_day = {clocks[p] // _DAY_MS: p for p in sorted(clocks) if clocks[p] >= oldest}
    return stay | set(newest_of_day.values())
