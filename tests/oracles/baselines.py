"""The obvious twin of the baselines: every label counted, one event at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence


def baselines(
    events: Sequence[tuple[str, Hashable]],
) -> list[tuple[Hashable | None, Hashable | None]]:
    """Majority (the first to reach its count) and last label at each ("ask", …); ("learn", y)."""
    counts: Counter[Hashable] = Counter()
    majority: Hashable | None = None
    last: Hashable | None = None
    out = []
    for what, y in events:
        if what == "ask":
            out.append((majority, last))
            continue
        counts[y] += 1
        last = y
        if majority is None or counts[y] > counts[majority]:
            majority = y
    return out
