"""Plain and hostile JSON records, decoded by blocks: python -m tests.long.json_fuzz.

[--records 1000000] of each kind. Every block is compared with the slow path, record by record:
same acceptance, same bits, same reasons.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from consumers.codecs.json import JsonLabels
from tests.consumers.json_records import (
    CASES,
    LABELS,
    differences,
    hostile,
    label_differences,
    plain,
)
from tests.long.table import Row, options_of, report

BLOCK = 500
MAKERS: dict[str, Callable[..., Any]] = {"plain": plain, "hostile": hostile}
KINDS = [*CASES, "labels"]
Found = tuple[int, int, list[str]]  # records, those of them that the compiled decoder took, wrong


def compared(kind: str, made: str, count: int, seed: int) -> Found:
    """So many records of one kind, by blocks."""
    rng = random.Random(f"{seed} {kind} {made}")
    case, make = CASES.get(kind, LABELS), MAKERS[made]
    labels, observations = JsonLabels(reporter="who"), case.decoder(keep=rng.random() < 0.3)
    codec = labels if kind == "labels" else observations
    assert codec._blocks is not None
    taken, wrong = 0, list[str]()
    for _ in range(0, count, BLOCK):
        records = [make(case, rng) for _ in range(BLOCK)]
        if kind == "labels":
            wrong += label_differences(labels, records)
        else:
            wrong += differences(observations, records)
        taken += BLOCK - len(codec._blocks.read(*zip(*records, strict=True)).left)
    return -(-count // BLOCK) * BLOCK, taken, wrong


def main() -> int:
    """Every kind of records; 1 if a record is decoded otherwise than by the slow path."""
    options = options_of(__doc__, "records", 1_000_000).parse_args()
    each = options.records // len(KINDS)
    row = Row("plain and hostile JSON records, decoded by blocks, `tests.long.json_fuzz`", 0)
    notes = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = {
            (kind, made): pool.submit(compared, kind, made, each, options.seed)
            for kind in KINDS
            for made in MAKERS
        }
        for made in MAKERS:
            done = [jobs[kind, made].result() for kind in KINDS]
            count, taken = sum(d[0] for d in done), sum(d[1] for d in done)
            row.count += count
            row.add([line for d in done for line in d[2]])
            notes.append(f"{made} {count:,}, {taken / count:.0%} by the compiled decoder")
    return report(options, row, "; ".join(notes))


if __name__ == "__main__":
    sys.exit(main())
