"""Three nodes, 64 partitions, five processes: python -m tests.long.nodes [--faults 100] [--print].

Processes of one group join, leave, are killed or stopped, while one node after the other is killed
and started again. No node that is out of sync may lead.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.faults.broker import HEAP_MB, NODES, Cluster
from tests.faults.nodes import HOSTS, PARTITIONS, SHARDS, faults, nodes_round
from tests.long.table import Row, arguments, report, say

PER_ROUND = 50


def main() -> int:
    """Rounds of both data sets; 1 where one has a violation."""
    options = arguments(__doc__, "faults", 100)
    row = Row(
        f"three nodes ({NODES} × {HEAP_MB} MB, 3 replicas, 2 in sync), {PARTITIONS} partitions, "
        f"{SHARDS} shards, {HOSTS} processes: a node or processes killed, processes stopped, "
        "joined and left, `tests.long.nodes`",
        0,
    )
    changes: Counter[str] = Counter()
    taken = ended = turn = 0
    with Cluster() as cluster:
        while row.count < options.faults:
            with tempfile.TemporaryDirectory() as directory:
                done = nodes_round(
                    cluster,
                    Path(directory),
                    ("elec2", "sms")[turn % 2],
                    options.seed + turn,
                    min(options.faults - row.count, PER_ROUND),
                    say=say,
                )
            row.add(done.violations, done.recoveries)
            say(f"round {turn}: {faults(done)} faults, {done.violations}")
            row.count += faults(done)
            changes += done.changes
            taken, ended, turn = taken + done.taken, ended + done.ended, turn + 1
    told = ", ".join(f"{what} {count}" for what, count in sorted(changes.items()))
    return report(
        options,
        row,
        f"{told}; {taken} times a shard was taken over; {ended} times a process lost the broker "
        "and ended with its one line",
    )


if __name__ == "__main__":
    sys.exit(main())
