"""How long a move to other shards takes: python -m benchmarks.reshard [--records 400000] [--write]

A service with `GaussianNB` on eight numbers has consumed so many observations, and as many labels,
from an embedded log. It is given another number of shards. "Beside" is what is done while the
service runs, "down" is from the fencing to the snapshots of the new shards. One process does it.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.performance import show
from consumers.backfill.joined import begin_joined, check_joinable, joined
from consumers.base.records import Outgoing
from consumers.cluster.fleet import Fleet
from consumers.commands.past import Past, write_snapshot
from consumers.commands.run import make_own_topics
from consumers.config import Config, parse
from consumers.service.live import LiveShard, Sources
from consumers.snapshots.store import open_store
from consumers.timetravel.old_shards import OldShards, load_old_shards
from consumers.timetravel.reshard import Move
from consumers.transports import open_log
from consumers.transports.placement import partition_of
from consumers.transports.protocol import Log

PARTITIONS = 8
CHUNK = 20_000
MOVES = ((4, 8, False), (8, 4, False), (8, 4, True))
CONFIG = """
name = "moved"
[input]
transport = "{url}"
observations = "obs"
labels = "ans"
[features]
{features}
[model]
type = "GaussianNB"
[scale]
shards = {shards}
[http]
enabled = false
"""


class Took(NamedTuple):
    """Seconds of a move beside the service and while it is down, and of a processor in all."""

    beside: float
    down: float
    cpu: float


def config(directory: Path, shards: int) -> Config:
    """The service with so many shards."""
    features = "\n".join(f'f{i} = "numeric"' for i in range(8))
    text = CONFIG.format(url=f"sqlite:{directory}/log.db", features=features, shards=shards)
    return parse(text, directory=directory)


def records(n: int) -> Iterator[Outgoing]:
    """Observations of three classes, each with its label a hundred records later."""
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=n)
    x = rng.normal(size=(n, 8)) + labels[:, None] / 2
    now = int(time.time() * 1000) - 2 * n
    for i in range(n + 100):
        if i < n:
            key = str(i).encode()
            value = {"id": str(i), **{f"f{j}": round(v, 3) for j, v in enumerate(x[i].tolist())}}
            part = partition_of(key, PARTITIONS)
            yield Outgoing("obs", key, json.dumps(value).encode(), now + i, (), part)
        if i >= 100:
            key = str(i - 100).encode()
            label = json.dumps({"id": str(i - 100), "label": f"c{labels[i - 100]}"}).encode()
            part = partition_of(key, PARTITIONS)
            yield Outgoing("ans", key, label, now + i, (), part)


def consumed(directory: Path, shards: int, n: int) -> Config:
    """A service that has consumed all records."""
    settings = config(directory, shards)
    with closing(open_log(settings.input.transport)) as log:
        for topic in ("obs", "ans"):
            log.create_topic(topic, PARTITIONS)
        chunk: list[Outgoing] = []
        for record in records(n):
            chunk.append(record)
            if len(chunk) == CHUNK:
                log.append(chunk)
                chunk = []
        log.append(chunk)
        make_own_topics(settings, log)
    opened = lambda: open_log(settings.input.transport)  # noqa: E731
    Fleet(settings, opened, threading.Event(), range(shards), drain=True).run()
    return settings


def moved(settings: Config, shards: int, *, merge: bool) -> Took:
    """Move it, as the command does."""
    began, cpu = time.perf_counter(), time.process_time()
    with closing(open_log(settings.input.transport)) as log:
        old = load_old_shards(settings, log, shards, None)
        log.create_topic(old.new.journal_topic, shards)
        if merge:
            check_joinable(old)
            fenced = time.perf_counter()
            _merge(old, log)
        else:
            move = Move(old)
            new = [move.shard(number) for number in range(shards)]
            for shard in new:
                move.learn(shard, _now(), _quiet)
            fenced = time.perf_counter()
            move.swap(new, _now(), "", _quiet)
            for shard in new:
                _snapshot(old, log, shard.found, shard.live)
    ended = time.perf_counter()
    return Took(fenced - began, ended - fenced, time.process_time() - cpu)


def _merge(old: OldShards, log: Log) -> None:
    old.close(_now(), "")
    for number in range(old.new.scale.shards):
        new = joined(old, number)
        _snapshot(old, log, new.found, begin_joined(old, new, _now()))


def _snapshot(old: OldShards, log: Log, found: Sources, live: LiveShard) -> None:
    of = Past(old.new, log, found, open_store(old.new, found.journal.number), _quiet)
    write_snapshot(of, live)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _quiet(done: int, total: int) -> None:
    """Progress that nobody sees."""


def lines(n: int) -> Iterator[str]:
    """The table."""
    yield f"{2 * n:,} records, {PARTITIONS} partitions, embedded log, `GaussianNB` on 8 numbers:"
    yield ""
    yield "| move | beside the service | records/s | down | CPU |"
    yield "|---|---|---|---|---|"
    for before, after, merge in MOVES:
        with tempfile.TemporaryDirectory() as directory:
            took = moved(consumed(Path(directory), before, n), after, merge=merge)
        rate = "" if merge else f"{2 * n / took.beside:,.0f}"
        yield (
            f"| {before} to {after} shards{', `--merge`' if merge else ''} | {took.beside:.2f} s "
            f"| {rate} | {took.down:.2f} s | {took.cpu:.2f} s |"
        )


def main() -> None:
    """Print the table; with --write also into docs/performance.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    logging.getLogger("headwater").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as directory:  # compiles the kernels
        moved(consumed(Path(directory), 2, 500), 1, merge=False)
    show("reshard", lines(options.records), write=options.write)


if __name__ == "__main__":
    main()
