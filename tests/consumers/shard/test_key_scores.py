"""Scores of keys in a service: those of its published predictions, also after stops and replays."""

from __future__ import annotations

import json

import numpy as np
import pytest

from consumers.config import parse
from consumers.service.warm_up import compile_kernels
from consumers.snapshots.format import from_bytes
from tests.consumers.feeds import config_text, fill
from tests.oracles.key_scores import KeyTwin

FEATURES = ('tenant = "categorical"\na', "b")
PER = 'per = "tenant"'
CHALLENGED = """
[[challenger]]
name = "plain"
type = "MixedNB"
[promotion]
rule = "e_value"
threshold = 1.5
"""


def tenants(n: int, keys: int = 9, seed: int = 1):
    """Records of tenants, with their labels; those of tenant 0 mean nothing."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        k, c = min(int(rng.zipf(1.4)) - 1, keys - 1), int(rng.integers(2))
        a = float(rng.normal(3 * c if k else 0))
        out.append(({"tenant": f"t{k}", "a": a, "b": float(rng.normal(k))}, "no" if c else "yes"))
    return out


def published(service, records) -> KeyTwin:
    """The twin of all predictions that the service wrote, in the order of their labels."""
    made = {}
    for _, key, value in service.predictions():
        document = json.loads(value)
        made[key.decode()] = document["prediction"], dict(document["probabilities"])
    twin = KeyTwin()
    for i, (x, label) in enumerate(records):
        predicted, proba = made[str(i)]
        if predicted is not None:
            twin.add(x["tenant"], label, predicted, proba.get(label, 0.0))
    return twin


def test_page_has_the_scores_of_what_was_published(make_service) -> None:
    """Counted from the topic of predictions and the labels, as an operator could."""
    service, records = make_service(), tenants(900)
    fill(service.log, records)
    view = service.run(features=FEATURES, model=PER)
    twin, found = published(service, records), view.keys.view

    assert found.per == "tenant"
    assert (found.keys, found.compared) == (len(twin.heard()), len(twin.compared()))
    assert found.compared > 5
    expected = twin.worst()
    assert [s.key for s in found.worst] == [row[0] for row in expected]
    assert found.worst[0].key == "t0"
    for score, row in zip(found.worst, expected, strict=True):
        assert score.scored == row[1]
        assert (score.accuracy, score.log_loss, score.least) == pytest.approx(row[2:], rel=1e-9)
    assert view.overflows["scored_keys"] == 0


@pytest.mark.parametrize("more", ["", CHALLENGED], ids=["alone", "challenged"])
def test_scores_survive_stops_and_replays(make_service, more) -> None:
    """The state to the bit, from snapshots and from the journal (I2), whatever the size of commits
    (I1), and whoever is champion."""
    whole, cut = make_service(), make_service()
    records, given = tenants(700), {"features": FEATURES, "model": PER, "more": more}
    for service in (whole, cut):
        fill(service.log, records)
    view = whole.run(max_records=1000, **given)
    cut.run(max_records=13, stop_after=30, every_records=100, **given)
    cut.run(max_records=29, stop_after=9, every_records=100, **given)
    last = cut.run(**given)

    assert len(cut.snapshots()) > 1
    assert view.keys.view == last.keys.view
    ran = from_bytes(cut.snapshots()[-1].read_bytes())[1]
    assert cut.rebuilt(**given).shard.fingerprint() == ran.fingerprint()
    assert whole.rebuilt(**given).shard.view().keys.view == view.keys.view


def test_scores_are_those_of_the_champion(make_service) -> None:
    """If a challenger without keys is champion, its own."""
    service, records = make_service(), tenants(600)
    fill(service.log, records)
    given = {"features": FEATURES, "model": PER, "more": CHALLENGED.split("[promotion]")[0]}
    service.run(**given)
    shard = service.rebuilt(**given).shard
    before = shard.view().keys.view
    shard.set_challengers(shard.challenger_set, champion="plain")
    after = shard.view().keys.view

    assert (before.per, before.keys) == (after.per, after.keys)
    assert before.worst != after.worst


def test_services_without_keys_have_no_scores_of_keys(make_service) -> None:
    """Nor a bound for them."""
    service = make_service()
    fill(service.log, tenants(60))
    view = service.run(features=FEATURES, model='type = "MixedNB"')

    assert view.keys is None
    assert "scored_keys" not in view.overflows


def test_nothing_is_compiled_after_the_warm_up(make_service, tmp_path) -> None:
    """The first page would wait for it, and so would the loop."""
    from numba.core import event

    service = make_service()
    fill(service.log, tenants(200))
    text = config_text(service.url, FEATURES, model=PER)
    compile_kernels(parse(text, directory=tmp_path), lambda line: None)
    with event.install_recorder("numba:compile") as compiled:
        view = service.run(features=FEATURES, model=PER)
        assert view.keys.view.compared > 0

    assert compiled.buffer == []
