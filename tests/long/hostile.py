"""Hostile sequences through the label join beside dicts: python -m tests.long.hostile [--print].

`--events 1000000` of each kind of sequence: ids that are repeated, early, late, expired or evicted,
labels that are unknown or of another kind, bounds that are reached, states saved and loaded.
"""

from __future__ import annotations

import sys

from tests.long.table import Row, arguments, report
from tests.stream.join.hostile import KINDS, compare


def main() -> int:
    """Every kind; 1 where the joins differ."""
    options = arguments(__doc__, "events", 1_000_000)
    row = Row(
        f"hostile events through the join, {len(KINDS)} kinds, beside a join of dicts, "
        "`tests.long.hostile`",
        options.events * len(KINDS),
    )
    for kind in KINDS:
        found = compare(kind, options.seed, options.events)
        row.add([] if found is None else [f"state: {found}"])
    return report(options, row, ", ".join(KINDS))


if __name__ == "__main__":
    sys.exit(main())
