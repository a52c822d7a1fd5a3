"""Several processes of one world: threads of which one runs at a time.

Who goes on, a seed decides: somewhere in a call, or where a process waits by the world's clock.
When all wait, the clock moves to the first that is due. So one seed is one run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from random import Random

from tests.simulation.broker import Clock

__all__ = ["Turns"]


class _Own(threading.local):
    """Which process a thread is; None: none, as the one that set up the world."""

    number: int | None = None


class Turns:
    """The processes of one world.

    Parameters
    ----------
    random
        Decides.
    clock
        Of the world. From now on its `sleep` lets others go on.
    """

    def __init__(self, random: Random, clock: Clock) -> None:
        self._random, self._clock = random, clock
        self._own = _Own()
        self._due: dict[int, float] = {}  # when each living process goes on
        self._gates: list[threading.Semaphore] = []
        self._over = threading.Event()
        self._errors: list[BaseException] = []
        clock.sleep = self.sleep  # type: ignore[method-assign]

    def run(self, processes: Sequence[Callable[[], None]]) -> None:
        """Run them all to their ends; the first error that one ended with is raised."""
        self._gates = [threading.Semaphore(0) for _ in processes]
        self._due = dict.fromkeys(range(len(processes)), self._clock.now)
        threads = [
            threading.Thread(target=self._live, args=(n, process), daemon=True)
            for n, process in enumerate(processes)
        ]
        for thread in threads:
            thread.start()
        self._pass_on()
        self._over.wait()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def sleep(self, seconds: float) -> None:
        """This process waits, and others go on."""
        number = self._own.number
        if number is None:
            self._clock.now += seconds
            return
        self._due[number] = self._clock.now + seconds
        self._pass_on()
        self._gates[number].acquire()

    def _live(self, number: int, process: Callable[[], None]) -> None:
        self._gates[number].acquire()
        self._own.number = number
        try:
            process()
        except BaseException as error:
            self._errors.append(error)
        finally:
            del self._due[number]
            self._pass_on()

    def _pass_on(self) -> None:
        """Let one go on whose time has come."""
        if not self._due:
            self._over.set()
            return
        self._clock.now = max(self._clock.now, min(self._due.values()))
        ready = [n for n, due in sorted(self._due.items()) if due <= self._clock.now]
        self._gates[self._random.choice(ready)].release()
