"""A loop written without headwater: kafka-python, json, river, a gauge. It has no guarantees.

It consumes observations and labels in one group, predicts with river's GaussianNB, joins labels by
a dict, learns, scores and sends each prediction. A crash loses the model, and duplicates or loses
records. Labels have a topic of their own, so the order of polls decides what was known when.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition
from prometheus_client import CollectorRegistry, Gauge
from river.metrics import Accuracy
from river.naive_bayes import GaussianNB

__all__ = ["Measured", "hand_rolled"]


@dataclass(frozen=True)
class Measured:
    """What one run did: `records` are observations and labels, in `seconds` after `start` ones."""

    records: int
    predictions: int
    seconds: float
    accuracy: float
    start: float  # seconds until the clients were connected and knew where to begin

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds


def hand_rolled(
    bootstrap: str, observations: str, labels: str, output: str, partitions: int
) -> Measured:
    """Consume both topics to their present end."""
    began = time.perf_counter()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    parts = [TopicPartition(t, p) for t in (observations, labels) for p in range(partitions)]
    consumer.assign(parts)
    consumer.seek_to_beginning(*parts)
    total = sum(consumer.end_offsets(parts).values())
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)
    gauge = Gauge("accuracy", "accuracy so far", registry=CollectorRegistry())
    model, accuracy = GaussianNB(), Accuracy()
    waiting: dict[str, tuple[dict[str, float], object]] = {}
    early: dict[str, object] = {}
    seen = predicted = 0
    started = time.perf_counter()

    def learn(id_: str, label: object) -> None:
        x, best = waiting.pop(id_)
        if best is not None:
            accuracy.update(label, best)
            gauge.set(accuracy.get())
        model.learn_one(x, label)

    while seen < total:
        for partition, records in consumer.poll(500).items():
            for record in records:
                seen += 1
                value = json.loads(record.value)
                id_ = value.pop("id")
                if partition.topic == labels:
                    if id_ in waiting:
                        learn(id_, value["label"])
                    else:
                        early[id_] = value["label"]
                    continue
                posterior = model.predict_proba_one(value)
                best = max(posterior, key=posterior.get) if posterior else None
                answer = {"id": id_, "prediction": best, "probabilities": posterior}
                producer.send(output, json.dumps(answer).encode(), key=id_.encode())
                predicted += 1
                waiting[id_] = (value, best)
                if id_ in early:
                    learn(id_, early.pop(id_))
    producer.flush()
    seconds = time.perf_counter() - started
    consumer.close()
    producer.close()
    return Measured(seen, predicted, seconds, accuracy.get(), started - began)
