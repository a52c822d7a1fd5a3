"""Connection storms, each on a service of its own: python -m tests.long.flood [--count 20]."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from random import Random

from tests.web.flood import KINDS, storm

SECONDS = 10  # that a health check may take: an orchestrator restarts a service whose checks fail


def main() -> int:
    """Storms of every kind in turn, of random sizes; 1 where one has a violation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="storms")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    bad = 0
    for number in range(options.count):
        random = Random(options.seed + number)
        kind = KINDS[number % len(KINDS)]
        guesses = kind in ("guess", "requests")
        sizes = {
            "tls": kind in ("idle", "hello") or random.random() < 0.5,
            "count": random.choice([60, 100]) if guesses else random.choice([100, 300, 800]),
            "hosts": random.choice([1, 5, 200]),
            # Of guessers each has a place: else the first login is one of a crowd at the door.
            "files": 1024 if guesses else random.choice([96, 160, 512]),
        }
        with tempfile.TemporaryDirectory() as directory:
            found = storm(Path(directory), kind, **sizes, seed=options.seed + number)
        worst = max(found.answers, default=0)
        print(  # noqa: T201
            f"{kind} {sizes}: health in {worst:.2f} s at most, {found.snapshots} snapshots, "
            f"{found.log_bytes} bytes of log, {found.grown / 2**20:.0f} MiB, {found.opened} "
            f"connections, refused {dict(found.refused)}",
            *found.violations,
            sep="\n  ",
            flush=True,
        )
        bad += bool(found.violations) or worst > SECONDS
    print(f"{options.count} storms, {bad} with a violation")  # noqa: T201
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
