"""Records of one partition as one value: a batch of up to `MOST_RECORDS` records. Pure.

A record of its own needs a row, its JSON names and its key again, which was 180 bytes for records
of payments; in batches it needs 21. The first byte of a batch says how the rest is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from consumers.base.cells import ByteCells, Numbers, lengths
from consumers.base.errors import TransportError
from consumers.base.records import OutgoingColumns

__all__ = [
    "MOST_BYTES",
    "MOST_RECORDS",
    "Columns",
    "Packed",
    "Row",
    "compile_batches",
    "packed",
    "packed_columns",
    "packed_outgoing",
    "unpacked",
]

MOST_RECORDS = 1000
MOST_BYTES = 2**20  # of a batch before compression, except for one larger record
FEW = 32  # records: fewer are read faster one by one
LEVEL = 3  # zstd's default
PLAIN, ZSTD = b"\x00", b"\x01"

Row = tuple[int, bytes | None, bytes | None, bytes | None]  # timestamp, key, value, headers
_Cells = list[bytes | None]
_Body = tuple[int, list[int], _Cells, _Cells, _Cells | None]  # first timestamp, then differences

_MOST_BETWEEN = (1 << 63) - 1  # ms between two timestamps of a batch of arrays

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Body).decode


@dataclass(frozen=True, slots=True)
class Packed:
    """A batch: the number of its records, the largest timestamp, and its bytes."""

    count: int
    newest: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Columns:
    """The records of a batch."""

    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: list[bytes | None] | None

    def rows(self) -> Iterator[Row]:
        """One by one."""
        headers = self.headers or [None] * len(self.keys)
        return zip(self.timestamps, self.keys, self.values, headers, strict=True)


def packed(rows: Iterable[Row]) -> list[Packed]:
    """The rows in batches.

    Examples
    --------
    >>> [batch] = packed([(1700, b"7", b'{"amount":1}', None), (1650, None, None, None)])
    >>> batch.count, batch.newest
    (2, 1700)
    >>> list(unpacked(batch.data, "orders.db").rows())
    [(1700, b'7', b'{"amount":1}', None), (1650, None, None, None)]
    """
    columns = list(zip(*rows, strict=True))
    return packed_columns(*columns) if columns else []


def packed_columns(
    timestamps: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[bytes | None] | None = None,
) -> list[Packed]:
    """The same for records as columns, without an object for each record."""
    columns = [keys, values] + ([headers] if headers else [])
    return [
        _pack(timestamps[run], keys[run], values[run], headers[run] if headers else None)
        for run in _runs(np.add.reduce([lengths(cells) for cells in columns]))
    ]


def packed_outgoing(columns: OutgoingColumns) -> list[Packed]:
    """The same for the columns of one partition, without an object for each record."""
    from consumers.transports.sqlite._kernels import write_batch  # numba; others do without

    times = columns.timestamps
    if int(times.max()) - int(times.min()) > _MOST_BETWEEN:
        return packed_columns(times.tolist(), *columns.cells())
    data = columns.data[:]
    data.flags.writeable = False  # so that kernels are compiled for one type of arrays
    parts = [np.ascontiguousarray(part) for part in (columns.starts, columns.lengths, times)]
    return [
        _compressed(write_batch(data, *parts, run.start, run.stop).tobytes(), times[run].tolist())
        for run in _runs(columns.lengths.sum(axis=1))
    ]


def _runs(sizes: NDArray[np.int64]) -> Iterator[slice]:
    """The records of each batch, from the bytes of each record."""
    at = 0
    while at < sizes.size:
        ends = sizes[at : at + MOST_RECORDS].cumsum()
        count = max(1, int(np.searchsorted(ends, MOST_BYTES, side="right")))
        yield slice(at, at + count)
        at += count


def _pack(
    timestamps: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[bytes | None] | None,
) -> Packed:
    first = timestamps[0]
    body = _encode(
        (
            first,
            [timestamp - first for timestamp in timestamps],
            keys,
            values,
            headers if headers and any(headers) else None,
        )
    )
    return _compressed(body, timestamps)


def _compressed(body: bytes, timestamps: Sequence[int]) -> Packed:
    smaller = zstandard.compress(body, LEVEL)
    data = ZSTD + smaller if len(smaller) < len(body) else PLAIN + body
    return Packed(len(timestamps), max(timestamps), data)


def unpacked(data: bytes, where: str, count: int = 0) -> Columns:
    """The records of a batch.

    Parameters
    ----------
    data, where
        The batch, and the URL of its file.
    count
        The number of its records, if they shall be read by compiled code.

    Raises
    ------
    TransportError
        It is damaged, or of a newer headwater.
    """
    try:
        body = data[1:]
        if data[:1] == ZSTD:
            body = zstandard.decompress(body)
        elif data[:1] != PLAIN:
            raise ValueError(f"format {data[:1].hex() or 'missing'} is not known")
        if FEW <= count <= MOST_RECORDS and (plain := _plain(body, count)) is not None:
            return plain
        first, later, keys, values, headers = _decode(body)
        if not len(later) == len(keys) == len(values) == len(headers or keys):
            raise ValueError("its columns have different lengths")
    except (ValueError, zstandard.ZstdError) as error:
        raise TransportError(
            f"{where}: a batch of records is damaged ({error}): restore the file from a backup"
        ) from None
    return Columns([first + more for more in later], keys, values, headers)


def _plain(body: bytes, count: int) -> Columns | None:
    """The records as arrays; None for a batch with headers, or that is written in another way."""
    from consumers.transports.sqlite._kernels import read_batch  # numba; others do without

    data = np.frombuffer(body, dtype=np.uint8)
    times, starts, sizes = (np.empty((n, count), dtype=np.int64) for n in (1, 2, 2))
    if read_batch(data, times[0], starts, sizes) != count:
        return None
    keys, values = (ByteCells(data, starts[k], sizes[k]) for k in (0, 1))
    return Columns(Numbers(times[0]), keys, values, None)


def compile_batches() -> None:
    """Write a batch and read it, so that the kernels are compiled."""
    numbers = np.zeros((4, FEW), dtype=np.int64)
    data = np.zeros(1, dtype=np.uint8)
    columns = OutgoingColumns("", data, numbers[0], numbers[:2].T, *numbers[2:])
    unpacked(packed_outgoing(columns)[0].data, "", FEW)
