"""A model and its challengers: the same steps for all, and one who speaks."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import pytest

from stream import (
    BernoulliNB,
    GaussianBayes,
    GaussianNB,
    KNNClassifier,
    MixedNB,
    MultinomialNB,
    Rows,
    SpamScorer,
)
from stream.contest.champion import MODEL, ChampionChallenger
from stream.contest.compare import Comparison
from stream.decision import BayesDecision
from stream.errors import SchemaError, StateError
from stream.evaluate.progressive import Events, Progressive
from stream.evaluate.result import joined
from stream.join.join import LabelJoin
from tests.stream.evaluate.test_progressive import SCHEMA, Event, scattered

CHALLENGERS = {
    "bayes": GaussianBayes,
    "neighbours": lambda: KNNClassifier(window=50),
    "words": MultinomialNB,
    "mixed": MixedNB,
    "bits": BernoulliNB,
    "scorer": SpamScorer,
}


@pytest.fixture(autouse=True)
def few_records_are_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The streams here are short."""
    monkeypatch.setattr(Comparison, "RECORDS", 10)
    monkeypatch.setattr(Comparison, "CHANGES", 2)


def contest(learner=None, rule=None, threshold: float = inf, **bounds: Any) -> ChampionChallenger:
    """A roster of the model alone."""
    learner = learner or GaussianNB()
    join, like = LabelJoin(**bounds), Rows.empty(SCHEMA)
    machine = Progressive(learner, join, like, rule=rule)
    out = ChampionChallenger(machine, like, rule)
    out.threshold = threshold
    return out


def everyone(**given: Any) -> ChampionChallenger:
    """A roster with all the challengers."""
    out = contest(**given)
    for name, make in CHALLENGERS.items():
        out.enroll(name, make(), 0)
    return out


def columns(events: list[Event]) -> Rows:
    """The observations as they come."""
    xs = [e.x for e in events if e.x is not None]
    rows = Rows.empty(SCHEMA, len(xs))
    for i, x in enumerate(xs):
        rows.numeric[i] = [x.get("a", np.nan), x.get("b", np.nan)]
        rows.categorical[i, 0], rows.text[i, 0] = x.get("c"), x.get("t")
    return rows


def run(going: ChampionChallenger, events: list[Event], cuts=(), start: int = 0, explain: int = 0):
    """Process events in calls that end at `cuts`; the whole result."""
    parts = []
    for first, stop in pairwise([0, *sorted(cuts), len(events)]):
        part, number = events[first:stop], iter(range(stop - first))
        told = Events(
            [e.id for e in part],
            [-1 if e.x is None else next(number) for e in part],
            [e.label for e in part],
            [e.w for e in part],
            list(range(start + first, start + stop)),
        )
        raw = columns(part)
        said = going.process(model(going).learner.prepare(raw), told, raw, explain=explain)
        said.promotions = [p._replace(event=first + p.event) for p in said.promotions]
        parts.append(said)
    return joined(parts, list(join_of(going).labels))


def model(going: ChampionChallenger) -> Progressive:
    """The machine of the model."""
    return going._machine


def join_of(going: ChampionChallenger) -> LabelJoin:
    """What all share."""
    return model(going).join


def standing(going: ChampionChallenger) -> dict[str, Any]:
    """Everyone by name."""
    return {c.name: c for c in going.contestants()}


def whole(going: ChampionChallenger):
    """All there is to save."""
    return going.to_state(), model(going).to_state()


def counted(event: Event) -> Event:
    """The event with values that are counts too."""
    if event.x is None:
        return event
    x = {k: abs(v) if k in "ab" else v for k, v in event.x.items()}
    return Event(event.id, x, event.label, event.w)


def uneven(n: int, seed: int = 0, delay: int = 3, labels: str = "pq") -> list[Event]:
    """Classes that only the joint distribution of a and b tells apart: naive Bayes cannot."""
    rng = np.random.default_rng(seed)
    events: list[Event] = []
    for i in range(n + delay):
        if i < n:
            a = rng.normal()
            b = a + rng.normal(scale=0.3) if i % 2 else -a + rng.normal(scale=0.3)
            events.append(Event(labels + str(i), {"a": a, "b": b}))
        if i >= delay:
            events.append(Event(labels + str(i - delay), None, labels[(i - delay) % 2]))
    return events


@pytest.mark.parametrize("corrections", [False, True])
def test_challengers_change_nothing_of_the_model(corrections) -> None:
    """Its predictions, its state and the join are those of a model without any."""
    events = scattered(300, seed=4)
    alone, going = contest(corrections=corrections), everyone(corrections=corrections)
    expected, got = run(alone, events, [100]), run(going, events, [100])

    assert model(going).to_state() == model(alone).to_state()
    assert np.array_equal(got.predictions.proba, expected.predictions.proba)
    assert got.learned_before.tolist() == expected.learned_before.tolist()


@pytest.mark.parametrize("name", CHALLENGERS)
def test_challenger_is_scored_as_if_it_ran_alone(name) -> None:
    """Whatever kinds of columns it takes, while rows wait and when labels are corrected."""
    events = [counted(e) for e in scattered(300, seed=5)]
    alone = contest(CHALLENGERS[name](), corrections=True)
    going = everyone(corrections=True)
    run(alone, events, [50, 170])
    run(going, events, [60, 61, 200])
    challenger = standing(going)[name]

    assert challenger.machine.learner.fingerprint() == model(alone).learner.fingerprint()
    assert challenger.machine.quality.to_state() == model(alone).quality.to_state()
    assert (challenger.missed, sum(challenger.skipped.values())) == (0, 0)


@pytest.mark.parametrize("cuts", [[300], [1, 2, 3, 390, 391, 398], range(1, 399)], ids=len)
def test_any_split_gives_the_same_bits_and_the_same_champions(cuts) -> None:
    """Also of who speaks from which prediction on, and what (I1)."""
    events = uneven(100) + uneven(100, seed=6, labels="qp")  # who forgets is better then
    whole_, cut = everyone(threshold=0.2), everyone(threshold=0.2)  # 1.2 for each of six
    expected, got = run(whole_, events), run(cut, events, cuts)

    assert whole(cut) == whole(whole_)
    assert whole_.promotions >= 1
    assert got.promotions == expected.promotions
    assert np.array_equal(got.predictions.proba, expected.predictions.proba)
    assert got.predictions.ranked_evidence(2) == expected.predictions.ranked_evidence(2)
    assert got.predicted.tolist() == expected.predicted.tolist()
    assert got.learned_before.tolist() == expected.learned_before.tolist()


def test_restored_roster_goes_on_bit_for_bit() -> None:
    """Rows that wait, comparisons and champion included (I2)."""
    events = uneven(300, delay=20)
    going, restored = everyone(threshold=5.0), everyone()
    run(going, events[:400])
    saved, machine = going.to_state(), model(going).to_state()
    model(restored).load_state(machine)
    restored.load_state(saved)
    expected, got = run(going, events[400:], start=400), run(restored, events[400:], start=400)

    assert whole(restored) == whole(going)
    assert restored.champion == going.champion != MODEL
    assert np.array_equal(got.predictions.proba, expected.predictions.proba)


def test_better_challenger_speaks_from_the_record_on_that_decides() -> None:
    """Before, the model's posteriors; after, those of the challenger run alone."""
    events = uneven(300)
    going = contest(threshold=20.0)
    going.enroll("bayes", GaussianBayes(), 0)
    said = run(going, events)
    [promotion] = said.promotions
    at, models, theirs = (
        promotion.prediction,
        run(contest(), events),
        run(contest(GaussianBayes()), events),
    )

    assert (promotion.name, going.champion, going.promotions) == ("bayes", "bayes", 1)
    assert promotion.e_value >= 20.0
    assert said.champions == [(0, MODEL), (at, "bayes")]
    assert 10 < at < 200
    assert np.array_equal(said.predictions.proba[:at], models.predictions.proba[:at])
    assert np.array_equal(said.predictions.proba[at:], theirs.predictions.proba[at:])


def test_evidence_is_published_while_a_model_speaks_that_knows_it() -> None:
    """That of the scorer alone, from its promotion on."""
    events = uneven(300)
    going = contest(threshold=0.3)  # as soon as it is decided
    going.enroll("scorer", SpamScorer(), 0)
    said, theirs = run(going, events), run(contest(SpamScorer()), events)
    at = said.promotions[0].prediction
    end = said.promotions[1].prediction if len(said.promotions) > 1 else len(said.predictions)
    evidence, pairs = said.predictions.evidence, said.predictions.ranked_evidence(2)

    assert pairs[:at] == [None] * at
    assert evidence[at:end].tobytes() == theirs.predictions.evidence[at:end].tobytes()
    assert None not in pairs[at:end]


def test_promotion_waits_for_as_many_times_the_evidence_as_there_are_challengers() -> None:
    """So that one of twenty is the chance of a wrong one among all of them together."""
    events = uneven(300)
    one, three = contest(threshold=20.0), contest(threshold=20.0)
    for going, copies in ((one, 1), (three, 3)):
        going.enroll("bayes", GaussianBayes(), 0)
        for i in range(1, copies):
            going.enroll(f"copy {i}", GaussianNB(), 0)
    [alone], [among] = run(one, events).promotions, run(three, events).promotions

    assert 20.0 <= alone.e_value < 60.0 <= among.e_value
    assert alone.prediction < among.prediction


def test_former_champion_challenges_anew() -> None:
    """The comparisons begin with the champion; the scores of each go on."""
    going = contest()
    going.enroll("bayes", GaussianBayes(), 0)
    run(going, uneven(100))
    going.promote("bayes")
    now = standing(going)

    assert now["bayes"].comparison is None
    assert now[MODEL].comparison.view().compared == 0
    assert now[MODEL].machine.quality.bits() == model(going).quality.bits()
    going.promote(MODEL)
    assert going.champion == MODEL
    assert going.promotions == 0


@pytest.mark.parametrize("size", [1, 7, 300])
def test_promotion_names_the_event_that_decided_it(size: int) -> None:
    """In calls that end with it, the challenger is champion just then and not before."""
    events = uneven(300)
    whole, again = contest(threshold=20.0), contest(threshold=20.0)
    for going in (whole, again):
        going.enroll("bayes", GaussianBayes(), 0)
    [expected] = run(whole, events).promotions
    found = run(again, events, range(size, len(events), size)).promotions

    assert found == [expected]
    before = contest(threshold=20.0)
    before.enroll("bayes", GaussianBayes(), 0)
    run(before, events[: expected.event])
    assert before.champion == MODEL
    run(before, events[expected.event : expected.event + 1])
    assert before.champion == "bayes"


def test_new_challenger_is_not_judged_by_what_came_before_it() -> None:
    """Labels of earlier observations are neither learned nor compared, and are counted."""
    events = uneven(60, delay=10)
    going = contest()
    run(going, events[:60])
    learned = 25
    going.enroll("bayes", GaussianBayes(), learned)
    run(going, events[60:], start=60)
    late = standing(going)["bayes"]
    after = [e for e in events[60:] if e.x is not None]
    later = contest(GaussianBayes())
    run(later, [e for e in events[60:] if e.x or int(e.id[2:]) >= int(after[0].id[2:])])

    assert late.missed == learned + 10
    assert late.machine.quality.unscored == 11, "asked before its first label came"
    assert late.comparison.view().compared == len(after) - 11
    assert late.machine.learner.fingerprint() == model(later).learner.fingerprint()
    going.promote("bayes")
    [before] = run(going, [Event("x", {"a": 1.0})], start=999).learned_before.tolist()
    assert 60 + before == len(after), "of the 60 that the model learned"


def test_row_a_challenger_cannot_take_counts_against_it() -> None:
    """It says nothing, learns nothing of it, and is wrong where the champion is right."""
    going = contest()
    going.enroll("words", MultinomialNB(), 0)
    events = [Event(str(i), {"a": float(1 + i % 2), "b": 2.0}, "pq"[i % 2]) for i in range(20)]
    bad = [Event("bad", {"a": -1.0, "b": 2.0}), Event("bad", None, "p")]
    run(going, events)
    before = standing(going)["words"].comparison.view()
    run(going, bad[:1], start=20)
    run(going, bad[1:], start=21)
    now, after = standing(going)["words"], standing(going)["words"].comparison.view()

    assert now.skipped == {"refused": 1, "uncorrected": 0}
    assert now.missed == 1
    assert (after.compared, after.lost) == (before.compared + 1, before.lost + 1)


def test_challenger_that_cannot_unlearn_a_label_keeps_it() -> None:
    """The model's correction stands; the challenger's is counted."""
    going = contest(corrections=True)
    going.enroll("bayes", GaussianBayes(), 0)
    events = [Event(str(i), {"a": float(i), "b": float(i * i)}, "pq"[i % 2]) for i in range(8)]
    run(going, [*events, Event("gap", {"a": 1.0}, "p")])
    before = standing(going)["bayes"].machine.learner.fingerprint()
    run(going, [Event("gap", None, "q")], start=9)

    assert join_of(going).outcomes["corrected"] == 1
    assert standing(going)["bayes"].machine.learner.fingerprint() == before
    assert standing(going)["bayes"].skipped["uncorrected"] == 1


def test_champion_explains_what_it_says() -> None:
    """The model's explanations until the promotion, the challenger's from then on."""
    events = uneven(300)
    going = contest(threshold=20.0)
    going.enroll("bayes", GaussianBayes(), 0)
    said = run(going, events, explain=9)
    plain = contest(threshold=20.0)
    plain.enroll("bayes", GaussianBayes(), 0)
    again = run(plain, events)
    at = said.promotions[0].prediction
    theirs = run(contest(GaussianBayes()), events, explain=9)
    models = run(contest(), events, explain=9)

    assert said.promotions == again.promotions
    assert np.array_equal(said.predictions.proba, again.predictions.proba)
    assert said.explanations[:at] == models.explanations[:at]
    assert said.explanations[at:] == theirs.explanations[at:]


def test_refused_label_is_told_by_its_event_while_one_is_explained_at_a_time() -> None:
    """Where who explains may change, events are taken singly; their numbers stay."""
    going = contest(threshold=20.0)
    going.enroll("bayes", GaussianBayes(), 0)
    events = [Event("a", {"a": 1.0}, "p"), Event("b", {"a": 1.0}), Event("b", None, 7)]
    said = run(going, [*events, Event("c", {"a": 2.0})], explain=9)

    assert said.rejected == {2: "label_kind"}
    assert len(said.predictions) == len(said.explanations or []) == 3


def test_estimate_of_what_waits_is_each_models_own() -> None:
    """As if it had run alone, also of one that came when others waited."""
    going, alone = contest(max_pending=60), contest(GaussianBayes(), max_pending=60)
    events = uneven(100, delay=40)[:150]
    run(going, uneven(30, labels="rs", delay=20)[:40])
    going.enroll("bayes", GaussianBayes(), 20)
    run(going, events, [50], start=40)
    run(alone, events, start=40)
    estimate, expected = (
        standing(going)["bayes"].machine.estimate.view(),
        model(alone).estimate.view(),
    )

    assert estimate == expected
    assert estimate.waiting > 0


def test_champion_without_explanations_gives_none() -> None:
    """Its predictions come all the same."""
    going = contest()
    going.enroll("neighbours", KNNClassifier(window=9), 0)
    run(going, uneven(30))
    going.promote("neighbours")
    said = run(going, [Event(f"x{i}", {"a": 1.0}) for i in range(2)], start=99, explain=9)

    assert said.explanations == [None, None]
    assert len(said.predictions) == 2


def test_risk_of_a_challenger_is_of_its_own_decisions() -> None:
    """As if it had run alone."""
    rule, events = BayesDecision(), uneven(120)
    going, alone = contest(rule=rule), contest(GaussianBayes(), rule=rule)
    going.enroll("bayes", GaussianBayes(), 0)
    run(going, events, [40])
    run(alone, events)
    now = standing(going)

    assert now["bayes"].risk.to_state() == standing(alone)[MODEL].risk.to_state()
    assert now["bayes"].risk.value < now[MODEL].risk.value


def test_dismissed_challenger_leaves_the_others_as_they_were() -> None:
    """And the champion cannot be dismissed."""
    events = uneven(100)
    going, without = contest(), contest()
    for name in ("one", "two"):
        going.enroll(name, GaussianBayes(), 0)
    without.enroll("two", GaussianBayes(), 0)
    run(going, events[:100])
    run(without, events[:100])
    going.dismiss("one")
    run(going, events[100:], start=100)
    run(without, events[100:], start=100)

    assert whole(going) == whole(without)
    going.promote("two")
    with pytest.raises(SchemaError, match="promote another one first"):
        going.dismiss("two")


def test_new_challenger_does_not_inherit_how_another_of_its_name_did_of_late() -> None:
    """A block that was changed is a new model: an alarm must not promote it, empty, for the old."""
    going = contest()
    going.enroll("bayes", GaussianBayes(), 0)
    run(going, uneven(100))
    before = going._lately.best(MODEL)
    going.dismiss("bayes")
    going.enroll("bayes", GaussianBayes(), 100)

    assert (before, going._lately.best(MODEL)) == ("bayes", MODEL)


def test_roster_is_bounded_and_names_are_one_each() -> None:
    """Eight challengers, none twice, none that is not there."""
    going = contest()
    for i in range(8):
        going.enroll(f"c{i}", GaussianNB(), 0)

    with pytest.raises(SchemaError, match="at most 8"):
        going.enroll("c8", GaussianNB(), 0)
    with pytest.raises(SchemaError, match="already"):
        going.enroll("c3", GaussianNB(), 0)
    with pytest.raises(SchemaError, match="expected one of c0"):
        going.promote("c9")


def test_state_of_other_challengers_is_refused() -> None:
    """A roster is loaded into the same one."""
    one, other = contest(), contest()
    one.enroll("a", GaussianNB(), 0)
    other.enroll("b", GaussianNB(), 0)

    with pytest.raises(StateError, match="expected challengers"):
        other.load_state(one.to_state())
