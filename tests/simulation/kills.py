"""Services that somebody kills at any rate and at any step, with and without records that kill.

One seed is one life: a few records, of which none, one or two end whatever process has them in
hand; the guard as it is, over a note that loses what was half written; batches of any size; two
hosts with a note each; and kills, of the service with all of its processes in any order, of a child
alone, of the process that forks the children, at rates from never to nearly always. From some start
on nobody kills any more. In the end every record that kills, and no other, must be condemned.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from consumers.base.records import Partition
from consumers.service.crash_guard import STARTS, CrashGuard, TrialResult

__all__ = ["OLD_NOTE", "Life", "life", "wrong"]

INPUT = Partition("obs", 0)
OLD_NOTE = (
    b'{"seq":1,"size":1,"first":["obs",0,0],"ends":[["obs",0,1]],"processing":true,"deaths":9,'
    b'"limit":1,"until":[["obs",0,1]],"condemned":[["obs",0,0,"crash_poison"]]}'
)


class KilledError(BaseException):
    """Somebody has killed the service."""


class DiedError(BaseException):
    """A record has."""


@dataclass
class Life:
    """What a seed came to."""

    poison: frozenset[int]
    condemned: list[int] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    kills: int = 0  # of the service
    strikes: int = 0  # of a child or of the process that forks them, alone
    deaths: int = 0  # of the service, by a record
    calm: int = 0  # starts after the last kill
    tried: int = 0


def wrong(told: Life, records: int) -> list[str]:
    """Which promise was broken."""
    out = []
    if innocent := set(told.condemned) - told.poison:
        out.append(f"innocent condemned: {sorted(innocent)}")
    if guilty := told.poison - set(told.condemned):
        out.append(f"not condemned: {sorted(guilty)}")
    if told.committed != list(range(records)):
        out.append(f"lost or doubled: {told.committed}")
    hosts = 2
    forgotten = STARTS * told.kills + told.strikes  # a note may be lost with the service
    if told.deaths > hosts * STARTS * len(told.poison) + forgotten:
        out.append(f"{told.deaths} deaths for {len(told.poison)} records")
    if told.calm > 1 + hosts * STARTS * len(told.poison):
        out.append(f"{told.calm} starts after the last kill")
    return out


class _Note:
    """A note in memory; the service may die before, in the midst of and after writing it."""

    def __init__(self, world: _World, data: bytes) -> None:
        self._world, self._data = world, data

    def read(self) -> bytes:
        return self._data

    def write(self, data: bytes) -> None:
        self._world.step()
        self._data = b""
        if data:
            self._world.step()
            self._data = data
        self._world.step()

    def close(self) -> None:
        """Nothing to release."""


class _World:
    def __init__(self, seed: int, records: int) -> None:
        random = self.random = Random(seed)
        self.records = records
        kinds = random.choice((0, 0, 0, 1, 1, 2))
        self.told = Life(frozenset(random.sample(range(records), kinds)))
        self.rate = random.choice((0.0, 10 ** random.uniform(-4, -0.1)))
        self.strike = random.choice((0.0, 0.0, 10 ** random.uniform(-3, -0.1)))
        self.unclear = random.choice((0.0, 0.0, 0.2))
        self.outside = random.random() < 0.5  # how poison ends a child: SIGKILL, or by a fault
        self.until = random.randint(1, 12)  # starts, while there are kills
        self.notes = [_Note(self, random.choice((b"", OLD_NOTE))) for _ in range(2)]
        self.moving = random.random() < 0.3
        self.doomed: int | None = None  # steps the service lives on after its child was killed
        self.starts = 0

    @property
    def noisy(self) -> bool:
        return self.starts <= self.until

    def step(self) -> None:
        """The service does something; here it may be killed."""
        if self.doomed is not None:
            self.doomed -= 1
        if self.doomed == 0 or (self.noisy and self.random.random() < self.rate):
            raise KilledError

    @contextmanager
    def hold(self) -> Iterator[_Court]:
        """The records from where the journal ends."""
        self.step()
        yield _Court(self, len(self.told.committed))
        self.step()

    def start(self) -> None:
        """One process, from its start to its end."""
        self.starts, self.doomed = self.starts + 1, None
        told, at = self.told, self.random.randrange(2) if self.moving else 0
        positions = {INPUT: len(told.committed)}
        guard = CrashGuard(self.notes[at], len(told.committed) + 1, positions)
        while len(told.committed) < self.records:
            self.step()
            left = self.records - len(told.committed)
            size = self.random.randint(1, left)
            for count, condemned in guard.examine(size, self.hold):
                self.commit(guard, count, condemned)

    def commit(self, guard: CrashGuard, count: int, condemned: bool) -> None:
        """Process records and commit them."""
        told, first = self.told, len(self.told.committed)
        guard.begin({INPUT: first + count})
        self.step()
        if told.poison & set(range(first + condemned, first + count)):
            raise DiedError
        self.step()
        guard.done()
        self.step()
        told.committed += range(first, first + count)
        told.condemned += [first] * condemned
        self.step()
        guard.committed({INPUT: first + count})


class _Court:
    def __init__(self, world: _World, first: int) -> None:
        self._world, self._first = world, first
        self._gone = False

    def run(self, count: int, *, without_first: bool = False) -> TrialResult:
        world = self._world
        random = world.random
        world.told.tried += 1
        world.step()
        if world.noisy and random.random() < world.strike:
            world.told.strikes += 1
            self._gone = random.random() < 0.1
            return TrialResult("unclear") if self._gone else TrialResult("died", "SIGKILL", True)
        if self._gone or (world.noisy and random.random() < world.unclear):
            world.told.strikes += 1
            return TrialResult("unclear")
        if world.noisy and random.random() < world.rate:
            world.doomed = random.randint(1, 3)  # all processes are killed, the children first
            return TrialResult("died", "SIGKILL", True)
        hand = range(self._first + without_first, self._first + count)
        if world.told.poison & set(hand):
            return TrialResult("died", "", world.outside)
        return TrialResult("lived")


def life(seed: int, records: int = 8) -> Life:
    """Start the service until it has come to the end of its records."""
    world = _World(seed, records)
    while True:
        try:
            world.start()
        except KilledError:
            world.told.kills += 1
        except DiedError:
            world.told.deaths += 1
        else:
            world.told.calm += not world.noisy
            return world.told
        world.told.calm += not world.noisy
        if world.starts > 200:
            return world.told
