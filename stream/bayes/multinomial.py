"""Multinomial naive Bayes: tokens are drawn independently from a distribution of the class.

Complement naive Bayes: a token that is common in the other classes is evidence against a
class.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, get_args

import numpy as np
from river.base import tags

from stream.bayes._kernels import multinomial as kernels
from stream.bayes._kernels import prior as prior_kernels
from stream.bayes.classifier import BayesClassifier, check_priors
from stream.bayes.part import Part, Steps
from stream.bayes.tokens import TOKEN_ALPHA, TokenPart, Vocabularies
from stream.data.block import LEARN, PREDICT, Floats, Rows
from stream.data.parameters import check_half_life, flag, number, one_of, whole
from stream.data.rows import conflicts
from stream.data.schema import Kind, Label
from stream.errors import InvalidRecordError
from stream.kernel.interrupts import uninterrupted
from stream.learner.predictions import LinearView
from stream.learner.registry import Facts, registered
from stream.text import BUCKETS

__all__ = ["ComplementNB", "MultinomialNB", "TokenClassifier", "TokenPart"]

# One step on row 0 with weight 1. Kernels only read them.
OPS = {op: np.array([op], dtype=np.int8) for op in (PREDICT, LEARN)}
ROW, ONE = np.zeros(1, dtype=np.int64), np.ones(1)


class TokenClassifier(BayesClassifier, abc.ABC):
    """Shared by the classifiers of token counts: one part of tokens, and names for them."""

    strings: ClassVar[str] = "text"
    kinds: ClassVar[frozenset[Kind]] = frozenset(("numeric", "binary", "text"))
    bytes_per_class: ClassVar[int] = 8 * BUCKETS
    alpha: float
    vocabulary: Vocabularies
    max_tokens: int

    @property
    @abc.abstractmethod
    def _rule(self) -> int:
        """How a token is scored from its counts: a constant of the kernels."""

    def _more_tags(self) -> set[str]:
        return {tags.POSITIVE_INPUT}

    def _new_parts(self) -> tuple[Part, ...]:
        self._tokens = TokenPart(
            self.alpha,
            vocabulary=self.vocabulary,
            max_tokens=self.max_tokens,
            rule=self._rule,
        )
        return (self._tokens,)

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows with a text in a field of counts, or a count in a field of texts."""
        return super().refusals(rows) | conflicts(rows, **self._fields())

    def _fields(self) -> dict[str, Collection[str]]:
        return {"numeric": self._tokens.counted.known, "text": self._tokens.texts.known}

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """See `Learner.learn_one`. A record of one text is learned without a block."""
        plain = type(y) is str and type(w) in (float, int) and w == 1
        code = self._classes.codes.get(y) if plain else None
        found = None if code is None or self._declared else self._tokens.text_alone(x)
        if code is None or found is None:
            super().learn_one(x, y, w)
        else:
            with uninterrupted(), self._turns.learning:
                self._execute_alone(LEARN, code, *found)

    def predict_proba_one(self, x: Mapping[Any, Any], **_: Any) -> dict[Label, float]:
        """See `Learner.predict_proba_one`. A record of one text is predicted without a block."""
        found = None if self._declared else self._tokens.text_alone(x)
        if found is None:
            return super().predict_proba_one(x)
        with self._turns.predicting:
            return dict(zip(self.classes, self._execute_alone(PREDICT, -1, *found), strict=True))

    def _execute_alone(self, op: int, code: int, name: str, text: str) -> list[float]:
        """`_execute` of one step on a record of one text, without a block; its posterior, empty if
        it only learns. The class `code` is known."""
        classes = len(self._classes)
        self._widen(classes)
        predictions = 0 if op == LEARN else 1
        proba, seen = np.zeros((predictions, classes)), np.zeros(predictions, dtype=np.int64)
        steps = Steps(OPS[op], ROW, np.array([code]), ONE, classes, self._growth)
        op_y_w = steps.op, steps.y, steps.w
        given = self._given(), *self._prior
        prior_kernels.progressive(*op_y_w, classes, steps.growth, *given, proba, seen)
        prior = proba.copy()
        self._tokens.execute_alone(name, text, steps, classes, proba)
        if not predictions:
            return []
        prior_kernels.normalise(proba, prior, seen)
        made: list[float] = proba[0].tolist()
        return made

    @property
    def n_tokens(self) -> int:
        return int(self._tokens.counts.size[0])

    def counts(self, token: str) -> dict[Label, float]:
        """How often each class had `token` (or another token of its bucket); empty if no class had
        it."""
        s = self._tokens.counts
        at = self._tokens.slot(token)
        if not at:
            return {}
        count = s.counts[at - 1, : s.total.size] / s.unit[0]
        return dict(zip(self.classes, count.tolist(), strict=True))

    def linear_view(self, label: Label | None = None, against: Label | None = None) -> LinearView:
        """The log-odds of two classes as a linear function of token counts; O(C · learned tokens).

        Parameters
        ----------
        label, against
            Two known classes. By default the first two that were learned.

        Raises
        ------
        NotLearnedError
            Fewer than two classes are known, or a given class is not known.

        Notes
        -----
        With a hashed vocabulary the names are like "bucket 967112", and
        ``stream.text.bucket(token)`` gives the number of a token. With an exact vocabulary the
        names are the tokens. With alpha = 0, a token that makes a class impossible has the weight
        -1e300 for it.
        """
        a, b = self._compared(label, against, None)
        classes = len(self.classes)
        return self._linear(a, b, [(np.zeros(classes), self._tokens.weights(classes))])


@registered(
    Facts(
        model="counts and texts",
        cost="C·tokens; tokens",
        memory="8 bytes × tokens × C",
        missing="no evidence",
        source="Manning et al. 13.2",
        reads={"numeric": "a count; below 0 refused", "binary": "a count", "text": "its words"},
    )
)
class MultinomialNB(TokenClassifier):
    """Multinomial naive Bayes over text and token counts, one record at a time.

    A text is a sequence of tokens. A number is a count of the token with the feature's name, so
    ``{"text": "free money"}`` and ``{"free": 1, "money": 1}`` are the same record. Categorical
    features are ignored.

    Parameters
    ----------
    alpha
        Added to every count (Laplace: 1, Lidstone: less). 0 is maximum likelihood: a known token
        that a class never had makes that class impossible. The default was measured. With 1, each
        class gets one pseudo-count for every token of all classes. With many classes or few texts,
        these outweigh the real counts.
    vocabulary
        ``"hashed"``: a token becomes one of 2**20 buckets; two tokens rarely share one.
        ``"exact"``: tokens are kept by name, and explanations and the linear view show the names;
        texts take about six times as long.
    max_tokens
        The size of an exact vocabulary, at most 2**20. More tokens are not evidence. `overflows`
        counts them, once for each learned record. Unlearning a record subtracts its unknown tokens.
        The count is exact if records are unlearned newest first. In another order, or after a merge
        that rejected tokens, it is an approximation.
    priors
        Label, or its text ("true", "1"), to prior probability. A class without an entry has prior
        0. None: priors are learned.
    half_life
        Number of records after which what was learned has half its weight. None: no fading.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    features : list of str
        The tokens of an exact vocabulary, sorted. Empty if tokens are hashed, because their names
        are not kept.
    n_tokens : int
        Number of distinct tokens (buckets) learned so far, over all classes.
    bytes_per_class : int
        The most memory that another class can need.

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: a negative count, an infinite number, a number beyond
        1e100, a text in a field of counts or a count in a field of texts.

    Notes
    -----
    P(token | class) = (N_cb + alpha) / (N_c + alpha · d), where N_cb is the count of the token's
    bucket in the class, N_c is the class's sum over buckets and d is the number of buckets learned
    so far. Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval, chapter
    13.2; Weinberger et al. 2009 for hashing.

    With alpha = 0, the counts over all classes are used for a class without tokens. A joint log
    likelihood of -inf is a probability of 0. If it is -inf for all classes, the posterior is the
    prior.

    The multinomial coefficient is left out, because it is the same for all classes;
    `log_evidence_one` can have it.

    A token that was never learned is not evidence, because the estimate covers only the d tokens of
    the vocabulary. (A probability of alpha / (N_c + alpha · d) for it would make each new word an
    argument for the class with fewer tokens; the accuracy on SMS spam falls from 98.55 to 97.77 %.)
    A count of 0 is not evidence either.

    O(C · tokens) to predict, O(tokens) to learn. Memory: 4 MiB, plus 8 bytes for each pair of class
    and learned bucket. There are at most 2**20 buckets, see `bytes_per_class`. A text has at most
    100,000 tokens; `overflows["tokens"]` counts the learned texts that were truncated.

    Examples
    --------
    >>> from stream import MultinomialNB
    >>> model = MultinomialNB()
    >>> model.learn_one({"text": "Free money, call now"}, "spam")
    >>> model.learn_one({"text": "Are you home now?"}, "ham")
    >>> model.predict_one({"text": "FREE call"})
    'spam'
    >>> model.predict_proba_one({"home": 1}) == model.predict_proba_one({"text": "home"})
    True
    >>> sorted(model.explain_one({"text": "Call home!"}).contributions)
    ['(prior)', 'call', 'home']
    """

    def __init__(
        self,
        alpha: float = TOKEN_ALPHA,
        vocabulary: Vocabularies = "hashed",
        max_tokens: int = BUCKETS,
        priors: Mapping[Label, float] | None = None,
        half_life: float | None = None,
    ) -> None:
        self.alpha = number("alpha", alpha, 0.0)
        self.vocabulary = one_of("vocabulary", vocabulary, get_args(Vocabularies))
        self.max_tokens = whole("max_tokens", max_tokens, 1, BUCKETS)
        self.priors = check_priors(priors)
        self.half_life = check_half_life(half_life)
        self._begin()

    def log_evidence_one(self, x: Mapping[Any, Any], coefficient: bool = False) -> float:
        """log p(x) = log Σ P(class) · p(x | class): how likely its tokens are in this order.

        Parameters
        ----------
        coefficient
            Whether the tokens are in any order: p(x) then has the multinomial coefficient
            m! / ∏ x!, for m learned tokens of which each one occurs x times.

        Raises
        ------
        NotLearnedError
            No class is known.

        Examples
        --------
        >>> import math
        >>> from stream import MultinomialNB
        >>> model = MultinomialNB(alpha=0)
        >>> model.learn_one({"text": "a a b b"}, "one")
        >>> given = {"text": "a b"}
        >>> round(math.exp(model.log_evidence_one(given)), 4)
        0.25
        >>> round(math.exp(model.log_evidence_one(given, coefficient=True)), 4)
        0.5
        """
        found = super().log_evidence_one(x)
        if flag("coefficient", coefficient):
            found += self._tokens.log_coefficient(self.columns([x]))
        return found

    @property
    def _rule(self) -> int:
        return kernels.MULTINOMIAL


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
