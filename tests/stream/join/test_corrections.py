"""Corrected labels: the model of the right ones, in any split and after any restart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example
from hypothesis import strategies as st

from stream import GaussianBayes, GaussianNB, KNNClassifier, MultinomialNB, Rows
from stream.evaluate.progressive import Events
from stream.join.label_delay import MOST_CORRECTIONS
from tests.seed import seeds
from tests.stream.evaluate.test_progressive import SCHEMA, Event, counts, machine, run, scattered


def corrected(n: int, seed: int, *, rare: bool = True) -> list[Event]:
    """Like `scattered`, and every fifth observation gets a second label, now and then a third."""
    rng = np.random.default_rng(seed)
    out = []
    for e in scattered(n, seed):
        out.append(e)
        if e.label is not None and rng.random() < 0.2:
            id_ = e.id if rng.random() < 0.7 else str(max(int(e.id) - int(rng.integers(9)), 0))
            label = "rare" if rare and rng.random() < 0.3 else str(rng.choice(list("pqr")))
            out.append(Event(id_, None, label, float(rng.choice([1.0, 2.0]))))
    return out


FADING = GaussianNB(half_life=20.0)


CORRECTED = {
    "gaussian": GaussianNB(),
    "fading": FADING,
    "text": MultinomialNB(),
    "knn": KNNClassifier(3),
}


@pytest.mark.parametrize("learner", CORRECTED.values(), ids=CORRECTED)
@seeds(
    0.04,
    cuts=st.lists(st.integers(0, 60), max_size=8),
    restart=st.integers(0, 60),
    bound=st.sampled_from([2, 10, 100]),
    horizon=st.sampled_from([3, 20, 1000]),
    most=st.sampled_from([2, 1000]),
)
def test_corrections_give_the_same_bits_in_any_split_and_after_any_restart(
    learner, seed, cuts, restart, bound, horizon, most
) -> None:
    """A correction cuts a call in two, wherever the call was cut already (I1, I2)."""
    events = corrected(40, seed)
    if isinstance(learner, MultinomialNB):
        events = [Event(e.id, e.x and {"t": e.x["t"]}, e.label, e.w) for e in events]
    elif isinstance(learner, KNNClassifier):
        numbers = [e.x and {k: v for k, v in e.x.items() if k in "ab"} for e in events]
        events = [Event(e.id, x, e.label, e.w) for e, x in zip(events, numbers, strict=True)]
    cuts, restart = [cut for cut in cuts if cut <= len(events)], min(restart, len(events))
    bounds = {"max_pending": bound, "horizon": horizon, "corrections": True}
    bounds["max_corrections"] = most
    whole, cut, single, again = (machine(learner.clone(), **bounds) for _ in range(4))
    said = run(whole, events)
    first = run(single, events[:restart], range(1, restart))
    again.load_state(single.to_state())
    times = list(range(restart, len(events)))

    assert run(cut, events, cuts) == said
    assert first + run(again, events[restart:], times=times) == said
    assert cut.to_state().fingerprint() == whole.to_state().fingerprint()
    assert again.to_state().fingerprint() == whole.to_state().fingerprint()
    assert cut.view().scores == whole.view().scores


def posterior(learner, x: dict[str, Any]) -> dict[str, float]:
    """Of each class, by name."""
    return dict(sorted(learner.predict_proba_one(x).items()))


@pytest.mark.parametrize("half_life", [None, 30.0])
@example(seed=0)  # with enough corrections
@seeds(0.0075)
def test_corrected_model_is_the_model_of_the_right_labels(half_life, seed) -> None:
    """As if the last label of each id had been its first, and as long ago: to correct it is one
    more record of time for all, and makes it no younger than it was."""
    rng = np.random.default_rng(seed)
    events, last, tick, ticks = [], {}, {}, 0
    for i in range(150):
        c = int(rng.integers(3))
        events.append(Event(str(i), {"a": rng.normal(c)}, "pqr"[c]))
        last[str(i)], tick[str(i)], ticks = "pqr"[c], ticks, ticks + 1
        id_, label = str(rng.integers(i + 1)), "pqr"[int(rng.integers(3))]
        if rng.random() < 0.2:
            events.append(Event(id_, None, label))
            ticks += label != last[id_]
            last[id_] = label
    going, right = machine(GaussianNB(half_life=half_life), corrections=True), GaussianNB()
    run(going, events)
    assert going.join.outcomes["corrected"] > 10 or seed != 0
    for e in events:
        if e.x is not None:
            right.learn_one(e.x, last[e.id], 2 ** (tick[e.id] / half_life) if half_life else 1.0)

    for a in (-1.0, 0.5, 2.0):
        expected, got = posterior(right, {"a": a}), posterior(going.learner, {"a": a})
        assert got == pytest.approx(expected, abs=1e-9)


def test_corrected_label_nobody_else_had_is_a_class_no_more() -> None:
    """Its score stays in its place, the classes after it keep theirs, and it has no probability."""
    going = machine(corrections=True)
    events = [Event("a", {"a": 1.0}, "good"), Event("b", {"a": 2.0}, "typo")]
    events += [Event(f"c{i}", {"a": 9.0 + i}, "bad") for i in range(3)]
    events += [Event("b", None, "good"), Event("d", {"a": 9.5}), Event("d", None, "bad")]
    *_, last = run(going, events)

    assert going.learner.classes == ["good", "bad"]
    assert (list(last), last["typo"]) == (["good", "typo", "bad"], 0.0)
    assert max(last, key=last.__getitem__) == "bad"
    assert going.view().classes == ("good", "typo", "bad")
    assert counts(going.view())["typo", "good"] == 1
    assert counts(going.view())["bad", "bad"] == 3


def test_score_is_of_the_first_label() -> None:
    """A correction changes the model, not what was said of it before (I9)."""
    going = machine(corrections=True)
    run(going, [Event(str(i), {"a": float(i % 2)}, "pq"[i % 2]) for i in range(20)])
    before = going.view()
    run(going, [Event("19", None, "p"), Event("18", None, "q")], times=[20, 21])

    assert going.join.outcomes["corrected"] == 2
    assert going.view().scores == before.scores
    assert counts(going.view()) == counts(before)


def test_record_that_cannot_be_unlearned_is_counted_as_conflicting() -> None:
    """A gap that was filled is not kept: that one record's first label stands."""
    going = machine(GaussianBayes(), corrections=True)
    events = [Event(str(i), {"a": float(i), "b": float(i * i)}, "pq"[i % 2]) for i in range(8)]
    run(going, [*events, Event("gap", {"a": 1.0}, "p")])
    before = going.learner.fingerprint()
    run(going, [Event("gap", None, "q")], times=[9])
    assert (going.learner.fingerprint(), going.join.outcomes["conflicting"]) == (before, 1)

    run(going, [Event("7", None, "p")], times=[10])

    assert going.join.outcomes["corrected"] == 1
    assert going.learner.fingerprint() != before


def test_correction_of_what_has_faded_to_nothing_is_counted_as_conflicting() -> None:
    """There is no weight left to move."""
    going = machine(GaussianNB(half_life=1.0), corrections=True)
    run(going, [Event(str(i), {"a": float(i)}, "pq"[i % 2]) for i in range(1200)])
    run(going, [Event("0", None, "q"), Event("1199", None, "p")], times=[1200, 1201])

    assert (going.join.outcomes["conflicting"], going.join.outcomes["corrected"]) == (1, 1)


def test_learning_goes_on_after_a_correction_in_the_same_call() -> None:
    """`learned` tells what the model holds: a correction takes back as much as it adds."""
    going = machine(corrections=True)
    rows = Rows.empty(SCHEMA, 3)
    rows.numeric[:, 0] = [1.0, 2.0, 3.0]
    ids, row = ["a", "a", "b", "c"], [0, -1, 1, 2]
    result = going.process(rows, Events(ids, row, ["x", "y", "y", None], [1.0] * 4, [0] * 4))

    assert (result.learned, result.learned_before.tolist()) == (2, [0, 1, 2])
    assert [p.get("y") for p in result.predictions.dicts()] == [None, 1.0, 1.0]
    assert going.learner.classes == ["y"]


def changing(n: int) -> list[Event]:
    """One record, and a client that changes its label n times."""
    return [Event("a", {"a": 1.0}, "p"), *(Event("a", None, "qp"[i % 2]) for i in range(n))]


def corrections_in(events: list[Event], monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How many corrections the learner makes in one call, and how often it runs steps."""
    going, calls = machine(corrections=True), {"correct_rows": 0, "run": 0}

    def counting(of: object, name: str) -> None:
        plain = getattr(of, name)

        def counted(*given: Any) -> Any:
            calls[name] += 1
            return plain(*given)

        monkeypatch.setattr(of, name, counted)

    counting(going.learner, "correct_rows")
    counting(going, "run")
    run(going, events)
    return calls["correct_rows"], calls["run"]


def test_corrections_in_a_row_run_no_steps_between_them(monkeypatch) -> None:
    """Running nothing takes longer than a correction: once for the record, once for the rest."""
    assert corrections_in(changing(50), monkeypatch) == (50, 2)


def test_client_that_changes_a_label_again_and_again_cannot_hold_a_shard(monkeypatch) -> None:
    """What it sends above the rate costs no work of the learner, and is refused with a reason."""
    made, runs = corrections_in(changing(4 * MOST_CORRECTIONS), monkeypatch)

    assert (made, runs) == (MOST_CORRECTIONS, 2)


def test_correction_is_accepted_again_after_eight_labels() -> None:
    """Not sooner, and its rejection says that it came too fast; the label of the id stands."""
    going = machine(corrections=True, max_corrections=1)
    run(going, changing(2))
    others = [Event(f"b{i}", {"a": float(i)}, "p") for i in range(8)]
    for at, event in enumerate(others):
        again = going.process(
            going.waiting.rows.like, Events(["a"], [-1], ["p"], [1.0], [10 + 2 * at])
        )
        assert again.rejected == {0: "correction_rate"}
        run(going, [event], times=[11 + 2 * at])
    before = going.join.outcomes["corrected"]
    run(going, [Event("a", None, "p")], times=[30])

    assert (before, going.join.outcomes["corrected"]) == (1, 2)
    assert going.join.outcomes["correction_over_rate"] == 9
    assert going.join.state.settled["a"][0] == "p"


def test_corrections_in_a_row_are_those_of_one_call_each() -> None:
    """The model, also where corrections make a class and end one (I1)."""
    events = [Event(str(i), {"a": float(i)}, "pq"[i % 2]) for i in range(6)]
    events += [Event(str(i), None, y) for i, y in enumerate(["q", "p", "new", "new", "new", "p"])]
    whole, single = machine(corrections=True), machine(corrections=True)
    run(whole, events)
    run(single, events, range(1, len(events)))

    assert whole.to_state().fingerprint() == single.to_state().fingerprint()
    assert whole.join.outcomes["corrected"] == 6
