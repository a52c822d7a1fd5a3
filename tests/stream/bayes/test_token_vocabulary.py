"""Exact and hashed vocabularies of the learners of token counts, and the names they give."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream import MultinomialNB, NotLearnedError, SchemaError, State, StateError
from stream.checks import check_laws
from stream.text import BUCKETS, MAX_TOKENS, bucket
from stream.text.bags import Vocabulary

MESSAGES = [
    ({"text": "Free money! Call now"}, "spam"),
    ({"text": "are you home"}, "ham"),
    ({"text": "call me at home", "home": 2}, "ham"),
    ({"text": "WIN £100 now!!!", "note": None}, "spam"),
]
ONE_BUCKET = ("golini", "falore")


def learned(**parameters: Any) -> MultinomialNB:
    """A model that learned `MESSAGES`."""
    model = MultinomialNB(**parameters)
    for x, y in MESSAGES:
        model.learn_one(x, y)
    return model


def test_exact_vocabulary_says_what_the_hashed_one_says() -> None:
    """Where no two tokens share a bucket, the order of the sum apart."""
    exact, hashed = learned(vocabulary="exact"), learned()
    for x in ({"text": "free home call"}, {"home": 3}, {}, {"text": "zebra money", "£": 0.5}):
        assert exact.predict_proba_one(x) == pytest.approx(hashed.predict_proba_one(x), rel=1e-12)

    assert exact.n_tokens == hashed.n_tokens
    assert exact.counts("home") == hashed.counts("home") == {"spam": 0.0, "ham": 4.0}


def test_tokens_that_share_a_bucket_are_one_hashed_and_two_exact() -> None:
    """A collision: the hashed model cannot tell them apart, and its explanation says so."""
    one, other = ONE_BUCKET
    assert bucket(one) == bucket(other)
    for model in (MultinomialNB(), MultinomialNB(vocabulary="exact")):
        model.learn_one({"text": one}, "a")
        model.learn_one({"text": other}, "b")
        why = model.explain_one({"text": f"{one} {other}"}, "a", "b")
        apart = model.vocabulary == "exact"

        assert model.n_tokens == (2 if apart else 1)
        assert (model.counts(one)["b"] == 0.0) == apart
        assert set(why.contributions) == {
            "(prior)",
            *((one, other) if apart else (f"{other} or {one}",)),
        }


@pytest.mark.parametrize("vocabulary", ["hashed", "exact"])
def test_explanation_names_the_tokens_of_the_record(vocabulary: Any) -> None:
    """From texts and counts; strangers have no share, and shares of one name are one."""
    model = learned(vocabulary=vocabulary)
    why = model.explain_one({"text": "Free home, zebra", "home": 2, "money": 1}, "spam", "ham")

    assert set(why.contributions) == {"(prior)", "free", "home", "money"}
    assert sum(why.contributions.values()) == why.log_odds
    assert why.contributions["free"] > 0 > why.contributions["home"]
    assert why.contributions["home"] == pytest.approx(
        3 * model.explain_one({"home": 1}, "spam", "ham").contributions["home"]
    )


def test_linear_view_gives_the_posterior_of_two_classes() -> None:
    """002: log-odds = b + w·x, so the logistic of it is the posterior; names are tokens."""
    model = learned(vocabulary="exact", alpha=0.5)
    model.learn_one({"text": "ok"}, "other", w=3.0)
    view = model.linear_view("spam", "ham")
    for x in ({"free": 2, "home": 1}, {"call": 1}, {"now": 3.5, "ok": 1}, {}):
        p = model.predict_proba_one(x)
        line = view.bias + sum(n * view.weights[token] for token, n in x.items())

        assert 1 / (1 + exp(-line)) == pytest.approx(p["spam"] / (p["spam"] + p["ham"]), rel=1e-12)
    assert (view.label, view.against) == ("spam", "ham")
    assert sorted(view.weights) == model.features


def test_linear_view_of_a_hashed_vocabulary_names_buckets() -> None:
    """The same weights, under the number of the bucket."""
    exact, hashed = learned(vocabulary="exact").linear_view(), learned().linear_view()

    assert hashed.weights == pytest.approx(
        {f"bucket {bucket(token)}": w for token, w in exact.weights.items()}
    )
    assert hashed.bias == exact.bias


def test_linear_view_of_one_class_is_refused() -> None:
    """There is nothing to compare it with."""
    model = MultinomialNB()
    model.learn_one({"text": "alone"}, "one")

    with pytest.raises(NotLearnedError, match="needs two classes"):
        model.linear_view()


def test_token_beyond_the_bound_is_no_evidence_and_counted() -> None:
    """Once a learned record, by calls of one record and by blocks; asking counts nothing."""
    xs = [{"text": t} for t in ("a b", "a c", "c d c", "b d")]
    single, block = (MultinomialNB(vocabulary="exact", max_tokens=2) for _ in range(2))
    for x in xs:
        single.predict_proba_one({"text": "never"})
        single.learn_one(x, x["text"][0])
    block.learn_many(xs, [x["text"][0] for x in xs])

    assert single.features == ["a", "b"]
    assert single.overflows["vocabulary"] == 4  # c; c, d; d
    assert single.fingerprint() == block.fingerprint()
    assert single.predict_proba_one({"text": "c d"}) == single.predict_proba_one({})
    assert single.to_state().header["inner"]["tokens"]["overflow"] == 4


def test_text_cut_short_is_counted_in_an_exact_vocabulary_too() -> None:
    """Once a learned text."""
    model = MultinomialNB(vocabulary="exact")
    long = {"text": "a " * MAX_TOKENS + "beyond"}
    model.predict_proba_one(long)
    model.learn_one(long, 0)

    assert model.overflows == {"classes": 0, "tokens": 1, "fields": 0, "vocabulary": 0}
    assert model.counts("a") == {0: MAX_TOKENS}
    assert model.features == ["a"]


@pytest.mark.parametrize("vocabulary", ["hashed", "exact"])
def test_unlearning_gives_tokens_and_their_places_back(vocabulary: Any) -> None:
    """Tokens nobody has any more were never learned; the state is that before, to the bit."""
    model = learned(vocabulary=vocabulary, max_tokens=30)
    before, n_tokens = model.fingerprint(), model.n_tokens
    for x in ({"text": "call new money", "free": 1}, {"text": "aa zz new", "qq": 2}):
        model.learn_one(x, "third")
    for x in ({"text": "call new money", "free": 1}, {"text": "aa zz new", "qq": 2}):
        model.unlearn_one(x, "third")

    assert model.n_tokens == n_tokens
    assert model.fingerprint() == before
    model.unlearn_one({"text": "Free money! Call now"}, "spam")
    assert model.counts("free") == {}
    assert model.counts("now") == {"spam": 1.0, "ham": 0.0}
    assert model.counts("home") == {"spam": 0.0, "ham": 4.0}


@pytest.mark.parametrize("vocabulary", ["hashed", "exact"])
def test_unlearning_a_token_never_learned_is_refused_whole(vocabulary: Any) -> None:
    """Also one that another class has more of."""
    model = learned(vocabulary=vocabulary)
    before = model.fingerprint()
    for x in ({"text": "free zebra"}, {"home": 1}, {"free": 2}):
        with pytest.raises(NotLearnedError, match="token '"):
            model.unlearn_one(x, "spam")

    assert model.fingerprint() == before


def test_merging_beyond_the_bound_keeps_the_sum_of_what_is_kept() -> None:
    """Tokens that find no place are counted, and their counts are in no total."""
    first, second = (MultinomialNB(vocabulary="exact", max_tokens=2) for _ in range(2))
    first.learn_one({"text": "a b"}, 1)
    second.learn_one({"text": "a c c"}, 1)
    first.merge(second)

    assert first.features == ["a", "b"]
    assert first.overflows["vocabulary"] == 1
    assert first.counts("a") == {1: 2.0}
    assert first._tokens.counts.total.tolist() == [3.0]


def test_restored_vocabulary_answers_with_the_same_bits() -> None:
    """Codes differ after a restart, and nothing depends on them."""
    model = learned(vocabulary="exact")
    other = MultinomialNB(vocabulary="exact").load_state(model.to_state())
    for each in (model, other):
        each.learn_one({"text": "aardvark new words, free home"}, "third")
    said = [m.predict_proba_one({"text": "home new free call £"}) for m in (model, other)]

    assert model._tokens._vocabulary.codes != other._tokens._vocabulary.codes
    assert said[0] == said[1]
    assert model.fingerprint() == other.fingerprint()


@pytest.mark.parametrize(
    "damage",
    [
        {"tokens/lengths": np.array([5, -1])},
        {"tokens/lengths": np.array([3, 5])},
        {"tokens/bytes": np.frombuffer(b"tokentwo"[::-1], dtype=np.uint8)},
        {"tokens/bytes": np.frombuffer(b"\xff" * 9, dtype=np.uint8)},
    ],
    ids=["negative", "too short", "other size", "no text"],
)
def test_damaged_vocabulary_is_refused(damage: dict[str, Any]) -> None:
    """StateError, never a model with other words."""
    model = MultinomialNB(vocabulary="exact")
    model.learn_one({"text": "token twos"}, 0)
    state = model.to_state()
    broken = State(state.header, {**state.arrays, **damage})

    with pytest.raises(StateError):
        MultinomialNB(vocabulary="exact").load_state(broken)


def test_state_of_the_other_vocabulary_is_refused() -> None:
    """Buckets are no tokens."""
    with pytest.raises(StateError):
        MultinomialNB(vocabulary="exact").load_state(learned().to_state())
    with pytest.raises(StateError):
        MultinomialNB().load_state(learned(vocabulary="exact").to_state())


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"vocabulary": "learned"}, 'vocabulary must be one of "hashed", "exact"'),
        ({"max_tokens": 0}, "max_tokens must be a whole number from 1 to"),
        ({"max_tokens": BUCKETS + 1}, "max_tokens must be a whole number from 1 to"),
        ({"max_tokens": 2.5}, "max_tokens must be a whole number from 1 to"),
    ],
)
def test_vocabulary_that_is_none_is_refused(parameters: dict[str, Any], says: str) -> None:
    """One line says what was expected and what came."""
    with pytest.raises(SchemaError, match=says):
        MultinomialNB(**parameters)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcdef")), max_size=40))
def test_codes_stay_dense_and_belong_to_their_tokens(changes: list[tuple[bool, str]]) -> None:
    """Added and removed in any order: codes are 0 … n-1, and the bound holds."""
    v, kept = Vocabulary(4), set()
    for add, token in changes:
        if add and v.add(token) >= 0:
            kept.add(token)
        elif not add and token in kept:
            v.remove(token)
            kept.remove(token)

        assert set(v.codes) == kept
        assert [v.codes[token] for token in v.values] == list(range(len(kept)))
    assert len(v) <= 4


@pytest.mark.parametrize(
    "model",
    [
        MultinomialNB(alpha=0),
        MultinomialNB(0.1, half_life=20),
        MultinomialNB(vocabulary="exact"),
        MultinomialNB(
            vocabulary="exact", max_tokens=12, half_life=7, priors={"first": 0.5, "second": 0.5}
        ),
    ],
    ids=["unsmoothed", "fading", "exact", "bounded"],
)
def test_other_parameters_satisfy_the_laws(model: MultinomialNB) -> None:
    """Those of `stream.checks`, as the defaults do."""
    check_laws(model)
