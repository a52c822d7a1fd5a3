"""What a shard publishes of what it has learned: as bytes, and found again. Pure, except that a log
is read.

Rule: it is cumulative. Newer statistics of a shard contain its older ones, so only the newest ones
count, and a reader that missed some has missed nothing.
"""

from __future__ import annotations

import zlib
from io import BytesIO
from typing import Annotated, NamedTuple
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import msgspec

from consumers.base.converter import UNDECODABLE, Converter
from consumers.base.errors import TransportError
from consumers.base.records import Partition
from consumers.journal.model_parts import MOST_BYTES, ModelPart, part_count, stored
from consumers.journal.records import PeerStatistics
from consumers.transports.protocol import Log
from stream.data.state import State
from stream.errors import StateError

__all__ = ["Statistics", "from_bytes", "lost", "newest", "read", "to_bytes"]

FIRST_LOOK = 64  # records before the end of a partition; four times as many in each further look

_decoder = msgspec.json.Decoder(ModelPart)


_Whole = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class _About(msgspec.Struct):
    shard: _Whole
    now: _Whole
    learned: _Whole
    names: list[str]


_about = Converter(_About)


class Statistics(NamedTuple):
    """The statistics of a shard: its number and clock (ms), how many labels it has learned, and the
    statistics of each model that mixes, by its name."""

    shard: int
    now: int
    learned: int
    models: dict[str, State]


def to_bytes(published: Statistics) -> bytes:
    """The statistics as the content of a file.

    Examples
    --------
    >>> published = Statistics(1, 1000, 2, {"": State({"n": 2})})
    >>> from_bytes(to_bytes(published)) == published
    True
    """
    shard, now, learned, models = published
    about = msgspec.to_builtins(_About(shard, now, learned, list(models)))
    parts = {str(i): state for i, state in enumerate(models.values())}
    whole = State.join({"about": State(about), "models": State.join(parts)})
    return zlib.compress(whole.to_bytes(), 1)


def from_bytes(data: bytes) -> Statistics:
    """The inverse of `to_bytes`.

    Raises
    ------
    StateError
        They are damaged, or something else.
    """
    try:
        unpacked = zlib.decompressobj()
        raw = unpacked.decompress(data, MOST_BYTES)
        if unpacked.unconsumed_tail or not unpacked.eof:
            raise StateError(f"expected statistics of at most {MOST_BYTES:,} bytes, got more")
        with ZipFile(BytesIO(raw)) as file:
            if any(member.compress_type != ZIP_STORED for member in file.infolist()):
                raise StateError("expected arrays that are not compressed twice")
        whole = State.from_bytes(raw)
        about = _about(whole.nested("about").header)
        models = whole.nested("models")
        names = {name: models.nested(str(i)) for i, name in enumerate(about.names)}
        return Statistics(about.shard, about.now, about.learned, names)
    except (zlib.error, msgspec.ValidationError, BadZipFile) as error:
        raise StateError(f"expected the statistics of a shard: {error!r}") from None


def lost(partition: Partition, offset: int) -> TransportError:
    """The error for statistics that the journal names and the topic does not have."""
    return TransportError(
        f"{partition} no longer holds the statistics at offset {offset}, which the journal names, "
        "so this model cannot be rebuilt; restore the topic, or remove [scale] mix by headwater "
        f"relearn. Keep {partition.topic} as long as the inputs"
    )


def newest(
    log: Log, partition: Partition, start: int, end: int
) -> tuple[PeerStatistics, bytes] | None:
    """The newest complete statistics between two offsets of a partition: what a journal record
    names, and the file; None if it finds no such file.

    It looks at the last records first, because a shard that was away may have missed many.
    """
    look = FIRST_LOOK
    while True:
        first = max(start, end - look)
        found = _newest(log, partition, first, end)
        if found is not None or first <= start:
            return found
        look *= 4


def _newest(
    log: Log, partition: Partition, start: int, end: int
) -> tuple[PeerStatistics, bytes] | None:
    if start >= end:
        return None
    found: tuple[PeerStatistics, bytes] | None = None
    data: list[bytes] = []  # of the file whose parts are read
    sha256, first = "", 0
    for fetched in log.read({partition: start}, {partition: end}):
        for offset, value in zip(fetched.offsets, fetched.values, strict=True):
            try:
                part = _decoder.decode(value or b"")
            except UNDECODABLE:
                continue
            if part.parts > part_count(MOST_BYTES):
                continue
            if part.part == 0:
                data, sha256, first = [], part.sha256, int(offset)
            if part.sha256 != sha256 or part.part != len(data):
                continue
            data.append(part.data)
            if len(data) == part.parts:
                whole = b"".join(data)
                peer = PeerStatistics(partition.number, first, int(offset) + 1, stored(whole))
                if peer.file.sha256 == sha256:  # else it is not what it says
                    found = peer, whole
    return found


def read(log: Log, topic: str, peer: PeerStatistics) -> bytes:
    """The file that a journal record names.

    Raises
    ------
    TransportError
        The topic no longer holds it.
    """
    partition = Partition(topic, peer.shard)
    first = log.beginning_offsets([partition])[partition]
    if not first <= peer.first < peer.end <= log.end_offsets([partition])[partition]:
        raise lost(partition, peer.first)
    found = _newest(log, partition, peer.first, peer.end)
    if found is None or found[0] != peer:
        raise lost(partition, peer.first)
    return found[1]
