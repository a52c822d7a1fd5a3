"""What a backfill learns, split by split. Pure.

Rule: the manifest alone decides the result. Its splits are made before anything is learned, and are
learned apart; their models are merged in the order of the splits. So an engine that runs the splits
elsewhere, several times or in another order gives the same bits.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

__all__ = ["FileMark", "FileSpan", "Manifest", "OffsetSpan", "Reading", "Split", "from_bytes"]


class OffsetSpan(msgspec.Struct, frozen=True, tag="offsets", tag_field="kind"):
    """Records of a log: offsets from `first` to `end` - 1 of a partition."""

    topic: str
    partition: int
    first: int
    end: int


class FileSpan(msgspec.Struct, frozen=True, tag="file", tag_field="kind"):
    """Records of a file, by its index in `Manifest.files`: those of these row groups of a Parquet
    file, or all (None). `rows` is their number, None if it is not known before they are read."""

    file: int
    groups: list[int] | None = None
    rows: int | None = None


class Split(msgspec.Struct, frozen=True):
    """Records that one model learns from the beginning to the end."""

    number: int
    spans: list[OffsetSpan | FileSpan]


class FileMark(msgspec.Struct, frozen=True):
    """A file: its name below its place, its bytes, and the SHA-256 of its content; of a Parquet
    file that of its footer, which has the statistics of all columns."""

    name: str
    size: int
    sha256: str


class Reading(msgspec.Struct, frozen=True):
    """How the records of files are read.

    `id`, `label`, `time_field` and `label_time` name fields: the id (None: that of the service),
    the label, the time of an observation, and the time at which its label came. `offsets` are the
    fields with partition and offset of a record in the topic of observations; empty: no fields.
    `types` are the kinds of the columns of a CSV. `options` are those of
    `consumers.files.format.Options`.
    """

    id: str | None = None
    label: str | None = None
    time_field: str | None = None
    label_time: str | None = None
    offsets: list[str] = []
    types: dict[str, str] = {}
    options: dict[str, str | None] = {}


class Manifest(msgspec.Struct, frozen=True):
    """What a backfill learns.

    `identity` is the part of the configuration that decides what is learned, and `fields` the
    schema. `label` is one of the labels: those of another kind are dead letters in every split;
    None: the first label of a split decides. `labels` are the offsets of the label topics. `files`
    and `label_files` are the files of the history and of its labels. `ordered` is why all records
    are one split, "" if they are not. Observations at `until` or later, and labels at `as_of` or
    later, are not learned; both are times in ms, None: all are. `end` is the newest time of the
    history in ms, for logs: later timestamps are wrong.
    """

    service: str
    shard: int
    source: str
    identity: dict[str, Any]
    fields: list[tuple[str, str]]
    splits: list[Split]
    label: str | int | bool | None = None
    labels: list[OffsetSpan] = []
    files: list[FileMark] = []
    label_files: list[FileMark] = []
    reading: Reading = Reading()
    ordered: str = ""
    until: int | None = None
    as_of: int | None = None
    end: int | None = None
    version: int = 1

    @property
    def cut(self) -> int | None:
        """The stream time in ms at which the service continues; None if it is not known."""
        times = [time for time in (self.until, self.as_of, self.end) if time is not None]
        return min(times) if self.until is not None or self.end is not None else None

    def to_bytes(self) -> bytes:
        """As JSON. Equal manifests have equal bytes.

        Examples
        --------
        >>> manifest = Manifest("mail", 0, "kafka", {}, [("x", "numeric")], [])
        >>> from_bytes(manifest.to_bytes()) == manifest
        True
        """
        return msgspec.json.encode(self, order="sorted")

    @property
    def sha256(self) -> str:
        """Its hash."""
        return hashlib.sha256(self.to_bytes()).hexdigest()


_decode = msgspec.json.Decoder(Manifest).decode


def from_bytes(data: bytes) -> Manifest:
    """The inverse of `Manifest.to_bytes`."""
    return _decode(data)
