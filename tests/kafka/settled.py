"""When all that was committed can be read."""

from __future__ import annotations

from contextlib import closing

from kafka import KafkaConsumer, TopicPartition

from consumers.base.records import Partition
from consumers.transports.protocol import Log
from tests.waiting import until

__all__ = ["settled_ends"]


def settled_ends(log: Log, bootstrap: str, partition: Partition) -> dict[Partition, int]:
    """The end of a partition without open transactions.

    A broker answers that a transaction is committed before it has written its marker to each
    partition. Until then the records are there, and nobody reads them.
    """
    with closing(KafkaConsumer(bootstrap_servers=bootstrap)) as consumer:
        at = TopicPartition(*partition)
        until(lambda: log.end_offsets([partition])[partition] == consumer.end_offsets([at])[at])
    return log.end_offsets([partition])
