"""When a snapshot is due, and how many records a commit has."""

from __future__ import annotations

import time
from collections.abc import Mapping

from consumers.base.records import Partition
from consumers.config import Config
from consumers.config.sections import CommitConfig
from consumers.service.live import LiveShard
from consumers.shard.shard import Shard
from stream.kernel.tiers import interpreting

__all__ = ["InterpretedPace", "SnapshotDue", "commit_size"]

MOST_INTERPRETED = 50  # records of a commit
FIRST_INTERPRETED = 10
INTERPRETED_SECONDS = 0.25  # of a commit


def commit_size(
    commit: CommitConfig, shard: Shard, max_bytes: int, ends: Mapping[Partition, int]
) -> int:
    """Maximum number of records in the next commit.

    As many as wait, if these are more than the usual number: they fill the commit at once. The size
    depends on the time at which it is asked for, which changes no prediction, because a replay
    follows the journaled ranges.

    Parameters
    ----------
    max_bytes
        What the predictions may take.
    ends
        Known end of each input, or of some.
    """
    waiting = sum(max(0, end - shard.positions.get(p, end)) for p, end in ends.items())
    size = max(commit.usual_records, min(waiting, commit.most_records(len(shard.positions))))
    return min(size, shard.records_within(max_bytes))


class InterpretedPace:
    """Fewer records in a commit while kernels run as Python.

    It ends long before its transaction does, and soon after Ctrl-C. A record takes some
    milliseconds then, or seconds if it is compared with thousands.
    """

    def __init__(self) -> None:
        self._most = FIRST_INTERPRETED

    def within(self, size: int) -> int:
        """The size of the next commit."""
        return min(size, self._most) if interpreting() else size

    def took(self, records: int, seconds: float) -> None:
        """The last commit."""
        fit = int(INTERPRETED_SECONDS * records / seconds) if seconds else MOST_INTERPRETED
        self._most = max(1, min(fit, 2 * self._most, MOST_INTERPRETED))


class SnapshotDue:
    """Whether a snapshot is due: after a number of records, or a time with at least one."""

    def __init__(self, config: Config, live: LiveShard) -> None:
        self._every = config.snapshots.every_records
        self._seconds = config.snapshots.every_seconds
        # A shard taken over from a standby is not in a snapshot yet.
        self._records = live.replayed if live.rebuilt else max(1, live.replayed)
        self._seen = live.shard.records
        self._at = time.monotonic()

    @property
    def changed(self) -> bool:
        return self._records > 0

    def mixed(self) -> None:
        """The statistics of other shards have changed, which a replay would read again."""
        self._records += 1

    def __call__(self, live: LiveShard, busy: bool) -> bool:
        """Whether to take one now; later if the writer is `busy` with the one before."""
        seen = live.shard.records
        self._records, self._seen = self._records + seen - self._seen, seen
        late = self.changed and time.monotonic() - self._at >= self._seconds
        if busy or (not late and self._records < self._every):
            return False
        self._records, self._at = 0, time.monotonic()
        return True
