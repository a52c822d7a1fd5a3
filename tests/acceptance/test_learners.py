"""Every learner, served by its class name over a real stream, with a kill -9 in the middle."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from river import datasets

from consumers.config import load
from consumers.config.learner import PRESETS, model_types
from consumers.shard.models import build
from consumers.transports import open_log
from stream.evaluate.progressive import progressive
from tests.acceptance.test_kill import DELAY, Files, kill_when
from tests.calling import call
from tests.consumers.feeds import CONFIG, Labelled

PHISHING = dict.fromkeys(sorted(next(iter(datasets.Phishing()))[0]))
NUMBERS = dict.fromkeys(PHISHING, "numeric")
CATEGORIES = dict.fromkeys(PHISHING, "categorical")
MIXED = dict(zip(PHISHING, ["categorical", "numeric"] * 5, strict=False))
TEXT = {"text": "text"}
COUNTS = dict(NUMBERS)  # of half points
FEEDS: dict[str, tuple[dict[str, str], str]] = {
    "auto": (MIXED, ""),
    "BernoulliNB": (TEXT, "binarize = 0.5"),
    "CategoricalBayes": (CATEGORIES, "alpha = 0.5"),
    "CategoricalNB": (CATEGORIES, ""),
    "ComplementNB": (TEXT, ""),
    "DecisionTreeClassifier": (MIXED, "window = 500"),
    "GaussianBayes": (NUMBERS, 'covariance = "pooled"'),
    "GaussianNB": (NUMBERS, "half_life = 500"),
    "KNNClassifier": (MIXED, "window = 200\nn_neighbors = 3"),
    "LogisticRegression": (MIXED, "half_life = 500"),
    "Calibrated": (MIXED, 'learner = {type = "GaussianNB", half_life = 500}'),
    "MixedBayes": (MIXED, "conditional = true"),
    "MixedNB": (MIXED, ""),
    "PerKeyNB": (MIXED, f'per = "{next(iter(PHISHING))}"'),
    "PoissonNB": (COUNTS, "a = 1"),
    "Mixture": (MIXED, 'experts = ["MixedNB", {type = "GaussianNB", half_life = 500}]'),
    "MultinomialNB": (TEXT, 'vocabulary = "exact"'),
    "TargetEncoded": (
        MIXED,
        f'fields = ["{next(iter(PHISHING))}"]\nmax_categories = 1\nlearner = "LogisticRegression"',
    ),
    "SpamScorer": (TEXT, "half_life = 500"),
}


def test_every_type_a_configuration_takes_is_tried_here() -> None:
    """A learner that is added to the one is added to the other."""
    assert sorted(FEEDS) == sorted(set(model_types()) - set(PRESETS))


def records_of(features: dict[str, str], shared_csv: Any) -> Labelled:
    """Phishing, or the first thousand messages, as the service decodes them."""
    if features is TEXT:
        rows = shared_csv("sms_spam/sms_spam.csv.gz")[:1000]
        return [({"text": row["text"]}, row["label"]) for row in rows]
    found = []
    for x, y in datasets.Phishing():
        x = {k: 2 * (v + 1) for k, v in x.items()} if features is COUNTS else x
        values = {k: str(v) if features[k] == "categorical" else float(v) for k, v in x.items()}
        found.append((values, str(y)))
    return found


@pytest.mark.parametrize("name", FEEDS)
def test_killed_and_restarted_learner_is_that_of_its_journal(name, tmp_path, shared_csv) -> None:
    """Each prediction once, the state bit for bit, the score that of progressive validation."""
    features, parameters = FEEDS[name]
    records = records_of(features, shared_csv)
    text = CONFIG.format(
        transport="sqlite:log.db",
        features="\n".join(f'{k} = "{v}"' for k, v in features.items()),
        max_records=50,
        every_records=300,
        max_bytes=2**24,
        guarantee="exactly_once",
        model=f'type = "{name}"\n{parameters}',
        more="",
    )
    files = Files(tmp_path, records, text, first=len(records) * 3 // 4)
    kill_when(files, lambda: files.predictions() >= len(records) // 2)
    files.send_rest()
    call("run", files.config, "--drain", code=0)

    with closing(open_log(f"sqlite:{files.database}")) as log:
        said = [json.loads(value) for value in files.values(log, "svc-predictions")]
        live = files.rebuilt(log)
    _, state = next(files.store.newest(lambda _: None))
    assert [p["id"] for p in said] == [str(i) for i in range(len(records))]
    assert live.shard.fingerprint() == state.fingerprint()
    learner = build(load(files.config).model)
    *_, expected = progressive(records, learner, delay=DELAY)
    view = live.shard.view()
    assert np.array_equal(view.quality.confusion, expected.confusion)
    assert view.quality.scores == expected.scores
