"""What a correction costs, in plain labels: python -m benchmarks.corrections [--rounds 5] [--write]

A shard without a broker, processor time of one thread. All times of a round are of one run, and
each ratio is of two times of a round. `--write` puts the table, with its date, into
docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from benchmarks.performance import show
from consumers.base.records import Batch, Partition
from consumers.config import parse
from consumers.shard.assembly import shard_of
from consumers.shard.shard import Shard
from stream.join.label_delay import LABELS_PER_CORRECTION, MOST_CORRECTIONS

FIELDS, EACH, START = 8, 200, 1_700_000_000_000
CONFIG = """
name = "corrections"
[input]
transport = "memory:corrections"
observations = "observations"
labels = "labels"
[features]
{fields}
[model]
type = "{model}"
[labels]
corrections = true
"""
MODELS = ("GaussianNB", "MixedNB", "auto")
Sent = tuple[str, bytes]  # topic and value


class Feed:
    """Batches for one shard, and how long it takes to process them."""

    def __init__(self, model: str) -> None:
        fields = "\n".join(f'x{j} = "numeric"' for j in range(FIELDS))
        config = parse(CONFIG.format(model=model, fields=fields))
        schema = config.declared_schema
        assert schema is not None  # noqa: S101  [features] declares it
        self.shard: Shard = shard_of(config, schema)
        self._rng = np.random.default_rng(43)
        self._offsets = {"observations": 0, "labels": 0}
        self.observed = 0

    def observations(self, count: int) -> list[Sent]:
        """New observations; their ids are the next numbers."""
        out: list[Sent] = []
        for i in range(self.observed, self.observed + count):
            x = self._rng.normal(i % 2, 1.0, FIELDS).tolist()
            record = {"id": str(i), **{f"x{j}": value for j, value in enumerate(x)}}
            out.append(("observations", json.dumps(record).encode()))
        self.observed += count
        return out

    def seconds(self, sent: Sequence[Sent]) -> float:
        """Processor time to process these records in one call."""
        topics = sorted(self._offsets)
        source, offsets = [], []
        for topic, _ in sent:
            source.append(topics.index(topic))
            offsets.append(self._offsets[topic])
            self._offsets[topic] += 1
        times = np.full(len(sent), START + sum(self._offsets.values()))
        batch = Batch(
            [Partition(topic, 0) for topic in topics],
            np.array(source),
            np.array(offsets),
            times,
            [None] * len(sent),
            [value for _, value in sent],
        )
        started = time.thread_time()
        self.shard.process(batch, START + 2**40)
        return time.thread_time() - started


def label(number: int, name: str) -> Sent:
    """The label of an observation."""
    return "labels", json.dumps({"id": str(number), "label": name}).encode()


def labels(first: int, count: int, names: str) -> list[Sent]:
    """Labels of these observations, the names in turn."""
    return [label(i, names[i % 2]) for i in range(first, first + count)]


def in_a_row(model: str) -> tuple[float, float]:
    """Seconds of a plain label, and of a correction after others."""
    feed, count = Feed(model), EACH * LABELS_PER_CORRECTION
    feed.seconds(feed.observations(2 * count))
    feed.seconds(labels(0, count, "ab"))  # for warming
    plain = feed.seconds(labels(count, count, "ab")) / count
    took = feed.seconds(labels(0, EACH, "ba")) / EACH
    expect(feed, "corrected", EACH)
    return plain, took


def above(model: str) -> float:
    """Seconds of a label above the rate."""
    feed = Feed(model)
    feed.seconds(feed.observations(1))
    feed.seconds([label(0, "ab"[i % 2]) for i in range(MOST_CORRECTIONS + 1)])
    took = feed.seconds([label(0, "ab"[(MOST_CORRECTIONS + 1) % 2])] * EACH) / EACH
    expect(feed, "correction_over_rate", EACH)
    return took


def stream(model: str, names: str) -> tuple[float, int]:
    """Seconds of a record of a stream whose first labels come again, at the rate at which
    corrections are accepted for ever; and how many of these corrected."""
    feed, sent = Feed(model), list[Sent]()
    feed.seconds([*feed.observations(EACH), *labels(0, EACH, "ab")])  # for warming
    for number in range(EACH):
        fresh = feed.observed
        sent += feed.observations(LABELS_PER_CORRECTION)
        sent += labels(fresh, LABELS_PER_CORRECTION, "ab")
        sent.append(label(number, names[number % 2]))
    took = feed.seconds(sent) / len(sent)
    return took, feed.shard.join.outcomes["corrected"]


def expect(feed: Feed, outcome: str, count: int) -> None:
    """End the benchmark if it did not measure what it says."""
    if feed.shard.join.outcomes[outcome] != count:
        raise SystemExit(f"expected {count} × {outcome}, got {dict(feed.shard.join.outcomes)}")


def measure(model: str) -> tuple[float, float, float, float]:
    """Seconds of a plain label; as ratios, a correction after others, a label above the rate, and a
    record of a stream with corrections."""
    plain, row = in_a_row(model)
    (without, none), (corrected, every) = stream(model, "ab"), stream(model, "ba")
    if (none, every) != (0, EACH):
        raise SystemExit(f"expected {EACH} corrections and none, got {every} and {none}")
    return plain, row / plain, above(model) / plain, corrected / without


def lines(rounds: int) -> Iterator[str]:
    """The table."""
    yield f"{rounds} rounds of {EACH} corrections; medians."
    yield ""
    yield (
        "| model | a plain label | a correction after others | a label above the rate | a record "
        "of a stream with as many corrections as are accepted, beside the same without |"
    )
    yield "|---|---|---|---|---|"
    for model in MODELS:
        measure(model)  # for warming
        every = [measure(model) for _ in range(rounds)]
        plain, *ratios = (median(column) for column in zip(*every, strict=True))
        cells = " | ".join(f"{ratio:.0f} ×" for ratio in ratios)
        yield f"| {model} | {1e6 * plain:.1f} µs | {cells} |"


def main() -> None:
    """Print the table; with --write also into docs/performance.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    show("corrections", lines(options.rounds), write=options.write)


if __name__ == "__main__":
    main()
