"""Random programs over ragged records: python -m tests.long.programs [--programs 50000] [--seed 1].

Five in eight run in every way that must change no bit (`tests.programs.ways`), of every learner in
turn. One in eight is compared with an oracle of a hundred digits (`tests.programs.against`), one in
eight merges and takes back in any order (`tests.programs.merges`), and one in eight has late labels
(`tests.programs.late`). A warning is a finding, as an exception is.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from tests.long.table import Row, options_of, report, say
from tests.programs.against import FAMILIES as ORACLES
from tests.programs.against import compared
from tests.programs.late import FAMILIES as LATE
from tests.programs.late import late_program
from tests.programs.learners import FAMILIES
from tests.programs.merges import FAMILIES as MERGED
from tests.programs.merges import merged
from tests.programs.ways import program

CHUNK = 100  # programs
KINDS: dict[int, tuple[Callable[[str, int], Any], str, tuple[str, ...]]] = {
    3: (compared, " against the oracle", tuple(ORACLES)),
    5: (late_program, " with late labels", LATE),
    7: (merged, " merged", tuple(MERGED)),
}


def main() -> int:
    """Run the programs; 1 where one found something."""
    parser = options_of(__doc__, "programs", 50_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    first = (options.seed - 1) * options.programs
    numbers = range(first, first + options.programs)
    chunks = [numbers[i : i + CHUNK] for i in range(0, len(numbers), CHUNK)]
    ran: Counter[str] = Counter()
    found: list[str] = []
    # Not forked: a kernel that compiles in a thread would be copied half done.
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
        for done, (counts, wrong) in enumerate(pool.map(run, chunks), 1):
            ran += counts
            found += wrong
            for line in wrong:
                say(f"VIOLATED {line}")
            if done % 10 == 0 or done == len(chunks):
                say(f"{done * CHUNK:,} programs, {len(found)} violations")
    sure, asked = ran.pop("sure"), ran.pop("asked")
    row = Row(
        "random programs on records with missing fields, all learners and ways to run "
        f"them; {sure:,} of {asked:,} answers compared with an oracle, `tests.long.programs`",
        options.programs,
    )
    row.add(found)
    return report(options, row, ", ".join(f"{what} {n:,}" for what, n in sorted(ran.items())))


def run(numbers: range) -> tuple[Counter[str], list[str]]:
    """How many of each kind ran, and what was violated."""
    counts: Counter[str] = Counter(sure=0, asked=0)
    wrong: list[str] = []
    for n in numbers:
        compare, what, families = KINDS.get(n % 8, (None, "", tuple(FAMILIES)))
        family = families[(n // 8 if compare else n - n // 8 * 3) % len(families)]
        counts[f"{family}{what}"] += 1
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                if compare is late_program:
                    wrong += late_program(family, n)
                elif compare is not None:
                    out = compare(family, n)
                    counts["asked"] += out.asked
                    counts["sure"] += out.sure
                    wrong += out.wrong
                else:
                    wrong += program(family, n)
            except Exception as error:  # a crash is a finding, not the end
                wrong.append(f"state: {family} {n}: {type(error).__name__}: {error}")
        wrong += sorted({f"state: {family} {n}: {_short(each)}" for each in warned})
    return counts, wrong


def _short(warning: warnings.WarningMessage) -> str:
    """What was warned of, and where."""
    kind = warning.category.__name__
    return f"{kind}: {warning.message} ({os.path.basename(warning.filename)}:{warning.lineno})"


if __name__ == "__main__":
    sys.exit(main())
