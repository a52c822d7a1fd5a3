"""A snapshot as bytes. Pure.

    magic  "HWSNAP\\x00\\x01"
    8      length of the header, little-endian
    …      header: JSON (about, state header, table of arrays)
    …      arrays, raw little-endian, each starting at a multiple of 8
    32     SHA-256 of everything before

Nothing in it is executable: arrays have plain dtypes from a fixed list, the rest is JSON.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from consumers.errors import SnapshotError
from stream.state import State

__all__ = ["About", "from_bytes", "to_bytes"]

MAGIC = b"HWSNAP\x00\x01"
DTYPES = frozenset({"<f8", "<i8", "<i4", "|i1", "|u1", "|b1"})


class About(msgspec.Struct, frozen=True):
    """What a snapshot is of.

    `position` is the offset after the last journal entry it contains, `seq` and `now` that
    entry's number and clock, `identity` the hash of the service's identity, `versions` the
    programs that made it, `chain` that of the journal's entry, `fingerprint` its state's.
    """

    name: str
    shard: int
    position: int
    seq: int
    now: int
    identity: str
    versions: dict[str, str]
    chain: str = ""
    fingerprint: str = ""


class _Array(msgspec.Struct, array_like=True):
    name: str
    dtype: str
    shape: list[int]
    start: int


class _Header(msgspec.Struct):
    about: About
    state: dict[str, Any]
    arrays: list[_Array]


def to_bytes(about: About, state: State) -> bytes:
    """The snapshot as bytes."""
    table, chunks, at = [], [], 0
    for name in sorted(state.arrays):
        array = np.ascontiguousarray(state.arrays[name])
        if array.dtype.str not in DTYPES:
            raise SnapshotError(f"array {name!r} has dtype {array.dtype}, which no snapshot holds")
        table.append(_Array(name, array.dtype.str, list(array.shape), at))
        raw = array.tobytes()
        padding = -len(raw) % 8
        chunks += [raw, b"\0" * padding]
        at += len(raw) + padding
    header = msgspec.json.encode(_Header(about, dict(state.header), table))
    header += b" " * (-len(header) % 8)
    body = b"".join([MAGIC, len(header).to_bytes(8, "little"), header, *chunks])
    return body + hashlib.sha256(body).digest()


def from_bytes(data: bytes) -> tuple[About, State]:
    """The inverse of `to_bytes`, verified.

    Raises
    ------
    SnapshotError
        It is damaged, cut short or of another format.
    """
    if data[: len(MAGIC)] != MAGIC:
        raise SnapshotError("not a snapshot of this version of headwater")
    if len(data) < len(MAGIC) + 40 or hashlib.sha256(data[:-32]).digest() != data[-32:]:
        raise SnapshotError("damaged: its checksum does not match")
    start = len(MAGIC) + 8
    length = int.from_bytes(data[len(MAGIC) : start], "little")
    try:
        header = msgspec.json.decode(data[start : start + length], type=_Header)
    except msgspec.DecodeError as error:
        raise SnapshotError(f"damaged: its header cannot be read ({error})") from None
    body = memoryview(data)[start + length : -32]
    arrays = {a.name: _array(a, body) for a in header.arrays}
    return header.about, State(header.state, arrays)


def _array(entry: _Array, body: memoryview) -> NDArray[Any]:
    if entry.dtype not in DTYPES or any(n < 0 for n in entry.shape):
        raise SnapshotError(f"damaged: array {entry.name!r} cannot be {entry.dtype}")
    count = math.prod(entry.shape)
    size = count * np.dtype(entry.dtype).itemsize
    if not 0 <= entry.start <= entry.start + size <= len(body):
        raise SnapshotError(f"damaged: array {entry.name!r} lies outside the file")
    raw = body[entry.start : entry.start + size]
    try:
        return np.frombuffer(raw, dtype=entry.dtype, count=count).reshape(entry.shape)
    except ValueError as error:
        raise SnapshotError(f"damaged: array {entry.name!r}: {error}") from None
