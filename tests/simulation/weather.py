"""What befalls the clients of one world, drawn from its seed: at each call, before or after it.

A process must also get on. One that has committed nothing for `PATIENT` seconds of the world's
clock is spared from then on, and has to commit, or to end, `LIVELY` seconds after its last fault.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from random import Random

from tests.simulation.broker import Clock

__all__ = [
    "CALM",
    "DEADLY",
    "LIVELY",
    "STORMY",
    "DiedError",
    "HungError",
    "StuckError",
    "Weather",
    "until_all",
]

# How likely at each call; a commit makes a dozen.
STORMY: Mapping[str, float] = {
    "end_offsets": 0.002,
    "poll": 0.004,
    "describe": 0.002,
    "init": 0.02,
    "no_metadata": 0.001,
    "undelivered": 0.002,
    "unacknowledged": 0.002,
    "answered_twice": 0.002,
    "offsets_refused": 0.004,
    "commit_late": 0.005,
    "commit_unanswered": 0.01,
    "end_repeated": 0.005,
    "offsets_repeated": 0.003,
    "died": 0.004,
    "slept": 0.002,
    "overtaken": 0.002,
    "succeeded": 0.0007,
    "snapshot_unwritten": 0.1,
    "snapshot_on_a_bad_disk": 0.2,
}
# A process often dies between the rows of keys on disk and the snapshot that names them.
DEADLY: Mapping[str, float] = {**STORMY, "died": 0.03, "snapshot_unwritten": 0.5}
CALM: Mapping[str, float] = {}
STEPS = frozenset({"produce", "send_offsets", "commit", "committed"})
SLEEPS = (1.0, 4.0, 9.0)  # seconds; a transaction lives for three
PATIENT, LIVELY = 10.0, 30.0  # seconds


class DiedError(BaseException):
    """The process is gone: nothing in it runs any more."""


class StuckError(BaseException):
    """The process has committed nothing for long, and nothing kept it from it."""


class HungError(Exception):
    """A call that never returns."""


def until_all(kinds: set[str], lives: Iterable[Counter[str]]) -> list[Counter[str]]:
    """The faults of each of these lives up to the one that completes the kinds."""
    seen, left = [], set(kinds)
    for faults in lives:
        seen.append(faults)
        left -= faults.keys()
        if not left:
            break
    return seen


class _Process(threading.local):
    """When a process has got on; each has its own thread where there are several at once."""

    lives = 0
    progress = since = 0.0  # the last commit or beginning, and this or the last fault


class Weather:
    """One seed's.

    Parameters
    ----------
    random
        Decides.
    clock
        Moves when the process sleeps.
    chances
        Of each fault.
    """

    def __init__(self, random: Random, clock: Clock, chances: Mapping[str, float]) -> None:
        self.random, self.clock, self._chances = random, clock, chances
        self.faults: Counter[str] = Counter()
        self.overtake: Callable[[], None] = lambda: None
        self.succeed: Callable[[], None] = lambda: None
        self.change: Callable[[], None] = lambda: None
        self.turn: Callable[[], None] = lambda: None
        self._process = _Process()

    def progressed(self) -> None:
        """The process has begun or committed."""
        self._process.progress = self._process.since = self.clock.now

    @contextmanager
    def life(self) -> Iterator[None]:
        """A process lives, maybe in the midst of a call of another one."""
        self._process.lives += 1
        self.progressed()
        try:
            yield
        finally:
            self._process.lives -= 1
            self.progressed()

    def happens(self, fault: str) -> bool:
        """Whether it does, now."""
        if self.random.random() >= self._chances.get(fault, 0.0):
            return False
        if self._process.lives and self.clock.now - self._process.progress > PATIENT:
            return False
        self.faults[fault] += 1
        self._process.since = self.clock.now
        return True

    def _look(self) -> None:
        """Whether the process gets on."""
        idle = self.clock.now - self._process.since
        if self._process.lives and idle > LIVELY:
            raise StuckError(f"nothing was committed for {idle:.0f} s after the last fault")

    def met(self, call: str, error: type[Exception] | None = None) -> None:
        """A call is made: it may fail, and at a step of a commit anything may happen."""
        self.clock.now += 0.001
        self.turn()
        self._look()
        if self.happens("changed"):
            self.change()
        if error is not None and self.happens(call):
            raise error(f"simulated: {call} failed")
        if call not in STEPS:
            return
        if self.happens("died"):
            raise DiedError
        if self.happens("slept"):
            self.clock.sleep(self.random.choice(SLEEPS))
            self._process.since = self.clock.now
        if self.happens("overtaken"):
            self.overtake()
        if self.happens("succeeded"):
            self.succeed()

    @contextmanager
    def calm(self) -> Iterator[None]:
        """Nothing happens for a while."""
        before, self._chances = self._chances, CALM
        try:
            yield
        finally:
            self._chances = before

    def settled(self) -> None:
        """Nothing happens any more, and what was on its way has come."""
        self._chances = CALM
        self.clock.now += 100.0
        self.progressed()

    def pass_time(self, seconds: float) -> None:
        """Somebody waits."""
        self.clock.sleep(seconds)
        self._look()
