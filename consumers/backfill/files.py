"""A history in files.

A split is a file, or some row groups of a Parquet file, with its labels inside, or those of its ids
from files of labels. Records of one split are in the order of their times; the files themselves may
have any.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from operator import attrgetter
from pathlib import PurePosixPath
from typing import Any, TypeGuard

from consumers.backfill.manifest import FileMark, FileSpan, Manifest, Reading, Split
from consumers.base.errors import ConfigError
from consumers.base.fields import TimeField, field_of, key_of, time_of
from consumers.base.records import UNBOUNDED, Batch, Fetched, Partition, Record
from consumers.config import Config
from consumers.config.sample import SAMPLE_SIZE
from consumers.files.file import File
from consumers.files.format import Options
from consumers.files.format import Record as Document
from consumers.files.formats.parquet import footer, of_groups
from consumers.files.source import FileSource
from consumers.journal.merge import Merge
from consumers.offline.columns import LineFeed, TableFeed
from consumers.offline.evaluate import batches
from consumers.offline.feed import encoded, id_of, label_records, rows_of, timed
from stream.data.schema import Schema

__all__ = ["FileHistory", "marked", "opened", "planned"]

BLOCK = 2**20  # bytes of a file that are hashed at once
KEPT_BYTES = 2**26  # of files of labels, of which a process keeps the records


def planned(source: FileSource, *, size: int, ordered: bool) -> list[Split]:
    """The splits of the files.

    Parameters
    ----------
    size
        The rows of a split of a Parquet file, at least; a row group is not divided.
    ordered
        Whether all files are one split.
    """
    spans: list[FileSpan] = []
    for number, file in enumerate(source.files):
        if source.format.name != "parquet" or ordered:
            spans.append(FileSpan(number))
            continue
        groups: list[int] = []
        rows = 0
        counts, _ = footer(file)
        for group, count in enumerate(counts):
            groups, rows = [*groups, group], rows + count
            if rows >= size or group == len(counts) - 1:
                spans.append(FileSpan(number, groups, rows))
                groups, rows = [], 0
    every = [list(spans)] if ordered else [[span] for span in spans]
    return [Split(number, list(group)) for number, group in enumerate(every)]


def marked(source: FileSource) -> list[FileMark]:
    """How a manifest names the files of a place: by names below their common folder."""
    paths = [PurePosixPath(file.path) for file in source.files]
    parts = [path.parts for path in paths]
    common = 0
    while len({part[common : common + 1] for part in parts}) == 1 and all(
        len(part) > common + 1 for part in parts
    ):
        common += 1
    return [
        FileMark("/".join(part[common:]), *_content(file, source.format.name))
        for part, file in zip(parts, source.files, strict=True)
    ]


def _content(file: File, kind: str) -> tuple[int, str]:
    """The bytes of a file, and the hash of what identifies its content."""
    size, digest = 0, hashlib.sha256()
    with file.stored() as stream:
        if kind == "parquet":
            size = stream.seek(0, 2)
            digest.update(footer(file)[1])
        else:
            while block := stream.read(BLOCK):
                size += len(block)
                digest.update(block)
    return size, digest.hexdigest()


_Label = tuple[int | None, str, bytes]  # time in ms, id, and the record
_kept: dict[str, list[_Label]] = {}  # by the hash of the manifest; of the last one only


@dataclass(frozen=True, slots=True)
class _Row:
    """An observation, or a label that is a record of its own."""

    time: int
    id: str
    value: bytes


class FileHistory:
    """Reads the splits of a history in files.

    Parameters
    ----------
    config, manifest, schema
        The service, what is read, and the features.
    source, labels
        The files of the history, and those of its labels; None if they are inside.
    """

    def __init__(
        self,
        config: Config,
        manifest: Manifest,
        schema: Schema,
        source: FileSource,
        labels: FileSource | None,
    ) -> None:
        self._config, self._manifest, self._schema = config, manifest, schema
        self._source, self._labels, self._reading = source, labels, manifest.reading
        came = self._reading.label_time
        self._label_time = None if came is None else TimeField.of(came).name
        self._topic = config.input.observations
        self._label_topic = label_topic(config)
        self._id = self._reading.id or config.input.id
        self.late = 0  # labels of the last split that came after the horizon

    @property
    def label_field(self) -> str | None:
        """The field of the observations with the label; None if labels are records of their own."""
        return None if self._apart else self._inside

    @property
    def label_topic(self) -> str | None:
        """The topic of the labels that are records of their own; None if they are not."""
        return self._label_topic if self._apart else None

    @property
    def _inside(self) -> str | None:
        return self._reading.label or self._config.input.label

    @property
    def _apart(self) -> bool:
        return self._labels is not None or self._reading.label_time is not None

    def batches(self, split: Split, size: int) -> Iterator[Batch]:
        """The records of a split in the order of their times, at most `size` at a time."""
        spans = [span for span in split.spans if isinstance(span, FileSpan)]
        if self._apart:
            return self._joined(spans, size)
        return self._columns(spans, size) or self._streamed(spans, size)

    def sampled_labels(self, split: Split) -> list[object]:
        """The labels of the first records, of the first file that has any.

        Raises
        ------
        ConfigError
            None of them has the time at which its label came, although its field is given.
        """
        if self._labels is not None:
            return self._sampled(self._label_records(), "label", self._labels)
        found: list[object] = []
        for span in split.spans:
            if isinstance(span, FileSpan) and not found:
                found = self._sampled(self._records(span), self._inside or "label", self._source)
        return found

    def absent(self, split: Split) -> list[str]:
        """The declared fields that none of the first records of each file has, and the id if labels
        may come later."""
        wanted = {field.name for field in self._schema.fields}
        wanted |= {self._id} if self._apart or self._config.input.labels else set()
        for span in split.spans:
            records = self._records(span) if isinstance(span, FileSpan) else iter(())
            for record in islice(records, SAMPLE_SIZE if wanted else 0):
                wanted -= {name for name in wanted if field_of(record, name) is not None}
        return sorted(wanted)

    def _sampled(self, records: Iterator[Document], name: str, source: FileSource) -> list[object]:
        """The labels of the first records."""
        came = self._label_time
        first = list(islice(records, SAMPLE_SIZE))
        if came and first and all(field_of(r, came) is None for r in first):
            fields = ", ".join(sorted({key for record in first for key in record})[:20])
            raise ConfigError(
                f"{source}: --label-time: the first records have no field {came!r}; fields "
                f"are {fields}"
            )
        values = (field_of(record, name) for record in first)
        return [value for value in values if value is not None]

    def ends(self, split: Split) -> list[tuple[int, int]]:
        """Each partition of the observations in a split, and the offset after its last record."""
        if not self._reading.offsets:
            return []
        partition, offset = self._reading.offsets
        time = self._reading.time_field
        columns = [partition, offset, *([] if time is None else [TimeField.of(time).name])]
        spans = [span for span in split.spans if isinstance(span, FileSpan)]
        rows = chain.from_iterable(self._records(span, columns) for span in spans)
        out: dict[int, int] = {}
        for number, record in enumerate(self._before(rows)):
            at, last = field_of(record, partition), field_of(record, offset)
            if not (_is_whole(at) and _is_whole(last)):
                raise ConfigError(
                    f"{self._source}: record {number + 1}: expected whole numbers as {partition!r} "
                    f"and {offset!r}, got {at!r} and {last!r}"
                )
            out[at] = max(out.get(at, 0), last + 1)
        return sorted(out.items())

    def records(self, spans: list[FileSpan]) -> Iterator[Document]:
        """The observations as they are in the files."""
        return chain.from_iterable(map(self._records, spans))

    def _records(self, span: FileSpan, columns: Sequence[str] | None = None) -> Iterator[Document]:
        """The records of a span; only these columns, if the format has columns. Of change events
        the rows."""
        return rows_of(self._read(span, columns), self._config.input.changes)

    def _read(self, span: FileSpan, columns: Sequence[str] | None) -> Iterator[Document]:
        if span.groups is not None:
            reader = of_groups(self._source.files[span.file], span.groups, columns)
            row = 0
            for batch in reader.batches():
                yield from reader.records_of(batch, row)
                row += len(batch)
            return
        reading = self._reading
        verbatim = {self._id, "label", reading.label, self._config.input.label}
        yield from self._source.records_of(
            span.file,
            reading.types,
            missing=self._config.values.texts,
            verbatim=frozenset(verbatim),
        )

    def _columns(self, spans: list[FileSpan], size: int) -> Iterator[Batch] | None:
        """The records without JSON in between; None if they cannot be read so."""
        if self._config.parser or self._config.input.changes:
            return None
        make = self._feed(spans)
        if make is None:
            return None
        found = make(None).survey(lambda count: None, self._manifest.until)
        return None if found is None else make(found.records).batches(size)

    def _feed(self, spans: list[FileSpan]) -> Callable[[int | None], Any] | None:
        options: dict[str, Any] = {
            "topic": self._topic,
            "id_field": self._id,
            "label_field": self._inside,
            "labels": None,
            "time_field": self._reading.time_field,
        }
        files = [span.file for span in spans]
        if self._source.tables is not None:
            tables = [
                self._source.tables[span.file]
                if span.groups is None
                else of_groups(self._source.files[span.file], span.groups)
                for span in spans
            ]
            return lambda limit: TableFeed(tables, self._schema, limit=limit, **options)
        if self._source.lines is not None:
            lines = [self._source.lines[file] for file in files]
            return lambda limit: LineFeed(lines, self._schema, limit=limit, **options)
        return None

    def _streamed(self, spans: list[FileSpan], size: int) -> Iterator[Batch]:
        """The records as JSON, in the order in which they are."""
        feed = timed(
            self._in_order(spans),
            self._topic,
            start=0,
            time_field=self._reading.time_field,
            id_field=self._id,
            ahead=True,
        )
        return batches(feed, self._topic, [], size, self._config.commit.most_bytes())

    def _in_order(self, spans: list[FileSpan]) -> Iterable[Document]:
        """The records by their times. All of them are in memory if they are in another order."""
        name = self._reading.time_field
        if name is None:
            return self.records(spans)
        times = (_time(record, name, self._source) for record in self._before(self.records(spans)))
        if all(a <= b for a, b in pairwise(times)):
            return self._before(self.records(spans))
        rows = self._before(self.records(spans))
        return sorted(rows, key=lambda record: _time(record, name, self._source))

    def _before(self, records: Iterator[Document]) -> Iterator[Document]:
        """Those before `until`."""
        until, name = self._manifest.until, self._reading.time_field
        if until is None or name is None:
            return records
        return (r for r in records if _time(r, name, self._source) < until)

    def _joined(self, spans: list[FileSpan], size: int) -> Iterator[Batch]:
        """Observations, and their labels as records of their own; all of them are in memory."""
        rows, late = self._observations(spans)
        came, horizon = {row.id: row.time for row in reversed(rows)}, self._config.labels.horizon_ms
        if self._labels is not None:
            late = self._of_files(came)
        as_of = self._manifest.as_of
        late = [each for each in late if as_of is None or each.time < as_of]
        near = [each for each in late if abs(each.time - came[each.id]) <= horizon]
        self.late, late = len(late) - len(near), near
        topics = {self._topic: rows, self._label_topic: late}
        merge = Merge([Partition(topic, 0) for topic in topics], {self._label_topic}, UNBOUNDED)
        for topic, records in topics.items():
            records.sort(key=attrgetter("time"))
            merge.add([_fetched(topic, records)])
        return merge.batches((), lambda: size)

    def observations(self, split: Split, ids: Collection[str]) -> list[Record]:
        """The observations of a split with these ids."""
        spans = [span for span in split.spans if isinstance(span, FileSpan)]
        rows, _ = self._observations(spans, ids) if ids else ([], [])
        return [
            Record(self._topic, 0, number, row.time, key_of(row.id), row.value)
            for number, row in enumerate(rows)
        ]

    def _observations(
        self, spans: list[FileSpan], only: Collection[str] | None = None
    ) -> tuple[list[_Row], list[_Row]]:
        """The observations, and the labels inside them that came at a time of their own. `only`
        those with these ids, if they have an id of their own; None: all."""
        reading, inside = self._reading, self._inside
        hidden = {inside, self._label_time}
        rows: list[_Row] = []
        late: list[_Row] = []
        for number, record in enumerate(self._before(self.records(spans))):
            id_ = str(id_of(number, record, self._id))
            if only is not None and (id_ not in only or field_of(record, self._id) is None):
                continue
            at = number
            if reading.time_field is not None:
                at = _time(record, reading.time_field, self._source)
            given = None if inside is None else field_of(record, inside)
            rest = {name: v for name, v in record.items() if name not in hidden}
            rows.append(_Row(at, id_, encoded(rest)))
            if given is not None and self._labels is None and reading.label_time is not None:
                came = field_of(record, str(self._label_time))
                when = at if came is None else _time(record, reading.label_time, self._source)
                late.append(_Row(max(when, at), id_, encoded({"id": id_, "label": given})))
        return rows, late

    def _of_files(self, times: Mapping[str, int]) -> list[_Row]:
        """The labels of these ids in the files of labels. One without a time comes at once."""
        return [
            _Row(times[id_] if at is None else at, id_, value)
            for at, id_, value in self._all_labels()
            if id_ in times
        ]

    def _all_labels(self) -> Iterable[_Label]:
        """The labels in the files of labels. Few are kept for the next split in this process."""
        assert self._labels is not None  # noqa: S101  the callers have looked
        if sum(mark.size for mark in self._manifest.label_files) > KEPT_BYTES:
            return self._read_labels()
        mark = self._manifest.sha256
        if mark not in _kept:
            _kept.clear()
            _kept[mark] = list(self._read_labels())
        return _kept[mark]

    def _read_labels(self) -> Iterator[_Label]:
        name = self._label_time
        for record in self._label_records():
            at = None
            if name is not None and record.get(name) is not None:
                at = _time(record, str(self._reading.label_time), self._labels or self._source)
            value = encoded({k: v for k, v in record.items() if k != name})
            yield at, str(record["id"]), value

    def _label_records(self) -> Iterator[Document]:
        """The records of the files of labels, with `id` and `label`."""
        assert self._labels is not None  # noqa: S101  the callers have looked
        records = self._labels.records(
            verbatim=frozenset({self._id, "id", "label", self._reading.label}),
            marks=self._config.files.marks,
        )
        return label_records(
            rows_of(records, self._config.input.changes),
            self._labels,
            label=self._reading.label,
            ids=tuple(dict.fromkeys((self._id, "id"))),
            time_field=self._reading.label_time,
        )


def _fetched(topic: str, rows: list[_Row]) -> Fetched:
    keys = [key_of(row.id) for row in rows]
    columns = ([row.time for row in rows], keys, [row.value for row in rows])
    return Fetched(Partition(topic, 0), range(len(rows)), *columns)


def label_topic(config: Config) -> str:
    """The topic of the labels; without one any name except that of the observations."""
    return config.input.labels or f"{config.input.observations}-labels"


def opened(place: str, reading: Reading) -> FileSource:
    """The files of a place."""
    return FileSource(place, Options(**reading.options))


def _is_whole(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def _time(record: Mapping[str, object], name: str, source: FileSource) -> int:
    try:
        return time_of(record, name)
    except ValueError as error:
        raise ConfigError(f"{source}: field {name!r}: {error}") from None
