"""Three nodes restarted in turn: python -m tests.long.rolling [--rounds 5] [--print]."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.faults.broker import HEAP_MB, NODES, Cluster
from tests.faults.outages import rolling_round
from tests.long.table import Row, arguments, report, say

PER_SERVICE = 3


def main() -> int:
    """Rounds of both data sets; 1 where one has a violation."""
    options = arguments(__doc__, "rounds", 5)
    row = Row(
        f"three nodes ({NODES} × {HEAP_MB} MB) restarted in turn, killed or terminated, "
        f"{options.rounds} rounds, `tests.long.rolling`",
        options.rounds * NODES,
    )
    ended, left, turn = 0, options.rounds, 0
    how: Counter[str] = Counter()
    with Cluster() as cluster:
        while left > 0:
            with tempfile.TemporaryDirectory() as directory:
                done = rolling_round(
                    cluster,
                    Path(directory),
                    ("elec2", "sms")[turn % 2],
                    options.seed + turn,
                    min(left, PER_SERVICE),
                    say=say,
                )
            row.add(done.violations, done.recoveries)
            ended += done.ended
            how += done.faults
            left -= PER_SERVICE
            turn += 1
    told = ", ".join(f"{what} {count}" for what, count in sorted(how.items()))
    return report(options, row, f"{told}; the service ended with its one line {ended} times")


if __name__ == "__main__":
    sys.exit(main())
