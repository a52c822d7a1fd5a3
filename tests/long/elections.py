"""Unclean elections on three nodes: python -m tests.long.elections [--elections 10] [--print]."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.faults.broker import HEAP_MB, NODES, Cluster
from tests.faults.changes import elections_round
from tests.long.table import Row, arguments, report, say


def main() -> int:
    """Elections that lose consumed records; 1 where one was not said."""
    options = arguments(__doc__, "elections", 10)
    row = Row(
        f"three nodes ({NODES} × {HEAP_MB} MB): a node that was offline becomes leader and lacks "
        "consumed records, `tests.long.elections`",
        options.elections,
    )
    with Cluster() as cluster, tempfile.TemporaryDirectory() as directory:
        done = elections_round(cluster, Path(directory), options.seed, options.elections, say=say)
    row.add(done.violations, done.recoveries)
    told = ", ".join(f"{what} {count}" for what, count in sorted(done.faults.items()))
    return report(options, row, told)


if __name__ == "__main__":
    sys.exit(main())
