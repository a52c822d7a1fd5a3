"""What the client alone can do: a transactional copy of the observations, nothing learned.

It uses the topics, batch size and transaction size of the service. It polls both topics, sends the
bytes of each observation to an output topic, and commits them with the offsets. The service also
decodes, joins, learns, predicts, scores and encodes. There are three copies: one by the public
calls of kafka-python, with one call for each record; one by the calls of the service into the same
client, with one call for each batch
(docs/decisions/kafka-client.md#batches-are-read-and-written-whole); and one by librdkafka, through
confluent-kafka, whose Python client also has one call for each record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import confluent_kafka
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition

from benchmarks.hand_rolled import Measured
from consumers.base.records import Outgoing
from consumers.transports.kafka.options import KafkaOptions
from consumers.transports.kafka.producer import BatchProducer, acknowledged
from consumers.transports.kafka.reader import column_consumer

__all__ = ["bare_copy", "copy_by_batches", "copy_by_librdkafka"]

SIZE = 5_000  # records a transaction, the service's default
SECONDS = 20.0


def bare_copy(
    bootstrap: str, observations: str, labels: str, output: str, partitions: int
) -> Measured:
    """Copy to the present end of both topics, by public calls."""
    group = f"{output}-copy"
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=group, linger_ms=5)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=SIZE,
    )

    def send(part: TopicPartition, records: Sequence[Any]) -> tuple[int, Iterable[Any]]:
        if part.topic != observations:
            return len(records), []
        return len(records), [producer.send(output, r.value, key=r.key) for r in records]

    inputs = [TopicPartition(t, p) for t in (observations, labels) for p in range(partitions)]

    def written(sent: Sequence[Any]) -> None:
        producer.flush(SECONDS)
        for future in sent:
            if future.exception is not None or not future.is_done:
                raise future.exception or TimeoutError(f"no answer within {SECONDS} s")

    return _copy(consumer, producer, inputs, group, send, written)


def copy_by_batches(
    bootstrap: str, observations: str, labels: str, output: str, partitions: int
) -> Measured:
    """The same by the service's way into the client."""
    group, options = f"{output}-batches", KafkaOptions([bootstrap], {})
    producer = BatchProducer(**options.producer(group))

    def send(part: TopicPartition, chunks: Sequence[Any]) -> tuple[int, Iterable[Any]]:
        count, handed = 0, []
        for chunk in chunks:
            count += len(chunk)
            if part.topic == observations:
                rows = zip(chunk.keys, chunk.values, chunk.timestamps, strict=True)
                records = [Outgoing(output, *row) for row in rows]
                handed += producer.send_many(output, part.partition, records)
        producer.wake()
        return count, handed

    inputs = [TopicPartition(t, p) for t in (observations, labels) for p in range(partitions)]
    consumer = column_consumer(options.consumer(), together=True)  # as an owner of the service
    return _copy(
        consumer, producer, inputs, group, send, lambda sent: acknowledged(producer, sent, SECONDS)
    )


def copy_by_librdkafka(
    bootstrap: str, observations: str, labels: str, output: str, partitions: int
) -> Measured:
    """The same by confluent-kafka. The inputs have no transactions, so offsets count records."""
    began = time.perf_counter()
    group = f"{output}-librdkafka"
    servers = {"bootstrap.servers": bootstrap}
    producer = confluent_kafka.Producer({**servers, "transactional.id": group})
    consumer = confluent_kafka.Consumer(
        {
            **servers,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    inputs = [
        confluent_kafka.TopicPartition(topic, number, confluent_kafka.OFFSET_BEGINNING)
        for topic in (observations, labels)
        for number in range(partitions)
    ]
    producer.init_transactions(SECONDS)
    total = sum(consumer.get_watermark_offsets(part, timeout=SECONDS)[1] for part in inputs)
    consumer.assign(inputs)
    seen = copied = 0
    started = time.perf_counter()
    while seen < total:
        messages = consumer.consume(SIZE, timeout=0.5)
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            if message.error() is not None:
                raise confluent_kafka.KafkaException(message.error())
            seen += 1
            if message.topic() == observations:
                copied += 1
                producer.produce(output, message.value(), message.key(), message.partition())
        producer.flush(SECONDS)
        offsets = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SECONDS)
        producer.commit_transaction(SECONDS)
    seconds = time.perf_counter() - started
    consumer.close()
    return Measured(seen, copied, seconds, float("nan"), started - began)


def _copy(
    consumer: Any,
    producer: Any,
    inputs: list[TopicPartition],
    group: str,
    send: Any,
    written: Callable[[Sequence[Any]], None],
):
    """Poll, send, see every record acknowledged, offsets, commit; to the end of the inputs."""
    began = time.perf_counter()
    producer.init_transactions()
    consumer.assign(inputs)
    consumer.seek_to_beginning(*inputs)
    ends = consumer.end_offsets(inputs)
    seen = copied = 0
    started = time.perf_counter()
    while any(consumer.position(part) < ends[part] for part in inputs):
        polled = consumer.poll(500, max_records=SIZE)
        if not polled:
            continue
        producer.begin_transaction()
        futures = []
        for part, records in polled.items():
            count, sent = send(part, records)
            seen += count
            copied += count if sent else 0
            futures += sent
        written(futures)
        offsets = {p: OffsetAndMetadata(consumer.position(p), "", -1) for p in polled}
        producer.send_offsets_to_transaction(offsets, group)
        producer.commit_transaction()
    seconds = time.perf_counter() - started
    consumer.close()
    producer.close()
    return Measured(seen, copied, seconds, float("nan"), started - began)
