"""The learning core of headwater: pure, incremental, exact.

Importing it compiles nothing and does no I/O.
"""

from stream.bayes import (
    BernoulliNB,
    CategoricalBayes,
    CategoricalNB,
    ComplementNB,
    GaussianBayes,
    GaussianNB,
    MixedBayes,
    MixedNB,
    MultinomialNB,
)
from stream.compat import RiverClassifier
from stream.data.block import Block, Op, Rows
from stream.data.schema import Field, Label, Schema
from stream.data.state import State
from stream.errors import (
    InvalidRecordError,
    NotLearnedError,
    NotSupportedError,
    SchemaError,
    StateError,
    StreamError,
)
from stream.learner.base import Learner, Predictions
from stream.learner.explain import Explanation, LinearView
from stream.neighbors import KNNClassifier

__all__ = [
    "BernoulliNB",
    "Block",
    "CategoricalBayes",
    "CategoricalNB",
    "ComplementNB",
    "Explanation",
    "Field",
    "GaussianBayes",
    "GaussianNB",
    "InvalidRecordError",
    "KNNClassifier",
    "Label",
    "Learner",
    "LinearView",
    "MixedBayes",
    "MixedNB",
    "MultinomialNB",
    "NotLearnedError",
    "NotSupportedError",
    "Op",
    "Predictions",
    "RiverClassifier",
    "Rows",
    "Schema",
    "SchemaError",
    "State",
    "StateError",
    "StreamError",
]
