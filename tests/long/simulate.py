"""Many seeds of the failing world: python -m tests.long.simulate [--seeds 20000] [--print].

Every fifth of them is a service that promises at least once: it may repeat, in the same bytes. In
every tenth there is a model for each key, and most of them are on disk. In
every other fifth its inputs are made again, restored, cut by elections and widened under it, in
half of these while operators roll back and promote; in one more its configuration changes at each
start, and its journal is lost.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from tests.long.table import Row, options_of, report, say
from tests.simulation.changes import ChangingWorld, undisturbed
from tests.simulation.changes import wrong as wrong_in
from tests.simulation.operated import Operated
from tests.simulation.upheaval import Upheaval
from tests.simulation.weather import CALM, DEADLY
from tests.simulation.world import KEYED, Told, World, violations

CHUNK = 100  # seeds
CHANGING = {"records": 120, "commits": 24}  # a life is short there, and there are many of them


def main() -> int:
    """Run the seeds; 1 where one broke a promise."""
    parser = options_of(__doc__, "seeds", 20_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    first = (options.seed - 1) * options.seeds
    seeds = range(first, first + options.seeds)
    chunks = [seeds[i : i + CHUNK] for i in range(0, len(seeds), CHUNK)]
    faults: Counter[str] = Counter()
    found: list[str] = []
    commits = fewest = 0
    with ProcessPoolExecutor(options.processes) as pool:
        for done, (happened, made, least, wrong) in enumerate(pool.map(_run, chunks), 1):
            faults += happened
            commits += made
            fewest = least if done == 1 else min(fewest, least)
            found += wrong
            for line in wrong:
                say(f"VIOLATED {line}")
            if done % 10 == 0 or done == len(chunks):
                say(f"{done * CHUNK:,} seeds, {commits:,} commits, {len(found)} violations")
    row = Row(
        f"simulated faults of Kafka, client, clock and disk: {commits:,} commits (at least "
        f"{fewest} per seed), {faults.total():,} faults, `tests.long.simulate`",
        options.seeds,
    )
    row.add(found)
    return report(options, row, ", ".join(f"{what} {n:,}" for what, n in sorted(faults.items())))


def _run(seeds: range) -> tuple[Counter[str], int, int, list[str]]:
    """Faults, commits, the fewest of a seed, and what was violated."""
    logging.disable(logging.ERROR)  # each failure warns, and there are thousands
    faults: Counter[str] = Counter()
    commits, wrong = [], []
    with _scratch() as directory:
        for seed in seeds:
            repeats = seed % 5 == 4
            if seed % 5 == 2:
                wrong += _changing(seed, Path(directory) / str(seed), faults, commits)
                continue
            if seed % 5 == 3:
                wrong += _upheaval(seed, Path(directory) / str(seed), faults, commits)
                continue
            what: dict[str, Any] = {"guarantee": "at_least_once" if repeats else "exactly_once"}
            keyed = seed % 10 == 5
            if keyed:
                what = {**KEYED, "on_disk": True, "chances": DEADLY}
            try:
                told = World(seed, Path(directory) / str(seed), **what).run()
            except Exception as error:  # a crash of the service is a finding, not the end
                wrong.append(f"seed {seed}: {type(error).__name__}: {error}")
                continue
            faults += told.faults
            commits.append(told.commits)
            wrong += [
                f"{line} (seed {seed})" for line in violations(told, _calm(keyed), repeats=repeats)
            ]
    return faults, sum(commits), min(commits, default=0), wrong


def _upheaval(seed: int, directory: Path, faults: Counter[str], commits: list[int]) -> list[str]:
    """What was violated while the inputs changed."""
    world = (Operated if seed % 10 == 8 else Upheaval)(seed, directory)
    try:
        told = world.run()
    except Exception as error:
        return [f"seed {seed}: {type(error).__name__}: {error}"]
    faults += told.faults
    commits.append(told.commits)
    return [f"{line} (seed {seed})" for line in world.wrong]


def _changing(seed: int, directory: Path, faults: Counter[str], commits: list[int]) -> list[str]:
    """What was violated while the configuration changed."""
    try:
        world = ChangingWorld(seed, directory, **CHANGING).run()
    except Exception as error:
        return [f"seed {seed}: {type(error).__name__}: {error}"]
    faults += world.told.faults
    commits.append(world.told.commits)
    return [f"{line} (seed {seed})" for line in wrong_in(world, _unchanged())]


@cache
def _unchanged() -> ChangingWorld:
    with _scratch() as directory:
        return undisturbed(Path(directory), **CHANGING)


@cache
def _calm(keyed: bool) -> Told:
    what = {**KEYED, "on_disk": True} if keyed else {}
    with _scratch() as directory:
        return World(0, Path(directory), chances=CALM, **what).run()


def _scratch() -> tempfile.TemporaryDirectory[str]:
    """In memory where there is such a place: thousands of snapshots are flushed to it."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)


if __name__ == "__main__":
    sys.exit(main())
