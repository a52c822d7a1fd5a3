"""The shards of this process by Kafka's group protocol: one group per service.

The members subscribe only to the journal topic, and read nothing from it. The member with partition
s of it runs shard s, and others follow it (`assignor.py`). Other clients poll the data, so that no
rebalance happens between a record and its commit. The assignment may be late. Only the
transactional id guarantees that a shard has one owner.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.consumer import ConsumerCoordinator

from consumers.base.errors import TransportError
from consumers.transports.kafka.assignor import ShardAssignor
from consumers.transports.kafka.errors import within
from consumers.transports.kafka.options import KafkaOptions
from consumers.transports.protocol import Assigned

__all__ = ["KafkaMember"]

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
