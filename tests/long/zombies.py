"""Stopped, replaced, woken: python -m tests.long.zombies [--zombies 50] [--print]."""

from __future__ import annotations

import sys

from tests.faults.zombies import Zombies, zombie_round
from tests.long.table import Row, arguments, report, side_by_side

AT_ONCE = 4  # most of the time is waiting


def main() -> int:
    """Four services at once; 1 where one has a violation."""
    options = arguments(__doc__, "zombies", 50)
    shares = [len(range(i, options.zombies, AT_ONCE)) for i in range(AT_ONCE)]
    jobs = [
        lambda bootstrap, directory, say, i=i, share=share: zombie_round(
            bootstrap, directory, ("elec2", "sms")[i % 2], options.seed + i, share, say=say
        )
        for i, share in enumerate(shares)
        if share
    ]
    done: list[Zombies] = side_by_side(jobs, AT_ONCE)
    row = Row(
        "SIGSTOP until after the transaction timeout and the takeover, then SIGCONT, "
        "`tests.long.zombies`",
        sum(z.count for z in done),
    )
    for each in done:
        row.add(each.violations, each.recoveries)
    return report(options, row, f"{len(jobs)} services, recovery is that of the replacement")


if __name__ == "__main__":
    sys.exit(main())
