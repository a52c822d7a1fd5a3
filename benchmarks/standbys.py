"""What standbys cost: python -m benchmarks.standbys [--seconds 20] [--rate 2000] [--write]

Four shards in four processes on a real broker, GaussianNB on 8 numbers, labels on their own topic,
the inputs written at a steady rate. The processes are given a shard each (`--shards`), or share the
shards by their group, with no, one or all followers for each shard (`[scale] standbys`). CPU time
is that of the four processes while the records are consumed, less what they take in a quiet time of
the same length. The broker and the writer are other processes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from statistics import median
from urllib.error import URLError

from benchmarks.main_job import filled, outgoing, records, service_text
from benchmarks.performance import show
from consumers.base.records import Partition
from consumers.transports import open_log
from tests.acceptance.service import Service, processor_seconds
from tests.kafka.broker import running_broker

SHARDS = 4
SIDES = {
    "`--shards`": None,
    "group, `standbys = 0`": 0,
    "group, `standbys = 1`": 1,
    "group, `standbys = 3`": 3,
}
SETTLE_SECONDS = 5.0  # after the start, and after the last prediction, for the followers
PATIENCE = 120.0


def live(service: Service) -> bool:
    """Whether it runs a shard and is ready."""
    try:
        return service.status("/readyz")[1].startswith("live")
    except URLError:
        return False


def predicted(log, topic: str) -> int:
    """How many offsets the predictions have: each record, and the markers of the commits."""
    ends = log.end_offsets([Partition(f"{topic}-predictions", n) for n in range(SHARDS)])
    return sum(ends.values())


def write(log, topic: str, count: int, rate: float) -> None:
    """Write so many observations a second, and their labels."""
    out, began, sent = outgoing(topic, count), time.monotonic(), 0
    while chunk := list(islice(out, 200)):
        log.append(chunk)
        sent += len(chunk)
        time.sleep(max(0.0, began + sent / (2 * rate) - time.monotonic()))


def cost(bootstrap: str, standbys: int | None, seconds: float, rate: float) -> float:
    """Microseconds of processors for a record, in all processes."""
    topic, _ = filled(bootstrap, SHARDS, 0, SHARDS)
    fields = "\n".join(f'{name} = "numeric"' for name in next(records(1)) if name != "class")
    own = "" if standbys is None else f"standbys = {standbys}"
    more = f"[scale]\nshards = {SHARDS}\n{own}\n[features]\n{fields}"
    with (
        tempfile.TemporaryDirectory() as home,
        ExitStack() as stack,
        closing(open_log(f"kafka://{bootstrap}")) as log,
    ):
        services = []
        for n in range(SHARDS):
            config = Path(home) / f"{n}.toml"
            config.write_text(service_text(bootstrap, topic, f"{home}/{n}", more=more))
            fixed = ["--shards", str(n)] if standbys is None else []
            services.append(stack.enter_context(Service(config, *fixed)))
        for service in services:
            service.wait_until(lambda: live(service), PATIENCE)  # noqa: B023
        time.sleep(SETTLE_SECONDS)

        def spent() -> float:
            return sum(processor_seconds(service.pid) for service in services)

        began, before = time.monotonic(), spent()
        time.sleep(seconds)
        quiet = (spent() - before) / (time.monotonic() - began)
        began, before, count = time.monotonic(), spent(), int(seconds * rate)
        write(log, topic, count, rate)
        deadline = time.monotonic() + PATIENCE
        while predicted(log, topic) < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"no predictions; {services[0].output}")
            time.sleep(0.1)
        time.sleep(SETTLE_SECONDS)
        used = spent() - before - quiet * (time.monotonic() - began)
        return 1e6 * used / (2 * count)


def lines(bootstrap: str, seconds: float, rate: float, rounds: int) -> Iterator[str]:
    """The table."""
    found: dict[str, list[float]] = {side: [] for side in SIDES}
    for _ in range(rounds):
        for side, standbys in SIDES.items():
            found[side].append(cost(bootstrap, standbys, seconds, rate))
            sys.stdout.write(f"{side} {found[side][-1]:.1f}\n")
            sys.stdout.flush()
    fixed = median(found["`--shards`"])
    yield f"{rate:g} observations and labels a second, {seconds:g} s, medians of {rounds} rounds."
    yield ""
    yield "| four shards in four processes | CPU a record, in all | spread | of `--shards` |"
    yield "|---|---|---|---|"
    for side, runs in found.items():
        middle = median(runs)
        yield (
            f"| {side} | {middle:.1f} µs | {min(runs):.1f}–{max(runs):.1f} | "
            f"{middle / fixed:.2f} × |"
        )


def main() -> None:
    """Print the table; with --write also into docs/performance.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=2_000.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with running_broker() as bootstrap:
        table = lines(bootstrap, options.seconds, options.rate, options.rounds)
        show("standbys", table, write=options.write)


if __name__ == "__main__":
    main()
