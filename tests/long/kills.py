"""kill -9 on a real broker: python -m tests.long.kills [--kills 500] [--seed 1] [--print]."""

from __future__ import annotations

import sys

from tests.faults.kills import Round, kill_round, plan
from tests.long.table import Row, arguments, report, side_by_side

PER_ROUND = 25


def main() -> int:
    """Run rounds of both data sets side by side; 1 where one has a violation."""
    options = arguments(__doc__, "kills", 500)
    rounds = -(-options.kills // PER_ROUND)
    points = plan(options.seed, options.kills)
    jobs = [
        lambda bootstrap, directory, say, i=i: kill_round(
            bootstrap,
            directory,
            ("elec2", "sms")[i % 2],
            options.seed + i,
            points[i * PER_ROUND : (i + 1) * PER_ROUND],
            say=say,
        )
        for i in range(rounds)
    ]
    done: list[Round] = side_by_side(jobs, 2)
    row = Row(
        "SIGKILL at 15 failpoints and at random times, `tests.long.kills`",
        sum(r.killed.total() for r in done),
    )
    for each in done:
        row.add(each.violations, each.recoveries)
    where = sum((r.killed for r in done), start=type(done[0].killed)())
    notes = ", ".join(f"{point} {count}" for point, count in sorted(where.items()))
    damaged, records = sum(r.damaged for r in done), sum(r.records for r in done)
    return report(options, row, f"{notes}; {records:,} observations, {damaged} snapshots damaged")


if __name__ == "__main__":
    sys.exit(main())
