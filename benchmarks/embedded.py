"""The main job on the embedded log: python -m benchmarks.embedded [--rounds 5] [--write]

The service of `benchmarks.main_job` with its records in the file of an embedded log, beside the
hand-rolled loop on a real broker with as many partitions. Both drain filled topics. `--write` puts
the table, with its date, into docs/performance.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median

from benchmarks.hand_rolled import Measured, hand_rolled
from benchmarks.main_job import fill, filled, headwater
from benchmarks.performance import rate_cells, show
from consumers.cli import collect_rarely
from consumers.transports import open_log
from tests.kafka.broker import running_broker


def embedded(partitions: int, limit: int) -> Measured:
    """The service to the end of a filled embedded log."""
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite:{Path(directory) / 'log.db'}"
        with closing(open_log(url)) as log:
            sent = fill(log, "feed", partitions, limit)
        return headwater("", "feed", directory, sent, transport=url)


def by_hand(bootstrap: str, partitions: int, limit: int) -> Measured:
    """The hand-rolled loop on a broker."""
    topic, _ = filled(bootstrap, partitions, limit)
    with closing(open_log(f"kafka://{bootstrap}")) as log:
        log.create_topic(f"{topic}-hand", partitions)
    return hand_rolled(bootstrap, topic, f"{topic}-labels", f"{topic}-hand", partitions)


def lines(bootstrap: str, every: list[int], limit: int, rounds: int) -> Iterator[str]:
    """The table; each round's sides run one after the other."""
    yield f"{limit:,} observations and their labels, medians of {rounds} rounds."
    yield ""
    yield "| partitions | headwater, records/s | spread | hand-rolled, records/s | headwater is |"
    yield "|---|---|---|---|---|"
    for partitions in every:
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(embedded(partitions, limit).rate)
            theirs.append(by_hand(bootstrap, partitions, limit).rate)
            sys.stdout.write(f"{partitions}: {ours[-1]:,.0f} and {theirs[-1]:,.0f} records/s\n")
            sys.stdout.flush()
        times = median(a / b for a, b in zip(ours, theirs, strict=True))
        yield (
            f"| {partitions} | {rate_cells(ours)} | {median(theirs):,.0f} | {times:.1f} × as fast |"
        )


def main() -> None:
    """Print the table; with --write also into docs/performance.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--records", type=int, default=45_312)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    collect_rarely()  # as the command does
    with running_broker() as bootstrap:
        table = lines(bootstrap, options.partitions, options.records, options.rounds)
        show("embedded", table, write=options.write)


if __name__ == "__main__":
    main()
