"""Accuracy under attack, with and without trust in reporters."""

from __future__ import annotations

import numpy as np
import pytest

from stream import LogisticRegression, MultinomialNB, SpamScorer
from stream.join.reporters import ReporterRules
from tests.stream.join.attacks import Attack, accuracy, flipped, good_words

SEEDS = range(2)  # always these: the margins are means, and chance moves each
LEARNERS = {
    "fading": MultinomialNB(half_life=300.0),
    "logistic": LogisticRegression(),
    "spam": SpamScorer(),
}


def honest_only(attack: Attack) -> Attack:
    """The same messages, and no attacker."""
    return attack._replace(reports=[r for r in attack.reports if not r.who.startswith("eve")])


@pytest.mark.parametrize(
    ("attack", "learner", "margin"),
    [
        (flipped, "logistic", 0.02),
        (flipped, "spam", 0.002),
        (good_words, "logistic", 0.12),
        (good_words, "spam", 0.02),  # alone it loses little
        (good_words, "fading", 0.01),
    ],
)
def test_trust_regains_most_of_what_an_attack_costs(attack, learner, margin) -> None:
    """By a margin over labels that count alike, and at least three quarters of the loss."""
    found = []
    for seed in SEEDS:
        made, model = attack(2000, seed), LEARNERS[learner]
        without, guarded = (
            accuracy(made, model.clone(), rules) for rules in (None, ReporterRules())
        )
        found.append((accuracy(honest_only(made), model.clone(), None), without, guarded))
    calm, without, guarded = np.mean(found, axis=0)

    assert all(each[2] > each[1] for each in found)
    assert guarded - without > margin
    assert guarded - without > 0.75 * (calm - without)


@pytest.mark.parametrize("learner", LEARNERS)
def test_trust_costs_little_where_nobody_attacks(learner) -> None:
    """Lighter labels of new reporters are still labels."""
    for seed in SEEDS:
        made, model = honest_only(good_words(1500, seed)), LEARNERS[learner]
        without, guarded = (
            accuracy(made, model.clone(), rules) for rules in (None, ReporterRules())
        )
        assert guarded > without - 0.006
