"""The shards of a service exchange what they have learned. Every mix is one journal record.

1. look      for newer statistics of the other shards, in their partitions of the mix topic
2. publish   the own statistics in the own partition, if labels were learned since the last time
3. journal   which statistics of others count from here on, in the same transaction
4. predict   with the merge of all statistics

So predictions depend on the journal, the inputs and the mix topic only, and a replay repeats them.
The wall clock decides only when a mix is made.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from consumers.base.counts import counted
from consumers.base.records import Outgoing, Partition
from consumers.base.units import duration_ms
from consumers.config import Config
from consumers.journal import statistics
from consumers.journal.model_parts import parts_of
from consumers.journal.records import MixRecord, PeerStatistics
from consumers.journal.statistics import Statistics
from consumers.service.commit import amend
from consumers.service.live import LiveShard, Sources
from consumers.shard.views import Peer
from consumers.transports.protocol import Log, Owner
from stream.data.state import State
from stream.errors import StateError

__all__ = ["Mix", "Mixer", "mixer_of", "taken"]

log = logging.getLogger("headwater")


Taken = dict[int, tuple[Peer, Mapping[str, State]]]


class Mix(NamedTuple):
    """What a mix will change: the statistics to publish, and those of others that count from here
    on, as a journal record names them and as read."""

    outputs: list[Outgoing]
    peers: list[PeerStatistics]
    taken: Taken

    @property
    def publishing(self) -> Mix | None:
        """The same without the statistics of others; None if there is nothing to publish."""
        return Mix(self.outputs, [], {}) if self.outputs else None


def taken(of: Log, topic: str, peers: Sequence[PeerStatistics]) -> Taken:
    """The statistics that a journal record names, as `ShardMix.take` takes them.

    Raises
    ------
    TransportError
        The topic no longer holds them.
    """
    return dict(_taken(peer, statistics.read(of, topic, peer)) for peer in peers)


def _taken(peer: PeerStatistics, data: bytes) -> tuple[int, tuple[Peer, Mapping[str, State]]]:
    try:
        found = statistics.from_bytes(data)
        if found.shard != peer.shard:
            raise StateError(f"expected those of shard {peer.shard}, got {found.shard}")
    except StateError:
        found = Statistics(peer.shard, 0, 0, {"": State()})  # of no model, so it is refused
    return peer.shard, (Peer(peer.end, found.now, found.learned), found.models)


class Mixer:
    """Mixes a running shard with the others, each time that it is due.

    Parameters
    ----------
    config
        With `[scale] mix`.
    of
        The log. It is called in the thread of the processing loop.
    clock
        Seconds that never go back.
    """

    def __init__(
        self,
        config: Config,
        of: Log,
        owner: Owner,
        live: LiveShard,
        found: Sources,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log, self._owner, self._live, self._clock = of, owner, live, clock
        self._journal, self._topic = found.journal, found.mix
        self._seconds = duration_ms(config.scale.mix or "1m") / 1000
        self._next = 0.0
        self._published: tuple[int, int] | None = None  # learned and corrected labels by then
        self._begun = self._told = self._taken = False
        self._looked: dict[Partition, int] = {}  # where a partition has nothing new before
        self._own = Partition(self._topic, live.shard.spec.number)
        every = (Partition(self._topic, n) for n in range(config.scale.shards))
        self._others = [partition for partition in every if partition != self._own]

    def due(self) -> bool:
        """Whether it is time for a mix."""
        return self._clock() >= self._next

    def look(self) -> Mix | None:
        """What is new, here and in the log; None if nothing is. Nothing changes.

        Raises
        ------
        TransportError
            From the log.
        """
        self._next = self._clock() + self._seconds
        at, ends = self._learned(), self._log.end_offsets([self._own, *self._others])
        self._check(ends)
        if not self._begun:
            self._begin(ends)
            self._begun = True
        outputs: list[Outgoing] = []
        # A rollback may have removed all that was learned and published.
        if at != self._published and (any(at) or ends[self._own]):
            outputs = self._statistics()
        newer = self._newer(ends)
        if not newer and not outputs:
            return None
        read = dict(_taken(peer, data) for peer, data in newer)
        return Mix(outputs, [peer for peer, _ in newer], read)

    def make(self, mix: Mix, now: int) -> None:
        """Publish the own statistics, and predict with those of the others.

        Parameters
        ----------
        now
            The clock in ms to journal.

        Raises
        ------
        FencedError, TransportError
            From the owner. The shard in memory is then ahead of the log and must be discarded.
        """
        live, at = self._live, self._learned()
        live.shard.mix.take(mix.taken)
        entry = MixRecord(**live.heading(now), peers=mix.peers)
        amend(self._owner, live, self._journal, entry, mix.outputs)
        self._report(mix)
        if mix.outputs:
            self._published = at

    def _check(self, ends: Mapping[Partition, int]) -> None:
        """TransportError if the topic has lost what the shard has taken over. Else what is
        published now would get the offsets of what the journal names."""
        for partition in self._others:
            known = self._live.shard.mix.peers.get(partition.number)
            if known is not None and known.end > ends[partition]:
                raise statistics.lost(partition, known.end - 1)

    def _begin(self, ends: Mapping[Partition, int]) -> None:
        """Find out whether the present statistics were published before this start."""
        first = self._log.beginning_offsets([self._own])[self._own]
        found = statistics.newest(self._log, self._own, first, ends[self._own])
        if found is None:
            return
        before = _taken(*found)[1][1]
        now = self._live.shard.mix.statistics()
        if before.keys() == now.keys() and all(before[name] == now[name] for name in now):
            self._published = self._learned()

    def _learned(self) -> tuple[int, int]:
        shard = self._live.shard
        return shard.learned, shard.join.outcomes["corrected"]

    def _newer(self, ends: Mapping[Partition, int]) -> list[tuple[PeerStatistics, bytes]]:
        """The newest statistics of each other shard that were not taken over yet."""
        known, begins = self._live.shard.mix.peers, dict[Partition, int]()
        found = []
        for partition in self._others:
            start = known[partition.number].end if partition.number in known else 0
            start = max(start, self._looked.get(partition, 0))
            if start >= ends[partition]:
                continue
            begins = begins or self._log.beginning_offsets(self._others)
            first = max(start, begins[partition])
            newest = statistics.newest(self._log, partition, first, ends[partition])
            if newest is not None:
                found.append(newest)
            else:  # the marker of a transaction, which is no record
                self._looked[partition] = ends[partition]
        return found

    def _statistics(self) -> list[Outgoing]:
        """What this shard has learned, as records of its partition."""
        shard, now = self._live.shard, self._live.now
        published = Statistics(self._own.number, now, shard.learned, shard.mix.statistics())
        return list(parts_of(statistics.to_bytes(published), self._own, now))

    def _report(self, mix: Mix) -> None:
        """Write the first mix of a start to the log."""
        if mix.outputs and not self._told:
            self._told = True
            size = sum(len(record.value or b"") for record in mix.outputs)
            log.info(
                "shard %d publishes what it has learned to %s, %s at present",
                self._own.number,
                self._topic,
                counted(size, "byte"),
            )
        if mix.peers and not self._taken:
            self._taken = True
            known = self._live.shard.mix.peers.values()
            log.info(
                "shard %d predicts with the statistics of %d of %d other shards, which have "
                "learned %s",
                self._own.number,
                len(known),
                len(self._others),
                counted(sum(peer.learned for peer in known), "label"),
            )


def mixer_of(
    config: Config, of: Log, owner: Owner, live: LiveShard, found: Sources
) -> Mixer | None:
    """The mixer of a running shard; None without `[scale] mix`."""
    return None if config.scale.mix is None else Mixer(config, of, owner, live, found)
