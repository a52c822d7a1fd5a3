"""The errors of the service, by whose fault they are: that decides what happens next.

HeadwaterError
├── RecordError     the sender: the record becomes a dead letter, the service goes on
├── ConfigError     the operator: one line, exit 2
├── TransportError  the broker or the log: one line, exit 1; recovery starts from the journal
├── InputChangedError  the operator decides: an input is not what was consumed; one line, exit 2
├── FencedError     another process owns the shard now: exit 3
└── SnapshotError   a damaged or foreign snapshot: the next older one is tried

The message says what was expected, what came, and what to do.
"""

from __future__ import annotations

from typing import Literal, get_args

from stream.errors import Reason

__all__ = [
    "DEAD_LETTER_REASONS",
    "ConfigError",
    "DeadLetterReason",
    "DivergedError",
    "FencedError",
    "HeadwaterError",
    "InputChangedError",
    "RecordError",
    "RecordTooLargeError",
    "SnapshotError",
    "SnapshotsHeldError",
    "TransportError",
    "UnreadableCodecError",
]

DeadLetterReason = Literal[
    Reason,
    "unparsable",  # not the declared format
    "oversize",  # larger than 1 MiB
    "no_id",  # neither the id field nor a key
    "no_label",  # a label record without a label
    "bad_weight",  # a weight that is not a number above 0, or beyond 2**53
    "crash_poison",  # the process died of it, each time it was tried
]
DEAD_LETTER_REASONS: tuple[str, ...] = get_args(DeadLetterReason)


class HeadwaterError(Exception):
    """The root; `exit_code` is what the command ends with."""

    exit_code = 1


class RecordError(HeadwaterError):
    """A record nobody may learn from."""

    def __init__(self, reason: DeadLetterReason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail

    def bare(self) -> RecordError:
        """The same without the traceback, to be kept.

        A traceback holds every local of its frames, the whole record among them, and as a cycle:
        it would stay until the collector comes by.
        """
        return RecordError(self.reason, self.detail)


class ConfigError(HeadwaterError):
    """The configuration or the command line is wrong."""

    exit_code = 2


class TransportError(HeadwaterError):
    """The broker or the log failed or refused."""


class RecordTooLargeError(TransportError):
    """The topic does not take a record as large as this one."""


class DivergedError(TransportError):
    """A replay does not go as it was journaled, although the log gives the same records."""


class UnreadableCodecError(TransportError):
    """Records are compressed in a way that this installation cannot read."""


class InputChangedError(HeadwaterError):
    """An input topic was made again, or has lost records that were consumed."""

    exit_code = 2


class FencedError(HeadwaterError):
    """Another process has taken this shard over."""

    exit_code = 3


class SnapshotError(HeadwaterError):
    """A snapshot that cannot be used."""


class SnapshotsHeldError(SnapshotError):
    """Another process of this host writes the snapshots of this directory."""
