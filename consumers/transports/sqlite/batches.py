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

__all__ = ["MOST_BYTES", "MOST_RECORDS", "Columns", "Packed", "Row", "packed", "unpacked"]

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
    rows = list(rows)
    batches: list[Packed] = []
    at = 0
    while at < len(rows):
        run = rows[at : at + MOST_RECORDS]
        sizes = _sizes(run)
        if sum(sizes) > MOST_BYTES:
            run = run[: max(bisect_right(list(accumulate(sizes)), MOST_BYTES), 1)]
        batches.append(_pack(run))
        at += len(run)
    return batches


def _sizes(rows: Sequence[Row]) -> list[int]:
    """The bytes of each row."""
    _, *columns = zip(*rows, strict=True)
    lengths = ([len(cell or b"") for cell in column] for column in columns if any(column))
    return list(map(sum, zip(*lengths, strict=True))) or [0] * len(rows)


def _pack(rows: Sequence[Row]) -> Packed:
    timestamps, keys, values, headers = zip(*rows, strict=True)
    first = timestamps[0]
    body = _encode(
        (
            first,
            [timestamp - first for timestamp in timestamps],
            keys,
            values,
            headers if any(headers) else None,
        )
    )
    smaller = zstandard.compress(body, LEVEL)
    data = ZSTD + smaller if len(smaller) < len(body) else PLAIN + body
    return Packed(len(rows), max(timestamps), data)


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
