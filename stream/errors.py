"""The errors of the learning core, grouped by who has to act.

StreamError
├── SchemaError          the caller: a parameter, field or schema is not valid
├── InvalidRecordError   the record: no model may learn a value of it; `reason` says why
├── NotLearnedError      the caller: the record to unlearn was never learned
├── NotSupportedError    the caller: this learner cannot do what was asked
└── StateError           the saved state: it is damaged, or belongs to another learner

A message names what was expected, what came and what to do.
"""

from __future__ import annotations

from typing import Literal, get_args

__all__ = [
    "REASONS",
    "CompilationWarning",
    "InvalidRecordError",
    "NotLearnedError",
    "NotSupportedError",
    "Reason",
    "SchemaError",
    "StateError",
    "StreamError",
]

Reason = Literal[
    "wrong_kind",  # the value and its field differ in kind
    "infinite",  # +inf or -inf
    "out_of_range",  # a finite number too large for squares to stay finite
    "negative_count",  # a count below zero
    "label_kind",  # the label differs in kind from earlier labels
    "max_classes",  # a new class beyond the bound
    "reporter_rate",  # a label above the cap of its reporter
    "correction_rate",  # a label that would correct another one, after too many of these
]
REASONS: tuple[Reason, ...] = get_args(Reason)


class StreamError(ValueError):
    """The root of all errors raised by `stream`."""


class SchemaError(StreamError):
    """A parameter, field or schema is not valid."""


class InvalidRecordError(StreamError):
    """A record was rejected: the model did not change, and a retry cannot succeed.

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

    def __reduce__(self) -> tuple[type[InvalidRecordError], tuple[Reason, str]]:
        """As an answer of another process; a pool waits for ever for one that cannot be read."""
        return type(self), (self.reason, self.detail)


class StateError(StreamError):
    """A saved state cannot be loaded."""


class NotLearnedError(StreamError):
    """The record to unlearn cannot have been learned. The model did not change."""


class NotSupportedError(StreamError):
    """This learner cannot do what was asked, or not with its parameters."""


class CompilationWarning(UserWarning):
    """The first call of a kernel compiles it, unless its machine code was kept or brought."""
