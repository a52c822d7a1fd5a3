"""What kafka-python's producer must not do with the transactions of a commit."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaConnectionError
from kafka.producer.transaction_manager import (
    AddPartitionsToTxnHandler,
    EndTxnHandler,
    ProducerIdAndEpoch,
    TransactionManager,
    TransactionState,
    TxnOffsetCommitHandler,
)
from kafka.protocol.producer import EndTxnResponse
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

from consumers.transports.kafka.producer import send_ends_once

PART = TopicPartition("obs", 0)
NOT_COORDINATOR = 16


@pytest.fixture
def manager() -> TransactionManager:
    """Of a producer in a transaction."""
    metadata = SimpleNamespace(add_coordinator=lambda *_: "node")
    made = TransactionManager(
        transactional_id="svc.0", transaction_timeout_ms=1000, api_version=(4, 1), metadata=metadata
    )
    send_ends_once(made)
    made.set_producer_id_and_epoch(ProducerIdAndEpoch(7, 3))
    made._current_state = TransactionState.IN_TRANSACTION
    return made


def request_of(manager: TransactionManager, kind: str) -> object:
    """A request of a transaction, as the client makes it."""
    group = ConsumerGroupMetadata("svc")
    offsets = {PART: OffsetAndMetadata(5, "", -1)}
    manager._pending_txn_offset_commits.update(offsets)
    made = {
        "end": lambda: EndTxnHandler(manager, True),
        "offsets": lambda: TxnOffsetCommitHandler(manager, group, offsets, None),
        "partitions": lambda: AddPartitionsToTxnHandler(manager, {PART}),
    }
    return made[kind]()


def sent(manager: TransactionManager, kind: str, answer: object) -> object:
    """The request, after this answer to its first copy."""
    handler = request_of(manager, kind)
    manager._enqueue_request(handler)
    manager._pending_requests.clear()  # it was sent
    handler.on_complete(manager.next_in_flight_request_correlation_id(), answer)
    return handler


def waits(manager: TransactionManager, handler: object) -> bool:
    """Whether it is to be sent again."""
    return any(each is handler for _, _, each in manager._pending_requests)


@pytest.mark.parametrize("kind", ["end", "offsets"])
def test_end_of_a_transaction_is_not_sent_again_after_a_lost_connection(manager, kind) -> None:
    """Both copies may arrive, and the second one in the middle of a later transaction."""
    handler = sent(manager, kind, KafkaConnectionError("socket disconnected"))

    assert not waits(manager, handler)
    assert handler.result.failed
    assert "connection was lost" in str(handler.result.exception)
    assert manager.has_fatal_error()


def test_end_that_the_broker_has_answered_is_sent_again(manager) -> None:
    """It has arrived and had no effect, so nothing of it is on its way."""
    answer = EndTxnResponse(throttle_time_ms=0, error_code=NOT_COORDINATOR)
    handler = sent(manager, "end", answer)

    assert waits(manager, handler)
    assert not manager.has_fatal_error()


def test_request_that_may_arrive_twice_is_sent_again_after_a_lost_connection(manager) -> None:
    """Partitions that are added twice are in the transaction once."""
    handler = sent(manager, "partitions", KafkaConnectionError("socket disconnected"))

    assert waits(manager, handler)
    assert not manager.has_fatal_error()
