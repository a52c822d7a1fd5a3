"""The failing world, in which two versions of the program take turns at one service.

The next version differs in one way of `WAYS`, and reads what this one has written. A life of this
version that comes after one of the next must say that a newer version was there, before it fences
anybody, and write nothing; or, where only snapshots differ, it must do what it would have done
without them. In the end the predictions are those of an undisturbed service.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from kafka import TopicPartition

from consumers.base.errors import FencedError, JournalFormatError, TransportError
from consumers.journal import reader, records
from consumers.journal.records import CommitRecord
from consumers.service import recovery, runner
from consumers.shard.shard import Shard
from consumers.snapshots import locate
from consumers.snapshots.key_files import saved_state
from stream.data.state import State
from tests.simulation.weather import DiedError, StuckError
from tests.simulation.world import Told, World

__all__ = ["WAYS", "Versions"]

JOURNAL = TopicPartition("svc-journal", 0)
LIVES = 300

Changes = dict[tuple[Any, str], Any]  # what a name of a module or class stands for
SCALED = "of_the_next_version"  # an array that marks a state whose variances are twice as large

_encode, _decode, _load = records.encode, records.decode, Shard.load_state
_versions = locate.versions


def _with_field(entry: Any) -> bytes:
    data = _encode(entry)
    return data[:-1] + FIELD if isinstance(entry, CommitRecord) else data


FIELD = b',"pace":2}'
KINDS = b'"kind":"commit"', b'"kind":"turn"'


def _scaled(state: State, by: float) -> State:
    arrays = {
        name: array * by if name.endswith("m2") else array  # a value that passes every check
        for name, array in state.arrays.items()
        if name != SCALED
    }
    return State(state.header, arrays)


def _saved(shard: Shard) -> State:
    state = _scaled(saved_state(shard), 2.0)
    return State(state.header, {**state.arrays, SCALED: np.array([2.0])})


def _loaded(shard: Shard, state: State) -> Any:
    return _load(shard, _scaled(state, 0.5) if SCALED in state.arrays else state)


def _named() -> dict[str, str]:
    return {**_versions(), "headwater": "99.0.0"}


NEXT: dict[str, Changes] = {
    "field": {
        (records, "encode"): _with_field,
        (reader, "decode"): lambda value: _decode(value.replace(FIELD, b"}")),
    },
    "kind": {
        (records, "encode"): lambda entry: _encode(entry).replace(*KINDS),
        (reader, "decode"): lambda value: _decode(value.replace(*KINDS[::-1])),
    },
    "state": {
        (locate, "versions"): _named,
        (recovery, "versions"): _named,
        (recovery, "saved_state"): _saved,
        (runner, "saved_state"): _saved,
        (Shard, "load_state"): _loaded,
    },
}
# What a record of the next version has, and none of this one. Its snapshots have a journal of both.
MARKS = {"field": [FIELD], "kind": [KINDS[1]], "state": []}
THIS: Changes = {at: getattr(*at) for changes in NEXT.values() for at in changes}
WAYS = tuple(NEXT)


class Versions(World):
    """One seed; the parameters are those of `World`."""

    def __init__(self, seed: int, directory: Path, **options: Any) -> None:
        super().__init__(seed, directory, **options)
        self.way = self._random.choice(WAYS)
        self._every = self._random.randint(
            3, 20
        )  # a snapshot is often the last thing that was done
        self.wrong: list[str] = []

    def run(self) -> Told:
        """Live through it to the end of the inputs."""
        with self._installed():
            for life in range(LIVES):
                try:
                    # The last ones are of the next version: this one may not be let in any more.
                    chosen = life > LIVES // 2 or self._random.random() < 0.5
                    if self._in_turn(self._random.choice(self._hosts), None, is_next=chosen):
                        break
                except (DiedError, FencedError, TransportError):
                    self._damage()
                except StuckError as stuck:
                    self.told.stuck.append(str(stuck))
                    break
            else:
                self.wrong.append(f"it did not come to an end in {LIVES} lives")
            self._weather.settled()
            with self._as(True):
                self._look()
        return self.told

    def _in_turn(self, host: Path, commits: int | None, *, is_next: bool) -> bool:
        """A life of one version. False if it was not let in."""
        newer, before, done = self._is_newer(), self._traces(), self.told.commits
        let_in = True
        try:
            with self._as(is_next):
                self._life(host, commits)
        except JournalFormatError as error:
            self.told.faults["refused"] += 1
            let_in = False
            if "newer version" not in str(error):
                self.wrong.append(f"a newer version was not named: {error}")
            if is_next or not (newer or self.told.commits > done):
                self.wrong.append(f"what it can read was refused: {error}")
            if self.told.commits == done and self._traces() != before:
                self.wrong.append("who was not let in has written, or fenced somebody")
        finally:
            if let_in and newer and not is_next:
                self.wrong.append("a journal of a newer version was read")
        return let_in

    def _succeed(self) -> None:
        """Who takes over in the midst of a call is of any version."""
        with self._weather.calm():
            host, commits = self._random.choice(self._hosts), self._random.randint(1, 5)
            self._in_turn(host, commits, is_next=self._random.random() < 0.5)

    def _traces(self) -> list[int]:
        """What a start changes: the records of the service, and the epoch of its owner."""
        outputs = [topic for topic in self._broker.topics if topic.startswith("svc-")]
        parts = [TopicPartition(t, n) for t in outputs for n in range(self._broker.topics[t])]
        written = [len(list(self._broker.committed(part))) for part in parts]
        return [*written, *self._broker.owners("svc.0")]

    def _is_newer(self) -> bool:
        """Whether the journal has what this version does not know."""
        journal = (record.value or b"" for record in self._broker.committed(JOURNAL))
        return any(mark in value for value in journal for mark in MARKS[self.way])

    @contextmanager
    def _as(self, is_next: bool) -> Iterator[None]:
        """A version runs, also in the midst of a life of the other one."""
        self.told.faults["next" if is_next else "this"] += 1
        with ExitStack() as stack:
            for at, value in {**THIS, **(NEXT[self.way] if is_next else {})}.items():
                stack.enter_context(patch.object(*at, value))
            yield
