"""Is a model worse than guessing? Compared with a margin, and without flapping.

Rule: everything is computed from scores that exist anyway, so a comparison costs nothing for each
record. It claims only what the counts prove. Where they do not show on which records only one of
the two was right, it takes the largest number that is possible.
"""

from __future__ import annotations

from math import sqrt
from typing import Literal, NamedTuple

import numpy as np

from stream.evaluate.quality import QualityView
from stream.evaluate.scores import BASELINES, Scores

__all__ = ["ENOUGH", "GUESSES", "BetterGuess", "GuessWatch"]

GUESSES = (*BASELINES, "prior")
ENOUGH = 1000  # labels; before, a model has hardly begun
SURE = 4.0  # standard errors: labels come in runs, so scores vary more than if drawn independently
LATELY = 1.0  # standard errors over the last records, if all records are the evidence
POINTS, NATS = 0.002, 0.005  # smaller differences have no meaning
WORST = 36.1  # nats: the largest log loss of a prediction


class BetterGuess(NamedTuple):
    """A baseline that is better than the model.

    Parameters
    ----------
    baseline
        `majority` or `no_change`, which is right more often, or `prior`, whose log loss is lower.
    window
        The window of the scores that show it.
    model, guess
        Their accuracies, or their log losses.
    """

    baseline: str
    window: str
    model: float
    guess: float

    @property
    def score(self) -> Literal["accuracy", "log loss"]:
        """What is compared."""
        return "log loss" if self.baseline == "prior" else "accuracy"


class GuessWatch:
    """Whether a model is worse than guessing.

    Attributes
    ----------
    worse : tuple of BetterGuess
        The baselines that are better than the model, as of the last look.

    Notes
    -----
    A baseline is found to be better if the difference over the last records is at least four
    standard errors, and at least 0.2 points or 0.005 nats. Or if that holds over all records, and
    the last records show the same by one standard error. It stays so until the last records show
    that the model is as good, so that a difference near a threshold does not change the finding
    with each look. The standard error is an upper bound. Of two accuracies p and q over n records
    it is √(min(2 - p - q, p + q) / n), because that is the largest possible share of the records on
    which only one of the two is right. Of log losses it is that of the paired differences. Over all
    records only their sums are known, and 36.1 · (their sum) / n bounds the mean square of a
    difference.

    O(window) for each look, at most four times for each window of new labels.
    """

    def __init__(self) -> None:
        self.worse: tuple[BetterGuess, ...] = ()
        self._looked = -1

    def look(self, view: QualityView, *, now: bool = False) -> tuple[BetterGuess, ...]:
        """Compare, if there are enough new labels or `now`; `worse` after it."""
        # The scores are computed on first use, so they are left alone until it is time.
        scored, window = int(view.confusion.sum()), int(view.last.removeprefix("last_"))
        if scored < ENOUGH:
            self.worse, self._looked = (), -1
            return ()
        few = 0 <= scored - self._looked < max(1, window // 4)
        if self._looked < 0 or now or not few:
            self._looked = scored
            before = {guess.baseline for guess in self.worse}
            found = (_compared(name, view, worse=name in before) for name in GUESSES)
            self.worse = tuple(guess for guess in found if guess is not None)
        return self.worse


class _Difference(NamedTuple):
    """By how much a baseline is better, in the unit of the score and in standard errors."""

    model: float
    guess: float
    by: float
    errors: float


def _compared(baseline: str, view: QualityView, *, worse: bool) -> BetterGuess | None:
    """The baseline if it is better. `worse`: it was at the last look."""
    least = NATS if baseline == "prior" else POINTS
    every = _difference(baseline, view.scores["all"])
    last = _difference(baseline, view.scores[view.last])
    if every is None or last is None:
        return None
    recent = last.errors >= SURE and last.by >= least
    always = every.errors >= SURE and every.by >= least
    if recent or (worse and not always):
        stays = recent or last.by > 0
        whole = view.scores["all"].scored <= view.scores[view.last].scored
        window = "all" if whole else view.last  # these are all there are
        return BetterGuess(baseline, window, last.model, last.guess) if stays else None
    if always and last.errors >= (-LATELY if worse else LATELY):
        return BetterGuess(baseline, "all", every.model, every.guess)
    return None


def _difference(baseline: str, scores: Scores) -> _Difference | None:
    n, tally = scores.scored, scores.tally
    if baseline != "prior":
        model, guess = scores.accuracy, scores.baselines[baseline]
        if model is None or guess is None:
            return None
        return _of(model, guess, guess - model, min(2 - model - guess, model + guess) / n)
    model, guess = scores.log_loss, scores.prior_log_loss
    if model is None or guess is None or tally is None:
        return None
    if tally.losses is None:
        return _of(model, guess, model - guess, WORST * (model + guess) / n)
    spread = float(np.var(tally.losses[0] - tally.losses[1]))
    return _of(model, guess, model - guess, spread / n)


def _of(model: float, guess: float, by: float, variance: float) -> _Difference:
    """A variance of 0 is that of equal predictions, or of a constant difference."""
    errors = by / sqrt(variance) if variance > 0 else (SURE if by > 0 else 0.0)
    return _Difference(model, guess, by, errors)
