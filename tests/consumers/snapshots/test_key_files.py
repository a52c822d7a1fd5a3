"""Files of keys have every version that a snapshot names, whatever was put and removed since."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from consumers.base.errors import TransportError
from consumers.snapshots import key_files
from consumers.snapshots.key_files import KeyFiles, KeyReader
from stream.errors import StateError
from tests.seed import seeds
from tests.stream.keyed.rows import DictStore


class Kept:
    """Commits of a file and of its twin, and the ones that snapshots name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.points: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []

    def named(self) -> set[tuple[str, int]]:
        return {(point["file"], point["version"]) for point, _ in self.points}

    def opened(self) -> KeyFiles:
        keys = KeyFiles()
        keys.place(self.directory, self.named)
        return keys


def put(rng: np.random.Generator, *stores: Any, keys: int) -> None:
    """Rows of some keys, new and old ones."""
    chosen = rng.choice(keys, size=int(rng.integers(1, 6)), replace=False)
    names = [f"k{k}\udc80é" for k in chosen.tolist()]
    rows = [rng.bytes(int(rng.integers(0, 90))) for _ in names]
    for store in stores:
        store.put(names, rows)


@seeds(0.075, keys=st.sampled_from([8, 30]), at_once=st.sampled_from([1, 4000]))
def test_every_named_version_is_there(
    tmp_path_factory: pytest.TempPathFactory, seed: int, keys: int, at_once: int
) -> None:
    """Compared with a dict that copies everything at each commit."""
    rng, kept = np.random.default_rng(seed), Kept(tmp_path_factory.mktemp("keys"))
    file, twin = kept.opened(), DictStore()
    file.restore(None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_files, "AT_ONCE", at_once)
        for _ in range(120):
            what = rng.random()
            if what < 0.5:
                put(rng, file, twin, keys=keys)
            elif what < 0.7:
                names = [f"k{k}\udc80é" for k in range(keys)]
                assert file.get(names) == twin.get(names)
            elif what < 0.85:
                kept.points.append((file.commit(), twin.commit()))
                if rng.random() < 0.3:  # between it and its snapshot the process ends
                    kept.points.pop()
                elif len(kept.points) > 3:
                    del kept.points[int(rng.integers(len(kept.points) - 2))]
            elif kept.points:
                file.close()  # as after a kill
                del kept.points[int(rng.integers(len(kept.points))) + 1 :]
                file = kept.opened()
                for store, point in zip((file, twin), kept.points[-1], strict=True):
                    store.restore(point)
            assert file.keys == len(twin.now)
            for point, then in kept.points:
                reader = KeyReader(kept.directory)
                reader.restore(point)
                assert dict(reader.rows()) == twin.then[then["version"]]
        assert dict(file.rows()) == twin.now
    file.close()


def count(path: Path, table: str) -> int:
    """How many rows a table of the file has."""
    with closing(sqlite3.connect(path)) as db:
        found: int = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        return found


def one_file(directory: Path) -> Path:
    (path,) = directory.glob("keys-*.db")
    return path


def test_rows_that_no_snapshot_needs_are_removed(tmp_path: Path) -> None:
    """Also if nothing is read between two commits."""
    kept = Kept(tmp_path)
    file = kept.opened()
    file.restore(None)
    for i in range(60):
        file.put(["a", "b"], [b"%d" % i, b"%d" % i])
        kept.points = [(file.commit(), {})]
    file.commit()
    file.close()
    assert count(one_file(tmp_path), "rows") <= 2 * (3 + key_files.MOST_DROPPED)
    assert count(one_file(tmp_path), "versions") <= 4


def test_a_new_file_replaces_one_that_no_snapshot_names(tmp_path: Path) -> None:
    """One that a snapshot names stays."""
    kept = Kept(tmp_path)
    file = kept.opened()
    paths: list[set[Path]] = []
    for _ in range(2):
        file.restore(None)
        file.put(["a"], [b"1"])
        kept.points.append((file.commit(), {}))
        paths.append(set(tmp_path.glob("keys-*.db")))
    assert len(paths[1]) == 2
    del kept.points[0]
    file.put(["a"], [b"2"])
    file.commit()
    assert set(tmp_path.glob("keys-*.db")) == paths[1] - paths[0]
    file.close()


def test_the_file_of_another_process_stays(tmp_path: Path) -> None:
    """One that was fenced and has not noticed must not remove the file of its successor."""
    fenced, successor = (Kept(tmp_path).opened() for _ in range(2))
    for file in (fenced, successor):
        file.restore(None)
        file.put(["a"], [b"1"])
    fenced.commit()
    assert len(list(tmp_path.glob("keys-*.db"))) == 2
    successor.commit()
    successor.close()
    fenced.commit()
    assert len(list(tmp_path.glob("keys-*.db"))) == 1
    fenced.close()


def saved(directory: Path, rows: int = 200) -> Mapping[str, Any]:
    """A file with one version."""
    kept = Kept(directory)
    file = kept.opened()
    file.restore(None)
    file.put([f"k{i}" for i in range(rows)], [b"%d" % i * 20 for i in range(rows)])
    point = file.commit()
    file.close()
    return point


def refused(directory: Path, point: Mapping[str, Any]) -> str:
    """Why neither the owner nor a reader restores it."""
    said = []
    for store in (Kept(directory).opened(), KeyReader(directory)):
        with pytest.raises(StateError) as error:
            store.restore(point)
        said.append(str(error.value))
    return said[0]


def change(query: str) -> Callable[[Path], None]:
    def changed(path: Path) -> None:
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(query)

    return changed


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (Path.unlink, "does not exist"),
        (lambda path: path.write_bytes(b"not a database, " * 1000), "cannot be read"),
        (lambda path: path.write_bytes(path.read_bytes()[:8192]), "cannot be read"),
        (lambda path: path.write_bytes(b""), "another program"),
        (change("UPDATE rows SET row = x'00' WHERE number = 7"), "damaged"),
        (change("UPDATE rows SET name = x'00' WHERE number = 7"), "damaged"),
        (change("DELETE FROM rows WHERE number = 7"), "missing or were changed"),
        (change("DELETE FROM versions"), "no longer has version 1"),
        (change("UPDATE versions SET digest = '0'"), "no longer has version 1"),
        (change("PRAGMA user_version = 9"), "another program or version"),
    ],
)
def test_damaged_files_are_refused_with_the_reason(
    tmp_path: Path, damage: Callable[[Path], None], why: str
) -> None:
    """Before any row of them is used."""
    point = saved(tmp_path)
    damage(one_file(tmp_path))
    assert why in refused(tmp_path, point)


def test_random_bytes_in_a_file_are_refused_or_change_nothing(tmp_path: Path) -> None:
    """A row with other bytes is never returned."""
    point = saved(tmp_path)
    reader, rng = KeyReader(tmp_path), np.random.default_rng(1)
    reader.restore(point)
    expected, found = dict(reader.rows()), 0
    good = (path := one_file(tmp_path)).read_bytes()
    for _ in range(150):
        at, bad = int(rng.integers(len(good))), bytearray(good)
        bad[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(bad)
        try:
            reader.restore(point)
        except StateError:
            found += 1
        else:
            assert dict(reader.rows()) == expected
    assert found > 30


def test_a_damaged_file_of_no_snapshot_is_removed(tmp_path: Path) -> None:
    """Also if SQLite reports the damage by a message that is no UTF-8."""
    saved(tmp_path)
    left, table = one_file(tmp_path), b"tablerowsrows"
    whole = left.read_bytes()
    assert whole.count(table) == 1
    harmed = whole.replace(table, b"table\xcc\xcc\xcc\xccrows")
    left.write_bytes(harmed.replace(b"CREATE TABLE rows", b"CREATE TABL( rows"))
    with pytest.raises(UnicodeDecodeError), closing(sqlite3.connect(left)) as db:
        db.execute("SELECT * FROM rows")

    file = Kept(tmp_path).opened()
    file.restore(None)
    file.put(["a"], [b"b"])
    file.commit()
    file.close()
    assert one_file(tmp_path) != left


def test_a_file_in_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the process that was fenced, until it ends; readers do not wait."""
    monkeypatch.setattr(key_files, "BUSY_SECONDS", 0.01)
    point, kept = saved(tmp_path), Kept(tmp_path)
    first = kept.opened()
    first.restore(point)
    with pytest.raises(StateError, match="locked"):
        kept.opened().restore(point)
    KeyReader(tmp_path).restore(point)
    first.close()
    second = kept.opened()
    second.restore(point)
    second.close()


def test_a_row_that_is_damaged_later_is_an_error_of_the_log(tmp_path: Path) -> None:
    """The shard then starts over, and verifies all rows."""
    point, kept = saved(tmp_path), Kept(tmp_path)
    file = kept.opened()
    file.restore(point)
    file.commit()
    assert file._db is not None
    file._db.execute("UPDATE rows SET row = x'00' WHERE name = x'6b36'")
    with pytest.raises(TransportError, match="damaged"):
        file.get(["k6"])
    file.close()


def test_a_closed_file_is_an_error(tmp_path: Path) -> None:
    """Nothing is made in its place."""
    file = Kept(tmp_path).opened()
    for call in (lambda: file.get(["a"]), lambda: file.put(["a"], [b""]), file.commit):
        with pytest.raises(TransportError, match="closed"):
            call()
    assert not list(tmp_path.iterdir())
