"""Drift: alarms at their records, models that restart, and the same bits for any split."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from river import drift, naive_bayes, tree

from stream import (
    GaussianNB,
    KNNClassifier,
    MixedNB,
    Mixture,
    MultinomialNB,
    RiverClassifier,
    Rows,
    Schema,
    SchemaError,
    StateError,
)
from stream.contest.champion import MODEL, ChampionChallenger
from stream.data.block import LEARN, PREDICT, Block
from stream.data.state import State
from stream.drift import DriftRule, MonitorRule
from stream.evaluate.executed import ExplanationSettings
from stream.evaluate.progressive import Events, Progressive
from stream.join.join import LabelJoin

SCHEMA = Schema.of(a="numeric", b="numeric", c="categorical", t="text")
TURN = 300  # records until the classes change places


class Event(NamedTuple):
    """An observation, its features given, or a label."""

    id: str
    x: dict[str, Any] | None
    label: str | None = None


def turning(n: int, seed: int = 0, delay: int = 0, unlabelled: float = 0.0) -> list[Event]:
    """Two classes that change places every `TURN` records; labels inside, or so much later."""
    rng = np.random.default_rng(seed)
    out: list[Event] = []
    owed: deque[Event] = deque()
    for i in range(n):
        c = int(rng.integers(2))
        side = (c + i // TURN) % 2
        x = {
            "a": 9.0 + rng.normal(2.0 * side),
            "b": 9.0 + rng.normal(),
            "c": "xy"[side],
            "t": "so no"[: 2 + c],
        }
        if i % 7 == 0:
            del x["a"]
        label = "pq"[c] if rng.random() >= unlabelled else None
        out.append(Event(str(i), x, None if delay else label))
        if delay and label is not None:
            owed.append(Event(str(i), None, label))
        if len(owed) > delay:
            out.append(owed.popleft())
    return out + list(owed)


def machine(rule: DriftRule, learner=None, corrections: bool = False) -> Progressive:
    """A machine that watches."""
    learner = learner or GaussianNB()
    join = LabelJoin(corrections=corrections)
    made = Progressive(learner, join, learner.prepare(Rows.empty(SCHEMA)))
    made.watch(rule)
    return made


class Run(NamedTuple):
    """What was said, and the alarms, each at its event."""

    said: list[dict]
    alarms: list[tuple]


def given(events: list[Event], start: int) -> tuple[Rows, Events, dict[str, np.ndarray]]:
    """A call: rows as they come, events, and the feature that is watched."""
    xs = [e.x for e in events if e.x is not None]
    rows = Rows.empty(SCHEMA, len(xs))
    for i, x in enumerate(xs):
        rows.numeric[i] = [x.get("a", np.nan), x.get("b", np.nan)]
        rows.categorical[i, 0], rows.text[i, 0] = x.get("c"), x.get("t")
    number = iter(range(len(xs)))
    told = Events(
        [e.id for e in events],
        [-1 if e.x is None else next(number) for e in events],
        [e.label for e in events],
        [1.0] * len(events),
        list(range(start, start + len(events))),
    )
    return rows, told, {"a": rows.numeric[:, 0], "b": rows.numeric[:, 1]}


def process(machine: Progressive, events: list[Event], start: int = 0, explain=False) -> Run:
    """One call; alarms are told at start + event."""
    rows, told, features = given(events, start)
    prepared = machine.learner.prepare(rows)
    result = machine.process(
        prepared, told, ExplanationSettings(rows, 9) if explain else None, features
    )
    alarms = [(start + at, *alarm) for at, *alarm in result.alarms]
    return Run(result.predictions.dicts(), alarms)


def run(machine: Progressive, events: list[Event], cuts=()) -> Run:
    """In calls that end at `cuts`."""
    whole = Run([], [])
    for start, stop in pairwise([0, *cuts, len(events)]):
        part = process(machine, events[start:stop], start)
        whole.said.extend(part.said)
        whole.alarms.extend(part.alarms)
    return whole


def known(said: list[dict]) -> list[dict]:
    """Posteriors without the classes that a restarted model does not know."""
    return [{k: p for k, p in posterior.items() if p} for posterior in said]


def state_of(machine: Progressive) -> State:
    """Everything, what watches included."""
    assert machine.drift is not None
    return State.join({"machine": machine.to_state(), "drift": machine.drift.to_state()})


def on_error(action: str, warm_up: int = 20, keep: int = 40, **parameters) -> DriftRule:
    """DDM on the error."""
    monitor = MonitorRule("error", "DDM", parameters, action)  # type: ignore[arg-type]
    return DriftRule((monitor,), keep=keep, warm_up=warm_up)


EVERYTHING = DriftRule(
    (
        MonitorRule("error", "DDM", {}, "forget"),
        MonitorRule("error", "HDDM_W", {}),
        MonitorRule("log_loss", "PageHinkley", {"threshold": 8.0}, "reset"),
        MonitorRule("score", "ADWIN", {"delta": 0.3, "clock": 1}),
        MonitorRule("feature:a", "PageHinkley", {"threshold": 25.0}),
        MonitorRule("feature:a", "ADWIN", {"delta": 0.3}, "forget"),
    ),
    keep=40,
    warm_up=20,
)


@pytest.mark.parametrize("action", ["alert", "reset", "forget"])
def test_an_alarm_acts_behind_its_record(action) -> None:
    """Against one-record calls, river's DDM, and a list of the last records."""
    keep, warm_up = 40, 20
    learner, ddm, rests = GaussianNB(), drift.binary.DDM(), warm_up
    last: deque = deque(maxlen=keep)
    said, alarms = [], []
    events = turning(1500)
    for i, (_, x, label) in enumerate(events):
        assert x is not None
        x = {k: v for k, v in x.items() if k in "ab"}
        posterior = learner.predict_proba_one(x)
        said.append(posterior)
        rests -= bool(posterior)
        if posterior and rests < 0:
            ddm.update(int(max(posterior, key=posterior.__getitem__) != label))
        learner.learn_one(x, label)
        last.append((x, label))
        if ddm.drift_detected and rests < 0:
            alarms.append(i)
            if action != "alert":
                learner, ddm, rests = GaussianNB(), drift.binary.DDM(), warm_up
            for each in last if action == "forget" else ():
                learner.learn_one(*each)

    got = run(machine(on_error(action)), events)
    assert len(alarms) >= (2 if action == "alert" else 4)
    assert [at for at, *_ in got.alarms] == alarms
    assert known(got.said) == known(said)


@pytest.mark.parametrize(
    ("learner", "delay"),
    [
        (GaussianNB(half_life=50), 13),
        (KNNClassifier(window=30), 0),
        (MultinomialNB(), 13),
        (MixedNB(), 0),
        (RiverClassifier(tree.HoeffdingTreeClassifier()), 13),
        (Mixture(["MixedNB", "LogisticRegression"]), 13),
    ],
    ids=lambda given: str(given) if isinstance(given, int) else type(given).__name__,
)
def test_any_cut_of_the_stream_gives_the_same_bits(learner, delay) -> None:
    """Event by event, in calls of any size, and at once: predictions, alarms, scores, state."""
    events = turning(800, seed=1, delay=delay, unlabelled=0.1)
    cuts = np.sort(np.random.default_rng(2).integers(1, len(events), 9)).tolist()
    one_by_one = machine(EVERYTHING, learner.clone())
    expected = run(one_by_one, events, range(1, len(events)))

    at_once, in_calls = machine(EVERYTHING, learner.clone()), machine(EVERYTHING, learner.clone())
    assert run(at_once, events) == expected
    assert run(in_calls, events, cuts) == expected
    assert len({monitor for _, monitor, *_ in expected.alarms}) > 2
    assert sum(one_by_one.drift.actions.values()) > 1
    if learner.can_save:
        assert state_of(at_once) == state_of(in_calls) == state_of(one_by_one)


@pytest.mark.parametrize("action", ["reset", "forget"])
def test_a_new_mixture_does_not_believe_what_the_old_one_noted(action) -> None:
    """It weighs its own experts' predictions, and its classes have another order."""
    events = turning(800, seed=4, delay=30)
    watched = machine(on_error(action, keep=40), Mixture(["MixedNB"]))
    alarm = run(watched, events).alarms[-1][0]
    rows = {e.id: e.x for e in events if e.x is not None}
    labels = [(at, e) for at, e in enumerate(events) if e.x is None]
    before = [e for at, e in labels if at <= alarm]
    waited = {e.id for e in events[: alarm + 1] if e.x is not None}
    expected = Mixture(["MixedNB"]).declare(SCHEMA)
    for e in before[-40:] if action == "forget" else ():
        expected.learn_one(rows[e.id], e.label)
    kept = {}
    for e in events[alarm + 1 :]:
        if e.x is not None:
            kept[e.id] = expected.rows([e.x])
            expected.run(Block.of(kept[e.id], PREDICT))
        else:
            own = expected.rows([rows[e.id]]) if e.id in waited else kept[e.id]
            expected.run(Block.of(own, LEARN, [e.label]))

    assert watched.learner.classes == expected.classes
    assert watched.learner.expert_weights == expected.expert_weights


def test_a_machine_goes_on_from_its_state() -> None:
    """Saved and loaded between any two calls, it says and alarms what it would have."""
    events = turning(1300, seed=3, delay=5)
    expected = run(machine(EVERYTHING), events)
    got, going = Run([], []), machine(EVERYTHING)
    for start, stop in pairwise([0, 250, 444, 777, 1001, len(events)]):
        part = process(going, events[start:stop], start)
        got.said.extend(part.said)
        got.alarms.extend(part.alarms)
        saved = State.from_bytes(state_of(going).to_bytes())
        going = machine(DriftRule())
        going.load_state(saved.nested("machine"))
        going.load_drift(saved.nested("drift"))

    assert got == expected
    assert len(got.alarms) > 3


def test_scores_and_counts_go_on_when_a_model_begins_anew() -> None:
    """The model is new; what was said, scored and counted before is not forgotten."""
    events = turning(1300)
    watched, plain = machine(on_error("reset")), machine(DriftRule())
    run(watched, events)
    run(plain, events)
    view = watched.view()

    assert watched.drift.actions["reset"] > 2
    assert view.scores["all"].scored + view.unscored == len(events)
    assert view.scores["all"].accuracy > plain.view().scores["all"].accuracy + 0.1
    assert view.classes == plain.view().classes


def test_a_model_that_gets_better_alarms_nobody() -> None:
    """An error that falls, which ADWIN sees as well as one that rises, is what learning is for."""
    rule = DriftRule((MonitorRule("error", "ADWIN", {"clock": 1}),), warm_up=0)
    labels = np.random.default_rng(5).choice(["p", "q"], size=TURN)
    told = turning(TURN)
    guessed = [e._replace(label=str(y)) for e, y in zip(told, labels, strict=True)]
    better = [e._replace(id=f"{i}") for i, e in enumerate(guessed + told)]
    worse = [e._replace(id=f"{i}") for i, e in enumerate(told + guessed)]

    assert run(machine(rule, KNNClassifier(window=50)), better).alarms == []
    assert run(machine(rule, KNNClassifier(window=50)), worse).alarms != []


def test_the_score_is_watched_without_labels() -> None:
    """The largest probability of each prediction, from the first that names a class."""
    rng = np.random.default_rng(0)
    xs = [{"a": rng.normal(4.0 * (i % 2)), "b": 0.0} for i in range(100)]
    taught = [Event(f"t{i}", x, "pq"[i % 2]) for i, x in enumerate(xs)]
    sure = [Event(f"s{i}", xs[i % 100]) for i in range(500)]
    unsure = [Event(f"u{i}", {"a": 2.0 + rng.normal() / 10}) for i in range(200)]
    rule = DriftRule((MonitorRule("score", "ADWIN"),), warm_up=200)
    watched = machine(rule)
    ((at, number, before, after, _),) = run(watched, taught + sure + unsure).alarms

    assert 600 < at < 680
    assert number == 0
    assert before > 0.9 > after
    assert watched.drift.monitors.each[0].detected


def test_drift_counts_as_detected_for_a_thousand_values() -> None:
    """After the last alarm of a monitor; without one, never."""
    watched = machine(on_error("alert", warm_up=0))
    assert not watched.drift.monitors.each[0].detected
    run(watched, turning(TURN + 60))
    assert watched.drift.monitors.each[0].detected

    for i in range(1100):
        process(watched, [Event(f"x{i}", {"c": "x"}, "p")])
    monitor = watched.drift.monitors.each[0]
    assert monitor.detected == (monitor.since < 1000)


def test_values_of_a_new_model_are_passed_over() -> None:
    """At the beginning and behind each action nothing that the model says is looked at."""
    first = [at for at, *_ in run(machine(on_error("reset", warm_up=0)), turning(1000)).alarms]
    later = [at for at, *_ in run(machine(on_error("reset", warm_up=400)), turning(1000)).alarms]

    assert min(np.diff(first)) < 400
    assert later[0] > 400
    assert all(gap > 400 for gap in np.diff(later))


def corrected(watched: Progressive, before: int, then: list[Event]) -> dict[str, int]:
    """Outcomes after `before` records of one concept, then these events."""
    events = turning(TURN)[:before]
    run(watched, events + then)
    return dict(watched.join.outcomes)


def test_a_corrected_label_is_taught_again_as_corrected() -> None:
    """`forget` teaches the last records as the model knew them."""
    far = Event("far", {"a": 50.0}, "p")
    again = Event("far", None, "q")
    rule = on_error("forget", keep=400)
    watched = machine(rule, corrections=True)
    outcomes = corrected(watched, 200, [far, again])
    block = watched.drift._recent.block(list(watched.join.labels))

    assert outcomes["corrected"] == 1
    assert block.labels[block.y[200]] == "q"
    assert len(block) == 201


@pytest.mark.parametrize("action", ["reset", "forget"])
def test_what_was_learned_before_a_model_began_anew_is_not_corrected(action) -> None:
    """The new model has not learned it so; the first label stands, and that is counted."""
    events = turning(2 * TURN)
    first, last = events[10], events[-1]
    watched = machine(on_error(action, warm_up=0), corrections=True)
    got = run(watched, events)
    assert got.alarms
    wrong = {"p": "q", "q": "p"}
    settled = [Event(e.id, None, wrong[str(e.label)]) for e in (first, last)]
    for event in settled:
        process(watched, [event], 3 * TURN)

    assert watched.join.outcomes["conflicting"] == 1
    assert watched.join.outcomes["corrected"] == 1


def test_explaining_changes_no_bit_of_what_drift_does() -> None:
    """Step by step, as explanations are made, or in one call."""
    events = turning(700)
    explained, plain = machine(EVERYTHING), machine(EVERYTHING)

    assert process(explained, events, explain=True) == process(plain, events)
    assert explained.drift.to_state() == plain.drift.to_state()


class Fragile(naive_bayes.GaussianNB):
    """A river model that fails at some records."""

    def learn_one(self, x: dict, y: object) -> None:
        """As it does, unless there is no `a`."""
        if "a" not in x:
            raise ZeroDivisionError("no a")
        super().learn_one(x, y)


def test_a_river_model_that_began_anew_may_fail_at_its_first_record() -> None:
    """It has worked before: one bad record behind an alarm must not end a service."""
    monitor = MonitorRule("feature:b", "PageHinkley", {"threshold": 9.0}, "reset")
    watched = machine(DriftRule((monitor,)), RiverClassifier(Fragile()))
    calm = [Event(f"c{i}", {"a": i % 2, "b": 0.0}, "pq"[i % 2]) for i in range(50)]
    jump = [Event(f"j{i}", {"b": 9.0}, "p") for i in range(20)]
    run(watched, calm + jump)

    assert watched.drift.actions["reset"] == 1
    assert watched.learner.overflows["learn_failures"] > 0


def test_a_rule_that_makes_no_sense_is_one_line() -> None:
    """What was expected, what came."""
    adwin = MonitorRule("error", "ADWIN")
    with pytest.raises(SchemaError, match="ADWIN on error is there twice"):
        DriftRule((adwin, adwin))
    with pytest.raises(SchemaError, match='on must be "error"'):
        MonitorRule("errors", "ADWIN")
    with pytest.raises(SchemaError, match='on must be "error"'):
        MonitorRule("feature:", "ADWIN")
    with pytest.raises(SchemaError, match="keep must be a whole number from 1"):
        DriftRule((adwin,), keep=0)


def test_a_state_of_another_rule_is_refused() -> None:
    """Its detectors are counted and named."""
    saved = machine(EVERYTHING).drift.to_state()
    damaged = State({**saved.header, "monitors": {}}, saved.arrays)

    with pytest.raises(StateError, match="expected the state of 6 detectors, got 0"):
        machine(DriftRule()).load_drift(damaged)


def beside(learner, **challengers) -> ChampionChallenger:
    """A model that is watched for a choice of champion, and its challengers."""
    rule = DriftRule((MonitorRule("error", "DDM", {}, "challenger"),), warm_up=20)
    own = machine(rule, learner)
    out = ChampionChallenger(own, Rows.empty(SCHEMA))
    for name, other in challengers.items():
        out.enroll(name, other.clone(), 0)
    return out


def chosen(contest: ChampionChallenger, events: list[Event], cuts=(), explain=0):
    """Who spoke at each prediction, in calls that end at `cuts`; and what was said."""
    spoke, said = [], []
    for start, stop in pairwise([0, *cuts, len(events)]):
        part = events[start:stop]
        rows, told, features = given(part, start)
        result = contest.process(rows, told, rows, features, explain=explain)
        n = len(result.predictions)
        champions = [*result.champions, (n, "")]
        for (first, name), (last, _) in pairwise(champions):
            spoke += [name] * (last - first)
        said += known(result.predictions.dicts())
    return spoke, said


def test_an_alarm_lets_the_one_that_did_best_of_late_speak() -> None:
    """Behind its record, by the scores of all up to it; a model that forgets does best then."""
    events = turning(700)
    contest = beside(GaussianNB(), quick=GaussianNB(half_life=20), blind=KNNClassifier(1, window=2))
    spoke, _ = chosen(contest, events)
    ((at, *_), *_) = run(beside_machine(), events).alarms

    assert spoke[: at + 1] == [MODEL] * (at + 1)
    assert spoke[at + 1] == "quick"
    assert contest.champion == "quick"
    assert contest.promotions == 0
    assert contest._machine.drift.actions["challenger"] == 1


def beside_machine() -> Progressive:
    """The same model alone."""
    return machine(DriftRule((MonitorRule("error", "DDM", {}, "challenger"),), warm_up=20))


@pytest.mark.parametrize(("delay", "explain"), [(0, 9), (13, 0)])
def test_any_cut_of_the_stream_chooses_the_same_champion(delay, explain) -> None:
    """At the same record, by the same scores; explained or not; saved and loaded between."""
    events = turning(700, seed=1, delay=delay, unlabelled=0.1)
    rivals = {"quick": GaussianNB(half_life=20), "near": KNNClassifier(window=30)}
    whole, cut = beside(GaussianNB(), **rivals), beside(GaussianNB(), **rivals)
    expected = chosen(whole, events, range(1, len(events)))
    cuts = np.sort(np.random.default_rng(2).integers(1, len(events), 9)).tolist()

    assert len(set(expected[0])) > 1
    assert chosen(cut, events, cuts, explain) == expected
    assert cut.to_state() == whole.to_state()
    again = beside(GaussianNB(), **rivals)
    again._machine.load_state(State.from_bytes(cut._machine.to_state().to_bytes()))
    again.load_state(State.from_bytes(cut.to_state().to_bytes()))
    assert again.to_state() == cut.to_state()


def test_alone_a_model_stays_champion() -> None:
    """An alarm that would choose has nobody to choose."""
    contest = beside(GaussianNB())
    chosen(contest, turning(700))

    assert contest.champion == MODEL
    assert not contest._machine.drift.actions
