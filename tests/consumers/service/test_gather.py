"""The records of the next commit, polled and merged."""

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


def test_batches_have_the_size_and_what_was_polled_too_much_is_in_the_next_one() -> None:
    """A poll returns three records here, and a batch four."""
    gathering, clock, found = gatherer(Polled(10)), 7, []
    for _ in range(4):
        batch, clock = gathering.next(SIZE, clock)
        found.append([] if batch is None else batch.offsets.tolist())

    assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []]
    assert clock > 7


def test_error_of_a_poll_is_raised() -> None:
    """The service then starts over from the journal."""
    owner = Polled(10)
    gathering = gatherer(owner)
    gathering.next(SIZE, 0)
    owner.error = TransportError("the log is gone")

    with pytest.raises(TransportError, match="the log is gone"):
        list(iter(lambda: gathering.next(SIZE, 0), None))
