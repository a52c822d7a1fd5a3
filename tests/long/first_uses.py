"""First uses by eight threads at once: python -m tests.long.first_uses [--processes 1000].

Each process is fresh (`tests.faults.first_uses`). One in twenty also runs the examples of all
docstrings, which takes half a minute.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from stream.kernel.tiers import VARIABLE
from tests.long.table import ROOT, Row, options_of, report, say

FAULT = "first uses by 8 threads at once in a fresh process, `tests.long.first_uses`"
EXAMPLES = 20  # of so many processes one runs the examples
SECONDS = 3600.0  # for a process, beside other work


class Process(NamedTuple):
    """One process: its seed, and whether it is without the examples."""

    seed: int
    own: bool


def main() -> int:
    """Run the processes; 1 if one failed."""
    parser = options_of(__doc__, "processes", 1000)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    options = parser.parse_args()
    first = (options.seed - 1) * options.processes
    numbers = range(first, first + options.processes)
    every = [Process(n, own=n % EXAMPLES != 0) for n in numbers]
    row = Row(FAULT, len(every))
    with ThreadPoolExecutor(options.jobs) as pool:
        for done, failed in enumerate(pool.map(run, every), 1):
            row.add(failed)
            if failed or done % 50 == 0:
                say(f"{done:,} processes, {len(row.violations)} violations {' | '.join(failed)}")
    with_examples = sum(not process.own for process in every)
    return report(options, row, f"{with_examples:,} with the examples of all docstrings")


def run(process: Process) -> list[str]:
    """What failed in it."""
    command = [sys.executable, "-m", "tests.faults.first_uses", str(process.seed)]
    # As for users: by seed with machine code before the first call, or in the background.
    ways = {VARIABLE: ("background", "compiled")[process.seed % 2]}
    try:
        done = subprocess.run(
            [*command, *(["own"] if process.own else [])],
            cwd=ROOT,
            env=os.environ | ways,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [f"process {process.seed}: it hangs"]
    lines = [line for line in done.stdout.splitlines() if line]
    if done.returncode not in (0, 1) or (done.returncode and not lines):
        lines.append(f"it ended with {done.returncode}: {done.stderr[:500]}")
    return [f"process {process.seed}: {line}" for line in lines]


if __name__ == "__main__":
    sys.exit(main())
