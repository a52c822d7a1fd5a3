"""Faults on the way to the broker: python -m tests.long.proxy [--faults 100] [--print]."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.faults.broker import OwnBroker
from tests.faults.outages import proxy_round
from tests.long.table import Row, arguments, report, say

PER_ROUND = 25


def main() -> int:
    """Rounds of both data sets; 1 where one has a violation."""
    options = arguments(__doc__, "faults", 100)
    row = Row(
        "TCP proxy: drop, delay, half-open, EndTxn delayed or unanswered, `tests.long.proxy`",
        options.faults,
    )
    ended, left, turn = 0, options.faults, 0
    which: Counter[str] = Counter()
    with OwnBroker() as broker:
        while left > 0:
            with tempfile.TemporaryDirectory() as directory:
                done = proxy_round(
                    broker,
                    Path(directory),
                    ("elec2", "sms")[turn % 2],
                    options.seed + turn,
                    min(left, PER_ROUND),
                    say=say,
                )
            row.add(done.violations, done.recoveries)
            ended += done.ended
            which += done.faults
            left -= PER_ROUND
            turn += 1
    counts = ", ".join(f"{fault} {count}" for fault, count in sorted(which.items()))
    return report(options, row, f"{counts}; the service ended with its one line {ended} times")


if __name__ == "__main__":
    sys.exit(main())
