"""A record that kills the process: found by trial, passed over, and reported."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from random import Random
from uuid import uuid4

import numpy as np
import pytest

from consumers.base.records import Outgoing, Partition
from consumers.codecs.arrow.messages import documents, message_of
from consumers.journal import records as journal
from consumers.service import runner
from consumers.service.crash_guard import (
    STARTS,
    TRIALS,
    TRIALS_OUTSIDE,
    CrashGuard,
    CrashNoteFile,
    TrialResult,
)
from consumers.service.trial import _cut
from consumers.shard.assembly import shard_of
from consumers.shard.batches import Commit
from consumers.transports import open_log
from stream import GaussianNB
from stream.data.schema import Schema
from tests.consumers.arrow_tables import ArrowService
from tests.consumers.deadly import DEADLY
from tests.consumers.feeds import NOW, config_text
from tests.simulation.kills import OLD_NOTE

AB = ("a", "b")
ROOT = Path(__file__).parents[3]


class DiedError(BaseException):
    """Stands for the end of the process: nothing may handle it."""


class Trials:
    """Tries records in a copy of the shard in this process: a death is an exception there."""

    def __init__(self, config, directory, **_) -> None:
        self.config = config

    @contextmanager
    def of(self, live, parts, now) -> Iterator[object]:
        """A court over the records."""
        config = self.config

        class Court:
            def run(self, count: int, *, without_first: bool = False) -> TrialResult:
                batch, _ = _cut(parts, live.shard.spec.label_topics, count, now)
                (topic, number), offset = batch.place(0)
                shard = shard_of(config, Schema(live.fields))
                shard.load_state(live.shard.to_state())
                skip = [(topic, number, offset, "crash_poison")]
                try:
                    shard.process(batch, now, Commit(skip if without_first else []))
                except DiedError:
                    return TrialResult("died", "SIGSEGV")
                except Exception:
                    return TrialResult("lived")
                return TrialResult("lived")

        yield Court()


@pytest.fixture
def tried(monkeypatch) -> None:
    """Records are tried in this process."""
    monkeypatch.setattr(runner, "TrialProcesses", Trials)


@pytest.fixture
def deadly(monkeypatch, tried) -> None:
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


def test_message_with_a_row_that_kills_is_passed_over_whole(deadly, tmp_path) -> None:
    """Its other rows are not predicted; every other message is."""
    pytest.importorskip("pyarrow")
    service = ArrowService(f"memory:{uuid4()}", tmp_path)
    for topic in ("obs", "ans", "svc-predictions", "svc-dead-letters", "svc-journal"):
        service.log.create_topic(topic, 1)
    for k in range(12):
        rows = [{"id": f"{k}.{i}", "a": float(i % 2), "b": 1.0} for i in range(5)]
        rows[3]["a"] = DEADLY if k == 7 else 0.0
        service.log.append([Outgoing("obs", None, message_of(rows), NOW + k, (), 0)])
    assert starts(service, max_records=20) == STARTS

    assert letters(service) == [("crash_poison", 7)]
    predicted = [json.loads(value)["id"] for _, _, value in service.predictions()]
    assert predicted == [f"{k}.{i}" for k in range(12) if k != 7 for i in range(5)]
    (dead,) = service.records("svc-dead-letters")
    assert len(documents(dead.value, 9)) == 5
    assert service.rebuilt(features=AB).shard.view().dead_letters["crash_poison"] == 1


def letters(service) -> list[tuple[str, int]]:
    """Reason and offset of what was journaled as passed over."""
    entries = [journal.decode(r.value) for r in service.records("svc-journal")][1:]
    return [(skip[3], skip[2]) for entry in entries for skip in entry.skips]


@pytest.mark.parametrize("at", [0, 17, 59])
@pytest.mark.parametrize("max_records", [1, 16, 1000])
def test_record_that_kills_is_found_and_passed_over(deadly, make_service, at, max_records) -> None:
    """Everything else is predicted once and in order; the service dies three times."""
    service = make_service()
    fed(service, 60, {at})
    deaths = starts(service, max_records=max_records)

    assert letters(service) == [("crash_poison", at)]
    assert deaths == STARTS
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


def test_label_that_kills_is_the_record_that_is_passed_over(
    make_service, monkeypatch, tried
) -> None:
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


OBS = Partition("obs", 0)


def guarded(directory: Path, at: int = 0) -> CrashGuard:
    """A start where the journal ends before offset `at`."""
    return CrashGuard(CrashNoteFile(directory), 7, {OBS: at})


def died(directory: Path, n: int, at: int = 0) -> CrashGuard:
    """A start that takes n records in hand and is never seen again; the start after it."""
    guard = guarded(directory, at)
    guard.begin({OBS: at + n})
    guard.close()
    return guarded(directory, at)


def test_two_deaths_are_no_suspicion(tmp_path) -> None:
    """An operator may kill a service twice; a third time with the same records is a pattern."""
    assert not died(tmp_path, 100).suspicious
    assert not died(tmp_path, 100).suspicious
    third = died(tmp_path, 100)

    assert third.suspicious
    assert "died 3 times while processing journal record 7" in third.story


def test_progress_forgets_the_deaths_before_it(tmp_path) -> None:
    """Two deaths at one entry and two at the next are no pattern."""
    died(tmp_path, 10).close()
    guard = died(tmp_path, 10)
    guard.begin({OBS: 10})
    guard.done()
    guard.committed({OBS: 10})
    guard.close()
    died(tmp_path, 10, at=10).close()
    second = died(tmp_path, 10, at=10)

    assert not second.suspicious
    assert "2 times" in second.story


def test_a_start_that_dies_before_it_takes_anything_in_hand_counts_nothing(tmp_path) -> None:
    """A long replay that is killed for its time says nothing about the record after it."""
    died(tmp_path, 10).close()
    for _ in range(3 * STARTS):
        guarded(tmp_path).close()

    assert not guarded(tmp_path).suspicious


def test_marker_of_another_owner_is_nobodys_death(tmp_path) -> None:
    """The journal has gone on with those records."""
    for at in range(0, 10 * STARTS, 3):
        guard = guarded(tmp_path, at)
        guard.begin({OBS: at + 3})
        guard.close()

    assert not guarded(tmp_path, 100).suspicious


def test_start_killed_during_a_trial_is_followed_by_one_without(tmp_path) -> None:
    """A service that is killed all the time gets on as fast as half of its starts let it."""
    for _ in range(STARTS):
        guard = died(tmp_path, 4)
    with pytest.raises(DiedError):
        list(guard.examine(4, killed))
    guard.close()
    guard = guarded(tmp_path)

    assert list(guard.examine(4, killed)) == [(4, False)]
    assert died(tmp_path, 4).suspicious


@contextmanager
def killed() -> Iterator[object]:
    """Whoever opens the court is no more."""
    raise DiedError
    yield


class Scripted:
    """A court that gives these fates, one after the other, for the first record and beside it."""

    def __init__(self, alone: list[TrialResult], beside: list[TrialResult]) -> None:
        self.alone, self.beside = alone, beside

    @contextmanager
    def __call__(self) -> Iterator[Scripted]:
        yield self

    def run(self, count: int, *, without_first: bool = False) -> TrialResult:
        return (self.beside if without_first else self.alone).pop(0)


LIVED, DIED = TrialResult("lived"), TrialResult("died", "SIGSEGV")
KILLED, UNCLEAR = TrialResult("died", "SIGKILL", True), TrialResult("unclear", "no memory")


@pytest.mark.parametrize(
    ("alone", "beside", "condemned"),
    [
        ([DIED] * TRIALS, [LIVED] * TRIALS, True),
        ([DIED] * (TRIALS - 1) + [LIVED], [LIVED] * TRIALS, False),
        ([DIED] * TRIALS, [LIVED] * (TRIALS - 1) + [DIED], False),
        ([DIED] * TRIALS, [LIVED] * (TRIALS - 1) + [UNCLEAR], False),
        ([DIED] * (TRIALS - 1) + [UNCLEAR], [LIVED] * TRIALS, False),
        ([KILLED] * TRIALS_OUTSIDE, [LIVED] * TRIALS_OUTSIDE, True),
        ([KILLED] * (TRIALS_OUTSIDE - 1) + [LIVED], [LIVED] * TRIALS_OUTSIDE, False),
        ([DIED, KILLED] * (TRIALS_OUTSIDE // 2), [LIVED] * TRIALS_OUTSIDE, True),
    ],
)
def test_record_is_condemned_only_beside_children_that_live(
    tmp_path, alone, beside, condemned
) -> None:
    """As often with it dead as without it alive, in a row; more often where anybody may have."""
    for _ in range(STARTS):
        guard = died(tmp_path, 1)

    assert list(guard.examine(1, Scripted(list(alone), list(beside)))) == [(1, condemned)]


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"seq": 7}', b'{"first": ["\xff"]}', OLD_NOTE]
)
def test_damaged_or_old_marker_is_no_marker(tmp_path, damage) -> None:
    """It is a hint; one of the time when deaths of the service condemned condemns nobody now."""
    (tmp_path / "inflight.json").write_bytes(damage)
    guard = guarded(tmp_path)

    assert not guard.suspicious
    assert list(guard.examine(3, Scripted([], []))) == [(3, False)]


def test_directory_that_cannot_be_written_stops_nothing(tmp_path) -> None:
    """Nothing is remembered, and the service runs."""
    (tmp_path / "file").write_text("in the way")
    guard = guarded(tmp_path / "file")

    guard.begin({OBS: 3})
    guard.done()
    guard.committed({})
    guard.close()


def processes(directory: Path) -> list[int]:
    """Those that run in a directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (path / "cwd").readlink() == directory and (path / "exe").exists():
                found.append(int(path.name))
    return found


def test_service_killed_by_a_record_and_by_others_goes_on_by_itself(tmp_path) -> None:
    """The command, killed by the operating system at one record and by somebody in the midst of
    its trials, started again until it drains; with a key for its snapshots, which stays here.
    """
    key = "2b91c0de77fa4810" * 4
    text = config_text("sqlite:log.db", AB)
    text = text.replace("[snapshots]", '[snapshots]\nkey = "${env:HEADWATER_TEST_KEY}"')
    text = text.replace('"GaussianNB"', '"river:naive_bayes.GaussianNB"')
    (tmp_path / "svc.toml").write_text(text)
    with closing(open_log(f"sqlite:{tmp_path / 'log.db'}")) as log:
        fed(type("Fed", (), {"log": log}), 12, {5})
    random, trials = Random(12), 0
    codes: list[int] = []
    output = ""
    while not codes or codes[-1] == -9:
        assert len(codes) < 12, output
        with (tmp_path / "log").open("w+") as told:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.consumers.deadly", "run", "svc.toml", "--drain"],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(ROOT), "HEADWATER_TEST_KEY": key},
                stdout=told,
                stderr=told,
            )
            while process.poll() is None:
                time.sleep(0.02)
                tried = "tried in child processes first" in (tmp_path / "log").read_text()
                if tried and not trials and random.random() < 0.02:
                    trials += 1
                    process.kill()
                    process.wait()
        codes.append(process.returncode)
        output = (tmp_path / "log").read_text()
    while processes(tmp_path):  # those of the trials end with the service
        time.sleep(0.02)

    assert (codes[-1], codes.count(-9)) == (0, len(codes) - 1), output
    assert len(codes) == STARTS + 1 + 2 * trials
    assert trials == 1
    assert "12 of 12 child processes died of one record (SIGKILL)" in output
    assert [n for n in range(16) if (key * 2)[n : n + 8] in output] == []
    with closing(open_log(f"sqlite:{tmp_path / 'log.db'}")) as log:
        parts = [Partition("svc-predictions", 0), Partition("svc-dead-letters", 0)]
        assert sorted(log.end_offsets(parts).values()) == [1, 12]


def test_directories_of_the_note_are_for_its_user_only(tmp_path: Path) -> None:
    """Also those above it: the first file of a service may be this one."""
    before = os.umask(0o022)
    try:
        CrashNoteFile(tmp_path / "state" / "svc" / "shard-0").close()
    finally:
        os.umask(before)

    made = [tmp_path / part for part in ("state", "state/svc", "state/svc/shard-0")]
    assert [stat.S_IMODE(each.stat().st_mode) for each in made] == [0o700] * 3
