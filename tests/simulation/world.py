"""A log that fails by a seed, and the life of a service on it.

The real runner, shard, join, commit, recovery and snapshots run over the memory log. The seed
decides when a poll is short or fails, when a commit fails before it wrote, when it wrote and nobody
was told, when the process dies before or after it, when another owner takes over, and when a
snapshot is damaged on disk. In the end every observation must have been predicted exactly once,
with the bytes an undisturbed run would have written, and the state must be what the journal alone
gives.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

from consumers.errors import FencedError, TransportError
from consumers.records import Fetched, Outgoing, Partition
from consumers.recovery import rebuild, sources
from consumers.runner import Runner
from consumers.transports import open_log
from consumers.transports.protocol import Log, Owner
from tests.consumers.feeds import config, fill, phishing

__all__ = ["Told", "World"]

RECORDS = 240
DELAY = 30
FEATURES = tuple(sorted(phishing(1)[0][0]))


class DiedError(BaseException):
    """The process is gone: nothing in it runs any more."""


@dataclass
class Told:
    """What happened in a run, and what came of it."""

    deaths: int = 0
    failures: int = 0
    lost_answers: int = 0
    takeovers: int = 0
    damaged: int = 0
    commits: int = 0
    predictions: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)
    fingerprint: str = ""
    from_journal: str = ""


class _FailingOwner:
    """An owner whose calls fail as the seed says."""

    def __init__(self, owner: Owner, world: World) -> None:
        self._owner, self._world = owner, world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._owner, name)

    def poll(
        self, *, max_records: int, timeout: float, skip: Collection[Partition] = ()
    ) -> list[Fetched]:
        """Fewer records than asked, none, or an error."""
        chance = self._world.random.random()
        if chance < 0.01:
            self._world.told.failures += 1
            raise TransportError("simulated: the poll failed")
        most = self._world.random.randint(1, max_records)
        return self._owner.poll(max_records=most, timeout=0.0, skip=skip)

    def commit(
        self, records: Sequence[Outgoing], journal: Outgoing, positions: Mapping[Partition, int]
    ) -> int:
        """Nothing written and an error; written and an error; death on either side."""
        world, chance = self._world, self._world.random.random()
        if chance < 0.06:
            world.told.failures += 1
            raise TransportError("simulated: nothing was written")
        if chance < 0.10:
            world.told.deaths += 1
            raise DiedError
        if chance < 0.12:
            world.told.takeovers += 1
            world.log.owner("svc", 0, [])
        at = self._owner.commit(records, journal, positions)
        world.told.commits += 1
        if chance > 0.94:
            world.told.lost_answers += 1
            raise TransportError("simulated: written, and the answer was lost")
        if chance > 0.90:
            world.told.deaths += 1
            raise DiedError
        return at


class _FailingLog:
    """The log with owners that fail."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.log, name)

    def owner(self, name: str, shard: int, inputs: Sequence[Partition]) -> Owner:
        """As the log gives it, but failing."""
        return _FailingOwner(self._world.log.owner(name, shard, inputs), self._world)  # type: ignore[return-value]


class World:
    """One seed.

    Parameters
    ----------
    seed
        Decides everything but the wall clock, which no prediction depends on.
    directory
        Where the snapshots go.
    more
        Sections besides, as TOML.
    """

    def __init__(self, seed: int, directory: Path, more: str = "") -> None:
        self.random = Random(seed)
        self.told = Told()
        self.directory = directory
        url = f"memory:{uuid4()}"
        self.log: Log = open_log(url)
        self.config = config(
            directory,
            url,
            features=FEATURES,
            max_records=self.random.randint(5, 60),
            every_records=self.random.randint(20, 200),
            more=more,
        )

    def run(self) -> Told:
        """Live through it to the end of the inputs."""
        fill(self.log, phishing(RECORDS), DELAY)
        while True:
            runner = Runner(self.config, _FailingLog(self), threading.Event(), drain=True)  # type: ignore[arg-type]
            try:
                runner.run()
            except (DiedError, FencedError, TransportError):
                self._damage()
                continue
            break
        return self._result()

    def undisturbed(self) -> Told:
        """The same inputs, without a failure."""
        fill(self.log, phishing(RECORDS), DELAY)
        Runner(self.config, self.log, threading.Event(), drain=True).run()
        return self._result()

    def _damage(self) -> None:
        """Sometimes the newest snapshot was cut short or has a wrong bit."""
        paths = sorted(self.directory.rglob("*.hws"))
        if not paths or self.random.random() > 0.3:
            return
        self.told.damaged += 1
        data = bytearray(paths[-1].read_bytes())
        at = self.random.randrange(len(data))
        if self.random.random() < 0.5:
            del data[at:]
        else:
            data[at] ^= 1 << self.random.randrange(8)
        paths[-1].write_bytes(bytes(data))

    def _result(self) -> Told:
        found = sources(self.config, self.log)
        end = self.log.end_offsets([found.journal])[found.journal]
        answers = Partition(self.config.predictions_topic, 0)
        ends = self.log.end_offsets([answers])
        for fetched in self.log.read({answers: 0}, ends):
            self.told.predictions += zip(fetched.keys, fetched.values, strict=True)
        base = Runner(self.config, self.log, threading.Event()).store
        self.told.fingerprint = rebuild(
            self.config, self.log, found, base, end=end
        ).shard.fingerprint()
        self.told.from_journal = rebuild(
            self.config, self.log, found, None, end=end
        ).shard.fingerprint()
        return self.told
