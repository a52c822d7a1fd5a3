"""What the client alone can do: a transactional copy of the observations, nothing learned.

The same client, topics, batch and transaction size as the service: poll both topics, send the bytes
of each observation to an output topic, commit them with the offsets. What a service that also
decodes, joins, learns, predicts, scores and encodes is measured against.
"""

from __future__ import annotations

import time

from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition

from benchmarks.hand_rolled import Measured

__all__ = ["bare_copy"]

SIZE = 5_000  # records a transaction, the service's default


def bare_copy(
    bootstrap: str, observations: str, labels: str, output: str, partitions: int
) -> Measured:
    """Copy to the present end of both topics."""
    group = f"{output}-copy"
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=group, linger_ms=5)
    producer.init_transactions()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=SIZE,
    )
    parts = [TopicPartition(t, p) for t in (observations, labels) for p in range(partitions)]
    consumer.assign(parts)
    consumer.seek_to_beginning(*parts)
    ends = consumer.end_offsets(parts)
    seen = copied = 0
    started = time.perf_counter()
    while any(consumer.position(part) < ends[part] for part in parts):
        polled = consumer.poll(500, max_records=SIZE)
        if not polled:
            continue
        producer.begin_transaction()
        futures = []
        for partition, records in polled.items():
            seen += len(records)
            if partition.topic == observations:
                futures += [producer.send(output, r.value, key=r.key) for r in records]
        producer.flush()
        for future in futures:
            if future.exception is not None:
                raise future.exception
        copied += len(futures)
        offsets = {p: OffsetAndMetadata(consumer.position(p), "", -1) for p in polled}
        producer.send_offsets_to_transaction(offsets, group)
        producer.commit_transaction()
    seconds = time.perf_counter() - started
    consumer.close()
    producer.close()
    return Measured(seen, copied, seconds, float("nan"))
