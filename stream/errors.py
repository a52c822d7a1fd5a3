"""The errors of the learning core, by whose fault they are.

StreamError
├── SchemaError     the caller: a parameter, field or schema that cannot be used
├── InvalidRecordError   the record: a value no model may learn; names its `reason`
├── NotLearnedError      the caller: asks to unlearn what was not learned
├── NotSupportedError    the caller: asks a learner for what it cannot do; says why
└── StateError      the saved state: damaged, or of another learner

Every message says what was expected, what came and what to do.
"""

from __future__ import annotations

from typing import Literal, get_args

__all__ = [
    "REASONS",
    "InvalidRecordError",
    "NotLearnedError",
    "NotSupportedError",
    "Reason",
    "SchemaError",
    "StateError",
    "StreamError",
]

Reason = Literal[
    "wrong_kind",  # a value of another kind than its field
    "infinite",  # +inf or -inf
    "out_of_range",  # a finite number too large for squares to stay finite
    "negative_count",  # a count below zero
    "label_kind",  # a label of another kind than the labels before it
    "max_classes",  # one class more than the bound
]
REASONS: tuple[Reason, ...] = get_args(Reason)


class StreamError(ValueError):
    """The root of all errors raised by `stream`."""


class SchemaError(StreamError):
    """A parameter, field or schema that cannot be used."""


class InvalidRecordError(StreamError):
    """A record that was not applied, and will never be.

    Parameters
    ----------
    reason
        One of `REASONS`.
    detail
        What was expected and what came.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: Reason = reason
        self.detail = detail


class StateError(StreamError):
    """Saved state that cannot be loaded."""


class NotLearnedError(StreamError):
    """A record to unlearn that the learner cannot have learned; it is untouched."""


class NotSupportedError(StreamError):
    """What this learner, or this setting of it, cannot do."""
