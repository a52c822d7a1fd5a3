"""The learners of a mixture for which none are given, by name, so that no learner is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["EXPERTS", "MOST_FIELDS", "OF_TEXTS", "STACKED"]

# One for independent fields, one for any log-odds, one for few records, one for changes, one for
# any shape, and one for what two fields show only together, of which there are at most 120 pairs of
# 12² bins.
EXPERTS: tuple[Mapping[str, Any], ...] = (
    {"type": "Calibrated", "learner": "MixedNB"},
    {"type": "LogisticRegression", "n_bins": 16},
    {"type": "LogisticRegression", "learning_rate": 0.05},
    {"type": "LogisticRegression", "learning_rate": 1.0, "half_life": 300.0},
    {"type": "Calibrated", "learner": "KNNClassifier"},
    {"type": "LogisticRegression", "n_bins": 12, "pairs": True},
)
# With a stack, which corrects what it uses. But the slow one is so much less sure than it is right
# that without a correction it would have no weight, and the plain one is best where a line moves.
# How often the label stays the same may change, and then the guess by all labels is unsure. A tree
# has rules of any number of fields (docs/decisions/auto.md#a-tree-is-the-eighth-learner).
SLOW = {"type": "LogisticRegression", "learning_rate": 0.05}
STACKED: tuple[Mapping[str, Any], ...] = (
    {"type": "NoChange", "half_life": 20.0},
    {"type": "MixedNB"},
    {"type": "LogisticRegression", "n_bins": 16},
    {"type": "Calibrated", "learner": SLOW},
    {"type": "LogisticRegression", "learning_rate": 1.0, "half_life": 300.0},
    {"type": "Calibrated", "learner": "LogisticRegression"},
    {"type": "KNNClassifier"},
    {"type": "LogisticRegression", "n_bins": 12, "pairs": True},
    {"type": "DecisionTreeClassifier"},
)
MOST_FIELDS = 64  # of a `TargetEncoded`
OF_TEXTS = 5  # the first of these: the next is the second one without numbers, and others read none
