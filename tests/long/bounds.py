"""Every index of a kernel checked: `python -m tests.long.bounds [--schemas 10000] [--tests …]`.

A compiled kernel that reads or writes outside an array usually goes unnoticed, and sometimes ends
the process. Here numba checks each index (NUMBA_BOUNDSCHECK), with machine code of its own, which
takes about 10 minutes at first. Of the schemas, which have 0 … 1,000 fields of each kind, one in
ten is a whole service, three are JSON records, and the others are each learner in turn. Then come
the tests of rooms with kernels, or those given; none with `--tests` alone.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.long.table import ROOT, Row, options_of, report, say
from tests.programs.services import codec_program, service_program
from tests.programs.wide import WIDE, wide_program

CHECK = "NUMBA_BOUNDSCHECK"  # read by numba when it is imported
FAULT = "schemas of 0 … 1,000 fields of each kind, with checked indices, `tests.long.bounds`"
CHUNK = 20  # schemas
TESTS = ("stream", "consumers/codecs", "consumers/mail", "transports")


def main() -> int:
    """Run schemas and tests; 1 if one found something."""
    if os.environ.get(CHECK) != "1":
        command = [sys.executable, "-m", "tests.long.bounds", *sys.argv[1:]]
        return subprocess.run(command, env=os.environ | {CHECK: "1"}, cwd=ROOT).returncode
    parser = options_of(__doc__, "schemas", 10_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--tests", nargs="*", default=[f"tests/{room}" for room in TESTS])
    options = parser.parse_args()
    first = (options.seed - 1) * options.schemas
    numbers = range(first, first + options.schemas)
    chunks = [numbers[i : i + CHUNK] for i in range(0, len(numbers), CHUNK)]
    ran: Counter[str] = Counter()
    row = Row(FAULT, 0)
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        for counts, wrong in pool.map(run, chunks):
            ran += counts
            row.count = ran.total()
            row.add(wrong)
            for line in wrong:
                say(f"VIOLATED {line}")
            say(f"{row.count:,} schemas, {len(row.violations)} violations")
    code = report(options, row, ", ".join(f"{what} {n:,}" for what, n in sorted(ran.items())))
    if options.tests:
        tests = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options.tests]
        code |= subprocess.run(tests, cwd=ROOT).returncode
    return code


def run(numbers: range) -> tuple[Counter[str], list[str]]:
    """How many of each kind ran, and what was violated."""
    logging.disable()  # of the services
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for n in numbers:
        kind = kind_of(n)
        counts[kind] += 1
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "compiling kernels")
            try:
                wrong += one(kind, n)
            except BaseException as error:  # a crash is a finding, not the end
                wrong.append(f"{kind} {n}: {type(error).__name__}: {error}")
    return counts, wrong


def kind_of(n: int) -> str:
    """What the n-th schema is of."""
    turn, place = divmod(n, 10)
    if place < 6:
        return WIDE[(6 * turn + place) % len(WIDE)]
    return "service" if place == 9 else "JSON"


def one(kind: str, n: int) -> list[str]:
    """What one schema does wrong."""
    if kind == "service":
        return service_program(n)
    return codec_program(n) if kind == "JSON" else wide_program(kind, n)


if __name__ == "__main__":
    sys.exit(main())
