"""The crash guard: a record that kills the process is found by trial and passed over.

A segmentation fault or a kill for memory leaves no exception to catch, and recovery would meet the
same record for ever. So a small file beside the snapshots names the records that are being
processed. It is removed before they are committed, because a broker must never be mistaken for a
bad record. It is written without fsync, because it must outlive the process, not the machine. A
start that finds the file knows that the last process died while it processed these records.

Such deaths only raise suspicion: a service that is killed often is killed with some record in hand.
From the third death on, the records are first run in child processes (`TrialRunner`). The shortest
prefix that dies is found by halving, so that its last record is alone. The record is condemned only
if its child dies three times in a row while, each time, a child without it lives. If the child was
ended by SIGKILL, which anybody may have sent, it takes twelve times. The journal record carries
a condemned record in `skips`, it becomes a dead letter (`crash_poison`), and the service goes on.
A death of the service itself condemns nothing, and an exception is no death.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from consumers.base.records import Partition

__all__ = ["CrashGuard", "CrashNote", "CrashNoteFile", "TrialResult", "TrialRunner"]

NAME = "inflight.json"
STARTS = 3  # that died in a row with the same records in hand: then these are tried
TRIALS = 3  # children that die of a record, each beside one that lives without it
TRIALS_OUTSIDE = 12  # the same where SIGKILL ended one: it may have come from anywhere
VERSION = 2  # before, the deaths of the service alone condemned: such a file means nothing now


class TrialResult(msgspec.Struct, frozen=True):
    """What came of some records in a child process.

    `end`: it lived (also where they raised an exception), died, or it is unclear, which condemns
    nobody; `how` it died or why it is unclear; `outside`: something else may have killed it.
    """

    end: Literal["lived", "died", "unclear"]
    how: str = ""
    outside: bool = False


class TrialRunner(Protocol):
    """Runs records in child processes, each from the state as it is now."""

    def run(self, count: int, *, without_first: bool = False) -> TrialResult:
        """Run the first `count` of the records; the first of them passed over, if asked."""


class CrashNote(Protocol):
    """A few bytes that outlive the process."""

    def read(self) -> bytes:
        """What was written last; empty for nothing."""

    def write(self, data: bytes) -> None:
        """Replace it; not at once, so that a death in the midst of it leaves less."""

    def close(self) -> None:
        """Let the file go; what it says stays."""


class CrashNoteFile:
    """A file in the shard's snapshot directory.

    Parameters
    ----------
    directory
        Made when missing.

    Notes
    -----
    Where it cannot be written, nothing is remembered and the service runs on. A host that starts
    without the directory of the one before begins to count afresh.
    """

    def __init__(self, directory: Path) -> None:
        self._file: int | None = None
        with suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(directory / NAME, flags, 0o600)

    def read(self) -> bytes:
        """What it says; empty where it cannot be read."""
        if self._file is not None:
            with suppress(OSError):
                return os.pread(self._file, os.fstat(self._file).st_size, 0)
        return b""

    def write(self, data: bytes) -> None:
        """Replace what it says."""
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
    """What was in hand, and what was known by then.

    `ends`: where the records end in each partition; `doing` says whether they were processed,
    tried in a child process, or neither any more; `deaths` of the service before, and `until`
    where the records in hand at any of them end.
    """

    version: int
    ends: list[tuple[str, int, int]]
    doing: Literal["processing", "trying", "nothing"]
    deaths: int
    until: list[tuple[str, int, int]]


class CrashGuard:
    """Remembers what is in hand, and has suspects tried.

    Parameters
    ----------
    memo
        Where it remembers.
    seq
        Number of the next entry.
    positions
        Where the journal ends, in each partition.

    Attributes
    ----------
    story : str
        What it found at this start, for the log; empty where nothing died.
    findings : list of str
        What came of trials since, for the log.
    """

    def __init__(self, memo: CrashNote, seq: int, positions: Mapping[Partition, int]) -> None:
        self._memo = memo
        self._deaths = 0
        self._until: dict[Partition, int] = {}
        self.story = ""
        self.findings: list[str] = []
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            found = msgspec.json.decode(memo.read(), type=_Marker)
            if found.version == VERSION:
                self._look(found, seq, positions)

    @property
    def suspicious(self) -> bool:
        """Whether the next records are to be tried first."""
        return self._deaths >= STARTS

    def begin(self, ends: Mapping[Partition, int]) -> None:
        """Remember which records are in hand from now on, by where they end."""
        self._remember("processing", ends)

    def done(self) -> None:
        """They are processed: a death from now on is not the records' fault."""
        if self._deaths:
            self._remember("nothing", {})
        else:
            self._memo.write(b"")

    def committed(self, positions: Mapping[Partition, int]) -> None:
        """The entry is in the journal: what lies before `positions` is no longer suspected."""
        if self._deaths and _passed(self._until, positions):
            self._deaths, self._until = 0, {}
            self._memo.write(b"")

    def examine(
        self, size: int, hold: Callable[[], AbstractContextManager[TrialRunner]]
    ) -> Iterator[tuple[int, bool]]:
        """The next `size` records in pieces: how many, and whether that one is condemned.

        The caller commits each piece before it asks for the next one.

        Parameters
        ----------
        hold
            Opens a court for the records that are left, on the state as it is then.
        """
        most = size
        while size:
            if not self.suspicious:
                yield size, False
                return
            self._remember("trying", {})
            with hold() as court:
                count, condemned, then = self._verdict(court, min(most, size))
            self._remember("nothing", {})
            yield count, condemned
            size, most = size - count, then or size

    def close(self) -> None:
        """Let the file go; what it says stays."""
        self._memo.close()

    def _verdict(self, court: TrialRunner, size: int) -> tuple[int, bool, int]:
        """How many records to take next, whether that one is condemned, how many to try then."""
        if size == 1:
            return 1, self._condemned(court), 0
        fate = court.run(size)
        lived, died = 0, size
        while fate.end == "died" and died - lived > 1:
            middle = (lived + died) // 2
            fate = court.run(middle)
            if fate.end == "lived":
                lived, fate = middle, TrialResult("died")  # as the longer one has
            elif fate.end == "died":
                died = middle
        if fate.end == "unclear":
            self.findings.append(f"records could not be tried in a child process: {fate.how}")
        if fate.end != "died":
            return size, False, 0
        if lived:
            return lived, False, 1
        return 1, self._condemned(court), 0

    def _condemned(self, court: TrialRunner) -> bool:
        """Whether the first record kills, and nothing but it does."""
        needed, deaths = TRIALS, 0
        while deaths < needed:
            fate = court.run(1)
            if fate.end == "lived":
                return False
            beside = fate if fate.end == "unclear" else court.run(1, without_first=True)
            if beside.end != "lived":
                why = beside.how if beside.end == "unclear" else "a child without it dies as well"
                self.findings.append(f"a record could not be tried in a child process: {why}")
                return False
            deaths += 1
            needed = TRIALS_OUTSIDE if fate.outside else needed
        self.findings.append(
            f"{deaths} of {deaths} child processes died of one record ({fate.how}), and as many "
            "without it lived: it becomes a dead letter (crash_poison)"
        )
        return True

    def _look(self, found: _Marker, seq: int, positions: Mapping[Partition, int]) -> None:
        """Learn from the last start's end."""
        ends, until = _ends(found.ends), _ends(found.until)
        if found.deaths and not _passed(until, positions):
            self._deaths, self._until = found.deaths, until
        if found.doing == "trying":
            # Nothing of the records ran in that process: somebody else killed it. One start goes
            # without a trial, lest a service that is killed again and again never gets anywhere.
            self._deaths = min(self._deaths, STARTS - 1)
        if found.doing != "processing" or _passed(ends, positions):
            return  # or another owner has gone on with them
        self._deaths += 1
        times = "once" if self._deaths == 1 else f"{self._deaths} times"
        self.story = f"the process died {times} while it had journal entry {seq} in hand"
        for partition, end in ends.items():
            self._until[partition] = max(end, self._until.get(partition, 0))
        if self.suspicious:
            self.story += "; its records are tried in child processes first"
        self._remember("nothing", {})

    def _remember(
        self, doing: Literal["processing", "trying", "nothing"], ends: Mapping[Partition, int]
    ) -> None:
        until = _listed(self._until)
        marker = _Marker(VERSION, _listed(ends), doing, self._deaths, until)
        self._memo.write(msgspec.json.encode(marker))


def _passed(ends: Mapping[Partition, int], positions: Mapping[Partition, int]) -> bool:
    return all(positions.get(partition, 0) >= end for partition, end in ends.items())


def _listed(ends: Mapping[Partition, int]) -> list[tuple[str, int, int]]:
    return [(*partition, end) for partition, end in ends.items()]


def _ends(listed: list[tuple[str, int, int]]) -> dict[Partition, int]:
    return {Partition(topic, number): end for topic, number, end in listed}
