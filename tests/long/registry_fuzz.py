"""Answers of a registry with schemas that anybody registered: python -m tests.long.registry_fuzz.

[--answers 100000] [--compiled 0.02]: each ends as a schema that is used or as `unusable_schema`.
`--compiled`: the share of texts of Protobuf, each of which starts a compiler.
"""

from __future__ import annotations

import os
import random
import sys
from concurrent.futures import ProcessPoolExecutor

from tests.consumers.schemas.answers import answers, wrong_with
from tests.long.table import Row, options_of, report

PART = 500


def asked(seed: str, count: int, compiled: float) -> list[str]:
    """So many answers of one seed; what went wrong."""
    rng, wrong = random.Random(seed), list[str]()
    for _ in range(count):
        case = answers(rng, compiled)
        if why := wrong_with(case, rng):
            wrong.append(f"{case.wire}: {why} for {case.answer[:2000]!r}")
    return wrong


def main() -> int:
    """Every answer; 1 if one ends otherwise."""
    parser = options_of(__doc__, "answers", 100_000)
    parser.add_argument("--compiled", type=float, default=0.02)
    options = parser.parse_args()
    row = Row("hostile answers of a schema registry, `tests.long.registry_fuzz`", 0)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = [
            pool.submit(asked, f"{options.seed} {part}", PART, options.compiled)
            for part in range(-(-options.answers // PART))
        ]
        for job in jobs:
            row.add(job.result())
            row.count += PART
    return report(options, row, f"{options.compiled:.1%} of them compiled by protoc")


if __name__ == "__main__":
    sys.exit(main())
