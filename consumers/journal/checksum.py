"""The checksum of a range of records, whole or piece by piece. Pure.

Rule: the CRC-32 of the columns one after another (offsets, timestamps, sizes of keys, keys, sizes
of values, values), as every journal has it. A range that is read in pieces gives each column piece
by piece, so a CRC is kept a column, and joined at the end: CRC(A + B) follows from CRC(A), CRC(B)
and the length of B.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

import numpy as np

from consumers.base.records import Fetched

__all__ = ["RangeChecksum", "checksum", "combined"]

_POLYNOMIAL = 0xEDB88320  # of CRC-32, reflected: the highest bit is the coefficient of x⁰
_ONE = 1 << 31
_BYTE = 1 << 23  # x⁸: one more byte


def checksum(part: Fetched) -> int:
    """Of the records of one partition: where, when and what they are."""
    crc = 0
    for numbers in (part.offsets, part.timestamps):
        crc = zlib.crc32(_numbers(numbers), crc)
    for cells in (part.keys, part.values):
        crc = _cells(cells, zlib.crc32(_sizes(cells), crc))
    return crc


class RangeChecksum:
    """The same of records that come in pieces.

    Examples
    --------
    >>> from consumers.base.records import Partition
    >>> visits = Partition("visits", 0)
    >>> first = Fetched(visits, [0], [10], [b"a"], [b"{}"])
    >>> second = Fetched(visits, [1], [20], [None], [b"[]"])
    >>> pieces = RangeChecksum()
    >>> pieces.add(first)
    >>> pieces.add(second)
    >>> whole = Fetched(visits, [0, 1], [10, 20], [b"a", None], [b"{}", b"[]"])
    >>> pieces.value == checksum(whole), pieces.count
    (True, 2)
    """

    def __init__(self) -> None:
        self.count = 0
        self._columns = [(0, 0)] * 6  # CRC and length of each

    def add(self, part: Fetched) -> None:
        """The next records."""
        self.count += len(part)
        fresh: list[Iterable[bytes]] = [[_numbers(part.offsets)], [_numbers(part.timestamps)]]
        for cells in (part.keys, part.values):
            fresh += [[_sizes(cells)], filter(None, cells)]
        for i, pieces in enumerate(fresh):
            crc, length = self._columns[i]
            for piece in pieces:
                crc, length = zlib.crc32(piece, crc), length + len(piece)
            self._columns[i] = crc, length

    @property
    def value(self) -> int:
        """The checksum of all of them."""
        whole = 0
        for crc, length in self._columns:
            whole = combined(whole, crc, length)
        return whole


def combined(first: int, second: int, length: int) -> int:
    """The CRC-32 of two pieces from those of each; `length` in bytes of the second.

    Examples
    --------
    >>> combined(zlib.crc32(b"head"), zlib.crc32(b"water"), 5) == zlib.crc32(b"headwater")
    True
    """
    return _product(_power(length), first) ^ second


def _product(a: int, b: int) -> int:
    """Of two polynomials over GF(2), modulo that of the CRC."""
    out = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            out ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return out


def _power(length: int) -> int:
    """What so many bytes behind it multiply a CRC by."""
    out, square = _ONE, _BYTE
    while length:
        if length & 1:
            out = _product(square, out)
        square = _product(square, square)
        length >>= 1
    return out


def _numbers(numbers: Sequence[int]) -> bytes:
    return np.array(numbers, dtype=np.int64).tobytes()


def _sizes(cells: Sequence[bytes | None]) -> bytes:
    return _numbers([-1 if c is None else len(c) for c in cells])


def _cells(cells: Iterable[bytes | None], crc: int) -> int:
    """One by one: joined they would be in memory twice."""
    for cell in filter(None, cells):
        crc = zlib.crc32(cell, crc)
    return crc
