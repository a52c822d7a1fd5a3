"""Accept the inputs of a shard as far as they are the consumed logs, and watch them while it runs.

What differs is in `differences`. It is looked for at each start, whenever an owner starts again,
and while it runs: topic ids before records are committed, last records after a leader election. An
operator decides what a difference means, and the decision is journaled.

The journal may lose records in the same ways. A running owner would write the next record after the
gap. So its last record is compared too, after an election and when a commit lands before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from consumers.base.errors import ConfigError, InputChangedError, JournalLostError, TransportError
from consumers.base.records import Partition, Topic
from consumers.config import Config
from consumers.journal.records import InputsRecord, JournalRecord, Range
from consumers.service.commit import amend
from consumers.service.differences import Decision, Differences, changed, differences, restarted
from consumers.service.live import LiveShard, Sources, apply_inputs
from consumers.service.partitioning import objections
from consumers.snapshots.locate import RemainingJournal
from consumers.transports.protocol import Log, Owner

__all__ = ["LogWatch", "settle"]

LOOK_SECONDS = 0.05  # records are committed only if the log was checked at most this long ago,
SHARE = 50  # or this many times the duration of a check, so that checks take 2 % of the time
IDLE_SECONDS = 1.0  # longest time between two checks, also without records to commit
LOOKS = 50  # at a journal that ends early, because a broker may show a commit with a delay:
PAUSE_SECONDS = 0.1  # between two of them
OBJECT_SECONDS = 60.0  # between two checks whether `[scale] shards` allows refused partitions


def settle(
    config: Config,
    log: Log,
    owner: Owner,
    found: Sources,
    live: LiveShard,
    save: Callable[[], None],
    *,
    now: int,
    decision: Decision | None = None,
) -> None:
    """Accept the inputs of the log as far as they are clear. `live.news` describes the changes.

    Parameters
    ----------
    save
        Writes a snapshot of `live`, because the consumed records of a restarted topic cannot be
        replayed.
    decision
        The operator's decision about changed inputs: `new` restarts them, `same` continues.

    Raises
    ------
    InputChangedError
        An input differs from what was consumed, and there is no decision or it does not apply.
    ConfigError
        Partitions were added, and `[scale] shards` does not allow them.
    TransportError
        A partition no longer exists; or from the owner.
    """
    seen = differences(log, found.inputs, live.shard.positions, live.topics, live.tails)
    live.described = seen.topics
    ids = {topic: known.id for topic, known in seen.topics.items() if known.id}
    live.adopting = {
        t: made for t, made in ids.items() if live.topics.get(t) != made and t not in seen.renewed
    }
    live.news += tuple(
        f"{topic} has a new id, but nothing of it was consumed: continued"
        for topic in sorted(live.adopting.keys() & live.topics)
    )
    if without := [topic for topic in seen.topics if topic not in ids]:
        live.news += (f"{', '.join(without)}: no topic id, so only the last records are compared",)
    again = restarted(seen, live.shard.positions, decision)
    gone = [p for p in seen.gone if p.topic in seen.renewed and decision == "new"]
    if len(gone) < len(seen.gone):
        left = next(p for p in seen.gone if p not in gone)
        raise TransportError(
            f"{left} was consumed and no longer exists; the model cannot continue without it: "
            "restore the topic, or give the service a new name"
        )
    if seen.added and config.scale.shards > 1:
        for objection in objections(config, log):
            raise ConfigError(objection)
    if not (again or gone or seen.added or seen.renewed):
        if decision is not None:
            live.news += (f"no input has changed: --{_FLAGS[decision]} changes nothing",)
        return
    if again or gone:
        if live.shard.unsaved:
            raise ConfigError(
                f"{', '.join(live.shard.unsaved)} is not saved in snapshots, so the model would be "
                "lost at the next start: give the service a new name"
            )
        save()
    starts = log.beginning_offsets([*again, *seen.added])
    why = _FLAGS[decision] if decision and (seen.renewed or seen.changed) else "partitions added"
    topics = live.adopting | {topic: ids[topic] for topic in seen.renewed}
    _write(owner, found, live, starts, gone, topics, why, now)
    live.news += _news(seen, again, starts, decision)


_FLAGS: Mapping[Decision, str] = {"new": "accept-new-topic", "same": "same-topic"}


def _write(
    owner: Owner,
    found: Sources,
    live: LiveShard,
    starts: Mapping[Partition, int],
    gone: Collection[Partition],
    topics: dict[str, str],
    reason: str,
    now: int,
) -> None:
    """Apply the journal record and commit it. If that fails, the shard in memory is discarded."""
    entry = InputsRecord(
        **live.heading(now),
        starts=[(*p, at) for p, at in sorted(starts.items())],
        gone=[(*p,) for p in gone],
        topics=topics,
        reason=reason,
    )
    apply_inputs(entry, live)
    amend(owner, live, found.journal, entry)
    live.adopting = {}


def _news(
    seen: Differences,
    again: Collection[Partition],
    starts: Mapping[Partition, int],
    decision: Decision | None,
) -> tuple[str, ...]:
    news = [f"{p} restarts at offset {starts[p]}" for p in sorted(again)]
    news += [f"{p} was added and is read from offset {starts[p]}" for p in seen.added]
    if decision == "same":
        news += [f"{topic} has a new id and the same records: continued" for topic in seen.renewed]
    return tuple(news)


_WAYS = "Restore the journal topic, or give the service a new name"


class LogWatch:
    """Checks the inputs and the journal of a running shard.

    Parameters
    ----------
    log
        Called in the thread of the processing loop.
    live
        The shard when its owner starts.
    clock
        Seconds.
    """

    def __init__(
        self, config: Config, log: Log, found: Sources, live: LiveShard, clock: Callable[[], float]
    ) -> None:
        self._config, self._log, self._clock = config, log, clock
        self._inputs, self._journal = found.inputs, found.journal
        self._seen = live.described  # elections since then are not checked yet
        self._tails: dict[Partition, Range] = {}  # at the last check without a finding
        self._at = self._asked_at = self._objected_at = float("-inf")
        self._missing = False
        self._took = 0.0
        self._objection = ""
        self.unread: list[Partition] = []
        self.look(live)

    def due(self, *, idle: bool) -> bool:
        """Whether the last check is too long ago to commit records polled since.

        An idle shard does not query an unresponsive log in every loop.
        """
        if idle:
            return self._clock() - self._asked_at >= IDLE_SECONDS
        patience = min(max(LOOK_SECONDS, SHARE * self._took), IDLE_SECONDS)
        return self._clock() - self._at >= patience

    @property
    def objection(self) -> str:
        """Why added partitions are not read; empty if all are read."""
        return self._objection if self.unread else ""

    def look(self, live: LiveShard) -> bool:
        """Check the log. Returns whether there are partitions to add.

        Raises
        ------
        InputChangedError
            An input differs from what was consumed.
        JournalLostError
            The journal has lost records of this shard.
        TransportError
            The log does not answer, or an input or the journal is missing.
        """
        names = sorted({p.topic for p in self._inputs})
        self._asked_at = self._clock()
        now = self._log.describe([*names, self._journal.topic])
        self._took = self._clock() - self._asked_at
        self._missing = self._present(names, now)
        for topic in names:
            self._check(topic, now[topic], live)
        moved = [p for p in self._inputs if self._epoch(now, p) > self._epoch(self._seen, p)]
        if self._seen and moved:
            self._compare(moved, live)
        if self._led(now) != self._led(self._seen):
            self._compare_journal(live)
        # The time before the request: what happens during a comparison is not checked yet.
        self._seen, self._tails, self._at = now, dict(live.tails), self._asked_at
        shards, own = self._config.scale.shards, live.entry.shard
        every = [Partition(t, n) for t in names for n in range(own, now[t].partitions, shards)]
        self.unread = [p for p in every if p not in live.shard.positions]
        return bool(self.unread) and not self._refused()

    def _present(self, names: Sequence[str], now: Collection[str]) -> bool:
        """Raise an error if a topic is missing. The second time in a row it counts as deleted."""
        missing = [topic for topic in (*names, self._journal.topic) if topic not in now]
        if not missing:
            return False
        before, self._missing = self._missing, True
        if missing[0] == self._journal.topic:
            lost = JournalLostError if before else TransportError
            raise lost(f"the journal {missing[0]} was deleted while the service ran. {_WAYS}")
        error = InputChangedError if before else TransportError
        raise error(
            f"expected the input topic {missing[0]}, but it was deleted; restore it, or recreate "
            "it and run with --accept-new-topic"
        )

    def _check(self, topic: str, now: Topic, live: LiveShard) -> None:
        known = live.adopting.get(topic) or live.topics.get(topic, "")
        if known and now.id and known != now.id:
            raise InputChangedError(
                f"{topic} was deleted and recreated while it was consumed: expected id {known}, "
                f"got {now.id}; headwater run --accept-new-topic starts it at its first record"
            )

    def _compare(self, moved: Sequence[Partition], live: LiveShard) -> None:
        """Check after an election that the new leader has the consumed records."""
        positions = {p: live.shard.positions[p] for p in moved}
        for tails in (self._tails, live.tails):
            for partition, why in changed(self._log, positions, tails)[0].items():
                raise InputChangedError(
                    f"{partition} {why}: its new leader has lost consumed records; "
                    "headwater run --accept-new-topic starts it at its first record"
                )

    def _led(self, topics: Mapping[str, Topic]) -> tuple[str, int] | None:
        """Which topic and leader holds the journal; None at the first check."""
        about = topics.get(self._journal.topic)
        return None if about is None else (about.id, self._epoch(topics, self._journal))

    def _compare_journal(self, live: LiveShard) -> None:
        """Check that the journal still has the last record of this shard."""
        for more in range(LOOKS, 0, -1):
            last, end = self._last(live.position)
            chain = getattr(last, "chain", "")  # record 0 has none
            if last is None and end >= live.position:  # retention has deleted all of it
                return
            if last is not None and (last.seq, chain) == (live.seq, live.chain):
                return
            if end >= live.position or more == 1:
                break
            time.sleep(PAUSE_SECONDS)
        kept = "is empty" if last is None else f"ends with record {last.seq}"
        raise JournalLostError(
            f"the journal {self._journal} has lost its newest records while the service ran: it "
            f"{kept}, where record {live.seq} was committed (position {live.position}). Nothing "
            f"was committed since. {_WAYS}"
        )

    def journaled(self, live: LiveShard, at: int) -> None:
        """Check a commit whose journal record, at this offset, is before the known end.

        Raises
        ------
        JournalLostError
            Records before it are missing.
        """
        last, _ = self._last(at)
        if last is not None and last.seq == live.seq - 1:
            return  # only the traces of aborted commits are gone
        kept = "nothing" if last is None else f"record {last.seq}"
        ways = (
            f"{_WAYS}; or roll it back to before the gap"
            if live.shard.unsaved
            else f"Start it again: it continues from its snapshot at position {live.position}; "
            "without that snapshot the model cannot be rebuilt"
        )
        raise JournalLostError(
            f"the journal {self._journal} has lost records while the service ran: record "
            f"{live.seq}, at position {at}, follows {kept}. {ways}"
        )

    def _last(self, position: int) -> tuple[JournalRecord | None, int]:
        """The last journal record before a position, and the journal's end."""
        first = self._log.beginning_offsets([self._journal])[self._journal]
        end = self._log.end_offsets([self._journal])[self._journal]
        left = RemainingJournal(self._log, self._journal, first, end, 0)
        return left.last(min(position, end)), end

    def _epoch(self, topics: Mapping[str, Topic], partition: Partition) -> int:
        epochs = topics[partition.topic].epochs if partition.topic in topics else ()
        return epochs[partition.number] if partition.number < len(epochs) else -1

    def _refused(self) -> bool:
        """Whether `[scale] shards` does not allow the new partitions; checked periodically."""
        if self._config.scale.shards == 1:
            return False
        if self._clock() - self._objected_at >= OBJECT_SECONDS:
            self._objection = next(iter(objections(self._config, self._log)), "")
            self._objected_at = self._clock()
        return bool(self._objection)
