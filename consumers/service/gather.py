"""The records of the next commit, polled and merged.

A poll of Kafka has a fixed cost of a millisecond, and each record of a steady feed may come in a
poll of its own. So while few come, the loop sleeps between two polls. No record waits longer
because of that: the records until the deadline are in the same commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from consumers.base.records import Batch, Partition, Uncommitted
from consumers.config import Config
from consumers.journal.merge import Merge
from consumers.transports.protocol import Log, Owner

__all__ = ["Gatherer", "hidden"]

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
