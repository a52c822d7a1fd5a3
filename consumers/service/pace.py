"""The times of the loop: how many records a commit has and how they are polled and merged, when a
snapshot is due, and when the log last proved that this process owns its shard.

A poll of Kafka has a fixed cost of a millisecond, and each record of a steady feed may come in a
poll of its own. So while few come, the loop sleeps between two polls. No record waits longer
because of that: the records until the deadline are in the same commit.

A commit proves the ownership. A process that has nothing to commit asks the log, and is not ready
while it waits for the answer: another process may have taken over, and a broker may answer late.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from consumers.base.records import Batch, Partition, Uncommitted
from consumers.config import Config
from consumers.config.sections import CommitConfig
from consumers.journal.merge import Merge
from consumers.service.live import LiveShard
from consumers.shard.shard import Shard
from consumers.transports.protocol import Log, Owner
from stream.kernel.tiers import interpreting

__all__ = [
    "Gatherer",
    "InterpretedPace",
    "Ownership",
    "SnapshotDue",
    "commit_size",
    "hidden",
    "reached",
]


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

    So a commit ends long before its transaction times out, and soon after Ctrl-C. A record then
    takes milliseconds, or seconds if it is compared with thousands.
    """

    def __init__(self) -> None:
        self._most = FIRST_INTERPRETED

    def within(self, size: int) -> int:
        """The size of the next commit."""
        return min(size, self._most) if interpreting() else size

    def took(self, records: int, seconds: float) -> None:
        """Note the records and seconds of a commit."""
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


IDLE_SECONDS, MOST_IDLE_SECONDS = 0.2, 1.0  # how long a poll waits for the first record, and
INPUT_SECONDS = 0.00125  # for each input, because a poll looks at all of them
MORE_SECONDS = 0.02  # how long to wait for more records when some are there
POLLS = 8  # in `max_delay_ms`, while few records come


class Gatherer:
    """Polls the inputs of an owner and merges them into batches.

    Parameters
    ----------
    config
        The whole configuration.
    owner
        Of the shard.
    merge
        Of its inputs, at their positions.
    polled
        Called after each poll. Returns in how many seconds the loop is wanted again.
    stop
        When it is set, gathering ends.
    until
        Where each input ends, if no later record is waited for.
    """

    def __init__(
        self,
        config: Config,
        owner: Owner,
        merge: Merge,
        polled: Callable[[], float],
        stop: threading.Event,
        until: Mapping[Partition, int] | None = None,
    ) -> None:
        self._commit, self._most_wait = config.commit, config.input.max_wait_ms / 1000
        self._owner, self._merge = owner, merge
        self._max_bytes = config.commit.most_bytes(len(merge.inputs))
        self._polled, self._stop, self._until = polled, stop, until
        self._most_idle = 0.0

    def next(self, size: int, since: int) -> tuple[Batch | None, int]:
        """Poll until a commit is full, its delay is over, or no records are left for now.

        Also returns the clock that ordered the batch, for the journal record: at least `since`.
        """
        merge = self._merge
        few = min(size, self._commit.usual_records) // POLLS  # in a poll
        started = time.monotonic()
        deadline = started + self._commit.max_delay_ms / 1000
        held, full, slept = started + self._most_wait, self._enough(size), 0.0
        while not self._stop.is_set():
            waiting = len(merge)
            wait = MORE_SECONDS - slept if waiting else self._idle()
            fetched, slept = 0 if full else self._poll(size, max(wait, 0.0)), 0.0
            now = time.monotonic()
            if fetched or full:  # only polls without records count as waiting
                held = now + self._most_wait
            if self._enough(size) or now >= deadline or not fetched:
                clock = max(time.time_ns() // 1_000_000, since)
                batch = merge.take(
                    size,
                    self._owner.ends(),
                    now=clock,
                    wait=now < held,
                    max_bytes=self._max_bytes,
                )
                if batch is not None or not len(merge):
                    return batch, clock
            elif len(merge) < size and len(merge) - waiting < few:
                slept = min(self._commit.max_delay_ms / 1000 / POLLS, deadline - now)
                time.sleep(slept)
            full = False  # what is merged waits for an input that is behind
        return None, since

    def _idle(self) -> float:
        """How long a poll may wait for a record. Only after it can the loop do anything else."""
        most = INPUT_SECONDS * len(self._merge.inputs)
        return max(IDLE_SECONDS, min(most, MOST_IDLE_SECONDS, self._most_idle))

    def _enough(self, size: int) -> bool:
        """Whether a commit can be full or have the last records, or the merge may not grow."""
        merge = self._merge
        if merge.nbytes >= self._max_bytes:
            return True
        if len(merge) >= size and not merge.short(size, self._owner.ends()):
            return True
        return self._until is not None and len(merge) > 0 and self._complete(self._until)

    def _complete(self, until: Mapping[Partition, int]) -> bool:
        """Whether all records before these ends were polled. A log may end in markers."""
        ends, merge = self._owner.ends(), self._merge
        return all(merge.position(p) >= min(end, ends.get(p, end)) for p, end in until.items())

    def _poll(self, size: int, seconds: float) -> int:
        """Poll once, and merge the records. Returns how many chunks came."""
        ends = self._owner.ends()
        share, short = self._merge.share(ends), self._merge.short(size, ends)
        fetched = self._owner.poll(
            max_records=size,
            timeout=seconds,
            skip={*self._merge.inputs} - short if short else self._merge.full(2 * size, share),
            max_bytes=self._merge.room,
            each=share,
        )
        self._most_idle = self._polled()
        self._merge.add(fetched)
        return len(fetched)


CONFIRM_SECONDS = 5.0  # time in which an idle owner may not notice that it was fenced
DOUBT_SECONDS = 2 * CONFIRM_SECONDS  # an answer comes much sooner, unless the broker is overloaded


class Ownership:
    """The time of the last proof.

    Parameters
    ----------
    clock
        Monotonic seconds.

    Attributes
    ----------
    idle : bool
        Whether the process has nothing to commit. A commit that takes long is no reason for doubt.
    confirmations : int
        How often the log has answered.

    Examples
    --------
    >>> now = 0.0
    >>> own = Ownership(lambda: now)
    >>> own.idle, now = True, 6.0
    >>> own.due, own.doubt
    (True, '')
    >>> now = 11.0
    >>> own.doubt
    'the log has not confirmed for 11 s that this process owns the shard'
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self.confirmations = clock, 0
        self.proven()

    def proven(self) -> None:
        """Note a proof."""
        self._at, self.idle = self._clock(), False

    def confirm_if_due(self, owner: Owner, positions: Mapping[Partition, int]) -> None:
        """Ask the log, without records to commit; the owner's errors."""
        if self.due:
            owner.confirm(positions)
            self.confirmations += 1
            self.proven()

    @property
    def due(self) -> bool:
        """Whether to ask the log."""
        return self._clock() - self._at > CONFIRM_SECONDS

    @property
    def doubt(self) -> str:
        """Why it may no longer be the owner; "" without a doubt."""
        silent = self._clock() - self._at
        if not self.idle or silent <= DOUBT_SECONDS:
            return ""
        return f"the log has not confirmed for {silent:.0f} s that this process owns the shard"


def hidden(
    log: Log, owner: Owner, positions: Mapping[Partition, int]
) -> dict[Partition, Uncommitted]:
    """The records of each input that open transactions keep from a drain.

    The end that an owner knows counts them, and the end of the committed records does not.
    `positions` are the next offsets of the inputs.
    """
    ends = owner.ends()
    behind = [p for p, end in ends.items() if end > positions.get(p, 0)]
    stable = log.end_offsets(behind) if behind else {}
    found = {p: Uncommitted(at, ends[p] - at, 0.0) for p, at in stable.items() if at < ends[p]}
    return {**found, **owner.uncommitted()}


def reached(
    at: Mapping[Partition, int], until: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> bool:
    """Whether every input is at its end. A log may end in markers, which are not records.

    An input is also at its end if `ends` shows that it has no further records.
    """
    return all(at[p] >= end or at[p] >= ends.get(p, end) for p, end in until.items())
