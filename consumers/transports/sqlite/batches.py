"""Records of one partition as one value: a batch of up to `MOST_RECORDS` records. Pure.

A record of its own needs a row, its JSON names and its key again, which was 180 bytes for records
of payments; in batches it needs 21. The first byte of a batch says how the rest is written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import msgspec
import zstandard

from consumers.base.errors import TransportError

__all__ = [
    "MOST_BYTES",
    "MOST_RECORDS",
    "Columns",
    "Packed",
    "Row",
    "packed",
    "packed_columns",
    "unpacked",
]

MOST_RECORDS = 1000
MOST_BYTES = 2**20  # of a batch before compression, except for one larger record
LEVEL = 3  # zstd's default
PLAIN, ZSTD = b"\x00", b"\x01"

Row = tuple[int, bytes | None, bytes | None, bytes | None]  # timestamp, key, value, headers
_Cells = list[bytes | None]
_Body = tuple[int, list[int], _Cells, _Cells, _Cells | None]  # first timestamp, then differences

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

    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
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
    batches: list[Packed] = []
    at = 0
    while at < len(timestamps):
        run = slice(at, at + MOST_RECORDS)
        columns = [keys[run], values[run]] + ([headers[run]] if headers else [])
        if sum(sum(map(len, filter(None, column))) for column in columns) > MOST_BYTES:
            end = bisect_right(list(accumulate(_sizes(columns))), MOST_BYTES)
            run = slice(at, at + max(end, 1))
        batches.append(
            _pack(timestamps[run], keys[run], values[run], headers[run] if headers else None)
        )
        at += batches[-1].count
    return batches


def _sizes(columns: Iterable[Sequence[bytes | None]]) -> list[int]:
    """The bytes of each row."""
    lengths = ([len(cell or b"") for cell in column] for column in columns)
    return list(map(sum, zip(*lengths, strict=True)))


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
    smaller = zstandard.compress(body, LEVEL)
    data = ZSTD + smaller if len(smaller) < len(body) else PLAIN + body
    return Packed(len(timestamps), max(timestamps), data)


def unpacked(data: bytes, where: str) -> Columns:
    """The records of a batch.

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
        first, later, keys, values, headers = _decode(body)
        if not len(later) == len(keys) == len(values) == len(headers or keys):
            raise ValueError("its columns have different lengths")
    except (ValueError, zstandard.ZstdError) as error:
        raise TransportError(
            f"{where}: a batch of records is damaged ({error}): restore the file from a backup"
        ) from None
    return Columns([first + more for more in later], keys, values, headers)
