"""Make the file of the embedded log smaller, in slices, while processes use it.

Each slice is one transaction that holds the write lock for about 10 ms. The caller pauses between
two of them, so that a running service commits in between, and may stop after any. A crash in a
slice undoes that slice. Offsets never change, and records are deleted only from the front of a
partition, together with the new start of the partition.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from consumers.base.records import Partition
from consumers.transports.sqlite.batches import MOST_BYTES, MOST_RECORDS, Row, packed
from consumers.transports.sqlite.file import OFFSET_BITS, OFFSET_MASK, Database

__all__ = ["Compactor", "FileSize"]

BATCHES = 64  # deleted by one slice, or read to be packed
PAGES = 256  # returned to the file system by one slice


@dataclass(frozen=True, slots=True)
class FileSize:
    """Sizes in bytes: of the file with its write-ahead log, and of the unused pages in it."""

    file: int
    unused: int


class Compactor:
    """Deletes, packs and shrinks; made by `SqliteLog.compactor`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = database.connection

    def size(self) -> FileSize:
        """The present sizes."""
        path = self._database.path
        with self._database.faults():
            page, unused = (
                self._sql.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_size", "freelist_count")
            )
        files = [name for name in (path, f"{path}-wal") if os.path.exists(name)]
        return FileSize(sum(map(os.path.getsize, files)), page * unused)

    def readers(self, topic: str) -> set[str]:
        """The services that have committed offsets of a topic."""
        with self._database.faults():
            rows = self._sql.execute("SELECT DISTINCT name FROM offsets WHERE topic = ?", (topic,))
            return {name for (name,) in rows}

    def delete(self, partition: Partition, before: int) -> Iterator[int]:
        """Delete the records before an offset. Yields after each slice how many it deleted."""
        log = self._database.log(partition)
        base = log << OFFSET_BITS
        while True:
            with self._database.transaction():
                start = self._database.start(log)
                batch = self._sql.execute(
                    "SELECT id FROM batches WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 1",
                    (base + start, base | OFFSET_MASK),
                ).fetchone()
                to = self._after(base, start, before)
                self._delete(base + start, base + to - 1)
                if to == start < before and batch is not None:
                    to = before
                    self._behead(log, start, batch[0], before)
                if to > start:
                    self._sql.execute("INSERT OR REPLACE INTO starts VALUES (?, ?)", (log, to))
            if to <= start:
                return
            yield to - start

    def _after(self, base: int, start: int, before: int) -> int:
        """The offset after the next batches that end before an offset."""
        rows = self._sql.execute(
            "SELECT id FROM batches WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?",
            (base + start, base + before - 1, BATCHES),
        ).fetchall()
        return rows[-1][0] + 1 - base if rows else start

    def _behead(self, log: int, start: int, last: int, before: int) -> None:
        """Keep only the records of a batch from an offset on."""
        with closing(self._database.runs(log, start)) as found:
            _, columns = next(found)
        self._delete(last, last)
        self._database.insert_at(log, before, packed([*columns.rows()][before - start :]))

    def _delete(self, first: int, last: int) -> None:
        self._sql.execute("DELETE FROM batches WHERE id BETWEEN ? AND ?", (first, last))

    def pack(self, partition: Partition) -> Iterator[int]:
        """Pack small batches beside each other. Yields after each slice how many records it has
        passed."""
        log = self._database.log(partition)
        at = self._database.start(log)
        while True:
            with self._database.transaction():
                start = max(at, self._database.start(log))
                run, parts = self._run(log, start)
                if parts > 1:
                    base = log << OFFSET_BITS
                    self._delete(base + start, base + start + len(run) - 1)
                    self._database.insert_at(log, start, packed(run))
            if not run:
                return
            at = start + len(run)
            yield len(run)

    def _run(self, log: int, start: int) -> tuple[list[Row], int]:
        """The next records that fit into one batch, and from how many parts they come."""
        run: list[Row] = []
        size = parts = 0
        with closing(self._database.runs(log, start)) as found:
            for _, columns in found:
                rows = list(columns.rows())
                size += sum(len(cell) for row in rows for cell in row[1:] if cell)
                if run and (len(run) + len(rows) > MOST_RECORDS or size > MOST_BYTES):
                    break
                run += rows
                parts += 1
        return run, parts

    def shrink(self) -> Iterator[int]:
        """Return unused pages to the file system. Yields after each slice how many bytes."""
        while (before := self.size()).unused:
            with self._database.faults():
                self._sql.execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()
            after = self.size()
            if after.unused >= before.unused:
                return
            yield before.unused - after.unused
        self.checkpoint()

    def checkpoint(self) -> None:
        """Empty the write-ahead log, unless another process reads it."""
        with self._database.faults():
            self._sql.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
