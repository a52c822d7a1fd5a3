"""Which shards are this process's, by Kafka's group protocol: one group a service.

The members subscribe to the journal topic and to nothing else, and read nothing of it: whoever is
given partition s of it runs shard s. The data is polled by other clients, so that no rebalance can
come between a record and its commit. What this says may be late; that a shard has one owner rests
on the transactional id alone.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from kafka import KafkaConsumer

from consumers.transports.kafka.options import KafkaOptions

__all__ = ["KafkaMember"]

log = logging.getLogger("headwater")

_POLL_MS = 200
_PAUSE_SECONDS = 1.0  # after a failure, before the group is joined again
_CLOSE_SECONDS = 5.0


class KafkaMember:
    """A member of a service's group, in a thread of its own.

    Parameters
    ----------
    options
        The client's.
    name
        The group.
    topic
        The journal.
    """

    def __init__(self, options: KafkaOptions, name: str, topic: str) -> None:
        self._settings = options.member(name)
        self._topic = topic
        self._shards: frozenset[int] = frozenset()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group", daemon=True)
        self._thread.start()

    def shards(self) -> frozenset[int]:
        """The shards this process is to run, as far as is known."""
        return self._shards

    def close(self) -> None:
        """Leave the group, so that the others need not wait for a silent member."""
        self._closing.set()
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._member()
            except Exception as error:  # a thread that died would leave the shards to nobody
                log.warning("the group of the service cannot be asked (%s); asking again", error)
                self._shards = frozenset()
                self._closing.wait(_PAUSE_SECONDS)

    def _member(self) -> None:
        consumer = KafkaConsumer(**self._settings)
        try:
            consumer.subscribe([self._topic])
            while not self._closing.is_set():
                consumer.poll(timeout_ms=_POLL_MS)
                given = consumer.assignment()
                consumer.pause(*given)  # membership is all that is wanted
                self._shards = frozenset(part.partition for part in given)
        finally:
            self._shards = frozenset()
            with suppress(Exception):
                consumer.close(autocommit=False)
