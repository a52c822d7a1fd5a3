"""How many series a scrape has: bounded, whatever comes. tests/long/series.py feeds a million."""

from __future__ import annotations

import numpy as np
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

from consumers.base.errors import DEAD_LETTER_REASONS
from consumers.base.records import Batch, Partition
from consumers.shard.views import Committed
from consumers.telemetry.prometheus import Telemetry
from stream.decision import BayesDecision
from tests.consumers.feeds import NOW, shard
from tests.telemetry.views import MOST_SERIES

LABELS = 10_000
BATCH = 5_000
INPUTS = [Partition("obs", n) for n in range(3)]


def exposition(records: int) -> str:
    """What a scrape says after so many records, each label as likely as the others, some bad."""
    going = shard(label_field="y", decision=BayesDecision(None, 0.5))
    registry = CollectorRegistry()
    telemetry = Telemetry(registry, going.view, clock=lambda: 1000.0, version="1.2.3")
    rng = np.random.default_rng(1)
    for first in range(0, records, BATCH):
        labels = rng.integers(0, LABELS, BATCH).tolist()
        values = [
            b'{"id":%d,"a":%d,"y":"label %d"}' % (first + i, label % 97, label)
            for i, label in enumerate(labels)
        ]
        values[::1000] = [b"broken"] * len(values[::1000])
        source = np.arange(BATCH) % len(INPUTS)
        offsets = first + np.arange(BATCH)
        ranges = dict.fromkeys(INPUTS, (first, first + BATCH, BATCH // 3))
        going.process(
            Batch(INPUTS, source, offsets, NOW + offsets, [None] * BATCH, values, ranges), NOW
        )
    newest = dict.fromkeys(DEAD_LETTER_REASONS, (INPUTS[0], 5))
    telemetry.polled()
    telemetry.committed(Committed(1, 1, 1, {"joined": 1}, {}, 0.1, 1, {}, newest), going.view())
    telemetry.snapshot_written(990.0)
    telemetry.ends(dict.fromkeys(INPUTS, 10 * records))
    telemetry.replay_remaining(0)
    telemetry.unread(0)
    return generate_latest(registry).decode()


def series(text: str) -> list[str]:
    """The lines that are series."""
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_ten_thousand_labels_stay_within_the_most_series() -> None:
    """Counted on the exposition; the classes that have names are the first twenty learned."""
    found = series(exposition(20_000))

    assert len(found) <= MOST_SERIES
    confusion = [line for line in found if line.startswith("headwater_confusion_total")]
    assert len(confusion) == 21 * 21
    assert sum('true="label' in line and 'predicted="label' in line for line in confusion) == 400
