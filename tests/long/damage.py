"""Damaged snapshots and failing disks, in numbers: python -m tests.long.damage [--flips 5000].

A service takes Phishing in three runs. Then its newest snapshot is damaged in every way of
`tests.consumers.damage` (every byte of the header, random bits, every 4 KiB), and each time the
store must pass it over, say so and give the one before; one in a hundred times, and once for each
kind, a whole start must come to the state the journal describes. Then one more snapshot is written
on a disk that fails at every step in every way of `tests.consumers.disk`.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from uuid import uuid4

import msgspec

from consumers.base.errors import SnapshotError
from consumers.service.recovery import rebuild, sources
from consumers.snapshots import places
from consumers.snapshots.format import START, from_bytes, header_size
from consumers.snapshots.store import SnapshotStore
from tests.consumers.conftest import Service
from tests.consumers.damage import damages
from tests.consumers.disk import FAULTS, FailingOs, PowerCutError
from tests.consumers.feeds import fill, phishing

COMMAND = "python -m tests.long.damage"


class Damaged:
    """The service, and what became of each damage."""

    def __init__(self, directory: Path) -> None:
        self.service = Service(f"memory:{uuid4()}", directory)
        # Late labels: rows that wait for them are most of a snapshot.
        fill(self.service.log, phishing(), delay=600)
        for stop_after in (12, 12, None):
            self.service.run(stop_after=stop_after, every_records=10**6)
        self.older, self.newest = self.service.snapshots()[-2:]
        self.data = self.newest.read_bytes()
        self.before = from_bytes(self.older.read_bytes())[0]
        self.expected = self.service.fingerprint()
        self.counts: Counter[str] = Counter()
        self.starts = 0
        self.wrong: list[str] = []

    def fingerprint_of_a_start(self) -> tuple[str, int, tuple[str, ...]]:
        """State, clock of the snapshot it began with, and what was refused."""
        config, log = self.service.config(), self.service.log
        found = sources(config, log)
        store = SnapshotStore(self.service.directory / "headwater-state" / "svc" / "shard-0")
        end = log.end_offsets([found.journal])[found.journal]
        live = rebuild(config, log, found, store, end=end)
        return live.shard.fingerprint(), live.snapshot or 0, live.refused

    def damage(self, flips: int) -> None:
        """Every damage to the newest snapshot."""
        store = SnapshotStore(self.newest.parent)
        identity = self.before.identity
        for i, (kind, bad) in enumerate(damages(self.data, 1, flips=flips)):
            self.newest.write_bytes(bad)
            first = self.counts[kind] == 0
            self.counts[kind] += 1
            if first or i % 100 == 0:
                self.starts += 1
                mark, clock, refused = self.fingerprint_of_a_start()
                good = mark == self.expected and clock == self.before.now and len(refused) == 1
            elif kind.startswith("of another identity") or "history" in kind or "clock" in kind:
                continue
            else:
                wanted = lambda a: None if a.identity == identity else "another"  # noqa: E731
                about, _ = next(store.newest(wanted))
                good = about == self.before and len(store.refused) == 1
            if not good:
                self.wrong.append(f"{kind} #{i}")
            if i % 2000 == 0:
                sys.stderr.write(f"{i:,} damages, {len(self.wrong)} wrong\n")
        self.newest.write_bytes(self.data)

    def disks(self, seeds: int) -> None:
        """One more snapshot on a disk that fails at each step."""
        about, state = from_bytes(self.data)
        about = msgspec.structs.replace(about, position=about.position + 1)
        scratch = self.service.directory / "scratch"
        for fault in FAULTS:
            for step in itertools.count():
                reached = False
                for seed in range(seeds if fault == "power" else 1):
                    shutil.copytree(self.newest.parent, scratch)
                    disk, written = FailingOs(fault, step, seed), False
                    places.os = disk  # type: ignore[attr-defined]
                    try:
                        SnapshotStore(scratch).write(about, state)
                        written = True
                    except (SnapshotError, PowerCutError):
                        pass
                    finally:
                        places.os = os  # type: ignore[attr-defined]
                    disk.settle()
                    reached = disk.calls > step
                    found = [a.position for a, _ in SnapshotStore(scratch).newest(lambda _: None)]
                    late = [p for p in found if p == about.position]
                    behind = found[len(late) : len(late) + 1]
                    if behind != [about.position - 1] or (written and not late):
                        self.wrong.append(f"{fault} at step {step}, seed {seed}: {found}")
                    self.counts[f"disk: {fault}"] += 1
                    shutil.rmtree(scratch)
                if not reached:
                    break

    def row(self, seconds: float) -> str:
        """The row of the table."""
        header = START + header_size(self.data)
        told = ", ".join(f"{n:,} {kind}" for kind, n in self.counts.items())
        today = datetime.datetime.now(datetime.UTC).date()
        return (
            f"| snapshots of {len(self.data):,} bytes (header {header:,}) damaged in every way, "
            f"and written to disks that fail at each step | `{COMMAND}` | {today} | "
            f"{self.counts.total():,} faults ({told}), {self.starts:,} whole starts, "
            f"{seconds:.0f} s; damaged states loaded, older snapshots not used, or rejections "
            f"not reported: {len(self.wrong)} |"
        )


def main() -> int:
    """Print the row, or append it to the table; 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=20, help="of a power cut at each step")
    parser.add_argument("--write", type=Path, metavar="TABLE", help="append the row to this file")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        run = Damaged(Path(directory))
        run.damage(options.flips)
        run.disks(options.seeds)
        run.service.log.close()
    row = run.row(time.monotonic() - began)
    sys.stdout.write(row + "\n" + "".join(f"{line}\n" for line in run.wrong[:20]))
    if options.write is not None:
        with options.write.open("a", encoding="utf-8") as table:
            table.write(row + "\n")
    return int(bool(run.wrong))


if __name__ == "__main__":
    sys.exit(main())
