"""The machine behind live labels and offline delays: right scores, whatever the calls."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from river import datasets

from stream import GaussianNB, MultinomialNB, Rows, Schema
from stream.errors import StateError
from stream.evaluate.breaker import Breaker
from stream.evaluate.progressive import Events, Progressive, progressive
from stream.join.join import LabelJoin
from tests.seed import seeds

SCHEMA = Schema.of(a="numeric", b="numeric", c="categorical", t="text")


@dataclass
class Event:
    """An observation (x is a dict) or a label (x is None)."""

    id: str
    x: dict[str, Any] | None
    label: Any = None
    w: float = 1.0


def machine(learner=None, breaker: Breaker | None = None, **bounds: int) -> Progressive:
    """A machine over SCHEMA."""
    learner = learner or GaussianNB()
    join = LabelJoin(**bounds)
    return Progressive(learner, join, learner.prepare(Rows.empty(SCHEMA)), breaker)


def run(machine: Progressive, events: list[Event], cuts=(), times=None):
    """Process events in calls that end at `cuts`; the posteriors said, in order."""
    said = []
    for start, stop in pairwise([0, *sorted(cuts), len(events)]):
        part = events[start:stop]
        xs = [e.x for e in part if e.x is not None]
        rows = Rows.empty(SCHEMA, len(xs))
        for i, x in enumerate(xs):
            rows.numeric[i] = [x.get("a", np.nan), x.get("b", np.nan)]
            rows.categorical[i, 0], rows.text[i, 0] = x.get("c"), x.get("t")
        number = iter(range(len(xs)))
        when = range(start, stop) if times is None else times[start:stop]
        said += machine.process(
            rows,
            Events(
                [e.id for e in part],
                [-1 if e.x is None else next(number) for e in part],
                [e.label for e in part],
                [e.w for e in part],
                list(when),
            ),
        ).predictions.dicts()
    return said


def scattered(n: int, seed: int) -> list[Event]:
    """n observations; each label comes at once, inside, early, late, twice or never."""
    rng = np.random.default_rng(seed)
    timed: list[tuple[float, Event]] = []
    for i in range(n):
        c = int(rng.integers(3 if i > n // 3 else 2))
        x: dict[str, Any] = {"a": rng.normal(c), "b": rng.normal(-c), "t": "sun rain"[: 3 + 5 * c]}
        if rng.random() < 0.2:
            del x["b"]
        if rng.random() < 0.5:
            x["c"] = "red"
        y, w = "pqr"[c], float(rng.choice([1.0, 2.0, 0.5]))
        kind = rng.random()
        if kind < 0.15:
            timed.append((i, Event(str(i), x, y)))
            continue
        timed.append((i, Event(str(i), x)))
        if kind < 0.9:
            delay = rng.choice([0.1, 3.2, 30.3, -4.4])
            timed.append((i + delay, Event(str(i), None, y, w)))
        if kind > 0.8:
            timed.append((i + 10.5, Event(str(i), None, y, w)))
    return [e for _, e in sorted(timed, key=lambda pair: pair[0])]


def one_record_at_a_time(learner, events: list[Event]):
    """Posteriors, and confusion by label, with the one-record calls and dicts."""
    said, confusion = [], {}
    asked: dict[str, tuple[dict, dict]] = {}
    early: dict[str, Event] = {}
    done: set[str] = set()
    for e in events:
        x = e.x
        if x is not None:
            x = {k: v for k, v in x.items() if k in "ab"}
            posterior = learner.predict_proba_one(x)
            said.append(posterior)
            asked[e.id] = (x, posterior)
        answer = e if e.label is not None else early.get(e.id)
        if answer is None or e.id in done:
            continue
        if e.id not in asked:
            early[e.id] = e
            continue
        x, posterior = asked[e.id]
        done.add(e.id)
        if posterior:
            best = max(posterior, key=posterior.get)
            confusion[answer.label, best] = confusion.get((answer.label, best), 0) + 1
        learner.learn_one(x, answer.label, answer.w)
    return said, confusion


def counts(view) -> dict:
    """A view's confusion by label."""
    names = view.classes
    found = np.argwhere(view.confusion).tolist()
    return {(names[t], names[p]): int(view.confusion[t, p]) for t, p in found}


@seeds(0.02)
def test_random_delays_give_what_one_record_calls_give(seed) -> None:
    """Labels inside, early, late, twice or never: the same posteriors, bit for bit."""
    events = scattered(200, seed)
    fast = machine()
    expected, confusion = one_record_at_a_time(GaussianNB(), events)

    assert run(fast, events, cuts=[7, 50, 51, 190]) == expected
    assert counts(fast.view()) == confusion
    assert sum(confusion.values()) > 100


@pytest.mark.parametrize("learner", [GaussianNB(), MultinomialNB()], ids=["gaussian", "text"])
@seeds(
    0.0625,
    cuts=st.lists(st.integers(0, 60), max_size=8),
    bound=st.sampled_from([2, 10, 100]),
    horizon=st.sampled_from([3, 20, 1000]),
)
def test_any_split_into_calls_gives_the_same_bits(learner, seed, cuts, bound, horizon) -> None:
    """Predictions, scores, and the whole state by fingerprint (I1), at tight bounds too."""
    events = scattered(40, seed)
    if isinstance(learner, MultinomialNB):
        events = [Event(e.id, e.x and {"t": e.x["t"]}, e.label, e.w) for e in events]
    cuts = [cut for cut in cuts if cut <= len(events)]
    bounds = {"max_pending": bound, "horizon": horizon}
    whole, cut, single = (machine(learner.clone(), **bounds) for _ in range(3))
    said = run(whole, events)

    assert run(cut, events, cuts) == said
    assert run(single, events, range(1, len(events))) == said
    assert cut.to_state().fingerprint() == whole.to_state().fingerprint()
    assert single.to_state().fingerprint() == whole.to_state().fingerprint()
    assert cut.view().scores == whole.view().scores


def test_class_that_comes_with_the_last_record_is_in_any_split_alike() -> None:
    """A waiting row has a column for it, though no row of the last call waits."""
    events = [Event("a", {"a": 1.0}), Event("b", {"a": 2.0}, "q"), Event("c", {"a": 3.0}, "r")]
    whole, single = machine(), machine()
    run(whole, events)
    run(single, events, cuts=[1, 2])

    assert single.to_state() == whole.to_state()


@pytest.mark.parametrize("learner", [GaussianNB(), MultinomialNB()], ids=["gaussian", "text"])
@pytest.mark.parametrize("at", [0, 1, 40, 150])
def test_restored_machine_goes_on_bit_for_bit(learner, at) -> None:
    """Waiting rows, their predictions, early labels and scores are all in the state (I2)."""
    events = scattered(120, seed=5)
    if isinstance(learner, MultinomialNB):
        events = [Event(e.id, e.x and {"t": e.x["t"]}, e.label, e.w) for e in events]
    whole, before, after = (machine(learner.clone()) for _ in range(3))
    expected = run(whole, events)
    said = run(before, events[:at])

    after.load_state(before.to_state())
    said += run(after, events[at:], times=list(range(at, len(events))) if at else None)

    assert said == expected
    assert after.to_state() == whole.to_state()


@pytest.mark.parametrize("cuts", [[], [400], range(1, 1600)], ids=["whole", "two", "ones"])
def test_breaker_holds_back_what_is_learned_record_by_record(cuts) -> None:
    """Open above the ratio, closed below half of it, at the same record however calls are cut."""
    breaker = Breaker(ratio=0.1)
    going = machine(breaker=breaker)
    rows = Rows.empty(SCHEMA, 1600)
    rows.numeric[:] = 1.0
    dead = [101 if i == 300 else 0 for i in range(1601)]
    learned = 0
    for start, stop in pairwise([0, *cuts, 1600]):
        n = stop - start
        events = Events(
            [str(i) for i in range(start, stop)],
            list(range(n)),
            ["x"] * n,
            [1.0] * n,
            list(range(start, stop)),
            [*dead[start:stop], 0],
        )
        learned += going.process(rows.take(np.arange(start, stop)), events).learned

    # 101 dead ones open it; when 951 good ones have come, less than 50 of the last 1,000 are dead.
    assert going.join.outcomes["held_back"] == 1600 - learned == 951
    assert (breaker.open, breaker.dead) == (False, 0)


def test_saved_state_does_not_change_with_the_machine() -> None:
    """What is handed to the snapshot writer is a copy, header and arrays."""
    events = scattered(100, seed=1)
    going = machine()
    run(going, events[:60])
    state = going.to_state()
    before = state.fingerprint()

    run(going, events[60:], times=list(range(60, len(events))))

    assert state.fingerprint() == before
    assert going.to_state().fingerprint() != before


def test_label_scores_the_prediction_made_then() -> None:
    """Between prediction and label the model learned better; the score does not know."""
    going = machine()
    near, far = {"a": 0.0}, {"a": 10.0}
    events = [Event("0", near, "near"), Event("asked", far)]
    events += [Event(f"n{i}", {"a": 0.1 * i}, "near") for i in range(5)]
    events += [Event(f"f{i}", {"a": 10 + 0.1 * i}, "far") for i in range(5)]
    run(going, events)
    assert going.learner.predict_one(far) == "far"

    before = going.view()
    run(going, [Event("asked", None, "far")], times=[len(events)])

    assert counts(going.view())["far", "near"] == counts(before)["far", "near"] + 1


@pytest.mark.parametrize("learner", [GaussianNB, MultinomialNB])
def test_what_waits_no_longer_holds_no_text(learner) -> None:
    """Answered, expired or evicted: its slot may stay free for long, and texts are large."""
    m = machine(learner(), max_pending=3, horizon=50)
    events = [Event(f"{i}", {"c": "red", "t": f"a text {i}"}) for i in range(6)]
    run(m, [*events[:5], Event("3", None, "y"), events[5]], cuts=(2, 5), times=[*range(6), 53])
    kept = m.join.kept_slots().tolist()
    free = sorted({0, 1, 2} - set(kept))

    assert (len(kept), len(free), m.join.slots) == (2, 1, 3)
    rows = m.waiting.rows.take(np.arange(3))
    for cells in (rows.categorical, rows.text):
        assert all(cells[slot, 0] is not None for slot in kept)
        assert all(cells[slot, 0] is None for slot in free)


def test_prediction_before_any_class_is_unscored() -> None:
    """It names no class: counted beside the score, neither right nor wrong."""
    going = machine()
    said = run(going, [Event("a", {"a": 1.0}), Event("a", None, "x"), Event("b", {"a": 1.0}, "x")])

    assert said == [{}, {"x": 1.0}]
    assert (going.view().unscored, counts(going.view())) == (1, {("x", "x"): 1})


def test_unseen_true_class_costs_52_bits() -> None:
    """Never 0 and never infinity, though its probability was 0 when it was asked (I9)."""
    going = machine()
    run(going, [Event("a", {"a": 1.0}, "x"), Event("b", {"a": 1.0}, "y")])

    assert going.view().scores["all"].log_loss == -np.log(2.0**-52)
    assert counts(going.view()) == {("y", "x"): 1}


def test_rejected_label_inside_leaves_no_prediction_and_no_trace_in_the_learner() -> None:
    """The event says why; the learner's fingerprint is unchanged (I3)."""
    going = machine()
    run(going, [Event("a", {"a": 1.0}, "x")])
    before = going.learner.fingerprint()
    rows = Rows.empty(SCHEMA, 1)
    result = going.process(rows, Events(["b"], [0], [1.5], [1.0], [1]))

    assert (result.rejected, len(result.predictions)) == ({0: "label_kind"}, 0)
    assert going.learner.fingerprint() == before


def test_learned_before_counts_the_labels_before_each_prediction() -> None:
    """It is what a prediction record tells as `learned`."""
    going = machine()
    rows = Rows.empty(SCHEMA, 3)
    rows.numeric[:] = 1.0
    ids, row = ["a", "b", "a", "c"], [0, 1, -1, 2]
    events = Events(ids, row, ["x", None, "x", None], [1.0] * 4, [0] * 4)
    result = going.process(rows, events)
    again = going.process(rows.take(np.array([0])), Events(["b"], [-1], ["x"], [1.0], [1]))

    assert result.learned_before.tolist() == [0, 1, 1]
    assert (result.learned, again.learned) == (1, 1)


def test_state_of_other_columns_is_refused() -> None:
    """Waiting rows of another schema cannot go on here."""
    going = machine()
    run(going, [Event("a", {"a": 1.0})])
    other = Progressive(GaussianNB(), LabelJoin(), Rows.empty(Schema.of(a="numeric")))

    with pytest.raises(StateError, match="array 'numeric': expected shape"):
        other.load_state(going.to_state())


@pytest.mark.parametrize("delay", [0, 1, 100])
def test_blocks_of_one_record_over_phishing_say_what_large_blocks_say(delay) -> None:
    """The one-record path and the block path are one: scores and confusion, to the last bit."""
    *_, large = progressive(datasets.Phishing(), GaussianNB(), delay=delay)
    *_, single = progressive(datasets.Phishing(), GaussianNB(), delay=delay, block_size=1)

    assert single.scores == large.scores
    assert single.confusion.tolist() == large.confusion.tolist()


@pytest.mark.parametrize("delay", [0, 1, 100])
def test_blocks_of_one_record_over_electricity_say_what_large_blocks_say(shared_csv, delay) -> None:
    """A part of it: the whole of it stands against river in test_parity."""
    rows = islice(shared_csv("elec2/elecNormNew.csv.gz"), 4000)
    records = [({k: float(v) for k, v in r.items() if k != "class"}, r["class"]) for r in rows]
    *_, large = progressive(records, GaussianNB(), delay=delay)
    *_, single = progressive(records, GaussianNB(), delay=delay, block_size=1)

    assert single.scores == large.scores
    assert single.confusion.tolist() == large.confusion.tolist()
