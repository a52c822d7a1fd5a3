"""The paired comparison: the exact evidence, at any time, whatever the blocks."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from stream.contest.compare import LEVEL, Comparison
from stream.contest.compare.paired import brier
from stream.data.state import State
from stream.errors import StateError
from tests.long.promotions import NULLS, false_promotions, missed
from tests.oracles import compare as oracles


def compared(wins: int, losses: int, seed: int = 0) -> Comparison:
    """A comparison in which the challenger alone was right so often, and the champion."""
    right = np.array([1] * wins + [0] * losses, dtype=np.int8)
    np.random.default_rng(seed).shuffle(right)
    comparison = Comparison()
    comparison.advance(1 - right, right, np.zeros(right.size), np.zeros(right.size))
    return comparison


def stream(n: int, seed: int = 0):
    """Who was right and the Brier scores, of a challenger that is a little better."""
    rng = np.random.default_rng(seed)
    champion, challenger = (rng.random((2, n)) < [[0.7], [0.75]]).astype(np.int8)
    champion[rng.random(n) < 0.05] = -1
    return champion, challenger, *rng.random((2, n)) * [[2.0], [1.8]]


@pytest.mark.parametrize(
    ("wins", "losses"),
    [(0, 0), (1, 0), (0, 1), (7, 0), (0, 70), (70, 0), (300, 280), (280, 300), (90, 400)],
)
def test_e_value_is_that_of_exact_fractions(wins, losses) -> None:
    """Whichever is ahead, however far, in whatever order they came."""
    got = compared(wins, losses).e_value

    assert got == pytest.approx(float(oracles.e_value(wins, losses)), rel=1e-12)


def test_e_value_beyond_the_largest_number_is_the_largest_number() -> None:
    """It is served, so it is never infinite; and it comes back down."""
    far = compared(2000, 0)
    losses = np.ones(2000, dtype=np.int8)

    assert far.e_value == np.finfo(np.float64).max
    far.advance(losses, 1 - losses, np.zeros(2000), np.zeros(2000))
    assert far.e_value == pytest.approx(float(oracles.e_value(2000, 2000)), rel=1e-9)


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


def test_interval_of_the_difference_is_that_of_an_obvious_search() -> None:
    """Every mean that the mixture supermartingale has not refuted."""
    champion, challenger, lost, spared = stream(400, seed=5)
    comparison = Comparison()
    comparison.advance(champion, challenger, lost, spared)
    view = comparison.view()
    differences = (lost - spared)[champion >= 0].tolist()
    lower, upper = oracles.interval(differences, LEVEL)

    assert view.difference == pytest.approx(np.mean(differences), rel=1e-12)
    assert (view.lower, view.upper) == pytest.approx((lower, upper), rel=1e-9)


def test_interval_of_few_records_says_nothing_it_cannot_know() -> None:
    """It ends where differences of Brier scores end."""
    comparison = Comparison()
    one = np.ones(1, dtype=np.int8)
    comparison.advance(one, one, np.array([0.5]), np.array([0.3]))
    view = comparison.view()

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
    comparison = compared(9, 0)
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
    arrays = {"counts": np.zeros(2, dtype=np.int64), "sums": np.zeros(3)}

    with pytest.raises(StateError, match="array 'counts': expected shape"):
        Comparison().load_state(State({}, arrays))


@pytest.mark.parametrize("name", NULLS)
def test_peeking_at_every_record_promotes_a_challenger_that_is_no_better_rarely(name) -> None:
    """The short form of `python -m tests.long.promotions`: 5 % at most, with room for chance."""
    promoted, uncovered = false_promotions(name, 200, 5_000, 1), missed(name, 100, 2_000, 1)

    assert promoted <= 20, "more than 200 streams at 5 % give, but once in 1,000 times"
    assert uncovered <= 13


def test_challenger_that_is_better_is_promoted_soon() -> None:
    """80 % against 75 %, on the same records: a test that says nothing would be safe too."""
    rng = np.random.default_rng(11)
    champion, challenger = (rng.random((2, 20_000)) < [[0.75], [0.8]]).astype(np.int8)
    zeros = np.zeros(20_000)
    at = Comparison().advance(champion, challenger, zeros, zeros, threshold=20.0)

    assert at is not None
    assert at < 5_000
