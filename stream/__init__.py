"""The learning core of headwater: pure, incremental, exact.

Importing it compiles nothing and does no I/O.
"""

from stream.base import Learner, Predictions
from stream.bayes import GaussianNB, MultinomialNB
from stream.block import Block, Op, Rows
from stream.compat import RiverClassifier
from stream.errors import InvalidRecordError, SchemaError, StateError, StreamError
from stream.schema import Field, Label, Schema
from stream.state import State

__all__ = [
    "Block",
    "Field",
    "GaussianNB",
    "InvalidRecordError",
    "Label",
    "Learner",
    "MultinomialNB",
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
