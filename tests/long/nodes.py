"""Three nodes, 64 partitions, five processes: python -m tests.long.nodes [--faults 100] [--print].

Processes of one group join, leave, are killed or stopped, while one node after the other is killed
and started again. No node that is out of sync may lead. With `--elections 20` it may, and as often
it does: two nodes are killed, and the third one lacks records that were predicted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.faults.broker import HEAP_MB, NODES, Cluster
from tests.faults.nodes import HOSTS, PARTITIONS, SHARDS, faults, nodes_round
from tests.faults.unclean import unclean_round
from tests.long.table import Row, options_of, report, say

PER_ROUND = 50


SERVICE = f"{PARTITIONS} partitions, {SHARDS} shards, {HOSTS} processes"
CLUSTER = f"three nodes ({NODES} × {HEAP_MB} MB, 3 replicas, 2 in sync)"


def main() -> int:
    """One of the two; 1 where it has a violation."""
    parser = options_of(__doc__, "faults", 100)
    parser.add_argument("--elections", type=int, default=0, help="of a node that is out of sync")
    options = parser.parse_args()
    return _elections(options) if options.elections else _faults(options)


def _faults(options: argparse.Namespace) -> int:
    """Rounds of both data sets."""
    row = Row(
        f"{CLUSTER}, {SERVICE}: a node or processes killed, processes stopped, joined and left, "
        "`tests.long.nodes`",
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


def _elections(options: argparse.Namespace) -> int:
    """One service, whose inputs lose records so often."""
    row = Row(
        f"{CLUSTER}, {SERVICE}: two nodes killed, and the third, which was away, leads and lacks "
        "predicted records, `tests.long.nodes --elections`",
        0,
    )
    with Cluster(apart=True) as cluster, tempfile.TemporaryDirectory() as directory:
        done = unclean_round(cluster, Path(directory), options.seed, options.elections, say=say)
    row.count = done.faults.total()
    row.add(done.violations, done.recoveries)
    told = ", ".join(f"{what} {count}" for what, count in sorted(done.faults.items()))
    return report(options, row, told)


if __name__ == "__main__":
    sys.exit(main())
