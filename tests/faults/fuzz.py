"""Records from the grammar of `tests/consumers/hostile.py`, through codec and shard, and a broker.

What must hold: no exception, nothing in state or output that is not finite, each observation ends
as exactly one of prediction, dead letter and skip, each label as a dead letter or a counted
outcome.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from uuid import uuid4

import numpy as np
from kafka import KafkaAdminClient, KafkaProducer

from consumers.base.records import Record
from consumers.config.learner import ModelConfig
from consumers.shard.models import build
from consumers.shard.shard import Outcome, Shard
from stream import Schema
from tests.acceptance.service import Service
from tests.consumers.feeds import batch, spec
from tests.consumers.hostile import observations
from tests.faults import states
from tests.faults.checker import Names, check
from tests.faults.seen import committed_offsets, read_topics

__all__ = ["Fuzzed", "fuzz_broker", "fuzz_shard"]

SCHEMA = {"price": "numeric", "urgent": "binary", "colour": "categorical", "text": "text"}
MODELS = ("auto", "GaussianNB", "MultinomialNB", "BernoulliNB", "CategoricalNB")
LIFE = 20_000  # records a shard, then the next model
BATCH = 400
START = 1_700_000_000_000
# Outcomes that befall what waits, not the label that has come.
PASSIVE = {"expired", "early_expired", "evicted", "early_evicted", "forgotten"}
CONFIG = """
name = "{name}"
[input]
transport = "kafka://{bootstrap}"
observations = "{names.observations}"
labels = "{names.labels}"
[features]
{features}
[commit]
max_records = 700
[snapshots]
every_records = 3_000
[http]
enabled = false
"""

Pair = tuple[bytes | None, bytes | None]


@dataclass
class Fuzzed:
    """How the records ended, and what was wrong."""

    ended: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    @property
    def records(self) -> int:
        return self.ended.total()


def hostile(seed: int) -> Iterator[Pair]:
    """The grammar without end, its ids spread, so that labels meet observations."""
    random = Random(seed)
    for turn in range(1 << 30):
        for key, value in observations(seed=seed * 1_000 + turn, count=8_000):
            if value is not None:
                value = value.replace(b'"a7"', b'"i%d"' % random.randrange(3_000))
            yield key, value


def as_label(random: Random, pair: Pair) -> Pair:
    """A label record of the same grammar, most of them sound."""
    key, value = pair
    if random.random() < 0.5:
        label = random.choice([b'"spam"', b'"ham"', b'"egg"', b"1", b"true"][: 5 if key else 3])
        value = b'{"id":"i%d","label":%s}' % (random.randrange(3_000), label)
    elif value is not None:
        value = value.replace(b'"price"', b'"w"', 1)
    return key, value


def fuzz_shard(
    records: int, seed: int, *, say: Callable[[str], None] = lambda line: None
) -> Fuzzed:
    """So many records through the codec and shards of several models."""
    random, done, pairs = Random(seed), Fuzzed(), hostile(seed)
    life = 0
    while done.records < records:
        model = MODELS[life % len(MODELS)]
        life += 1
        shard = Shard(
            spec(schema=Schema.of(**SCHEMA), model=model, horizon=3_600_000, max_pending=2_000),
            build(ModelConfig(type=model)),
        )
        offset, until = 0, min(records, done.records + LIFE)
        while done.records < until:
            labels = random.random() < 0.4
            chunk = list(islice(pairs, min(random.randint(1, BATCH), until - done.records)))
            if labels:
                chunk = [as_label(random, pair) for pair in chunk]
            now = START + offset * 10
            part = [
                Record("ans" if labels else "obs", 0, offset + i, _time(random, now), key, value)
                for i, (key, value) in enumerate(chunk)
            ]
            offset += len(part)
            try:
                outcome = shard.process(batch(part), now)
                _look(outcome, labels, done)
            except Exception as error:  # the one thing that must never happen
                done.violations.append(f"{model}: {type(error).__name__}: {error}")
                done.ended["exception"] += len(part)
                break
        done.violations += _not_finite(shard, model)
        say(f"{done.records:,} records, {len(done.violations)} violations")
    return done


def _time(random: Random, now: int) -> int:
    """Mostly now; sometimes negative, ancient, or of the far future."""
    odd = [-1, 0, -(1 << 62), now + 61_000, (1 << 62), now - 86_400_000]
    return random.choice(odd) if random.random() < 0.02 else now


def _look(outcome: Outcome, labels: bool, done: Fuzzed) -> None:
    n = len(outcome.batch)
    dead = set(outcome.rejected)
    if len(list(outcome.dead_letters())) != len(dead) + len(outcome.early):
        done.violations.append("dead letters are not those that were rejected")
    if labels:
        counted = sum(v for k, v in outcome.labels.items() if k not in PASSIVE)
        undecoded = len(dead) - outcome.labels.get("rejected", 0)
        if counted + undecoded != n:
            done.violations.append(f"{n} labels: {counted} counted, {undecoded} not decoded")
        done.ended["label, dead letter"] += len(dead)
        done.ended["label, outcome counted"] += n - len(dead)
        return
    said = [json.loads(out.value or b"", parse_constant=_refuse) for out in outcome.predictions()]
    if len(said) != len(outcome.observed) or set(outcome.observed) & dead:
        done.violations.append("an observation ended twice")
    if len(outcome.observed) + len(dead) != n:
        done.violations.append(f"{n} observations: {len(outcome.observed)} + {len(dead)} ended")
    done.ended["prediction"] += len(said)
    done.ended["dead letter"] += len(dead)


def _refuse(constant: str) -> None:
    raise ValueError(f"a prediction holds {constant}")


def _not_finite(shard: Shard, model: str) -> list[str]:
    """Names of arrays that hold what no model recovers from; NaN is a gap of a waiting row."""
    state = shard.to_state()
    state.fingerprint()  # its header refuses what is not finite
    return [
        f"{model}: the state's {name} is not finite"
        for name, array in state.arrays.items()
        if array.dtype.kind == "f"
        and (np.isinf(array).any() or (np.isnan(array).any() and "waiting/" not in name))
    ]


def fuzz_broker(bootstrap: str, directory: Path, records: int, seed: int) -> Fuzzed:
    """So many records through a broker, with odd keys and headers, and the independent checker."""
    name = f"fuzz-{uuid4().hex[:8]}"
    names = Names(*(f"{name}-{each}" for each in ("in", "labels", "out", "dead", "journal")))
    names = Names(
        names.observations,
        names.labels,
        f"{name}-predictions",
        f"{name}-dead-letters",
        f"{name}-journal",
    )
    _fill(bootstrap, names, records, seed)
    config = directory / f"{name}.toml"
    features = "\n".join(f'{feature} = "{kind}"' for feature, kind in SCHEMA.items())
    config.write_text(CONFIG.format(name=name, bootstrap=bootstrap, names=names, features=features))
    done = Fuzzed()
    with Service(config, "--drain") as service:
        if service.wait(300):
            done.violations.append(f"it ended with {service.code}: {service.output[-500:]}")
            return done
    log = read_topics(bootstrap, [*names.inputs, *names.outputs])
    inputs = [part for part in log if part[0] in names.inputs]
    done.violations += check(log, names, committed=committed_offsets(bootstrap, name, inputs))
    paths = sorted((directory / "headwater-state" / name).rglob("snap-*.hws"))
    done.violations += states.differences(config, paths)
    sizes = Counter(dict.fromkeys((*names.inputs, *names.outputs), 0))
    for (topic, _), found in log.items():
        sizes[topic] += len(found)
    done.ended["prediction"] = sizes[names.predictions]
    done.ended["dead letter"] = sizes[names.dead_letters]
    done.ended["label, outcome counted"] = (
        sizes[names.observations]
        + sizes[names.labels]
        - sizes[names.predictions]
        - sizes[names.dead_letters]
    )
    return done


def _fill(bootstrap: str, names: Names, records: int, seed: int) -> None:
    random, pairs = Random(seed), hostile(seed)
    parts = {names.observations: 3, names.labels: 2, names.predictions: 3}
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    topics = {
        topic: {
            "num_partitions": parts.get(topic, 1),
            "replication_factor": 1,
            "configs": {"max.message.bytes": str(8 << 20)},
        }
        for topic in (*names.inputs, *names.outputs)
    }
    admin.create_topics(topics)
    admin.wait_for_topics(list(topics))
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap, max_request_size=8 << 20, linger_ms=5)
    with closing(producer):
        for number in range(records):
            topic = names.labels if random.random() < 0.4 else names.observations
            key, value = next(pairs)
            if topic == names.labels:
                key, value = as_label(random, (key, value))
            producer.send(
                topic,
                value,
                key=key if key is not None or value is not None else b"",
                headers=_headers(random),
                partition=random.randrange(parts[topic]),
                timestamp_ms=random.choice([0, 1, START])
                if random.random() < 0.02
                else START + number,
            )
        producer.flush(120)


def _headers(random: Random) -> Sequence[tuple[str, bytes]]:
    if random.random() > 0.01:
        return []
    count = random.choice([1, 10, 1_000])
    return [(f"h{i}" if i % 7 else "reason", random.randbytes(5)) for i in range(count)]
