"""Shards in one process and in two: python -m benchmarks.processes [--records N] [--write]

Two shards on a real broker, GaussianNB on 8 numbers, labels on their own topic, the inputs filled
before. The command runs to their end (`--drain`), with all shards in one process, in one child
(`--processes 1`) and in two (`--processes 2`). CPU time is that of the command and its children;
that of a run on empty inputs is taken off, which is the start. The sides are in turn. The broker
runs beside them on the same machine, so on few processors the rate says little.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.main_job import filled, records, service_text
from benchmarks.performance import show
from tests.acceptance.service import HEADWATER
from tests.kafka.broker import running_broker

SHARDS = 2
SIDES = {
    "one process": ["--shards", "0,1"],
    "`--processes 1`": ["--processes", "1"],
    "`--processes 2`": ["--processes", "2"],
}


class Spent(NamedTuple):
    """Seconds of processors and of the clock."""

    cpu: float
    seconds: float


def spent(bootstrap: str, topic: str, arguments: list[str]) -> Spent:
    """A run of the command to the end of the inputs."""
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "service.toml"
        fields = "\n".join(f'{name} = "numeric"' for name in next(records(1)) if name != "class")
        more = f"[scale]\nshards = {SHARDS}\n[features]\n{fields}"
        config.write_text(service_text(bootstrap, topic, directory, more=more))
        began = time.perf_counter()
        line = [HEADWATER, "run", str(config), "--drain", *arguments]
        process = subprocess.Popen(line, stderr=subprocess.PIPE)  # noqa: S603
        said = process.stderr.read() if process.stderr else b""
        _, code, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
    if code:
        raise RuntimeError(said.decode())
    return Spent(usage.ru_utime + usage.ru_stime, seconds)


def lines(bootstrap: str, limit: int, rounds: int) -> Iterator[str]:
    """The table."""
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
    for _ in range(rounds):
        for side, arguments in SIDES.items():
            topic, sent = filled(bootstrap, SHARDS, limit, SHARDS)
            empty = spent(bootstrap, filled(bootstrap, SHARDS, 0, SHARDS)[0], arguments)
            full = spent(bootstrap, topic, arguments)
            cpu = 1e6 * (full.cpu - empty.cpu) / sent
            found[side].append((cpu, sent / (full.seconds - empty.seconds)))
            sys.stdout.write(f"{side} {found[side][-1]}\n")
            sys.stdout.flush()
    yield f"{limit:,} observations and their labels, medians of {rounds} rounds."
    yield ""
    yield "| shards | CPU a record | spread | of one process | records/s |"
    yield "|---|---|---|---|---|"
    one = median(cpu for cpu, _ in found["one process"])
    for side, runs in found.items():
        cpus, rates = zip(*runs, strict=True)
        yield (
            f"| {side} | {median(cpus):.2f} µs | {min(cpus):.2f}–{max(cpus):.2f} | "
            f"{median(cpus) / one:.2f} × | {median(rates):,.0f} |"
        )


def main() -> None:
    """Print the table; with --write also into docs/performance.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with running_broker() as bootstrap:
        show("processes", lines(bootstrap, options.records, options.rounds), write=options.write)


if __name__ == "__main__":
    main()
