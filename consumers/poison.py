"""A record that kills the process is found by halving, and passed over.

A segmentation fault or a kill for memory leaves no exception to catch, and recovery would meet the
same record for ever. So a small file beside the snapshots says which records are in hand while they
are processed: not while they are committed, for a broker must never be mistaken for a bad record,
and without fsync, for it must outlive the process, not the machine. A start that finds it knows
that the last one died at it. At the third such start in a row commits are halved, once a death,
until one record is alone in hand; if it kills once more, its entry carries it in `skips`, it
becomes a dead letter (`crash_poison`), and the service goes on. An exception is no death.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from consumers.outcome import Skip
from consumers.records import Batch, Partition

__all__ = ["CrashGuard"]

NAME = "inflight.json"
STARTS = 3  # that found the same entry: two may be an operator's, or a machine's short of memory


class _Marker(msgspec.Struct):
    """What was in hand, and what was known by then.

    `seq` is the entry's number, `size` its records, `first` the first of them, `ends` where each
    partition's end; `processing` false: it is done. `deaths` before, `limit` of a commit while the
    hunt is on (0: none), `until` where it ends, `condemned` records to pass over.
    """

    seq: int
    size: int
    first: tuple[str, int, int]
    ends: list[tuple[str, int, int]]
    processing: bool
    deaths: int
    limit: int
    until: list[tuple[str, int, int]]
    condemned: list[Skip]


class CrashGuard:
    """Remembers what is in hand, and what the process has died of.

    Parameters
    ----------
    directory
        Of the shard's snapshots; made when missing.
    seq
        Number of the next entry.

    Attributes
    ----------
    story : str
        What it found at this start, for the log; empty where nothing died.

    Notes
    -----
    Where the directory cannot be written, nothing is remembered and the service runs on. A host
    that starts without the directory of the one before begins to count anew.
    """

    def __init__(self, directory: Path, seq: int) -> None:
        self._deaths, self._limit = 0, 0
        self._until: dict[Partition, int] = {}
        self._condemned: list[Skip] = []
        self._file: int | None = None
        self.story = ""
        with suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(directory / NAME, flags, 0o600)
        self._marker = self._read()
        if self._marker is not None:
            self._look(self._marker, seq)

    def limit(self, max_records: int) -> int:
        """How many records the next commit may hold."""
        return min(max_records, self._limit or max_records)

    def begin(self, seq: int, batch: Batch) -> list[Skip]:
        """Say what is in hand from now on; which of it must be passed over."""
        first = batch.partitions[int(batch.source[0])]
        ends = [(*partition, end) for partition, (_, end, _) in batch.ranges.items()]
        self._marker = _Marker(
            seq,
            len(batch),
            (*first, int(batch.offsets[0])),
            ends,
            True,
            self._deaths,
            self._limit,
            _listed(self._until),
            self._condemned,
        )
        self._write(self._marker)
        return [skip for skip in self._condemned if _holds(batch, skip)]

    def done(self) -> None:
        """It is processed: a death from now on is not the records' fault."""
        if self._marker is None:
            return
        self._marker.processing = False
        self._write(self._marker if self._deaths or self._condemned else None)

    def committed(self, positions: Mapping[Partition, int]) -> None:
        """The entry is in the journal: what lies behind it is no longer suspected."""
        if not self._deaths and not self._condemned:
            return
        self._condemned = [
            skip for skip in self._condemned if positions.get(Partition(*skip[:2]), 0) <= skip[2]
        ]
        if all(positions.get(partition, 0) >= end for partition, end in self._until.items()):
            self._deaths, self._limit, self._until = 0, 0, {}
        if not self._deaths and not self._condemned:
            self._write(None)

    def close(self) -> None:
        """Let the file go; what it says stays."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _look(self, found: _Marker, seq: int) -> None:
        """Learn from the last start's end."""
        if found.processing and found.seq != seq:
            return  # of another owner: the journal has gone on without it
        self._deaths, self._limit = found.deaths, found.limit
        self._until = {Partition(t, n): end for t, n, end in found.until}
        self._condemned = list(found.condemned)
        if not found.processing:
            return
        self._deaths += 1
        times = "once" if self._deaths == 1 else f"{self._deaths} times"
        self.story = f"the process died {times} while it had journal entry {seq} in hand"
        for t, n, end in found.ends:
            self._until[Partition(t, n)] = max(end, self._until.get(Partition(t, n), 0))
        if self._deaths < STARTS:
            return
        if found.size > 1:
            self._limit = found.size // 2
            self.story += f"; commits of {self._limit} records until the one at fault is found"
            return
        topic, number, offset = found.first
        self._limit = 0
        self._condemned.append((topic, number, offset, "crash_poison"))
        where = f"{Partition(topic, number)} offset {offset}"
        self.story += f", at last with {where} alone, which becomes a dead letter (crash_poison)"

    def _read(self) -> _Marker | None:
        if self._file is None:
            return None
        try:
            data = os.pread(self._file, os.fstat(self._file).st_size, 0)
            return msgspec.json.decode(data, type=_Marker)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None  # empty: nothing was in hand

    def _write(self, marker: _Marker | None) -> None:
        if self._file is None:
            return
        with suppress(OSError):
            os.ftruncate(self._file, 0)
            if marker is not None:
                os.pwrite(self._file, msgspec.json.encode(marker), 0)


def _holds(batch: Batch, skip: Skip) -> bool:
    topic, number, offset, _ = skip
    first, end, _ = batch.ranges.get(Partition(topic, number), (0, 0, 0))
    return first <= offset < end


def _listed(ends: Mapping[Partition, int]) -> list[tuple[str, int, int]]:
    return [(*partition, end) for partition, end in ends.items()]
