"""The paired comparison: the exact evidence, at any time, whatever the blocks."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from stream.contest.compare import LEVEL, Comparison
from stream.contest.compare.paired import brier
from stream.data.state import State
from stream.errors import StateError
from tests.long.promotions import BETTER, NULLS, observed
from tests.oracles import compare as oracles


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few records are enough."""
    monkeypatch.setattr(Comparison, "RECORDS", 2)
    monkeypatch.setattr(Comparison, "CHANGES", 1)


def compared(wins: int, losses: int, seed: int = 0) -> Comparison:
    """A comparison in which the challenger alone was right so often, and the champion."""
    right = np.array([1] * wins + [0] * losses, dtype=np.int8)
    np.random.default_rng(seed).shuffle(right)
    return of(right)


def of(right, label=None) -> Comparison:
    """A comparison in which the challenger alone was right where `right` is 1."""
    right = np.asarray(right, dtype=np.int8)
    labels = np.arange(right.size) % 2 if label is None else np.asarray(label)
    comparison = Comparison()
    zeros = np.zeros(right.size)
    comparison.advance(1 - right, right, zeros, zeros, true=labels)
    return comparison


def stream(n: int, seed: int = 0):
    """Who was right and the Brier scores, of a challenger that is a little better."""
    rng = np.random.default_rng(seed)
    champion, challenger = (rng.random((2, n)) < [[0.7], [0.75]]).astype(np.int8)
    champion[rng.random(n) < 0.05] = -1
    return champion, challenger, *rng.random((2, n)) * [[2.0], [1.8]]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("n", [2, 31, 64, 65, 700])
@pytest.mark.parametrize("chance", [0.3, 0.5, 0.8])
def test_e_value_is_the_least_of_all_scales(n, chance) -> None:
    """Of blocks of 1, 2, 4, … records of which 32 are complete, however many wins there are."""
    rng = np.random.default_rng(n)
    champion, challenger = (rng.random((2, n)) < [[0.6], [chance]]).astype(np.int8)
    zeros = np.zeros(n)
    comparison = Comparison()
    comparison.advance(champion, challenger, zeros, zeros, true=np.arange(n) % 2)
    wins = (challenger - champion).tolist()
    found = oracles.e_value(wins)

    assert bool(comparison.undecided) == oracles.runs(wins)
    expected = min(found, 1.0) if comparison.undecided else found
    assert comparison.e_value == pytest.approx(expected, rel=1e-9)


@pytest.mark.usefixtures("at_once")
def test_e_value_of_many_wins_is_finite_and_comes_back_down() -> None:
    """It is served, so it is never infinite."""
    far = compared(40_000, 0)
    losses, zeros = np.ones(80_000, dtype=np.int8), np.zeros(80_000)

    assert 1e9 < far.e_value < np.inf
    far.advance(losses, 1 - losses, zeros, zeros, true=np.arange(80_000) % 2)
    assert far.e_value < 1.0


def test_few_records_are_undecided() -> None:
    """However often the challenger wins: one run may be longer than all of them."""
    few, more = of(np.ones(999)), of(np.ones(1000))

    assert few.undecided == "too few records are compared"
    assert (few.e_value, few.view().lower, few.view().upper) == (1.0, -2.0, 2.0)
    assert not more.undecided
    assert more.e_value > 1e6


def test_labels_of_one_class_are_undecided() -> None:
    """Who only knows this class wins all of its run."""
    one = of(np.ones(3000), np.arange(3000) // 1000)

    assert one.undecided == "the label has changed too rarely"
    assert one.e_value == 1.0


def test_wins_in_runs_are_undecided_until_blocks_are_longer() -> None:
    """Neighbouring blocks are alike where a run is longer than they are."""
    right = np.arange(64_000) // 300 % 4 > 0
    short, long = of(right[:3000]), of(right)

    assert short.undecided == "wins come in runs that are too long for so few records"
    assert not long.undecided
    assert long.e_value > 20


@pytest.mark.usefixtures("at_once")
def test_records_on_which_both_are_right_or_wrong_are_no_evidence() -> None:
    """Only those on which they differ count, for accuracy."""
    both = np.array([1, 0, 1, 0], dtype=np.int8)
    comparison = compared(3, 1)
    before = comparison.e_value
    comparison.advance(both, both, np.zeros(4), np.zeros(4))

    assert comparison.e_value == before
    assert comparison.view().compared == 8


def test_records_of_one_model_only_are_not_compared() -> None:
    """A challenger that came later is not judged by what it was never asked."""
    comparison = Comparison()
    ones, absent = np.ones(3, dtype=np.int8), np.full(3, -1, dtype=np.int8)
    comparison.advance(ones, absent, np.zeros(3), np.ones(3))
    comparison.advance(absent, ones, np.zeros(3), np.ones(3))

    assert comparison.bits() == Comparison().bits()
    assert comparison.view().difference is None


def test_brier_score_is_that_of_an_obvious_sum() -> None:
    """Of classes without a column and of predictions that say nothing too."""
    rng = np.random.default_rng(3)
    proba = rng.dirichlet(np.ones(4), size=50)
    row, true = rng.integers(50, size=200), rng.integers(4, size=200)
    expected = [oracles.brier(proba[r].tolist(), t) for r, t in zip(row, true, strict=True)]

    assert brier(proba, row, true).tolist() == pytest.approx(expected, rel=1e-12)
    assert brier(proba, np.array([0]), np.array([4]))[0] == pytest.approx(
        1.0 + float(proba[0] @ proba[0])
    )
    assert brier(proba, np.array([-1]), np.array([0])).tolist() == [1.0]


@pytest.mark.usefixtures("at_once")
def test_interval_of_the_difference_is_that_of_an_obvious_search() -> None:
    """Every mean that the mixture supermartingale has not refuted."""
    champion, challenger, lost, spared = stream(400, seed=5)
    comparison = Comparison()
    comparison.advance(champion, challenger, lost, spared)
    view = comparison.view()
    assert not view.undecided
    differences = (lost - spared)[champion >= 0].tolist()
    lower, upper = oracles.interval(differences, LEVEL)

    assert view.difference == pytest.approx(np.mean(differences), rel=1e-12)
    assert (view.lower, view.upper) == pytest.approx((lower, upper), rel=1e-6)


def test_interval_of_few_records_says_nothing_it_cannot_know() -> None:
    """It ends where differences of Brier scores end."""
    comparison = Comparison()
    one = np.ones(1, dtype=np.int8)
    comparison.advance(one, one, np.array([0.5]), np.array([0.3]))
    view = comparison.view()

    assert view.undecided
    assert (view.lower, view.upper) == (-2.0, 2.0)


def test_any_split_gives_the_same_bits_and_stops_at_the_same_record() -> None:
    """The record at which a threshold is reached does not depend on the blocks (I1)."""
    drawn = stream(3000, seed=1)
    whole, single = Comparison(), Comparison()
    end = whole.advance(*drawn, threshold=20.0)
    at = next(i for i in range(3000) if single.advance(*drawn, i, i + 1, 20.0) is not None)

    assert end == at < 3000
    assert whole.bits() == single.bits()
    assert whole.e_value >= 20.0


def test_evidence_that_suffices_already_is_found_at_the_next_record_compared() -> None:
    """As when a threshold was lowered: at a record, not wherever a block happens to end."""
    comparison = of(np.ones(1000))
    both, absent = np.ones(3, dtype=np.int8), np.array([-1, -1, 1], dtype=np.int8)

    assert comparison.advance(absent, both, np.zeros(3), np.zeros(3), 0, 2, 20.0) is None
    assert comparison.advance(absent, both, np.zeros(3), np.zeros(3), 2, 3, 20.0) == 2


def test_restored_comparison_goes_on_bit_for_bit() -> None:
    """Saved, loaded and continued is the same as never saved."""
    drawn = stream(2000, seed=2)
    whole, first, second = Comparison(), Comparison(), Comparison()
    whole.advance(*drawn)
    first.advance(*drawn, 0, 700)
    second.load_state(first.to_state())
    second.advance(*drawn, 700, None, inf)

    assert second.to_state() == whole.to_state()


def test_damaged_comparison_is_refused() -> None:
    """Too few numbers are not a comparison."""
    arrays = {"counts": np.zeros(2, dtype=np.int64), "sums": np.zeros(2)}

    with pytest.raises(StateError, match="array 'counts': expected shape"):
        Comparison().load_state(State({}, arrays))


@pytest.mark.parametrize("name", NULLS)
def test_peeking_at_every_record_promotes_a_challenger_that_is_no_better_rarely(name) -> None:
    """The short form of `python -m tests.long.promotions`: 5 % at most, with room for chance."""
    found = [observed(NULLS[name](5_000, np.random.default_rng([1, i]))) for i in range(100)]

    assert sum(at is not None for at, _ in found) <= 12, "more are given by 5 % once in 1,000 times"
    assert sum(misses for _, misses in found) <= 12


@pytest.mark.parametrize("name", list(BETTER)[:3])
def test_challenger_that_is_better_is_promoted_soon(name) -> None:
    """A test that claims nothing would be safe too."""
    at, _ = observed(BETTER[name](20_000, np.random.default_rng(11)))

    assert at is not None
    assert at < 10_000
