"""The log side of a client: appends, and the predictions as an iterator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from consumers.api.contract import PredictionRecord
from consumers.api.writer import Writer
from consumers.base.errors import ConfigError, RecordError
from consumers.base.records import Outgoing, Partition
from consumers.config import Config
from consumers.schemas.translate import Translator
from consumers.transports import open_log
from consumers.transports.positions import Positions, initial_positions
from consumers.transports.protocol import Log
from headwater.records import Prepared

__all__ = ["LogDoor", "PredictionStream"]

POLL_SECONDS = 0.1

Values = Generator[tuple[Partition, int, bytes | None], None, None]

_decode = msgspec.json.Decoder(PredictionRecord).decode


class LogDoor:
    """The log of a service. Appends run in a thread of their own, several calls with one append.

    Parameters
    ----------
    url
        Of the transport.
    kafka
        The section [kafka] of the configuration.
    config
        Its configuration, if it is known: records may have schemas. Without it they are JSON.
    """

    def __init__(
        self,
        url: str,
        kafka: Mapping[str, object],
        config: Config | None = None,
    ) -> None:
        self._url, self._kafka, self._config = url, kafka, config
        self._translator = None if config is None else Translator(config)
        self._writer = Writer(self._opened)
        self._streams: list[PredictionStream] = []

    def _opened(self) -> Log:
        return open_log(self._url, kafka=self._kafka)

    @property
    def translates(self) -> bool:
        """Whether `translated` does something, and may ask a registry."""
        return self._translator is not None and self._translator.translates

    def knows(self, topic: str) -> bool:
        """Whether `translated` of this topic asks the registry for no unknown schema."""
        return self._translator is None or self._translator.knows(topic)

    def translated(self, topic: str, records: list[Prepared]) -> list[Prepared]:
        """The records in the format of a topic.

        Raises
        ------
        RecordError
            One does not fit its schema.
        """
        if self._translator is None or not self._translator.translates:
            return records
        try:  # without a lock: other threads use the schemas that are known while one asks
            values = self._translator.records(topic, [record.value for record in records])
        except ValueError as error:
            raise RecordError("wrong_kind", f"a record for {topic} {error}") from None
        return [r._replace(value=value) for r, value in zip(records, values, strict=True)]

    def append(self, topic: str, records: list[Prepared]) -> Future[list[tuple[int, int]]]:
        """A future of partition and offset of each record."""
        now = time.time_ns() // 1_000_000
        out = [
            Outgoing(topic, r.id.encode(), r.value, now if r.ts is None else r.ts) for r in records
        ]
        return self._writer.append(out)

    def predictions(
        self, topic: str, *, follow: bool, from_beginning: bool, resume: str | Path | None
    ) -> PredictionStream:
        """The predictions in a topic, read with a log of their own."""
        log = self._opened()
        try:
            known = log.describe([topic]).get(topic)
            if known is None:
                raise ConfigError(
                    f"{self._url} has no topic {topic!r}; the service creates it at its start"
                )
            partitions = [Partition(topic, number) for number in range(known.partitions)]
            kept = None
            if resume is not None:
                kept = Positions.of_topic(
                    Path(resume), log, self._url, topic, from_beginning=from_beginning
                )
            starts = (
                initial_positions(log, partitions, from_beginning=from_beginning)
                if kept is None
                else kept.next
            )
            as_json = Translator(self._config).as_json if self._config is not None else bytes
            stream = PredictionStream(log, starts, kept, follow=follow, as_json=as_json)
        except BaseException:
            log.close()
            raise
        self._streams = [*(other for other in self._streams if not other.closed), stream]
        return stream

    def close(self) -> None:
        """Write what waits, and close everything."""
        for stream in self._streams:
            stream.close()
        self._writer.close()


class PredictionStream(Iterator[PredictionRecord]):
    """Predictions as they are committed; an iterator and a context manager, for one thread.

    With `resume`, a prediction counts as processed when the next one is asked for. Positions are
    stored at most once a second, while it waits, and by `close`. So a program that is killed gets
    some predictions again, and misses none.

    Attributes
    ----------
    deleted
        How many records without a value were skipped. Each deletes the predictions of its id.
    """

    def __init__(
        self,
        log: Log,
        starts: Mapping[Partition, int],
        kept: Positions | None,
        *,
        follow: bool,
        as_json: Callable[[bytes], bytes],
    ) -> None:
        self._log, self._kept, self._as_json = log, kept, as_json
        self._last: tuple[int, int] | None = None
        self._stop = threading.Event()
        self._lock = threading.Lock()  # of the log, which another thread may close
        self.closed = False
        self.deleted = 0
        self._values = self._followed(starts) if follow else self._present(starts)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> PredictionRecord:
        with self._lock:
            self._processed()
            if self.closed:
                raise StopIteration
            for partition, offset, value in self._values:
                self._last = (partition.number, offset)
                if value is not None:
                    return _prediction(partition, offset, self._as_json(value))
                self.deleted += 1
                self._processed()
        self.close()
        raise StopIteration

    def _processed(self) -> None:
        """Count the last prediction as processed."""
        if self._last is not None and self._kept is not None:
            self._kept.advance(*self._last)
            if self._kept.due:
                self._kept.store()
        self._last = None

    def close(self) -> None:
        """Store the positions and close the log. The prediction that came last is repeated."""
        self._stop.set()
        with self._lock:
            if self.closed:
                return
            self.closed = True
            try:
                self._values.close()
                self._idle_store()
            finally:
                self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def _idle_store(self) -> None:
        if self._kept is not None:
            self._kept.store()

    def _idle(self) -> None:
        self._idle_store()
        if self._stop.is_set():
            raise _StoppedError

    def _followed(self, starts: Mapping[Partition, int]) -> Values:
        try:
            for r in self._log.follow(starts, poll_seconds=POLL_SECONDS, idle=self._idle):
                yield Partition(r.topic, r.partition), r.offset, r.value
        except _StoppedError:
            return

    def _present(self, starts: Mapping[Partition, int]) -> Values:
        for chunk in self._log.read(starts, self._log.end_offsets(list(starts))):
            for offset, value in zip(chunk.offsets, chunk.values, strict=True):
                yield chunk.partition, offset, value


class _StoppedError(Exception):
    """Another thread has closed the stream."""


def _prediction(partition: Partition, offset: int, value: bytes) -> PredictionRecord:
    try:
        return _decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"expected a prediction at offset {offset} of {partition}, got another record "
            f"({error}); check the name of the topic"
        ) from None
