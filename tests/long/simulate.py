"""Many seeds of the failing world: python -m tests.long.simulate [--seeds 2000] [--first 0]."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path

from consumers import runner
from tests.simulation.world import World


def main() -> int:
    """Run the seeds, print the totals; 1 where a seed broke a promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    logging.disable(logging.ERROR)  # each failure warns, and there are thousands
    runner.PAUSE_SECONDS = 0.0
    totals: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as directory:
        expected = World(0, Path(directory) / "undisturbed").undisturbed()
        broken = []
        for seed in range(options.first, options.first + options.seeds):
            told = World(seed, Path(directory) / str(seed)).run()
            whole = told.predictions == expected.predictions
            if not (whole and told.fingerprint == told.from_journal == expected.fingerprint):
                broken.append(seed)
            for name in ("commits", "deaths", "failures", "lost_answers", "takeovers", "damaged"):
                totals[name] = totals.get(name, 0) + getattr(told, name)
    words = ", ".join(f"{count:,} {name}" for name, count in totals.items())
    sys.stdout.write(f"{options.seeds:,} seeds: {words}; broken: {broken or 'none'}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
