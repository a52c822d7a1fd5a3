"""What the loop of a shard publishes for requests: read here, or in a process of their own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from consumers.api.contract import FieldOfModel, ModelStatus, RecordPosition
from consumers.base.records import Partition
from consumers.shard.answer import ModelCopy
from consumers.web.status_feed import StatusFeed

__all__ = ["Beat", "OwnShard", "ParentShard", "Published", "status_of"]


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
