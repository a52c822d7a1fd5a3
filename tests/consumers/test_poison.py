"""A record that kills the process: found by halving, passed over, and told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from consumers import journal
from consumers.poison import STARTS, CrashGuard
from consumers.records import Outgoing, Partition
from consumers.transports import open_log
from stream import GaussianNB
from tests.consumers.deadly import DEADLY
from tests.consumers.feeds import NOW, batch, config_text, seen
from tests.waiting import PATIENCE

AB = ("a", "b")
ROOT = Path(__file__).parents[2]


class DiedError(BaseException):
    """Stands for the end of the process: nothing may handle it."""


@pytest.fixture
def deadly(monkeypatch) -> None:
    """Every GaussianNB dies at a block with the value 666, as a fault in native code would."""
    execute = GaussianNB._execute

    def fall(self, block, *rest) -> None:
        if (block.rows.numeric[block.row] == DEADLY).any():
            raise DiedError
        execute(self, block, *rest)

    monkeypatch.setattr(GaussianNB, "_execute", fall)


def fed(service, n: int, poison: set[int]) -> None:
    """n labelled observations; those of `poison` kill."""
    for topic in ("obs", "ans", "svc-predictions", "svc-dead-letters", "svc-journal"):
        service.log.create_topic(topic, 1)
    rng = np.random.default_rng(n)
    for i in range(n):
        a = DEADLY if i in poison else float(rng.normal(i % 2))
        value = json.dumps({"id": str(i), "a": a, "b": 1.0}).encode()
        service.log.append([Outgoing("obs", b"k", value, NOW + 2 * i, (), 0)])
        label = json.dumps({"id": str(i), "label": "xy"[i % 2]}).encode()
        service.log.append([Outgoing("ans", b"k", label, NOW + 2 * i + 1, (), 0)])


def starts(service, **changes) -> int:
    """Start it again until it ends by itself; how often it died."""
    for deaths in range(200):
        try:
            service.run(features=AB, **changes)
        except DiedError:
            continue
        return deaths
    raise AssertionError("it dies for ever")


def letters(service) -> list[tuple[str, int]]:
    """Reason and offset of what was journaled as passed over."""
    entries = [journal.decode(r.value) for r in service.records("svc-journal")][1:]
    return [(skip[3], skip[2]) for entry in entries for skip in entry.skips]


@pytest.mark.parametrize("at", [0, 17, 59])
@pytest.mark.parametrize("max_records", [1, 16, 1000])
def test_record_that_kills_is_found_and_passed_over(deadly, make_service, at, max_records) -> None:
    """Everything else is predicted once and in order; the deaths are as few as halving needs."""
    service = make_service()
    fed(service, 60, {at})
    deaths = starts(service, max_records=max_records)

    assert letters(service) == [("crash_poison", at)]
    assert deaths <= STARTS + int(np.ceil(np.log2(min(max_records, 120)))) + 1
    predicted = [json.loads(value)["id"] for _, _, value in service.predictions()]
    assert predicted == [str(i) for i in range(60) if i != at]
    (dead,) = service.records("svc-dead-letters")
    assert dead.value == service.records("obs")[at].value


def test_replay_passes_over_what_the_entry_says(deadly, make_service) -> None:
    """It does not die of it again, and comes to the same bits (I2)."""
    service = make_service()
    fed(service, 60, {23})
    starts(service)
    live = service.rebuilt(features=AB)
    before = live.shard.fingerprint()

    assert live.shard.view().dead_letters == {"crash_poison": 1}
    assert live.shard.view().labels["early"] == 1  # the label of what was passed over
    assert service.rebuilt(features=AB).shard.fingerprint() == before


@pytest.mark.parametrize("poison", [{5, 6}, {0, 30, 59}])
def test_several_of_them_are_found_one_after_the_other(deadly, make_service, poison) -> None:
    """Each with its own hunt, and only they."""
    service = make_service()
    fed(service, 60, poison)
    starts(service)

    assert {offset for _, offset in letters(service)} == poison
    assert len(service.predictions()) == 60 - len(poison)


def test_label_that_kills_is_the_record_that_is_passed_over(make_service, monkeypatch) -> None:
    """Its observation was predicted, and goes on waiting."""
    execute = GaussianNB._execute

    def fall(self, block, *rest) -> None:
        learns = block.op > 0
        if (block.rows.numeric[block.row[learns]] == DEADLY).any():
            raise DiedError
        execute(self, block, *rest)

    monkeypatch.setattr(GaussianNB, "_execute", fall)
    service = make_service()
    fed(service, 40, {11})
    starts(service, max_records=8)
    view = service.rebuilt(features=AB).shard.view()

    assert [r.topic for r in map(dead_source, service.records("svc-journal")[1:]) if r] == ["ans"]
    assert (view.predictions, view.learned, view.pending) == (40, 39, 1)


def dead_source(record) -> Partition | None:
    """Where the record an entry passes over lies."""
    skips = journal.decode(record.value).skips
    return Partition(skips[0][0], skips[0][1]) if skips else None


def test_exception_is_no_death(make_service, monkeypatch) -> None:
    """What can be told stops the service with its message, at every start, and skips nothing."""

    def broken(*_) -> None:
        raise ValueError("a fault of the model")

    monkeypatch.setattr(GaussianNB, "_execute", broken)
    service = make_service()
    fed(service, 5, set())

    for _ in range(3 * STARTS):
        with pytest.raises(ValueError, match="a fault of the model"):
            service.run(features=AB)
    assert letters(service) == []
    monkeypatch.undo()
    assert starts(service) == 0


def test_death_while_committing_is_not_the_records_fault(make_service, monkeypatch) -> None:
    """A broker that hangs until a watchdog ends the process kills no record, however often."""
    service = make_service()
    fed(service, 20, set())
    service.run(features=AB, stop_after=1, max_records=4)

    class Hanging:
        def __getattr__(self, name: str):
            return getattr(service.log, name)

        def owner(self, *args):
            owner = service.log.owner(*args)

            class Watched:
                def __getattr__(self, name: str):
                    return getattr(owner, name)

                def commit(self, *_) -> int:
                    raise DiedError

            return Watched()

    for _ in range(4 * STARTS):
        with pytest.raises(DiedError):
            service.run(Hanging(), features=AB, max_records=8)
    assert starts(service) == 0
    assert letters(service) == []
    assert len(service.predictions()) == 20


def some(n: int, first: int = 0):
    """A batch of n observations."""
    return batch([seen(str(i), first + i, a=1.0) for i in range(n)])


def died(directory, seq: int, n: int) -> CrashGuard:
    """A start that takes a batch in hand and is never seen again; the start after it."""
    guard = CrashGuard(directory, seq)
    guard.begin(seq, some(n))
    guard.close()
    return CrashGuard(directory, seq)


def test_two_deaths_halve_nothing(tmp_path) -> None:
    """An operator may kill a service twice; a third time at the same entry is a pattern."""
    assert died(tmp_path, 7, 100).limit(5000) == 5000
    assert died(tmp_path, 7, 100).limit(5000) == 5000
    third = died(tmp_path, 7, 100)

    assert third.limit(5000) == 50
    assert "died 3 times while it had journal entry 7 in hand" in third.story


def test_progress_forgets_the_deaths_before_it(tmp_path) -> None:
    """Two deaths at one entry and two at the next are no pattern."""
    died(tmp_path, 7, 10).close()
    guard = died(tmp_path, 7, 10)
    guard.begin(7, some(10))
    guard.done()
    guard.committed({Partition("obs", 0): 10})
    guard.close()
    died(tmp_path, 8, 10).close()
    second = died(tmp_path, 8, 10)

    assert second.limit(5000) == 5000
    assert "2 times" in second.story


def test_a_start_that_dies_before_it_takes_anything_in_hand_counts_nothing(tmp_path) -> None:
    """A long replay that is killed for its time says nothing about the record after it."""
    died(tmp_path, 7, 10).close()
    for _ in range(3 * STARTS):
        CrashGuard(tmp_path, 7).close()

    assert CrashGuard(tmp_path, 7).limit(5000) == 5000


def test_marker_of_another_owner_is_nobodys_death(tmp_path) -> None:
    """The journal has gone on without it."""
    for _ in range(3 * STARTS):
        guard = CrashGuard(tmp_path, 7)
        guard.begin(7, some(10))
        guard.close()

    assert CrashGuard(tmp_path, 9).limit(5000) == 5000


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"seq": 7}', b'{"first": ["\xff"]}'])
def test_damaged_marker_is_no_marker(tmp_path, damage) -> None:
    """It is a hint; whoever died while writing it had nothing in hand yet."""
    (tmp_path / "inflight.json").write_bytes(damage)

    assert CrashGuard(tmp_path, 7).limit(5000) == 5000


def test_directory_that_cannot_be_written_stops_nothing(tmp_path) -> None:
    """Nothing is remembered, and the service runs."""
    (tmp_path / "file").write_text("in the way")
    guard = CrashGuard(tmp_path / "file", 7)

    assert guard.begin(7, some(3)) == []
    guard.done()
    guard.committed({})
    guard.close()


def test_service_killed_by_a_record_goes_on_by_itself(tmp_path) -> None:
    """The command, killed by the operating system at one record, started again until it drains."""
    text = config_text("sqlite:log.db", AB, max_records=1)  # found at once: a start costs a second
    text = text.replace('"GaussianNB"', '"river:naive_bayes.GaussianNB"')
    (tmp_path / "svc.toml").write_text(text)
    with closing(open_log(f"sqlite:{tmp_path / 'log.db'}")) as log:
        fed(type("Fed", (), {"log": log}), 12, {5})
    codes = []
    while not codes or codes[-1] == -9:
        assert len(codes) < 12
        done = subprocess.run(
            [sys.executable, "-m", "tests.consumers.deadly", "run", "svc.toml", "--drain"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        codes.append(done.returncode)

    assert (codes[-1], codes.count(-9)) == (0, len(codes) - 1), done.stderr
    assert len(codes) >= STARTS + 1
    assert "crash_poison" in done.stderr
    with closing(open_log(f"sqlite:{tmp_path / 'log.db'}")) as log:
        parts = [Partition("svc-predictions", 0), Partition("svc-dead-letters", 0)]
        assert sorted(log.end_offsets(parts).values()) == [1, 12]
