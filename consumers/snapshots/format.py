"""A snapshot as bytes. Pure.

    magic  "HWSNAP\\x00\\x01", or "HWSNAP\\x01\\x01" for a signed snapshot
    8      length of the header, little-endian
    …      header: JSON (about, state header, table of arrays)
    …      arrays, raw little-endian, each starting at a multiple of 8
    32     SHA-256 of everything before; HMAC-SHA-256 with the key for a signed snapshot

Nothing in it is executable: arrays have plain dtypes from a fixed list, and the rest is JSON.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from consumers.base.converter import UNDECODABLE
from consumers.base.errors import SnapshotError
from consumers.journal.records import IdentityRecord, Range
from consumers.shard.shape import OutputShape
from stream.data.state import State

__all__ = [
    "START",
    "SnapshotInfo",
    "from_bytes",
    "header_size",
    "name_of",
    "parts_of",
    "peek",
    "to_bytes",
]

MAGIC = b"HWSNAP\x00\x01"
SIGNED = b"HWSNAP\x01\x01"
SMALL = 2**16  # bytes of an array that are copied
START = len(MAGIC) + 8  # where the header starts
DTYPES = frozenset({"<f8", "<f4", "<i8", "<i4", "<u4", "|i1", "|u1", "|b1"})


class SnapshotInfo(msgspec.Struct, frozen=True):
    """The description of a snapshot.

    `position` is the journal offset after the last commit it contains; `seq`, `now` and `chain` are
    number, clock and hash of that journal record. `identity` is the hash of the service's identity,
    `fingerprint` the hash of the state. `versions` are the programs that wrote it, `cpu` is the
    processor for which kernels were compiled. `entry` is journal record 0, so that the journal may
    be trimmed up to a snapshot. `topics` are the ids of the input topics, and `tails` the last
    records of each partition; the next start recognizes the inputs by them. `shape` is that of the
    last outputs. `keys` are the file of keys and the version in it, if keys are on disk.
    """

    name: str
    shard: int
    position: int
    seq: int
    now: int
    identity: str
    versions: dict[str, str]
    entry: IdentityRecord
    chain: str = ""
    fingerprint: str = ""
    cpu: dict[str, str] = {}
    topics: dict[str, str] = {}
    tails: list[Range] = []
    shape: OutputShape | None = None
    keys: tuple[str, int] | None = None


class _Array(msgspec.Struct, array_like=True):
    name: str
    dtype: str
    shape: list[int]
    start: int


class _Header(msgspec.Struct):
    about: SnapshotInfo
    state: dict[str, Any]
    arrays: list[_Array]


class _Peek(msgspec.Struct):
    about: SnapshotInfo


_decode_header = msgspec.json.Decoder(_Header).decode
_decode_peek = msgspec.json.Decoder(_Peek).decode


def name_of(about: SnapshotInfo) -> str:
    """The file name of a snapshot. Names sort by journal position."""
    return f"snap-{about.position:020d}.hws"


def to_bytes(about: SnapshotInfo, state: State, key: str | None = None) -> bytes:
    """The snapshot as bytes, signed if there is a key."""
    return b"".join(parts_of(about, state, key))


def parts_of(about: SnapshotInfo, state: State, key: str | None = None) -> list[bytes | memoryview]:
    """`to_bytes` in parts. Those of large arrays are views, so that a large state is not copied."""
    chunks: list[bytes | memoryview] = []
    table, small, at = [], b"", 0
    for name in sorted(state.arrays):
        array = np.ascontiguousarray(state.arrays[name])
        if array.dtype.str not in DTYPES:
            raise SnapshotError(
                f"array {name!r}: expected one of {sorted(DTYPES)}, got dtype {array.dtype}"
            )
        table.append(_Array(name, array.dtype.str, list(array.shape), at))
        padding = -array.nbytes % 8
        if array.nbytes < SMALL:
            small += array.tobytes()
        else:
            chunks += [small, array.reshape(-1).view(np.uint8).data]
            small = b""
        small += b"\0" * padding
        at += array.nbytes + padding
    header = msgspec.json.encode(_Header(about, dict(state.header), table))
    header += b" " * (-len(header) % 8)
    magic = MAGIC if key is None else SIGNED
    body = [magic + len(header).to_bytes(8, "little") + header, *chunks, small]
    return [part for part in (*body, _seal(body, key)) if len(part)]


def _seal(body: Iterable[bytes | memoryview], key: str | None) -> bytes:
    digest = hashlib.sha256() if key is None else hmac.new(key.encode(), digestmod="sha256")
    for part in body:
        digest.update(part)
    return digest.digest()


def from_bytes(data: bytes, key: str | None = None) -> tuple[SnapshotInfo, State]:
    """The inverse of `to_bytes`, verified.

    Raises
    ------
    SnapshotError
        It is damaged, incomplete, of another format, or not signed with the key.
    """
    magic = data[: len(MAGIC)]
    if magic not in (MAGIC, SIGNED):
        raise SnapshotError("not a snapshot of this version of headwater")
    if magic == MAGIC and key is not None:
        raise SnapshotError(
            "not signed, and [snapshots] key is set; if you trust it, "
            "`headwater snapshots sign CONFIG` signs it"
        )
    if magic == SIGNED and key is None:
        raise SnapshotError("signed; set [snapshots] key to the secret it was signed with")
    found = _seal([memoryview(data)[:-32]], key)
    if len(data) < len(MAGIC) + 40 or not hmac.compare_digest(found, data[-32:]):
        other = "" if key is None else ", or it was signed with another [snapshots] key"
        raise SnapshotError(f"damaged: its checksum does not match{other}")
    length = header_size(data)
    try:
        header = _decode_header(data[START : START + length])
    except UNDECODABLE as error:
        raise SnapshotError(f"damaged: its header cannot be read ({error})") from None
    body = memoryview(data)[START + length : -32]
    arrays = {a.name: _array(a, body) for a in header.arrays}
    return header.about, State(header.state, arrays)


def header_size(start: bytes) -> int:
    """Size of the header, from the first `START` bytes of a snapshot; 0 for another file.

    It is not verified: a damaged snapshot may give any number.
    """
    if start[: len(MAGIC)] not in (MAGIC, SIGNED):
        return 0
    return int.from_bytes(start[len(MAGIC) : START], "little")


def peek(header: bytes) -> SnapshotInfo | None:
    """The description in a header, not verified: for retention only, never for loading."""
    try:
        return _decode_peek(header).about
    except UNDECODABLE:
        return None


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
