"""Snapshots: a cache that is verified, never believed."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from pathlib import Path

import msgspec
import numpy as np
import pytest

from consumers.base.errors import SnapshotError
from consumers.journal.records import IdentityRecord
from consumers.snapshots.format import DTYPES, MAGIC, SnapshotInfo, from_bytes, name_of, to_bytes
from consumers.snapshots.store import SnapshotStore, SnapshotWriter
from stream import State
from tests.consumers.feeds import batch, shard, stream
from tests.waiting import PATIENCE

NOW = 1_800_000_000_000


def about(position: int = 7, identity: str = "mine") -> SnapshotInfo:
    """What a snapshot at a journal position says of itself."""
    entry = IdentityRecord("svc", 0, {}, [], [], "born", {}, {})
    return SnapshotInfo("svc", 0, position, 3, NOW, identity, {"headwater": "0"}, entry)


def state() -> State:
    """A small state with every dtype a snapshot holds, and empty arrays."""
    header = {"n": 1, "labels": ["a", 1, True, None], "big": 10**30, "x": 0.1, "é": {"": []}}
    arrays = {dtype: np.arange(3).astype(dtype) for dtype in sorted(DTYPES)}
    arrays |= {"empty": np.empty((0, 5)), "none": np.empty((2, 0), dtype=np.int64)}
    arrays["matrix"] = np.arange(6, dtype=np.float64).reshape(2, 3).T
    arrays["odd"] = np.array([np.nextafter(1, 2), 5e-324, -0.0, np.inf])
    return State(header, arrays)


def signed(body: bytes) -> bytes:
    """The body with a checksum that fits it: what a careful liar would write."""
    return body + hashlib.sha256(body).digest()


def test_snapshot_comes_back_as_it_was_written() -> None:
    """Every dtype, shape and bit, empty arrays included; the header with its kinds."""
    told, back = from_bytes(to_bytes(about(), state()))

    assert told == about()
    assert back == state()
    assert [type(v) for v in back.header["labels"]] == [str, int, bool, type(None)]


def test_state_of_a_shard_comes_back_bit_for_bit() -> None:
    """With waiting rows, early labels, scores and counters; the restored shard goes on alike."""
    records = stream(120, seed=2)
    going, restored = shard(), shard()
    going.process(batch(records[:150]), NOW)
    _, back = from_bytes(to_bytes(about(), going.to_state()))
    restored.load_state(back)

    assert restored.fingerprint() == going.fingerprint()
    going.process(batch(records[150:]), NOW)
    restored.process(batch(records[150:]), NOW)
    assert restored.fingerprint() == going.fingerprint()


def test_same_state_gives_the_same_bytes() -> None:
    """Whatever the order of the arrays."""
    turned = State(state().header, dict(reversed(state().arrays.items())))

    assert to_bytes(about(), turned) == to_bytes(about(), state())


def test_any_flipped_bit_of_the_header_is_refused() -> None:
    """Each byte up to the arrays, one bit of it."""
    data = to_bytes(about(), state())
    length = len(MAGIC) + 8 + int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    for at in range(length):
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(SnapshotError):
            from_bytes(bytes(damaged))


def test_random_flips_are_refused() -> None:
    """One to a hundred bits anywhere, the checksum included."""
    data = to_bytes(about(), state())
    rng = np.random.default_rng(0)
    for _ in range(1000):
        damaged = bytearray(data)
        for at in rng.choice(len(data), size=int(rng.integers(1, 100)), replace=False).tolist():
            damaged[at] ^= 1 << int(rng.integers(8))
        with pytest.raises(SnapshotError):
            from_bytes(bytes(damaged))


def test_truncated_and_extended_snapshots_are_refused() -> None:
    """Every length is wrong but one."""
    data = to_bytes(about(), state())
    for length in range(len(data)):
        with pytest.raises(SnapshotError):
            from_bytes(data[:length])
    with pytest.raises(SnapshotError):
        from_bytes(data + b"\0")
    assert from_bytes(data)[0] == about()


def test_zeros_and_noise_are_refused() -> None:
    """What a disk may give back after a power cut."""
    data = to_bytes(about(), state())
    for wrong in (b"", bytes(len(data)), data[:200] + bytes(len(data) - 200), b"\x89PNG" * 100):
        with pytest.raises(SnapshotError):
            from_bytes(wrong)


def test_snapshot_of_another_format_version_says_so() -> None:
    """It is whole, but not ours to read."""
    body = to_bytes(about(), state())[:-32]

    with pytest.raises(SnapshotError, match="not a snapshot of this version"):
        from_bytes(signed(b"HWSNAP\x00\x02" + body[8:]))


@pytest.mark.parametrize("array", [["a", "|O"], ["a", ">f8"], ["a", "<U3"], ["a", "<f2"]])
def test_foreign_dtype_is_neither_written_nor_read(array) -> None:
    """Plain numbers only: loading one runs no code."""
    name, dtype = array
    with pytest.raises(SnapshotError, match="got dtype"):
        to_bytes(about(), State({}, {name: np.array(["1"]).astype(dtype)}))

    with pytest.raises(SnapshotError, match="damaged: array 'a' cannot be"):
        from_bytes(forged([[name, dtype, [1], 0]]))


def forged(arrays: list[object], data: bytes = bytes(64)) -> bytes:
    """A snapshot with a right checksum and a table of arrays of one's own."""
    header = {"about": msgspec.to_builtins(about()), "state": {}, "arrays": arrays}
    raw = msgspec.json.encode(header)
    return signed(MAGIC + len(raw).to_bytes(8, "little") + raw + data)


@pytest.mark.parametrize(
    "entry",
    [
        ["a", "<f8", [9], 0],
        ["a", "<f8", [1], 60],
        ["a", "<f8", [1], -8],
        ["a", "<f8", [-1], 0],
        ["a", "<f8", [2**62, 4], 0],
        ["a", "<f8", [0, 2**70], 0],
        ["a", "<f8", [1] * 70, 0],
        ["a", "<f8", ["1"], 0],
        ["a", "<f8", [1]],
    ],
)
def test_table_of_arrays_that_cannot_be_is_refused(entry) -> None:
    """Also behind a right checksum: nothing outside the file, nothing of impossible shape."""
    assert from_bytes(forged([["a", "<f8", [8], 0]]))[1].arrays["a"].shape == (8,)

    with pytest.raises(SnapshotError, match="damaged"):
        from_bytes(forged([entry]))


def test_store_keeps_the_newest_and_no_more(tmp_path: Path) -> None:
    """Names sort by journal position, however many digits it has."""
    store = SnapshotStore(tmp_path / "deep" / "state", keep=2)
    for position in (5, 9, 10, 100):
        store.write(about(position), state())

    assert [a.position for a, _ in store.newest(lambda _: None)] == [100, 10]
    assert len(store.paths()) == 2


def test_snapshots_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    """A model may tell of the data it learned from."""
    store = SnapshotStore(tmp_path / "state")
    path = store.directory / name_of(store.write(about(), state()))

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(store.directory).st_mode) == 0o700


def test_damaged_newest_snapshot_falls_back_to_the_one_before(tmp_path: Path) -> None:
    """It is passed over with its reason, and left where it is."""
    store = SnapshotStore(tmp_path)
    for position in (1, 2, 3):
        store.write(about(position), state())
    newest = store.paths()[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    store.paths()[-2].write_bytes(b"")

    assert [a.position for a, _ in store.newest(lambda _: None)] == [1]
    assert [line.split(": ", 1)[0] for line in store.refused] == [
        newest.name,
        store.paths()[1].name,
    ]
    assert "checksum" in store.refused[0]


def test_snapshot_that_is_not_accepted_is_passed_over_with_the_reason(tmp_path: Path) -> None:
    """Ahead of the journal, or of another service."""
    store = SnapshotStore(tmp_path)
    for position in (1, 2):
        store.write(about(position, identity="mine" if position == 1 else "other"), state())

    found = list(store.newest(lambda a: None if a.identity == "mine" else "of another service"))

    assert [a.position for a, _ in found] == [1]
    assert store.refused == ["snap-00000000000000000002.hws: of another service"]


def test_refusals_are_those_of_the_last_look(tmp_path: Path) -> None:
    """A service that recovers twice does not tell the same snapshot twice."""
    store = SnapshotStore(tmp_path)
    store.write(about(), state())
    for _ in range(2):
        assert list(store.newest(lambda _: "no")) == []

    assert len(store.refused) == 1


def test_store_without_a_directory_has_no_snapshots(tmp_path: Path) -> None:
    """The first start."""
    assert list(SnapshotStore(tmp_path / "absent").newest(lambda _: None)) == []


def test_other_files_in_the_directory_are_left_alone(tmp_path: Path) -> None:
    """Only what the store wrote is read or removed."""
    notes, half = tmp_path / "notes.txt", tmp_path / "snap-1.hws"
    notes.write_text("mine")
    half.write_text("no position")
    store = SnapshotStore(tmp_path, keep=1)
    store.write(about(1), state())
    store.write(about(2), state())

    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "notes.txt",
        "snap-00000000000000000002.hws",
        "snap-1.hws",
    ]


def test_files_half_written_by_a_killed_process_are_removed(tmp_path: Path) -> None:
    """Each kill may leave one; without this they would fill the disk."""
    store = SnapshotStore(tmp_path)
    left = tmp_path / ".snap-00000000000000000004.hws.tmp"
    left.write_bytes(b"half")
    assert list(store.newest(lambda _: None)) == []

    store.write(about(5), state())

    assert [p.name for p in tmp_path.iterdir()] == ["snap-00000000000000000005.hws"]


def test_snapshot_that_cannot_be_written_is_one_line_and_leaves_the_old_ones(tmp_path) -> None:
    """A full or missing disk costs replay time, nothing else."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(SnapshotError, match="cannot write") as caught:
        SnapshotStore(blocked / "state").write(about(), state())
    assert "\n" not in str(caught.value)


def test_writer_writes_the_newest_and_finishes_at_close(tmp_path: Path) -> None:
    """Called back with each position written; what was handed over before close is on the disk."""
    done: list[int] = []
    failed: list[SnapshotError] = []
    writer = SnapshotWriter(
        SnapshotStore(tmp_path), lambda of, _: done.append(of.position), failed.append
    )
    for position in range(1, 30):
        writer.submit(about(position), state())
    writer.close()

    assert (done[-1], failed) == (29, [])
    assert done == sorted(done)
    store = SnapshotStore(tmp_path)
    assert next(a.position for a, _ in store.newest(lambda _: None)) == 29


def test_writer_survives_a_snapshot_it_cannot_write(tmp_path: Path) -> None:
    """It tells, and writes the next one."""
    done, failed, told = [], [], threading.Event()

    def tell(error: SnapshotError) -> None:
        failed.append(str(error))
        told.set()

    writer = SnapshotWriter(SnapshotStore(tmp_path), lambda of, _: done.append(of.position), tell)
    writer.submit(about(1), State({}, {"o": np.array([None])}))
    assert told.wait(PATIENCE)
    writer.submit(about(2), state())
    writer.close()

    assert (done, len(failed)) == ([2], 1)
