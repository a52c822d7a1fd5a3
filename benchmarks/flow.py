"""A steady flow of observations and labels into a broker, and when each prediction could be read.

`with Flow(…) as flow:` writes `rate` observations a second, and as many labels 100 observations
late, for as long as it is open, and reads committed predictions beside it. Times are of one clock:
when a record was due to be written, and when the reader's client had handed its prediction on. A
writer that is late, because the broker has not acknowledged what it wrote before, counts as delay.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import msgspec
from kafka import TopicPartition

from benchmarks.main_job import DELAY, records
from consumers.base.records import Outgoing
from consumers.transports.kafka.options import KafkaOptions
from consumers.transports.kafka.producer import BatchProducer, PendingSends, send
from consumers.transports.kafka.reader import column_consumer
from consumers.transports.placement import partition_of

__all__ = ["Flow", "placed"]

TICK = 0.002  # seconds between two writes
PAD = b"-"
DIFFERENT = 20_000  # observations, over and over


def placed(id_: str, partition: int, partitions: int) -> str:
    """An id that begins so, and whose partition by Kafka's default is this one."""
    while partition_of(id_.encode(), partitions) != partition:
        id_ += PAD.decode()
    return id_


class Flow:
    """Feeder and reader of one service; observation i has the id i.

    Parameters
    ----------
    bootstrap
        The broker.
    observations, labels, predictions
        Topics.
    rate
        Observations a second.
    partition, partitions
        Where all of them are, and how many the topics have. Its other predictions have ids that
        begin with a letter.

    Attributes
    ----------
    sent, read : list of float
        When observation i was due, and when its prediction was read first (0: not yet).
    """

    def __init__(
        self,
        bootstrap: str,
        observations: str,
        labels: str,
        predictions: str,
        rate: float,
        partition: int = 0,
        partitions: int = 1,
    ) -> None:
        self._options = KafkaOptions([bootstrap], {"linger_ms": 0})
        self._observations, self._labels, self._predictions = observations, labels, predictions
        self._rate, self._partition, self._partitions = rate, partition, partitions
        self.sent: list[float] = []
        self.read: list[float] = []
        self.doubled = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=t) for t in (self._write, self._read)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _records(self) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Id, observation and label, without end."""
        made = []
        for record in records(DIFFERENT):
            fields = dict(record)
            label = msgspec.json.encode(fields.pop("class"))
            made.append((msgspec.json.encode(fields)[1:], b'"label":' + label + b"}"))
        i = 0
        while True:
            fields, label = made[i % DIFFERENT]
            key = placed(str(i), self._partition, self._partitions).encode()
            id_ = b'{"id":"%b",' % key
            yield key, id_ + fields, id_ + label
            i += 1

    def _write(self) -> None:
        producer = BatchProducer(**self._options.producer(None))
        source, waiting = self._records(), deque[tuple[bytes, bytes]]()
        handed: list[PendingSends] = []
        started = time.perf_counter()
        while not self._stop.wait(TICK):
            if not all(batch.is_done for batch in handed):
                continue  # the client sends batch by batch: what waits here goes with the next
            now, clock = time.perf_counter(), time.time_ns() // 1_000_000
            first, due = len(self.sent), int((now - started) * self._rate)
            observations, labels = [], []
            for i in range(first, due):
                key, observation, label = next(source)
                observations.append(Outgoing(self._observations, key, observation, clock))
                waiting.append((key, label))
                if i >= DELAY:
                    labels.append(Outgoing(self._labels, *waiting.popleft(), clock))
            self.read += [0.0] * len(observations)
            self.sent += [started + i / self._rate for i in range(first, due)]
            number = self._partition
            parts = [((self._observations, number), observations), ((self._labels, number), labels)]
            handed += send(producer, [part for part in parts if part[1]])
            handed = [batch for batch in handed if not batch.is_done]
        producer.flush(10)
        producer.close()

    def _read(self) -> None:
        consumer = column_consumer(self._options.consumer())
        part = TopicPartition(self._predictions, self._partition)
        consumer.assign([part])
        consumer.seek(part, 0)
        while not self._stop.is_set():
            for chunks in consumer.poll(100).values():
                now = time.perf_counter()
                for key in (key for chunk in chunks for key in chunk.keys):
                    if not key[:1].isdigit():
                        continue
                    i = int(key.rstrip(PAD))
                    self.doubled += self.read[i] != 0.0
                    self.read[i] = self.read[i] or now
        consumer.close()
