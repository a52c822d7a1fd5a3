"""Records of commands in the wire format of a configuration, and how they are written: in chunks,
of a file at once or paced, of a pipe when they arrive.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer

from consumers.base.errors import ConfigError
from consumers.base.records import RECORD_BYTES, record_bytes
from consumers.codecs.json_document import LARGEST_RECORD
from consumers.transports.placement import Placement

if TYPE_CHECKING:
    from consumers.base.records import Outgoing
    from consumers.config import Config
    from consumers.schemas.translate import Translator
    from consumers.transports.positions import Positions
    from consumers.transports.protocol import Log

__all__ = ["Appender", "in_format", "in_messages", "register", "send", "translator_of"]

SPAN_MS = 1000  # of the timestamps of the rows of a message


def translator_of(config: Config | None) -> Translator | None:
    """The translator of a configuration whose records are not all JSON; else None."""
    from consumers.schemas.translate import Translator

    translator = None if config is None else Translator(config)
    return translator if translator is not None and translator.translates else None


def register(translator: Translator | None, topics: Collection[str], given: list[str]) -> None:
    """Register the schemas in files, each given as FILE for the first topic, or as TOPIC=FILE.

    Raises
    ------
    ConfigError
        The records are plain JSON, the topic is another one, or the file cannot be read or used.
    """
    for each in given:
        name, equals, path = each.partition("=")
        topic, path = (name, path) if equals else (next(iter(topics)), each)
        if topic not in topics:
            raise ConfigError(
                f"--register {each}: this command writes to {' and '.join(topics)}, not to {topic}"
            )
        if translator is None:
            raise ConfigError(
                "--register needs a CONFIG whose [input] format is avro, protobuf or json_schema"
            )
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--register {each}: {error}; give the file of a schema") from None
        typer.echo(f"{topic}: schema {translator.register(topic, text)} of the registry")


def in_format(translator: Translator | None, records: Iterable[Outgoing]) -> Iterator[Outgoing]:
    """JSON records in the format of their topic, by its newest registered schema.

    Raises
    ------
    ConfigError
        There is no schema, or a record does not fit it.
    """
    if translator is None:
        yield from records
        return
    for count, record in enumerate(records, 1):
        document = msgspec.json.decode(record.value or b"null")
        try:
            value = translator.record(record.topic, document)
        except ValueError as error:
            raise ConfigError(
                f"record {count} for {record.topic}, with the key {record.key!r}, {error}; correct "
                "the file, or register a schema that it fits"
            ) from None
        yield record._replace(value=value)


def in_messages(
    translator: Translator | None, records: Iterable[Outgoing], partitions: int, most: int
) -> Iterator[Outgoing]:
    """As `in_format`; observations that follow each other become the rows of one message.

    A label ends the message before it, so that the order stays. The rows of a message have the
    partition of their ids, and the timestamp of the last one, so a message spans at most a second.

    Parameters
    ----------
    partitions
        How many partitions the topic of the observations has.
    most
        The largest number of rows of a message.
    """
    topic = None if translator is None else translator.message_topic
    if translator is None or topic is None:
        yield from in_format(translator, records)
        return
    placement = Placement()
    waiting: dict[int, list[Outgoing]] = {}
    for record in records:
        if record.topic != topic:
            yield from _messages(translator, waiting)
            yield from in_format(translator, [record])
            continue
        at = record.timestamp or 0
        if any(at - (rows[0].timestamp or 0) >= SPAN_MS for rows in waiting.values()):
            yield from _messages(translator, waiting)
        rows = waiting.setdefault(placement.choose(record, partitions), [])
        rows.append(record)
        if len(rows) == most:
            yield from _messages(translator, waiting)
    yield from _messages(translator, waiting)


def _messages(translator: Translator, waiting: dict[int, list[Outgoing]]) -> Iterator[Outgoing]:
    """The messages of the rows that wait, by partition, in order of time. No row waits then."""
    for number, rows in sorted(waiting.items(), key=lambda each: each[1][-1].timestamp or 0):
        for values, last in _encoded(translator, rows):
            yield last._replace(key=None, value=values, partition=number)
    waiting.clear()


def _encoded(translator: Translator, rows: list[Outgoing]) -> Iterator[tuple[bytes, Outgoing]]:
    """Messages of the rows, with the last record of each: one, or halves if they do not fit."""
    try:
        value = translator.message([msgspec.json.decode(row.value or b"null") for row in rows])
        if len(value) <= LARGEST_RECORD or len(rows) == 1:
            yield value, rows[-1]
            return
    except ValueError as error:
        if len(rows) == 1:
            record = rows[0]
            raise ConfigError(
                f"the record with the key {record.key!r} for {record.topic} {error}; correct the "
                "file"
            ) from None
    middle = len(rows) // 2
    yield from _encoded(translator, rows[:middle])
    yield from _encoded(translator, rows[middle:])


CHUNK = 5000  # records per append; a commit takes milliseconds, so few per second are enough
CHUNK_BYTES = 16 * 2**20  # bytes per append, except for one larger record
AHEAD_SECONDS = 0.01  # that a paced feed can run ahead, so that records are written together


def send(
    log: Log,
    outgoing: Iterable[Outgoing],
    *,
    pace: Callable[[int], float] | None = None,
    wrote: Callable[[list[Outgoing]], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Write records in chunks, at once or each at its time.

    Parameters
    ----------
    pace
        Maps a timestamp to the seconds after the start at which it is due; None writes at once.
    wrote
        Called with every acknowledged chunk.
    """
    for chunk in _chunks(outgoing, pace, clock, sleep):
        log.append(chunk)
        wrote(chunk)


def _chunks(
    outgoing: Iterable[Outgoing],
    pace: Callable[[int], float] | None,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
) -> Iterator[list[Outgoing]]:
    began = clock()
    chunk: list[Outgoing] = []
    left = CHUNK_BYTES
    for record in outgoing:
        _, key, value, timestamp, _, _ = record
        if pace is not None and timestamp is not None:
            due = began + pace(timestamp)
            if due - clock() > AHEAD_SECONDS:
                if chunk:
                    yield chunk
                    chunk, left = [], CHUNK_BYTES
                sleep(max(due - clock(), 0.0))
        chunk.append(record)
        left -= len(key or b"") + len(value or b"") + RECORD_BYTES
        if left <= 0 or len(chunk) == CHUNK:
            yield chunk
            chunk, left = [], CHUNK_BYTES
    if chunk:
        yield chunk


class Appender:
    """Writes records when a chunk is full, or when its caller has nothing else to do.

    Parameters
    ----------
    log
        Where they are written.
    wrote
        Called with every acknowledged chunk.
    positions
        Those of the topic from which the records come; they advance after the acknowledgement.
    """

    def __init__(
        self, log: Log, wrote: Callable[[list[Outgoing]], None], positions: Positions | None = None
    ) -> None:
        self._log, self._wrote, self._positions = log, wrote, positions
        self._chunk: list[Outgoing] = []
        self._sources: list[tuple[int, int]] = []
        self._bytes = 0

    def add(self, record: Outgoing, source: tuple[int, int] | None = None) -> None:
        """Write a record, at once or later. `source`: partition and offset from which it comes."""
        self._chunk.append(record)
        if source is not None:
            self._sources.append(source)
        self._bytes += record_bytes(record.key, record.value)
        if len(self._chunk) >= CHUNK or self._bytes >= CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was added. Records whose append fails are not written again."""
        chunk, self._chunk, self._bytes = self._chunk, [], 0
        sources, self._sources = self._sources, []
        if chunk:
            self._log.append(chunk)
            self._wrote(chunk)
        if self._positions is not None:
            for partition, offset in sources:
                self._positions.advance(partition, offset)
            if self._positions.due:
                self._positions.store()

    def waiting(self) -> None:
        """Write what was added; without anything new, store the positions."""
        if self._chunk:
            self.flush()
        elif self._positions is not None:
            self._positions.store()

    def finish(self) -> None:
        """Write what was added, and store the positions."""
        self.flush()
        if self._positions is not None:
            self._positions.store()
