"""kill -9 on a real broker: python -m tests.long.kills [--kills 500] [--seed 1] [--print].

`--shards 3`, `--corrections` and `--rollbacks` make it other services, which learn by other rules.
"""

from __future__ import annotations

import argparse
import sys

from tests.faults.kills import Round, kill_round, plan
from tests.long.table import Row, options_of, report, side_by_side

PER_ROUND = 25


def main() -> int:
    """Run rounds of both data sets side by side; 1 where one has a violation."""
    parser = options_of(__doc__, "kills", 500)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--corrections", action="store_true", help="labels may be corrected")
    parser.add_argument("--rollbacks", action="store_true", help="spans are cut out in between")
    options = parser.parse_args()
    rounds = -(-options.kills // PER_ROUND)
    points = plan(options.seed, options.kills)
    jobs = [
        lambda bootstrap, directory, say, i=i: kill_round(
            bootstrap,
            directory,
            ("elec2", "sms")[i % 2],
            options.seed + i,
            points[i * PER_ROUND : (i + 1) * PER_ROUND],
            shards=options.shards,
            corrections=options.corrections,
            rollbacks=options.rollbacks,
            say=say,
        )
        for i in range(rounds)
    ]
    done: list[Round] = side_by_side(jobs, 2)
    row = Row(_fault(options, sum(r.rollbacks for r in done)), sum(r.killed.total() for r in done))
    for each in done:
        row.add(each.violations, each.recoveries)
    where = sum((r.killed for r in done), start=type(done[0].killed)())
    notes = ", ".join(f"{point} {count}" for point, count in sorted(where.items()))
    damaged, records = sum(r.damaged for r in done), sum(r.records for r in done)
    return report(options, row, f"{notes}; {records:,} observations, {damaged} snapshots damaged")


def _fault(options: argparse.Namespace, rollbacks: int) -> str:
    """What the row says was done."""
    told = ["SIGKILL at 15 failpoints and at random times"]
    if options.shards > 1:
        told.append(f"{options.shards} shards")
    if options.corrections:
        told.append("labels corrected")
    if options.rollbacks:
        told.append(f"{rollbacks} rollbacks")
    return ", ".join([*told, "`tests.long.kills`"])


if __name__ == "__main__":
    sys.exit(main())
