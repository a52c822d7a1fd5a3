"""Batches of the embedded log: compiled code writes and reads what msgspec does."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
import zstandard
from hypothesis import assume, given
from hypothesis import strategies as st

from consumers.base.cells import ByteCells
from consumers.base.errors import TransportError
from consumers.base.records import OutgoingColumns
from consumers.transports.sqlite import batches
from consumers.transports.sqlite.batches import (
    MOST_BYTES,
    MOST_RECORDS,
    Columns,
    Row,
    packed_columns,
    packed_outgoing,
    unpacked,
)

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
EDGES = [sign * (1 << power) + more for power in range(62) for sign in (-1, 1) for more in (-1, 0)]
TIMES = st.sampled_from(EDGES) | INT64
CELLS = st.binary(max_size=40) | st.sampled_from([255, 256, 65535, 65536]).map(bytes)


@pytest.fixture(autouse=True)
def _few(monkeypatch) -> None:
    monkeypatch.setattr(batches, "FEW", 1)


def outgoing(times: list[int], keys: list[bytes], values: list[bytes]) -> OutgoingColumns:
    """The records as a service's encoder gives them, after others."""
    pairs = list(zip(keys, values, strict=True))
    lengths = np.array([[len(key), len(value)] for key, value in pairs], dtype=np.int64)
    data = np.frombuffer(b"other" + b"".join(key + value for key, value in pairs), dtype=np.uint8)
    ends = lengths.sum(axis=1).cumsum() + 5
    zeros = np.zeros(len(times), dtype=np.int64)
    return OutgoingColumns("t", data, ends - lengths.sum(axis=1), lengths, np.array(times), zeros)


def outcome(data: bytes, count: int) -> str | list[Row]:
    """The records, or the error."""
    try:
        return list(unpacked(data, "f", count).rows())
    except TransportError as error:
        return str(error)


def same(found: Columns, expected: Columns) -> bool:
    return list(found.rows()) == list(expected.rows())


@given(records=st.lists(st.tuples(TIMES, CELLS, CELLS), min_size=1, max_size=40))
def test_arrays_are_written_and_read_as_lists_are(records) -> None:
    times, keys, values = map(list, zip(*records, strict=True))
    plain = max(times) - min(times) < 1 << 63
    assume(all(-(1 << 63) <= t - times[0] < 1 << 64 for t in times))  # msgpack has a number
    written = packed_outgoing(outgoing(times, keys, values))

    assert written == packed_columns(times, keys, values)
    for batch in written:
        read = unpacked(batch.data, "f", batch.count)
        assert same(read, unpacked(batch.data, "f"))
        assert isinstance(read.keys, ByteCells) or not plain


@given(
    cells=st.lists(st.tuples(st.none() | CELLS, st.none() | CELLS), min_size=1, max_size=40),
    times=st.data(),
)
def test_records_without_key_or_value_are_read_by_compiled_code(cells, times) -> None:
    keys, values = map(list, zip(*cells, strict=True))
    around = st.integers(-(1 << 40), 1 << 40)
    at = times.draw(st.lists(around, min_size=len(cells), max_size=len(cells)))
    for batch in packed_columns(at, keys, values):
        read = unpacked(batch.data, "f", batch.count)

        assert isinstance(read.keys, ByteCells)
        assert same(read, unpacked(batch.data, "f"))


@pytest.mark.parametrize("size", [1, 600, 3000, MOST_BYTES + 1])
def test_arrays_are_cut_as_lists_are(size) -> None:
    n = MOST_RECORDS + 7 if size < MOST_BYTES else 3
    columns = [1700] * n, [b"k"] * n, [bytes(size)] * n
    batches = packed_outgoing(outgoing(*columns))

    assert batches == packed_columns(*columns)
    assert sum(batch.count for batch in batches) == n
    assert len(batches) > 1


def test_headers_are_read_one_by_one() -> None:
    [batch] = packed_columns([1, 2], [b"a", None], [b"b", b"c"], [b"[]", None])

    assert unpacked(batch.data, "f", 2).headers == [b"[]", None]


@given(
    records=st.lists(st.tuples(INT64, CELLS, CELLS), min_size=1, max_size=20),
    changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 3),
    more=st.integers(-2, 2),
)
def test_damaged_bytes_are_read_as_msgspec_reads_them(records, changes, cut, more) -> None:
    times, keys, values = map(list, zip(*records, strict=True))
    body = bytearray(msgspec.msgpack.encode((times[0] % 1000, times, keys, values, None)))
    for at, byte in changes:
        body[at % len(body)] = byte
    data = b"\x00" + bytes(body[: len(body) - cut])
    count = max(len(records) + more, 1)
    expected = outcome(data, 0)

    assert outcome(data, count) == expected


def test_every_prefix_is_refused() -> None:
    [batch] = packed_columns([1, 300, -70000, 1 << 40], [b"a"] * 4, [bytes(300)] * 4)
    body = zstandard.decompress(batch.data[1:])
    for stop in range(len(body)):
        with pytest.raises(TransportError, match="a batch of records is damaged"):
            unpacked(b"\x00" + body[:stop], "f", 4)


def test_batch_with_columns_of_different_lengths_is_refused() -> None:
    times, cells = [0] * 40, [b"a"] * 40
    for keys, values in ((cells[1:], cells), (cells, cells[1:]), (cells, [*cells, b"b"])):
        body = msgspec.msgpack.encode((0, times, keys, values, None))
        with pytest.raises(TransportError, match="its columns have different lengths"):
            unpacked(b"\x00" + body, "f", 40)


def test_times_too_far_apart_for_an_int64_are_written() -> None:
    times, cells = [-(1 << 62), 1 << 62], [b"a", b"b"]
    [batch] = packed_outgoing(outgoing(times, cells, cells))

    assert unpacked(batch.data, "f", 2).timestamps == times


@pytest.mark.parametrize("count", [-1, MOST_RECORDS + 1, 1 << 60])
def test_number_of_records_that_no_batch_has_is_not_believed(count) -> None:
    [batch] = packed_columns([1, 2], [b"a"] * 2, [b"b"] * 2)

    assert same(unpacked(batch.data, "f", count), unpacked(batch.data, "f"))
