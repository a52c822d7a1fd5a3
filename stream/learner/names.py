"""The included learners by name, so that a configuration is checked without loading one.

Rule: a name stands here once, under its room. The room registers the learner with the same name
when it is imported (`stream.learner.registry`).
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ROOMS", "learner_names"]

# Room of `stream` to its learners.
ROOMS: Mapping[str, tuple[str, ...]] = {
    "bayes": (
        "BernoulliNB",
        "CategoricalBayes",
        "CategoricalNB",
        "ComplementNB",
        "GaussianBayes",
        "GaussianNB",
        "MixedBayes",
        "MixedNB",
        "MultinomialNB",
        "PoissonNB",
    ),
    "keyed": ("PerKeyNB",),
    "linear": ("LogisticRegression", "SpamScorer"),
    "mixture": ("Calibrated", "Mixture", "TargetEncoded"),
    "neighbors": ("KNNClassifier",),
    "tree": ("DecisionTreeClassifier",),
}


def learner_names() -> list[str]:
    """The names of all learners, sorted.

    Examples
    --------
    >>> learner_names()[0], len(learner_names())
    ('BernoulliNB', 18)
    """
    return sorted(name for names in ROOMS.values() for name in names)
