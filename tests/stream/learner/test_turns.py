"""One thread at a time: who breaks it gets a RuntimeError, and nothing is learned by halves."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from stream import (
    GaussianNB,
    KNNClassifier,
    Learner,
    LogisticRegression,
    MixedNB,
    Mixture,
    MultinomialNB,
)
from stream.learner.turns import Turns

X = {"a": 1.0}


def in_the_middle(
    monkeypatch: Any, model: Learner, first: Callable[[], Any], second: Callable[[], Any]
) -> list[BaseException | None]:
    """Runs `second` in another thread while `first` runs; the errors of both."""
    errors: list[BaseException | None] = [None, None]
    execute = model._execute

    def attempt(i: int, call: Callable[[], Any]) -> None:
        try:
            call()
        except RuntimeError as error:
            errors[i] = error

    def interrupted(*given: Any) -> None:
        monkeypatch.setattr(model, "_execute", execute)
        thread = Thread(target=attempt, args=(1, second))
        thread.start()
        thread.join()
        execute(*given)

    monkeypatch.setattr(model, "_execute", interrupted)
    attempt(0, first)
    return errors


@pytest.fixture(params=[MixedNB(), LogisticRegression(), Mixture(["GaussianNB"])])
def model(request) -> Learner:
    """With two classes."""
    made = request.param.clone()
    made.learn_many([{"a": 0.0}, {"a": 2.0}], ["p", "q"])
    return made


def test_use_while_another_thread_learns_is_refused(model, monkeypatch) -> None:
    """It was a ValueError or an IndexError, or nothing."""
    learn, predict = lambda: model.learn_one(X, "q"), lambda: model.predict_proba_one(X)
    for second in (learn, predict):
        twin = model.clone().load_state(model.to_state())
        errors = in_the_middle(monkeypatch, model, learn, second)
        twin.learn_one(X, "q")

        assert errors[0] is None
        assert "in one thread at a time" in str(errors[1])
        assert model.to_state() == twin.to_state()


def test_learning_while_another_thread_predicts_is_refused(model, monkeypatch) -> None:
    """Nothing is learned, and the prediction is right."""
    before = model.to_state()
    errors = in_the_middle(
        monkeypatch, model, lambda: model.predict_proba_one(X), lambda: model.learn_one(X, "q")
    )

    assert errors[0] is None
    assert "in one thread at a time" in str(errors[1])
    assert model.to_state() == before
    model.learn_one(X, "q")


@pytest.mark.parametrize("made", [GaussianNB(), KNNClassifier(), MultinomialNB()])
def test_record_without_a_block_is_refused_while_another_thread_learns(made, monkeypatch) -> None:
    """Such calls have a way of their own."""
    x = {"a": "free money"} if isinstance(made, MultinomialNB) else {"a": 1.0}
    model = made.clone()
    model.learn_many([x, x], ["p", "q"])
    for call in (lambda: model.predict_proba_one(x), lambda: model.learn_one(x, "q")):
        first = lambda: model.learn_many([x], ["p"])  # noqa: E731
        errors = in_the_middle(monkeypatch, model, first, call)

        assert errors[0] is None
        assert "in one thread at a time" in str(errors[1])


def test_several_threads_may_predict(model, monkeypatch) -> None:
    """At the same time."""
    predict = lambda: model.predict_proba_one(X)  # noqa: E731

    assert in_the_middle(monkeypatch, model, predict, predict) == [None, None]


def test_record_that_is_refused_gives_the_turn_back(model) -> None:
    """An error ends a turn too."""
    for _ in range(2):
        with pytest.raises(ValueError, match="label"):
            model.learn_one(X, 1)
    model.learn_one(X, "q")


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, copy.copy, lambda t: pickle.loads(pickle.dumps(t))]
)
def test_copy_is_used_by_nobody(copied) -> None:
    """Of a learner that is in use."""
    turns = Turns()
    with turns.learning:
        other = copied(turns)
        with other.learning:
            pass
        with other.predicting, pytest.raises(RuntimeError), turns.learning:
            pass
