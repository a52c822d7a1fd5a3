"""Files of the embedded log: records in batches."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from consumers.base.errors import TransportError
from consumers.base.records import UNBOUNDED, Outgoing, Partition, Record, record_bytes
from consumers.transports.sqlite.batches import (
    MOST_BYTES,
    MOST_RECORDS,
    Columns,
    packed,
    unpacked,
)
from consumers.transports.sqlite.file import _fit
from consumers.transports.sqlite.log import SqliteLog
from tests.seed import seeds

FEED, OTHER = Partition("feed", 0), Partition("feed", 1)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A file with ten records in the first of two partitions."""
    path = str(tmp_path / "log.db")
    with closing(SqliteLog(path)) as log:
        log.create_topic("feed", 2)
        records = [Outgoing("feed", b"k%d" % n, b"v%d" % n, 1000 + n, (), 0) for n in range(9)]
        log.append([*records, Outgoing("feed", None, None, 1009, (("reason", b"a"),), 0)])
    return path


@pytest.fixture
def log(path: str) -> Iterator[SqliteLog]:
    """It, opened by this version."""
    with closing(SqliteLog(path, busy_seconds=0.05)) as log:
        yield log


def everything(log: SqliteLog, partition: Partition = FEED) -> list[Record]:
    start = log.beginning_offsets([partition])[partition]
    return log._database.fetch_records(partition, start, 10**6, UNBOUNDED)


@pytest.mark.parametrize("version", [1, 2, 4])
def test_file_of_another_layout_is_refused(path: str, version: int) -> None:
    """In one line that says what to do."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")

    with pytest.raises(TransportError, match=rf"layout 3 .* it has {version}: use the headwater"):
        SqliteLog(path)


@pytest.mark.parametrize("limit", [1, 3, 999, 1000, 1001, 5000])
def test_reads_of_any_size_give_the_same_records(log: SqliteLog, limit: int) -> None:
    """Over small batches and full ones."""
    for size in (1, 2, 2500, 1):
        log.append([Outgoing("feed", b"%d" % n, b"x", partition=0) for n in range(size)])

    found, at = [], 0
    while chunk := log._database.fetch(FEED, at, limit, UNBOUNDED):
        assert len(chunk) <= limit
        found += list(zip(chunk.offsets, chunk.keys, strict=True))
        at = chunk.offsets[-1] + 1
    assert found == [(record.offset, record.key) for record in everything(log)]
    assert at == 2514


def test_fetch_keeps_to_its_bytes_but_returns_one_record(log: SqliteLog) -> None:
    """Also in the middle of a batch."""
    log.append([Outgoing("feed", None, bytes(1000), partition=0) for _ in range(5)])

    assert len(log._database.fetch(FEED, 10, 100, 2500).offsets) == 2
    assert log._database.fetch(FEED, 12, 100, 10).offsets == [12]


def test_time_is_found_within_a_batch(log: SqliteLog) -> None:
    """The first record at or after it, although times may decrease."""
    times = [2000, 1500, 2500, 2400, 3000]
    log.append([Outgoing("feed", None, b"x", timestamp=t, partition=0) for t in times])

    at = {time: log.offsets_at([FEED], time)[FEED] for time in (1009, 1600, 2450, 2600, 9999)}
    assert at == {1009: 9, 1600: 10, 2450: 12, 2600: 14, 9999: 15}


def test_batches_are_bounded_in_records_and_bytes() -> None:
    """A larger record is alone. Together they are the rows."""
    rows = [(n, None, bytes(300), None) for n in range(2 * MOST_RECORDS + 1)]
    large = [(n, None, bytes(MOST_BYTES // 2 + 1), None) for n in range(3)]

    assert [batch.count for batch in packed(rows)] == [MOST_RECORDS, MOST_RECORDS, 1]
    assert [batch.count for batch in packed(large)] == [1, 1, 1]
    assert [row for b in packed(rows) for row in unpacked(b.data, "x").rows()] == rows


def test_records_of_one_topic_are_placed_as_one_by_one(tmp_path: Path) -> None:
    """The short way for one topic with one partition gives the same batches and places."""
    draw = random.Random(7)
    own = [
        Outgoing("one", draw.choice([None, b"k"]), draw.choice([None, b"", bytes(900_000)]), n)
        for n in range(20)
    ]
    with closing(SqliteLog(str(tmp_path / "log.db"), clock=lambda: 5.0)) as log:
        log.create_topic("two", 2)
        log.create_topic("one", 1)
        mixed = [*own, Outgoing("two", b"k", b"v", partition=1)]
        headed = [*own, Outgoing("one", b"k", b"v", headers=(("h", b"1"),))]
        for records in (own, [own[0]._replace(timestamp=None)]):
            [fast] = log._database.place(records)[0].values()
            slow = log._database.place([*records, mixed[-1]])[0]
            assert fast == slow[log._database.log(Partition("one", 0))]
        assert log.append(own) == [(0, n) for n in range(20)]
        assert log.append(mixed) == [*((0, n) for n in range(20, 40)), (1, 0)]
        assert log.append(headed)[-1] == (0, 60)
        assert log.append([]) == []


def test_batch_that_cannot_be_compressed_stays_plain() -> None:
    """Compression never makes it larger than one byte more than its records."""
    value = random.Random(3).randbytes(5000)
    [batch] = packed([(1, b"k", value, b"[]")])

    assert batch.data[:1] == b"\x00"
    assert [*unpacked(batch.data, "x").rows()] == [(1, b"k", value, b"[]")]


@pytest.mark.parametrize("damage", [b"", b"\x07abc", b"\x01abc", b"\x00\xc1", b"\x00\x95\x01"])
def test_damaged_batch_is_one_clear_line(log: SqliteLog, path: str, damage: bytes) -> None:
    """It names the file and what to do."""
    log.append([Outgoing("feed", None, b"x", partition=1)])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE batches SET data = ?", (damage,))

    with pytest.raises(TransportError, match=r"batch of records is damaged \(.*restore the file"):
        log._database.fetch(OTHER, 0, 10, UNBOUNDED)
    log.append([Outgoing("feed", None, b"y", partition=0)])  # no transaction stays open


@seeds()
def test_records_that_fit_are_counted_as_one_by_one(seed) -> None:
    """By bytes and number, with headers and without, and at least one where that is asked for."""
    rng = random.Random(seed)
    count, cell = rng.randrange(9), lambda: rng.choice([None, b"", bytes(rng.randrange(300))])
    keys, values, notes = ([cell() for _ in range(count)] for _ in range(3))
    columns = Columns([0] * count, keys, values, rng.choice([None, notes]))
    for limit in range(count + 2):
        headers, some, room = rng.random() < 0.5, rng.random() < 0.5, rng.randrange(2_500)
        extra = columns.headers if headers and columns.headers else [None] * count
        taken, left = 0, room
        for key, value, more in zip(keys[:limit], values[:limit], extra, strict=False):
            size = record_bytes(key, value) + len(more or b"")
            if size > left and (taken or not some):
                break
            taken, left = taken + 1, left - size

        assert _fit(columns, limit, room, some, headers=headers) == (taken, left)
