"""Fewer shards with the merged models of the old ones, over inputs that have expired."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from consumers.backfill.joined import check_joinable, joined
from consumers.base.errors import ConfigError
from consumers.base.records import Outgoing
from consumers.service.importing import import_model
from consumers.snapshots.store import open_store
from consumers.timetravel.old_shards import load_old_shards
from stream import GaussianNB
from tests.consumers.feeds import NOW
from tests.consumers.snapshots.test_snapshots_trimmed import Trimmed
from tests.consumers.timetravel.moved import FEATURES, PARTITIONS, Service, keyed
from tests.seed import seeds


def merged(service: Service, shards: int, log: object = None) -> tuple[int, int]:
    """Move it as the command does with --merge; how many records wait and are lost."""
    old = load_old_shards(service.config(), log or service.log, shards, None)
    check_joinable(old)
    service.log.create_topic(old.new.journal_topic, shards)
    old.close(NOW, "fewer")
    waiting = lost = 0
    for number in range(shards):
        new, store = joined(old, number), open_store(old.new, number)
        begin = old.new, service.log, new.found, store, new.model
        import_model(*begin, now=NOW, new_journal=True, history=new.history)
        waiting, lost = waiting + new.waiting, lost + new.lost
    service.shards, service.journal = shards, old.new.journal_topic
    return waiting, lost


def good(first: int, end: int) -> list[Outgoing]:
    """Records that can be decoded."""
    return [r for r in keyed(first, end) if int(r.key or b"0") % 20]


def held_back(records: list[Outgoing], random: Random) -> tuple[list[Outgoing], list[Outgoing]]:
    """The records that come now and those that come later: of some ids the label, of others the
    observation."""
    ids = sorted({r.key for r in records})
    late = {id_: random.choice(("obs", "ans")) for id_ in random.sample(ids, len(ids) // 5)}
    now = [r for r in records if late.get(r.key) != r.topic]
    then = [r for r in records if late.get(r.key) == r.topic]
    return now, [r._replace(timestamp=r.timestamp + 5_000) for r in then]


def learned(records: list[Outgoing], shards: int, number: int) -> GaussianNB:
    """What a shard learns, in a loop over the records: the oracle."""
    model, values, labels = GaussianNB(), {}, {}
    for r in records:
        if (r.partition or 0) % shards == number:
            (labels if r.topic == "ans" else values)[r.key] = json.loads(r.value or b"")
    for key in sorted(values.keys() & labels.keys()):
        row = {name: values[key][name] for name in FEATURES}
        model.learn_one(row, labels[key]["label"])
    return model


@seeds(0.015)
def test_merged_service_has_learned_what_the_old_shards_have(tmp_path_factory, seed: int) -> None:
    """Each labelled record once, also where the counterpart comes after the move; the inputs need
    only what waits."""
    random = Random(seed)
    old, new = random.choice([(4, 2), (8, 4), (8, 1), (2, 1), (3, 1), (8, 2)])
    directory = tmp_path_factory.mktemp("svc")
    service = Service(directory / "svc", random.choice(("memory", "sqlite")), old)
    expired, kept = good(0, 100), good(100, 200)
    now, then = held_back(kept, random)
    service.log.append(expired)
    service.run(random.choice((9, 50)))
    firsts = service.log.end_offsets(sorted({*service.inputs()}))
    service.log.append(now)
    service.run(random.choice((9, 50)))
    before = service.predictions()

    assert merged(service, new, Trimmed(service.log, firsts)) == (len(then), 0)
    last = good(200, 240)
    service.log.append(then)
    service.log.append([r._replace(timestamp=r.timestamp + 10_000) for r in last])
    service.run(random.choice((9, 50)))

    made = service.predictions()
    assert made.items() >= before.items()
    assert len(made) == 240 - 12
    for number, live in enumerate(service.rebuilt()):
        oracle = learned([*expired, *kept, *last], new, number)
        model = live.shard.learner
        assert model.predict_proba_one({}) == oracle.predict_proba_one({}), "the counts"
        for x in (dict.fromkeys(FEATURES, 0.0), {FEATURES[0]: 1.0}, {FEATURES[3]: -1.0}):
            mine, theirs = model.predict_proba_one(x), oracle.predict_proba_one(x)
            assert mine == pytest.approx(theirs, rel=1e-9)


def test_what_waits_and_has_expired_is_counted(tmp_path: Path) -> None:
    """Its label finds nothing later; all else continues."""
    service = Service(tmp_path / "svc", "memory", 2)
    service.log.append([r for r in keyed(0, 60) if r.topic == "obs"])
    service.run()
    firsts = service.log.end_offsets(sorted({*service.inputs()}))
    assert merged(service, 1, Trimmed(service.log, firsts)) == (0, 57)
    service.log.append([r for r in keyed(0, 60) if r.topic == "ans"])
    service.run()
    assert service.rebuilt()[0].shard.learned == 0


@pytest.mark.parametrize(
    ("old", "new", "model", "message"),
    [
        (8, 3, 'type = "GaussianNB"', "of 8 shards it can make 1, 2, 4"),
        (2, 4, 'type = "GaussianNB"', "of 2 shards it can make 1"),
        (2, 1, 'type = "KNNClassifier"\nwindow = 60', "does not merge exactly"),
        (2, 1, 'type = "GaussianNB"\nhalf_life = 50', "half_life"),
    ],
)
def test_what_cannot_be_merged_is_refused(
    tmp_path: Path, old: int, new: int, model: str, message: str
) -> None:
    """Before anything is closed."""
    service = Service(tmp_path / "svc", "memory", old, model)
    service.log.append(keyed(0, 40))
    service.run()
    with pytest.raises(ConfigError, match=message):
        check_joinable(load_old_shards(service.config(), service.log, new, None))
    assert old <= PARTITIONS
