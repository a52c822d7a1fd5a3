"""The learning core of headwater: pure, incremental, exact.

Importing it loads nothing: each name is loaded when it is used.
"""

from typing import TYPE_CHECKING

from stream.lazy import lazy
from stream.learner.names import ROOMS

if TYPE_CHECKING:
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
    from stream.learner.predictions import Explanation, LinearView
    from stream.linear import LogisticRegression, SpamScorer
    from stream.mixture import Calibrated, Mixture, TargetEncoded
    from stream.neighbors import KNNClassifier
    from stream.tree import DecisionTreeClassifier

__all__ = [
    "Block",
    "Calibrated",
    "DecisionTreeClassifier",
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
    "TargetEncoded",
]
if TYPE_CHECKING:
    __all__ += bayes.__all__
else:
    __all__ += ROOMS["bayes"]  # the same, without loading it

__getattr__, __dir__ = lazy(
    __name__,
    {f"stream.{room}": names for room, names in ROOMS.items()}
    | {
        "stream.compat": ("RiverClassifier",),
        "stream.data.block": ("Block", "Op", "Rows"),
        "stream.data.schema": ("Field", "Label", "Schema"),
        "stream.data.state": ("State",),
        "stream.errors": (
            "InvalidRecordError",
            "NotLearnedError",
            "NotSupportedError",
            "SchemaError",
            "StateError",
            "StreamError",
        ),
        "stream.learner.base": ("Learner", "Predictions"),
        "stream.learner.predictions": ("Explanation", "LinearView"),
    },
)
