"""The records of the next commit, polled and merged."""

from __future__ import annotations

import threading
from collections.abc import Collection

import pytest

from consumers.base.errors import TransportError
from consumers.base.records import Fetched, Partition
from consumers.config import parse
from consumers.journal.merge import Merge
from consumers.service import pace
from consumers.service.pace import Gatherer
from tests.consumers.feeds import config_text
from tests.simulation.broker import START, Clock

PLACE, LATE = Partition("obs", 0), Partition("labels", 0)
SIZE = 4
CONFIG = parse(config_text("memory:gather", ["a"]))
DELAY = CONFIG.commit.max_delay_ms / 1000


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


class Steady(Polled):
    """An owner whose records come one by one; a poll waits for the next one."""

    def __init__(self, clock: Clock, every: float) -> None:
        super().__init__(10_000)
        self.clock, self.every, self.began = clock, every, clock.now

    def poll(self, *, max_records: int, **_: object) -> list[Fetched]:
        self.polls += 1
        if (there := int((self.clock.now - self.began) / self.every)) == self.at:
            self.clock.sleep(self.every)
            there += 1
        offsets = list(range(self.at, there))
        n, self.at = len(offsets), there
        return [Fetched(PLACE, offsets, [1_000] * n, [None] * n, [b"{}"] * n)]


def gatherer(owner: Polled) -> Gatherer:
    merge = Merge((PLACE,), frozenset(), 2**20)
    merge.seek({PLACE: 0})
    return Gatherer(CONFIG, owner, merge, lambda: 0.0, threading.Event())


def test_batches_have_the_size_and_what_was_polled_too_much_is_in_the_next_one() -> None:
    """A poll returns three records here, and a batch four."""
    gathering, clock, found = gatherer(Polled(10)), 7, []
    for _ in range(4):
        batch, clock = gathering.next(SIZE, clock)
        found.append([] if batch is None else batch.offsets.tolist())

    assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []]
    assert clock > 7


def test_few_records_are_polled_a_few_times_in_the_delay_of_a_commit(monkeypatch) -> None:
    """Each record of a steady feed came in a poll of its own, a millisecond of a processor each."""
    clock = Clock()
    monkeypatch.setattr(pace, "time", clock)
    steady = Steady(clock, every=0.001)
    batch, _ = gatherer(steady).next(10_000, 0)

    assert batch is not None
    assert clock.now - steady.began == pytest.approx(DELAY, abs=0.001)
    assert len(batch) == pytest.approx(DELAY / 0.001, abs=3)
    assert steady.polls <= pace.POLLS + 1


def test_many_records_are_polled_without_a_pause(monkeypatch) -> None:
    """While the service is behind, each pause would be time lost."""
    clock = Clock()
    monkeypatch.setattr(pace, "time", clock)
    owner = Polled(900)
    batch, _ = gatherer(owner).next(20, 0)

    assert batch is not None
    assert clock.now - START < 0.001
    assert owner.polls == 7


@pytest.mark.parametrize(
    ("until", "waited"), [(None, True), ({PLACE: 3}, False), ({PLACE: 9}, True)]
)
def test_last_records_before_an_end_wait_for_no_others(monkeypatch, until, waited) -> None:
    """A run that ends there would wait for records that it does not want."""
    clock = Clock()
    monkeypatch.setattr(pace, "time", clock)

    class Ended(Polled):
        def poll(self, *, timeout: float, **more: object) -> list[Fetched]:
            found = super().poll(timeout=timeout, **more)
            clock.sleep(0.0 if found else timeout)
            return found

        def ends(self) -> dict[Partition, int]:
            return {PLACE: 9}

    merge = Merge((PLACE,), frozenset(), 2**20)
    merge.seek({PLACE: 0})
    gathering = Gatherer(CONFIG, Ended(3), merge, lambda: 0.0, threading.Event(), until)
    batch, _ = gathering.next(SIZE, 0)

    assert batch is not None
    assert len(batch) == 3
    assert (clock.now - START > 0.001) == waited


def test_large_commit_is_polled_without_a_pause(monkeypatch) -> None:
    """What is few depends on the usual size of a commit, not on how many records wait."""
    clock = Clock()
    monkeypatch.setattr(pace, "time", clock)
    size = 20 * CONFIG.commit.usual_records

    class Large(Polled):
        def poll(self, *, max_records: int, **_: object) -> list[Fetched]:
            n = CONFIG.commit.usual_records // 2
            at = list(range(self.at, self.at + n))
            self.at += n
            return [Fetched(PLACE, at, [1_000] * n, [None] * n, [b"{}"] * n)]

    batch, _ = gatherer(Large(10_000)).next(size, 0)

    assert batch is not None
    assert len(batch) == size
    assert clock.now - START < 0.001


class Slow(Polled):
    """An owner of two inputs with a record for each millisecond. A poll returns ten of one input:
    of the first one while that is asked for. The second one never answers if it is `silent`."""

    def __init__(self, clock: Clock, *, silent: bool = False) -> None:
        super().__init__(0)
        self.clock, self.silent = clock, silent
        self.next = {PLACE: 0, LATE: 1}

    def poll(self, *, skip: Collection[Partition], timeout: float, **_: object) -> list[Fetched]:
        self.polls += 1
        place = LATE if PLACE in skip else PLACE
        if place == LATE and self.silent:
            self.clock.sleep(timeout)
            return []
        begin = self.next[place]
        offsets = list(range(begin, begin + 10))
        self.next[place] = begin + 10
        return [Fetched(place, offsets, offsets, [None] * 10, [b"{}"] * 10)]

    def ends(self) -> dict[Partition, int]:
        return {PLACE: 1_000, LATE: 1_000}


def slow(owner: Slow) -> Gatherer:
    merge = Merge((PLACE, LATE), frozenset([LATE.topic]), 2**20)
    merge.seek({PLACE: 0, LATE: 1})
    first = Fetched(LATE, [0], [0], [None], [b"{}"])  # it would end each batch
    merge.add([first])
    return Gatherer(CONFIG, owner, merge, lambda: 0.0, threading.Event())


def test_full_commit_waits_for_an_input_whose_records_are_under_way(monkeypatch) -> None:
    """An input that was not fetched yet ended the batch: one commit in five had few records."""
    clock = Clock()
    monkeypatch.setattr(pace, "time", clock)
    owner = Slow(clock)
    gathering, sizes = slow(owner), []
    for _ in range(5):
        batch, _ = gathering.next(20, 0)
        assert batch is not None
        sizes.append(len(batch))

    assert sizes == [20] * 5
    assert clock.now - START < 0.001


def test_few_records_of_an_input_are_polled_without_a_pause_while_behind(monkeypatch) -> None:
    """The pause between two polls is for feeds that fill no commit."""
    clock = Clock()
    monkeypatch.setattr(pace, "time", clock)
    gathering = slow(Slow(clock))
    for begin in (0, 100):
        at = list(range(begin, begin + 100))
        gathering._merge.add([Fetched(PLACE, at, at, [None] * 100, [b"{}"] * 100)])
    batch, _ = gathering.next(100, 0)

    assert batch is not None
    assert len(batch) == 100
    assert clock.now - START < 0.001


def test_full_commit_does_not_wait_for_a_silent_input(monkeypatch) -> None:
    """The records of the others are committed as far as the order is certain."""
    clock = Clock()
    monkeypatch.setattr(pace, "time", clock)
    batch, _ = slow(Slow(clock, silent=True)).next(20, 0)

    assert batch is not None
    assert len(batch) == 2
    assert clock.now - START < pace.MORE_SECONDS + 0.001


@pytest.mark.parametrize(
    ("inputs", "wanted", "seconds"),
    [(1, 9.0, 0.2), (160, 9.0, 0.2), (400, 9.0, 0.5), (2_000, 9.0, 1.0), (800, 0.5, 0.5)],
)
def test_poll_without_records_waits_longer_for_many_inputs(inputs, wanted, seconds) -> None:
    """Unless the loop is wanted sooner: it does nothing else until the poll has returned."""
    waits = []

    class Quiet(Polled):
        def poll(self, *, timeout: float, **named: int) -> list[Fetched]:
            waits.append(timeout)
            return super().poll(**named)

    places = [Partition("obs", number) for number in range(inputs)]
    merge = Merge(places, frozenset(), 2**20)
    merge.seek(dict.fromkeys(places, 0))
    gathering = Gatherer(CONFIG, Quiet(0), merge, lambda: wanted, threading.Event())
    for _ in range(2):
        gathering.next(SIZE, 0)

    assert waits[-1] == seconds


def test_error_of_a_poll_is_raised() -> None:
    """The service then starts over from the journal."""
    owner = Polled(10)
    gathering = gatherer(owner)
    gathering.next(SIZE, 0)
    owner.error = TransportError("the log is gone")

    with pytest.raises(TransportError, match="the log is gone"):
        list(iter(lambda: gathering.next(SIZE, 0), None))
