"""A river classifier that knows two classes, once for each class."""

from __future__ import annotations

import inspect
from typing import Any, cast

from river import base, compose, multiclass

__all__ = ["OneVsRest", "one_vs_rest"]


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
