"""What is wrong with a model or its labels, as sentences with what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from consumers.shard.views import ShardView
from stream.data.schema import Label
from stream.evaluate.guessing import GUESSES, BetterGuess, GuessWatch
from stream.evaluate.quality import window_title

__all__ = [
    "BOUNDS",
    "CHECKS",
    "ENOUGH",
    "GUESSES",
    "GuessMonitor",
    "explained",
    "finding",
    "only_one_class",
    "only_one_scored",
    "sentence",
    "unmet_labels",
]


BEST = "Mixture"  # its experts include the guesses, in a journal of any version
LIKE_IT = (BEST, "auto", "Calibrated")
CHECKS = (
    "check that each label has the id of its observation, how late labels come, and that each "
    "field is known before its label"
)
FEWEST_LABELS = 100  # fewer labels that find no observation are not reported
GONE = {"expired": "[labels] horizon", "evicted": "[labels] max_pending"}
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


ENOUGH = 100  # labels: an even rarer class comes by chance only after more of them


def only_one_class(view: ShardView) -> str | None:
    """That all labels so far are equal, and what to do; None if not, or if they are few.

    Nothing else shows it: if users report one class only, such as spam, every prediction is that
    class, every label agrees with it, and the accuracy is 100 %.
    """
    classes = view.quality.classes
    if len(classes) != 1 or view.learned < ENOUGH:
        return None
    return (
        f"only one class was ever labelled: all {view.learned:,} labels so far are {classes[0]!r}, "
        "so every prediction is that class; send labels of the other classes too, or set [labels] "
        "silence if users report one class only"
    )


def only_one_scored(
    labels: Mapping[str, int], classes: Sequence[Label], confusion: Sequence[Sequence[int]]
) -> str | None:
    """That silence was learned and every scored label is of one class; None if not.

    The accuracy is then the recall of this class, which is low although the model may be good, and
    always predicting this class has an accuracy of 100 %.

    Parameters
    ----------
    labels
        The number of labels by outcome.
    confusion
        Its rows are the true classes.

    Examples
    --------
    >>> only_one_scored({"silence": 9}, ["spam", "ham"], [[3, 1], [0, 0]])
    "only labels 'spam' are scored, because silence is not: the accuracy is their recall"
    >>> only_one_scored({"silence": 9}, ["spam", "ham"], [[3, 1], [0, 1]])
    """
    scored = [label for label, row in zip(classes, confusion, strict=False) if sum(row)]
    if len(scored) != 1 or not labels.get("silence"):
        return None
    return (
        f"only labels {scored[0]!r} are scored, because silence is not: the accuracy is their "
        "recall"
    )


_ROOM = "remove a field whose values hardly ever repeat, or raise [model] max_state_bytes"

BOUNDS = {
    "classes": "labels of further classes, not learned: raise [model] max_classes",
    "keys": "records of keys without a model of their own, learned for all keys together: lower "
    "[model] max_classes to the number of labels, or raise max_state_bytes or max_keys",
    "entries": f"categories that a key had no room for, learned for all keys together: {_ROOM}",
    "labels": "labels of further classes, not learned: raise [model] max_classes",
    "features": f"features for which the model had no room, not learned: {_ROOM}",
    "fields": f"fields of text for which the model had no room, not learned: {_ROOM}",
    "values": f"categories for which the model had no room, not learned: {_ROOM}",
    "indicators": "categories, words, or pairs of values that were new when the table of weights "
    f"was full; they are no evidence: {_ROOM}",
    "cells": f"combinations of values for which the table had no room, not learned: {_ROOM}",
    "gaussians": f"combinations of categories without a Gaussian of their own: {_ROOM}",
    "nodes": "tests of a decision tree for which it had no room, left out: raise [model] max_nodes "
    "or max_state_bytes",
    "tokens": "texts with too many words; the rest of each was not read: shorten them",
    "vocabulary": "words beyond the largest vocabulary, which are no evidence: vocabulary = "
    '"hashed" has no such bound',
    "incomplete": "records without one of the numeric fields, whose covariances were not learned: "
    "another model uses the other fields",
    "binned_features": f"numbers for which there were no bins, left out: {_ROOM}",
    "binned_classes": "classes that were not used to choose bins",
    "reporters": "reporters that were forgotten because there are too many: raise [reporters] "
    "max_reporters",
    "scored_keys": "keys whose scores were removed because too many keys have one: their "
    "records count in all other scores",
    "schemas": "schemas that newer ones replaced, which are asked for again",
    "weights": "weights of labels that this model of river ignores",
}


def explained(bound: str) -> str:
    """What was beyond a bound, and what to do; empty for one that has no sentence.

    Examples
    --------
    >>> explained("classes")
    'labels of further classes, not learned: raise [model] max_classes'
    >>> explained("learn_failures")
    'records at which a model of river failed, left out by it'
    """
    if bound.endswith("_failures"):
        return "records at which a model of river failed, left out by it"
    return BOUNDS.get(bound, "")


def unmet_labels(view: ShardView, least: int = FEWEST_LABELS) -> str | None:
    """That most labels find no observation, and what to do; None if not, or if they are few.

    Nothing else shows that labels are later than the horizon: the observations have expired, their
    ids are forgotten, and such a label waits for an observation that never comes.

    Parameters
    ----------
    least
        Fewer labels are not reported.
    """
    counts = view.labels
    unmet = view.early + sum(counts.get(k, 0) for k in ("early_expired", "early_evicted", "late"))
    labels = unmet + counts.get("joined", 0)
    if labels < least or 2 * unmet <= labels:
        return None
    found = f"{unmet:,} of {labels:,} labels have found no observation of their id"
    why, gone = max(((key, counts.get(key, 0)) for key in GONE), key=lambda pair: pair[1])
    if not gone:
        return (
            f"{found} in shard {view.shard}: do both topics use the same ids, and with several "
            "shards the same keys? `headwater check` compares them"
        )
    return (
        f"{found}, and {gone:,} observations {why} before their label came ({GONE[why]}): "
        "`headwater check` measures how late labels are, and `headwater relearn` learns them "
        f"with a larger {GONE[why].rpartition(' ')[2]}"
    )
