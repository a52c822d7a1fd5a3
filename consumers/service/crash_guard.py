"""Find a record that kills the process by trials in child processes, and skip it.

A segmentation fault or an out-of-memory kill raises no exception, and recovery would meet the same
record for ever. So a small file next to the snapshots lists the records that are being processed.
It is not set during a commit, because a broker failure must not count against a record. It is
written without fsync, because it must outlive the process, not the machine. A start that finds the
file knows that the previous process died while it processed these records.

Such deaths are only suspicion, because a service that is killed often is killed with some record in
process. From the third death on, the records first run in child processes (`TrialRunner`). Halving
finds the shortest prefix that dies. Its last record is then tried alone. It is rejected only if its
child dies three times in a row and each time a child without it survives. If SIGKILL ended a child,
which anybody may have sent, twelve times are needed. The journal record lists a rejected record in
`skips`, it becomes a dead letter (`crash_poison`), and the service continues. A death of the
service itself rejects no record, and an exception is not a death.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from consumers.base.records import Partition
from consumers.snapshots.places import make_directory

__all__ = ["CrashGuard", "CrashNoteFile", "TrialResult", "TrialRunner"]

NAME = "inflight.json"
STARTS = 3  # deaths in a row with the same records in process, after which they are tried
TRIALS = 3  # children that die of a record, each with one that survives without it
TRIALS_OUTSIDE = 12  # the same if SIGKILL ended one, because it may have come from outside
VERSION = 2  # files of version 1 are ignored: there, deaths of the service alone rejected records


class TrialResult(msgspec.Struct, frozen=True):
    """The result of some records in a child process.

    `end`: the child survived (also if a record raised an exception), died, or the result is
    unclear, which rejects no record. `how`: why it died or is unclear. `outside`: something other
    than the records may have killed it.
    """

    end: Literal["lived", "died", "unclear"]
    how: str = ""
    outside: bool = False


class TrialRunner(Protocol):
    """Runs records in child processes, each from the present state."""

    def run(self, count: int, *, without_first: bool = False) -> TrialResult:
        """Run the first `count` records, optionally without the first of them."""


class CrashNote(Protocol):
    """A few bytes that outlive the process."""

    def read(self) -> bytes:
        """What was written last; empty if nothing was."""

    def write(self, data: bytes) -> None:
        """Replace the content. This is not atomic: a death during the call may leave less."""

    def close(self) -> None:
        """Close the file. Its content stays."""


class CrashNoteFile:
    """A file in the shard's snapshot directory.

    Parameters
    ----------
    directory
        Created when missing.

    Notes
    -----
    If it cannot be written, nothing is remembered and the service continues. A host without the
    directory of the previous host starts to count again.
    """

    def __init__(self, directory: Path) -> None:
        self._file: int | None = None
        with suppress(OSError):
            make_directory(directory)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(directory / NAME, flags, 0o600)

    def read(self) -> bytes:
        """The content; empty if it cannot be read."""
        if self._file is not None:
            with suppress(OSError):
                return os.pread(self._file, os.fstat(self._file).st_size, 0)
        return b""

    def write(self, data: bytes) -> None:
        """Replace the content."""
        if self._file is not None:
            with suppress(OSError):
                os.ftruncate(self._file, 0)
                os.pwrite(self._file, data, 0)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class _Marker(msgspec.Struct):
    """The records that were being processed, and what was known at that time.

    `ends`: where the records end in each partition. `doing`: whether they were being processed,
    tried in a child process, or neither. `deaths`: of the service so far. `until`: where the
    records of all these deaths end.
    """

    version: int
    ends: list[tuple[str, int, int]]
    doing: Literal["processing", "trying", "nothing"]
    deaths: int
    until: list[tuple[str, int, int]]


_decode_marker = msgspec.json.Decoder(_Marker).decode


class CrashGuard:
    """Remembers the records being processed, and tries suspected ones.

    Parameters
    ----------
    memo
        Where it remembers.
    seq
        Number of the next journal record.
    positions
        The end of the journaled records of each partition.

    Attributes
    ----------
    story : str
        What this start found, for the log; empty if nothing died.
    findings : list of str
        Results of trials since, for the log.
    """

    def __init__(self, memo: CrashNote, seq: int, positions: Mapping[Partition, int]) -> None:
        self._memo = memo
        self._deaths = 0
        self._until: dict[Partition, int] = {}
        self.story = ""
        self.findings: list[str] = []
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            found = _decode_marker(memo.read())
            if found.version == VERSION:
                self._look(found, seq, positions)

    @property
    def suspicious(self) -> bool:
        """Whether the next records must be tried first."""
        return self._deaths >= STARTS

    def begin(self, ends: Mapping[Partition, int]) -> None:
        """Remember the records that are processed from now on, by their ends."""
        self._remember("processing", ends)

    def done(self) -> None:
        """They are processed. A death from now on does not count against them."""
        if self._deaths:
            self._remember("nothing", {})
        else:
            self._memo.write(b"")

    def committed(self, positions: Mapping[Partition, int]) -> None:
        """A commit is in the journal. Records before `positions` are no longer suspected."""
        if self._deaths and _passed(self._until, positions):
            self._deaths, self._until = 0, {}
            self._memo.write(b"")

    def examine(
        self, size: int, hold: Callable[[], AbstractContextManager[TrialRunner]]
    ) -> Iterator[tuple[int, bool]]:
        """The next `size` records in pieces: the size, and whether it is one rejected record.

        The caller commits each piece before it requests the next one.

        Parameters
        ----------
        hold
            Opens a trial of the remaining records, from the state at that time.
        """
        most = size
        while size:
            if not self.suspicious:
                yield size, False
                return
            self._remember("trying", {})
            with hold() as court:
                count, rejected, then = self._verdict(court, min(most, size))
            self._remember("nothing", {})
            yield count, rejected
            size, most = size - count, then or size

    def close(self) -> None:
        """Close the file. Its content stays."""
        self._memo.close()

    def _verdict(self, court: TrialRunner, size: int) -> tuple[int, bool, int]:
        """How many records to take next, whether that one is rejected, how many to try then."""
        if size == 1:
            return 1, self._rejected(court), 0
        fate = court.run(size)
        lived, died = 0, size
        while fate.end == "died" and died - lived > 1:
            middle = (lived + died) // 2
            fate = court.run(middle)
            if fate.end == "lived":
                lived, fate = middle, TrialResult("died")  # like the longer prefix
            elif fate.end == "died":
                died = middle
        if fate.end == "unclear":
            self.findings.append(f"records could not be tried in a child process: {fate.how}")
        if fate.end != "died":
            return size, False, 0
        if lived:
            return lived, False, 1
        return 1, self._rejected(court), 0

    def _rejected(self, court: TrialRunner) -> bool:
        """Whether the first record kills the process, and nothing else does."""
        needed, deaths = TRIALS, 0
        while deaths < needed:
            fate = court.run(1)
            if fate.end == "lived":
                return False
            without = fate if fate.end == "unclear" else court.run(1, without_first=True)
            if without.end != "lived":
                unclear = without.end == "unclear"
                why = without.how if unclear else "a child without it dies as well"
                self.findings.append(f"a record could not be tried in a child process: {why}")
                return False
            deaths += 1
            needed = TRIALS_OUTSIDE if fate.outside else needed
        self.findings.append(
            f"{deaths} of {deaths} child processes died of one record ({fate.how}), and as many "
            "without it survived: it becomes a dead letter (crash_poison)"
        )
        return True

    def _look(self, found: _Marker, seq: int, positions: Mapping[Partition, int]) -> None:
        """Evaluate how the previous process ended."""
        ends, until = _ends(found.ends), _ends(found.until)
        if found.deaths and not _passed(until, positions):
            self._deaths, self._until = found.deaths, until
        if found.doing == "trying":
            # That process did not run the records itself, so something else killed it. One start
            # skips the trial, so that a service that is killed repeatedly makes progress.
            self._deaths = min(self._deaths, STARTS - 1)
        if found.doing != "processing" or _passed(ends, positions):
            return  # or another owner has continued with them
        self._deaths += 1
        times = "once" if self._deaths == 1 else f"{self._deaths} times"
        self.story = f"the process died {times} while processing journal record {seq}"
        for partition, end in ends.items():
            self._until[partition] = max(end, self._until.get(partition, 0))
        if self.suspicious:
            self.story += "; its records are tried in child processes first"
        self._remember("nothing", {})

    def _remember(
        self, doing: Literal["processing", "trying", "nothing"], ends: Mapping[Partition, int]
    ) -> None:
        here, until = (
            [(*partition, end) for partition, end in each.items()] for each in (ends, self._until)
        )
        marker = _Marker(VERSION, here, doing, self._deaths, until)
        self._memo.write(msgspec.json.encode(marker))


def _passed(ends: Mapping[Partition, int], positions: Mapping[Partition, int]) -> bool:
    return all(positions.get(partition, 0) >= end for partition, end in ends.items())


def _ends(listed: list[tuple[str, int, int]]) -> dict[Partition, int]:
    return {Partition(topic, number): end for topic, number, end in listed}
