"""The disk that loses power, which judges others: it keeps what was fsynced, and nothing else."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from tests.worlds.power import Disk


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """One with a file that was there before."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "old").write_bytes(b"before")
    return Disk(tmp_path / "disk", tmp_path / "shadow")


def write(path: Path, data: bytes, *synced: Path) -> None:
    """Write a file, and fsync these."""
    path.write_bytes(data)
    for each in synced:
        descriptor = os.open(each, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def test_bytes_are_kept_up_to_the_last_fsync(disk) -> None:
    """Of a file that was there, and of one whose directory was fsynced."""
    root = disk.root
    with disk.installed():
        write(root / "new", b"one", root / "new", root)
        write(root / "old", b"after")
        write(root / "new", b"two")
        disk.settle()

    assert {p.name: p.read_bytes() for p in root.iterdir()} == {"old": b"before", "new": b"one"}


def test_file_in_a_directory_that_was_not_fsynced_is_gone(disk) -> None:
    """Also one whose own bytes are durable; and a removed one is back."""
    with disk.installed():
        write(disk.root / "new", b"one", disk.root / "new")
        (disk.root / "old").unlink()
        disk.settle()

    assert {p.name: p.read_bytes() for p in disk.root.iterdir()} == {"old": b"before"}


def test_renamed_file_has_its_name_once_the_directory_is_durable(disk) -> None:
    """Before that it has the old one; the file that it replaced is there again."""
    root = disk.root
    with disk.installed():
        write(root / "temporary", b"one", root / "temporary", root)
        os.replace(root / "temporary", root / "old")
        disk.settle()
        before = {p.name: p.read_bytes() for p in root.iterdir()}
        os.replace(root / "temporary", root / "old")
        write(root / "other", b"", root)
        disk.settle()

    assert before == {"old": b"before", "temporary": b"one"}
    assert {p.name: p.read_bytes() for p in root.iterdir()} == {"old": b"one", "other": b""}


def test_what_was_not_fsynced_may_survive_in_part(disk) -> None:
    """By sectors: over many cuts the bytes are the old ones, the new ones and some of each."""
    seen = set()
    with disk.installed():
        write(disk.root / "old", b"0" * 1024, disk.root / "old")
        for seed in range(40):
            write(disk.root / "old", b"0" * 1024, disk.root / "old")
            write(disk.root / "old", b"1" * 1024)
            disk.settle(Random(seed))
            seen.add((disk.root / "old").read_bytes()[::512])

    assert seen == {b"00", b"01", b"10", b"11"}


@pytest.mark.parametrize(("synchronous", "kept"), [("FULL", 2), ("OFF", 0)])
def test_sqlite_keeps_a_commit_only_if_it_was_told_to_fsync(disk, synchronous, kept) -> None:
    """With `synchronous = OFF` the whole file is lost: the cut reaches what SQLite writes."""
    path = disk.root / "log.db"
    with disk.installed():
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA synchronous = {synchronous}")
            db.execute("CREATE TABLE t (x)")
            db.execute("INSERT INTO t VALUES (1)")
            db.execute("INSERT INTO t VALUES (2)")
            disk.cut()  # closing it changes files that are lost all the same
        disk.settle()
        with closing(sqlite3.connect(path)) as db:
            tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            found = db.execute("SELECT count(*) FROM t").fetchone()[0] if tables else 0

    assert found == kept


def test_sqlite_keeps_its_locks(disk) -> None:
    """Or another process that closes the log removes what this one still writes to."""
    path = disk.root / "log.db"
    other = f"import sqlite3; c = sqlite3.connect({str(path)!r}); c.execute('select x from t')"
    with disk.installed(), closing(sqlite3.connect(path)) as log:
        log.execute("PRAGMA journal_mode = wal")
        log.execute("create table t (x)")
        log.execute("PRAGMA wal_checkpoint")  # it fsyncs the database
        log.execute("insert into t values (1)")
        log.commit()
        subprocess.run([sys.executable, "-c", f"{other}; c.close()"], check=True)

        assert path.with_name("log.db-wal").exists()
