"""What befalls topics, done to any log from outside: made again, cut, widened."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from kafka import KafkaAdminClient

from consumers.base.records import UNBOUNDED, Partition
from consumers.transports.kafka.log import KafkaLog
from consumers.transports.memory.log import MemoryLog
from consumers.transports.protocol import Log
from consumers.transports.sqlite.batches import packed
from consumers.transports.sqlite.log import SqliteLog
from tests.waiting import until

__all__ = ["cut", "delete", "remake", "stay", "widen"]


def delete(log: Log, topic: str) -> None:
    """Delete a topic with its records."""
    if isinstance(log, MemoryLog):
        with log._store.changed:
            del log._store.topics[topic], log._store.ids[topic]
    elif isinstance(log, SqliteLog):
        _sql(
            log,
            "DELETE FROM batches WHERE id >> 40 >= (SELECT first_log FROM topics WHERE name = ?1) "
            "AND id >> 40 < (SELECT first_log + partitions FROM topics WHERE name = ?1)",
            topic,
        )
        _sql(log, "DELETE FROM topics WHERE name = ?1", topic)
    else:
        until(lambda: _kafka(log, lambda admin: admin.delete_topics([topic])) is not None)
        until(lambda: topic not in log.describe([topic]))


def remake(log: Log, topic: str, partitions: int = 1) -> None:
    """Delete a topic and make it again, empty."""
    delete(log, topic)
    until(lambda: log.create_topic(topic, partitions) or topic in log.describe([topic]))


def cut(log: Log, partition: Partition, end: int) -> None:
    """Take the records from `end` on away, as a leader does that was not in sync."""
    if isinstance(log, MemoryLog):
        with log._store.changed:
            del log._store.records(partition)[end:]
    elif isinstance(log, SqliteLog):
        database = log._database
        number = database.log(partition)
        kept = database.fetch_records(partition, 0, end, UNBOUNDED) if end else []
        with closing(sqlite3.connect(database.path)) as connection, connection:
            connection.execute("DELETE FROM batches WHERE id >> 40 = ?", (number,))
        with database.transaction():
            rows = [(r.timestamp, r.key, r.value, None) for r in kept]
            database.insert_at(number, 0, packed(rows))
    else:
        raise NotImplementedError("a broker that does as it should never cuts a log")


def widen(log: Log, topic: str, partitions: int) -> None:
    """Add partitions; on the embedded log only to the topic that was made last."""
    if isinstance(log, MemoryLog):
        with log._store.changed:
            kept = log._store.topics[topic]
            kept += [[] for _ in range(partitions - len(kept))]
    elif isinstance(log, SqliteLog):
        _sql(log, f"UPDATE topics SET partitions = {partitions} WHERE name = ?1", topic)
    else:
        _kafka(log, lambda admin: admin.create_partitions({topic: partitions}))
        until(lambda: log.describe([topic])[topic].partitions == partitions)


def stay(of: Log, into: Log, topic: str) -> None:
    """Give a topic the id it has in another log in memory: the same log, changed from outside."""
    assert isinstance(of, MemoryLog)
    assert isinstance(into, MemoryLog)
    into._store.ids[topic] = of._store.ids[topic]


def _sql(log: SqliteLog, statement: str, topic: str) -> None:
    with closing(sqlite3.connect(log._database.path)) as connection, connection:
        connection.execute(statement, (topic,))
    log._database._topics.clear()


def _kafka(log: Log, call: Any) -> Any:
    assert isinstance(log, KafkaLog)
    with closing(KafkaAdminClient(bootstrap_servers=log._options.servers)) as admin:
        return call(admin)
