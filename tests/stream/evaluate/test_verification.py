"""A second opinion by river's own loop: 0 for what is right, above 0 for what is not."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice
from math import inf, log, ulp
from random import Random

import numpy as np
import pytest
from river import datasets, forest, linear_model, naive_bayes, preprocessing, tree

from stream import GaussianNB, Learner, MixedNB, MultinomialNB, RiverClassifier
from stream.checks.streams import takeable
from stream.errors import SchemaError
from stream.evaluate import verifier
from stream.evaluate._kernels import losses
from stream.evaluate.progressive import progressive
from stream.evaluate.result import Verification
from stream.evaluate.table import SCORES
from stream.evaluate.verifier import PlainScores, _log
from stream.mixture import Mixture


def verified(dataset, learner: Learner, **options) -> Verification:
    """What the last checkpoint has of river's loop; the others have nothing."""
    *others, last = progressive(dataset, learner, verify=True, **options)
    assert all(checkpoint.verification is None for checkpoint in others)
    assert last.verification is not None
    return last.verification


@pytest.fixture(scope="module")
def phishing() -> list[tuple[dict, bool]]:
    """400 records of river's Phishing."""
    return list(islice(datasets.Phishing(), 400))


@pytest.mark.parametrize("delay", [0, 1, 37])
def test_every_learner_has_rivers_scores_bit_for_bit(learner, phishing, delay) -> None:
    """Each shipped learner: predictions, counts and scores over all windows."""
    taken = takeable(learner)

    found = verified([(taken(x), y) for x, y in phishing], learner, delay=delay, window=100)

    assert found.differences == dict.fromkeys(found.differences, 0.0)
    assert (found.largest, found.first) == (0.0, None)
    assert found.records == found.compared == 400
    assert found.scored == 400 - max(delay, 1)


@pytest.mark.parametrize(
    "model",
    [
        naive_bayes.GaussianNB(),
        tree.HoeffdingTreeClassifier(grace_period=50),
        forest.ARFClassifier(n_models=3, seed=7),
        preprocessing.StandardScaler() | linear_model.Perceptron(),
    ],
    ids=str,
)
def test_rivers_models_have_rivers_scores(phishing, model) -> None:
    """Also a model that draws random numbers, because the copy draws the same."""
    assert verified(phishing, RiverClassifier(model), delay=20).largest == 0.0


def test_electricity_has_rivers_scores(shared_csv) -> None:
    """45,312 records: the fading weights are scaled down once."""
    records = [
        ({k: float(v) for k, v in row.items() if k != "class"}, row["class"])
        for row in shared_csv("elec2/elecNormNew.csv.gz")
    ]

    found = verified(records, GaussianNB(), delay=100)

    assert (found.largest, found.scored) == (0.0, 45_212)


def test_texts_of_many_classes_have_rivers_scores() -> None:
    """40 classes: more than have posteriors in the window of the last records."""
    rng = Random(3)
    classes = [f"c{n}" for n in range(40)]
    records = []
    for _ in range(600):
        y = rng.choice(classes)
        records.append(({"text": f"{y} {rng.choice(classes)} word"}, y))

    assert verified(records, MultinomialNB(), delay=5, window=200).largest == 0.0


@pytest.mark.parametrize(
    "options",
    [
        {"delay": lambda x, _: x["wait"]},
        {"delay": "wait"},
        {"moment": "day", "delay": timedelta(days=2, hours=1)},
        {"moment": "day", "delay": 0},
        {"moment": lambda x: x["wait"], "delay": 3.5},  # times that go back
        {"moment": "wait", "delay": 0},
    ],
    ids=["function", "field", "days", "days, at once", "back", "back, at once"],
)
def test_labels_come_in_the_order_of_their_times(phishing, options) -> None:
    """Delays of each record, dates, and times that go back."""
    rng, first, dated = Random(5), datetime(2024, 3, 1), options.get("moment") == "day"
    records = [
        (
            {
                **x,
                "wait": rng.randrange(30),
                **({"day": first + timedelta(n // 3)} if dated else {}),
            },
            y,
        )
        for n, (x, y) in enumerate(phishing)
    ]

    assert verified(records, GaussianNB(), **options).largest == 0.0


def test_weights_and_missing_labels_are_those_of_the_run(phishing) -> None:
    """A record without a label changes no score, so river's loop does without it."""
    rng = Random(1)
    records = [
        (x, None if rng.random() < 0.2 else y, {"w": rng.choice([0.5, 1.0, 3.0])})
        for x, y in phishing
    ]
    labelled = sum(y is not None for _, y, _ in records)

    found = verified(records, GaussianNB(), delay=10)

    assert (found.largest, found.records) == (0.0, labelled)


def test_a_learner_that_learned_before_is_copied_with_what_it_knows(phishing) -> None:
    """The copy begins where the learner did, not empty."""
    learner = GaussianNB()
    learner.learn_many(*zip(*phishing[:200], strict=True))

    found = verified(phishing[200:], learner, delay=3)

    assert (found.largest, found.scored) == (0.0, 200)


def test_what_experts_predicted_waits_with_the_record(phishing, monkeypatch) -> None:
    """Weights learn from what was predicted then; predicted again at the label they differ."""
    learner, late = Mixture([GaussianNB()]), {"delay": lambda x, _: 60 if x["https"] else 5}

    def learn_features(self: verifier._Compared, x, y, w=1.0) -> None:
        self.learner.learn_one(dict(x), y, w)
        self.learned += 1

    kept = verified(phishing, learner.clone(), **late)
    monkeypatch.setattr(verifier._Compared, "learn_one", learn_features)
    again = verified(phishing, learner.clone(), **late)

    assert (kept.largest, kept.first) == (0.0, None)
    assert again.largest > 1e-3


def test_the_plain_logarithm_is_that_of_the_kernels_and_of_the_library() -> None:
    """To the last bit, and within a unit in the last place."""
    rng = np.random.default_rng(5)
    wide = 10.0 ** rng.uniform(-15, 0, 5_000)
    p = np.concatenate([rng.random(5_000), wide, 1.0 - wide, [1.0, 0.5, 2.0**-52, 1 / 3]])
    p = np.maximum(p, 2.0**-52)

    plain = [_log(value) for value in p.tolist()]

    assert [0.0 - value for value in plain] == losses(p).tolist()
    assert all(abs(a - log(v)) <= ulp(a) for a, v in zip(plain, p.tolist(), strict=True))


def test_an_iterator_is_refused(phishing) -> None:
    """The records are read twice."""
    with pytest.raises(SchemaError, match="verify reads the records twice, and an iterator"):
        progressive(iter(phishing), GaussianNB(), verify=True)


def test_moments_that_river_cannot_add_to_are_refused(phishing) -> None:
    """Without a delay, ours only have to be comparable."""
    records = [({**x, "at": f"{n:04}"}, y) for n, (x, y) in enumerate(phishing)]

    with pytest.raises(SchemaError, match="river adds the delay to the moment; expected a number"):
        verified(records, GaussianNB(), moment="at", delay=0)


class Tilted(GaussianNB):
    """Its answer to one record alone differs from that of its blocks, from record 300 on."""

    asked = 0

    def predict_proba_one(self, x, **_):
        self.asked += 1
        said = super().predict_proba_one(x)
        if self.asked <= 300:
            return said
        return {label: p + (2**-30 if label else -(2**-30)) for label, p in said.items()}


def test_a_learner_whose_blocks_predict_otherwise_is_found(phishing) -> None:
    """The largest difference of a probability, and the record where it began."""
    found = verified(phishing, Tilted(), delay=5)

    assert found.first == 300
    assert found.differences["probability"] == pytest.approx(2**-30, rel=1e-6)
    assert found.largest == found.differences["probability"] > 0.0
    assert found.differences["log_loss"] > 0.0
    assert found.differences["confusion"] == 0.0


class Forgetful(GaussianNB):
    """It learns nothing from the second half when it learns one record at a time."""

    learned = 0

    def learn_one(self, x, y, w=1.0):
        self.learned += 1
        if self.learned <= 200:
            super().learn_one(x, y, w)


def test_a_learner_whose_blocks_learn_otherwise_is_found(phishing) -> None:
    """The record after the first one that was not learned."""
    found = verified(phishing, Forgetful(), delay=1)

    assert found.first == 201
    assert found.largest > 1e-3


@pytest.mark.parametrize(
    "score", [spec.id for spec in SCORES if spec.id not in verifier.AGAINST_BASELINES]
)
def test_each_score_is_compared(phishing, monkeypatch, score) -> None:
    """A metric that takes every 50th prediction for another one differs in each of its scores."""
    honest = PlainScores.update

    def doctored(self, y_true, y_pred, w=1.0):
        if self.scored % 50 == 49:
            low, high = sorted(y_pred.values())
            y_pred = {y_true: low - 1e-9, (not y_true): high + 1e-9}
        honest(self, y_true, y_pred, w)

    monkeypatch.setattr(PlainScores, "update", doctored)
    found = verified(phishing, MixedNB(), delay=10, window=300)

    assert found.differences[score] > 0.0
    assert found.differences["probability"] == 0.0, "only the metric is wrong"


def test_counts_that_differ_are_found(phishing, monkeypatch) -> None:
    """A run that misses a prediction has fewer counts and other scores."""
    from stream.evaluate.quality import Quality

    honest = Quality.score

    def skipping(self, true, predicted, proba, beside):
        first = slice(1 if self.scored else 0, None)
        honest(
            self,
            true[first],
            predicted[first],
            proba[first],
            beside.take(np.arange(len(true))[first]),
        )

    monkeypatch.setattr(Quality, "score", skipping)
    found = verified(phishing, GaussianNB(), delay=7, block_size=100)

    assert found.differences["confusion"] >= 1.0


def test_predictions_without_room_are_covered_by_their_scores(phishing, monkeypatch) -> None:
    """Only so many probabilities are kept; a difference after them still shows in the scores."""
    monkeypatch.setattr(verifier, "MOST_KEPT", 2 * 200)

    good = verified(phishing, GaussianNB(), delay=5, block_size=100)
    bad = verified(phishing, Tilted(), delay=5, block_size=100)

    assert (good.largest, good.compared, good.records) == (0.0, 200, 400)
    assert bad.differences["probability"] == 0.0
    assert 0.0 < bad.largest < inf
