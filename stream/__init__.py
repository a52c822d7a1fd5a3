"""The learning core of headwater: pure, incremental, exact.

Importing it compiles nothing and does no I/O.
"""

from stream import bayes
from stream.bayes import *  # noqa: F403  a learner is listed once, in its room
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
from stream.keyed import PerKeyNB
from stream.learner.base import Learner, Predictions
from stream.learner.explain import Explanation, LinearView
from stream.linear import LogisticRegression, SpamScorer
from stream.mixture import Calibrated, Mixture
from stream.neighbors import KNNClassifier

__all__ = [
    "Block",
    "Calibrated",
    "Explanation",
    "Field",
    "InvalidRecordError",
    "KNNClassifier",
    "Label",
    "Learner",
    "LinearView",
    "LogisticRegression",
    "Mixture",
    "NotLearnedError",
    "NotSupportedError",
    "Op",
    "PerKeyNB",
    "Predictions",
    "RiverClassifier",
    "Rows",
    "Schema",
    "SchemaError",
    "SpamScorer",
    "State",
    "StateError",
    "StreamError",
]
__all__ += bayes.__all__
