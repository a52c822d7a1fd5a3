"""Hostile growth: the bytes a learner takes against its budget, and the join against its own.

`python -m tests.long.growth [--programs 50] [--records 4000]`: ends with 1 where one takes more.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.stream.learner.growth import GROWERS, grown, grown_join


def main() -> int:
    """Every grower, under that many seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=50)
    parser.add_argument("--records", type=int, default=4000)
    options = parser.parse_args()
    broken, started = 0, time.monotonic()
    for name, grower in GROWERS.items():
        most = refused = 0
        for seed in range(options.programs):
            learner, taken = grown(grower, seed, options.records, block=1 + seed * 37 % 400)
            most, refused = max(most, taken), refused + sum(learner.overflows.values())
        broken += most > grower.max_bytes
        sys.stdout.write(
            f"{name}: at most {most:,} of {grower.max_bytes:,} bytes, {refused:,} values refused\n"
        )
    for seed in range(options.programs):
        taken, allowed = grown_join(seed, options.records)
        broken += taken > allowed
    sys.stdout.write(
        f"{options.programs * (len(GROWERS) + 1)} programs, {broken} beyond their budget, "
        f"{time.monotonic() - started:.0f} s\n"
    )
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
