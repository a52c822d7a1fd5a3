"""A service that nothing befell, over the embedded log: what the checker must find nothing in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from consumers.base.records import Outgoing, Partition
from consumers.config import Config, load
from consumers.service.recovery import sources
from consumers.service.runner import Runner
from consumers.timetravel.moment import moment, rebuild_at
from consumers.timetravel.rollback import roll_back
from consumers.transports import open_log
from consumers.transports.protocol import Log
from tests.faults.checker import Names, check
from tests.faults.feed import KINDS, LABELS, OBSERVATIONS, broken, records
from tests.faults.oracle import predicted_by
from tests.faults.seen import Seen

__all__ = ["NAMES", "RECORDS", "Run", "Topics", "run"]

NAMES = Names("in", "labels", "out", "dead", "journal")
RECORDS = 400
CONFIG = """
name = "svc"
[input]
transport = "sqlite:log.db"
observations = "in"
labels = "labels"
[output]
predictions = "out"
dead_letters = "dead"
[journal]
topic = "journal"
[features]
{features}
[labels]
corrections = {corrections}
[model]
type = "GaussianNB"
[scale]
shards = {shards}
[commit]
max_records = 50
[snapshots]
every_records = 150
"""

Topics = dict[tuple[str, int], list[Seen]]


@dataclass
class Run:
    """What a service left."""

    config: Path
    log: Topics
    committed: dict[tuple[str, int], int]
    shards: int
    corrections: bool

    def violations(
        self,
        log: Topics,
        watched: Topics,
        committed: dict[tuple[str, int], int],
        *,
        corrections: bool | None = None,
    ) -> list[str]:
        """What the checker says."""
        kind = KINDS["elec2"]
        return check(
            log,
            NAMES,
            shards=self.shards,
            watched=watched,
            committed=committed,
            bad=broken,
            oracle=predicted_by(
                kind.make,
                list(kind.records()[0][0]),
                NAMES.observations,
                corrections=self.corrections if corrections is None else corrections,
            ),
        )


def run(directory: Path, *, shards: int = 1, corrections: bool = False, rollbacks: int = 0) -> Run:
    """Elec2 through the embedded log, twenty commits or so; rollbacks at equal distances."""
    path = directory / "svc.toml"
    names = KINDS["elec2"].records()[0][0]
    path.write_text(
        CONFIG.format(
            features="\n".join(f'{name} = "numeric"' for name in names),
            corrections=str(corrections).lower(),
            shards=shards,
        )
    )
    config = load(path)
    keyed = 2 * shards if shards > 1 else 0
    inputs = {"in": keyed or OBSERVATIONS, "labels": keyed or LABELS}
    sizes = {**inputs, "out": keyed or OBSERVATIONS, "dead": 1, "journal": shards}
    feed = enumerate(records(KINDS["elec2"], NAMES, Random(5), keyed=keyed))
    with closing(open_log(config.input.transport)) as log:
        for topic, count in sizes.items():
            log.create_topic(topic, count)
        for turn in range(rollbacks + 1):
            for shard in range(shards):
                if turn:
                    _roll_back(config, log, shard)
            _fill(log, islice(feed, RECORDS // (rollbacks + 1)))
            for shard in range(shards):
                Runner(config, log, threading.Event(), shard=shard, drain=True).run()
        parts = [Partition(topic, n) for topic, count in sizes.items() for n in range(count)]
        ends = log.end_offsets(parts)
        found: Topics = {tuple(p): list(_records(log, p, ends[p])) for p in parts}
    at = {p: seen[-1].offset + 1 for p, seen in found.items() if p[0] in NAMES.inputs and seen}
    return Run(path, found, at, shards, corrections)


def _fill(log: Log, feed: Iterator[tuple[int, list[tuple[str, int, str, bytes]]]]) -> None:
    for time, each in feed:
        log.append(
            [
                Outgoing(topic, key.encode(), value, 1_700_000_000_000 + time, (), number)
                for topic, number, key, value in each
            ]
        )


def _roll_back(config: Config, log: Log, shard: int) -> None:
    """The last three entries are cut out."""
    found = sources(config, log, shard)
    end = log.end_offsets([found.journal])[found.journal]
    live = rebuild_at(config, log, found, None, moment(log, found.journal, str(end - 3)))
    owner = log.owner(config.name, shard, found.inputs)
    roll_back(log, owner, found, live, now=0, reason="on purpose")


def _records(log: Log, part: Partition, end: int) -> Iterator[Seen]:
    """The records of a partition with their headers, as a reader sees them."""
    if end == 0:
        return
    for record in log.follow({part: 0}, poll_seconds=0.01):
        yield Seen(*record)
        if record.offset == end - 1:
            return
