"""Every sequence of events up to a length through the label join: one by one, and by kernels.

`python -m tests.long.joins [--length 5] [--common 6]`: ends with 1 where two plans, or what is held
after them, differ. The second length is that of sequences of common events only.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import islice

from tests.stream.join.short_joins import BOUNDS, COMMON_LETTERS, LETTERS, Letter, differences


def main() -> int:
    """All sequences under all bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=5)
    parser.add_argument("--common", type=int, default=6)
    options = parser.parse_args()
    alphabets: list[tuple[Sequence[Letter], int]] = [
        (LETTERS, options.length),
        (COMMON_LETTERS, options.common),
    ]
    broken, started = 0, time.monotonic()
    for name, bounds in BOUNDS.items():
        for letters, longest in alphabets:
            count = 0
            for length in range(1, longest + 1):
                count += len(letters) ** length
                for found in islice(differences(letters, length, bounds), 5):
                    broken += 1
                    sys.stdout.write(f"{name}: {found}\n")
            sys.stdout.write(f"{name}: {count:,} sequences of {len(letters)} events\n")
    sys.stdout.write(f"{broken} differ, {time.monotonic() - started:.0f} s\n")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
