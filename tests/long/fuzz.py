"""Hostile records: python -m tests.long.fuzz [--records 1000000] [--broker 10000]."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.faults.fuzz import Fuzzed, fuzz_broker, fuzz_shard
from tests.kafka.broker import running_broker
from tests.long.table import Row, add_write, report, say


def main() -> int:
    """Both ways; 1 where one has a violation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--broker", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    add_write(parser)
    options = parser.parse_args()
    code = 0
    if options.records:
        done = fuzz_shard(options.records, options.seed, say=say)
        code |= _told(options, "hostile records through codec and shard, `tests.long.fuzz`", done)
    if options.broker:
        with running_broker() as bootstrap, tempfile.TemporaryDirectory() as directory:
            done = fuzz_broker(bootstrap, Path(directory), options.broker, options.seed)
        code |= _told(options, "hostile records through the broker, `tests.long.fuzz`", done)
    return code


def _told(options: argparse.Namespace, fault: str, done: Fuzzed) -> int:
    row = Row(fault, done.records)
    row.add(done.violations)
    how = ", ".join(f"{what} {count:,}" for what, count in sorted(done.ended.items()))
    return report(options, row, how)


if __name__ == "__main__":
    sys.exit(main())
