"""Snapshots that went wrong, and disks that do: never a bad state, always the older one, told.

`python -m tests.long.damage` is the long form.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from consumers.base.errors import ConfigError, SnapshotError, TransportError
from consumers.service import recovery
from consumers.service.recovery import rebuild, recover, sources
from consumers.snapshots import places
from consumers.snapshots.format import from_bytes, name_of
from consumers.snapshots.store import SnapshotStore
from tests.consumers.damage import damages
from tests.consumers.disk import FAULTS, FailingOs, PowerCutError
from tests.consumers.feeds import NOW
from tests.consumers.snapshots.test_snapshots import about, state
from tests.seed import seeds
from tests.stores import the_store

# Whole, and no snapshot of this journal all the same.
SEEN_BY_THE_JOURNAL = {
    "of another identity",
    "of a history that never was",
    "of another clock than its entry",
}

# Whether it said that it was written, and the newest that is there afterwards. Behind the rename
# it may be there without having been said.
EXPECTED = {
    "enospc": {(False, 2), (False, 3), (True, 3)},
    "eio": {(False, 2), (False, 3), (True, 3)},
    "short": {(True, 3)},
    "power": {(False, 2), (False, 3)},
}


def live_of(service):
    """The shard after a start on what lies on the disk."""
    config = service.config()
    found = sources(config, service.log)
    owner = service.log.owner("svc", 0, found.inputs)
    store = SnapshotStore(service.directory / "headwater-state" / "svc" / "shard-0")
    return recover(config, service.log, owner, found, store, now=NOW)


def test_damaged_snapshot_is_never_loaded_and_the_older_one_is(ran_thrice) -> None:
    """Every kind of damage to the newest: a start goes on from the one before, and says so."""
    older, newest = ran_thrice.snapshots()[-2:]
    data, fingerprint = newest.read_bytes(), ran_thrice.fingerprint()
    before = from_bytes(older.read_bytes())[0]
    seen = set()
    for kind, bad in damages(data, 0, flips=40, header_step=53, page=8192):
        newest.write_bytes(bad)
        if kind not in SEEN_BY_THE_JOURNAL:
            store = the_store(ran_thrice.directory / "headwater-state", "svc")
            assert next(store.newest(lambda _: None))[0] == before, kind
        if kind not in seen:  # a whole start for each kind
            live = live_of(ran_thrice)
            assert live.shard.fingerprint() == fingerprint, kind
            assert live.snapshot == before.now, kind
            assert [line.split(": ")[0] for line in live.refused] == [newest.name], kind
        seen.add(kind)

    assert len(seen) == 12


def test_broker_that_does_not_answer_is_not_taken_for_a_bad_snapshot(
    ran_thrice, monkeypatch
) -> None:
    """Older snapshots would fail in the same way, each after its time limit."""
    asked = []

    def replay(*_: object) -> None:
        asked.append(1)
        raise TransportError("nobody answered")

    monkeypatch.setattr(recovery, "replay", replay)
    with pytest.raises(TransportError, match="nobody answered"):
        live_of(ran_thrice)
    assert len(asked) == 1


def test_snapshot_ahead_of_the_journal_is_told_and_left(ran_thrice) -> None:
    """Its name and its header agree, so the journal has lost records."""
    newest = ran_thrice.snapshots()[-1]
    told, saved = from_bytes(newest.read_bytes())
    store = the_store(ran_thrice.directory / "headwater-state", "svc")
    later = about_at(told, position=told.position + 5, seq=told.seq + 5)
    ahead = store.directory / name_of(store.write(later, saved))
    with pytest.raises(ConfigError, match=f"up to position {told.position + 5}"):
        live_of(ran_thrice)
    config = ran_thrice.config()
    base = SnapshotStore(ran_thrice.directory / "headwater-state" / "svc" / "shard-0")
    live = rebuild(config, ran_thrice.log, sources(config, ran_thrice.log), base, end=told.position)

    assert live.refused == (f"{ahead.name}: ahead of the journal, which ends at {told.position}",)
    assert ahead.exists()


def about_at(told, **changes):
    """The same snapshot at another position."""
    return msgspec.structs.replace(told, **changes)


@pytest.fixture
def two(tmp_path: Path) -> SnapshotStore:
    """A store with snapshots at 1 and 2."""
    return store_of_two(tmp_path)


def store_of_two(parent: Path) -> SnapshotStore:
    """The same below this directory."""
    store = SnapshotStore(parent / "state")
    for position in (1, 2):
        store.write(about(position), state())
    return store


def calls(store: SnapshotStore, tmp_path: Path, monkeypatch) -> int:
    """How many steps of the disk one more snapshot takes."""
    shutil.copytree(store.directory, tmp_path / "counted")
    disk = FailingOs("eio", -1)
    with monkeypatch.context() as patched:
        patched.setattr(places, "os", disk)
        SnapshotStore(tmp_path / "counted").write(about(3), state())
    assert disk.calls > 8
    return disk.calls


@pytest.mark.parametrize("fault", FAULTS)
def test_disk_that_fails_at_any_step_leaves_a_good_snapshot(
    fault, two, tmp_path, monkeypatch
) -> None:
    """Full, broken, writing little at a time or without power: the newest good one is whole."""
    outcomes, said = set(), []
    for step in range(calls(two, tmp_path, monkeypatch)):
        for seed in range(6 if fault == "power" else 1):
            here = tmp_path / f"{step}-{seed}"
            shutil.copytree(two.directory, here)
            disk = FailingOs(fault, step, seed)
            written = True
            with monkeypatch.context() as patched:
                patched.setattr(places, "os", disk)
                try:
                    SnapshotStore(here).write(about(3), state())
                except SnapshotError as error:
                    written = False
                    said.append(str(error))
                except PowerCutError:
                    written = False
            disk.settle()
            found = list(SnapshotStore(here).newest(lambda _: None))
            outcomes.add((written, found[0][0].position))
            assert found[0][0].position == 3 or not written, (fault, step, seed)
            assert [a.position for a, _ in found][-2:] == [2, 1], (fault, step, seed)
            assert all(s == state() for _, s in found)
            # What was left behind stands in nobody's way.
            SnapshotStore(here).write(about(4), state())
            assert next(SnapshotStore(here).newest(lambda _: None))[0].position == 4

    assert not any("\n" in line for line in said)
    assert outcomes == EXPECTED[fault]


@seeds(0.25)
def test_snapshot_that_was_written_survives_a_power_cut(seed, tmp_path_factory) -> None:
    """Written means fsynced, file and directory."""
    disk, two = FailingOs("power", -1, seed), store_of_two(tmp_path_factory.mktemp("two"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(places, "os", disk)
        two.write(about(3), state())
    disk.settle()

    assert next(SnapshotStore(two.directory).newest(lambda _: None))[0].position == 3


@pytest.mark.parametrize("without", ["fsync", "replace"])
def test_disk_that_loses_what_was_not_fsynced_would_be_noticed(without, two, monkeypatch) -> None:
    """The simulation itself: without fsync, the newest snapshot is gone or damaged for a seed."""
    lost = 0
    for seed in range(10):
        disk = FailingOs("power", -1, seed)
        with monkeypatch.context() as patched:
            patched.setattr(places, "os", disk)
            if without == "fsync":
                disk._fsync = lambda descriptor: None
            else:
                patched.setattr(places, "_sync", lambda directory: None)
            SnapshotStore(two.directory).write(about(3 + seed), state())
        disk.settle()
        found = [a.position for a, _ in SnapshotStore(two.directory).newest(lambda _: None)]
        lost += 3 + seed not in found

    assert lost > 0


def test_unreadable_directory_is_told_and_nothing_is_loaded(two, monkeypatch) -> None:
    """A mount that went away, wrong rights: one line, and the journal has it all."""
    disk = FailingOs("eio", 0)
    monkeypatch.setattr(places, "os", disk)

    assert list(two.newest(lambda _: None)) == []
    assert two.refused == [f"cannot read {two.directory}: Input/output error"]


def test_file_in_place_of_the_directory_is_told(tmp_path: Path) -> None:
    """Not a traceback."""
    (tmp_path / "state").write_text("")
    store = SnapshotStore(tmp_path / "state")

    assert list(store.newest(lambda _: None)) == []
    assert store.refused == [f"cannot read {tmp_path / 'state'}: Not a directory"]


def test_link_pipe_and_directory_are_no_snapshots(two, tmp_path: Path) -> None:
    """A link is not followed, a pipe does not hang, and both are passed over."""
    name = "snap-{:020d}.hws"
    (two.directory / name.format(7)).symlink_to(two.paths()[0])
    os.mkfifo(two.directory / name.format(8))
    (two.directory / name.format(9)).mkdir()

    assert [a.position for a, _ in two.newest(lambda _: None)] == [2, 1]
    assert [line.partition(": ")[2] for line in two.refused] == [
        "cannot be read: Is a directory",
        "not a regular file",
        "cannot be read: Too many levels of symbolic links",
    ]


def test_link_in_place_of_the_temporary_file_is_not_written_through(two, tmp_path: Path) -> None:
    """Whoever can make a link there must not have a file of another overwritten."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (two.directory / ".snap-00000000000000000003.hws.tmp").symlink_to(precious)

    with pytest.raises(SnapshotError, match=r"cannot write .* symbolic links"):
        two.write(about(3), state())
    assert precious.read_text() == "mine"


def test_renamed_snapshot_is_refused(two) -> None:
    """A name that says another position would sort it wrongly."""
    two.paths()[-1].rename(two.directory / "snap-00000000000000000009.hws")

    assert [a.position for a, _ in two.newest(lambda _: None)] == [1]
    assert two.refused[0].endswith("its journal position is 2, its name has another one")


@pytest.mark.parametrize(
    "lies",
    [
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: bytes([data[0] ^ 1]) + data[1:],
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: b"",
    ],
    ids=["last byte", "first byte", "shorter", "longer", "empty"],
)
def test_disk_that_reads_back_other_bytes_is_noticed(two, monkeypatch, lies) -> None:
    """Written without an error and wrong: it never gets its name."""

    def spoil(point: str) -> None:
        if point == "snap_pre_fsync":
            (path,) = two.directory.glob(".*.tmp")
            path.write_bytes(lies(path.read_bytes()))

    monkeypatch.setattr(places, "reach", spoil)
    monkeypatch.setattr(places, "PIECE", 100)
    with pytest.raises(SnapshotError, match="does not contain the written bytes"):
        two.write(about(3), state())

    assert sorted(p.name for p in two.directory.iterdir()) == [p.name for p in two.paths()]
    assert [a.position for a, _ in two.newest(lambda _: None)] == [2, 1]
