"""The largest legal records under 1 GiB: python -m tests.long.memory [--records 2500] [--print].

Each kind of record on both transports: killed in between, drained, replayed from nothing, and a
journal replayed that a version without a bound in bytes could have written. `--programs` is how
many random services with random bounds are compared with unbounded ones.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import closing
from pathlib import Path

from consumers.transports import open_log
from tests.faults.cuts import program
from tests.faults.memory import KINDS, MIB, memory_round
from tests.kafka.broker import running_broker
from tests.long.table import Row, options_of, report, say

LIMIT = 1024 * MIB  # of docker/kubernetes
KILLS = 5


def main() -> int:
    """Every kind on every transport, then the programs; 1 where one has a violation."""
    parser = options_of(__doc__, "records", 2_500)
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    options = parser.parse_args()
    row = Row(
        f"memory limit of 1 GiB, records of 1 MB, {options.programs} random bounds in bytes, "
        "`tests.long.memory`",
        options.records * len(options.kinds) * 2 + options.programs,
    )
    peaks = []
    with running_broker() as bootstrap:
        for transport in ("sqlite", "kafka"):
            for kind in options.kinds:
                with tempfile.TemporaryDirectory() as directory:
                    url = f"sqlite:{directory}/log.db"
                    if transport == "kafka":
                        url = f"kafka://{bootstrap}"
                    with closing(open_log(url)) as log:
                        found, peak = memory_round(
                            log, url, Path(directory), kind, options.records, LIMIT, KILLS
                        )
                row.add(found)
                peaks.append(f"{kind} on {transport} {peak // MIB} MiB")
                say(f"{peaks[-1]}: {found or 'held'}")
    for seed in range(options.seed, options.seed + options.programs):
        with tempfile.TemporaryDirectory() as directory:
            row.add(program(seed, Path(directory)))
    return report(options, row, ", ".join(peaks))


if __name__ == "__main__":
    sys.exit(main())
