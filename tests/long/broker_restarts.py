"""kill -9 of the broker: python -m tests.long.broker_restarts [--restarts 20] [--print]."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.faults.broker import OwnBroker
from tests.faults.outages import restart_round
from tests.long.table import Row, arguments, report, say

PER_ROUND = 10


def main() -> int:
    """Rounds of both data sets; 1 where one has a violation."""
    options = arguments(__doc__, "restarts", 20)
    row = Row("broker SIGKILL and restart, `tests.long.broker_restarts`", options.restarts)
    ended, left = 0, options.restarts
    turn = 0
    while left > 0:
        with OwnBroker() as broker, tempfile.TemporaryDirectory() as directory:
            done = restart_round(
                broker,
                Path(directory),
                ("elec2", "sms")[turn % 2],
                options.seed + turn,
                min(left, PER_ROUND),
                say=say,
            )
        row.add(done.violations, done.recoveries)
        ended += done.ended
        left -= PER_ROUND
        turn += 1
    return report(options, row, f"the service ended with its one line {ended} times")


if __name__ == "__main__":
    sys.exit(main())
