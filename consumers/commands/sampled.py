"""The first records of a file or a topic, for `init`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from consumers.base.counts import counted, first_ones
from consumers.base.errors import ConfigError, RecordError
from consumers.base.fields import MISSING

if TYPE_CHECKING:
    from consumers.config import Config
    from consumers.files.source import FileSource
    from consumers.transports.protocol import Log

__all__ = ["LOOKED_AT", "Sampled", "first_objects", "id_of", "lacking", "of_file", "of_topic"]

LOOKED_AT = 20_000  # records: enough for scores within a point, and read in seconds
MOST_BYTES = 16 * 2**20  # of them, so that large or wide records take seconds, too

MOST_ROWS = 100_000  # of a message: the largest [commit] max_records
FIRST = 100  # records of a partition, whose schemas say which format they have

Record = Mapping[str, Any]
Keyed = tuple[int, bytes | None, Record]  # with its timestamp and key
Documents = Callable[[bytes | None], Sequence[Record]]  # of a message; RecordError


@dataclass(slots=True)
class Sampled:
    """The first records.

    Parameters
    ----------
    records
        In the order of their timestamps.
    times, keys
        Timestamp and key of each record of a topic; empty for a file.
    labels
        Id as text to label and timestamp, of a topic of labels.
    wire
        The wire format of the topic.
    lacking
        What label records lack, in sentences.
    changes
        The operations of change events whose rows are the records, if they are such.
    events
        How many events there were of each operation.
    """

    records: Sequence[Record]
    times: Sequence[int] = ()
    keys: Sequence[bytes | None] = ()
    labels: Mapping[str, tuple[Any, int]] = field(default_factory=dict)
    wire: str = "json"
    lacking: Sequence[str] = ()
    changes: Sequence[str] = ()
    events: Mapping[str, int] = field(default_factory=dict)

    @property
    def keyed(self) -> bool:
        """Whether each record has a key."""
        return bool(self.keys) and None not in self.keys


def of_file(
    source: FileSource,
    most: int,
    missing: Collection[str] = MISSING,
    *,
    verbatim: Collection[str | None] = (),
) -> Sampled:
    """The first records of a source, at most `most`. ConfigError if it has none.

    For `missing` and `verbatim` see `read_records`. Of a mail they are the fields that a service of
    mail reads.
    """
    from consumers.codecs.registry import lacks, wire_format
    from consumers.commands.meter import Meter
    from consumers.files.mails import FORMATS

    records, size = [], 0
    mails = source.format.name in FORMATS
    if mails and (missing_modules := lacks(wire_format("mail"))):
        raise ConfigError(f"{source} has mails; they need {missing_modules}")
    with Meter("records read", most) as meter:
        for record in source.records(missing=missing, verbatim=verbatim):
            records.append(_mail(record) if mails else record)
            meter.advance(1)
            size += sum(len(v) if isinstance(v, str) else 16 for v in record.values())
            if len(records) >= most or size >= MOST_BYTES:
                break
    if not records:
        raise ConfigError(f"{source} has no records; give a file with at least one")
    return Sampled(records, wire="mail") if mails else _rows(Sampled(records))


def _rows(found: Sampled) -> Sampled:
    """The rows, if all records are change events of a table; their keys are objects, and no ids.

    Raises
    ------
    ConfigError
        No event has a new row.
    """
    from consumers.codecs.raw import ROWS, operation_of, row_of

    operations = [operation_of(record) for record in found.records]
    if None in operations:
        return found
    events = Counter(map(str, operations))
    rows = [row_of(record, ROWS) for record in found.records]
    kept = [number for number, row in enumerate(rows) if row is not None]
    if not kept:
        raise ConfigError(
            f"the first {counted(len(rows), 'record')} are change events of the operations "
            f"{', '.join(sorted(events))}, and none has a new row (c or r): give later ones"
        )
    return replace(
        found,
        records=[row for row in rows if row is not None],
        times=[found.times[number] for number in kept] if found.times else (),
        keys=[None] * len(kept) if found.keys else (),
        changes=ROWS,
        events=events,
    )


def _mail(record: Record) -> Record:
    """The fields of the mail of a record instead of it."""
    from consumers.codecs.mail_field import expanded

    found = expanded(dict(record), "mail")
    return {name: value for name, value in found.items() if name != "mail"}


def of_topic(
    topic: str, labels: str | None, transport: str, most: int, registry: str | None = None
) -> Sampled:
    """The first records of a topic, and of a topic of labels, at most `most` of each.

    With `registry` their schemas say which wire format they have. Without it they are JSON, or
    messages with many rows, which begin in another way.

    Raises
    ------
    ConfigError
        A topic does not exist, or `topic` has no usable records.
    """
    from consumers.codecs.raw import row_of
    from consumers.codecs.registry import wire_format
    from consumers.commands.transport import open_chosen

    _, log = open_chosen(transport, None, existing=True)
    try:
        topics = log.topics()
        for wanted in filter(None, (topic, labels)):
            if wanted not in topics:
                near = get_close_matches(wanted, topics, n=1)
                hint = f"did you mean {near[0]!r}?" if near else "check the name and --transport"
                raise ConfigError(f"no topic {wanted!r} on {transport}; {hint}")
        if registry is None:
            wire, documents = _recognized(log, topic, topics[topic])
            of_labels: Documents = _json
        else:
            wire, documents = _registered(log, topic, topics[topic], transport, registry)
            of_labels = documents
        keyed = wire_format(wire).rows is None
        found, bad, why = _objects(log, topic, topics[topic], most, documents, keyed=keyed)
        given = _objects(log, labels, topics[labels], most, of_labels)[0] if labels else []
    finally:
        log.close()
    if not found:
        raise ConfigError(
            f"topic {topic!r} has no JSON objects ({counted(bad, 'other record')}"
            f"{why and f', the first: {why}'}); write some to it or give a file"
        )
    if bad:
        what = "1 record that is not a JSON object was"
        if bad > 1:
            what = f"{bad} records that are not JSON objects were"
        typer.echo(f"{what} skipped", err=True)
    times, keys, records = zip(*found, strict=True)
    sampled = _rows(Sampled(records, times, keys, wire=wire))
    if sampled.changes:
        rows = ((time, row_of(record, sampled.changes)) for time, _, record in given)
        given = [(time, None, row) for time, row in rows if row is not None]
    known: dict[str, tuple[Any, int]] = {}
    for time, key, record in given:
        if (id_ := id_of(record, key, "id")) is not None:
            known.setdefault(id_, (record.get("label"), time))  # the first one counts
    return replace(sampled, labels=known, lacking=lacking(given))


def first_objects(
    log: Log, topic: str, partitions: int, most: int, changes: Collection[str] = ()
) -> list[Keyed]:
    """The first JSON objects of a topic, each with its timestamp and key; with `changes` the rows
    of change events of these operations."""
    from consumers.codecs.raw import ChangeEvents

    rows = ChangeEvents(changes)
    documents = partial(_single, rows) if changes else _json
    return _objects(log, topic, partitions, most, documents)[0]


def lacking(given: Sequence[Keyed]) -> list[str]:
    """What some of these label records lack, so that a service refuses them.

    Examples
    --------
    >>> print(*lacking([(0, None, {"id": 7, "label": "a"}), (1, None, {"id": 8, "paid": True})]))
    1 of the first 2 label records has no 'label', so it would be a dead letter; it has 'id', 'paid'
    """
    from consumers.base.fields import name_of

    of = {
        "no 'label'": [r for _, _, r in given if name_of(r.get("label")) is None],
        "no 'id' that is text or an integer, and no key": [
            r for _, key, r in given if not _can_join(name_of(r.get("id")), key)
        ],
    }
    out = []
    for what, records in of.items():
        there = [name for name, v in records[0].items() if v is not None] if records else []
        names = ", ".join(map(repr, there[:5]))
        one = len(records) == 1
        if records:
            out.append(
                f"{len(records):,} of {first_ones(len(given), 'label record')} "
                f"{'has' if one else 'have'} {what}, so {'it' if one else 'they'} would be "
                f"{'a dead letter; it has' if one else 'dead letters; they have'} {names}"
            )
    return out


def _can_join(value: object, key: bytes | None) -> bool:
    """Whether this is an id; the key is it where there is no value."""
    if value is None:
        return bool(key)
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""


def id_of(record: Record, key: bytes | None, field: str) -> str | None:
    """The id of a record as text: that of its field, else its key."""
    from consumers.base.fields import field_of, name_of

    value = name_of(field_of(record, field))
    if value is not None:
        return str(value)
    return None if key is None else key.decode("utf-8", "replace")


def _recognized(log: Log, topic: str, partitions: int) -> tuple[str, Documents]:
    """The wire format by the first record, and the decoder of its records."""
    from consumers.base.records import Partition
    from consumers.codecs.registry import lacks, wire_formats

    every = [Partition(topic, n) for n in range(partitions)]
    first, ends = log.beginning_offsets(every), log.end_offsets(every)
    read = log.read(first, {p: min(end, first[p] + 1) for p, end in ends.items()})
    values = [value for fetched in read for value in fetched.values]
    for wire in wire_formats().values():
        rows = wire.rows
        if rows is None or not any(map(rows.recognizes, values)):
            continue
        if missing := lacks(wire):
            raise ConfigError(
                f"{topic!r} has records in the format {wire.name}; it needs {missing}"
            )
        return wire.name, partial(_many, rows.documents)
    return "json", _json


def _json(value: bytes | None) -> Sequence[Record]:
    from consumers.codecs.json import parse

    return [parse(value)]


def _many(
    documents: Callable[[bytes | None, int], Sequence[Record]], value: bytes | None
) -> Sequence[Record]:
    return documents(value, MOST_ROWS)


def _single(document: Callable[[bytes | None], Record], value: bytes | None) -> Sequence[Record]:
    return [document(value)]


def _registered(
    log: Log, topic: str, partitions: int, transport: str, registry: str
) -> tuple[str, Documents]:
    """The wire format by the schema of the first record, and the decoder of its records."""
    from consumers.base.records import Partition
    from consumers.codecs.format import schema_ids
    from consumers.codecs.registry import wire_formats
    from consumers.config import parse
    from consumers.schemas.client import SchemaRegistry
    from consumers.schemas.translate import Translator

    framed = {each.schema_type: each for each in wire_formats().values() if each.schema_type}
    every = [Partition(topic, n) for n in range(partitions)]
    first = log.beginning_offsets(every)
    ends = log.end_offsets(every)
    read = log.read(first, {p: min(end, first[p] + FIRST) for p, end in ends.items()})
    ids = schema_ids(value for fetched in read for value in fetched.values)

    def configured(name: str) -> Config:
        source = {"transport": transport, "observations": topic, "format": name}
        lines = [f"{key} = {json.dumps(value)}" for key, value in source.items()]
        text = f"name = 'init'\n[registry]\nurl = {json.dumps(registry)}\n[input]\n"
        return parse(text + "\n".join(lines), source="--registry")

    for wire in framed.values():
        client = SchemaRegistry(wire, configured(wire.name).registry)
        found = next(filter(None, map(client.schema, ids)), None)
        if found is None:
            break
        if found.type == wire.schema_type:
            return wire.name, partial(_single, Translator(configured(wire.name)).document)
    raise ConfigError(
        f"the first records of {topic!r} have no schema of {registry}; remove --registry if they "
        "are JSON"
    )


def _objects(
    log: Log,
    topic: str,
    partitions: int,
    most: int,
    documents: Documents,
    *,
    keyed: bool = True,
) -> tuple[list[Keyed], int, str]:
    """The first JSON objects of a topic in the order of their timestamps, the number of other
    records, and what is wrong with the first of these.

    Each partition gives its share of `most`, but enough to infer fields from it alone. Without
    `keyed` no record has a key, because the key of a message is not the one of its rows.
    """
    from consumers.base.records import Partition
    from consumers.config.sample import SAMPLE_SIZE

    every = [Partition(topic, n) for n in range(partitions)]
    starts, ends = log.beginning_offsets(every), log.end_offsets(every)
    room = max(SAMPLE_SIZE, -(-most // partitions))
    ends = {p: min(end, starts[p] + room) for p, end in ends.items()}
    found: list[Keyed] = []
    bad, size, why = 0, 0, ""
    for fetched in log.read(starts, ends):
        for time, key, value in zip(fetched.timestamps, fetched.keys, fetched.values, strict=True):
            try:
                found += [(time, key if keyed else None, each) for each in documents(value)]
            except RecordError as error:
                bad, why = bad + 1, why or error.detail
        size += fetched.nbytes
        if size >= MOST_BYTES:
            break
    found.sort(key=lambda each: each[0])  # stable: the order within a partition stays
    return found[:most], bad, why
