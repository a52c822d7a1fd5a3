"""Complement naive Bayes: a token that is common in the other classes is evidence against a
class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from stream.bayes._kernels import multinomial as kernels
from stream.bayes.multinomial import TokenClassifier
from stream.bayes.tokens import Vocabularies
from stream.data.block import Floats
from stream.data.parameters import check_half_life, flag, number, one_of, whole
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

    Records are read as by `MultinomialNB`.

    Parameters
    ----------
    alpha
        Added to every count of a complement. Greater than 0.
    norm
        Whether a class's weights are divided by their sum over all tokens.
    vocabulary, max_tokens, half_life
        As for `MultinomialNB`.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    features : list of str
        The tokens of an exact vocabulary, sorted. Empty if tokens are hashed.
    n_tokens : int
        Number of distinct tokens (buckets) learned so far, over all classes.

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: a negative count, an infinite number, a number beyond
        1e100, a text in a field of counts or a count in a field of texts.

    Notes
    -----
    The weight of a token for a class is -log((N_b - N_cb + alpha) / (N - N_c + alpha · d)), where
    N_b and N are the counts of all classes, N_cb and N_c are those of the class, and d is the
    number of tokens learned so far. Source: Rennie, Shih, Teevan and Karger 2003, sections 3.1 and
    3.2; as in scikit-learn, the plain counts are used, without tf-idf and length normalisation.

    `joint_log_likelihood_one` is the sum of the record's weights, and the posterior is its softmax.
    This sum is a score, not a likelihood. The prior is not used, so without evidence all classes
    have the same probability. Explanations show the prior with 0. scikit-learn adds the log prior
    if there is only one class, and that is 0.

    O(C · tokens) to predict, O(tokens) to learn; with `norm`, O(C · d) for the first prediction
    after learning. Memory: as for `MultinomialNB`.

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
        """Laws that do not apply to this learner, with the reason."""
        why = "its scores are not likelihoods"
        return {**super().not_applicable, "the_evidence_normalises_the_joint_likelihood": why}

    def log_evidence_one(self, x: Mapping[Any, Any]) -> float:
        """Not supported: the scores are not likelihoods, so there is no evidence."""
        raise self._lacks("evidence")

    @property
    def _rule(self) -> int:
        return kernels.NORMALISED if self.norm else kernels.COMPLEMENT

    def _given(self) -> Floats:
        """Log priors of 0, because no class is preferred."""
        return np.zeros(len(self._classes))
