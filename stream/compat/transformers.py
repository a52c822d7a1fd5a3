"""Transformers of river for records in which a field may be missing, and a classifier of river that
knows two classes, once for each class.

Rule: each transformer is the class of river with the same name, except for a field that the record
does not have. river raises a KeyError there, and the whole record would not be learned.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Iterable
from typing import Any, cast

from river import base, compose, feature_extraction, multiclass

__all__ = ["TFIDF", "BagOfWords", "OneVsRest", "Select", "one_vs_rest"]


class Select(compose.Select):
    """Keep some fields, of those that the record has.

    Parameters
    ----------
    keys
        Names of the fields.

    Notes
    -----
    The fields keep their order. river's class returns them in the order of a set, which differs
    from process to process, and with it the last bits of a sum over the fields.

    Examples
    --------
    >>> Select("amount", "age", "country").transform_one({"amount": 5.0, "id": 7, "country": "FR"})
    {'amount': 5.0, 'country': 'FR'}
    """

    def transform_one(self, x: dict[Hashable, Any]) -> dict[Hashable, Any]:
        return {name: value for name, value in x.items() if name in self.keys}


class BagOfWords(feature_extraction.BagOfWords):
    """Count the tokens of a text; see river's `feature_extraction.BagOfWords` for its parameters.

    Examples
    --------
    >>> words = BagOfWords(on="body")
    >>> words.transform_one({"body": "Buy now, buy here"}), words.transform_one({})
    ({'buy': 2, 'now': 1, 'here': 1}, {})
    """

    def process_text(self, x: Any) -> Iterable[Any]:
        found: Iterable[Any] = super().process_text(x) if _has_text(self.on, x) else ()  # type: ignore[no-untyped-call]
        return found


class TFIDF(feature_extraction.TFIDF):
    """Weigh tokens by how rare they are; see river's `feature_extraction.TFIDF`.

    A record without the text is not counted as a document.

    Examples
    --------
    >>> words = TFIDF(on="body", normalize=False)
    >>> words.learn_one({"body": "buy now"})
    >>> words.learn_one({})
    >>> words.n, words.transform_one({})
    (1, {})
    """

    def process_text(self, x: Any) -> Iterable[Any]:
        found: Iterable[Any] = super().process_text(x) if _has_text(self.on, x) else ()  # type: ignore[no-untyped-call]
        return found

    def learn_one(self, x: Any) -> None:
        if _has_text(self.on, x):
            super().learn_one(x)  # type: ignore[no-untyped-call]


def _has_text(on: str | None, x: Any) -> bool:
    return on is None or on in x


class OneVsRest(multiclass.OneVsRestClassifier):
    """river's `OneVsRestClassifier`, which also passes on the weight of a record.

    Parameters
    ----------
    classifier
        The classifier of two classes.

    Examples
    --------
    >>> from river import linear_model
    >>> model = OneVsRest(linear_model.LogisticRegression())
    >>> for height, y in [(1.1, "child"), (1.7, "adult"), (0.5, "baby")] * 9:
    ...     model.learn_one({"height": height}, y)
    >>> list(model.predict_proba_one({"height": 1.8}))
    ['child', 'adult', 'baby']
    """

    @property
    def weighs(self) -> bool:
        """Whether the classifier takes the weight of a record."""
        last = getattr(self.classifier, "_last_step", self.classifier)
        return "w" in inspect.signature(type(last).learn_one).parameters


def one_vs_rest(model: base.Classifier) -> base.Classifier:
    """`model`, with its classifier once for each class if that knows two classes only.

    Transformers before it are not repeated.

    Examples
    --------
    >>> from river import linear_model, preprocessing
    >>> print(one_vs_rest(preprocessing.StandardScaler() | linear_model.Perceptron()))
    StandardScaler | OneVsRest(Perceptron)
    """
    if model._multiclass:
        return model
    if isinstance(model, compose.Pipeline):
        *before, (name, last) = model.steps.items()
        return cast("base.Classifier", compose.Pipeline(*before, (name, one_vs_rest(last))))
    made: Any = OneVsRest(model)
    return cast("base.Classifier", made)
