"""Naive Bayes on any mix of attributes: each kind of feature has its own distribution."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar, Literal, cast

from stream.bayes.categorical import CategoricalPart
from stream.bayes.categories import Domains, check_domains
from stream.bayes.classifier import BayesClassifier, check_priors
from stream.bayes.gaussian import GaussianPart
from stream.bayes.part import Part
from stream.bayes.smoothing import Shares, check_estimate
from stream.bayes.tokens import TOKEN_ALPHA, TokenPart
from stream.data.block import Rows
from stream.data.parameters import check_half_life, mapping, names, number, one_of, shown
from stream.data.rows import conflicts
from stream.data.schema import Label
from stream.errors import InvalidRecordError, SchemaError
from stream.learner.registry import Facts, distributions, registered

__all__ = ["MixedNB"]


@registered(
    Facts(
        model="each field by its kind",
        cost="the sum of its parts",
        memory="the sum of its parts",
        missing="no evidence",
        source="Zaki and Meira 18.2, Q2",
        reads={
            "numeric": "used",
            "binary": "a category",
            "categorical": "used",
            "text": "its words",
        },
    )
)
class MixedNB(BayesClassifier):
    """Naive Bayes on numbers, categories, truth values and texts together.

    A number is normal given the class, as in `GaussianNB`; a category or truth value is counted,
    as in `CategoricalNB`; a text is its tokens, as in `MultinomialNB`. Their log likelihoods are
    added.

    Parameters
    ----------
    alpha
        Added to every count of a category. 0 is maximum likelihood: a count of 0 makes a class
        impossible.
    variance, var_smoothing
        For numbers, as in `GaussianNB`.
    priors
        Label, or its text, to prior probability. None: priors are learned.
    text
        Features whose strings are texts. Other strings are categories. (In the service, fields are
        declared.)
    domains
        Field to the values it can take, as in `CategoricalNB`. The domain of any other field is the
        values learned so far.
    half_life
        Number of records after which what was learned has half its weight. None: no fading.
    m, p, smooth
        For categories, as in `CategoricalNB`: the m-estimate instead of alpha, with the prior p;
        and ``"zeros"`` to smooth counts of 0 only.
    token_alpha
        Added to every count of a token, as in `MultinomialNB`. None: alpha, or 1 if alpha is 0,
        which was the first default.
    distributions
        Numeric field to the name of its distribution instead of the normal one. Names are those of
        `stream.learner.registry.distributions`; the learners' default parameters are used.

    Attributes
    ----------
    classes : list
        Labels in the order they were first learned.
    features : list of str
        Numbers, then categories, each in the order they were first learned.

    Raises
    ------
    SchemaError
        A parameter is out of range.
    InvalidRecordError
        By `learn_one` and the predictions: an infinite number, or a value that differs in kind
        (number, category, text) from what its field was learned with or from `text`.

    Notes
    -----
    O(C · (features + tokens)) to predict, O(features + tokens) to learn. A field keeps the kind it
    was first learned with. Source: Zaki and Meira, Data Mining and Machine Learning, chapter 18.2
    and its exercise Q2; Domingos and Pazzani 1997 on why it works although features are not
    independent.

    Examples
    --------
    >>> from stream import MixedNB
    >>> model = MixedNB(text=["body"])
    >>> model.learn_one({"body": "free money", "hops": 7.5, "signed": False}, "spam")
    >>> model.learn_one({"body": "see you at noon", "hops": 2.0, "signed": True}, "ham")
    >>> model.learn_one({"body": "noon is fine", "hops": 3.0, "signed": True}, "ham")
    >>> model.predict_one({"body": "free at noon?", "hops": 2.5, "signed": True})
    'ham'
    """

    truths: ClassVar[str] = "categorical"

    def __init__(
        self,
        alpha: float = 1.0,
        variance: Literal["ml", "sample"] = "ml",
        var_smoothing: float = 1e-9,
        priors: Mapping[Label, float] | None = None,
        text: Sequence[str] = (),
        domains: Domains = None,
        half_life: float | None = None,
        m: float | None = None,
        p: Shares = None,
        smooth: Literal["all", "zeros"] = "all",
        token_alpha: float | None = TOKEN_ALPHA,
        distributions: Mapping[str, str] | None = None,
    ) -> None:
        self.variance = one_of("variance", variance, ("ml", "sample"))
        self.var_smoothing = number("var_smoothing", var_smoothing, 0.0)
        self.priors = check_priors(priors)
        self.text = names("text", text)  # a tuple without entries cannot be cloned by river
        self.domains = check_domains(domains)
        self.alpha, self.m, self.p, self.smooth = check_estimate(alpha, m, p, smooth, self.domains)
        self.half_life = check_half_life(half_life)
        self.token_alpha = None if token_alpha is None else number("token_alpha", token_alpha, 0.0)
        self.distributions = _check_distributions(distributions)
        self._begin()

    @property
    def _texts(self) -> Collection[str]:
        return self.text

    def _new_parts(self) -> tuple[Part, ...]:
        self._gaussian = GaussianPart(float(self.variance == "sample"), self.var_smoothing)
        estimate = (self.alpha, self.m, self.p, self.smooth)
        self._categorical = CategoricalPart(*estimate, self.domains)
        tokens = (self.alpha or 1.0) if self.token_alpha is None else self.token_alpha
        self._tokens = TokenPart(tokens, numbers=False)
        others = tuple(self._others())
        self._gaussian.never = frozenset(self.distributions or ())
        return (self._gaussian, *others, self._categorical, self._tokens)

    def _others(self) -> Iterator[Part]:
        """One part for each distribution, with its fields."""
        given = self.distributions or {}
        for distribution in sorted(set(given.values())):
            kind = cast("type[BayesClassifier]", distributions()[distribution])
            part = kind.number_part()
            part.only = frozenset(name for name, named in given.items() if named == distribution)
            yield part

    def refusals(self, rows: Rows) -> dict[int, InvalidRecordError]:
        """Rows with a value that differs in kind from what its field was learned with, or
        declared."""
        return super().refusals(rows) | conflicts(rows, **self._fields())

    def _fields(self) -> dict[str, Collection[str]]:
        numbers, categories = self._gaussian.features, self._categorical.features
        numbers += list(self.distributions or ())
        texts = {*self._tokens.texts.known, *self.text}
        return {"numeric": set(numbers), "categorical": set(categories), "text": texts}


def _check_distributions(given: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """`given`, if it maps names of fields to names of distributions; None if it is empty."""
    if given is None:
        return None
    checked = mapping("distributions", given, "field to the name of a distribution")
    if not all(isinstance(name, str) for name in checked):
        raise SchemaError(f"distributions must name fields by text, got {shown(given)}")
    known = distributions()
    return {k: one_of(f"distributions[{shown(k)}]", v, known) for k, v in checked.items()} or None
