"""Members that come and go: python -m tests.long.storm [--changes 300] [--print]."""

from __future__ import annotations

import sys
from collections import Counter

from tests.faults.storm import HOSTS, SHARDS, Storm, storm_round
from tests.long.table import Row, arguments, report, side_by_side

PER_ROUND = 100


def main() -> int:
    """Rounds of both data sets; 1 where one has a violation."""
    options = arguments(__doc__, "changes", 300)
    rounds = -(-options.changes // PER_ROUND)
    jobs = [
        lambda bootstrap, directory, say, i=i: storm_round(
            bootstrap,
            directory,
            ("elec2", "sms")[i % 2],
            options.seed + i,
            min(options.changes - i * PER_ROUND, PER_ROUND),
            say=say,
        )
        for i in range(rounds)
    ]
    done: list[Storm] = side_by_side(jobs, 1)
    changes: Counter[str] = sum((storm.changes for storm in done), start=Counter())
    row = Row(
        f"rebalance storm: {SHARDS} shards among at most {HOSTS} processes that join, leave, are "
        "killed, are stopped and continued, `tests.long.storm`",
        changes.total(),
    )
    for storm in done:
        row.add(storm.violations, storm.recoveries)
    told = ", ".join(f"{what} {count}" for what, count in sorted(changes.items()))
    taken = sum(storm.taken for storm in done)
    return report(options, row, f"{told}; {taken} times a shard was taken over")


if __name__ == "__main__":
    sys.exit(main())
