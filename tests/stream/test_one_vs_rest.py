"""A river classifier of two classes, once for each class."""

from __future__ import annotations

from typing import Any

import pytest
from river import linear_model, multiclass, preprocessing

from stream import Mixture, RiverClassifier
from stream.compat import build_river
from stream.compat.transformers import OneVsRest, one_vs_rest

LABELS = ("ham", "spam", "news")
RECORDS = [({"a": float(i % 3), "b": 0.1 * i}, LABELS[i % 3]) for i in range(90)]
TWO_CLASSES = ("PAClassifier", "Perceptron", "LogisticRegression", "ALMAClassifier", "AdPredictor")


@pytest.mark.parametrize("name", TWO_CLASSES)
def test_classifier_of_two_classes_learns_three(name: str) -> None:
    """Each label has a probability; without it the third one is rejected."""
    learner = RiverClassifier(build_river(f"linear_model.{name}", every_class=True))
    learner.learn_many(*zip(*RECORDS, strict=True))
    found = learner.predict_proba_one(RECORDS[0][0])

    assert tuple(found) == LABELS
    assert sum(found.values()) == pytest.approx(1.0)
    assert learner.max_classes > 2


def test_predictions_are_those_of_rivers_own_wrapper() -> None:
    """Bit by bit, and the transformers before it are there once."""
    scaler, inner = preprocessing.StandardScaler(), linear_model.LogisticRegression()
    ours = one_vs_rest(scaler.clone() | inner.clone())
    theirs = scaler | multiclass.OneVsRestClassifier(inner)
    for x, y in RECORDS:
        assert ours.predict_proba_one(x) == theirs.predict_proba_one(x)
        ours.learn_one(x, y)
        theirs.learn_one(x, y)

    assert str(ours) == "StandardScaler | OneVsRest(LogisticRegression)"


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("tree.HoeffdingTreeClassifier", {}),
        ("multiclass.OneVsRestClassifier", {"classifier": "river:linear_model.Perceptron"}),
        ("ensemble.BaggingClassifier", {"model": "river:naive_bayes.GaussianNB"}),
    ],
)
def test_classifier_of_several_classes_stays_as_it_is(
    name: str, parameters: dict[str, Any]
) -> None:
    """Its state is then that of earlier versions."""
    model = build_river(name, parameters, every_class=True)

    assert type(model).__name__ == name.rpartition(".")[2]


def test_ensemble_of_classifiers_of_two_classes_is_wrapped_whole() -> None:
    """An ensemble knows as many classes as its model."""
    model = build_river(
        "ensemble.BaggingClassifier",
        {"model": "river:linear_model.LogisticRegression", "n_models": 2},
        every_class=True,
    )

    assert isinstance(model, OneVsRest)


def test_weight_of_a_record_reaches_each_classifier() -> None:
    """Where it takes one; where not, it is counted as ignored."""
    heavy, light, unaware = (
        RiverClassifier(build_river(f"linear_model.{name}", every_class=True))
        for name in ("LogisticRegression", "LogisticRegression", "PAClassifier")
    )
    for x, y in RECORDS[:9]:
        heavy.learn_one(x, y, w=3.0)
        light.learn_one(x, y)
        unaware.learn_one(x, y, w=3.0)

    x = RECORDS[0][0]
    assert heavy.predict_proba_one(x) != light.predict_proba_one(x)
    assert (heavy.overflows["weights"], unaware.overflows["weights"]) == (0, 9)


def test_expert_of_a_mixture_learns_every_class() -> None:
    """One expert of two classes would bound the whole mixture."""
    name = "river:linear_model.Perceptron"
    bounded = Mixture(["GaussianNB", name])
    mixture = Mixture(["GaussianNB", {"type": name, "every_class": True}])
    mixture.learn_many(*zip(*RECORDS, strict=True))

    assert (bounded.max_classes, tuple(mixture.classes)) == (2, LABELS)


def test_state_of_every_class_continues_where_it_was_saved() -> None:
    """Through the bytes of the pickle."""
    saved, loaded = (
        RiverClassifier(build_river("linear_model.Perceptron", every_class=True), True)
        for _ in "12"
    )
    saved.learn_many(*zip(*RECORDS[:50], strict=True))
    loaded.load_state(saved.to_state())
    for learner in (saved, loaded):
        learner.learn_many(*zip(*RECORDS[50:], strict=True))
    xs = [x for x, _ in RECORDS]

    assert loaded.predict_proba_many(xs) == saved.predict_proba_many(xs)
