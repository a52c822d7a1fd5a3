"""Many partitions on a real broker: python -m benchmarks.partitions [--partitions 3 400] [--write]

For each number of partitions: the rate of the service to the end of filled topics, as in
`benchmarks.main_job`; the rate of a copy of as many records (`copy_by_batches` of
`benchmarks.bare_copy`), which neither decodes nor learns; and the processor time of `headwater run`
while nothing arrives, as a share of one core, over some seconds after it is live.

The topics that are written have records already. A broker makes files at the second write to a new
partition, which takes 1 to 14 s for 400 and happens once.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median

from benchmarks.bare_copy import copy_by_batches
from benchmarks.main_job import filled, headwater, service_text
from benchmarks.performance import rate_cells, show
from consumers.base.records import Outgoing
from consumers.cli import collect_rarely
from consumers.transports import open_log
from tests.acceptance.service import Service, processor_seconds
from tests.kafka.broker import running_broker

IDLE_SECONDS = 20.0


def used(bootstrap: str, topic: str, partitions: int) -> None:
    """Write to each partition of a topic until the broker has made its files."""
    with closing(open_log(f"kafka://{bootstrap}")) as transport:
        for _ in range(3):
            transport.append(
                [Outgoing(topic, None, bytes(5_000), None, (), n) for n in range(partitions)]
            )


def served(bootstrap: str, partitions: int, limit: int) -> float:
    """Records a second of the service to the end of filled topics."""
    topic, sent = filled(bootstrap, partitions, limit)
    used(bootstrap, f"{topic}-predictions", partitions)
    with tempfile.TemporaryDirectory() as directory:
        return headwater(bootstrap, topic, directory, sent).rate


def copied(bootstrap: str, partitions: int, limit: int) -> float:
    """Records a second of a copy that neither decodes nor learns."""
    topic, _ = filled(bootstrap, partitions, limit)
    with closing(open_log(f"kafka://{bootstrap}")) as transport:
        transport.create_topic(f"{topic}-copy", partitions)
    used(bootstrap, f"{topic}-copy", partitions)
    return copy_by_batches(bootstrap, topic, f"{topic}-labels", f"{topic}-copy", partitions).rate


def idle(bootstrap: str, partitions: int) -> float:
    """Processor seconds a second of the command, on topics with few records."""
    topic, _ = filled(bootstrap, partitions, 1_000)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "service.toml"
        path.write_text(service_text(bootstrap, topic, directory))
        with Service(path, "--shards", "0") as service:
            service.wait_until(
                lambda: service.metric('headwater_learned_total{shard="0"}') == 1_000
            )
            time.sleep(5)  # the last commit and its snapshot
            began, spent = time.monotonic(), processor_seconds(service.pid)
            time.sleep(IDLE_SECONDS)
            return (processor_seconds(service.pid) - spent) / (time.monotonic() - began)


def lines(bootstrap: str, every: list[int], limit: int, rounds: int) -> Iterator[str]:
    """The table."""
    rates: dict[int, list[float]] = {partitions: [] for partitions in every}
    copies: dict[int, list[float]] = {partitions: [] for partitions in every}
    for _ in range(rounds):
        for partitions, found in rates.items():
            found.append(served(bootstrap, partitions, limit))
            copies[partitions].append(copied(bootstrap, partitions, limit))
            sys.stdout.write(f"{partitions} partitions: {found[-1]:,.0f} records/s\n")
            sys.stdout.flush()
    yield f"{limit:,} observations and their labels, medians of {rounds} rounds."
    yield ""
    yield "| partitions | records/s | spread | of the first | copy | idle, of a core |"
    yield "|---|---|---|---|---|---|"
    first = median(rates[every[0]])
    for partitions, found in rates.items():
        yield (
            f"| {partitions} | {rate_cells(found)} | "
            f"{median(found) / first:.0%} | {median(copies[partitions]):,.0f} | "
            f"{idle(bootstrap, partitions):.1%} |"
        )


def main() -> None:
    """Print the table; with --write also into docs/performance.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, nargs="+", default=[3, 400])
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    collect_rarely()  # as the command does
    with running_broker() as bootstrap:
        show(
            "partitions",
            lines(bootstrap, options.partitions, options.records, options.rounds),
            write=options.write,
        )


if __name__ == "__main__":
    main()
