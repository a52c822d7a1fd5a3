"""The failing world with several processes at once, of one service with several shards.

Each process has a turn of its own at any call of a client (`turns.py`), so two of a shard meet
anywhere: both recovering, both in the midst of a commit. Processes of a shard start again after a
while, as under a supervisor, also where another one has fenced them; who starts fences the
other one. All promises of `world.py` are kept, and every life gets on.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

from consumers.base.errors import FencedError, TransportError
from tests.simulation.turns import Turns
from tests.simulation.weather import STORMY, DiedError, StuckError
from tests.simulation.world import Told, World

__all__ = ["CROWDED", "Crowd"]

CROWDED = {**STORMY, "succeeded": 0.0}  # successors are processes of their own here
SHARDS = 2
PROCESSES = 2  # of each shard
LIVES = 100  # of a process
PAUSE = 0.3  # seconds before a start, at most
SWITCH = 0.3  # chance, at a call


class Crowd(World):
    """One seed; the parameters are those of `World`."""

    def __init__(self, seed: int, directory: Path, **options: Any) -> None:
        super().__init__(seed, directory, **{"shards": SHARDS, "chances": CROWDED, **options})
        self._turns = Turns(self._random, self._clock)
        self._weather.turn = self._turn
        self._drained: set[int] = set()

    def run(self) -> Told:
        """Live through it to the end of the inputs."""
        shards = [shard for shard in range(self._shards) for _ in range(PROCESSES)]
        with self._installed():
            self._turns.run([partial(self._process, shard) for shard in shards])
            self._weather.settled()
            self._look()
        shutil.rmtree(self._directory, ignore_errors=True)
        return self.told

    def _turn(self) -> None:
        if self._random.random() < SWITCH:
            self._clock.sleep(0.0)

    def _process(self, shard: int) -> None:
        """The lives of a process, until its shard has come to the end of its inputs."""
        for _ in range(LIVES):
            self._clock.sleep(self._random.uniform(0.0, PAUSE))
            if shard in self._drained:
                return
            try:
                self._life(self._random.choice(self._hosts), shard=shard)
                self._drained.add(shard)
                return
            except FencedError:
                self.told.faults["fenced"] += 1
            except (DiedError, TransportError):
                self._damage()
            except StuckError as stuck:
                self.told.stuck.append(f"shard {shard}: {stuck}")
                return
        self.told.stuck.append(f"shard {shard}: it did not come to an end in {LIVES} lives")
