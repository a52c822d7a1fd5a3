"""A model for each key: python -m benchmarks.keys [--keys 1000000] [--disk] [--write]

First how often `PerKeyNB` is right, beside one `MixedNB` for all keys, one with the key as one more
category, and `PerKeyNB` with strength 0, which is a model of each key alone. Each record is
predicted before it is learned, its label at once. Streams: Elec2 by day of the week and by half
hour, Adult by country and by occupation, and generated ones: `tenants` of whom each has its own
shift in half of eight numbers and its own shares of the two classes, with frequencies by Zipf's law
with the exponent 1.1, and the same without differences.

Then a service with a million such keys on the embedded log: records a second of one process, from
the start of the service until everything is predicted and learned, first while the keys come by
Zipf's law, then while every key is learned once; and the largest memory of the process.

With --disk instead: the same service with all keys in memory, and with a tenth of them in memory
and the others on disk; at the end the keys come by Zipf's law again, when all are known. Beside
them the time that the loop waits for a snapshot, and the bytes of a snapshot, with the file of
keys.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy import Pairs, table
from benchmarks.mix import scored, stream_of
from benchmarks.performance import show
from consumers.base.records import Outgoing
from consumers.config import parse
from consumers.service.live import LiveShard
from consumers.service.runner import Runner
from consumers.snapshots.store import SnapshotWriter
from consumers.transports import open_log
from stream import Learner, MixedNB, PerKeyNB

FIELDS = 8
CHUNK = 5000
CONFIG = """
name = "keys"
[input]
transport = "sqlite:{directory}/log.db"
observations = "observations"
max_wait_ms = 100
label = "label"
[features]
tenant = "categorical"
{numbers}
[model]
per = "tenant"
max_classes = 2
max_state_bytes = "{bytes}MiB"
{more}
[snapshots]
directory = "{directory}/snapshots"
[serve]
enabled = false
"""
SHARE = 10  # of so many keys one is in memory
ON_DISK = "keys_on_disk = true"


class Watched(Runner):
    """Notes how long the loop waits for each snapshot."""

    def _snapshot(self, live: LiveShard, writer: SnapshotWriter) -> None:
        began = time.perf_counter()
        super()._snapshot(live, writer)
        self.waits = [*getattr(self, "waits", []), time.perf_counter() - began]


class Took(NamedTuple):
    """What a run took: seconds, those of processor time, MB, and the waits for snapshots."""

    seconds: float
    cpu: float
    memory: float
    waits: list[float]


def shares(keys: int) -> NDArray[np.float64]:
    """Cumulated frequencies of keys, by Zipf's law."""
    p = np.arange(1, keys + 1) ** -1.1
    return np.cumsum(p / p.sum())


def tenants(n: int, keys: int, apart: float, seed: int = 1) -> Pairs:
    """Generated records. `apart`: how much keys differ, 0 is not at all."""
    rng = np.random.default_rng(seed)
    own = np.arange(FIELDS) < FIELDS // 2
    shift = rng.normal(size=(keys, FIELDS)) * apart * own
    by_class = rng.normal(size=(keys, 2, FIELDS)) * apart / 2 * own
    spam = np.clip(0.3 + 0.2 * (apart > 0) * rng.normal(size=keys), 0.02, 0.98)
    classes = rng.normal(size=(2, FIELDS)) / 2
    key = np.searchsorted(shares(keys), rng.random(n))
    y = (rng.random(n) < spam[key]).astype(int)
    x = shift[key] + by_class[key, y] + classes[y] + rng.normal(size=(n, FIELDS))
    names = [f"x{j}" for j in range(FIELDS)]
    return [
        ({"tenant": f"tenant-{k}", **dict(zip(names, row, strict=True))}, "ab"[c])
        for k, row, c in zip(key.tolist(), x.tolist(), y.tolist(), strict=True)
    ]


def streams() -> Iterator[tuple[str, str, Pairs]]:
    """Name, field of the key, and records."""
    for name, source, per in (
        ("Elec2 by day", "Elec2", "day"),
        ("Elec2 by half hour", "Elec2", "period"),
        ("Adult by country", "Adult", "native_country"),
        ("Adult by occupation", "Adult", "occupation"),
    ):
        yield name, per, [(with_key(x, per), y) for x, y in table(source, 10**6)]
    for keys, apart in ((1000, 1.0), (20_000, 0.5), (1000, 0.0)):
        how = "that differ" if apart == 1.0 else "that differ a little" if apart else "all alike"
        yield f"{keys:,} tenants {how}", "tenant", tenants(50_000, keys, apart)


def with_key(x: dict[str, Any], per: str) -> dict[str, Any]:
    """The record with its key as text."""
    return {**x, per: str(x[per])} if per in x else x


def accuracy() -> Iterator[str]:
    """The rows of the first table."""
    yield "| stream | keys | one model | and the key as a category | each key alone | `PerKeyNB` |"
    yield "|---|---|---|---|---|---|"
    for name, per, pairs in streams():
        keys = len({x[per] for x, _ in pairs if per in x})
        without = [({k: v for k, v in x.items() if k != per}, y) for x, y in pairs]
        cells = []
        for learner, given in (
            (MixedNB(), without),
            (MixedNB(), pairs),
            (PerKeyNB(per=per, strength=0), pairs),
            (PerKeyNB(per=per), pairs),
        ):
            right, loss = validated(learner, given)
            cells.append(f"{right:.2f} / {loss:.4f}")
        yield f"| {name} | {keys:,} | {' | '.join(cells)} |"
        sys.stderr.write(f"{name}\n")


def validated(learner: Learner, pairs: Pairs) -> tuple[float, float]:
    """Accuracy in percent, and log loss."""
    stream, n = stream_of(learner, pairs), len(pairs)
    right, loss = scored(learner, stream, np.arange(n))
    return 100 * right / n, loss / n


def written(log: Any, keys: NDArray[np.int64], rng: np.random.Generator, first: int) -> None:
    """Write a record for each key, with its label inside."""
    for at in range(0, keys.size, CHUNK):
        key = keys[at : at + CHUNK]
        y = rng.integers(0, 2, key.size)
        x = (rng.normal(size=(key.size, FIELDS)) + 0.5 * y[:, None]).round(4).tolist()
        records = []
        for i, (k, c, row) in enumerate(zip(key.tolist(), y.tolist(), x, strict=True)):
            fields = {f"x{j}": v for j, v in enumerate(row)}
            value = {"id": f"{first + at + i}", "tenant": f"tenant-{k}", **fields, "label": "ab"[c]}
            made = msgspec.json.encode(value)
            records.append(Outgoing("observations", None, made, None, (), 0))
        log.append(records)


def serve(text: str, directory: str, pipe: Connection) -> None:
    """Run the service over all that was written, and send what it took."""
    config = parse(text, directory=Path(directory))
    log = open_log(config.input.transport)
    began = time.perf_counter(), time.process_time()
    runner = Watched(config, log, threading.Event(), drain=True)
    runner.run()
    took = time.perf_counter() - began[0], time.process_time() - began[1]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pipe.send((*took, memory, runner.waits))


def served(text: str, directory: str) -> Took:
    """`serve` in a process of its own."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(text, directory, theirs)
    )
    process.start()
    theirs.close()
    found = Took(*ours.recv())
    process.join()
    return found


def service(keys: int, records: int) -> Iterator[str]:
    """The rows of the second table."""
    yield "| a service with a key stream | records | records/s | CPU a record | largest memory |"
    yield "|---|---|---|---|---|"
    rng = np.random.default_rng(2)
    zipf = np.searchsorted(shares(keys), rng.random(records))
    with tempfile.TemporaryDirectory(prefix="headwater-keys-") as directory:
        numbers = "\n".join(f'x{j} = "numeric"' for j in range(FIELDS))
        size = 1024 + keys // 1000  # MiB
        text = CONFIG.format(directory=directory, numbers=numbers, bytes=size, more="")
        config, first = parse(text, directory=Path(directory)), 0
        log = open_log(config.input.transport)
        for topic in config.topics.values():
            log.create_topic(topic, 1)
        for name, chosen in (("by Zipf's law", zipf), (f"{keys:,} keys once", np.arange(keys))):
            written(log, chosen, rng, first)
            first += chosen.size
            took = served(text, directory)
            per = f"{1e6 * took.cpu / chosen.size:.1f} µs"
            rate = f"{chosen.size / took.seconds:,.0f}"
            yield f"| {name} | {chosen.size:,} | {rate} | {per} | {took.memory:,.0f} MB |"
            sys.stderr.write(f"{name}\n")


def on_disk(keys: int, records: int) -> Iterator[str]:
    """The rows of the table with and without keys on disk."""
    yield (
        "| keys | records of keys | records/s | CPU a record | largest memory | longest wait for a "
        "snapshot | snapshot | file of keys |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    numbers = "\n".join(f'x{j} = "numeric"' for j in range(FIELDS))
    for where, size, more in (
        ("in memory", 1024 + keys // 1000, ""),
        (f"one of {SHARE} in memory", max(1, 1192 * keys // SHARE // 2**20), ON_DISK),
    ):
        rng = np.random.default_rng(2)
        law = shares(keys)
        with tempfile.TemporaryDirectory(prefix="headwater-keys-") as directory:
            text = CONFIG.format(directory=directory, numbers=numbers, bytes=size, more=more)
            config, first = parse(text, directory=Path(directory)), 0
            log = open_log(config.input.transport)
            for topic in config.topics.values():
                log.create_topic(topic, 1)
            for name, chosen in (
                ("by Zipf's law, new ones too", np.searchsorted(law, rng.random(records))),
                (f"{keys:,} keys once", np.arange(keys)),
                ("by Zipf's law, all known", np.searchsorted(law, rng.random(records))),
            ):
                written(log, chosen, rng, first)
                first += chosen.size
                took = served(text, directory)
                yield (
                    f"| {where} | {name} | {chosen.size / took.seconds:,.0f} "
                    f"| {1e6 * took.cpu / chosen.size:.1f} µs | {took.memory:,.0f} MB "
                    f"| {1000 * max(took.waits):,.0f} ms | {sizes(Path(directory))} |"
                )
                sys.stderr.write(f"{where}: {name}\n")


def sizes(directory: Path) -> str:
    """The newest snapshot and the file of keys, in MB, as two cells."""
    newest = max(directory.glob("snapshots/**/snap-*.hws"))
    files = sum(path.stat().st_size for path in directory.glob("snapshots/**/keys-*.db"))
    return f"{newest.stat().st_size / 1e6:,.1f} MB | {files / 1e6:,.0f} MB"


def main() -> None:
    """Both tables, or the one with --disk."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--disk", action="store_true", help="with and without keys on disk")
    parser.add_argument("--write", action="store_true", help="into docs/performance.md")
    options = parser.parse_args()
    if options.disk:
        show("keys --disk", on_disk(options.keys, options.records), write=options.write)
        return
    lines = [*accuracy(), "", *service(options.keys, options.records)]
    show("keys", lines, write=options.write)


if __name__ == "__main__":
    main()
