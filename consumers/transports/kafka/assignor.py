"""The shards of this process by Kafka's group protocol: one group per service.

The members subscribe only to the journal topic, and read nothing from it. The member with partition
s of it runs shard s, and others follow it. Other clients poll the data, so that no rebalance
happens between a record and its commit. The assignment may be late. Only the transactional id
guarantees that a shard has one owner.

The assignor is Kafka's cooperative protocol, with followers of each shard. Members report what they
own and follow, and the leader answers with what they shall own and follow (`assignment.py`). The
followers are in the user data of both messages.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from kafka import KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from consumers.base.converter import UNDECODABLE
from consumers.base.errors import TransportError
from consumers.transports.kafka.assignment import Holding, assign
from consumers.transports.kafka.errors import within
from consumers.transports.kafka.options import KafkaOptions
from consumers.transports.protocol import Assigned

__all__ = ["KafkaMember", "ShardAssignor"]

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
    except UNDECODABLE:
        return _UserData({})


log = logging.getLogger("headwater")

_POLL_MS = 200
_PAUSE_SECONDS = 1.0  # after a failure, before it joins the group again
_CLOSE_SECONDS = 5.0
# After that a member that has not joined restarts with a new client. On a busy machine an
# attempt of the client may never end, and it waits for that. Brokers answer within the session
# timeout of a member that died.
_JOIN_SECONDS = 30.0


class KafkaMember:
    """A member of a service's group, in its own thread.

    Parameters
    ----------
    options
        Options of the client.
    name
        Name of the group.
    topic
        The journal's topic.
    standbys
        How many members follow each shard.
    """

    def __init__(self, options: KafkaOptions, name: str, topic: str, standbys: int) -> None:
        # One for all clients of this member: a new client still reports what is followed here.
        self._assignor = ShardAssignor(topic, standbys)
        # Members keep their shards when others join or leave; the client's default reassigns all.
        strategy = {"partition_assignment_strategy": [self._assignor]}
        self._settings = options.member(name) | strategy
        self._topic = topic
        self._assigned: Assigned | None = None
        self._can_rejoin = hasattr(ConsumerCoordinator, "request_rejoin")
        self.caught_up(frozenset())  # before it joins, or its shards would move at once
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group", daemon=True)
        self._thread.start()

    def assigned(self) -> Assigned | None:
        """The shards of this process, as far as it is known; None before it has joined."""
        return self._assigned

    def caught_up(self, shards: frozenset[int]) -> None:
        """See `Member.caught_up`. Without the client's call to join again it is not reported."""
        if self._can_rejoin:
            self._assignor.warm = shards

    def close(self) -> None:
        """Leave the group, so that the others do not wait for a silent member."""
        self._closing.set()
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._member()
            except Exception as error:  # if this thread ended, nobody would run the shards
                log.warning("the group of the service does not answer (%s); retrying", error)
                self._closing.wait(_PAUSE_SECONDS)

    def _member(self) -> None:
        consumer = KafkaConsumer(**self._settings)
        self._assignor.owned = consumer.assignment
        try:
            consumer.subscribe([self._topic])
            joined = time.monotonic()
            while not self._closing.is_set():
                if self._assignor.has_news:
                    consumer._coordinator.request_rejoin()  # the client has no public call
                consumer.poll(timeout_ms=_POLL_MS)
                if _is_joined(consumer):
                    joined = time.monotonic()
                elif time.monotonic() - joined > _JOIN_SECONDS:
                    raise TransportError(f"not joined within {_JOIN_SECONDS:g} s")
                # In this order, because the client changes them in the other one: a shard that is
                # not followed any longer because it is to be run here is then in both.
                follows, given = self._assignor.follows, consumer.assignment()
                consumer.pause(*given)  # only the membership is needed
                if self._assignor.generation >= 0:
                    self._assigned = Assigned(frozenset(p.partition for p in given), follows)
        finally:
            if self._assigned is not None:  # what is followed stays warm
                self._assigned = self._assigned._replace(runs=frozenset())
            with suppress(Exception):
                within(_CLOSE_SECONDS, "close", partial(consumer.close, False, 1000))


def _is_joined(consumer: Any) -> bool:
    """Whether it is a member, maybe without partitions. The client has no public call for that."""
    stable = getattr(consumer._coordinator, "generation_if_stable", None)
    return stable is None or stable() is not None
