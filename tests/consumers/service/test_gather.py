"""The records of the next commit: what is polled, and what is polled beside a commit."""

from __future__ import annotations

import threading

import pytest

from consumers.base.errors import TransportError
from consumers.base.records import Fetched, Partition
from consumers.config import parse
from consumers.journal.merge import Merge
from consumers.service.gather import Gatherer
from tests.consumers.feeds import config_text

PLACE = Partition("obs", 0)
SIZE = 4


class Polled:
    """An owner that has so many records, or fails."""

    def __init__(self, records: int) -> None:
        self.left, self.at, self.polls = records, 0, 0
        self.error: TransportError | None = None

    def poll(self, *, max_records: int, **_: object) -> list[Fetched]:
        self.polls += 1
        if self.error is not None:
            raise self.error
        n = min(self.left, max_records, 3)
        if n == 0:
            return []
        offsets = list(range(self.at, self.at + n))
        self.left, self.at = self.left - n, self.at + n
        return [Fetched(PLACE, offsets, [1_000] * n, [None] * n, [b"{}"] * n)]

    def ends(self) -> dict[Partition, int]:
        return {PLACE: self.at + self.left}


def gatherer(owner: Polled) -> Gatherer:
    merge = Merge((PLACE,), frozenset(), 2**20)
    merge.seek({PLACE: 0})
    config = parse(config_text("memory:gather", ["a"]))
    return Gatherer(config, owner, merge, lambda: None, threading.Event())


def test_what_was_polled_ahead_is_the_next_batch_without_a_poll() -> None:
    """Ahead ends where the next commit is full; the rest is polled when it is gathered."""
    owner = Polled(10)
    gathering = gatherer(owner)
    ahead = gathering.ahead(SIZE)

    assert [ahead(), ahead(), ahead()] == [True, True, False]
    assert owner.polls == 2
    batch, clock = gathering.next(SIZE, 7)
    assert batch is not None
    assert (batch.offsets.tolist(), owner.polls) == ([0, 1, 2, 3], 2)
    assert clock > 7
    rest = [batch for batch, _ in (gathering.next(SIZE, clock) for _ in range(3)) if batch]
    assert [b.offsets.tolist() for b in rest] == [[4, 5, 6, 7], [8, 9]]


def test_error_of_a_poll_ahead_is_raised_by_the_next_batch() -> None:
    """The commit beside it may have succeeded, so it is not its error."""
    owner = Polled(10)
    gathering = gatherer(owner)
    owner.error = TransportError("the log is gone")
    ahead = gathering.ahead(SIZE)

    assert [ahead(), ahead()] == [False, False]
    assert owner.polls == 1
    with pytest.raises(TransportError, match="the log is gone"):
        gathering.next(SIZE, 0)
