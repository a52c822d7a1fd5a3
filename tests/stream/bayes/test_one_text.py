"""A record of one text is predicted and learned without a block, with the same bits."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stream import ComplementNB, InvalidRecordError, Learner, MultinomialNB
from stream.bayes.multinomial import TokenClassifier
from tests.seed import seeds

WORDS = (
    "free",
    "money",
    "Now",
    "hi",
    "£100",
    "naïve",
    "你好",
    "e\u0301",
    "\ud800",
    "a",
    "the",
    "7",
)
MODELS = (
    MultinomialNB(),
    MultinomialNB(alpha=0.0),
    MultinomialNB(half_life=3.0),
    MultinomialNB(priors={"a": 0.3, "b": 0.7}),
    MultinomialNB(vocabulary="exact"),
    ComplementNB(),
)


def records(seed: int) -> list[tuple[dict[str, Any], str]]:
    """Mostly one text in the same field, with others between them."""
    rng = random.Random(seed)
    out: list[tuple[dict[str, Any], str]] = []
    for _ in range(60):
        text = " ".join(rng.choices(WORDS, k=rng.choice([0, 1, 5, 40])))
        x: dict[str, Any] = {"text": text}
        kind = rng.random()
        if kind < 0.1:
            x = {rng.choice(["other", "text"]): text, "n": rng.randrange(3)}
        elif kind < 0.2:
            x = {"text": rng.choice([None, float("nan"), text])}
        elif kind < 0.25:
            x = {"other": text}
        out.append((x, rng.choice("aabc") if rng.random() < 0.9 else "d"))
    return out


@pytest.mark.parametrize("model", MODELS, ids=repr)
@seeds(0.0075)
def test_calls_for_one_text_give_the_bits_of_a_block(model: TokenClassifier, seed: int) -> None:
    """Each prediction and the state, also after fading, new classes and other records."""
    fast, slow = model.clone(), model.clone()
    for i, (x, y) in enumerate(records(seed)):
        assert fast.predict_proba_one(x) == Learner.predict_proba_one(slow, x)
        w = 2.0 if i % 11 == 0 else 1.0
        fast.learn_one(x, y, w)
        Learner.learn_one(slow, x, y, w)

    assert fast.to_state() == slow.to_state()


def test_truncated_texts_are_counted() -> None:
    """The bound on the tokens of a text."""
    fast, slow = MultinomialNB(), MultinomialNB()
    for _ in range(2):
        fast.learn_one({"text": "a b " * 50_001}, "x")
        Learner.learn_one(slow, {"text": "a b " * 50_001}, "x")

    assert fast.overflows == slow.overflows
    assert fast.overflows["tokens"] == 2
    assert fast.to_state() == slow.to_state()


def test_a_text_in_a_field_of_counts_is_refused() -> None:
    """As in a block, and nothing is learned."""
    model = MultinomialNB()
    model.learn_one({"n": 3}, "x")
    before = model.to_state()

    with pytest.raises(InvalidRecordError, match="'n' expects a number"):
        model.learn_one({"n": "three"}, "x")
    with pytest.raises(InvalidRecordError, match="'n' expects a number"):
        model.predict_proba_one({"n": "three"})
    assert model.to_state() == before


def test_predictions_are_pure() -> None:
    """Of a known field, an unknown one, and before anything was learned."""
    model = MultinomialNB()
    assert model.predict_proba_one({"text": "hi"}) == {}
    model.learn_one({"text": "hi"}, "x")
    before = model.to_state()

    model.predict_proba_one({"text": "hi there"})
    model.predict_proba_one({"another": "hi there"})

    assert model.to_state() == before
