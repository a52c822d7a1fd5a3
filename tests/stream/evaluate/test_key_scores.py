"""Scores of keys: those of a slow twin, for any split, delay and restart, and claims that hold."""

from __future__ import annotations

import pickle
from itertools import pairwise
from math import comb, exp, log
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream import MixedNB, PerKeyNB, Rows, Schema
from stream.contest.champion import ChampionChallenger
from stream.data.state import State
from stream.errors import StateError
from stream.evaluate import _kernels as kernels
from stream.evaluate import key_scores
from stream.evaluate.key_scores import FrozenKeyScores, KeyScores, KeyScoresView
from stream.evaluate.progressive import Events, Progressive
from stream.join.join import LabelJoin
from tests.oracles.key_scores import FEWEST, KeyTwin, least
from tests.seed import seeds

SCHEMA = Schema.of(tenant="categorical", a="numeric")
LABELS = "pqr"


def scattered(n: int, seed: int, keys: int = 6) -> list[tuple[str, dict[str, Any] | None, Any]]:
    """Observations and labels by id: inside, at once, late, early, twice or never; t0 is hard."""
    rng = np.random.default_rng(seed)
    timed: list[tuple[float, tuple[str, dict[str, Any] | None, Any]]] = []
    for i in range(n):
        c, k = int(rng.integers(3 if i > n // 3 else 2)), min(int(rng.zipf(1.5)) - 1, keys - 1)
        a = float(rng.normal(0 if k == 0 else 3 * c))
        x = {"a": a, **({"tenant": f"t{k}"} if rng.random() < 0.95 else {})}
        kind, id_ = rng.random(), str(i)
        if kind < 0.3:
            timed.append((i, (id_, x, LABELS[c])))
            continue
        timed.append((i, (id_, x, None)))
        if kind < 0.9:
            timed.append((i + float(rng.choice([0.1, 3.2, 30.3, -4.4])), (id_, None, LABELS[c])))
        if kind > 0.85:
            timed.append((i + 12.5, (id_, None, LABELS[c])))
    return [e for _, e in sorted(timed, key=lambda pair: pair[0])]


def machine(learner: Any = None, **more: Any) -> Progressive:
    """A machine over SCHEMA."""
    learner = learner or PerKeyNB(per="tenant")
    return Progressive(learner, LabelJoin(**more), learner.prepare(Rows.empty(SCHEMA)))


def run(going: Progressive, events: list[Any], cuts: Any = (), *, restart: bool = False) -> Any:
    """Process the events in calls that end at `cuts`; with `restart` each call has a new machine
    from the state of the one before. Returns the machine and the predictions."""
    said: list[dict[Any, float]] = []
    for start, stop in pairwise([0, *sorted(cuts), len(events)]):
        if restart:
            saved = State.from_bytes(going.to_state().to_bytes())
            going = machine()
            going.load_state(saved)
        part = events[start:stop]
        rows = Rows.empty(SCHEMA, sum(x is not None for _, x, _ in part))
        for i, x in enumerate(x for _, x, _ in part if x is not None):
            rows.numeric[i], rows.categorical[i, 0] = x["a"], x.get("tenant")
        number = iter(range(len(rows)))
        said += going.process(
            going.learner.prepare(rows),
            Events(
                [id_ for id_, _, _ in part],
                [-1 if x is None else next(number) for _, x, _ in part],
                [y for *_, y in part],
                [1.0] * len(part),
                list(range(start, stop)),
            ),
        ).predictions.dicts()
    return going, said


def scored(events: list[Any], said: list[dict[Any, float]], twin: KeyTwin) -> KeyTwin:
    """Give the twin each first label of an observation, with the prediction made before it."""
    made, asked, early, done = iter(said), {}, {}, set()
    for id_, x, y in events:
        if x is not None:
            asked[id_] = (x.get("tenant"), next(made))
            y = early.get(id_) if y is None else y
        elif id_ not in asked:
            early.setdefault(id_, y)
            continue
        if y is None or id_ in done:
            continue
        done.add(id_)
        key, posterior = asked[id_]
        if posterior:
            best = max(posterior, key=lambda label: posterior[label])
            twin.add(key, y, best, posterior.get(y, 0.0))
    return twin


def assert_same(found: KeyScoresView, twin: KeyTwin) -> None:
    """The view has the numbers of the twin."""
    names = twin.compared()
    assert (found.keys, found.compared) == (len(twin.heard()), len(names))
    assert found.worse == sum(map(twin.worse, names))
    expected = twin.worst()
    shown = [(s.key, s.scored, s.accuracy, s.log_loss, s.least) for s in found.worst]
    assert [s[1:] for s in shown] == [pytest.approx(e[1:], rel=1e-6, abs=1e-9) for e in expected]
    assert {s[0] for s in shown} == {e[0] for e in expected}
    for score in found.worst:
        n, wrong, _, won, lost = twin.weights(score.key)
        assert score.guess == pytest.approx(1 - (wrong - lost + won) / n, abs=1e-9)
        assert score.worse == twin.worse(score.key)
    ranked = sorted(1 - twin.weights(key)[1] / twin.weights(key)[0] for key in names)
    for share, accuracy in found.accuracies.items():
        assert accuracy == pytest.approx(ranked[int(share * (len(ranked) - 1))], abs=1e-9)


@example(seed=0)  # with much to compare
@seeds(0.0075)
def test_scores_are_those_of_the_slow_twin(seed: int) -> None:
    """Labels inside, late, early, twice or never: each first one scores what was predicted."""
    events = scattered(400, seed)
    going, said = run(machine(), events, cuts=[7, 50, 51, 190])
    twin = scored(events, said, KeyTwin())

    assert_same(going.keys.frozen().view, twin)
    assert seed or len(twin.compared()) >= 3
    assert seed or max(len(records) for records in twin.records.values()) > 100


@seeds(0.05, cuts=st.lists(st.integers(1, 300), max_size=6), restart=st.booleans())
def test_any_split_and_any_restart_give_the_same_bits(cuts, seed, restart) -> None:
    """I1 and I2 for the scores of keys, views in between included."""
    events = scattered(300, seed)
    whole, _ = run(machine(), events)
    at = sorted({c for c in cuts if c < len(events)})
    cut, _ = run(machine(), events, at, restart=restart)

    assert cut.keys.to_state() == whole.keys.to_state()
    assert cut.to_state().fingerprint() == whole.to_state().fingerprint()
    assert cut.keys.frozen().view == whole.keys.frozen().view


def direct(n: int, keys: int, seed: int) -> list[tuple[str | None, int, int, float]]:
    """Key, true class, predicted class and probability of the true one, with changes of quality."""
    rng = np.random.default_rng(seed)
    rate = rng.random(keys) ** 3
    out: list[tuple[str | None, int, int, float]] = []
    for i in range(n):
        k = min(int(rng.zipf(1.3)) - 1, keys - 1)
        true = int(rng.random() < 0.3 + 0.4 * (i > n // 2))
        wrong = rng.random() < rate[(k + (i > n // 2)) % keys]
        key = None if rng.random() < 0.05 else f"key {k}" + "long" * 80 * (k == 3)
        out.append((key, true, int(true != wrong), float(rng.random())))
    return out


def added(table: KeyScores, part: list[tuple[str | None, int, int, float]]) -> None:
    """Add scored predictions in one call."""
    keys, true, predicted, p = map(list, zip(*part, strict=True)) if part else ([], [], [], [])
    columns = np.array(true, dtype=np.int64), np.array(predicted, dtype=np.int64)
    table.add(keys, *columns, kernels.losses(np.array(p, dtype=np.float64)))


@seeds(
    0.03,
    cuts=st.lists(st.integers(1, 1500), max_size=8),
    most=st.sampled_from([4, 16, 40]),
    quiet=st.sampled_from([2, 1000]),
)
def test_a_full_table_keeps_what_the_twin_keeps(cuts, seed, most, quiet) -> None:
    """With more keys than there is room for, and keys that fall silent, in any split."""
    data = direct(1500, 60, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_scores, "MOST_SCORED", most)
        patch.setattr(key_scores, "QUIET", quiet)
        whole, cut, twin = KeyScores("k"), KeyScores("k"), KeyTwin(most, quiet)
        added(whole, data)
        for start, stop in pairwise([0, *sorted({c for c in cuts if c < 1500}), 1500]):
            added(cut, data[start:stop])
            cut.frozen()
        for key, true, predicted, p in data:
            twin.add(None if key is None else key[:256], true, predicted, p)

        assert cut.to_state() == whole.to_state()
        assert (len(whole), whole.forgotten) == (len(twin.records), twin.forgotten)
        assert whole.forgotten > 0
        assert_same(whole.frozen().view, twin)


def test_a_view_does_not_change_with_later_records() -> None:
    """A reader may compute it while the loop goes on, also after keys were removed."""
    table, data = KeyScores("k"), direct(2000, 30, seed=2)
    added(table, data[:900])
    early, twin = table.frozen(), KeyTwin()
    added(table, [(key, 0, 1, 0.5) for key, *_ in data[:900]])  # no new keys: the arrays stay
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_scores, "MOST_SCORED", len(table))
        added(table, [(f"new {i}", 0, 1, 0.5) for i in range(50)])
        added(table, data[900:])
    for key, true, predicted, p in data[:900]:
        twin.add(None if key is None else key[:256], true, predicted, p)

    assert table.forgotten > 0
    assert_same(early.view, twin)


def test_another_process_gets_the_view_only() -> None:
    """The arrays of all keys stay where they are."""
    table = KeyScores("k")
    added(table, direct(2000, 400, seed=3))
    here = table.frozen()
    data = pickle.dumps(here)

    there = pickle.loads(data)
    assert isinstance(there, FrozenKeyScores)
    assert there.view == here.view
    assert len(data) < 5_000


def test_one_error_in_one_record_is_not_the_worst() -> None:
    """Nor is a short streak; a key that is certainly bad is."""
    table = KeyScores("k")
    for i in range(500):
        added(table, [("good", 0, int(i % 50 == 0), 0.9), ("bad", 0, int(i % 4 == 0), 0.6)])
    added(table, [("once", 0, 1, 0.1)])
    added(table, [("few", 0, 1, 0.1)] * (FEWEST - 1))
    found = table.frozen().view

    assert [score.key for score in found.worst] == ["bad", "good"]
    assert (found.keys, found.compared) == (4, 2)
    added(table, [("few", 0, 1, 0.1)])
    assert table.frozen().view.worst[0].key == "few"


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.4])
@pytest.mark.parametrize("n", [20, 33, 150])
def test_the_bound_is_above_the_true_rate_as_rarely_as_it_says(rate: float, n: int) -> None:
    """The exact probability of the binomial counts whose bound is above the rate."""
    evidence = log(1000 / 0.01)
    p = sum(
        comb(n, e) * rate**e * (1 - rate) ** (n - e)
        for e in range(1, n + 1)
        if kernels.least_share(float(e), float(n), evidence) > rate
    )

    assert p <= exp(-evidence)
    assert kernels.least_share(float(n), float(n), evidence) > rate, "all wrong is noticed"


@example(0.5, 2.2250738585e-313, 1.0)  # a product that is 0
@given(st.floats(0.01, 500), st.floats(0, 1), st.floats(0.5, 30))
def test_the_bound_is_that_of_another_solver(whole: float, share: float, evidence: float) -> None:
    """For faded counts, which are no whole numbers."""
    part = share * whole
    found = kernels.least_share(part, whole, evidence) if part > 0 else 0.0

    assert found == pytest.approx(least(part, whole, evidence) if part > 1e-9 else 0.0, abs=1e-9)


def test_recent_records_count() -> None:
    """A key that was bad and is good now leaves the list; one that turns bad enters it."""
    table = KeyScores("k")
    for turn in (0, 1):
        for i in range(1500):
            once = int(i % 2 == 0)
            added(table, [("a", 0, once * (1 - turn), 0.5), ("b", 0, once * turn, 0.5)])
        [worst, *_] = table.frozen().view.worst
        assert worst.key == "ab"[turn]
        assert 0.4 < 1 - worst.accuracy < 0.55


def test_a_model_that_is_worse_than_the_usual_label_is_found() -> None:
    """Right in 80 %, where the key has one label in 95 %; and another key the other way round."""
    table = KeyScores("k")
    for i in range(1000):
        true = int(i % 20 == 0)
        added(table, [("harmed", true, int(i % 5 == 0), 0.5), ("helped", true, true, 0.9)])
    found = table.frozen().view

    assert found.worse == 1
    assert [(s.key, s.worse, round(s.guess, 2)) for s in found.worst] == [("harmed", True, 0.95)]


def test_challengers_have_scores_of_the_same_keys() -> None:
    """Also a learner without keys; the scores survive in the state of the contest."""
    events, like = scattered(300, 1), Rows.empty(SCHEMA)

    def contest() -> ChampionChallenger:
        learner = PerKeyNB(per="tenant")
        own = Progressive(learner, LabelJoin(), learner.prepare(like))
        out = ChampionChallenger(own, like)
        out.enroll("plain", MixedNB(), 0)
        return out

    going = contest()
    rows = Rows.empty(SCHEMA, sum(x is not None for _, x, _ in events))
    for i, x in enumerate(x for _, x, _ in events if x is not None):
        rows.numeric[i], rows.categorical[i, 0] = x["a"], x.get("tenant")
    number = iter(range(len(rows)))
    going.process(
        rows,
        Events(
            [id_ for id_, _, _ in events],
            [-1 if x is None else next(number) for _, x, _ in events],
            [y for *_, y in events],
            [1.0] * len(events),
            list(range(len(events))),
        ),
        rows,
    )
    one, other = (c.machine for c in going.contestants())

    assert one.keys.frozen().view.compared == other.keys.frozen().view.compared > 2
    assert one.keys.to_state() != other.keys.to_state()
    again = contest()
    base = next(again.contestants()).machine
    base.load_state(one.to_state())
    again.load_state(going.to_state())
    assert [c.machine.keys.to_state() for c in again.contestants()] == [
        one.keys.to_state(),
        other.keys.to_state(),
    ]


def test_a_learner_without_keys_has_no_scores_of_keys() -> None:
    """And its state has no part for them."""
    going, _ = run(machine(MixedNB()), scattered(50, 0))

    assert going.keys is None
    assert "keys" not in going.to_state().header


@pytest.mark.parametrize(
    "damage",
    [
        {"sums": np.full((2, 5), np.nan)},
        {"sums": np.zeros((2, 5))},
        {"sums": np.ones((3, 5))},
        {"counts": np.full((2, 4), -1)},
        {"lengths": np.array([1, 5])},
        {"bytes": np.frombuffer(b"aa", dtype=np.uint8)},
    ],
    ids=["nan", "weightless", "rows", "negative", "texts", "twice"],
)
def test_damaged_states_are_rejected(damage: dict[str, Any]) -> None:
    """With an error, before anything is changed."""
    table = KeyScores("k")
    added(table, [("a", 0, 1, 0.5), ("b", 1, 1, 0.5)])
    state = table.to_state()

    with pytest.raises(StateError):
        KeyScores("k").load_state(State(state.header, {**state.arrays, **damage}))
    with pytest.raises(StateError, match="'other'"):
        KeyScores("other").load_state(state)
