"""Which snapshots stay, and who may write them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.base.errors import SnapshotError
from consumers.snapshots import store as store_module
from consumers.snapshots.format import MAGIC
from consumers.snapshots.store import SnapshotStore, SnapshotWriter, kept
from tests.consumers.snapshots.test_snapshots import about, state
from tests.waiting import PATIENCE

HOUR, DAY = 3_600_000, 86_400_000
START = 20_000 * DAY  # midnight


def at(position: int, now: int) -> object:
    """What a snapshot at this journaled clock says."""
    return msgspec.structs.replace(about(position), now=now)


def positions(store: SnapshotStore) -> list[int]:
    return [int(path.stem[5:]) for path in store.paths()]


def test_newest_of_each_day_stays_within_the_retention(tmp_path: Path) -> None:
    """Ten days, four snapshots a day: the last two, and the last of each of three days before."""
    store = SnapshotStore(tmp_path, keep=2, retention_ms=3 * DAY)
    for i in range(40):
        store.write(at(i, START + i * 6 * HOUR), state())

    assert positions(store) == [27, 31, 35, 38, 39]


def test_retention_goes_by_the_journaled_clock_also_after_a_restart(tmp_path: Path) -> None:
    """The clock is in the header; a new process looks there, and not at the file's time."""
    for i in range(12):
        SnapshotStore(tmp_path, keep=1, retention_ms=2 * DAY).write(
            at(i, START + i * 8 * HOUR), state()
        )
        os.utime(tmp_path / f"snap-{i:020d}.hws", (0, 0))

    assert positions(SnapshotStore(tmp_path)) == [5, 8, 11]


def test_snapshot_whose_header_says_nothing_is_kept_only_among_the_newest(tmp_path: Path) -> None:
    """Damaged ones do not pile up."""
    store = SnapshotStore(tmp_path, keep=2)
    store.write(at(1, START), state())
    for position, raw in (
        (2, b""),
        (3, MAGIC + b"\xff" * 8),
        (4, MAGIC + b"\x02" + bytes(7) + b"{}"),
    ):
        (tmp_path / f"snap-{position:020d}.hws").write_bytes(raw)
    SnapshotStore(tmp_path, keep=2).write(at(5, START + DAY), state())

    assert positions(store) == [1, 4, 5]


@given(
    st.dictionaries(st.integers(0, 50), st.none() | st.integers(0, 60 * DAY), min_size=1),
    st.integers(1, 5),
    st.integers(1, 30 * DAY),
)
def test_what_is_kept_is_bounded_and_always_holds_the_newest(found, keep, retention) -> None:
    """Whatever clocks say: at most `keep` and one a day, those of the retention and its borders."""
    stay = kept(found, keep, retention)

    assert set(sorted(found)[-keep:]) <= stay <= set(found)
    days = {clock // DAY for p, clock in found.items() if clock is not None}
    assert len(stay) <= keep + len(days)
    assert kept({p: found[p] for p in stay}, keep, retention) == stay


def test_journal_retention_reaches_the_store(make_service) -> None:
    """The key of the configuration."""
    config = make_service().config(more="[journal]\nretention = '36h'")

    assert store_module.open_store(config).retention_ms == 36 * HOUR


HOLD = """
import sys
from pathlib import Path
from consumers.snapshots.store import SnapshotStore
with SnapshotStore(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_second_process_does_not_write_until_the_first_is_gone(tmp_path: Path) -> None:
    """One line a snapshot while the first lives; a killed one leaves nothing to clean up."""
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert first.stdout is not None
    assert first.stdin is not None
    assert first.stdout.readline() == b"locked\n"
    done: list[int] = []
    failed: list[str] = []
    told = threading.Event()

    def tell(error: SnapshotError) -> None:
        failed.append(str(error))
        told.set()

    writer = SnapshotWriter(SnapshotStore(tmp_path), lambda of, _: done.append(of.position), tell)
    writer.submit(about(1), state())
    assert told.wait(PATIENCE)
    assert positions(SnapshotStore(tmp_path)) == []
    first.kill()
    first.wait()
    first.stdin.close()
    first.stdout.close()
    writer.submit(about(2), state())
    writer.close()

    assert (done, positions(SnapshotStore(tmp_path))) == ([2], [2])
    assert failed == [
        f"another process writes the snapshots in {tmp_path}; stop it (`fuser` shows its id), or "
        "give this service another [snapshots] directory"
    ]


def test_writer_that_closed_leaves_the_directory_to_the_next(tmp_path: Path) -> None:
    """A service that starts over in the same process."""
    for position in (1, 2):
        writer = SnapshotWriter(SnapshotStore(tmp_path), lambda *_: None, pytest.fail)
        writer.submit(about(position), state())
        writer.close()

    assert positions(SnapshotStore(tmp_path)) == [1, 2]


def test_close_does_not_wait_for_ever_for_a_copy(tmp_path: Path, monkeypatch) -> None:
    """Where copies go has stopped answering: the process ends, and says so."""
    monkeypatch.setattr(store_module, "CLOSE_SECONDS", 0.05)
    store, answer, asked = SnapshotStore(tmp_path), threading.Event(), threading.Event()

    def copy(name: str) -> None:
        asked.set()
        assert answer.wait(PATIENCE)

    monkeypatch.setattr(store, "copy", copy)
    failed: list[str] = []
    writer = SnapshotWriter(store, lambda *_: None, lambda error: failed.append(str(error)))
    writer.submit(about(1), state())
    assert asked.wait(PATIENCE)
    writer.close()
    answer.set()
    writer._thread.join()

    assert failed == ["the last snapshot took more than 0.05 s and was abandoned"]
    assert positions(store) == [1]


def test_nothing_is_known_any_more_of_what_was_removed(tmp_path: Path) -> None:
    """The clocks of snapshots are kept for those that are there."""
    store = SnapshotStore(tmp_path, keep=2, retention_ms=0)
    for position in range(1, 9):
        store.write(at(position, START + position), state())

    assert len(store._abouts) == len(store.paths()) <= 3
