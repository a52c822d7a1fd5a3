"""The errors of the service, grouped by who can correct them: that decides what happens next.

HeadwaterError
├── RecordError        the producer: the record becomes a dead letter, the service continues
├── ConfigError        the operator: one line, exit code 2
├── TransportError     the broker or the log: one line, exit code 1; the next start recovers
│   ├── NoAnswerError     the broker did not answer: a service that was live starts over
│   ├── RegistryError     the schema registry failed or refused a request
│   ├── JournalLostError  the operator: the journal has lost records; exit code 2
│   └── JournalFormatError  the operator: this version cannot read the journal; exit code 2
├── InputChangedError  the operator: an input is not the one that was consumed; exit code 2
├── FencedError        another process owns the shard now: exit code 3
└── SnapshotError      a damaged or foreign snapshot: the next older one is tried

The message says what was expected, what came, and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from stream.errors import Reason

__all__ = [
    "DEAD_LETTER_REASONS",
    "REPORTER_REASONS",
    "RESTART",
    "SCHEMA_REASONS",
    "SELDOM_REASONS",
    "ConfigError",
    "DeadLetterReason",
    "DivergedError",
    "FencedError",
    "HeadwaterError",
    "IgnoredRecordError",
    "InputChangedError",
    "JournalFormatError",
    "JournalLostError",
    "NoAnswerError",
    "RecordError",
    "RecordTooLargeError",
    "RecordsMissingError",
    "RegistryError",
    "SnapshotError",
    "SnapshotsHeldError",
    "TransportError",
    "UnreadableCodecError",
]

_OwnReason = Literal[
    "unparsable",  # not the declared format
    "oversize",  # larger than 1 MiB, or too many values
    "unknown_schema",  # the registry does not know the id in its header
    "unusable_schema",  # its schema is of another type, or has no bound
    "no_id",  # neither the id field nor a key
    "no_label",  # a label record without a label
    "bad_reporter",  # a reporter that is not a text of 1 to 256 characters
    "bad_weight",  # a weight that is not a number above 0, or beyond [labels] max_weight
    "crash_poison",  # the process died each time it processed the record
]
if TYPE_CHECKING:
    DeadLetterReason: TypeAlias = Reason | _OwnReason
    DEAD_LETTER_REASONS: tuple[str, ...]
SCHEMA_REASONS = {"unknown_schema", "unusable_schema"}  # only of records with schemas
REPORTER_REASONS = {"bad_reporter", "reporter_rate"}  # only of labels with reporters
SELDOM_REASONS = {*SCHEMA_REASONS, *REPORTER_REASONS, "correction_rate"}


def __getattr__(name: str) -> Any:
    """The reasons, with those of the learning core, which takes a second to load: a client of a
    service needs its errors and not the core."""
    if name not in ("DeadLetterReason", "DEAD_LETTER_REASONS"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from stream.errors import Reason

    reasons = Literal[Reason, _OwnReason]
    return reasons if name == "DeadLetterReason" else get_args(reasons)


class HeadwaterError(Exception):
    """The base class of all errors. `exit_code` is the exit code of the command."""

    exit_code = 1


class RecordError(HeadwaterError):
    """A record that must not be learned."""

    def __init__(self, reason: DeadLetterReason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail

    def bare(self) -> RecordError:
        """The same error without its traceback, for keeping.

        A traceback refers to every local variable of its frames, so to the whole record. The
        references form a cycle, which only the garbage collector frees.
        """
        return RecordError(self.reason, self.detail)


class IgnoredRecordError(RecordError):
    """A record that the configuration leaves out: it is counted, and no dead letter."""

    def bare(self) -> RecordError:
        """The same error without its traceback."""
        return IgnoredRecordError(self.reason, self.detail)


class ConfigError(HeadwaterError):
    """The configuration or the command line is wrong."""

    exit_code = 2


class TransportError(HeadwaterError):
    """The broker or the log failed or refused a request."""


class NoAnswerError(TransportError):
    """The broker did not answer in time. It may answer later, so a service need not end."""


class RegistryError(TransportError):
    """The schema registry failed or refused a request."""


class RecordTooLargeError(TransportError):
    """The topic does not accept a record of this size."""


class RecordsMissingError(TransportError):
    """A log that answers does not have records that were in it."""


class DivergedError(TransportError):
    """A replay computes other results than the journal recorded, from the same records."""


class JournalLostError(TransportError):
    """The journal has lost records of this shard. No retry helps: an operator must decide."""

    exit_code = 2


class JournalFormatError(TransportError):
    """The journal has what this version does not know: of a newer version, or another program."""

    exit_code = 2


class UnreadableCodecError(TransportError):
    """This installation cannot read the compression codec of the records."""


class InputChangedError(HeadwaterError):
    """An input topic was recreated, or has lost consumed records."""

    exit_code = 2


RESTART = (
    "if promote, relearn, reshard or rollback did that, start this process again, otherwise two "
    "processes run the same shard: stop one"
)


class FencedError(HeadwaterError):
    """Another process has taken over this shard."""

    exit_code = 3


class SnapshotError(HeadwaterError):
    """A snapshot that cannot be used."""


class SnapshotsHeldError(SnapshotError):
    """Another process on this host writes the snapshots of this directory."""
