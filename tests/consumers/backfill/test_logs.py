"""Histories in the input topics: the model, what still waits, and the service after them."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import strategies as st

from consumers.backfill.learn import learned
from consumers.base.errors import ConfigError
from consumers.base.records import Outgoing
from consumers.service.recovery import rebuild, sources
from consumers.snapshots.store import open_store
from tests.consumers import feeds
from tests.consumers.backfill.histories import (
    FEATURES,
    backfilled,
    begun,
    fits,
    plan,
    same_up_to_rounding,
    written,
)
from tests.consumers.feeds import NOW
from tests.seed import seeds

N = 400
KNN = 'type = "KNNClassifier"\nwindow = 50'
SPLITS = st.integers(20, 500)


@pytest.fixture
def service(make_service):
    """A service with a hostile history on disk, where other processes find it."""
    service = make_service("sqlite")
    written(service, N, seed=1)
    return service


@pytest.fixture(scope="module")
def history(own_services):
    """The same for all examples of a property, which only read it."""
    with own_services() as make_service:
        service = make_service("sqlite")
        written(service, N, seed=1)
        yield service


@pytest.fixture(scope="module")
def live(own_services):
    """A service that has learned the same history record by record."""
    with own_services() as make_service:
        service = make_service()
        written(service, N, seed=1)
        service.run(features=FEATURES, max_records=5000)
        return service.rebuilt(features=FEATURES, max_records=5000).shard


@seeds(0.03, size=SPLITS)
def test_any_splits_in_any_order_give_what_a_service_learns(history, live, size, seed) -> None:
    """Early and late labels, duplicates and garbage: all as in the service. Where splits end
    changes at most the last digits, and the order in which they are learned changes nothing."""
    of = plan(history, size=size)
    found = learned(of, fits(of))
    again = learned(of, fits(of, seed))

    assert again.model.data == found.model.data
    assert found.total("learned") == live.learned
    assert found.total("observations") == live.view().observations
    same_up_to_rounding(learner_of(found), live.learner)


def learner_of(found):
    """The learner of a model file."""
    from consumers.snapshots import model_file
    from consumers.snapshots.exported import learned as loaded

    return loaded(*model_file.from_bytes(found.model.data))


@pytest.mark.parametrize("model", [KNN, 'type = "GaussianNB"\nhalf_life = 100'])
def test_model_that_does_not_merge_learns_all_records_in_order(make_service, model) -> None:
    """Bit for bit the model of a service that ran from the beginning."""
    service, other = make_service("sqlite"), make_service()
    for each in (service, other):
        written(each, N, seed=2)
    other.run(features=FEATURES, model=model)
    of = plan(service, model=model, size=50)
    found = learned(of, fits(of))

    assert of.job.manifest.ordered
    assert len(of.job.manifest.splits) == 1
    expected = other.rebuilt(features=FEATURES, model=model).shard.learner.fingerprint()
    assert found.model.info.fingerprint == expected


@pytest.mark.parametrize("share", [0.3, 0.62, 0.9])
@pytest.mark.parametrize("as_of", [0, -20_000, 15_000])
def test_service_continues_where_the_history_ends(make_service, service, share, as_of) -> None:
    """Each observation is either in the history or predicted, each label is learned once, and the
    labels of observations of the history are not scored."""
    until = NOW + int(N * share) * 1000
    found = backfilled(service, until=until, as_of=until + as_of, size=60)
    view = service.run(features=FEATURES)
    whole = make_service()
    written(whole, N, seed=1)
    whole.run(features=FEATURES)
    expected = whole.rebuilt(features=FEATURES)
    shard = service.rebuilt(features=FEATURES).shard
    starts = dict(found.history.starts or {})
    later = [p for p in places(whole) if p[2] >= starts[p[:2]]]

    assert places(service) == later
    assert found.total("learned") + view.learned == expected.shard.learned
    same_up_to_rounding(shard.learner, expected.shard.learner)
    scored = view.quality.scores["all"].scored
    assert scored + view.quality.unscored == view.learned
    assert view.quality.unscored > 0 or as_of > 0


def places(service) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of each observation that was predicted."""
    found = [json.loads(value)["position"] for _, _, value in service.predictions()]
    return sorted((p["topic"], p["partition"], p["offset"]) for p in found)


def test_replay_snapshot_and_restart_give_the_same_bits(service) -> None:
    """What waited at the end of the history is part of the journal, as the model is."""
    until = NOW + 200_000
    found = backfilled(service, until=until, size=70)
    service.run(features=FEATURES, stop_after=2, every_records=60)
    service.run(features=FEATURES, every_records=60)
    config = service.config(features=FEATURES)
    at, store = sources(config, service.log), open_store(config, 0)
    end = service.ends("svc-journal")[0]
    by_snapshot = rebuild(config, service.log, at, store, end=end)
    alone = rebuild(config, service.log, at, None, end=end)

    assert found.waiting > 0
    assert by_snapshot.replayed < alone.replayed
    assert by_snapshot.shard.fingerprint() == alone.shard.fingerprint()
    counts = Counter(key for _, key, _ in service.predictions())
    assert set(counts.values()) <= {1}


def test_same_history_again_changes_nothing(service) -> None:
    """After an interruption the command is repeated. Another history is refused."""
    until = NOW + 200_000
    backfilled(service, until=until, size=70)
    of = plan(service, until=until, size=70)
    same = learned(of, fits(of))

    assert not begun(service, same)
    with pytest.raises(ConfigError, match="began with another model"):
        backfilled(service, until=until + 50_000, size=70)


def test_label_of_an_observation_after_the_history_waits(make_service) -> None:
    """It came early: before the end of the history, its observation after it."""
    service = make_service("sqlite")
    feeds.fill(service.log, feeds.phishing(60), delay=5)
    service.log.append(
        [
            Outgoing("ans", b"late", b'{"id":"late","label":true}', NOW + 300, (), 0),
            Outgoing("obs", b"late", b'{"id":"late","a":1}', NOW + 9000, (), 0),
        ]
    )
    features = tuple(sorted(feeds.phishing(1)[0][0]))
    found = backfilled(service, until=NOW + 5000, size=25, features=(*features, "a"))
    view = service.run(features=(*features, "a"))

    assert found.waiting == 1
    assert found.total("learned") == 60
    assert view.learned == 1
    assert view.quality.unscored == 0
