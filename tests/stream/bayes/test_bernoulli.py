"""BernoulliNB against its obvious twin, scikit-learn, the lecture's digits and real streams."""

from __future__ import annotations

from decimal import Decimal, getcontext
from math import exp, inf, nan, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.naive_bayes import BernoulliNB as SklearnBernoulliNB

from stream import NotLearnedError, NotSupportedError, Rows, State, StateError
from stream.bayes.bernoulli import ABSENT, BernoulliNB, _indexed
from stream.checks import check_laws
from stream.data.block import PREDICT_THEN_LEARN, Block
from stream.text import MAX_TOKENS, bucket
from tests.oracles.bernoulli import SlowBernoulliNB
from tests.oracles.sklearn import named, token_matrix, worst_difference

WORDS = st.lists(st.sampled_from(["free", "money", "call", "home", "£", "now"]), max_size=6)
RECORD = st.fixed_dictionaries(
    {"free": st.sampled_from([None, nan, 0, 1, True, False, -2, 0.5])},
    optional={"text": WORDS.map(" ".join), "more": WORDS.map(" ".join), "seen": st.booleans()},
)
STREAM = st.lists(
    st.tuples(RECORD, st.sampled_from(["spam", "ham", "other"]), st.sampled_from([1.0, 2.0, 0.3])),
    min_size=1,
    max_size=20,
)
ANIMALS = [
    ({"beak": True, "fur": False, "text": "it sings"}, "bird"),
    ({"beak": True, "fur": None, "text": "it flies, it sings"}, "bird"),
    ({"beak": False, "fur": True, "text": "it purrs"}, "cat"),
]


def learned(**parameters: Any) -> BernoulliNB:
    """A model that learned `ANIMALS`."""
    model = BernoulliNB(**parameters)
    for x, y in ANIMALS:
        model.learn_one(x, y)
    return model


@given(
    STREAM,
    RECORD,
    st.sampled_from(
        [
            {},
            {"alpha": 0.1},
            {"binarize": 0.7},
            {"alpha": 30.0, "half_life": 3.0},
            {"alpha": 0.0},
            {"alpha": 0.0, "half_life": 3.0},
        ]
    ),
)
def test_posterior_is_that_of_the_obvious_twin(
    stream: list[tuple[dict[str, Any], str, float]], x: dict[str, Any], parameters: dict[str, Any]
) -> None:
    """Likelihood and posterior from levels of counts equal those from counting all records."""
    fast, slow = BernoulliNB(**parameters), SlowBernoulliNB(**parameters)
    for learn, y, w in stream:
        fast.learn_one(learn, y, w)
        slow.learn_one(learn, y, w)

    assert fast.joint_log_likelihood_one(x) == pytest.approx(
        slow.joint_log_likelihood_one(x), rel=1e-11
    )
    assert fast.predict_proba_one(x) == pytest.approx(slow.predict_proba_one(x), abs=1e-12)


def test_maximum_likelihood_is_the_share_of_records() -> None:
    """By hand, l = 0: birds sing (2 of 2), one flies (1 of 2), "it" is in every text."""
    model = learned(alpha=0)

    assert model.token_probability("flies") == {"bird": 0.5, "cat": 0.0}
    assert model.probabilities["bird"] == {"beak": 1.0, "fur": 0.0}
    # Birds: it and sings are certain, flies and the comma absent 1/2 each, purrs absent for sure.
    # Cats: none sings.
    joint = model.joint_log_likelihood_one({"text": "it sings"})
    assert exp(joint["bird"]) == pytest.approx(2 / 3 / 2 / 2, rel=1e-14)
    assert joint["cat"] == -inf
    # Without "it", which every text had, both are impossible: the posterior is the prior.
    assert set(model.joint_log_likelihood_one({"text": "sings"}).values()) == {-inf}
    assert model.predict_proba_one({"text": "sings"}) == model.predict_proba_one({})
    assert model.joint_log_likelihood_one({"beak": False})["bird"] == -inf


def test_explanation_of_maximum_likelihood_has_no_nan() -> None:
    """What is certain and there counts 0; what is certain and lacking makes impossible."""
    model = learned(alpha=0)
    there = model.explain_one({"text": "it sings"}, "bird", "cat")
    lacking = model.explain_one({"text": "flies"}, "bird", "cat")

    assert there.contributions["it"] == 0.0
    assert there.contributions["sings"] == pytest.approx(1e300)
    assert there.contributions[ABSENT] == pytest.approx(1e300, abs=0.0)
    assert lacking.log_odds == pytest.approx(1e300)
    with pytest.raises(NotSupportedError, match="above 0"):
        model.linear_view()


def test_posterior_on_sms_is_that_of_scikit_learn(shared_csv) -> None:
    """Sets of tokens, after every 100th message, to 1e-9."""
    rows = shared_csv("sms_spam/sms_spam.csv.gz")
    matrix = token_matrix([row["text"] for row in rows])
    xs, ys = [{"text": row["text"]} for row in rows], [row["label"] for row in rows]

    model, oracle = BernoulliNB(), SklearnBernoulliNB()

    assert worst_difference(model, oracle, xs, ys, matrix, sparse=True) < 1e-9


def test_posterior_on_phishing_is_that_of_scikit_learn(shared_csv) -> None:
    """Forty-six binary fields, after every 100th site, to 1e-9."""
    rows = shared_csv("phishing_uci/phishing.csv.gz")
    label = list(rows[0])[-1]
    xs = [{k: float(v) for k, v in row.items() if k != label} for row in rows]
    ys = [row[label] for row in rows]
    matrix = np.array([list(x.values()) for x in xs])
    model, oracle = BernoulliNB(alpha=0.5), SklearnBernoulliNB(alpha=0.5)

    assert worst_difference(model, oracle, xs, ys, matrix, sparse=False) < 1e-9


def test_digits_five_and_six_have_the_printed_parameters() -> None:
    """Lecture 6: P(pixel | digit) = (mean image · n + 1) / (n + 2), one by one and in a block."""
    digits = load_digits()
    chosen = np.isin(digits.target, (5, 6))
    images, ys = (digits.data[chosen] > 7).astype(float), digits.target[chosen].tolist()
    xs = named(images)
    one, block = BernoulliNB(), BernoulliNB()
    for x, y in zip(xs, ys, strict=True):
        one.learn_one(x, y)
    block.learn_many(xs, ys)

    for digit in (5, 6):
        mine = images[np.array(ys) == digit]
        expected = (mine.mean(axis=0) * len(mine) + 1) / (len(mine) + 2)
        got = [one.probabilities[digit][f"x{j}"] for j in range(64)]
        assert got == pytest.approx(expected.tolist(), rel=1e-14)
    assert one.fingerprint() == block.fingerprint()
    assert one.n_parameters == 2 * 64  # where the full joint has 2 (2^64 - 1)
    hits = [block.predict_one(x) == y for x, y in zip(xs, ys, strict=True)]
    assert np.mean(hits) > 0.99


def test_one_of_one_is_two_thirds_and_none_of_one_a_third() -> None:
    """(n + 1) / (n + 2), never 0 or 1."""
    model = learned()

    assert model.probabilities == {
        "bird": {"beak": 3 / 4, "fur": 1 / 3},
        "cat": {"beak": 1 / 3, "fur": 2 / 3},
    }
    assert model.token_probability("sings") == {"bird": 3 / 4, "cat": 1 / 3}
    assert model.token_probability("zebra") == {}


@pytest.mark.parametrize("missing", [None, nan])
def test_field_that_is_missing_is_no_evidence_and_one_that_is_false_is(missing: Any) -> None:
    """Not looked at is not the same as not there."""
    model = learned()
    prior = model.predict_proba_one({})

    assert model.predict_proba_one({"beak": missing}) == prior
    assert model.predict_proba_one({"beak": False})["cat"] > prior["cat"]
    assert model.predict_proba_one({"beak": 0})["cat"] > prior["cat"]


def test_known_token_that_a_text_lacks_is_evidence() -> None:
    """A text without "sings" speaks against birds, even an empty one; no text says nothing."""
    model = learned()
    prior = model.predict_proba_one({})

    assert model.predict_proba_one({"text": ""})["bird"] < prior["bird"]
    assert model.predict_proba_one({"text": "it sings"})["bird"] > prior["bird"]
    assert model.predict_proba_one({"text": None}) == prior


def test_token_is_in_a_record_or_not_however_often() -> None:
    """Repeated, or in two texts of a record: one set."""
    once, often = learned(), learned()
    once.learn_one({"text": "it sings"}, "bird")
    often.learn_one({"text": "it it sings", "more": "sings it"}, "bird")

    one, other = once.to_state().arrays, often.to_state().arrays
    for name in ("tokens/texts", "tokens/bucket", "tokens/counts"):
        assert (one[name] == other[name]).all()
    assert once.predict_proba_one({"a": "sings", "b": "sings"}) == often.predict_proba_one(
        {"text": "sings sings"}
    )


def test_what_was_never_learned_is_no_evidence() -> None:
    """A strange field changes no bit, nor does a strange token beside known ones."""
    model = learned()

    assert model.predict_proba_one({"wings": True}) == model.predict_proba_one({})
    assert model.predict_proba_one({"text": "sings zebra"}) == model.predict_proba_one(
        {"text": "sings"}
    )


def test_class_that_never_had_a_field_or_a_text_is_not_punished() -> None:
    """It counts there as all classes do, not by a flat half a token."""
    model = learned()
    model.learn_one({"legs": True}, "table")
    p = model.predict_proba_one({"text": "it purrs", "beak": False})
    joint = model.joint_log_likelihood_one({"text": "it purrs"})

    assert p["table"] > 0.1
    assert max(joint, key=joint.__getitem__) == "cat"
    assert "beak" not in model.probabilities["table"]


def test_number_above_binarize_is_present() -> None:
    """At the threshold it is absent."""
    model = BernoulliNB(binarize=2.5)
    model.learn_many([{"n": 2.5}, {"n": 2.6}, {"n": -3}], ["y", "y", "y"])

    assert model.probabilities == {"y": {"n": 2 / 5}}


def test_field_and_token_of_its_name_are_two_attributes() -> None:
    """{"free": True} does not make "free" a token."""
    model = BernoulliNB()
    model.learn_one({"free": True, "text": "money"}, 1)

    assert model.token_probability("free") == {}
    assert model.features == ["free"]
    assert model.n_tokens == 1


def test_labels_come_back_as_they_were_given() -> None:
    """Integers stay integers, truth values truth values."""
    numbers, truths = BernoulliNB(), BernoulliNB()
    numbers.learn_many([{"a": 1}, {"a": 0}], [1, 0])
    truths.learn_many([{"a": 1}, {"a": 0}], [True, False])

    assert [type(y) for y in numbers.predict_proba_one({"a": 1})] == [int, int]
    assert [type(y) for y in truths.predict_proba_one({"a": 1})] == [bool, bool]


def test_counts_above_two_to_the_24_are_exact() -> None:
    """No float32 anywhere: one record more is one more."""
    model = BernoulliNB()
    model.learn_one({"a": True}, "y", w=2.0**24)
    model.learn_one({"a": True}, "y")

    assert model._attributes.trials.present.tolist() == [[2.0**24 + 1]]


def test_prediction_costs_the_distinct_counts_not_the_vocabulary() -> None:
    """Thousands of tokens share a few logarithms: at most the root of twice their sum."""
    rng = np.random.default_rng(3)
    model = BernoulliNB()
    texts = [" ".join(f"w{int(k)}" for k in rng.zipf(1.3, size=30) % 9999) for _ in range(400)]
    model.learn_many([{"text": t} for t in texts], ["ab"[i % 2] for i in range(400)])
    s = model._tokens.sets

    assert model.n_tokens > 1500
    assert int(s.levels[0]) <= sqrt(2 * s.counts[:, 0].sum())
    assert int(s.levels[0]) < 100


@given(STREAM)
def test_levels_are_the_distinct_counts(
    stream: list[tuple[dict[str, Any], str, float]],
) -> None:
    """Levels that moved one token at a time equal levels built from the counts."""
    model = BernoulliNB()
    for x, y, w in stream:
        model.learn_one(x, y, w)
    s, found = model._tokens.sets, _indexed(model._tokens.sets)

    assert s.levels.tolist() == found.levels.tolist()
    for q, n in enumerate(s.levels.tolist()):
        assert s.level[q, :n].tolist() == found.level[q, :n].tolist()
        assert s.times[q, :n].tolist() == found.times[q, :n].tolist()


def test_levels_that_fade_to_nothing_meet_at_zero() -> None:
    """Two thousand half-lives on: old tokens count 0, the answers are still distributions."""
    model = BernoulliNB(half_life=1.0)
    model.learn_many([{"text": "old"}, {"text": "old older"}], ["a", "b"])
    model.learn_many([{"text": f"new{i % 7}"} for i in range(2000)], ["a"] * 2000)
    s, found = model._tokens.sets, _indexed(model._tokens.sets)
    p = model.predict_proba_one({"text": "old older"})

    assert s.levels.tolist() == found.levels.tolist()
    assert float(s.counts[s.slot[bucket("older")] - 1].max()) == 0.0
    assert sum(p.values()) == pytest.approx(1.0)


def test_absence_of_many_rare_tokens_keeps_its_digits() -> None:
    """A thousand tokens, each once among a billion texts: log(1 - p) to twelve digits."""
    getcontext().prec = 50
    model = BernoulliNB()
    model.learn_one({"text": " ".join(f"t{i}" for i in range(1000))}, "y")
    model.learn_one({"text": ""}, "y", w=1e9)
    joint = model.joint_log_likelihood_one({"text": ""})["y"]
    n = Decimal(10) ** 9 + 1
    expected = model.n_tokens * ((n - 1 + 1) / (n + 2)).ln()

    assert joint == pytest.approx(float(expected), rel=1e-12)


def test_explanation_names_fields_tokens_and_what_is_absent() -> None:
    """Shares sum to the log-odds, and presence in the text is told from absence."""
    model = learned()
    why = model.explain_one({"beak": True, "text": "it sings"}, "bird", "cat")

    assert set(why.contributions) == {"(prior)", "beak", ABSENT, "it", "sings"}
    assert why.contributions["sings"] == pytest.approx(np.log((3 / 4) / (1 / 3)))
    assert why.contributions["it"] == pytest.approx(np.log((3 / 4) / (2 / 3)))
    assert sum(why.contributions.values()) == why.log_odds


def test_linear_view_gives_the_posterior_of_two_classes() -> None:
    """logistic(bias + Σ weights of what is present), for every set of attributes."""
    model = learned(alpha=0.3)
    model.learn_one({"beak": True, "fur": True, "text": "?"}, "chimera")
    view = model.linear_view("cat", "bird")
    for text in ("", "it", "it sings", "purrs flies zebra"):
        for beak, fur in ((True, False), (False, True), (True, True)):
            p = model.predict_proba_one({"beak": beak, "fur": fur, "text": text})
            line = view.bias + beak * view.weights["beak"] + fur * view.weights["fur"]
            line += sum(view.weights.get(f"bucket {bucket(t)}", 0.0) for t in text.split())

            assert 1 / (1 + exp(-line)) == pytest.approx(p["cat"] / (p["cat"] + p["bird"]))


def test_unlearning_a_record_that_could_not_have_been_learned_is_refused() -> None:
    """Its presence, or its absence, was never seen in the class."""
    model = learned()
    before = model.fingerprint()
    for x in ({"beak": False}, {"wings": True}, {"text": "purrs"}, {"text": "sings"}, {"text": ""}):
        with pytest.raises(NotLearnedError, match="cannot have been learned"):
            model.unlearn_one(x, "bird")

    assert model.fingerprint() == before


def test_unlearning_gives_back_the_state_bit_for_bit() -> None:
    """Whole weights: counts, tokens, fields and levels are those before."""
    model = learned()
    before, said = model.fingerprint(), model.predict_proba_one({"text": "it"})
    model.learn_one({"text": "it is new", "wings": True}, "fly")
    model.unlearn_one({"text": "it is new", "wings": True}, "fly")

    assert model.fingerprint() == before
    assert model.predict_proba_one({"text": "it"}) == said


def test_learned_text_that_was_cut_is_counted() -> None:
    """Once a learned text, not when it is only asked about."""
    model = BernoulliNB()
    long = {"text": "a " * MAX_TOKENS + "beyond"}
    model.predict_proba_one(long)
    model.learn_one(long, 0)

    assert model.overflows["tokens"] == 1
    assert model.token_probability("beyond") == {}


def test_rows_prepared_or_not_give_the_same_bits() -> None:
    """`prepare` only moves the tokenising."""
    xs, ys = [x for x, _ in ANIMALS], [y for _, y in ANIMALS]
    raw = Rows.from_dicts(xs, strings="text")
    whole, ahead = BernoulliNB(), BernoulliNB()
    plain = whole.progressive_many(Block.of(raw, PREDICT_THEN_LEARN, ys))
    early = ahead.progressive_many(Block.of(ahead.prepare(raw), PREDICT_THEN_LEARN, ys))

    assert plain.dicts() == early.dicts()
    assert whole.fingerprint() == ahead.fingerprint()


def test_state_with_impossible_buckets_is_refused() -> None:
    """Not rising."""
    state = learned().to_state()
    name = "tokens/bucket"
    broken = State(state.header, {**state.arrays, name: state.arrays[name][::-1].copy()})

    with pytest.raises(StateError, match="array 'bucket': expected"):
        BernoulliNB().load_state(broken)


@pytest.mark.parametrize(
    "model",
    [
        BernoulliNB(alpha=0),
        BernoulliNB(0.1, binarize=1.0, half_life=20),
        BernoulliNB(30.0, priors={"first": 0.5, "second": 0.5}),
        BernoulliNB(1e-300),
    ],
    ids=["unsmoothed", "fading", "priors", "tiny"],
)
def test_other_parameters_satisfy_the_laws(model: BernoulliNB) -> None:
    """Those of `stream.checks`, as the defaults do."""
    check_laws(model)
