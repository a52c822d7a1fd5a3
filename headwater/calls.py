"""What a call of a client does, without I/O: the steps, in order, and the typed result.

Rule: a call is a generator. It yields a step, gets what the step gave, or has its error raised
where it waits, and returns the result of the method. `Client` and `AsyncClient` only perform the
steps, so they cannot differ.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

from consumers.api.contract import Label, PredictionRecord, Rejection
from consumers.base.errors import HeadwaterError
from headwater.errors import ServiceError
from headwater.exchange import (
    Request,
    ask_for,
    known_prediction,
    post,
    prediction_of,
    predictions_of,
    written_of,
)
from headwater.records import (
    Id,
    Prepared,
    Time,
    Written,
    chunks,
    prepare_label,
    prepare_labels,
    prepare_observations,
)
from headwater.settings import ClientSettings

__all__ = ["Append", "Ask", "Call", "Calls", "Step"]

T = TypeVar("T")


class Ask(NamedTuple):
    """Send a request to the service. It gives the body of the answer."""

    request: Request


class Append(NamedTuple):
    """Append records to a topic of the log. It gives partition and offset of each."""

    topic: str
    records: list[Prepared]


Step: TypeAlias = Ask | Append
Call: TypeAlias = Generator[Step, Any, T]


class Calls:
    """The calls of a client. For what they do see the methods of `Client`.

    Parameters
    ----------
    settings
        Those of the client.

    Examples
    --------
    >>> call = Calls(ClientSettings(url="http://localhost:8321")).prediction("v1")
    >>> next(call).request.path
    '/v1/predictions/v1'
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings

    def observe(self, x: Mapping[str, object], id_: Id | None, ts: Time | None) -> Call[Written]:
        """See `Client.observe`."""
        ids = None if id_ is None else [id_]
        times = None if ts is None else [ts]
        [made] = prepare_observations([x], ids, times, self._settings.id_field)
        return (yield from self._write("observations", [made], None))[0]

    def observe_many(
        self,
        xs: Iterable[Mapping[str, object]],
        ids: Iterable[Id | None] | None,
        ts: Iterable[Time | None] | None,
    ) -> Call[list[Written]]:
        """See `Client.observe_many`."""
        records = prepare_observations(xs, ids, ts, self._settings.id_field)
        return (yield from self._write_all("observations", records))

    def label(
        self,
        id_: Id,
        label: Label,
        w: float | None,
        ts: Time | None,
        reporter: str | int | None,
    ) -> Call[Written]:
        """See `Client.label`."""
        made = prepare_label(id_, label, w, ts, reporter, self._settings.reporter_field)
        return (yield from self._write("labels", [made], None))[0]

    def label_many(
        self,
        ids: Iterable[Id],
        labels: Iterable[Label],
        ws: Iterable[float | None] | None,
        ts: Iterable[Time | None] | None,
        reporters: Iterable[str | int | None] | None,
    ) -> Call[list[Written]]:
        """See `Client.label_many`."""
        field = self._settings.reporter_field
        records = prepare_labels(ids, labels, ws, ts, reporters, field)
        return (yield from self._write_all("labels", records))

    def predict(
        self, x: Mapping[str, object], explain: int, *, record: bool, strict: bool
    ) -> Call[PredictionRecord]:
        """See `Client.predict`."""
        [made] = self._settings.to_predict([x], explain, record=record)
        self._check_service()
        body = yield Ask(ask_for([made], explain, None, record=record, strict=strict))
        return prediction_of(body)

    def predict_many(
        self, xs: Iterable[Mapping[str, object]], explain: int, *, record: bool, strict: bool
    ) -> Call[list[PredictionRecord | Rejection]]:
        """See `Client.predict_many`."""
        self._check_service()
        found: list[PredictionRecord | Rejection] = []
        for chunk in chunks(self._settings.to_predict(xs, explain, record=record)):
            asked = ask_for(chunk, explain, len(found), record=record, strict=strict)
            body = yield Ask(asked)
            found += predictions_of(body, len(found))
        return found

    def prediction(self, id_: Id) -> Call[PredictionRecord | None]:
        """See `Client.prediction`."""
        self._check_service()
        try:
            body = yield Ask(known_prediction(id_))
        except ServiceError as error:
            if error.status == 404 and error.problem is not None:
                return None
            raise
        return prediction_of(body)

    def _check_service(self) -> None:
        if not self._settings.over_http:
            raise self._settings.no_predict()

    def _write_all(self, role: str, records: Iterable[Prepared]) -> Call[list[Written]]:
        written: list[Written] = []
        try:
            for chunk in chunks(records):
                written += yield from self._write(role, chunk, len(written))
        except HeadwaterError as error:
            if written:
                error.add_note(f"The {len(written):,} records before are written.")
            raise
        return written

    def _write(self, role: str, records: list[Prepared], first: int | None) -> Call[list[Written]]:
        """Write one chunk. `first`: the number of its first record; None: it is the only one."""
        if not self._settings.over_http:
            topic = self._settings.topic(role)
            places = yield Append(topic, records)
            return [r.written(topic, *place) for r, place in zip(records, places, strict=True)]
        if any(record.ts is not None for record in records):
            raise self._settings.no_time()
        body = yield Ask(post(f"/v1/{role}", "write", records, first))
        return written_of(body, records)
