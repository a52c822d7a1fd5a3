"""Random configurations, killed: `python -m tests.long.configurations [--worlds 500] [--kafka]`.

A world is a random service (`tests.worlds.features`) over random records, some of them broken. It
is killed by SIGKILL at any time, at points of its work, or by a cut of power that takes what was
not fsynced, and started again; some are re-learned or moved to other shards, by commands that are
killed too. Then its predictions, dead letters, labels and states are compared with a twin that was
never killed. The worlds are drawn so that they have many pairs of features that no earlier one had.

With `--minutes` no world begins later than that; the row counts those that have begun. A failing
world is reduced to the features that it needs. `--world N` repeats one of a seed alone,
`--features "shards=2, fault=power"` one with these.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from math import inf
from multiprocessing import get_context
from pathlib import Path

from tests.kafka.broker import running_broker
from tests.long.table import Row, options_of, report, say
from tests.worlds.features import FEATURES, Choice, choices, clash, named, pairs_of, possible, read
from tests.worlds.world import Ran, World

MEMORY = Path("/dev/shm")
LOGS = {False: ("sqlite",), True: ("kafka",)}
REDUCTIONS = 2  # runs of each smaller world: it may fail by chance only


def main() -> int:
    """Run the worlds; 1 if one has a violation."""
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # workers fork
    options = _options()
    fixed = {"log": LOGS[options.kafka]}
    jobs = _jobs(options, fixed)
    ran: list[tuple[Choice, Ran]] = []
    with ExitStack() as stack:
        bootstrap = stack.enter_context(running_broker()) if options.kafka else ""
        until = time.time() + 60.0 * options.minutes
        work = partial(_in_time, until, bootstrap=bootstrap, reduce=not options.no_reduction)
        # Not forked: a worker loads its kernels, and is forked itself.
        pool = ProcessPoolExecutor(options.processes, get_context("spawn"))
        for job, done in zip(
            jobs, stack.enter_context(pool).map(work, *zip(*jobs, strict=True)), strict=True
        ):
            if done is not None:
                ran.append((job[0], done))
                _say(job, done, len(ran), len(jobs), options)
    return _report(options, fixed, ran)


def _options() -> argparse.Namespace:
    parser = options_of(__doc__, "worlds", 500)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=inf, help="begin no world after these")
    parser.add_argument("--kafka", action="store_true", help="on a broker, not the embedded log")
    parser.add_argument("--world", type=int, help="only this one of the seed")
    parser.add_argument("--features", type=read, help="only one with these features")
    parser.add_argument("--no-reduction", action="store_true", help="keep a failing world as it is")
    return parser.parse_args()


def _jobs(
    options: argparse.Namespace, fixed: dict[str, tuple[str, ...]]
) -> list[tuple[Choice, int]]:
    """Features and seed of each world."""
    if options.features is not None:
        own = options.features | ({"log": "kafka"} if options.kafka else {})
        return [(own, options.seed)]
    count = options.worlds if options.world is None else options.world + 1
    drawn = itertools.islice(choices(options.seed, fixed), count)
    jobs = [(choice, options.seed * 100_000 + n) for n, choice in enumerate(drawn)]
    return jobs if options.world is None else jobs[options.world :]


def _in_time(
    until: float, choice: Choice, seed: int, *, bootstrap: str, reduce: bool
) -> Ran | None:
    """As `one`; None if it is too late to begin."""
    return one(choice, seed, bootstrap, reduce=reduce) if time.time() < until else None


def one(choice: Choice, seed: int, bootstrap: str, *, reduce: bool) -> Ran:
    """One world, and if it fails a smaller one that fails too."""
    logging.disable()  # of the twin; a fork has its own
    done = _ran(choice, seed, bootstrap)
    if done.violations and reduce:
        for feature in FEATURES:
            plain = {**done.choice, feature: FEATURES[feature][0]}
            if plain == done.choice or feature == "log" or clash(plain):
                continue
            for _ in range(REDUCTIONS):
                if (smaller := _ran(plain, seed, bootstrap)).violations:
                    done = smaller
                    break
    return done


def _ran(choice: Choice, seed: int, bootstrap: str) -> Ran:
    parent = MEMORY if MEMORY.is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="world-", dir=parent, ignore_cleanup_errors=True) as own,
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", "compiling kernels")
        try:
            return World(choice, seed, Path(own), bootstrap=bootstrap).run()
        except Exception as error:  # a crash is a finding, not the end
            return Ran(choice, violations=[f"{type(error).__name__}: {error}"])


def _say(
    job: tuple[Choice, int], done: Ran, number: int, of: int, options: argparse.Namespace
) -> None:
    what = "refused" if done.refused else f"{dict(done.ended)}"
    say(f"{number} of {of}, {done.seconds:.1f} s: {named(job[0])}: {what} {done.refused}")
    for line in done.violations:
        say(f"VIOLATED {line}")
    if done.violations:
        kafka = " --kafka" if options.kafka else ""
        say(
            f"again: python -m tests.long.configurations --print --seed {job[1]}{kafka} "
            f'--features "{named(job[0])}"; reduced: "{named(done.choice)}"'
        )


def _report(
    options: argparse.Namespace, fixed: dict[str, tuple[str, ...]], ran: list[tuple[Choice, Ran]]
) -> int:
    every, covered, ended = possible(fixed), set(), Counter[str]()
    for choice, done in ran:
        covered |= pairs_of(choice) if not done.refused else set()
        ended += done.ended
    shares = f"{len(covered & every):,} of {len(every):,} pairs of features"
    faults = ", ".join(f"{count:,} {how}" for how, count in sorted(ended.items()))
    where = "Kafka" if options.kafka else "the embedded log"
    what = f"random configurations on {where}, {shares}: {faults}, `tests.long.configurations`"
    row = Row(what, sum(not done.refused for _, done in ran))
    row.add([line for _, done in ran for line in done.violations])
    notes = f"{sum(done.records for _, done in ran):,} records"
    refused = [f"{named(done.choice)}: {done.refused}" for _, done in ran if done.refused]
    return report(options, row, "; ".join([notes, *(f"refused: {line}" for line in refused)]))


if __name__ == "__main__":
    sys.exit(main())
