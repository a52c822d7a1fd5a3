"""MultinomialNB against its obvious twin, scikit-learn and real SMS."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, fsum, inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.naive_bayes import MultinomialNB as SklearnMultinomialNB

from stream import Block, InvalidRecordError, MultinomialNB, Rows, SchemaError, State, StateError
from stream.data.block import PREDICT_THEN_LEARN
from stream.evaluate.progressive import progressive
from stream.text import BUCKETS, MAX_TOKENS, bucket
from tests.oracles.multinomial import SlowMultinomialNB
from tests.oracles.sklearn import named, token_matrix, worst_difference

WORDS = st.lists(st.sampled_from(["free", "money", "call", "home", "£", "now"]), max_size=6)
RECORD = st.fixed_dictionaries(
    {"text": WORDS.map(" ".join), "free": st.sampled_from([None, 0, 1, 0.5, 3])}
)
STREAM = st.lists(
    st.tuples(RECORD, st.sampled_from(["spam", "ham", "other"]), st.sampled_from([1.0, 2.0, 0.25])),
    min_size=1,
    max_size=20,
)
MESSAGES = [
    ({"text": "Free money! Call now"}, "spam"),
    ({"text": "are you home"}, "ham"),
    ({"text": "call me at home", "home": 2}, "ham"),
    ({"text": "WIN £100 now!!!", "note": None}, "spam"),
]


def learned() -> MultinomialNB:
    """A model that learned `MESSAGES`."""
    model = MultinomialNB()
    for x, y in MESSAGES:
        model.learn_one(x, y)
    return model


@given(STREAM, RECORD, st.sampled_from([1.0, 0.1, 30.0, 0.0]), st.sampled_from([None, 3.0]))
def test_posterior_is_that_of_the_obvious_twin(
    stream: list[tuple[dict[str, Any], str, float]],
    x: dict[str, Any],
    alpha: float,
    half_life: float | None,
) -> None:
    """Kernel and dicts of token counts agree, likelihood and posterior, fading or not."""
    fast, slow = MultinomialNB(alpha, half_life=half_life), SlowMultinomialNB(alpha, half_life)
    for learn, y, w in stream:
        fast.learn_one(learn, y, w)
        slow.learn_one(learn, y, w)

    assert fast.joint_log_likelihood_one(x) == pytest.approx(
        slow.joint_log_likelihood_one(x), rel=1e-12
    )
    assert fast.predict_proba_one(x) == pytest.approx(slow.predict_proba_one(x), abs=1e-12)


def test_maximum_likelihood_is_the_shares_of_the_tokens() -> None:
    """Spam's tokens: free free money; ham's: money home. By hand, l = 0."""
    model = MultinomialNB(alpha=0)
    model.learn_many([{"text": "free free money"}, {"text": "money home"}], ["spam", "ham"])
    joint = model.joint_log_likelihood_one({"text": "money"})

    assert {y: exp(v) for y, v in joint.items()} == pytest.approx(
        {"spam": 1 / 2 * 1 / 3, "ham": 1 / 2 * 1 / 2}, rel=1e-14
    )
    assert model.predict_proba_one({"text": "money"}) == pytest.approx({"spam": 0.4, "ham": 0.6})
    # A token that one class never had makes it impossible, whatever else is there.
    assert model.joint_log_likelihood_one({"text": "money home"})["spam"] == -inf
    assert model.predict_proba_one({"text": "money home"}) == {"spam": 0.0, "ham": 1.0}
    # Impossible in both: the prior. Unknown tokens are no evidence.
    assert set(model.joint_log_likelihood_one({"text": "free home"}).values()) == {-inf}
    assert model.predict_proba_one({"text": "free home"}) == {"spam": 0.5, "ham": 0.5}
    assert model.predict_proba_one({"text": "unheard"}) == {"spam": 0.5, "ham": 0.5}


def test_maximum_likelihood_of_a_class_without_tokens_is_that_of_all() -> None:
    """Its own share is 0 of 0: it counts as all classes together, so it stays possible."""
    model = MultinomialNB(alpha=0)
    model.learn_many([{"text": "free money"}, {"text": ""}, {"text": "home"}], ["a", "b", "c"])
    joint = model.joint_log_likelihood_one({"text": "free"})

    expected = {"a": 1 / 3 * 1 / 2, "b": 1 / 3 * 1 / 3, "c": 0.0}
    assert {y: exp(v) for y, v in joint.items()} == pytest.approx(expected, rel=1e-14)


def test_line_of_maximum_likelihood_has_no_nan() -> None:
    """A token that neither of two classes had decides nothing between them."""
    model = MultinomialNB(alpha=0)
    model.learn_many([{"text": "free"}, {"text": "home"}, {"text": "sun"}], ["a", "b", "c"])
    line = model.linear_view("a", "b")

    assert line.weights[f"bucket {bucket('sun')}"] == 0.0
    assert line.weights[f"bucket {bucket('free')}"] == pytest.approx(1e300)


def test_posterior_is_that_of_scikit_learn() -> None:
    """On the vocabulary learned so far the two agree to 1e-9, with weights and halves."""
    rng = np.random.default_rng(5)
    names = [f"w{i}" for i in range(12)]
    counts = rng.poisson(0.7, size=(80, 12)) * rng.choice([1.0, 0.5], size=(80, 12))
    ys = rng.choice(["a", "b", "c"], size=80)
    ws = rng.choice([1.0, 2.0, 0.5], size=80)
    xs = [dict(zip(names, row, strict=True)) for row in counts.tolist()]
    model = MultinomialNB(alpha=0.3)
    worst = 0.0
    for i in range(79):
        model.learn_one(xs[i], str(ys[i]), float(ws[i]))
        if i % 6:
            continue
        known = (counts[: i + 1] > 0).any(axis=0)
        oracle = SklearnMultinomialNB(alpha=0.3)
        oracle.fit(counts[: i + 1][:, known], ys[: i + 1], sample_weight=ws[: i + 1])
        expected = oracle.predict_proba(counts[i + 1 :][:, known])
        said = [model.predict_proba_one(x) for x in xs[i + 1 :]]
        got = [[p[str(label)] for label in oracle.classes_] for p in said]
        worst = max(worst, float(np.abs(np.array(got) - expected).max()))

    assert worst < 1e-9


def test_text_and_counts_of_its_tokens_are_the_same_record() -> None:
    """{"text": "free money"} and {"free": 1, "money": 1} learn and predict the same bits."""
    texts, counts = MultinomialNB(), MultinomialNB()
    texts.learn_one({"text": "Free money, free"}, 1)
    texts.learn_one({"body": "home"}, 0)
    counts.learn_one({"money": 1, ",": True, "free": 2.0}, 1)
    counts.learn_one({"home": 1}, 0)

    one, other = texts.to_state().arrays, counts.to_state().arrays
    assert (one["tokens/counts"] == other["tokens/counts"]).all()
    assert (one["tokens/bucket"] == other["tokens/bucket"]).all()
    assert texts.predict_proba_one({"text": "free home"}) == texts.predict_proba_one(
        {"home": 1, "free": 1}
    )


@pytest.mark.parametrize("nothing", [{}, {"a": None}, {"a": nan}, {"a": 0}, {"text": " "}])
def test_absence_and_counts_of_zero_are_no_evidence(nothing: dict[str, Any]) -> None:
    """The posterior is the prior, and the vocabulary does not grow by learning it."""
    model = learned()
    n_tokens = model.n_tokens
    model.learn_one(nothing, "ham")

    assert model.n_tokens == n_tokens
    assert model.predict_proba_one(nothing) == pytest.approx({"spam": 2 / 5, "ham": 3 / 5})


def test_token_never_learned_is_no_evidence() -> None:
    """A stranger changes no bit, beside known tokens or alone."""
    model = learned()

    assert model.predict_proba_one({"text": "free zebra"}) == model.predict_proba_one(
        {"text": "free"}
    )
    assert model.predict_proba_one({"zebra": 7}) == model.predict_proba_one({})


def test_categorical_columns_are_ignored() -> None:
    """Rows of a schema may hold categories; a model of tokens does not see them."""
    rows = Rows(
        (), np.empty((1, 0)), ("c",), np.array([["free"]], dtype=object), ("t",), _cell("hi")
    )
    bare = Rows((), np.empty((1, 0)), (), np.empty((1, 0), dtype=object), ("t",), _cell("hi"))
    with_category, without = MultinomialNB(), MultinomialNB()
    with_category.progressive_many(Block.of(rows, PREDICT_THEN_LEARN, ["y"]))
    without.progressive_many(Block.of(bare, PREDICT_THEN_LEARN, ["y"]))

    assert with_category.fingerprint() == without.fingerprint()


def _cell(text: str) -> Any:
    return np.array([[text]], dtype=object)


def test_rows_prepared_or_not_give_the_same_bits() -> None:
    """`prepare` only moves the tokenising; it leaves its argument alone and may be repeated."""
    xs = [x for x, _ in MESSAGES]
    raw = Rows.from_dicts(xs, strings="text")
    whole, ahead = MultinomialNB(), MultinomialNB()
    prepared = ahead.prepare(ahead.prepare(raw))
    ys = [y for _, y in MESSAGES]
    plain = whole.progressive_many(Block.of(raw, PREDICT_THEN_LEARN, ys))
    early = ahead.progressive_many(Block.of(prepared, PREDICT_THEN_LEARN, ys))

    assert isinstance(raw.text[0, 0], str)
    assert prepared.text[0, 0].shape == (2, 5)
    assert plain.dicts() == early.dicts()
    assert whole.fingerprint() == ahead.fingerprint()


@pytest.mark.parametrize("encoded", [True, False])
def test_negative_count_is_refused_whole(encoded: bool) -> None:
    """Neither class nor token of the record is learned, whichever way it comes."""
    model = learned()
    before = model.fingerprint()
    rows = Rows.from_dicts([{"free": 1}, {"fresh": 1, "money": -1}], strings="text")
    block = Block.of(model.prepare(rows) if encoded else rows, PREDICT_THEN_LEARN, ["new", "new"])

    with pytest.raises(InvalidRecordError, match="negative_count: field 'money'"):
        model.progressive_many(block)
    assert model.fingerprint() == before


def test_weight_beyond_the_bound_is_refused_whole() -> None:
    """Counts stay finite."""
    model = learned()
    before = model.fingerprint()

    with pytest.raises(ValueError, match="at most"):
        model.learn_one({"free": 1e100}, "spam", w=1e300)
    assert model.fingerprint() == before


def test_learned_text_that_was_cut_is_counted() -> None:
    """Once a learned text, not when it is only asked about."""
    model = MultinomialNB()
    long = {"text": "a " * MAX_TOKENS + "beyond"}
    model.predict_proba_one(long)
    model.learn_one(long, 0)
    model.predict_proba_one(long)

    assert model.overflows["tokens"] == 1
    assert model.counts("a") == {0: MAX_TOKENS}
    assert model.counts("beyond") == {}


def test_counts_tell_how_often_each_class_had_a_token() -> None:
    """Weights and counts, over texts and numbers."""
    assert learned().counts("home") == {"spam": 0.0, "ham": 4.0}
    assert learned().counts("zebra") == {}


def test_state_is_sparse_and_restores_every_bit() -> None:
    """A column a learned bucket, sorted; the restored model goes on the same."""
    model = learned()
    state = model.to_state()
    other = MultinomialNB().load_state(state)
    for each in (model, other):
        each.learn_one({"text": "new words to learn"}, "third")

    assert state.arrays["tokens/counts"].shape == (2, model.n_tokens - 4)
    assert (np.diff(state.arrays["tokens/bucket"]) > 0).all()
    assert model.fingerprint() == other.fingerprint()
    assert model.predict_proba_one({"text": "new home"}) == other.predict_proba_one(
        {"text": "new home"}
    )


@pytest.mark.parametrize("damage", [[5, 4], [4, 4], [-1, 4], [4, BUCKETS]])
def test_state_with_impossible_buckets_is_refused(damage: list[int]) -> None:
    """Not rising, negative or beyond the table."""
    model = MultinomialNB()
    model.learn_one({"text": "two tokens"}, 0)
    state = model.to_state()
    broken = State(state.header, {**state.arrays, "tokens/bucket": np.array(damage)})

    with pytest.raises(StateError, match="array 'bucket': expected"):
        MultinomialNB().load_state(broken)


def test_memory_follows_what_was_learned() -> None:
    """Room for counts grows with the vocabulary, not with the table of buckets."""
    model = MultinomialNB()
    for i in range(300):
        model.learn_one({f"w{i}": 1}, i % 3)
    counts = model._tokens.counts.counts

    assert model.n_tokens == 300
    assert counts.shape[0] <= 2 * 300
    assert counts.nbytes <= 3 * model.bytes_per_class


def test_sms_in_file_order_reach_97_2_percent_predict_then_learn(
    shared_csv: Callable[[str], list[dict[str, str]]],
) -> None:
    """With defaults 98.55 %; the same messages in blocks and one by one give the same hits."""
    rows = shared_csv("sms_spam/sms_spam.csv.gz")
    messages = [({"text": row["text"]}, row["label"]) for row in rows]
    *_, view = progressive(messages, MultinomialNB())
    model, hits = MultinomialNB(), 0
    for x, y in messages:
        p = model.predict_proba_one(x)
        hits += bool(p) and max(p, key=p.__getitem__) == y
        model.learn_one(x, y)

    assert len(messages) == 5574
    assert hits == int(np.trace(view.confusion))
    assert hits / len(messages) >= 0.972
    assert hits == 5493  # any change of the tokens or of the estimate shows here


def test_posterior_of_a_long_text_is_still_a_distribution() -> None:
    """Thousands of tokens drive likelihoods below any double; the posterior stays exact."""
    model = learned()
    p = model.predict_proba_one({"text": "free home " * 40_000, "money": 1e100})

    assert fsum(p.values()) == pytest.approx(1.0)
    assert set(p.values()) <= {0.0, 1.0}


def test_bucket_of_a_feature_name_is_that_of_the_word() -> None:
    """A count named by a word is found under that word."""
    model = MultinomialNB()
    model.learn_one({"word": 3}, "y")

    assert model.counts("word") == {"y": 3.0}
    assert model.to_state().arrays["tokens/bucket"].tolist() == [bucket("word")]


def test_posterior_on_sms_is_that_of_scikit_learn(shared_csv) -> None:
    """Counts of tokens, after every 100th message, to 1e-9."""
    rows = shared_csv("sms_spam/sms_spam.csv.gz")
    matrix = token_matrix([row["text"] for row in rows])
    xs, ys = [{"text": row["text"]} for row in rows], [row["label"] for row in rows]
    model, oracle = MultinomialNB(0.7), SklearnMultinomialNB(alpha=0.7)

    assert worst_difference(model, oracle, xs, ys, matrix, sparse=True) < 1e-9


def test_posterior_on_digits_is_that_of_scikit_learn() -> None:
    """Ten classes, pixels as counts, labels that stay integers, after every 100th image."""
    digits = load_digits()
    xs, ys = named(digits.data), digits.target.tolist()
    model = MultinomialNB(alpha=1)

    assert worst_difference(model, SklearnMultinomialNB(), xs, ys, digits.data, sparse=True) < 1e-9
    assert sorted(model.classes) == list(range(10))


def test_estimate_is_the_smoothed_share_of_all_words() -> None:
    """002: (count of the word + l) / (all words + l · d), one by one and in one block."""
    xs, ys = [{"a": 3, "b": 1}, {"a": 2}, {"c": 4}], ["spam", "spam", "ham"]
    one, block = MultinomialNB(alpha=0.5), MultinomialNB(alpha=0.5)
    for x, y in zip(xs, ys, strict=True):
        one.learn_one(x, y)
    block.learn_many(xs, ys)
    prior = one.joint_log_likelihood_one({})
    word = one.joint_log_likelihood_one({"a": 1})

    assert exp(word["spam"] - prior["spam"]) == pytest.approx((5 + 0.5) / (6 + 0.5 * 3))
    assert exp(word["ham"] - prior["ham"]) == pytest.approx((0 + 0.5) / (4 + 0.5 * 3))
    assert one.fingerprint() == block.fingerprint()
    assert one.n_parameters == 2 * (3 - 1)


def test_word_that_came_twenty_times_is_stronger_than_ten_times() -> None:
    """002: although no email had it ten or twenty times; its log-odds are twice as large."""
    model = MultinomialNB()
    model.learn_many([{"word": 3, "other": 1}, {"word": 1, "other": 3}], ["spam", "ham"])
    ten, twenty = ({"word": n} for n in (10, 20))

    assert model.predict_proba_one(twenty)["spam"] > model.predict_proba_one(ten)["spam"] > 0.99
    assert model.explain_one(twenty).contributions["word"] == pytest.approx(
        2 * model.explain_one(ten).contributions["word"]
    )


def test_given_priors_replace_the_learned_ones() -> None:
    """By label, or by its text; a class that is not named is impossible."""
    given = MultinomialNB(priors={"1": 0.9, "2": 0.1})
    given.learn_many([{"a": 1}, {"a": 1}, {"a": 1}], [1, 2, 3])

    assert given.predict_proba_one({}) == pytest.approx({1: 0.9, 2: 0.1, 3: 0.0})
    with pytest.raises(SchemaError, match="priors"):
        MultinomialNB(priors={"a": -1.0})


def test_counts_above_two_to_the_24_are_exact() -> None:
    """No float32 anywhere: one word more is one more."""
    model = MultinomialNB()
    model.learn_one({"word": 2**24}, "y")
    model.learn_one({"text": "word"}, "y")

    assert model.counts("word") == {"y": 2.0**24 + 1}


def test_a_table_of_logarithms_changes_no_bit() -> None:
    """Long blocks look up the logarithms of whole counts, short ones compute them."""
    rng = np.random.default_rng(5)
    xs = [
        dict.fromkeys(rng.choice(list("abcdefgh"), size=3).tolist(), n % 3 / 2) for n in range(300)
    ]
    ys = rng.integers(0, 3, 300).tolist()
    whole, single = MultinomialNB(0.7), MultinomialNB(0.7)
    said = whole.progressive_many(Block.of(whole.rows(xs), PREDICT_THEN_LEARN, ys)).dicts()
    told = []
    for x, y in zip(xs, ys, strict=True):
        told.append(single.predict_proba_one(x))
        single.learn_one(x, y)

    assert said == told
    assert whole.fingerprint() == single.fingerprint()
