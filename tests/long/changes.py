"""Inputs made again, restored, widened: python -m tests.long.changes [--changes 40] [--print]."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.faults.changes import changes_round
from tests.kafka.broker import running_broker
from tests.long.table import Row, arguments, report, say


def main() -> int:
    """Changes of one input; 1 where one was not said, or a record was lost or doubled."""
    options = arguments(__doc__, "changes", 40)
    row = Row(
        "input topic recreated (stopped, running), restored under another id, given more "
        "partitions (stopped, running), `tests.long.changes`",
        options.changes,
    )
    with running_broker() as bootstrap, tempfile.TemporaryDirectory() as directory:
        done = changes_round(bootstrap, Path(directory), options.seed, options.changes, say=say)
    row.add(done.violations, done.recoveries)
    told = ", ".join(f"{what} {count}" for what, count in sorted(done.faults.items()))
    return report(options, row, told)


if __name__ == "__main__":
    sys.exit(main())
