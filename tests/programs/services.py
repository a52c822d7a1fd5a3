"""Whole services, with generated schemas and settings, over a log in memory.

A service of 0 … 1,000 fields of each kind reads rows at the ends of each kind
(`tests.programs.wide`) and hostile JSON (`tests.consumers.json_records`), with late, early,
repeated and corrected labels. It must not fail; each observation becomes one prediction or dead
letter; and two replays of its journal must give the same state. Kernels of codec, join, learner,
scores and predictions run.
"""

from __future__ import annotations

import json
import math
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import uuid4

from consumers.base.errors import ConfigError
from consumers.base.records import Outgoing, Partition
from consumers.cluster.fleet import Fleet
from consumers.config import Config
from consumers.config.load import parse
from consumers.service.recovery import rebuild, sources
from consumers.transports import open_log
from consumers.transports.protocol import Log
from stream import Field, Schema
from tests.consumers.feeds import NOW
from tests.consumers.json_records import Case, differences, hostile, plain
from tests.programs.wide import MOST, counts_of, row_of

__all__ = ["codec_program", "service_program"]

KINDS = frozenset({"numeric", "binary", "categorical", "text"})
# What each model reads; GaussianBayes takes the cube of the number of its fields.
MODELS = {
    "auto": KINDS,
    "spam": KINDS,
    "MixedNB": KINDS,
    "LogisticRegression": KINDS,
    "KNNClassifier": KINDS - {"text"},
    "CategoricalNB": frozenset({"binary", "categorical"}),
    "MultinomialNB": frozenset({"text"}),
    "BernoulliNB": frozenset({"text", "binary"}),
    "GaussianNB": frozenset({"numeric", "binary"}),
    "PerKeyNB": KINDS - {"text"},
}
FINAL = {"PerKeyNB", "LogisticRegression"}  # they cannot take a label back
CONFIG = """
name = "svc"
[input]
transport = "{url}"
observations = "obs"
labels = "ans"
[features]
{features}
[labels]
horizon = "1h"
max_pending = {pending}
corrections = {corrections}
[model]
type = "{model}"
{parameters}
[output]
explain = {explain}
[commit]
max_records = {records}
guarantee = "at_least_once"
[snapshots]
every_records = 20
[http]
enabled = false
{more}
"""
CHALLENGER = '[[challenger]]\nname = "rival"\ntype = "{}"\n'
DRIFT = '[[drift.detectors]]\non = "error"\ntype = "ADWIN"\n'
BUDGET = '[decision]\nmax_false_positive_rate = { label = "a", rate = 0.01 }\n'
TOPICS = ("obs", "ans", "svc-predictions", "svc-dead-letters", "svc-journal")


def service_program(seed: int) -> list[str]:
    """A random service: what it does wrong."""
    rng = Random(f"service {seed}")
    url = f"memory:{uuid4()}"
    model = rng.choice(sorted(MODELS))
    counts = counts_of(rng, MODELS[model])
    if not any(counts.values()):  # without fields they would be inferred
        counts[rng.choice(sorted(MODELS[model]))] = 1
    if model == "PerKeyNB":
        counts["categorical"] = max(counts["categorical"], 1)
    text = _config(rng, url, model, counts)
    said = f"(service {seed}: {model} with {counts})"
    with tempfile.TemporaryDirectory() as directory:
        config = parse(text, directory=Path(directory))
        log = open_log(url)
        for topic in TOPICS:
            log.create_topic(topic, 1)
        log.append(list(_feed(rng, counts)))
        for _ in range(2):  # the second start has a snapshot
            try:
                Fleet(config, lambda: open_log(url), threading.Event(), [0], drain=True).run()
            except ConfigError as error:  # the window of KNNClassifier has these fields often
                return [] if "max_state_bytes" in str(error) else [f"{error} {said}"]
            log.append(list(_feed(rng, counts)))
        Fleet(config, lambda: open_log(url), threading.Event(), [0], drain=True).run()
        return [f"{line} {said}" for line in _look(config, log)]


def _config(rng: Random, url: str, model: str, counts: dict[str, int]) -> str:
    features = [f'{kind[0]}{i} = "{kind}"' for kind, n in counts.items() for i in range(n)]
    more = [DRIFT] if rng.random() < 0.3 else []
    more.append(rng.choice(("", "", BUDGET, CHALLENGER.format("MixedNB"))))
    return CONFIG.format(
        url=url,
        features="\n".join(features),
        pending=rng.choice((1, 5, 100)),
        corrections=json.dumps(model not in FINAL and rng.random() < 0.5),
        model=model,
        parameters='per = "c0"' if model == "PerKeyNB" else "",
        explain=rng.choice((0, 0, 1, 5, 50)) if model != "KNNClassifier" else 0,
        records=rng.choice((1, 3, 1000)),
        more="\n".join(more),
    ).replace('type = "PerKeyNB"', 'type = "auto"')


def _feed(rng: Random, counts: dict[str, int]) -> Iterator[Outgoing]:
    """Some observations and labels; one in eight records is hostile."""
    case = _case(counts)
    for i in range(rng.choice((0, 1, 3, 12))):
        x = {k: v for k, v in row_of(rng, counts).items() if not _absent(v)}
        value = json.dumps({"id": str(i), **x}).encode()
        if rng.random() < 0.12:
            _, value = hostile(case, rng)  # type: ignore[assignment]
        yield Outgoing("obs", b"%d" % i, value, NOW + 10 * i, (), 0)
        for _ in range(rng.choice((0, 1, 1, 2))):
            label = {"id": str(rng.randrange(i + 2)), "label": rng.choice("aab")}
            yield Outgoing("ans", b"k", json.dumps(label).encode(), NOW + 10 * i + 5, (), 0)


def _absent(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _case(counts: dict[str, int]) -> Case:
    fields = [Field(f"{kind[0]}{i}", kind) for kind, n in counts.items() for i in range(n)]  # type: ignore[arg-type]
    return Case(Schema(tuple(fields)))


def _look(config: Config, log: Log) -> list[str]:
    """What does not hold."""
    end = {topic: log.end_offsets([Partition(topic, 0)])[Partition(topic, 0)] for topic in TOPICS}
    ended = end["svc-predictions"] + end["svc-dead-letters"]  # each label is well-formed
    found = []
    if ended != end["obs"]:
        found.append(f"missing: {end['obs']} observations, {ended} ended")
    at = sources(config, log, 0)
    states = [
        rebuild(config, log, at, None, end=end["svc-journal"]).shard.fingerprint() for _ in range(2)
    ]
    if states[0] != states[1]:
        found.append("state: two replays differ")
    return found


def codec_program(seed: int) -> list[str]:
    """A random schema: what the compiled decoder of JSON gives that the slow path does not."""
    rng = Random(f"codec {seed}")
    counts = counts_of(rng, KINDS, rng.choice((MOST, 40)))
    case = _case(counts)
    records = [rng.choice((plain, hostile))(case, rng) for _ in range(rng.choice((1, 2, 9)))]
    return [
        f"values: {line[:500]} (codec {seed}: {counts})"
        for line in differences(case.decoder(), records)
    ]
