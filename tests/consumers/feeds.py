"""What the tests of the heart feed it with: seeded streams of records, batches, configurations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from river import datasets

from consumers.base.records import Batch, Outgoing, Partition, Record
from consumers.config import Config, parse
from consumers.config.decision import DetectorConfig, FalsePositiveRateConfig
from consumers.shard.shape import OutputShape
from consumers.shard.shard import Shard
from consumers.shard.spec import ShardSpec
from consumers.transports.protocol import Log
from stream import GaussianNB, Learner, Schema

SCHEMA = Schema.of(a="numeric", b="numeric", urgent="binary", colour="categorical")
NOW = 1_700_000_000_000  # long ago: stream time then never meets the wall clock


SERVICE = """
name = "svc"
[input]
transport = "memory:x"
observations = "obs"
labels = "ans"
[output]
predictions = "out"
dead_letters = "dead"
max_dead_letter_ratio = 1
"""
# Facts that are not in the configuration.
FACTS = ("schema", "model", "max_classes")
SHAPE = {"version": "version", "largest_dead_letter": "cut"}
SECTIONS = {
    "label_field": ("input", "label"),
    "reporter_field": ("labels", "reporter"),
    "keep_bad": ("values", "on_bad_value"),
    **{name: ("labels", name) for name in ("corrections", "max_pending", "max_pending_bytes")},
    **{name: ("output", name) for name in ("top", "explain", "cloudevents", "notes")},
    "max_dead_letter_ratio": ("output", "max_dead_letter_ratio"),
}


def spec(**changes: Any) -> ShardSpec:
    """A service `svc` with observations in `obs` and labels in `ans`, and these changes.

    They may exclude each other: nothing is checked.
    """
    settings = parse(SERVICE)
    facts = {name: changes.pop(name) for name in FACTS if name in changes}
    shape = {SHAPE[name]: changes.pop(name) for name in SHAPE if name in changes}
    for name, value in changes.items():
        section, given = _given(name, value)
        changed = getattr(settings, section).model_copy(update=given)
        settings = settings.model_copy(update={section: changed})
    outputs = msgspec.structs.replace(OutputShape.of(settings, 2), **{"version": "", **shape})
    told = {"schema": SCHEMA, "model": "GaussianNB", **facts}
    return ShardSpec(settings, outputs=outputs, **told)


def _given(name: str, value: Any) -> tuple[str, dict[str, Any]]:
    """A section of the configuration, and its keys with this value."""
    if name == "horizon":
        return "labels", {"horizon": f"{value}ms"}
    if name == "silence":
        keys = ("silence", "after", "score_silence", "label_frequency")
        return "labels", dict(zip(keys, (value.label, f"{value.after}ms", *value[2:]), strict=True))
    if name == "reporters":
        given = value._asdict()
        given["max_labels_per_hour"] = given.pop("per_hour")
        given["without_reporter"] = "trusted" if given.pop("trusted") else "anonymous"
        return "reporters", given
    if name == "decision":
        losses = msgspec.to_builtins(value.losses, str_keys=True)
        return "decision", {"losses": losses, "reject": value.reject_loss}
    if name == "budget":
        return "decision", {"max_false_positive_rate": FalsePositiveRateConfig(**asdict(value))}
    if name == "drift":
        detectors = tuple(DetectorConfig(**asdict(each)) for each in value.monitors)
        return "drift", {"detectors": detectors, "keep": value.keep, "warm_up": value.warm_up}
    section, key = SECTIONS[name]
    if name == "keep_bad":
        value = "missing" if value else "dead_letter"
    return section, {key: value}


def shard(learner: Learner | None = None, **changes: Any) -> Shard:
    """A fresh shard."""
    return Shard(spec(**changes), learner or GaussianNB())


def batch(records: Sequence[Record]) -> Batch:
    """The records, in this order, as one batch."""
    partitions = sorted({Partition(r.topic, r.partition) for r in records})
    ranges: dict[Partition, tuple[int, int, int]] = {}
    for r in records:
        first, _, count = ranges.get(Partition(r.topic, r.partition), (r.offset, 0, 0))
        ranges[Partition(r.topic, r.partition)] = (first, r.offset + 1, count + 1)
    source = [partitions.index(Partition(r.topic, r.partition)) for r in records]
    return Batch(
        partitions,
        np.array(source, dtype=np.int64),
        np.array([r.offset for r in records], dtype=np.int64),
        np.array([r.timestamp for r in records], dtype=np.int64),
        [r.key for r in records],
        [r.value for r in records],
        ranges,
    )


def seen(id_: str, offset: int = 0, *, ts: int = NOW, **fields: Any) -> Record:
    """An observation."""
    return Record("obs", 0, offset, ts, None, json.dumps({"id": id_, **fields}).encode())


def told(id_: str, label: Any, offset: int = 0, *, ts: int = NOW, **more: Any) -> Record:
    """A label."""
    value = json.dumps({"id": id_, "label": label, **more}).encode()
    return Record("ans", 0, offset, ts, None, value)


GARBAGE = [
    None, b"", b"{", b'{"a":1e999,"id":1}', b'{"a":"x","id":1}', b'{"urgent":3,"id":1}', b'{"a":1}',
    b"[" * 5000, b'{"id":"\\ud800"}', b"x" * (1 << 20) + b"x", b'{"a":1e300,"id":1}',
]  # fmt: skip
BAD_LABELS = [b'{"id":"3"}', b'{"id":"4","label":"x","w":0}', b'{"id":"5","label":7}', b"nothing"]


def stream(n: int, seed: int) -> list[Record]:
    """n observations over two partitions, labels late, early, twice or never, garbage between."""
    rng = np.random.default_rng(seed)
    timed: list[tuple[float, str, int, bytes | None]] = []
    for i in range(n):
        c = int(rng.integers(3 if i > n // 3 else 2))
        x: dict[str, Any] = {"id": str(i), "a": rng.normal(c), "b": rng.normal(1e6 - c)}
        x |= {"urgent": bool(rng.random() < 0.3), "colour": "red"}
        if rng.random() < 0.2:
            x[rng.choice(["a", "b", "urgent"])] = None
        timed.append((i, "obs", i % 2, json.dumps(x).encode()))
        label = json.dumps({"id": str(i), "label": "pqr"[c], "w": rng.choice([1.0, 0.5])}).encode()
        if rng.random() < 0.9:
            timed.append((i + rng.choice([0.1, 20.2, -5.2]), "ans", 0, label))
        if rng.random() < 0.1:
            timed.append((i + 30.3, "ans", 0, label))
        if rng.random() < 0.1:
            timed.append((i + 0.4, "obs", i % 2, GARBAGE[rng.integers(len(GARBAGE))]))
        if rng.random() < 0.1:
            timed.append((i + 0.5, "ans", 0, BAD_LABELS[rng.integers(len(BAD_LABELS))]))
    timed.sort(key=lambda r: r[0])
    offsets: dict[tuple[str, int], int] = {}
    out = []
    for at, topic, partition, value in timed:
        offset = offsets.get((topic, partition), 0)
        offsets[topic, partition] = offset + 1
        ts = NOW + int(at * 1000)
        out.append(Record(topic, partition, offset, ts, b"k" if value else None, value))
    return out


MODEL = 'type = "GaussianNB"'
CONFIG = """
name = "svc"
[input]
transport = "{transport}"
observations = "obs"
labels = "ans"
max_wait_ms = 60000
[features]
{features}
[model]
{model}
[commit]
max_records = {max_records}
max_bytes = {max_bytes}
max_delay_ms = 20
guarantee = "{guarantee}"
[snapshots]
every_records = {every_records}
[http]
enabled = false
{more}
"""


def config(
    directory: Path,
    transport: str,
    *,
    features: Sequence[str] = ("a", "b"),
    max_records: int = 50,
    every_records: int = 300,
    more: str = "",
    max_bytes: int = 2**24,
    model: str = MODEL,
    guarantee: str = "exactly_once",
) -> Config:
    """A configuration whose snapshots lie under `directory`."""
    text = config_text(
        transport, features, max_records, every_records, more, max_bytes, model, guarantee
    )
    return parse(text, directory=directory)


def config_text(
    transport: str,
    features: Sequence[str],
    max_records: int = 50,
    every_records: int = 300,
    more: str = "",
    max_bytes: int = 2**24,
    model: str = MODEL,
    guarantee: str = "exactly_once",
) -> str:
    """The same as TOML."""
    return CONFIG.format(
        transport=transport,
        features="\n".join(f'{name} = "numeric"' for name in features),
        max_records=max_records,
        every_records=every_records,
        more=more,
        max_bytes=max_bytes,
        model=model,
        guarantee=guarantee,
    )


Labelled = list[tuple[dict[str, Any], Any]]


def phishing(n: int = 1250) -> Labelled:
    """Phishing, as many of its 1,250 records."""
    return list(islice(datasets.Phishing(), n))


def feed(records: Labelled, delay: int, partitions: int = 1) -> Iterator[Outgoing]:
    """Observations, then all their labels: each comes just before the record `delay` later."""
    for i, (x, _) in enumerate(records):
        value = json.dumps({"id": str(i), **x}).encode()
        yield Outgoing("obs", b"%d" % i, value, NOW + 10 * i, (), i % partitions)
    for i, (_, y) in enumerate(records):
        value = json.dumps({"id": str(i), "label": y}).encode()
        yield Outgoing("ans", b"%d" % i, value, NOW + 10 * (i + delay) - 5, (), 0)


def fill(log: Log, records: Labelled, delay: int = 50, partitions: int = 1) -> None:
    """Make the service's topics and put everything into its inputs."""
    for topic, count in (("obs", partitions), ("ans", 1), ("svc-predictions", partitions)):
        log.create_topic(topic, count)
    log.create_topic("svc-dead-letters", 1)
    log.create_topic("svc-journal", 1)
    log.append(list(feed(records, delay, partitions)))
