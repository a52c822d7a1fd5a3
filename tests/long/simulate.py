"""Many seeds of the failing world: python -m tests.long.simulate [--seeds 20000] [--print].

The last digit of a seed decides the kind of world (`KINDS`): one process or several at once, a
promise of at least once, a model for each key with most of them on disk, features at random, two
versions of the program, inputs that are made again, restored, cut by elections and widened (also
while operators roll back and promote), and configurations that change at each start while journals
are lost. In every kind each life has to get on after its last fault.
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
from tests.simulation.broker import PROTOCOLS
from tests.simulation.changes import ChangingWorld, undisturbed
from tests.simulation.changes import wrong as wrong_in
from tests.simulation.crowd import Crowd
from tests.simulation.operated import Operated
from tests.simulation.swarm import found as found_among
from tests.simulation.upheaval import Upheaval
from tests.simulation.versions import Versions
from tests.simulation.weather import CALM, DEADLY, StuckError
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
    what = f"simulated faults of Kafka, client, clock and disk in {len({*KINDS})} kinds of world"
    counts = f"{commits:,} commits (at least {fewest} per seed), {faults.total():,} faults"
    row = Row(f"{what}: {counts}, `tests.long.simulate`", options.seeds)
    row.add(found)
    return report(options, row, ", ".join(f"{what} {n:,}" for what, n in sorted(faults.items())))


def _run(seeds: range) -> tuple[Counter[str], int, int, list[str]]:
    """Faults, commits, the fewest of a seed, and what was violated."""
    logging.disable(logging.ERROR)  # each failure warns, and there are thousands
    faults: Counter[str] = Counter()
    commits, wrong = [], []
    with _scratch() as directory:
        for seed in seeds:
            kind = KINDS[seed % len(KINDS)]
            try:
                found, told = kind(seed, Path(directory) / str(seed))
            except (
                Exception,
                StuckError,
            ) as error:  # a crash of the service is a finding, not the end
                wrong.append(f"seed {seed}, {kind.__name__}: {type(error).__name__}: {error}")
                continue
            if told is None:  # a configuration that a service does not take
                continue
            faults += told.faults
            commits.append(told.commits)
            wrong += [f"{line} (seed {seed}, {kind.__name__})" for line in found]
    return faults, sum(commits), min(commits, default=0), wrong


Found = tuple[list[str], Told | None]


def alone(seed: int, directory: Path) -> Found:
    """One process after the other."""
    told = World(seed, directory).run()
    return violations(told, _calm("alone")), told


def at_least_once(seed: int, directory: Path) -> Found:
    """It may repeat, in the same bytes."""
    told = World(seed, directory, guarantee="at_least_once").run()
    return violations(told, _calm("alone"), repeats=True), told


def keyed(seed: int, directory: Path) -> Found:
    """A model for each key, most of them on disk."""
    told = World(seed, directory, **KEYED, on_disk=True, chances=DEADLY).run()
    return violations(told, _calm("keyed")), told


def crowd(seed: int, directory: Path) -> Found:
    """Several processes at once, on each kind of Kafka in turn."""
    told = Crowd(seed, directory, protocol=PROTOCOLS[seed // 10 % len(PROTOCOLS)]).run()
    return violations(told, _calm("crowd")), told


def features(seed: int, directory: Path) -> Found:
    """Features and faults at random."""
    result = found_among(seed, directory)
    return ([], None) if result is None else result[:2]


def versions(seed: int, directory: Path) -> Found:
    """Two versions of the program take turns."""
    world = Versions(seed, directory)
    told = world.run()
    return world.wrong + violations(told, _calm("alone")), told


def upheaval(seed: int, directory: Path) -> Found:
    """The inputs change."""
    world = Upheaval(seed, directory)
    return world.wrong, world.run()


def operated(seed: int, directory: Path) -> Found:
    """The inputs change while operators roll back and promote."""
    world = Operated(seed, directory)
    return world.wrong, world.run()


def changing(seed: int, directory: Path) -> Found:
    """The configuration changes."""
    world = ChangingWorld(seed, directory, **CHANGING).run()
    return wrong_in(world, _unchanged()), world.told


# Those that are drawn from a seed's last digit; `features` has most combinations.
KINDS = (
    alone,
    features,
    changing,
    upheaval,
    at_least_once,
    keyed,
    crowd,
    versions,
    operated,
    features,
)


@cache
def _unchanged() -> ChangingWorld:
    with _scratch() as directory:
        return undisturbed(Path(directory), **CHANGING)


@cache
def _calm(kind: str) -> Told:
    """What a world of this kind writes without faults."""
    with _scratch() as directory:
        if kind == "crowd":
            return Crowd(0, Path(directory), chances=CALM).run()
        what: dict[str, Any] = {**KEYED, "on_disk": True} if kind == "keyed" else {}
        return World(0, Path(directory), chances=CALM, **what).run()


def _scratch() -> tempfile.TemporaryDirectory[str]:
    """In memory where there is such a place: thousands of snapshots are flushed to it."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)


if __name__ == "__main__":
    sys.exit(main())
