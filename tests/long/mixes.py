"""Many attacks on shards that mix: python -m tests.long.mixes [--seeds 500]. 1 where one found that
something does not hold."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.consumers.service.shards import Attack


def main() -> int:
    """Each seed in a directory of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    logging.disable(logging.ERROR)
    wrong, started = 0, time.monotonic()
    mixes = failures = rollbacks = 0
    for seed in range(options.first, options.first + options.seeds):
        with tempfile.TemporaryDirectory() as directory:
            attack = Attack(seed, Path(directory))
            try:
                found = attack.violations(events=20)
            except Exception as error:  # whatever a seed finds is shown with its number
                found = [f"{type(error).__name__}: {error}"]
        wrong += bool(found)
        for line in found:
            sys.stdout.write(f"seed {seed}: {line}\n")
        mixes, failures = mixes + attack.mixes, failures + attack.failures
        rollbacks += attack.rollbacks
        if (seed + 1) % 50 == 0:
            sys.stdout.write(f"{seed + 1 - options.first} seeds, {wrong} wrong\n")
            sys.stdout.flush()
    took = time.monotonic() - started
    sys.stdout.write(
        f"{options.seeds} seeds, {mixes:,} mixes, {failures} failures in one, {rollbacks} "
        f"rollbacks: {wrong} with violations, {took:.0f} s\n"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
