"""Shards that exchange what they have learned: one model, journaled and repeatable."""

from __future__ import annotations

import hashlib
import json
import threading
import zlib
from contextlib import closing
from io import BytesIO
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from consumers.base.errors import ConfigError, TransportError
from consumers.base.records import Outgoing, Partition
from consumers.cluster.fleet import Fleet
from consumers.journal.model_parts import ModelPart, parts_of
from consumers.journal.statistics import Statistics, to_bytes
from consumers.service.mix import Mixer
from consumers.service.recovery import rebuild, sources
from consumers.shard.mix import ShardMix
from consumers.shard.models import build_model, limited, mixing_types
from consumers.shard.views import MixView, Peer
from consumers.snapshots import model_file
from consumers.snapshots.exported import learned
from consumers.snapshots.store import open_store
from consumers.timetravel.moment import exported
from consumers.transports import open_log
from consumers.transports.placement import murmur2
from stream import GaussianNB, Schema, State
from stream.contest.champion import ChampionChallenger
from stream.join.join import LabelJoin
from stream.mix import mixing, mixing_parts, statistics
from tests.consumers.feeds import NOW, phishing
from tests.consumers.service.shards import (
    Attack,
    Failing,
    Shards,
    assert_predicts_as,
    keyed,
    whole,
)
from tests.seed import seeds


@pytest.mark.parametrize("shards", [2, 4])
def test_shards_that_have_mixed_predict_as_one_model_that_saw_all(tmp_path, shards) -> None:
    """Each publishes when it stops, and takes over what the others have when it starts."""
    service, records = Shards(tmp_path, shards), phishing(600)
    service.log.append(keyed(records))
    for number in range(shards):
        service.run(number)

    service.run(*range(shards))

    for number in range(shards):
        assert_predicts_as(service.rebuilt(number).shard.learner, whole(records), records)


def test_a_replay_repeats_every_prediction_of_the_mixed_model(tmp_path) -> None:
    """Mixes in the middle of the stream are part of the journal: a rebuild has equal bits."""
    service, records = Shards(tmp_path), phishing(600)
    for first in range(0, 600, 150):
        service.log.append(keyed(records[first : first + 150], first))
        service.run(first // 150 % 2)
        service.run(1 - first // 150 % 2)
    assert len(service.mixes(0)) > 2
    assert len(service.mixes(1)) > 2

    for number in (0, 1):
        live = service.rebuilt(number)  # raises where a hash differs
        found = sources(service.config, service.log, number)
        store = open_store(service.config, number)
        end = service.log.end_offsets([found.journal])[found.journal]
        warm = rebuild(service.config, service.log, found, store, end=end)
        assert warm.snapshot is not None
        assert warm.shard.fingerprint() == live.shard.fingerprint()
        assert warm.chain == live.chain


def test_a_class_that_only_another_shard_saw_is_predicted(tmp_path) -> None:
    """As soon as it is mixed in, with the classes of all in the prediction."""
    service, records = Shards(tmp_path), phishing(300)
    odd = [(x, "rare") for x, _ in phishing(40)]
    parts = {0: keyed(records), 1: keyed(odd, 1000)}
    for number, records_of in parts.items():
        service.log.append([r for r in records_of if (r.partition or 0) % 2 == number])
    service.run(1)
    service.run(0)

    view = service.rebuilt(0).shard.view()

    assert "rare" in view.quality.classes
    assert view.mix is not None
    assert view.mix.peers[1].learned > 0


def test_what_does_not_fit_is_refused_and_the_shard_continues(tmp_path) -> None:
    """Labels of another kind, and bytes that are no statistics."""
    service = Shards(tmp_path, mix="")
    numbers = [(x, i % 2) for i, (x, _) in enumerate(phishing(60))]
    for number, records in ((0, phishing(60)), (1, numbers)):
        sent = keyed(records, 500 * number)
        service.log.append([r for r in sent if (r.partition or 0) % 2 == number])
    service.log.append([Outgoing("svc-mix", b"model", b"no json", NOW, (), 1)])
    service.run(0, 1)  # each has learned its own kind
    service.mix = "1h"
    service.relearn()
    service.run(1)
    service.run(0)

    shard = service.rebuilt(0).shard

    assert shard.view().mix == MixView({}, {"label_kind": 1})
    assert shard.learner.classes == [True, False]


def test_challenger_that_another_shard_does_not_have_leaves_the_others_mixed() -> None:
    """Its own statistics stay, and nothing is counted as refused."""
    models = {name: mixing(GaussianNB(), 0, 2) for name in ("", "here", "both")}
    contest = SimpleNamespace(
        contestants=lambda: [
            SimpleNamespace(name=name, machine=SimpleNamespace(learner=model))
            for name, model in models.items()
        ]
    )
    other = mixing(GaussianNB(), 1, 2)
    other.learn_one({"x": 1.0}, "a")
    mixed = ShardMix(cast(ChampionChallenger, contest), LabelJoin())

    mixed.take({1: (Peer(9, NOW, 1), {"": statistics(other), "both": statistics(other)})})

    peers = {name: set(part.peers) for name, m in models.items() for part in mixing_parts(m)}
    assert peers == {"": {1}, "here": set(), "both": {1}}
    assert mixed.view() == MixView({1: Peer(9, NOW, 1)}, {})


def test_a_replay_without_the_statistics_says_which_are_missing(tmp_path) -> None:
    """The mix topic is kept as long as the inputs."""
    service = Shards(tmp_path)
    service.log.append(keyed(phishing(100)))
    service.run(0)
    service.run(1)
    for _ in service.log.compactor().delete(Partition("svc-mix", 0), 1):
        pass

    with pytest.raises(TransportError, match="Keep svc-mix as long as the inputs"):
        service.rebuilt(1)


def test_nothing_is_written_while_nothing_is_new(tmp_path) -> None:
    """A mix without news is no journal record."""
    service = Shards(tmp_path)
    service.log.append(keyed(phishing(100)))
    service.run(0)
    service.run(1)
    service.run(0)
    before = len(service.mixes(0))

    service.run(0)

    assert len(service.mixes(0)) == before


def test_relearn_turns_the_mix_on_and_off(tmp_path) -> None:
    """It is one of the settings that a relearn may change; without one it is refused."""
    service, records = Shards(tmp_path, mix=""), phishing(200)
    service.log.append(keyed(records))
    service.run(0, 1)
    service.mix = "1h"
    with pytest.raises(ConfigError, match="relearn"):
        service.run(0)

    service.relearn()
    service.run(0)
    service.run(1)
    service.run(0)
    assert_predicts_as(service.rebuilt(0).shard.learner, whole(records), records)

    service.mix = ""
    service.relearn()
    service.run(0)
    assert service.rebuilt(0).shard.view().mix is None


def test_the_metrics_show_the_mix(tmp_path) -> None:
    """Peers, their labels, their age, and what was refused."""
    service = Shards(tmp_path)
    service.log.append(keyed(phishing(200)))
    service.run(0)

    registry = service.run(1).registry

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"headwater_mix_{name}", {"shard": "1", **labels})

    assert value("peers") == 1
    assert value("peer_labels") == service.rebuilt(0).shard.learned
    assert (value("age_seconds") or -1) >= 0
    assert value("refused_total", reason="model") == 0


@pytest.mark.parametrize(
    ("shards", "model", "more", "says"),
    [
        (1, "GaussianNB", "", "there is one; remove mix"),
        (2, "KNNClassifier", "", "KNNClassifier does not merge exactly"),
        (
            2,
            "GaussianNB",
            '[drift]\ndetectors = [{on = "error", type = "ADWIN"}]\naction = "reset"\n',
            "restarts the model",
        ),
    ],
)
def test_what_cannot_mix_is_refused_by_name(tmp_path, shards, model, more, says) -> None:
    """Before anything is consumed, saying what to change."""
    service = Shards(tmp_path, 2)
    service.log.append(keyed(phishing(10)))
    service.shards, service.more, service.model = shards, more, f'type = "{model}"'
    with pytest.raises(ConfigError, match=says):
        service.run(0)


@pytest.mark.parametrize("after", [False, True])
def test_a_failure_during_a_mix_costs_nothing(tmp_path, after) -> None:
    """Whether it was committed or not: each prediction once, and the journal is repeatable."""
    service, records = Shards(tmp_path), phishing(300)
    service.log.append(keyed(records))
    service.run(1)
    stop, failing = threading.Event(), list[Failing]()

    def opened() -> Any:
        failing.append(Failing(open_log(service.url), after=after))
        return failing[-1]

    Fleet(service.config, opened, stop, (0,), drain=True).run()

    assert sum(2 - log.left for log in failing) >= 2
    service.rebuilt(0)  # raises where a hash differs
    parts = [Partition("svc-predictions", n) for n in range(4)]
    chunks = service.log.read(service.log.beginning_offsets(parts), service.log.end_offsets(parts))
    ids = [json.loads(value)["id"] for chunk in chunks for value in chunk.values]
    assert sorted(ids, key=int) == [str(i) for i in range(300)]
    assert_predicts_as(service.rebuilt(0).shard.learner, whole(records), records)


@seeds(0.01)
def test_random_events_leave_one_model_of_the_records_that_are_left(tmp_path_factory, seed) -> None:
    """Failures at a mix, lost snapshots and rollbacks, compared with a learner without shards."""
    assert Attack(seed, tmp_path_factory.mktemp("attack")).violations() == []


def test_a_rollback_removes_what_this_shard_learned_and_takes_the_others_again(tmp_path) -> None:
    """What was mixed in within the removed span comes back with the next mix."""
    service, records = Shards(tmp_path), phishing(400)
    service.log.append(keyed(records[:200]))
    service.run(0)
    end = service.log.end_offsets([Partition("svc-journal", 0)])[Partition("svc-journal", 0)]
    service.log.append(keyed(records[200:], 200))
    service.run(1)
    service.run(0)

    service.rollback(0, to=end)
    service.run(0)

    kept = [i for i in range(400) if i < 200 or (murmur2(b"%d" % i) & 0x7FFFFFFF) % 2 == 1]
    model = whole([records[i] for i in kept])
    assert_predicts_as(service.rebuilt(0).shard.learner, model, records)


def test_a_rollback_of_everything_takes_it_from_the_others_too(tmp_path) -> None:
    """The shard publishes that it has learned nothing, over what it had published."""
    service, records = Shards(tmp_path), phishing(200)
    service.log.append(keyed(records))
    service.run(0)
    service.run(1)

    service.rollback(0, to=1)
    service.run(0)
    service.run(1)

    own = [i for i in range(200) if (murmur2(b"%d" % i) & 0x7FFFFFFF) % 2 == 1]
    model = whole([records[i] for i in own])
    assert_predicts_as(service.rebuilt(1).shard.learner, model, records)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda data, parts: [p.replace(b'"parts":1', b'"parts":1000000000') for p in parts],
        lambda data, parts: [parts[0][:-20]],
        lambda data, parts: list(parts_of_size(data, 100)),
        lambda data, parts: [*parts_of_size(data, 1000)[1:], *parts_of_size(data, 1000)],
        lambda data, parts: parts_of_size(zlib.compress(b"x" * 1000), 10_000),
        lambda data, parts: parts_of_size(compressed_twice(data), 10_000),
        lambda data, parts: parts_of_size(of_time(data, 10**400), 10_000),
        lambda data, parts: parts_of_size(of_label(data, "\ud800"), 10_000),
    ],
    ids=["endless", "cut", "small parts", "disordered", "other", "bomb", "time", "surrogate"],
)
def test_whatever_the_topic_holds_a_shard_continues_and_its_journal_is_repeatable(
    tmp_path, wrong
) -> None:
    """What a live shard takes over, a replay reads in the same way."""
    service, records = Shards(tmp_path), phishing(200)
    service.log.append(keyed(records))
    service.run(1)
    data = to_bytes(Statistics(1, NOW, 9, {"": State.join({"0": GaussianNB().to_state()})}))
    parts = [r.value or b"" for r in parts_of(data, Partition("svc-mix", 1), NOW)]
    for value in wrong(data, parts):
        service.log.append([Outgoing("svc-mix", b"other", value, NOW, (), 1)])

    service.run(0)
    service.log.append(keyed(records[:50], 300))
    service.run(0)

    shard = service.rebuilt(0).shard
    assert shard.learned > 0
    assert shard.fingerprint() == service.rebuilt(0).shard.fingerprint()


def parts_of_size(data: bytes, size: int) -> list[bytes]:
    """A file in parts of another size than usual."""
    sha256, count = hashlib.sha256(data).hexdigest(), -(-len(data) // size)
    pieces = [data[i * size : (i + 1) * size] for i in range(count)]
    made = (ModelPart(sha256, i, count, piece) for i, piece in enumerate(pieces))
    return [msgspec.json.encode(part) for part in made]


def compressed_twice(data: bytes) -> bytes:
    """Statistics whose arrays are compressed inside."""
    file = BytesIO()
    np.savez_compressed(file, header=np.zeros(10**6, dtype=np.uint8))
    return zlib.compress(file.getvalue())


def of_time(data: bytes, now: int) -> bytes:
    """The same statistics of another time."""
    state = State.from_bytes(zlib.decompress(data))
    about = {**state.header["about"], "now": now}
    return zlib.compress(State({**state.header, "about": about}, state.arrays).to_bytes())


def of_label(data: bytes, label: str) -> bytes:
    """Statistics with this label."""
    model = GaussianNB()
    model.learn_one({"x": 1.0}, "a")
    header = {**model.to_state().header, "classes": [label]}
    state = State.join({"0": State(header, model.to_state().arrays)})
    return to_bytes(Statistics(1, NOW, 9, {"": state}))


def test_a_clean_stop_while_the_log_is_away_ends_with_a_snapshot(tmp_path) -> None:
    """What was not published is published at the next start."""
    service = Shards(tmp_path)
    service.log.append(keyed(phishing(100)))

    def opened() -> Any:
        return Failing(open_log(service.url), after=False, left=10**6)

    Fleet(service.config, opened, threading.Event(), (0,), drain=True).run()

    assert service.mixes(0) == []
    assert open_store(service.config, 0).newest is not None
    service.run(0)
    assert len(service.mixes(0)) == 1


def test_a_lost_topic_is_left_behind_by_a_relearn_without_the_mix(tmp_path) -> None:
    """It needs the inputs and the last snapshot."""
    service, records = Shards(tmp_path), phishing(200)
    service.log.append(keyed(records))
    for number in (0, 1, 0, 1):
        service.run(number)
    for number in (0, 1):
        for _ in service.log.compactor().delete(Partition("svc-mix", number), 10**6):
            pass
    with pytest.raises(TransportError, match="restore the topic"):
        service.rebuilt(1)

    service.mix = ""
    service.relearn()
    service.run(0, 1)

    own = [i for i in range(200) if (murmur2(b"%d" % i) & 0x7FFFFFFF) % 2 == 1]
    model = whole([records[i] for i in own])
    assert_predicts_as(service.rebuilt(1).shard.learner, model, records)


def test_mixes_of_earlier_settings_are_not_read_again(tmp_path) -> None:
    """So a lost mix topic is left behind by turning the mix off, and on again."""
    service, records = Shards(tmp_path), phishing(200)
    service.log.append(keyed(records))
    for number in (0, 1, 0):
        service.run(number)
    service.mix = ""
    service.relearn()
    for number in (0, 1):
        for _ in service.log.compactor().delete(Partition("svc-mix", number), 10**6):
            pass

    service.mix = "1h"
    service.relearn()
    for number in (0, 1, 0):
        service.run(number)

    view = service.rebuilt(0).shard.view()
    assert view.mix is not None
    assert view.mix.peers[1].learned > 0


def test_an_export_of_a_mixed_model_is_the_merge_without_the_mix(tmp_path) -> None:
    """So it can be imported by a service of one shard."""
    service, records = Shards(tmp_path), phishing(300)
    service.log.append(keyed(records))
    for number in (0, 1, 0):
        service.run(number)
    live = service.rebuilt(0)

    info, data = exported(service.config, live)

    learner = learned(*model_file.from_bytes(data))
    assert learner.fingerprint() == info.fingerprint
    assert isinstance(learner, GaussianNB)
    for x, _ in records[::20]:
        assert learner.predict_proba_one(x) == live.shard.learner.predict_proba_one(x)


def test_a_lost_mix_topic_is_found_before_anything_is_published(tmp_path) -> None:
    """Else new statistics would lie where the journal names older ones."""
    service = Shards(tmp_path)
    service.log.append(keyed(phishing(100)))
    for number in (0, 1, 0):
        service.run(number)
    ends = [Partition("svc-mix", n) for n in (0, 1)]
    before = service.log.end_offsets(ends)
    peer = service.rebuilt(0).shard.mix.peers[1]
    live = service.rebuilt(0)
    live.shard.mix.peers[1] = peer._replace(end=peer.end + 5)
    found = sources(service.config, service.log, 0)
    with closing(service.log.owner("svc", 0, found.inputs)) as owner:
        mixer = Mixer(service.config, service.log, owner, live, found)
        with pytest.raises(TransportError, match="restore the topic"):
            mixer.look()
    assert service.log.end_offsets(ends) == before


def test_what_mixes_is_checked_before_the_journal_begins(tmp_path) -> None:
    """Else the service would have the identity of a model that cannot mix."""
    refused = (
        ('type = "KNNClassifier"', "KNNClassifier does not merge exactly"),
        ('type = "GaussianNB"\nparameters = {half_life = 9}', "GaussianNB with half_life"),
        ('type = "CategoricalNB"\nbins = {strategy = "quantile"}', "fixed edges"),
    )
    service = Shards(tmp_path)
    for model, says in refused:
        service.model = model
        with pytest.raises(ConfigError, match=says):
            build_model(service.config)
    service.model = 'type = "auto"'
    assert mixing_types(build_model(service.config)) == ["MixedNB"]
    service.model = 'type = "GaussianNB"\nmax_state_bytes = 1000'
    config = service.config
    learner = build_model(config)
    with pytest.raises(ConfigError, match=r"1,000 \(\[scale\] mix divides it by 4\)"):
        limited(config.model, learner, config.declared_schema or Schema(()))
