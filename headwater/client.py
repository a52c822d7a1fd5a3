"""A client of a running service: write observations and labels, read and ask for predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, cast

from consumers.api.contract import Label, PredictionRecord, Rejection
from consumers.base.errors import HeadwaterError
from headwater.calls import Ask, Call, Calls, Step
from headwater.http import HttpDoor
from headwater.records import Id, Time, Written
from headwater.settings import ClientBase, ClientSettings

if TYPE_CHECKING:
    from headwater.log import PredictionStream

__all__ = ["Client"]

T = TypeVar("T")


class Client(ClientBase):
    """A client of a service, over HTTP or through its log. Close it, or use it in a `with`.

    Parameters
    ----------
    url
        `http://HOST:PORT` of a service, or its log, such as `kafka://HOST:PORT` or
        `sqlite:FILE.db`.
    observations, labels, predictions
        The topics, only for a log. Those that are not used may be missing.
    id_field
        `[input] id` of the service: the field of an observation with its id.
    reporter_field
        `[labels] reporter` of the service: the field of a label with its reporter.
    kafka
        The section `[kafka]` of the configuration, only for Kafka.
    read_token, write_token
        Those of `[serve]`, only for a service. The repr does not show them.
    tls
        The certificates that are trusted, and the one that is shown; only for `https://…`.
    timeout
        Seconds of a call with all its attempts.
    retries
        How many attempts follow the first one, only for a service: after 429, 503 and a failed
        connection, with pauses that grow, or as long as Retry-After says.

    Raises
    ------
    ConfigError
        The URL is neither that of a service nor that of a log, or an argument is for the other.

    Notes
    -----
    At least once: after an error, and after a repeated request, a record may be in the topic twice.
    It has the same id, so the service learns it once. A method that writes returns when the log has
    acknowledged all records, so a fast program waits for a slow log, and nothing is kept in memory.

    A client may be used by several threads, a stream of predictions by one.

    Examples
    --------
    >>> from consumers.transports import open_log
    >>> log = open_log("memory:client-example")
    >>> log.create_topic("visits", 1)
    >>> with Client("memory:client-example", observations="visits") as client:
    ...     client.observe({"pages": 3}, id="v1")
    Written(topic='visits', partition=0, offset=0, id='v1')
    """

    def _open(self, settings: ClientSettings) -> None:
        self._settings, self._calls = settings, Calls(settings)
        self._service = self._log = None
        if settings.over_http:
            self._service = HttpDoor(settings.url, settings.tokens, settings.tries, settings.tls)
        else:
            self._log = settings.log()

    def observe(
        self,
        x: Mapping[str, object],
        id: Id | None = None,  # noqa: A002  the name of the field
        ts: Time | None = None,
    ) -> Written:
        """Write an observation.

        Parameters
        ----------
        x
            The features. Its id may be in it.
        id
            The id, if it is not in `x`. Without any, the observation gets a new one.
        ts
            When it happened: a datetime, ISO 8601, or seconds or milliseconds since 1970. Only a
            log accepts it. Default: now.

        Raises
        ------
        RecordError
            It would become a dead letter, and is not written.
        TransportError
            The log or the service failed; the observation may be written.
        """
        return self._do(self._calls.observe(x, id, ts))

    def observe_many(
        self,
        xs: Iterable[Mapping[str, object]],
        ids: Iterable[Id | None] | None = None,
        ts: Iterable[Time | None] | None = None,
    ) -> list[Written]:
        """Write observations, in chunks of at most 1,000 records and 1 MiB.

        `xs` may be a generator: the next chunk is taken after the one before is acknowledged. For
        the parameters and errors see `observe`; the chunks before an error are written.
        """
        return self._do(self._calls.observe_many(xs, ids, ts))

    def label(
        self,
        id: Id,  # noqa: A002  the name of the field
        label: Label,
        w: float | None = None,
        ts: Time | None = None,
        *,
        reporter: str | int | None = None,
    ) -> Written:
        """Write the label of an observation, before or after it, or a correction.

        Parameters
        ----------
        id
            The id of the observation.
        label
            A text, an integer or a bool; of the kind of the labels before it. A service compares
            the kinds and answers with an error. A log cannot: there a label of another kind
            becomes a dead letter.
        w
            The weight; 1 by default.
        ts
            See `observe`.
        reporter
            Who gave it, if the service has `[labels] reporter`: a text of at most 256 characters or
            an integer. Another service ignores the name.
        """
        return self._do(self._calls.label(id, label, w, ts, reporter))

    def label_many(
        self,
        ids: Iterable[Id],
        labels: Iterable[Label],
        ws: Iterable[float | None] | None = None,
        ts: Iterable[Time | None] | None = None,
        *,
        reporters: Iterable[str | int | None] | None = None,
    ) -> list[Written]:
        """Write labels; see `label` and `observe_many`."""
        return self._do(self._calls.label_many(ids, labels, ws, ts, reporters))

    def predict(
        self,
        x: Mapping[str, object],
        *,
        explain: int = 0,
        record: bool = False,
        strict: bool = False,
    ) -> PredictionRecord:
        """The prediction that the service would write now. Nothing is learned or written.

        Parameters
        ----------
        x
            The features.
        explain
            How many features with the largest effect are returned.
        record
            Write the observation too, which needs the write token, and return its prediction once
            it is committed. Without an id it gets a new one. The service explains it by its
            `[output] explain`.
        strict
            Whether an observation with a field that is not used is an error. Without it the
            prediction has `notes` about these fields.

        Raises
        ------
        RecordError
            The observation cannot be predicted; or with `strict` it has a field that is not used.
        ConfigError
            The client is one of a log, or `record` and `explain` are given.
        ServiceError
            The service failed. With `record` the observation may be written: its place is in
            `problem.records` after 409 and 504.
        """
        return self._do(self._calls.predict(x, explain, record=record, strict=strict))

    def predict_many(
        self,
        xs: Iterable[Mapping[str, object]],
        *,
        explain: int = 0,
        record: bool = False,
        strict: bool = False,
    ) -> list[PredictionRecord | Rejection]:
        """The predictions of several observations, or why one of them cannot be predicted.

        With `record` they are written in chunks, see `observe_many`, and a rejected one is a
        `RecordError`. For the parameters see `predict`.
        """
        return self._do(self._calls.predict_many(xs, explain, record=record, strict=strict))

    def prediction(self, id: Id) -> PredictionRecord | None:  # noqa: A002  the name of the field
        """The newest prediction that was written for an id; None if it is not among the newest
        10,000.

        Raises
        ------
        ConfigError
            The client is one of a log.
        """
        return self._do(self._calls.prediction(id))

    def predictions(
        self,
        *,
        follow: bool = True,
        from_beginning: bool = False,
        resume: str | Path | None = None,
    ) -> PredictionStream:
        """The predictions of the service, in the order of each partition.

        Parameters
        ----------
        follow
            Wait for new ones. Otherwise it ends at the present end.
        from_beginning
            Start at the oldest one. By default only those after this call are returned.
        resume
            A file for the positions: a later program continues there, and `from_beginning` counts
            for the first one only. Predictions may be repeated, and are never skipped.

        Raises
        ------
        ConfigError
            The client is one of a service, or the file is damaged or of another topic.
        """
        if self._log is None:
            raise self._settings.no_stream()
        topic = self._settings.topic("predictions")
        return self._log.predictions(
            topic, follow=follow, from_beginning=from_beginning, resume=resume
        )

    def close(self) -> None:
        """Close the connections, and the streams of predictions."""
        for door in (self._service, self._log):
            if door is not None:
                door.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def _do(self, call: Call[T]) -> T:
        """Perform the steps of a call; its result."""
        with closing(call):
            try:
                step = next(call)
                while True:
                    try:
                        given = self._perform(step)
                    except HeadwaterError as error:
                        step = call.throw(error)
                    else:
                        step = call.send(given)
            except StopIteration as end:
                return cast(T, end.value)

    def _perform(self, step: Step) -> object:
        if isinstance(step, Ask):
            assert self._service is not None  # noqa: S101  as the settings say
            return self._service.ask(step.request)
        assert self._log is not None  # noqa: S101
        future = self._log.append(step.topic, self._log.translated(step.topic, step.records))
        try:
            return future.result(self._settings.timeout)
        except TimeoutError:
            raise self._settings.late() from None
