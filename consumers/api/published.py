"""What the loop of a shard publishes for requests: read here, or in a process of their own.

`RecentPredictions` are the newest predictions by id, read from their topic when somebody asks.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple, Protocol

import msgspec

from consumers.api.contract import FieldOfModel, ModelStatus, PredictedPosition, RecordPosition
from consumers.base.records import Partition
from consumers.shard.answer import ModelCopy
from consumers.transports.protocol import Log
from consumers.web.status_feed import StatusFeed

__all__ = [
    "Beat",
    "OwnShard",
    "ParentShard",
    "Published",
    "RecentPredictions",
    "position_of",
    "status_of",
]


class Published(Protocol):
    """The newest model of a shard, and how far it is."""

    @property
    def newest(self) -> ModelCopy | None:
        """The newest copy of the model; None before the first."""

    @property
    def age(self) -> float:
        """Seconds since it was the newest model."""

    @property
    def positions(self) -> Mapping[Partition, int]:
        """The next offset of each input."""

    @property
    def status(self) -> ModelStatus | None:
        """The status of the model, without its age; None before the first copy."""


class OwnShard:
    """A shard of this process."""

    def __init__(self, service: str, shard: int, feed: StatusFeed) -> None:
        self._service, self._shard, self._feed = service, shard, feed

    @property
    def newest(self) -> ModelCopy | None:
        """See `Published`."""
        return self._feed.copies.newest

    @property
    def age(self) -> float:
        """See `Published`."""
        return self._feed.copies.age

    @property
    def positions(self) -> Mapping[Partition, int]:
        """See `Published`."""
        return {} if self._feed.view is None else self._feed.view.positions

    @property
    def status(self) -> ModelStatus | None:
        """See `Published`."""
        return status_of(self._service, self._shard, self._feed)


class Beat(NamedTuple):
    """What another process gets several times a second: until when the copy was the newest model
    (monotonic seconds, the same clock in all processes), and the rest of `Published`."""

    current: float
    positions: Mapping[Partition, int]
    status: ModelStatus | None


class ParentShard:
    """A shard of the parent process."""

    def __init__(self) -> None:
        self._copy: ModelCopy | None = None
        self._beat = Beat(0.0, {}, None)
        self._followed: OwnShard | None = None

    def take(self, beat: Beat, copy: ModelCopy | None) -> None:
        """Take the newest beat, and the model if it is another one."""
        self._beat, self._copy = beat, copy or self._copy

    def follow(self, followed: OwnShard) -> None:
        """Answer by a model that this process follows, once it has one."""
        self._followed = followed

    @property
    def _own(self) -> OwnShard | None:
        followed = self._followed
        return None if followed is None or followed.newest is None else followed

    @property
    def newest(self) -> ModelCopy | None:
        """See `Published`."""
        return self._copy if self._own is None else self._own.newest

    @property
    def age(self) -> float:
        """See `Published`."""
        if self._own is not None:
            return self._own.age
        return max(0.0, time.monotonic() - self._beat.current)

    @property
    def positions(self) -> Mapping[Partition, int]:
        """See `Published`."""
        return self._beat.positions

    @property
    def status(self) -> ModelStatus | None:
        """See `Published`."""
        return self._beat.status if self._own is None else self._own.status


def status_of(service: str, shard: int, feed: StatusFeed) -> ModelStatus | None:
    """What the model of a shard is and how good it is; None before its first copy."""
    view, copy = feed.view, feed.copies.newest
    if view is None or copy is None:
        return None
    scores = {
        window: {
            "scored": s.scored,
            "accuracy": s.accuracy,
            "log_loss": s.log_loss,
            **{f"{name}_accuracy": value for name, value in s.baselines.items()},
        }
        for window, s in view.quality.scores.items()
    }
    return ModelStatus(
        service,
        shard,
        copy.name,
        copy.kind,
        copy.learned,
        view.observations,
        view.predictions,
        RecordPosition(*copy.journal, copy.position),
        0,
        [FieldOfModel(f.name, f.kind) for f in copy.spec.schema.fields],
        list(view.quality.classes),
        dict(view.experts),
        scores,
    )


KEPT = 10_000  # predictions
KEPT_BYTES = 32 * 2**20  # of their values


class _Placed(msgspec.Struct):
    position: PredictedPosition


_decode = msgspec.json.Decoder(_Placed).decode


def position_of(prediction: bytes) -> PredictedPosition:
    """The position of a prediction in JSON. msgspec.DecodeError if it is another record."""
    return _decode(prediction).position


class RecentPredictions:
    """At most 10,000 predictions and 32 MiB, the newest ones; older ones are forgotten.

    Parameters
    ----------
    opened
        Opens a log; called at the first question, and after an error.
    topic
        The topic of predictions.
    as_json
        Translates a prediction to JSON.
    observation_as_json
        Translates an observation to JSON: one row of it, if it has rows.
    """

    def __init__(
        self,
        opened: Callable[[], Log],
        topic: str,
        as_json: Callable[[bytes], bytes],
        observation_as_json: Callable[[bytes, int], bytes],
    ) -> None:
        self._opened, self._topic = opened, topic
        self._as_json, self._observation_as_json = as_json, observation_as_json
        self._log: Log | None = None
        self._pool = ThreadPoolExecutor(1, "headwater-predictions")
        self._at: dict[Partition, int] = {}
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._reading: Future[None] | None = None

    def refresh(self) -> Future[None]:
        """Read up to the present end of the topic. One read serves all that wait for the next."""
        if self._reading is None or self._reading.running() or self._reading.done():
            self._reading = self._pool.submit(self._read)
        return self._reading

    def get(self, id_: str) -> bytes | None:
        """The newest prediction for this id, as JSON; None if it is not among them."""
        return self._kept.get(id_)

    def observation(
        self, topic: str, number: int, offset: int, row: int = 0
    ) -> Future[bytes | None]:
        """The value of the record at a place as JSON, or of a row; None if it is not retained."""
        return self._pool.submit(self._observation, Partition(topic, number), offset, row)

    def close(self) -> None:
        """Close the log."""
        self._pool.submit(self._discard)
        self._pool.shutdown()

    def _read(self) -> None:
        try:
            if self._log is None:
                self._log = self._opened()
            count = self._log.topics().get(self._topic, 0) if not self._at else len(self._at)
            parts = [Partition(self._topic, number) for number in range(count)]
            ends = self._log.end_offsets(parts)
            if not self._at:
                first = self._log.beginning_offsets(parts)
                share = max(1, KEPT // max(count, 1))
                self._at = {p: max(first[p], ends[p] - share) for p in parts}
            ahead = {p: at for p, at in self._at.items() if at < ends[p]}
            if ahead:
                for chunk in self._log.read(ahead, {p: ends[p] for p in ahead}):
                    for key, value in zip(chunk.keys, chunk.values, strict=True):
                        self._take((key or b"").decode("utf-8", "replace"), value)
                self._at |= {p: ends[p] for p in ahead}
        except Exception:
            self._discard()
            raise

    def _observation(self, partition: Partition, offset: int, row: int) -> bytes | None:
        try:
            if self._log is None:
                self._log = self._opened()
            first = self._log.beginning_offsets([partition])[partition]
            if offset < first:
                return None
            for chunk in self._log.read({partition: offset}, {partition: offset + 1}):
                for at, value in zip(chunk.offsets, chunk.values, strict=True):
                    if at == offset:
                        return None if value is None else self._observation_as_json(value, row)
        except Exception:
            self._discard()
            raise
        return None

    def _take(self, id_: str, value: bytes | None) -> None:
        """Keep a prediction. A record without a value deletes the one of its id in a compacted
        topic. Other records were written by another program, and are ignored."""
        if value is None:
            self._bytes -= len(self._kept.pop(id_, b""))
            return
        value = self._as_json(value)
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            position_of(value)
            self._keep(id_, value)

    def _keep(self, id_: str, value: bytes) -> None:
        self._bytes += len(value) - len(self._kept.pop(id_, b""))
        self._kept[id_] = value
        while len(self._kept) > KEPT or self._bytes > KEPT_BYTES:
            self._bytes -= len(self._kept.popitem(last=False)[1])

    def _discard(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            with suppress(Exception):
                log.close()
