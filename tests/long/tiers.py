"""Interpreted kernels against compiled ones: `python -m tests.long.tiers [--programs 2000]`.

Each call of a kernel runs both ways (`tests.both_ways`): the value and all arrays have the same
bits, and Python checks each index at both ends. The calls are those of generated programs, whose
values are at the ends of each kind: learners over wide records, JSON records, and whole services.

Then half as many programs in which each call runs the way that is drawn for it, as while kernels
compile in the background: all ways of a program still agree to the bit.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections import Counter, defaultdict
from random import Random

from stream.kernel.tiers import Kernel, kernels
from tests.both_ways import BothWays, switched
from tests.long.table import Row, options_of, report, say
from tests.programs.services import codec_program, service_program
from tests.programs.wide import WIDE, wide_program

FAULT = "kernels as Python and as machine code, `tests.long.tiers`"
FIELDS = 20  # of a learner at most; Python takes its time
KINDS = (*WIDE, "JSON", "service")


def main() -> int:
    """Run programs; 1 if a call differs."""
    parser = options_of(__doc__, "programs", 2_000)
    options = parser.parse_args()
    logging.disable()  # of the services
    warnings.filterwarnings("ignore", "compiling kernels")
    row, ran = Row(FAULT, 0), Counter[str]()
    with BothWays().installed() as ways:
        for n in range((options.seed - 1) * options.programs, options.seed * options.programs):
            kind = KINDS[n % len(KINDS)]
            try:
                wrong = one(kind, n)
            except BaseException as error:  # a crash is a finding, not the end
                wrong = [f"{kind} {n}: {type(error).__name__}: {error}"]
            ran[kind] += 1
            row.count = ways.compared.total()
            row.add(wrong)
            for line in wrong:
                say(f"VIOLATED {line}")
    for n in range(options.programs // 2):
        wrong = switching(KINDS[n % len(KINDS)], options.seed * options.programs + n)
        row.count += 1
        row.add(wrong)
        for line in wrong:
            say(f"VIOLATED {line}")
    idle = sorted(f"{k.py_func.__module__}.{k.py_func.__name__}" for k in {*kernels()} - ways.seen)
    say(f"{len(ways.seen)} of {len(kernels())} kernels ran as Python; not: {', '.join(idle)}")
    return report(options, row, f"{sum(ran.values()):,} programs")


def switching(kind: str, n: int) -> list[str]:
    """What one program finds while calls switch between Python and machine code."""
    rng = Random(f"switching {kind} {n}")
    late = defaultdict[Kernel, int](lambda: rng.choice((0, 1, 3, 20)))  # calls until it is loaded

    def python(kernel: Kernel) -> bool:
        late[kernel] -= 1
        return late[kernel] >= 0 or rng.random() < 0.02

    with switched(python):
        try:
            return one(kind, n)
        except Exception as error:
            return [f"switching {kind} {n}: {type(error).__name__}: {error}"]


def one(kind: str, n: int) -> list[str]:
    """What one program finds."""
    if kind == "service":
        return service_program(n)
    return codec_program(n) if kind == "JSON" else wide_program(kind, n, FIELDS)


if __name__ == "__main__":
    sys.exit(main())
