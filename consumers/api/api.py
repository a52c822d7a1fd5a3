"""What a request does: ask a copy of the model, or append records to the input topics.

Rule: no request reaches a learner of the loop. So the journal has everything that was learned,
whichever way a record came.

Rule: long mails are read in one thread beside the event loop, because a hostile one takes as long
as thousands of other records, and `/healthz` must be answered meanwhile. Short ones are read by the
event loop itself, because the way to the thread and back takes longer than they do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple, Unpack
from uuid import uuid4

import msgspec

from consumers.api import contract, rspamd
from consumers.api.bodies import ProblemError, RequestRecords
from consumers.api.published import Published, RecentPredictions, position_of
from consumers.api.writer import Writer
from consumers.base.errors import HeadwaterError, RecordError
from consumers.base.records import Outgoing, Partition
from consumers.base.units import duration_ms
from consumers.codecs.unused import Note, noted
from consumers.config import Config
from consumers.mail.envelope import LARGEST
from consumers.schemas.translate import Translator
from consumers.shard.answer import Answerer, ModelCopy, ReadRecords
from consumers.transports.protocol import Log

__all__ = ["Api"]

MOST_EXPLAINED = 100  # features of an answer, and records of a request that asks for them
SHORT = 16 * 1024  # bytes of mails that are read by the event loop
LOOK_SECONDS = 0.02  # between two looks for a prediction that a client waits for
_SOON = {"retry-after": "2"}

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Api:
    """The answers of a process.

    Parameters
    ----------
    config
        The configuration.
    published
        What the loops of this service publish, by shard.
    opened
        Opens a log.
    """

    def __init__(
        self,
        config: Config,
        published: Callable[[], Mapping[int, Published]],
        opened: Callable[[], Log],
    ) -> None:
        self._config, self._published = config, published
        self._seconds = duration_ms(config.serve.timeout) / 1000
        self._answerers: dict[int, Answerer] = {}
        self._writer = Writer(opened)
        self._mails = ThreadPoolExecutor(1, "headwater-mails")
        self._stopping = False
        self._translator = Translator(config)
        translator = self._translator
        self._recent = RecentPredictions(
            opened, config.predictions_topic, translator.as_json, translator.observation_as_json
        )

    def stop(self) -> None:
        """Answer requests that wait for a prediction: the loop has ended."""
        self._stopping = True

    def close(self) -> None:
        """Write what waits, and close the logs. Requests whose mails wait are answered with 503."""
        self._mails.shutdown(cancel_futures=True)
        self._writer.close()
        self._recent.close()

    # The model.

    def answerer(self, shard: int | None) -> tuple[Answerer, Published]:
        """The newest copy of a shard's model; without a number, of the first shard that runs here,
        or else of the first one that is followed.

        Raises
        ------
        ProblemError
            The shard does not run here (404), or has no model yet (503).
        """
        newest, of = self._newest(shard)
        number = newest.spec.number
        held = self._answerers.get(number)
        if held is None or held.copy is not newest:
            held = self._answerers[number] = Answerer(newest)
        return held, of

    def _newest(self, shard: int | None) -> tuple[ModelCopy, Published]:
        """See `answerer`."""
        every = self._published()
        number = next(iter(every), 0) if shard is None else shard
        if number not in every and (every or number):
            here = ", ".join(map(str, sorted(every))) or "none"
            raise ProblemError(
                404,
                f"expected a shard of this process ({here}), got {number}; ask another",
            )
        newest = every[number].newest if every else None
        if newest is None:
            raise ProblemError(503, "the service is starting; ask again", _SOON)
        return newest, every[number]

    async def read(
        self, answerer: Answerer, keys: Sequence[bytes | None], values: Sequence[bytes]
    ) -> ReadRecords:
        """Observations as `answerer` reads them."""
        size = sum(map(len, values)) if answerer.parses else 0
        return await self._short_or_beside(size, answerer.read, keys, values)

    async def _short_or_beside(
        self, size: int, read: Callable[[Unpack[Ts]], T], *arguments: *Ts
    ) -> T:
        """What `read` returns: called here for mails of few bytes, else in the thread of mails."""
        if size <= SHORT:
            return read(*arguments)
        return await asyncio.wrap_future(self._mails.submit(read, *arguments))

    async def predict(
        self, records: RequestRecords, shard: int | None, explain: int, *, strict: bool = False
    ) -> list[bytes]:
        """The prediction or the rejection of each record, as JSON. `strict`: one with a field that
        is not used is rejected."""
        answerer, of = self.answerer(shard)
        _check_explain(answerer, explain, len(records.values))
        keys = [b"%d" % i for i in range(len(records.values))]
        asked = await self.read(answerer, keys, records.values)
        answers = answerer.answer(asked, _now(), explain=explain)
        refused = _not_used(answerer.notes(asked)) if strict else {}
        age = b',"age_ms":%d}' % _age(of)
        out = []
        for i, answer in enumerate(answers):
            if isinstance(answer, RecordError):
                refused[i] = _rejection(answer, i)
            elif i not in refused:
                out.append(answer[:-1] + age)
                continue
            if records.form == "one":
                raise _rejected(refused[i])
            out.append(msgspec.json.encode(refused[i]))
        return out

    async def checked(self, body: bytes, coding: str) -> contract.RspamdReply:
        """The verdict on a mail, in the shape of rspamd; see `consumers.api.rspamd`."""
        answerer, _ = self.answerer(None)
        size = LARGEST if coding else len(body)  # it can be long when it is unpacked
        mail = await self._short_or_beside(size, rspamd.read, self._config, answerer, body, coding)
        return rspamd.checked(self._config, answerer, mail, _now())

    def model(self, shard: int | None) -> contract.ModelStatus:
        """What the model is and how good it is."""
        _, of = self.answerer(shard)
        status = of.status
        if status is None:
            raise ProblemError(503, "the service is starting; ask again", _SOON)
        return msgspec.structs.replace(status, age_ms=_age(of))

    # Records.

    async def observe(self, records: RequestRecords) -> list[contract.RecordPosition]:
        """Append observations; they are in the log when this returns.

        Raises
        ------
        ProblemError
            One of them would be a dead letter (422), and none was written; or the log did not
            acknowledge them in time (504).
        """
        _, places, _ = await self._observed(records, [None] * len(records.values))
        return places

    async def label(self, records: RequestRecords) -> list[contract.RecordPosition]:
        """Append labels, or corrections; they are in the log when this returns. See `observe`."""
        topic = self._config.input.labels
        if topic is None:
            raise ProblemError(
                404,
                "expected [input] labels, but labels are in the observations; write observations",
            )
        answerer, _ = self.answerer(None)
        ids, rejected = answerer.check_labels(records.values)
        return await self._append(topic, ids, rejected, records.values)

    async def recorded(self, records: RequestRecords, *, strict: bool = False) -> list[bytes]:
        """Append observations, and return their predictions once they are committed.

        An observation without an id gets a new one, as its key. `strict`: none is written if one
        of them has a field that is not used.

        Raises
        ------
        ProblemError
            As `observe`; or a record became a dead letter (409), or a prediction was not committed
            in time (504) or before a stop (503). These have the places of the records.
        """
        until = time.monotonic() + self._seconds
        keys = [uuid4().hex.encode() for _ in records.values]
        ids, places, notes = await self._observed(records, keys, strict=strict)
        missing = dict(zip(ids, places, strict=True))  # the last record of each id decides
        found: dict[str, bytes] = {}
        while missing:
            consumed = {id_ for id_, place in missing.items() if self._consumed(place)}
            await self._within(self._recent.refresh(), until, places)
            for id_, place in list(missing.items()):
                value = self._recent.get(id_)
                if value is not None and _answers(value, place):
                    found[id_] = value
                    del missing[id_]
                elif id_ in consumed:
                    raise ProblemError(
                        409,
                        f"{id_[:200]!r} was consumed and not predicted; see its dead letter",
                        records=places,
                    )
            if missing and self._stopping:
                raise ProblemError(
                    503,
                    "the service stops, and the records are written; ask for their predictions by "
                    "id when it runs again",
                    records=places,
                )
            if missing and time.monotonic() >= until:
                raise _too_late("the predictions are not committed yet; ask for them by id", places)
            if missing:
                await asyncio.sleep(LOOK_SECONDS)
        if self.answerer(None)[0].copy.spec.outputs.notes:  # the predictions have them
            return [found[id_] for id_ in ids]
        return [noted(found[id_], of) for id_, of in zip(ids, notes, strict=True)]

    async def prediction(self, id_: str) -> bytes:
        """The newest prediction for an id. ProblemError if it is not among the newest (404)."""
        await self._within(self._recent.refresh(), time.monotonic() + self._seconds, None)
        value = self._recent.get(id_)
        if value is None:
            self._newest(None)  # while the service starts, 503
            raise ProblemError(
                404,
                f"expected an id among the newest predictions, got {id_[:200]!r}; see the topic",
            )
        return value

    async def explained(self, id_: str, explain: int) -> bytes:
        """The present model's prediction for the observation of an earlier one, explained."""
        place = position_of(await self.prediction(id_))
        until = time.monotonic() + self._seconds
        row = 0 if place.index is msgspec.UNSET else place.index
        found = self._recent.observation(place.topic, place.partition, place.offset, row)
        value = await self._within(found, until, None)
        if value is None:
            raise ProblemError(404, f"the observation of {id_[:200]!r} is no longer in its topic")
        answerer, of = self.answerer(None)
        _check_explain(answerer, explain, 1)
        asked = await self.read(answerer, [id_.encode()], [value])
        (answer,) = answerer.answer(asked, _now(), explain=explain)
        if isinstance(answer, RecordError):
            raise _rejected(_rejection(answer, 0))
        return answer[:-1] + b',"age_ms":%d}' % _age(of)

    def _consumed(self, place: contract.RecordPosition) -> bool:
        """Whether a shard of this process has committed past a record."""
        partition = Partition(place.topic, place.partition)
        every = self._published().values()
        return any(of.positions.get(partition, 0) > place.offset for of in every)

    async def _observed(
        self, records: RequestRecords, keys: Sequence[bytes | None], *, strict: bool = False
    ) -> tuple[Sequence[str], list[contract.RecordPosition], list[list[Note]]]:
        """Append observations; their ids, their places, and what of them is not used."""
        answerer, _ = self.answerer(None)
        asked = await self.read(answerer, keys, records.values)
        ids, rejected = answerer.check_observations(asked)
        topic, notes = self._config.input.observations, answerer.notes(asked)
        for rejection in _not_used(notes).values() if strict and not rejected else ():
            raise _rejected(rejection)
        return ids, await self._append(topic, ids, rejected, records.values), notes

    async def _append(
        self,
        topic: str,
        ids: Sequence[str],
        rejected: Mapping[int, RecordError],
        values: Sequence[bytes],
    ) -> list[contract.RecordPosition]:
        for i in sorted(rejected):
            raise _rejected(_rejection(rejected[i], i))
        now = _now()
        values = await self._in_format(topic, values)
        out = [
            Outgoing(topic, id_.encode(), value, now)
            for id_, value in zip(ids, values, strict=True)
        ]
        places = await self._within(
            self._writer.append(out), time.monotonic() + self._seconds, None
        )
        return [contract.RecordPosition(topic, number, offset) for number, offset in places]

    async def _in_format(self, topic: str, values: Sequence[bytes]) -> Sequence[bytes]:
        """JSON records in the format of their topic. ProblemError if one does not fit."""
        if not self._translator.translates:
            return values
        try:  # in a thread, because the registry may be asked
            made = asyncio.to_thread(self._translator.records, topic, values)
            return await asyncio.wait_for(made, self._seconds)
        except TimeoutError:
            raise _too_late(
                "the schema registry did not answer; nothing is written", None
            ) from None
        except ValueError as error:
            raise ProblemError(422, str(error)) from None
        except HeadwaterError as error:
            raise ProblemError(503, str(error), {"retry-after": "1"}) from None

    async def _within(
        self, future: Future[T], until: float, places: list[contract.RecordPosition] | None
    ) -> T:
        """The result of a call to the log, or a ProblemError."""
        waiting: Awaitable[T] = asyncio.shield(asyncio.wrap_future(future))
        try:
            return await asyncio.wait_for(waiting, max(0.0, until - time.monotonic()))
        except TimeoutError:
            raise _too_late("the log did not answer; records may be written", places) from None
        except HeadwaterError as error:
            raise ProblemError(503, str(error), {"retry-after": "1"}, records=places) from None


def _check_explain(answerer: Answerer, explain: int, records: int) -> None:
    if not 0 <= explain <= MOST_EXPLAINED:
        raise ProblemError(400, f"expected explain from 0 to {MOST_EXPLAINED}, got {explain}")
    if explain and records > MOST_EXPLAINED:
        raise ProblemError(
            413,
            f"expected up to {MOST_EXPLAINED} records with explain, got {records:,}; send fewer",
        )
    if explain and not answerer.explains:
        raise ProblemError(
            422, f"{answerer.copy.kind} cannot explain predictions; ask without explain"
        )


def _rejection(error: RecordError, index: int) -> contract.Rejection:
    return contract.Rejection(index, error.reason, error.detail)


def _not_used(notes: Sequence[Sequence[Note]]) -> dict[int, contract.Rejection]:
    """Index of each record with notes to its rejection by a strict request."""
    return {
        i: contract.Rejection(i, contract.NOT_USED, "; ".join(map(str, of)))
        for i, of in enumerate(notes)
        if of
    }


def _rejected(of: contract.Rejection) -> ProblemError:
    return ProblemError(422, of.detail, reason=of.reason, index=of.index)


def _too_late(why: str, places: list[contract.RecordPosition] | None) -> ProblemError:
    return ProblemError(504, f"{why}, or raise [serve] timeout", records=places)


def _answers(prediction: bytes, place: contract.RecordPosition) -> bool:
    """Whether a prediction is the one of a record, or of a later record with its id."""
    found = position_of(prediction)
    return (found.topic, found.partition) == (place.topic, place.partition) and (
        found.offset >= place.offset
    )


def _age(of: Published) -> int:
    return round(of.age * 1000)


def _now() -> int:
    return time.time_ns() // 1_000_000
