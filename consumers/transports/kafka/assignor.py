"""The assignor of a service's group: Kafka's cooperative protocol, with followers of each shard.

Members report what they own and follow, and the leader answers with what they shall own and follow
(`assignment.py`). The followers are in the user data of both messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec
from kafka import TopicPartition
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from consumers.transports.kafka.assignment import Holding, assign

__all__ = ["ShardAssignor"]

_VERSION = 2  # the first version of the messages that has the generation of what is owned


class _UserData(msgspec.Struct, omit_defaults=True):
    """The shards to follow, each with the member's place among its followers.

    `warm` is in reports only; see `Holding` and `Share`.
    """

    follows: dict[int, int]
    warm: list[int] | None = None
    awaits: list[int] = []


_decode = msgspec.json.Decoder(_UserData).decode


class ShardAssignor(AbstractPartitionAssignor):  # type: ignore[misc]
    """The assignor of one member, which every client of the member uses.

    Parameters
    ----------
    topic
        The journal's topic; its partitions are the shards.
    standbys
        How many members follow each shard. The leader decides.

    Attributes
    ----------
    owned
        Returns the partitions that the client has.
    follows
        The shards to follow.
    warm
        The shards that this member has followed to the end of their journals; None: unknown.
    generation
        That of the last assignment; -1 before the first one.
    """

    name = "cooperative-sticky"

    def __init__(self, topic: str, standbys: int) -> None:
        self._topic, self._standbys = topic, standbys
        self._answer, self._reported = _UserData({}), frozenset[int]()
        self.warm: frozenset[int] | None = None
        self.generation = -1
        self.owned: Callable[[], Collection[TopicPartition]] = tuple
        self.follows = frozenset[int]()

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Only the cooperative one, by which members keep their shards in a rebalance."""
        return [RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        """What this member reports when it joins."""
        # What the client has, not what was last assigned: a client that was out of the group has
        # nothing, and the leader would wait in vain until it gives its shards away.
        owned = sorted(part.partition for part in self.owned())
        warm = self.warm  # another thread changes it
        self._reported = warm or frozenset()
        known = None if warm is None else sorted(warm)
        told = _UserData(self._answer.follows, known, self._answer.awaits)
        parts = ConsumerProtocolSubscription.TopicPartition
        return ConsumerProtocolSubscription(
            version=_VERSION,
            topics=sorted(topics),
            user_data=msgspec.json.encode(told),
            owned_partitions=[parts(topic=self._topic, partitions=owned)] if owned else [],
            generation_id=self.generation,
        )

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, Any]:
        """The answer of the leader to each member."""
        shards = len(cluster.partitions_for_topic(self._topic) or ())
        held = {member.member_id: self._held(member.metadata) for member in members}
        return {
            member: ConsumerProtocolAssignment(
                _VERSION,
                [(self._topic, sorted(share.runs))] if share.runs else [],
                msgspec.json.encode(_UserData(dict(share.follows), awaits=sorted(share.awaits))),
            )
            for member, share in assign(held, shards, self._standbys).items()
        }

    def _held(self, metadata: Any) -> Holding:
        """What a member has reported."""
        owned = frozenset(n for part in metadata.owned_partitions or () for n in part.partitions)
        told = _read(metadata.user_data)
        warm = None if told.warm is None else frozenset(told.warm)
        awaits = frozenset(told.awaits)
        return Holding(owned, told.follows, metadata.generation_id, warm, awaits)

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Keep what the leader has answered."""
        self._answer, self.generation = _read(assignment.user_data), generation
        self.follows = frozenset(self._answer.follows)

    @property
    def has_news(self) -> bool:
        """Whether the leader waits to hear that a shard is warm which it has not heard yet."""
        return not (self.warm or frozenset()).isdisjoint({*self._answer.awaits} - self._reported)


def _read(user_data: Any) -> _UserData:
    """The user data of a message; nothing in those of another program."""
    try:
        return _decode(user_data or b"")
    except msgspec.MsgspecError:
        return _UserData({})
