"""Decisions by risk: the textbook's two-category rule, rejecting, and what decisions have cost."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream import GaussianNB, SchemaError, StateError
from stream.data.block import PREDICT, Block
from stream.data.state import State
from stream.decision import BayesDecision, OverallRisk
from stream.evaluate.progressive import Events, Progressive
from stream.join.join import LabelJoin
from stream.learner.base import Predictions
from tests.oracles.decision import conditional_risks, decide

LOAN = {"lend": {"pays": 0.0, "defaults": 10.0}, "refuse": {"pays": 1.0, "defaults": 0.0}}
MEDICAL = {
    "send home": {"well": 0.0, "ill": 100.0, "worse": 1000.0},
    "treat": {"well": 8.0, "ill": 1.0, "worse": 60.0},
    "operate": {"well": 90.0, "ill": 40.0, "worse": -5.0},
}

losses_of_mistakes = st.floats(0.125, 50.0)
losses_of_hits = st.floats(-2.0, 0.0)
logs = st.floats(-20.0, 20.0)


def posterior(logs_of: list[float]) -> list[float]:
    """Probabilities with these logarithms, but for a constant."""
    top = max(logs_of)
    shares = [math.exp(v - top) for v in logs_of]
    return [s / sum(shares) for s in shares]


@given(hits=st.tuples(losses_of_hits, losses_of_hits),
       misses=st.tuples(losses_of_mistakes, losses_of_mistakes), odds=logs)  # fmt: skip
def test_two_category_rule_of_the_text_is_the_least_risk(hits, misses, odds) -> None:
    """Decide w1 if (l21 - l11) P(w1|x) > (l12 - l22) P(w2|x), for mistakes that cost more."""
    (l11, l22), (l12, l21) = hits, misses
    p1, p2 = posterior([odds, 0.0])
    rule = BayesDecision({"w1": {"w1": l11, "w2": l12}, "w2": {"w1": l21, "w2": l22}})
    left, right = (l21 - l11) * p1, (l12 - l22) * p2
    if math.isclose(left, right, rel_tol=1e-9):
        return  # a tie but for rounding

    assert rule.decide_one({"w1": p1, "w2": p2}).action == ("w1" if left > right else "w2")


@given(misses=st.tuples(losses_of_mistakes, losses_of_mistakes), logs_of=st.tuples(logs, logs),
       prior=st.floats(0.01, 0.99))  # fmt: skip
def test_likelihood_ratio_against_its_threshold_is_the_least_risk(misses, logs_of, prior) -> None:
    """Decide w1 if p(x|w1)/p(x|w2) > (l12 - l22)/(l21 - l11) · P(w2)/P(w1)."""
    l12, l21 = misses
    p1, p2 = posterior([logs_of[0] + math.log(prior), logs_of[1] + math.log(1 - prior)])
    rule = BayesDecision({"w1": {"w2": l12}, "w2": {"w1": l21}})
    ratio, threshold = math.exp(logs_of[0] - logs_of[1]), l12 / l21 * (1 - prior) / prior
    if math.isclose(ratio, threshold, rel_tol=1e-9):
        return

    assert rule.decide_one({"w1": p1, "w2": p2}).action == ("w1" if ratio > threshold else "w2")


@given(logs_of=st.lists(logs, min_size=3, max_size=3), reject=st.none() | st.floats(-5.0, 80.0))
def test_decision_is_that_of_the_obvious_sum(logs_of, reject) -> None:
    """Risks, action and rejection, where actions are not the classes."""
    proba = dict(zip(("well", "ill", "worse"), posterior(logs_of), strict=True))
    made = BayesDecision(MEDICAL, reject).decide_one(proba)

    assert made.risks == conditional_risks(MEDICAL, proba)
    assert (made.action, made.risk) == decide(MEDICAL, proba, reject)
    assert made.rejected == (made.action is None)


def test_zero_one_loss_decides_for_the_most_probable_class() -> None:
    """Also where the risks, taken from 1, no longer differ; the earlier learned of equals."""
    nearly = {"a": 1e-17, "b": 2e-17, "c": 0.0}
    rule = BayesDecision()

    assert rule.decide_one(nearly).action == "b"
    assert rule.decide_one({"a": 0.5, "b": 0.5}).action == "a"
    assert rule.decide_one({"a": 0.25, "b": 0.75}).risks == {"a": 0.75, "b": 0.25}
    assert rule.decide_one({"a": 0.25, "b": 0.75}).risk == 0.25


def test_equal_risks_go_to_the_action_named_first() -> None:
    """A tie is decided by the order of the losses, not by that of the classes."""
    losses = {"second": {"b": 0, "a": 1}, "first": {"a": 0, "b": 1}}

    assert BayesDecision(losses).decide_one({"a": 0.5, "b": 0.5}).action == "second"


def test_rejects_only_where_abstaining_costs_less() -> None:
    """At equal cost something is done."""
    rule = BayesDecision(LOAN, reject_loss=0.5)

    assert rule.decide_one({"pays": 0.5, "defaults": 0.5}).action == "refuse"
    rejected = rule.decide_one({"pays": 0.75, "defaults": 0.25})
    assert (rejected.action, rejected.risk, rejected.rejected) == (None, 0.5, True)
    assert rejected.risks == {"lend": 2.5, "refuse": 0.75}


def test_nothing_is_decided_before_a_class_is_known() -> None:
    """No action, no risk; with a reject option, that."""
    before = BayesDecision(LOAN).decide_one({})
    abstains = BayesDecision(LOAN, reject_loss=3.0).decide_one({})

    assert (before.action, before.risk, before.risks, before.rejected) == (None, None, {}, False)
    assert (abstains.action, abstains.risk, abstains.rejected) == (None, 3.0, True)
    assert BayesDecision().decide_one({}).risk is None


@pytest.mark.parametrize("classes", [(1, 0), (True, False), ("1", "0")])
def test_losses_of_a_configuration_match_labels_of_any_kind(classes) -> None:
    """Its keys are text; labels may be integers and truth values."""
    yes, no = classes
    text = {True: "true", False: "false"} if yes is True else {yes: str(yes), no: str(no)}
    rule = BayesDecision({text[yes]: {text[no]: 3.0}, text[no]: {text[yes]: 1.0}})
    made = rule.decide_one({yes: 0.625, no: 0.375})

    assert made.risks == {text[yes]: 3.0 * 0.375, text[no]: 0.625}
    assert (made.action, rule.loss(made, yes), rule.loss(made, no)) == (text[no], 1.0, 0.0)


def test_class_that_no_loss_names_sways_no_choice_and_speaks_for_rejecting() -> None:
    """It costs every action the largest loss; an action called by it costs 0 there."""
    proba = {"pays": 0.5, "defaults": 0.25, "stranger": 0.25}
    made = BayesDecision(LOAN).decide_one(proba)
    named = BayesDecision({**LOAN, "stranger": {"pays": 1, "defaults": 1}}).decide_one(proba)

    assert made.risks == {"lend": 2.5 + 2.5, "refuse": 0.5 + 2.5}
    assert named.risks["stranger"] == 0.5 + 0.25
    assert BayesDecision(LOAN, reject_loss=2.0).decide_one(proba).rejected


WRONG = {
    "nothing": ({}, None, "must not be empty"),
    "no label": ({"lend": {}}, None, "must not be empty"),
    "infinite": ({"lend": {"pays": math.inf}}, None, "within ±1e100"),
    "nan": ({"lend": {"pays": math.nan}}, None, "within ±1e100"),
    "too large": ({"lend": {"pays": 10**400}}, None, "within ±1e100"),
    "text": ({"lend": {"pays": "1"}}, None, "within ±1e100"),
    "truth value": ({"lend": {"pays": True}}, None, "within ±1e100"),
    "missing": ({"lend": {"pays": 1, "defaults": 2}, "refuse": {"pays": 1}}, None, "'defaults'"),
    "twice": ({"lend": {1: 1.0, "1": 2.0}}, None, "'1' twice"),
    "action twice": ({1: {"a": 1.0}, "1": {"a": 2.0}}, None, "'1' twice"),
    "reject": (LOAN, math.nan, "reject_loss"),
}


@pytest.mark.parametrize(("losses", "reject", "words"), WRONG.values(), ids=WRONG)
def test_losses_that_make_no_sense_are_refused(losses, reject, words) -> None:
    """In one line that says which."""
    with pytest.raises(SchemaError, match=words) as caught:
        BayesDecision(losses, reject)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rule", [BayesDecision(), BayesDecision(MEDICAL, 30.0)])
def test_many_decisions_are_those_of_one_at_a_time(rule) -> None:
    """Bit for bit, also of predictions made before the later classes were known."""
    rng = np.random.default_rng(5)
    classes = ["worse", "well", "ill", "stranger"]
    known = np.sort(rng.integers(0, 5, size=60))
    proba = np.zeros((60, 4))
    for i, k in enumerate(known.tolist()):
        share = rng.random(k)
        proba[i, :k] = share / share.sum() if k else share
    predictions = Predictions(classes, proba, known)
    many = rule.decide_many(predictions)
    single = [rule.decide_one(p) for p in predictions.dicts()]

    assert many.done() == [(d.action, d.risk) for d in single]
    assert many.rejected.tolist() == [d.rejected for d in single]


def test_overall_risk_is_the_mean_of_what_decisions_cost() -> None:
    """Rejections cost what rejecting costs; what was not decided counts for nothing."""
    rule = BayesDecision(LOAN, reject_loss=0.5)
    risk = OverallRisk(rule)
    assert risk.value is None
    risk.update("pays", rule.decide_one({"pays": 1.0, "defaults": 0.0}))
    risk.update("defaults", rule.decide_one({"pays": 1.0, "defaults": 0.0}))
    risk.update("pays", rule.decide_one({"pays": 0.75, "defaults": 0.25}))
    undecided = OverallRisk(BayesDecision(LOAN))
    undecided.update("pays", undecided.rule.decide_one({}))

    assert (risk.total, risk.count, risk.rejected) == (0.0 + 10.0 + 0.5, 3, 1)
    assert risk.value == 3.5
    assert (undecided.count, undecided.value) == (0, None)


def test_overall_risk_of_zero_one_losses_is_the_error_rate() -> None:
    """1 - accuracy, on a learned stream."""
    rng = np.random.default_rng(8)
    model, rule = GaussianNB(), BayesDecision()
    risk, wrong, n = OverallRisk(rule), 0, 0
    for _ in range(200):
        c = int(rng.integers(2))
        x = {"a": float(rng.normal(c))}
        proba = model.predict_proba_one(x)
        if proba:
            risk.update(c, rule.decide_one(proba))
            wrong += model.predict_one(x) != c
            n += 1
        model.learn_one(x, c)

    assert risk.value == wrong / n > 0


def test_overall_risk_goes_on_from_its_state_unless_the_rule_is_another() -> None:
    """Losses of two kinds have no common mean; a damaged state is refused."""
    rule = BayesDecision(LOAN, 0.5)
    risk = OverallRisk(rule)
    risk.update("pays", rule.decide_one({"pays": 0.75, "defaults": 0.25}))
    same, other = OverallRisk(BayesDecision(LOAN, 0.5)), OverallRisk(BayesDecision(LOAN, 0.25))
    for restored in (same, other):
        restored.load_state(risk.to_state())

    assert same.to_state() == risk.to_state()
    assert (other.count, other.rejected, other.total) == (0, 0, 0.0)
    with pytest.raises(StateError, match="damaged"):
        same.load_state(State({"rule": None}))


def delayed_run(rule: BayesDecision, cuts: list[int]) -> tuple[Progressive, GaussianNB]:
    """120 records, each labelled 7 later, in blocks that end at `cuts`."""
    rng = np.random.default_rng(11)
    labels = rng.integers(3, size=120)
    xs = [{"a": float(rng.normal(c))} for c in labels.tolist()]
    events = []
    for i in range(120 + 7):
        if i >= 7:
            events.append((str(i - 7), None, "xyz"[labels[i - 7]]))
        if i < 120:
            events.append((str(i), xs[i], None))
    model = GaussianNB()
    machine = Progressive(model, LabelJoin(50), model.rows(xs[:1]), rule=rule)
    for start, stop in pairwise([0, *cuts, len(events)]):
        part = events[start:stop]
        features = [x for _, x, _ in part if x is not None]
        at = iter(range(len(features)))
        row = [-1 if x is None else next(at) for _, x, _ in part]
        ids, told, n = [e[0] for e in part], [e[2] for e in part], len(part)
        machine.process(model.rows(features), Events(ids, row, told, [1.0] * n, [0] * n))
    return machine, model


@pytest.mark.parametrize("cuts", [[], [100], list(range(1, 240))], ids=["one", "two", "single"])
def test_decision_is_judged_as_it_was_made(cuts) -> None:
    """The same losses as deciding by hand at prediction and waiting for the label (I1, I9)."""
    losses = {"wait": {"x": 1, "y": 5, "z": 2}, "act": {"x": 4, "y": 0, "z": 3}}
    rule = BayesDecision(losses, reject_loss=2.25)
    machine, _ = delayed_run(rule, cuts)

    rng = np.random.default_rng(11)
    labels = rng.integers(3, size=120)
    xs = [{"a": float(rng.normal(c))} for c in labels.tolist()]
    model, by_hand, made = GaussianNB(), OverallRisk(rule), []
    for i in range(120 + 7):
        if i >= 7:
            by_hand.update("xyz"[labels[i - 7]], made[i - 7])
            model.learn_one(xs[i - 7], "xyz"[labels[i - 7]])
        if i < 120:
            made.append(rule.decide_one(model.predict_proba_one(xs[i])))

    assert machine.risk.to_state() == by_hand.to_state()
    assert 7 < by_hand.rejected < by_hand.count == 120


def test_deciding_changes_nothing_else() -> None:
    """Learner, join, scores and waiting rows are those of a machine that does not decide."""
    machine, model = delayed_run(BayesDecision(), [60])
    plain = Progressive(GaussianNB(), LabelJoin(50), model.rows([{"a": 0.0}]))
    plain.load_state(machine.to_state())

    assert plain.to_state() == machine.to_state()
    assert len(model.progressive_many(Block.of(model.rows([{"a": 0.0}]), PREDICT))) == 1


@pytest.mark.parametrize("window", [1, 50, 1000])
def test_risk_and_coverage_of_each_window_are_those_of_an_obvious_count(window) -> None:
    """Overall, of what was decided, and how much that is; fading by weights."""
    rng = np.random.default_rng(window)
    rule = BayesDecision(LOAN, 0.5)
    risk, costs = OverallRisk(rule, window), []
    for p in rng.random(400).tolist():
        true = "pays" if rng.random() < p else "defaults"
        made = rule.decide_one({"pays": p, "defaults": 1 - p})
        risk.update(true, made)
        costs.append((rule.loss(made, true), made.rejected))
    loss, rejected = (np.array(column) for column in zip(*costs, strict=True))
    fading = 0.999 ** np.arange(399, -1, -1.0)
    last = np.arange(400) >= 400 - window

    for found, w in zip(risk.windows, (np.ones(400), 1.0 * last, fading), strict=True):
        assert found.scored == pytest.approx(w.sum())
        assert found.risk == pytest.approx(np.average(loss, weights=w))
        assert found.coverage == pytest.approx(1 - np.average(rejected, weights=w))
        decided = w * ~rejected
        expected = np.average(loss, weights=decided) if decided.any() else None
        assert found.selective_risk == pytest.approx(expected)


def test_windows_of_a_risk_go_on_from_its_state() -> None:
    """Restored, also with another window: the last ones are trimmed when the next one comes."""
    rule = BayesDecision(LOAN, 0.5)
    risk = OverallRisk(rule, 5)
    again, shorter = OverallRisk(rule, 5), OverallRisk(rule, 2)
    for p in (0.1, 0.9, 0.5, 0.95, 0.2, 0.99):
        risk.update("pays", rule.decide_one({"pays": p, "defaults": 1 - p}))
    for other in (again, shorter):
        other.load_state(risk.to_state())
    untouched = shorter.to_state()
    for one in (risk, again, shorter):
        one.update("defaults", rule.decide_one({"pays": 0.97, "defaults": 0.03}))

    assert untouched.arrays["losses"].size == 5
    assert (again.windows, again.to_state()) == (risk.windows, risk.to_state())
    assert [found.scored for found in shorter.windows[:2]] == [7, 2]
    assert shorter.windows[0] == risk.windows[0]


def test_baseline_is_the_best_of_doing_always_the_same() -> None:
    """On the very decisions that were scored; rejecting is one of the things to do always."""
    rng = np.random.default_rng(5)
    labels = rng.choice(["pays", "defaults"], 200, p=[0.9, 0.1]).tolist()
    n = {label: labels.count(label) for label in ("pays", "defaults")}
    free, costly, plain = (BayesDecision(LOAN, 0.01), BayesDecision(LOAN, 50), BayesDecision())
    risks = [OverallRisk(rule) for rule in (free, costly, plain)]
    for risk in risks:
        assert risk.constant is None
        for label in labels:
            risk.update(label, risk.rule.decide_one({"pays": 0.5, "defaults": 0.5}))

    always = {a: sum(LOAN[a][c] * n[c] for c in n) / 200 for a in LOAN}
    best = min(always, key=always.__getitem__)
    assert risks[0].constant == (None, 0.01)
    assert risks[1].constant == (best, pytest.approx(always[best]))
    assert risks[2].constant == ("pays", pytest.approx(n["defaults"] / 200))
