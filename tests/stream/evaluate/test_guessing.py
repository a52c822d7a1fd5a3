"""Worse than guessing: found where it is so, by a margin, and without flapping."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from stream.evaluate.guessing import ENOUGH, BetterGuess, GuessWatch
from stream.evaluate.quality import BaselinePredictions, Quality, QualityView

CLASSES = ["a", "b"]
STEP = 250


class Stream:
    """Predictions of two classes, right with given probabilities."""

    def __init__(self, seed: int, window: int = 1000) -> None:
        self.rng = np.random.default_rng(seed)
        self.quality = Quality(window)
        nothing = np.empty(0, dtype=np.int64)
        self.quality.baselines(np.empty(0, np.int8), np.empty(0, np.int32), nothing, 2, 0)

    def score(
        self,
        n: int,
        model: float,
        no_change: float = 0.5,
        majority: float = 0.5,
        sure: float | None = None,
        prior: float = 0.5,
    ) -> QualityView:
        """The scores after n more predictions.

        `sure`: the probability of the predicted class, by default the accuracy. `prior`: the
        probability that the prior gives each true class.
        """
        true = self.rng.integers(2, size=n)
        said, last, most = (
            np.where(self.rng.random(n) < p, true, 1 - true) for p in (model, no_change, majority)
        )
        proba = np.full((n, 2), 1.0 - (model if sure is None else sure))
        proba[np.arange(n), said] = model if sure is None else sure
        shares = np.full((n, 2), 1.0 - prior)
        shares[np.arange(n), true] = prior
        squares = (shares**2).sum(axis=1)
        beside = BaselinePredictions(np.column_stack((most, last)), shares, squares)
        self.quality.score(true, said, proba, beside)
        return self.quality.view(CLASSES)


def found(watch: GuessWatch, view: QualityView) -> list[str]:
    """The baselines that are better."""
    return [guess.baseline for guess in watch.look(view)]


def test_worse_baseline_is_named_with_its_scores() -> None:
    """Elec2's case: right in 74 %, and the last label in 85 %."""
    view = Stream(1).score(2000, 0.74, no_change=0.85)

    [guess] = GuessWatch().look(view)

    last = view.scores["last_1000"]
    assert guess == BetterGuess(
        "no_change", "last_1000", last.accuracy, last.baselines["no_change"]
    )
    assert guess.score == "accuracy"


def test_model_that_is_too_sure_has_worse_probabilities_than_the_prior() -> None:
    """Right in 80 %, but with a probability of 1 - 1e-6 for each."""
    view = Stream(2).score(2000, 0.8, sure=1 - 1e-6, prior=0.6)

    [guess] = GuessWatch().look(view)

    last = view.scores["last_1000"]
    assert guess == BetterGuess("prior", "last_1000", last.log_loss, last.prior_log_loss)
    assert guess.score == "log loss"


def test_nothing_is_found_before_a_thousand_labels() -> None:
    """However bad the model is."""
    stream, watch = Stream(3), GuessWatch()

    assert found(watch, stream.score(ENOUGH - 1, 0.1, no_change=0.9)) == []
    assert found(watch, stream.score(1, 0.1, no_change=0.9)) == ["majority", "no_change"]


def test_window_that_is_not_full_is_all_there_is() -> None:
    """Nobody is told of the last 10,000 of 2,000 predictions."""
    [guess] = GuessWatch().look(Stream(1, window=10_000).score(2000, 0.74, no_change=0.85))

    assert guess.window == "all"


def test_small_difference_is_found_over_all_records() -> None:
    """Two points are within the margin of a thousand records, and not of twenty thousand."""
    stream, watch = Stream(4), GuessWatch()

    assert found(watch, stream.score(1000, 0.90, no_change=0.92)) == []
    view = stream.score(30_000, 0.90, no_change=0.92)
    [guess] = [g for k in range(40) for g in watch.look(stream.score(STEP, 0.90, 0.92))][-1:]

    assert guess.baseline == "no_change"
    assert guess.window == "all"
    assert guess.guess - guess.model == pytest.approx(0.02, abs=0.005)
    assert view.scores["all"].scored == 31_000


def test_difference_without_meaning_is_no_finding() -> None:
    """A tenth of a point, however many records prove it."""
    stream, watch = Stream(5, window=10_000), GuessWatch()
    for _ in range(20):
        view = stream.score(100_000, 0.990, no_change=0.991)
        assert found(watch, view) == []


def test_finding_ends_once_the_model_is_better() -> None:
    """A bad start is not held against it."""
    stream, watch = Stream(6), GuessWatch()
    assert found(watch, stream.score(3000, 0.6, no_change=0.8)) == ["no_change"]

    assert found(watch, stream.score(2000, 0.9, no_change=0.8)) == []


@pytest.mark.parametrize("accuracy", [0.55, 0.8, 0.97])
def test_model_as_good_as_a_guess_is_not_accused(accuracy: float) -> None:
    """In 40 streams of 20,000 records, looked at 80 times each."""
    accused = 0
    for seed in range(40):  # always these: the bound leaves room for chance
        stream, watch = Stream(seed), GuessWatch()
        looks = [found(watch, stream.score(STEP, accuracy, accuracy, 0.0)) for _ in range(80)]
        accused += any(looks)

    assert accused == 0


def test_finding_near_the_margin_does_not_flap() -> None:
    """A good model that has become worse: found, and it stays; the bare margin changes often."""
    changes = bare = 0
    for seed in range(10):  # always these: what chance does is counted
        stream, watch = Stream(100 + seed), GuessWatch()
        stream.score(100_000, 0.95, no_change=0.8)
        stream.score(1000, 0.8, no_change=0.8)
        looks, margins = [], []
        for _ in range(200):
            view = stream.score(STEP, 0.8, no_change=0.885)
            looks.append(bool(watch.look(view)))
            margins.append(bool(GuessWatch().look(view)))
        changes += sum(a != b for a, b in pairwise(looks))
        bare += sum(a != b for a, b in pairwise(margins))

    assert changes <= 10  # one a stream
    assert bare > 10 * changes


def test_a_few_new_labels_change_no_finding_unless_it_is_asked_for() -> None:
    """Fewer than a quarter of the window."""
    stream, watch = Stream(7), GuessWatch()
    assert found(watch, stream.score(2000, 0.6)) == []
    few = stream.score(249, 0.0, no_change=1.0, sure=0.5)

    assert found(watch, few) == []
    assert [guess.baseline for guess in watch.look(few, now=True)] == ["no_change"]


def test_rollback_is_looked_at_at_once() -> None:
    """Its scores have fewer labels than the last look."""
    watch = GuessWatch()
    assert found(watch, Stream(8).score(3000, 0.6, no_change=0.8)) == ["no_change"]

    assert found(watch, Stream(8).score(2900, 0.9, no_change=0.8)) == []


def test_model_that_says_what_the_baseline_says_is_not_worse() -> None:
    """Differences of zero have no variance."""
    n = 3000
    true = np.zeros(n, dtype=np.int64)
    shares = np.tile([1.0, 0.0], (n, 1))
    beside = BaselinePredictions(np.zeros((n, 2), dtype=np.int64), shares, np.ones(n))
    quality = Stream(8).quality
    quality.score(true, true, shares, beside)

    assert GuessWatch().look(quality.view(CLASSES)) == ()
