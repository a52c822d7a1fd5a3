"""Records into kafka-python's producer, and the proof that each of them was written."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kafka.serializer import Serializer

from consumers.errors import TransportError
from consumers.failpoints import reach
from consumers.records import Outgoing

__all__ = ["Nothing", "acknowledged", "discard", "send"]

_NOTHING = object()


class Nothing(Serializer):  # type: ignore[misc]
    """Lets a record have neither key nor value: Kafka may, `send` refuses before it serializes."""

    def serialize(self, topic: str, headers: object, data: Any) -> Any:
        """The bytes as they are."""
        return None if data is _NOTHING else data


def send(producer: Any, placed: Sequence[tuple[Outgoing, int]]) -> list[Any]:
    """Hand each record to the producer, for its partition; one future a record."""
    futures: list[Any] = []
    send_one, add = producer.send, futures.append
    for (topic, key, value, timestamp, headers, _), partition in placed:
        if value is None and key is None:
            value = _NOTHING  # type: ignore[assignment]
        add(send_one(topic, value, key, list(headers), partition, timestamp))
    return futures


def acknowledged(producer: Any, futures: Sequence[Any], seconds: float) -> None:
    """Wait until every record is written; raise what befell the first that was not.

    A failed record does not fail its transaction in this client: the commit would succeed
    without it. And the commit of a transaction that the broker has timed out returns normally:
    only the record's own future tells.
    """
    producer.flush(seconds)
    reach("after_flush")
    for future in futures:
        if future.exception is not None:
            raise future.exception
        if not future.is_done:
            raise TransportError(
                "expected Kafka to acknowledge every record, one is still unanswered; see whether "
                "the broker is up, then start again"
            )


def discard(producer: Any) -> None:
    """Close a producer that is done with, whatever it still has in hand.

    The client's own `close` flushes first. Where that fails it raises and leaves everything
    running: the records are written later after all, and the end of the process is a traceback.
    """
    with suppress(Exception):
        producer._sender.force_close()
    with suppress(Exception):
        producer.close(timeout=1)
