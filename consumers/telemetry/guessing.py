"""Says in one sentence that a model is worse than guessing, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from consumers.shard.views import ShardView
from stream.evaluate.guessing import GUESSES, BetterGuess, GuessWatch
from stream.evaluate.quality import window_title

__all__ = ["CHECKS", "GUESSES", "GuessMonitor", "finding", "sentence"]

BEST = "Mixture"  # its experts include the guesses, in a journal of any version
LIKE_IT = (BEST, "auto", "Calibrated")
CHECKS = (
    "check that each label has the id of its observation, how late labels come, and that each "
    "field is known before its label"
)
WHAT = {
    "majority": "always predicting the most frequent label",
    "no_change": "always predicting the last label (no-change)",
    "prior": "the shares of the labels (prior)",
}


class GuessMonitor:
    """Compares the models of a shard with guessing, after each commit."""

    def __init__(self) -> None:
        self._watches: dict[str, GuessWatch] = {}

    def looked(self, view: ShardView, *, now: bool = False) -> ShardView:
        """The view with its `guesses`. `now`: also if there are few new labels."""
        models = {view.champion[0]: view.quality}
        models |= {challenger.name: challenger.quality for challenger in view.challengers}
        self._watches = {name: self._watches.get(name) or GuessWatch() for name in models}
        found = {name: self._watches[name].look(models[name], now=now) for name in models}
        return replace(view, guesses=found)


def sentence(view: ShardView) -> str | None:
    """That the champion is worse than guessing, and what to try; None if it is not."""
    name, model = view.champion
    found = finding(model, view.worse_than_guessing(name))
    return None if found is None else f"{found}; {_advice(view)}"


def finding(model: str, guesses: Sequence[BetterGuess]) -> str | None:
    """That a model is worse than guessing; None without guesses that are better.

    Of several guesses the one that is right most often; that of probabilities only if no other is
    better than the model.
    """
    if not guesses:
        return None
    right = [guess for guess in guesses if guess.score == "accuracy"]
    guess = max(right or guesses, key=lambda each: each.guess)
    over = "all" if guess.window == "all" else f"the {window_title(guess.window)}"
    what = WHAT[guess.baseline]
    if guess.score == "accuracy":
        return (
            f"{model} is worse than guessing: {guess.model:.1%} of {over} predictions are right, "
            f"and {what} is right in {guess.guess:.1%}"
        )
    return (
        f"the probabilities of {model} are worse than guessing: their log loss over {over} "
        f"predictions is {guess.model:.3f}, and that of {what} is {guess.guess:.3f}"
    )


def _advice(view: ShardView) -> str:
    if view.champion[1] in LIKE_IT:
        return CHECKS
    for challenger in view.challengers:
        if challenger.type in LIKE_IT:
            return f"compare it with the challenger {challenger.name}, and promote the better one"
    return f'try a [[challenger]] with type = "{BEST}", which includes the guesses'
