"""The sentence that a model is worse than guessing, and where it is said."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from consumers.shard.views import Committed, ShardView
from consumers.telemetry.advice import GuessMonitor, sentence
from consumers.telemetry.event_logger import EventLogger
from stream.evaluate.guessing import BetterGuess
from tests.stream.evaluate.test_guessing import Stream
from tests.telemetry.test_prometheus import telemetry
from tests.telemetry.views import challenger, view

NO_CHANGE = BetterGuess("no_change", "last_1000", 0.738, 0.853)
PRIOR = BetterGuess("prior", "all", 1.151, 0.6811)
TRY = 'try a [[challenger]] with type = "Mixture", which includes the guesses'


def worse(*guesses: BetterGuess, **changed) -> ShardView:
    """A view whose champion, a GaussianNB named mail, is worse than these."""
    return replace(view(**changed), guesses={"mail": guesses})


def commit() -> Committed:
    """A commit without events."""
    return Committed(10, 10, 10, {}, {}, 0.1, 3)


def test_model_that_is_not_worse_has_no_sentence() -> None:
    """Also where nothing was compared."""
    assert sentence(view()) is None
    assert sentence(worse()) is None


@pytest.mark.parametrize(
    ("guesses", "expected"),
    [
        (
            [NO_CHANGE],
            "GaussianNB is worse than guessing: 73.8% of the last 1,000 predictions are right, and "
            "always predicting the last label (no-change) is right in 85.3%; " + TRY,
        ),
        (
            [PRIOR],
            "the probabilities of GaussianNB are worse than guessing: their log loss over all "
            "predictions is 1.151, and that of the shares of the labels (prior) is 0.681; " + TRY,
        ),
        (
            [BetterGuess("majority", "last_1000", 0.5, 0.9), NO_CHANGE, PRIOR],
            "GaussianNB is worse than guessing: 50.0% of the last 1,000 predictions are right, and "
            "always predicting the most frequent label is right in 90.0%; " + TRY,
        ),
    ],
)
def test_sentence_has_the_scores_of_both_and_what_to_try(guesses, expected) -> None:
    """The best guess; that of probabilities only if no other is better than the model."""
    assert sentence(worse(*guesses)) == expected


def test_advice_fits_what_is_there() -> None:
    """A mixture beside the champion, or as the champion, is not advised again."""
    beside = worse(NO_CHANGE, challengers=[challenger("mix", type="Mixture")])
    itself = worse(NO_CHANGE, champion=("mail", "Mixture"))

    assert sentence(beside).endswith(
        "; compare it with the challenger mix, and promote the better one"
    )
    assert "check that each label has the id of its observation" in sentence(itself)


def test_log_says_it_once_and_when_it_is_over(caplog) -> None:
    """Not with each commit; again for another champion, and at the end."""
    caplog.set_level(logging.INFO, logger="headwater")
    event_logger = EventLogger(lambda: 0.0)
    other = replace(worse(champion=("tree", "HAT")), guesses={"tree": [NO_CHANGE]})

    for after in (view(), worse(NO_CHANGE), worse(NO_CHANGE, PRIOR), view(), view(), other):
        event_logger.committed(commit(), after)
    event_logger.ended("drained", 3, other)

    said = [message for message in caplog.messages if "worse than guessing" in message]
    assert said == [
        sentence(worse(NO_CHANGE)),
        "GaussianNB is no longer worse than guessing",
        sentence(other),
        sentence(other),
    ]


def test_every_model_has_a_series_for_each_guess() -> None:
    """1 where it is worse; of challengers too."""
    better = BetterGuess("majority", "all", 0.5, 0.6)
    guesses = {"mail": [NO_CHANGE, PRIOR], "tree": [better]}
    _, registry = telemetry(replace(view(challengers=[challenger()]), guesses=guesses))

    found = {
        (model, baseline): registry.get_sample_value(
            "headwater_worse_than_guessing", {"shard": "0", "model": model, "baseline": baseline}
        )
        for model in ("mail", "tree")
        for baseline in ("majority", "no_change", "prior")
    }

    assert [key for key, value in found.items() if value] == [
        ("mail", "no_change"),
        ("mail", "prior"),
        ("tree", "majority"),
    ]
    assert set(found.values()) == {0.0, 1.0}


def test_monitor_compares_champion_and_challengers() -> None:
    """Each by its own scores; a removed one is forgotten."""
    monitor = GuessMonitor()
    bad = Stream(1).score(2000, 0.74, no_change=0.85)
    good = Stream(2).score(2000, 0.9, no_change=0.85)

    both = monitor.looked(view(quality=good, challengers=[challenger(quality=bad)]))
    alone = monitor.looked(view(quality=bad))

    assert [g.baseline for g in both.worse_than_guessing("tree")] == ["no_change"]
    assert both.worse_than_guessing("mail") == ()
    assert sentence(alone) is None  # there are no new labels since the last look
    assert sentence(monitor.looked(view(quality=bad), now=True)) is not None
    assert alone.worse_than_guessing("tree") == ()
