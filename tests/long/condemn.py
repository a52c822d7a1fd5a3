"""Kills of the service at every rate: python -m tests.long.condemn [--runs 100000] [--print].

The guard against records that kill, in lives of a few records each, see `tests.simulation.kills`.
"""

from __future__ import annotations

import sys
from collections import Counter

from tests.long.table import Row, arguments, report, say
from tests.simulation.kills import life, wrong

RECORDS = 8


def main() -> int:
    """Live the lives; 1 where a record was wrongly condemned, or spared."""
    options = arguments(__doc__, "runs", 100_000)
    first = (options.seed - 1) * options.runs
    told: Counter[str] = Counter()
    row = Row("kills of the service at many rates, `tests.long.condemn`", options.runs)
    for seed in range(first, first + options.runs):
        one = life(seed, RECORDS)
        told["kills"] += one.kills
        told["kills of a child alone"] += one.strikes
        told["deaths by a record"] += one.deaths
        told["trials"] += one.tried
        told["condemned"] += len(one.condemned)
        row.add([f"{line} (seed {seed})" for line in wrong(one, RECORDS)])
        if seed % 10_000 == 9_999:
            say(f"{seed + 1 - first:,} lives, {len(row.violations)} violations")
    return report(options, row, ", ".join(f"{what} {n:,}" for what, n in told.items()))


if __name__ == "__main__":
    sys.exit(main())
