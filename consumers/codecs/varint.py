"""Integers of seven bits in each byte, the lowest first, as Avro and Protobuf write them."""

from __future__ import annotations

__all__ = ["read_varint", "signed"]

LONGEST_VARINT = 10  # bytes of 64 bits


def read_varint(
    payload: bytes, at: int, end: int, longest: int = LONGEST_VARINT
) -> tuple[int, int]:
    """The integer that begins at `at`, and where it ends, which is at most `end`.

    Raises
    ------
    ValueError
        It has more than `longest` bytes, or the payload ends before.

    Examples
    --------
    >>> read_varint(bytes([0xAC, 0x02, 0x07]), 0, 3)
    (300, 2)
    """
    value = 0
    for i in range(longest):
        if at + i >= end:
            raise ValueError("it ends too early")
        byte = payload[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at + i + 1
    raise ValueError(f"an integer has more than {longest} bytes")


def signed(value: int) -> int:
    """The number that has this zigzag code.

    Examples
    --------
    >>> signed(0), signed(1), signed(2)
    (0, -1, 1)
    """
    return (value >> 1) ^ -(value & 1)
