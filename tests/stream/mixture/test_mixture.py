"""Mixture: its guarantee as a law, its obvious twin, late labels, corrections."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream import (
    Block,
    GaussianNB,
    KNNClassifier,
    Learner,
    LogisticRegression,
    MixedNB,
    Mixture,
    MultinomialNB,
    NotLearnedError,
    NotSupportedError,
    Schema,
    SchemaError,
    State,
    StateError,
)
from stream.checks import check_laws
from stream.data.block import LEARN, PREDICT_THEN_LEARN
from stream.evaluate.progressive import Events, Progressive, progressive
from stream.join.join import LabelJoin
from stream.learner.registry import learners
from stream.mixture import Calibrated
from stream.mixture.guesses import ClassShares, NoChange
from stream.preprocessing import Discretized, Discretizer
from tests.oracles.mixture import HEAVY, RATES, SlowMixture, SlowNoChange, floored
from tests.seed import share
from tests.stream.mixture.late import delayed, run_late

VALUES = st.sampled_from([None, 0.0, 1.0, -3.0, 25.0])
RECORD = st.fixed_dictionaries({"a": VALUES}, optional={"b": VALUES, "c": st.sampled_from("xyz")})
LABELS = st.sampled_from("pqr")
STREAM = st.lists(
    st.tuples(RECORD, LABELS, st.sampled_from([1.0, 0.5, 2.0, HEAVY])), min_size=1, max_size=20
)


def experts() -> list[Learner]:
    """Three that are right about different streams."""
    return [MixedNB(), LogisticRegression(half_life=5), KNNClassifier(n_neighbors=1, window=4)]


def slow() -> SlowMixture:
    """The twin of `Mixture(experts())`."""
    return SlowMixture([ClassShares(), SlowNoChange(), *experts()])


def with_recent() -> Mixture:
    """The guess of the last label, by the newest labels, is an expert too."""
    return Mixture([{"type": "NoChange", "half_life": 3}, *experts()])


def numbered(n: int, seed: int = 0) -> tuple[list[dict[str, Any]], list[str]]:
    """Records whose label depends on a number; the rule is turned around in the middle."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    up = (a + rng.normal(scale=0.5, size=n) > 0) ^ (np.arange(n) >= n // 2)
    return [{"a": v} for v in a.tolist()], ["up" if u else "down" for u in up.tolist()]


def posteriors(
    learner: Learner, xs: list[dict[str, Any]], ys: list[str], ws: Any = 1.0
) -> list[dict[Any, float]]:
    """Progressive predictions, labels at once."""
    block = Block.of(learner.rows(xs), PREDICT_THEN_LEARN, ys, ws)
    return learner.progressive_many(block).dicts()


@settings(max_examples=share(0.15))
@given(STREAM)
def test_posterior_is_that_of_the_obvious_twin(stream) -> None:
    """Labels at once: logarithms of weights and plain weights agree."""
    fast, twin = Mixture(experts()), slow()
    for i, (x, y, w) in enumerate(stream):
        assert fast.predict_proba_one(x) == pytest.approx(twin.predict(x, i), abs=1e-9)
        fast.learn_one(x, y, w)
        twin.learn(x, y, w, i)

    assert list(fast.expert_weights.values()) == pytest.approx(twin.weights, abs=1e-9)


@settings(max_examples=share(0.25))
@given(
    st.lists(st.tuples(RECORD, LABELS), min_size=1, max_size=120),
    st.booleans(),
    st.lists(st.sampled_from([1.0, 0.5, 1e-9]), min_size=1, max_size=3),
)
def test_loss_is_at_most_that_of_each_expert_and_a_constant(stream, runs, ws) -> None:
    """ln N + ln K more, whatever the labels are. A loss counts as often as its record; labels that
    no expert knew are left out."""
    if runs:  # long runs, in which another expert becomes the best
        stream = [(x, stream[i // 30][1]) for i, (x, _) in enumerate(stream)]
    xs, ys = [x for x, _ in stream], [y for _, y in stream]
    w = [ws[i % len(ws)] for i in range(len(ys))]
    mixture = posteriors(Mixture(experts()), xs, ys, w)
    known = [list(p) for p in mixture]
    scored = [i for i, y in enumerate(ys) if y in known[i]]
    loss = -sum(w[i] * log(mixture[i][ys[i]]) for i in scored)
    every = [ClassShares(), NoChange(), *experts()]
    for expert in every:
        own = posteriors(expert, xs, ys, w)
        least = -sum(w[i] * log(floored(own[i], known[i])[ys[i]]) for i in scored)
        assert loss <= least + log(len(every)) + log(len(RATES)) + 1e-9


def test_mixture_follows_the_expert_that_is_right() -> None:
    """Before and after the rule is turned around, and says who is believed."""
    xs, ys = numbered(2000)
    model = Mixture([MixedNB(), MixedNB(half_life=50)])
    p = posteriors(model, xs, ys)
    late = np.mean(
        [max(q, key=q.__getitem__) == y for q, y in zip(p[1200:], ys[1200:], strict=True)]
    )

    assert late > 0.8
    assert (
        max(model.expert_weights, key=model.expert_weights.__getitem__) == "MixedNB(half_life=50.0)"
    )
    assert sum(model.expert_weights.values()) == pytest.approx(1.0)


def test_fields_that_say_nothing_are_no_worse_than_guessing() -> None:
    """Where naive Bayes loses to the share of the classes."""
    rng = np.random.default_rng(3)
    xs = [
        {f"n{i}": v for i, v in enumerate(row)} for row in rng.standard_cauchy((3000, 20)).tolist()
    ]
    ys = ["rare" if r else "common" for r in (rng.random(3000) < 0.1).tolist()]

    def loss(model: Learner) -> float:
        pairs = list(zip(posteriors(model, xs, ys), ys, strict=True))[100:]
        return float(np.mean([-log(max(p.get(y, 0.0), 1e-15)) for p, y in pairs]))

    assert loss(Mixture(["GaussianNB"])) < loss(ClassShares()) + 0.005
    assert loss(GaussianNB()) > 2 * loss(ClassShares())


@pytest.mark.parametrize("delay", [1, 7, 40])
@pytest.mark.parametrize(
    ("make", "twin_of"),
    [
        (lambda: Mixture(experts()), slow),
        (
            with_recent,
            lambda: SlowMixture([ClassShares(), SlowNoChange(), SlowNoChange(3), *experts()]),
        ),
    ],
    ids=["experts", "a recent guess"],
)
def test_late_label_weighs_what_was_predicted_then(make, twin_of, delay) -> None:
    """The twin keeps the predictions by id; they are never made again at the label."""
    xs, events = delayed(80, delay)
    found, _ = run_late(make(), xs, events, 1000, save=False)
    twin, expected = twin_of(), []
    for row, id_, label in zip(events.row, events.ids, events.labels, strict=True):
        if row >= 0:
            expected.append(twin.predict(xs[row], id_))
        else:
            twin.learn(xs[int(id_)], label, 1.0, id_)

    assert len(found) == 80
    assert all(p == pytest.approx(q, abs=1e-9) for p, q in zip(found, expected, strict=True))


@pytest.mark.parametrize("delay", [0, 7, 40])
@pytest.mark.parametrize("make", [lambda: Mixture(experts()), with_recent])
def test_blocks_and_restarts_change_no_bit_of_late_labels(make, delay) -> None:
    """What the experts predicted travels with the waiting row."""
    xs, events = delayed(90, delay)
    whole = run_late(make(), xs, events, 1000, save=False)
    for size, save in ((1, False), (13, True)):
        assert run_late(make(), xs, events, size, save) == whole


@pytest.mark.parametrize("delay", [0, 7, 40])
def test_mixture_in_a_mixture_keeps_its_own_notes(delay) -> None:
    """Blocks and restarts change no bit, and the inner one is what it would be alone."""
    xs, events = delayed(90, delay)

    def nested() -> Mixture:
        return Mixture([GaussianNB(), Mixture(experts()), MixedNB(), Mixture(["GaussianNB"])])

    outer, alone = nested(), Mixture(experts())
    whole = run_late(outer, xs, events, 1000, save=False)
    run_late(alone, xs, events, 1000, save=False)

    assert outer._parts[3].fingerprint() == alone.fingerprint()
    for size, save in ((1, False), (13, True)):
        assert run_late(nested(), xs, events, size, save) == whole


@pytest.mark.parametrize(("at", "value"), [(0, np.inf), (0, -1.0), (1, 1.1), (1, 1e300), (1, -0.1)])
def test_notes_that_are_no_probabilities_are_refused(at, value) -> None:
    """In a state and in a block; kernels count them by their size."""
    xs, events = delayed(80, 40)
    rows = Mixture(["GaussianNB"]).rows(xs)
    machines = [Progressive(Mixture(["GaussianNB"]), LabelJoin(1000), rows) for _ in range(2)]
    machines[0].process(rows, events)
    state = machines[0].to_state()
    name = next(name for name in state.arrays if name.endswith("memo"))
    memo = state.arrays[name].copy()
    memo[3, at, 1] = value
    with pytest.raises(StateError, match="predictions"):
        machines[1].load_state(State(state.header, {**state.arrays, name: memo}))

    block = Block.of(rows.take(np.arange(len(memo))), LEARN, ["p"] * len(memo))
    block.rows.memo = memo
    with pytest.raises(SchemaError, match="memo"):
        Mixture(["GaussianNB"]).progressive_many(block)


def test_waiting_predictions_count_in_the_bytes_of_the_join() -> None:
    """8 bytes for each expert, share rate and the label before, for each known class and once more.
    A bound of bytes holds them too."""
    xs, events = delayed(80, 40)
    model = Mixture(["GaussianNB"])
    rows = model.rows(xs)
    machine = Progressive(model, LabelJoin(1000, max_bytes=1500), rows)
    machine.process(rows, events)

    assert machine.join.state.rows.bytes == sum(
        rows.sizes()[int(id_)] + 8 * (4 + len(RATES)) * (1 + known)
        for id_, known in zip(machine.join.state.waiting, _known(machine), strict=True)
    )
    assert machine.join.pending < 40


def test_late_labels_in_runs_are_credited_to_no_change_as_it_was_right() -> None:
    """The last known label is right in three quarters of each run, and not in 199 of 200."""
    n, run, delay = 6000, 200, 50
    pairs = [({"a": 0.0}, "pq"[i // run % 2]) for i in range(n)]
    *_, quality = progressive(pairs, Mixture(["GaussianNB"]), delay=delay)

    scores = quality.scores["last_1000"]
    entropy = -(0.75 * log(0.75) + 0.25 * log(0.25))
    assert scores.accuracy == pytest.approx(0.75, abs=0.02)
    assert scores.log_loss is not None
    assert scores.log_loss < entropy + 0.03


def test_waiting_rows_take_no_more_memory_when_classes_are_added() -> None:
    """They are counted by the classes that were known when they came."""
    model = Mixture(["GaussianNB"])
    n, classes = 500, 200
    rows = model.rows([{"a": float(i)} for i in range(n)])
    machine = Progressive(model, LabelJoin(1000), rows)
    for ids, labels in (("first", [None] * n), ("then", [f"y{i}" for i in range(classes)])):
        m = len(labels)
        names = [f"{ids} {i}" for i in range(m)]
        machine.process(
            rows.take(np.arange(m)), Events(names, range(m), labels, [1.0] * m, [0] * m)
        )

    memos = machine.waiting.memos.take(np.arange(n))[:, 0].tolist()
    held = [memo.nbytes for memo in memos if memo is not None]
    assert len(held) == n
    assert sum(held) == machine.join.state.rows.bytes == n * 8 * (4 + len(RATES))


def _known(machine: Progressive) -> list[int]:
    """How many classes were known when each waiting row was predicted."""
    memos = machine.waiting.memos.take(machine.join.kept_slots())[:, 0].tolist()
    return [int(memo[0, 0]) for memo in memos]


def test_blocks_and_restarts_change_no_bit_of_corrections() -> None:
    """Every third label is sent again as another one, some labels later."""
    xs, events = delayed(90, 7)
    again = [i for i, row in enumerate(events.row) if row < 0][::3]
    order = sorted([*range(len(events.row)), *(i + 20.5 for i in again)])
    at = [int(i) if i == int(i) else int(i) - 20 for i in order]
    new = [None if i == int(i) else "r" for i in order]
    ids, row = [events.ids[i] for i in at], [events.row[i] for i in at]
    labels = [label or events.labels[i] for i, label in zip(at, new, strict=True)]
    corrected = Events(ids, row, labels, [1.0] * len(at), list(range(len(at))))
    whole = run_late(Mixture(experts()), xs, corrected, 1000, save=False)

    assert whole[1] != run_late(Mixture(experts()), xs, events, 1000, save=False)[1]
    for size, save in ((1, False), (13, False), (17, True)):
        assert run_late(Mixture(experts()), xs, corrected, size, save) == whole


def test_correction_reaches_each_expert() -> None:
    """Naive Bayes unlearns the old label; logistic regression learns the new one."""
    xs, ys = numbered(60)
    model = Mixture(["MixedNB", "LogisticRegression"])
    model.learn_many(xs, ys)
    bayes, logistic = MixedNB(), LogisticRegression()
    for learner in (bayes, logistic):
        learner.learn_many(xs, ys)
    weights = model.expert_weights
    wrong = ("up", "down")[ys[20] == "up"]

    model.correct_rows(model.rows([xs[20]]), (ys[20], 1.0), (wrong, 1.0), 39)
    bayes.unlearn_one(xs[20], ys[20])
    bayes.learn_one(xs[20], wrong)
    logistic.learn_one(xs[20], wrong)

    assert model.can_correct
    assert not model.can_unlearn
    assert model._parts[2].fingerprint() == bayes.fingerprint()
    assert model._parts[3].fingerprint() == logistic.fingerprint()
    assert model.expert_weights == weights


def test_correction_of_an_old_label_is_no_last_label() -> None:
    """The guesses count the new label in place of the old one; no change repeats the newest."""
    shares, same = ClassShares(), NoChange()
    for guess in (shares, same):
        guess.learn_many([{}] * 4, ["p", "q", "q", "q"])
        guess.correct_rows(guess.rows([{}]), ("p", 1.0), ("r", 2.0), 3)
    p = shares.predict_proba_one({})
    assert p == pytest.approx({"p": 0.5 / 6.5, "q": 3.5 / 6.5, "r": 2.5 / 6.5})
    assert same.predict_one({}) == "q"

    same.correct_rows(same.rows([{}]), ("q", 1.0), ("p", 1.0), 0)
    assert same.predict_one({}) == "p"
    with pytest.raises(NotLearnedError, match="one of the classes"):
        same.correct_rows(same.rows([{}]), ("unknown", 1.0), ("p", 1.0), 0)


def test_correction_of_the_only_record_of_a_class_keeps_the_mixture_sound() -> None:
    """An expert then no longer knows a class that the others know."""
    model = Mixture(["MixedNB", "LogisticRegression"])
    model.learn_many([{"a": 1.0}, {"a": 2.0}, {"a": 1.5}], ["p", "q", "r"])
    model.correct_rows(model.rows([{"a": 1.5}]), ("r", 1.0), ("q", 1.0), 0)

    assert len(model._parts[2].classes) == 2
    assert sum(model.predict_proba_one({"a": 1.0}).values()) == pytest.approx(1.0)
    model.learn_one({"a": 3.0}, "r")
    assert {*model.predict_proba_one({"a": 3.0})} == {"p", "q", "r"}


def test_explanation_leaves_out_one_field_at_a_time() -> None:
    """The rest is what fields add only together; a field that says nothing adds about 0."""
    rng = np.random.default_rng(5)
    xs = [{"a": a, "b": b, "noise": c} for a, b, c in rng.normal(size=(800, 3)).tolist()]
    ys = ["yes" if x["a"] > 0 else "no" for x in xs]
    model = Mixture()
    model.learn_many(xs, ys)
    why = model.explain_one({"a": 2.0, "b": 0.1, "noise": 0.2}, "yes", "no")

    assert {*why.contributions} == {"(prior)", "a", "b", "noise", "(together)"}
    assert why.contributions["a"] > 1.0
    assert abs(why.contributions["noise"]) < why.contributions["a"] / 3
    p = model.predict_proba_one({"a": 2.0, "b": 0.1, "noise": 0.2})
    assert why.log_odds == pytest.approx(log(p["yes"] / p["no"]), abs=1e-9)


@pytest.mark.parametrize("name", ["(prior)", "(together)"])
def test_explanation_sums_to_the_log_odds_whatever_a_field_is_called(name) -> None:
    """Two contributions of one name are added; one was lost."""
    model = Mixture(["GaussianNB", "LogisticRegression"])
    model.learn_many(
        [{name: float(i % 7)} for i in range(70)], ["pq"[i % 7 > 3] for i in range(70)]
    )
    p = model.predict_proba_one({name: 6.0})

    why = model.explain_one({name: 6.0}, "p", "q")
    assert why.log_odds == pytest.approx(log(p["p"] / p["q"]), abs=1e-9)


@given(
    st.lists(st.tuples(LABELS, st.sampled_from([1.0, 0.5, 2.0, 1e6])), min_size=1, max_size=40),
    st.sampled_from([1.0, 3.0, 30.0]),
)
def test_last_label_counts_by_the_newest_labels(stream, half_life) -> None:
    """As its twin does, with weights."""
    fast, twin = NoChange(half_life), SlowNoChange(half_life)
    for y, w in stream:
        assert fast.predict_proba_one({}) == pytest.approx(twin.predict_proba_one({}), abs=1e-12)
        fast.learn_one({}, y, w)
        twin.learn(y, w, twin.last)


def test_count_of_a_corrected_label_is_that_of_the_new_one() -> None:
    """By its age, where counts fade."""
    ys = [*"pqqprpp"]
    corrected, direct = NoChange(half_life=2), NoChange(half_life=2)
    corrected.learn_many([{}] * len(ys), ys)
    corrected.correct_rows(corrected.rows([{}]), ("r", 1.0), ("q", 1.0), age=2)
    direct.learn_many([{}] * len(ys), [*"pqqpqpp"])

    counts = dict(zip(corrected.classes, corrected._counts.tolist(), strict=True))
    expected = dict(zip(direct.classes, direct._counts.tolist(), strict=True))
    assert counts == pytest.approx({**expected, "r": 0.0}, abs=1e-12)


def test_guess_whose_counts_have_faded_stays_a_distribution() -> None:
    """A class that is not seen for 100,000 labels."""
    model = NoChange(half_life=1)
    model.learn_many([{}] * 100_001, ["p", *["q"] * 100_000])

    assert sum(model.predict_proba_one({}).values()) == pytest.approx(1.0)
    assert model._counts.tolist() == [0.0, pytest.approx(2.0)]


@pytest.mark.parametrize(
    "guess",
    [ClassShares, NoChange, lambda: NoChange(half_life=5)],
    ids=["ClassShares", "NoChange", "NoChange(half_life=5)"],
)
def test_laws_hold_for_a_guess(guess) -> None:
    """They are experts, but not registered."""
    check_laws(guess())


def test_no_change_is_a_distribution_beside_the_heaviest_weight() -> None:
    """The share of the last label rounds to 1."""
    model = NoChange()
    model.learn_many([{}, {}, {}], ["p", "q", "r"], [1.0, 1.0, 2.0**53])
    p = model.predict_proba_one({})

    assert sum(p.values()) == pytest.approx(1.0)
    assert p["p"] == p["q"] > p["r"]


def test_laws_hold_for_experts_that_fade() -> None:
    """And for a mixture of one."""
    check_laws(Mixture([GaussianNB(half_life=20), LogisticRegression(start="zero")]))
    check_laws(Mixture(["KNNClassifier"]))


@pytest.mark.parametrize("name", ["MultinomialNB", "BernoulliNB"])
def test_texts_are_encoded_once_if_all_experts_agree(name) -> None:
    """An exact vocabulary needs the words; the predictions are those of raw texts."""
    texts = [{"t": "free money now"}, {"t": "see you at noon"}, {"t": "money at noon"}] * 4
    labels = ["spam", "ham", "ham"] * 4
    exact = MultinomialNB(vocabulary="exact")
    for experts_given, hashed in (([name, MixedNB(text=["t"])], True), ([name, exact], False)):
        model = Mixture(experts_given).declare(Schema.of(t="text"))
        model.learn_many(texts, labels)
        apart = [expert.clone().declare(Schema.of(t="text")) for expert in model._parts]
        for expert in apart:
            expert.learn_many(texts, labels)

        assert isinstance(model.rows(texts).text[0, 0], np.ndarray) == hashed
        for one, other in zip(model._parts, apart, strict=True):
            assert one.fingerprint() == other.fingerprint()


@pytest.mark.parametrize("name", [name for name in learners() if name != "Mixture"])
@pytest.mark.parametrize("compose", [lambda name: Mixture([name]), Calibrated], ids=["in", "under"])
def test_part_reads_each_kind_of_field_as_it_does_alone(name, compose) -> None:
    """Declared fields; a learner of numbers got truth values as categories, which it ignores."""
    schema = Schema.of(n="numeric", b="binary", c="categorical", t="text")
    rng = np.random.default_rng(2)
    xs = [
        {"n": int(n), "b": bool(b), "c": "xyz"[c], "t": ("sun", "sun rain")[b]}
        for n, b, c in zip(*(rng.integers(k, size=60) for k in (5, 2, 3)), strict=True)
    ]
    ys = ["pq"[x["b"]] for x in xs]
    alone, model = learners()[name]().declare(schema), compose(name).declare(schema)
    alone.learn_many(xs, ys)
    model.learn_many(xs, ys)

    assert model._parts[-1].fingerprint() == alone.fingerprint()


def test_truth_values_in_dicts_are_read_as_all_experts_read_them() -> None:
    """As numbers if all do; as categories if they do not agree, because a column has one kind."""
    x = {"n": 1.0, "b": True}

    assert Mixture(["BernoulliNB", "GaussianNB"]).rows([x]).numeric_names == ("b", "n")
    assert Mixture(["GaussianNB", "MixedNB"]).rows([x]).categorical_names == ("b",)
    assert Mixture([Calibrated("MultinomialNB")]).rows([{"t": "sun"}]).text_names == ("t",)


def test_given_experts_do_not_learn() -> None:
    """The mixture makes its own."""
    own = GaussianNB()
    model = Mixture([own])
    model.learn_one({"a": 1.0}, "p")

    assert own.classes == []
    assert model._parts[2].classes == ["p"]


@pytest.mark.parametrize(
    "bad", [{"half_lives": 3}, {"half_life": "x"}, {"half_life": 0.1}], ids=str
)
def test_bad_parameter_of_an_expert_is_refused(bad) -> None:
    """With the name of the parameter."""
    with pytest.raises(SchemaError, match=next(iter(bad))):
        Mixture([{"type": "GaussianNB", **bad}])


def test_expert_by_name_and_parameters_is_that_learner() -> None:
    """As a configuration writes it; its state loads into the same and into no other."""
    named = Mixture(["MixedNB", {"type": "GaussianNB", "half_life": 20}])
    named.learn_many([{"a": 1.0}, {"a": 3.0}], ["p", "q"])

    assert named._parts[3]._get_params() == GaussianNB(half_life=20)._get_params()
    same = Mixture(["MixedNB", {"type": "GaussianNB", "half_life": 20}])
    assert same.load_state(named.to_state()).fingerprint() == named.fingerprint()
    with pytest.raises(StateError, match="experts"):
        Mixture(["MixedNB", "GaussianNB"]).load_state(named.to_state())


def test_bins_before_a_mixture_are_refused() -> None:
    """Its waiting rows would lose what was predicted for them."""
    with pytest.raises(SchemaError, match="no bins"):
        Discretized(Discretizer(), Mixture())


@pytest.mark.parametrize("depth", [7, 300])
def test_learners_in_learners_without_end_are_refused(depth) -> None:
    """Each level took twice as long to make, and 300 levels more than Python's stack."""
    spec: Any = "GaussianNB"
    for i in range(depth):
        spec = (
            {"type": "Mixture", "experts": [spec]}
            if i % 2
            else {"type": "Calibrated", "learner": spec}
        )
    with pytest.raises(SchemaError, match="deep"):
        Mixture([spec])


def test_merging_is_refused() -> None:
    """Weights depend on the order of all labels."""
    with pytest.raises(NotSupportedError):
        Mixture().merge(Mixture())


def test_state_of_an_expert_with_another_class_is_refused() -> None:
    """The mixture would have no column for it."""
    models = [Mixture(["GaussianNB"]) for _ in range(2)]
    for model, label in zip(models, ("p", "q"), strict=True):
        model.learn_one({"a": 1.0}, label)
    one, other = (model.to_state() for model in models)
    inner = {**one.header["inner"], "part2": other.header["inner"]["part2"]}
    with pytest.raises(StateError, match="expected classes"):
        Mixture(["GaussianNB"]).load_state(State({**one.header, "inner": inner}, one.arrays))


def test_weights_sum_to_one_after_the_heaviest_records() -> None:
    """Their logarithms are of the order of 1e17, where neighbouring doubles are 16 apart."""
    model = Mixture(["GaussianNB"])
    for i in range(40):
        model.learn_one({"a": float(i % 5)}, "pqr"[i % 3], 2.0**53 / (1 + i % 7))
        log_bank, bank, log_bayes, shares = model._belief
        for weights in (np.exp(log_bank), np.exp(log_bayes), *bank, *shares):
            assert weights.sum() == pytest.approx(1.0, abs=1e-12)


NAMES = ("log_bank", "bank", "log_bayes", "shares")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(f"own/{name}", np.zeros((2, 2))) for name in NAMES],
        ("own/log_bank", np.full(5, np.nan)),
        ("own/log_bank", np.array([-1.0, -1.0, -1.0, -1.0, 710.0])),
        ("own/bank", np.full((1, 5), np.nan)),
        ("own/bank", np.eye(5)[:1]),  # not those of the logarithms
        ("own/log_bayes", np.full(8, -1e300)),
        ("own/log_bayes", np.log([0.3, *[0.1] * 7])),  # not those of the shares
        ("own/shares", np.eye(8)[[1] * 5]),  # a weight of 0 for an expert that is given a share
        ("own/shares", np.full((5, 8), 0.2)),
        ("own/shares", np.full((5, 8), np.nan)),
        ("part0/counts", np.array([1e308])),
    ],
)
def test_damaged_weights_are_refused(name, value) -> None:
    """Another number of experts, and weights that are none: they predicted NaN."""
    model = Mixture()
    model.learn_one({"a": 1.0}, "p")
    state = model.to_state()
    with pytest.raises(StateError):
        Mixture().load_state(State(state.header, {**state.arrays, name: value}))


def test_damaged_memo_of_a_waiting_row_is_never_read_beyond_its_end() -> None:
    """It says that a hundred classes were known, but has the probabilities of one."""
    model = Mixture(["GaussianNB"])
    model.learn_many([{"a": 1.0}, {"a": 2.0}], ["p", "q"])
    weights = model.expert_weights
    rows = model.rows([{"a": 1.5}])
    rows.memo = np.array([[[100.0, 100.0, 100.0], [0.5, 0.5, 0.5]]])
    model.run(Block.of(rows, LEARN, ["q"]))

    assert model.expert_weights == weights
