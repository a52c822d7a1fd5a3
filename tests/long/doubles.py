"""Doubles as the service writes them: python -m tests.long.doubles [--values 10000000] [--seed 1].

The bytes are compared with those of msgspec, value and digits with Python's repr.
"""

from __future__ import annotations

import sys
from collections import Counter
from itertools import chain, islice

from tests.consumers.codecs.doubles import differences, edges, kinds
from tests.long.table import Row, arguments, report

CHUNK = 500_000


def main() -> int:
    """The edges once, and chunks of every kind."""
    options = arguments(__doc__, "values", 10_000_000)
    row = Row("doubles in predictions, against msgspec and repr, `tests.long.doubles`", 0)
    counts: Counter[str] = Counter()
    seeds = range(options.seed, options.seed + -(-options.values // CHUNK))
    random = chain.from_iterable(kinds(CHUNK, seed) for seed in seeds)
    for name, x in chain([("edges", edges())], random):
        counts[name] += x.size
        row.count += x.size
        row.add([f"values: {name}: {line}" for line in islice(differences(x), 5)])
    return report(options, row, ", ".join(f"{name} {n:,}" for name, n in counts.items()))


if __name__ == "__main__":
    sys.exit(main())
