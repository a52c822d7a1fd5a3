"""Complement naive Bayes: a token speaks against the classes whose complement it is common in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from stream.bayes._kernels import multinomial as kernels
from stream.bayes.classifier import check_half_life
from stream.bayes.multinomial import TokenClassifier
from stream.bayes.tokens import Vocabularies
from stream.data.block import Floats
from stream.data.parameters import flag, number, one_of, whole
from stream.learner.registry import Facts, registered
from stream.text import BUCKETS

__all__ = ["ComplementNB"]


@registered(
    Facts(
        model="counts and texts, from the counts of all other classes",
        cost="C·tokens; tokens",
        memory="8 bytes × tokens × C",
        missing="no evidence",
        source="Rennie et al. 2003",
        reads={"numeric": "a count; below 0 refused", "binary": "a count", "text": "its words"},
    )
)
class ComplementNB(TokenClassifier):
    """Complement naive Bayes over text and token counts, for classes of very different sizes.

    Records are what they are for `MultinomialNB`.

    Parameters
    ----------
    alpha
        Added to every count of a complement. Greater than 0.
    norm
        Whether a class's weights are divided by their sum over all tokens.
    vocabulary, max_tokens, half_life
        As of `MultinomialNB`.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    features : list of str
        The tokens of an exact vocabulary, sorted; empty where they are hashed.
    n_tokens : int
        Distinct tokens (buckets) learned so far, over all classes.

    Raises
    ------
    SchemaError
        A parameter out of its range.
    InvalidRecordError
        From `learn_one` and the predictions: a negative count, an infinity, a number beyond
        1e100, a text in a field of counts or the other way round.

    Notes
    -----
    The weight of a token for a class is -log((N_b - N_cb + alpha) / (N - N_c + alpha · d)), where
    N_b and N are the counts of all classes, N_cb and N_c those of the class and d the number of
    tokens learned so far. Source: Rennie, Shih, Teevan and Karger 2003, sections 3.1 and 3.2; as
    in scikit-learn, the counts are taken as they are, without tf-idf and length normalisation.

    `joint_log_likelihood_one` is the sum of the record's weights, and the posterior its softmax:
    a score made to look like one, not a likelihood. The prior takes no part, so a record without
    evidence is even; its name in explanations is there with 0. scikit-learn adds the log prior
    where there is one class only; that of one class is 0.

    O(C · tokens) to predict, O(tokens) to learn; with `norm`, O(C · d) for a prediction that
    follows learning. Memory as of `MultinomialNB`.

    Examples
    --------
    >>> from stream import ComplementNB
    >>> model = ComplementNB()
    >>> model.learn_one({"text": "Free money, call now"}, "spam")
    >>> model.learn_one({"text": "Are you home now?"}, "ham")
    >>> model.predict_one({"text": "FREE call"})
    'spam'
    """

    def __init__(
        self,
        alpha: float = 1.0,
        norm: bool = False,
        vocabulary: Vocabularies = "hashed",
        max_tokens: int = BUCKETS,
        half_life: float | None = None,
    ) -> None:
        self.alpha = number("alpha", alpha, 0.0, above=True)
        self.norm = flag("norm", norm)
        self.vocabulary = one_of("vocabulary", vocabulary, get_args(Vocabularies))
        self.max_tokens = whole("max_tokens", max_tokens, 1, BUCKETS)
        self.half_life = check_half_life(half_life)
        self._begin()

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """Laws that say nothing of this learner, and why."""
        why = "its scores are no likelihoods"
        return {**super().not_applicable, "the_evidence_normalises_the_joint_likelihood": why}

    def log_evidence_one(self, x: Mapping[Any, Any]) -> float:
        """Not of this learner: its scores are no likelihoods, so they have no evidence."""
        raise self._lacks("an evidence")

    @property
    def _rule(self) -> int:
        return kernels.NORMALISED if self.norm else kernels.COMPLEMENT

    def _given(self) -> Floats:
        """No class is preferred."""
        return np.zeros(len(self._classes))
