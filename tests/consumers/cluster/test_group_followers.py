"""Processes of a group that come, go and hang at random: each prediction once, and warm takeovers.

The group is that of Kafka without its messages: what each process runs and follows is computed by
the rules of the leader.
"""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from consumers.base.records import Partition
from consumers.cluster import group, standby
from consumers.cluster.group import ShardGroup
from consumers.transports import open_log
from consumers.transports.kafka.assignment import Holding, assign
from consumers.transports.protocol import Assigned
from tests.consumers.sharded import Sharded
from tests.seed import seeds
from tests.waiting import PATIENCE, until


class Process:
    """A process of the service, in a thread, and its membership."""

    def __init__(self, service: Sharded, directory: Path) -> None:
        self.now: Assigned | None = None
        self.warm: frozenset[int] = frozenset()
        self.stop = threading.Event()
        url = service.url
        self.group = ShardGroup(service.on_host(directory), lambda: open_log(url), self, self.stop)
        self.thread = threading.Thread(target=self.group.run)
        self.thread.start()

    def assigned(self) -> Assigned | None:
        return self.now

    def caught_up(self, shards: frozenset[int]) -> None:
        self.warm = shards

    def close(self) -> None:
        """It leaves; `Processes` knows."""

    def end(self) -> None:
        self.stop.set()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


class Processes:
    """The processes of a service, as members of a group."""

    def __init__(self, service: Sharded, directory: Path, standbys: int) -> None:
        self.service, self.standbys, self.started = service, standbys, 0
        self.directory = directory
        self.members: dict[str, Process] = {}
        self.held: dict[str, Holding] = {}
        self.awaits: dict[str, frozenset[int]] = {}

    def start(self) -> None:
        name = f"{self.started}"
        self.started += 1
        self.members[name] = Process(self.service, self.directory / name)
        self.held[name] = Holding()
        self.rebalance()

    def leave(self, name: str) -> Process:
        """The group gives its shards away. The process does not know."""
        del self.held[name]
        gone = self.members.pop(name)
        self.rebalance()
        return gone

    def rebalance(self) -> None:
        """Twice, because a shard that moves is released first."""
        for _ in range(2 if self.held else 0):
            told = {n: replace(held, warm=self.members[n].warm) for n, held in self.held.items()}
            shares = assign(told, self.service.shards, self.standbys)
            for name, share in shares.items():
                self.held[name], self.awaits[name] = (
                    Holding(share.runs, share.follows),
                    share.awaits,
                )
                self.members[name].now = Assigned(share.runs, frozenset(share.follows))

    def warm(self) -> bool:
        """Whether all are where the group wants them, the followers level with the journals."""
        if any(self.awaits[name] & process.warm for name, process in self.members.items()):
            self.rebalance()
        if any(self.awaits[name] for name in self.members):
            return False
        for process in self.members.values():
            assert process.now is not None
            feeds, standbys = process.group.status_feeds(), dict(process.group._standbys)
            runs = process.now.runs
            if set(feeds) != runs or (runs and process.group.health().state != "live"):
                return False
            if set(standbys) != process.now.follows:
                return False
            for shard, followed in standbys.items():
                part = self.service.journal(shard)
                if followed.seq != self.service.log.end_offsets([part])[part] - 1:
                    return False
        return True

    def followers(self) -> dict[int, int]:
        """How many processes follow each shard."""
        every = [n for process in self.members.values() for n in process.group._standbys]
        return {n: every.count(n) for n in range(self.service.shards)}


def predicted(service: Sharded) -> list[str]:
    """The ids of all predictions."""
    parts = [Partition(service.config.predictions_topic, n) for n in range(service.shards)]
    ends = service.log.end_offsets(parts)
    found = service.log.read(dict.fromkeys(parts, 0), ends)
    return [json.loads(value or b"")["id"] for chunk in found for value in chunk.values]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks come soon."""
    monkeypatch.setattr(standby, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(group, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(group, "GRACE_SECONDS", 60.0)  # by then a process that hung knows


class Heard(logging.Handler):
    """The lines that were logged, while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._logger = logging.getLogger("headwater")

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def __enter__(self) -> Heard:
        self._before = self._logger.level
        self._logger.setLevel(logging.INFO)
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._before)


@seeds(0.03)
def test_whoever_comes_goes_or_hangs_each_prediction_is_made_once(tmp_path_factory, seed) -> None:
    """A process that hangs goes on with shards that others have taken over, and is fenced."""
    with Heard() as heard:
        comes_and_goes(tmp_path_factory.mktemp("group"), Random(seed), heard)


def comes_and_goes(tmp_path: Path, random: Random, heard: Heard) -> None:
    """Ten changes of the group."""
    shards, standbys = random.randint(1, 4), random.choice([0, 1, 1, 2])
    service = Sharded(tmp_path, shards)
    processes = Processes(service, tmp_path, standbys)
    ended: list[Process] = []
    expected = 0
    try:
        for _ in range(10):
            if len(processes.members) < 2 or random.random() < 0.4:
                seen = len(heard.lines) if processes.members else None
                processes.start()
                until(processes.warm)
                said = [] if seen is None else heard.lines[seen:]
                assert not [line for line in said if line.endswith("it is loaded")]
            else:
                name = random.choice(sorted(processes.members))
                lost, seen = processes.held[name].runs, len(heard.lines)
                hangs = random.random() < 0.5
                if not hangs:
                    processes.members[name].end()
                ended.append(processes.leave(name))
                until(processes.warm)
                said = heard.lines[seen:]
                for shard in lost:
                    (start,) = [
                        m for m in said if m.startswith(f"shard {shard} was assigned to this")
                    ]
                    assert ("it continues after journal record" in start) == (standbys > 0), start
            chosen = random.sample(range(shards), random.randint(1, shards))
            service.feed(15, chosen)
            expected += 15 * len(chosen)
            until(lambda: len(predicted(service)) >= expected)  # noqa: B023
            until(processes.warm)
            for process in ended:
                process.now = Assigned(frozenset(), frozenset())
            count = min(standbys, len(processes.members) - 1)
            assert processes.followers() == dict.fromkeys(range(shards), count)
    finally:
        for process in [*ended, *processes.members.values()]:
            process.end()

    ids = predicted(service)
    assert len(ids) == len(set(ids)) == expected
