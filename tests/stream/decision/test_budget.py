"""Decisions by a budget of false positives: fast = obvious, the guarantee, the rules."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example

from stream.data.state import State
from stream.decision import Budget, FalsePositiveBudget
from stream.decision.budget import EVIDENCE, FLAGGED_LABEL, NO_LABEL, decisions
from stream.errors import SchemaError, StateError
from stream.learner.base import Predictions
from tests.long.budget import most, simulate, summary
from tests.oracles.budget import SlowBudget
from tests.seed import seeds


def fed(rate: float, ps: list[float]) -> FalsePositiveBudget:
    """A budget with labelled others that were not flagged."""
    budget = FalsePositiveBudget(Budget("spam", rate))
    for p in ps:
        budget.update_one(p, flagged=False)
    return budget


@pytest.mark.parametrize("lowest", [0.0, 0.8])
@pytest.mark.parametrize(
    ("rate", "delay", "least", "guard"),
    [(0.3, 0, 0, None), (0.2, 3, 20, 0.5), (0.3, 40, 15, None), (0.1, 7, 0, 0.7)],
)
@example(seed=1)  # the guard is in use
@seeds(0.005)
def test_decisions_are_those_of_the_definition(
    seed: int, rate: float, delay: int, least: int, guard: float | None, lowest: float
) -> None:
    """Late and missing labels, in blocks of any size, with a guard that is in use at times."""
    rng = np.random.default_rng(seed)
    n, more = 400, (least, guard)
    other, told = rng.random(n) < 0.7, rng.random(n) < 0.8
    p = np.where(other, rng.beta(1, 4, n), rng.beta(4, 1, n))
    p[n // 2 :][other[n // 2 :]] = rng.beta(4, 1, int(other[n // 2 :].sum()))  # the model changes
    slow, expected, early, unsure = SlowBudget(rate, *more, lowest), [], [], []
    fast = FalsePositiveBudget(Budget("spam", rate, *more, lowest))
    made = np.zeros((0, 3), dtype=np.bool_)
    for t in range(n):
        expected.append(slow.flags(p[t]))
        unsure.append(slow.doubts(p[t]))
        early.append(not slow.ready)
        if t >= delay and told[t - delay]:
            if other[t - delay] and not early[t - delay]:
                slow.add([(float(p[t - delay]), expected[t - delay])])
            slow.labels[not other[t - delay]] += 1
    cuts = [0, *sorted(rng.integers(1, n, 30).tolist()), n]
    for start, stop in pairwise(cuts):
        at = np.arange(start, stop) - delay
        labels = np.where(other[at], EVIDENCE, FLAGGED_LABEL)
        labels[(at < 0) | ~told[at]] = NO_LABEL
        source = np.where(at >= start, at - start, -1)
        flagged, _, too_early = (
            np.array([0 <= i < start and made[i, k] for i in at], dtype=np.bool_) for k in range(3)
        )
        steps = np.arange(stop - start)
        part = fast.follow(steps, p[start:stop], labels, source, (p[at], flagged, too_early))
        made = np.concatenate([made, np.column_stack(part)])

    assert made[:, 0].tolist() == expected
    assert made[:, 1].tolist() == unsure
    assert fast.view().unsure == sum(unsure)
    assert any(unsure) == (more != (0, None))
    assert fast.view().ready
    assert slow.threshold is not None
    assert fast.threshold == max(slow.threshold, lowest)
    assert fast.view().others == len(slow.others)
    assert 0 < sum(expected) < n
    assert rate == 0.1 or lowest or seed != 1 or fast.view().withheld > 0


def test_nothing_is_flagged_before_there_is_evidence() -> None:
    """At 0.1 %, ln(20) / rate = 2,995 others; those with the highest probability need more."""
    before, after = fed(0.001, [0.1] * 2994), fed(0.001, [0.1] * 2995)

    assert (before.threshold, before.view().missing) == (None, 1)
    assert not before.flags_one(1.0)
    assert after.flags_one(1.0)
    assert after.flags_one(0.2)
    assert not after.flags_one(0.1)
    assert fed(0.001, [1.0] * 4 + [0.1] * 3000).view().missing == 4999 - 3004


def test_what_a_young_model_said_is_forgotten() -> None:
    """Only the newest 10 / rate others choose the threshold."""
    budget = fed(0.1, [0.99] * 100)
    old = budget.threshold
    for _ in range(100):
        budget.update_one(0.1, flagged=False)

    assert old is not None
    assert budget.threshold == fed(0.1, [0.1] * 100).threshold < 0.2 < old


def test_label_that_is_taken_back_leaves_no_trace() -> None:
    """The counts, the threshold and all bits are those without it, in both directions."""
    ps = np.random.default_rng(1).beta(1, 9, 90).tolist()
    budget, without = fed(0.1, [*ps, 0.9, 0.01]), fed(0.1, ps)
    for p in (0.9, 0.01):
        budget.update_one(p, flagged=False, times=-1)
    fresh = fed(0.1, [0.5])
    fresh.update_one(0.5, flagged=False, times=-1)

    assert budget.to_state() == without.to_state()
    assert fresh.to_state() == fed(0.1, []).to_state()


def test_one_record_is_decided_as_in_a_block() -> None:
    """Before `min_learned` labels of each nothing but unsure; then by threshold and probability."""
    budget = FalsePositiveBudget(Budget("spam", 0.1, min_learned=2, unsure=0.5))
    for _ in range(31):
        budget.update_one(0.2, flagged=False)
    told = []
    for of_label in (True, False, True, False):
        told.append((budget.flags_one(0.99), budget.doubts_one(0.01)))
        budget.count_one(of_label=of_label)
    for _ in range(3):
        budget.update_one(0.7, flagged=False)

    assert told == [(False, True)] * 4
    assert (budget.flags_one(0.99), budget.doubts_one(0.99)) == (True, False)
    assert (budget.flags_one(0.6), budget.doubts_one(0.6)) == (False, True)
    assert (budget.flags_one(0.4), budget.doubts_one(0.4)) == (False, False)


def test_improbable_record_is_not_flagged_whatever_the_budget_allows() -> None:
    """The model separates the labels well: a threshold far below 0.5 keeps the budget."""
    ps, rule = [1e-6] * 100, Budget("spam", 0.1, min_probability=0.5)
    low, budget = fed(0.1, ps), FalsePositiveBudget(rule)
    for p in ps:
        budget.update_one(p, flagged=False)

    assert low.threshold < 1e-5
    assert (low.flags_one(0.4), low.flags_one(0.6)) == (True, True)
    assert (budget.flags_one(0.4), budget.flags_one(0.5), budget.view().threshold) == (
        False,
        True,
        0.5,
    )
    assert FalsePositiveBudget.from_state(budget.to_state()).rule == rule


def test_spent_budget_withholds_flags_until_more_others_came() -> None:
    """Whatever the model does: the flagged share of labelled others stays within the budget."""
    budget = fed(0.1, [0.01] * 100)
    flags = 0
    for i in range(300):  # the model changes: every record looks more like the label than before
        p = 1.0 - 0.9 * 0.95**i
        flagged = budget.flags_one(p)
        budget.update_one(p, flagged=flagged)
        flags += flagged
        view = budget.view()

        assert view.false_positives <= 0.1 * view.others
    assert flags == view.false_positives > 5


def test_action_is_the_most_probable_other_label_unless_flagged() -> None:
    """A label that was not known then is no action; the risk is that of being wrong."""
    proba = np.array([[0.0, 0.0], [0.0, 1.0], [0.3, 0.7], [0.3, 0.7]])
    made = Predictions(["ham", "spam"], proba, np.array([0, 2, 2, 2]))
    flags, no = np.array([False, False, False, True]), np.zeros(4, dtype=np.bool_)
    done = decisions(Budget("spam", 0.1), made, flags, no).done()
    doubt = decisions(Budget("spam", 0.1), made, no, flags).done()
    nothing = Predictions([], np.zeros((1, 0)), np.zeros(1, dtype=np.int64))
    none = decisions(Budget("spam", 0.1), nothing, no[:1], no[:1])
    only = Predictions(["spam"], np.ones((1, 1)), np.ones(1, dtype=np.int64))

    assert [action for action, _ in done] == [None, "ham", "ham", "spam"]
    assert doubt[1:] == [("ham", 1.0), ("ham", 0.7), (None, None)]
    assert [risk for _, risk in done] == pytest.approx([None, 1.0, 0.7, 0.3])
    assert none.done() == [(None, None)]
    assert decisions(Budget("spam", 0.1), only, no[:1], no[:1]).done() == [(None, None)]


def test_saved_budget_continues() -> None:
    """Bit for bit."""
    rng = np.random.default_rng(2)
    first, rest = rng.beta(1, 9, 200).tolist(), rng.beta(1, 5, 300).tolist()
    whole, restored = fed(0.1, first + rest), fed(0.1, first)
    restored = FalsePositiveBudget.from_state(restored.to_state())
    for p in rest:
        restored.update_one(p, flagged=False)

    assert restored.to_state() == whole.to_state()
    assert restored.view() == whole.view()


@pytest.mark.parametrize("damage", ["label", "rate", "recent", "sums"])
def test_damaged_budget_is_refused(damage: str) -> None:
    """StateError, so that an older snapshot is taken."""
    state = fed(0.1, [0.1] * 100).to_state()
    header, arrays = dict(state.header), dict(state.arrays)
    if damage in header:
        header[damage] = None
    else:
        arrays[damage] = arrays[damage] + 1

    with pytest.raises(StateError, match="damaged"):
        FalsePositiveBudget.from_state(State(header, arrays))


@pytest.mark.parametrize(
    ("label", "rate", "expected"),
    [
        ("", 0.1, "label must be a text that is not empty, got ''"),
        ("spam", 0.5, "rate must be from 1e-06 and below 0.5, got 0.5"),
        ("spam", 0, "rate must be from 1e-06 and below 0.5, got 0"),
        ("spam", float("nan"), "rate must be a number"),
    ],
)
def test_wrong_budget_is_one_line(label: str, rate: float, expected: str) -> None:
    """It names the parameter."""
    with pytest.raises(SchemaError, match=expected):
        Budget(label, rate)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"min_learned": -1}, "min_learned must be a whole number from 0 to 2,147,483,648, got -1"),
        ({"min_learned": True}, "min_learned must be a whole number"),
        ({"unsure": 0.0}, "unsure must be above 0 and at most 1, got 0"),
        ({"unsure": 1.5}, "unsure must be above 0 and at most 1, got 1.5"),
        ({"min_probability": -0.1}, "min_probability must be from 0 to 1, got -0.1"),
        ({"min_probability": 1.1}, "min_probability must be from 0 to 1, got 1.1"),
        ({"min_probability": "x"}, "min_probability must be a number"),
    ],
)
def test_wrong_doubt_is_one_line(more: dict[str, float], expected: str) -> None:
    """It names the parameter."""
    with pytest.raises(SchemaError, match=expected):
        Budget("spam", 0.1, **more)


@pytest.mark.parametrize(("delay", "share"), [(0, 1.0), (1000, 0.5)])
def test_rate_stays_within_the_budget_and_most_is_found(delay: int, share: float) -> None:
    """The short form of tests/long/budget.py: 100 streams; the budget is 1 %."""
    rng = np.random.default_rng(7)
    runs = [simulate(0.01, 10_000, delay, share, rng) for _ in range(100)]
    above, _, of_best = summary(runs)

    assert above <= most(100)
    assert of_best >= 0.95
    assert all(run.first is not None for run in runs)
