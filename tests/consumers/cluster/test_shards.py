"""Several shards: each its partitions, journal and model; and topics that cannot be shared out."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter

import pytest

from consumers.base.errors import ConfigError, FencedError
from consumers.base.health import Health
from consumers.base.records import Outgoing, Partition
from consumers.cluster.fleet import Fleet, worst
from consumers.config.load import parse
from consumers.service.partitioning import check_partitioning, objections
from consumers.service.recovery import rebuild, sources
from consumers.transports import open_log
from consumers.transports.placement import murmur2
from tests.consumers.feeds import NOW, config_text, phishing
from tests.waiting import PATIENCE

TOPICS = {"obs": 4, "ans": 4, "svc-predictions": 4, "svc-dead-letters": 1, "svc-journal": 2}
FEATURES = sorted(phishing(1)[0][0])


def keyed(n: int, partitions: int) -> list[Outgoing]:
    """Phishing, each record and its label in the partition of their key."""
    out = []
    for i, (x, y) in enumerate(phishing(n)):
        key = b"%d" % i
        part = (murmur2(key) & 0x7FFFFFFF) % partitions
        value = json.dumps({"id": str(i), **x}).encode()
        out.append(Outgoing("obs", key, value, NOW + 10 * i, (), part))
        label = json.dumps({"id": str(i), "label": y}).encode()
        out.append(Outgoing("ans", key, label, NOW + 10 * i + 300, (), part))
    return out


@pytest.fixture
def log(tmp_path):
    """An embedded log with 600 records in four partitions."""
    opened = open_log(f"sqlite:{tmp_path / 'log.db'}")
    for topic, partitions in TOPICS.items():
        opened.create_topic(topic, partitions)
    opened.append(keyed(600, 4))
    yield opened
    opened.close()


def config(tmp_path, shards: int = 2, **changes):
    """Two shards over it."""
    features = changes.get("features", FEATURES)
    text = config_text(f"sqlite:{tmp_path / 'log.db'}", features, 40)
    return parse(f"{text}\n[scale]\nshards = {shards}\n", directory=tmp_path)


def run(tmp_path, numbers=(0, 1), stop=None, **changes) -> Fleet:
    """Drain the inputs with these shards."""
    settings = config(tmp_path, **changes)
    url = f"sqlite:{tmp_path / 'log.db'}"
    fleet = Fleet(settings, lambda: open_log(url), stop or threading.Event(), numbers, drain=True)
    fleet.run()
    return fleet


def predictions(log) -> Counter:
    """Partition of the observation to how many predictions there are of it."""
    parts = [Partition("svc-predictions", n) for n in range(4)]
    chunks = log.read(log.beginning_offsets(parts), log.end_offsets(parts))
    said = [json.loads(value)["position"] for chunk in chunks for value in chunk.values]
    assert len({(p["partition"], p["offset"]) for p in said}) == len(said)
    return Counter(p["partition"] for p in said)


def test_each_shard_owns_every_s_th_partition(log, tmp_path) -> None:
    """Each observation predicted once; each model learned from its own partitions only."""
    fleet = run(tmp_path)
    settings = config(tmp_path)
    views = []
    for shard in (0, 1):
        found = sources(settings, log, shard)
        end = log.end_offsets([found.journal])[found.journal]
        views.append(rebuild(settings, log, found, None, end=end).shard.view())

    assert sum(predictions(log).values()) == 600
    assert {p.number for p in views[0].positions} == {0, 2}
    assert {p.number for p in views[1].positions} == {1, 3}
    assert [view.learned for view in views] == [view.observations for view in views]
    assert sum(view.observations for view in views) == 600
    assert fleet.health().state == "stopped"


def test_shards_run_apart_are_the_shards_run_together(log, tmp_path) -> None:
    """In two processes or one: the same journals but for clocks, the same models."""
    run(tmp_path, (1,))
    only = predictions(log)
    run(tmp_path, (0,))

    assert set(only) == {1, 3}
    assert sum(predictions(log).values()) == 600


def test_metrics_of_shards_are_one_page(log, tmp_path) -> None:
    """A family once, with a series a shard."""
    fleet = run(tmp_path)
    names = [metric.name for metric in fleet.registry.collect()]
    learned = [
        fleet.registry.get_sample_value("headwater_learned_total", {"shard": n}) for n in "01"
    ]

    assert len(names) == len(set(names))
    assert sum(v or 0 for v in learned) == 600


def test_health_of_a_service_is_that_of_its_worst_shards() -> None:
    """With their numbers, if there are others."""
    live, dead = Health("live"), Health("dead", "no log")

    assert worst({0: dead}) == dead
    both = Health("dead", f"shard 1 {dead}; shard 2 {dead}")
    assert worst({0: live, 1: dead, 2: dead}) == both


def test_a_fenced_shard_stops_the_others(log, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends with what the shard ended with."""
    from consumers.service.runner import Runner

    def fenced(self) -> None:
        if self._shard == 1:
            raise FencedError("another process owns shard 1")
        assert self._stop.wait(PATIENCE)

    monkeypatch.setattr(Runner, "_life", fenced)

    with pytest.raises(FencedError, match="shard 1"):
        run(tmp_path)


@pytest.mark.parametrize(
    ("topics", "shards", "says"),
    [
        ({"svc-journal": 1}, 2, "needs a journal of 2 partitions, svc-journal has 1"),
        ({"ans": 3}, 2, "inputs with equal numbers of partitions, but obs has 4, ans has 3"),
        ({"svc-journal": 8}, 8, "more than the 4 partitions of obs"),
    ],
)
def test_topics_that_cannot_be_shared_out_are_refused(tmp_path, topics, shards, says) -> None:
    """Before anything is consumed, saying what to change."""
    log = open_log(f"sqlite:{tmp_path / 'log.db'}")
    for topic, partitions in {**TOPICS, **topics}.items():
        log.create_topic(topic, partitions)

    with pytest.raises(ConfigError, match=says):
        check_partitioning(config(tmp_path, shards), log)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (Outgoing("ans", None, b"{}", NOW, (), 1), r"ans\[1\] offset \d+ has no key"),
        (Outgoing("obs", b"0", b"{}", NOW, (), None), "its key belongs to partition"),
    ],
)
def test_records_that_were_placed_otherwise_are_refused(log, tmp_path, record, says) -> None:
    """A label would wait for its observation in another shard for ever."""
    right = (murmur2(b"0") & 0x7FFFFFFF) % 4
    log.append([record if record.key is None else record._replace(partition=(right + 1) % 4)])

    assert any(re.search(says, line) for line in objections(config(tmp_path), log))
    assert objections(config(tmp_path, 1), log)[0].startswith("[scale] shards = 1 needs a journal")


def test_shards_need_declared_features(log, tmp_path) -> None:
    """Two shards must not infer two schemas."""
    text = config_text(f"sqlite:{tmp_path / 'log.db'}", FEATURES, 40)
    text = text.split("[features]")[0] + text[text.index("[model]") :] + "\n[scale]\nshards = 2\n"

    with pytest.raises(ConfigError, match="needs \\[features\\]"):
        check_partitioning(parse(text, directory=tmp_path), log)


def test_the_number_of_shards_cannot_change_under_a_name(log, tmp_path) -> None:
    """It is part of the identity: the journal's entry 0 of each shard says so."""
    run(tmp_path)
    settings = config(tmp_path, 4)
    found = sources(settings, log, 0)

    with pytest.raises(ConfigError, match=r"scale\.shards: was 2, now 4"):
        rebuild(settings, log, found, None, end=log.end_offsets([found.journal])[found.journal])
