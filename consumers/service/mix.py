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
from collections.abc import Callable, Sequence

from consumers.base.records import Outgoing, Partition
from consumers.config import Config
from consumers.config.units import counted, duration_ms
from consumers.journal import records as journal
from consumers.journal import statistics
from consumers.journal.model_parts import parts_of
from consumers.journal.records import MixRecord, PeerStatistics
from consumers.journal.statistics import Published
from consumers.service.live import LiveShard, Sources
from consumers.shard.shard import Shard
from consumers.shard.views import Peer
from consumers.transports.protocol import Log, Owner
from stream.data.state import State
from stream.errors import StateError

__all__ = ["Mixer", "apply_mix"]

log = logging.getLogger("headwater")


def apply_mix(of: Log, topic: str, peers: Sequence[PeerStatistics], shard: Shard) -> None:
    """Predict with these statistics of other shards from now on.

    Raises
    ------
    TransportError
        The topic no longer holds them.
    """
    if not shard.mix.active:
        return  # with these settings it does not mix
    taken = {}
    for peer in peers:
        try:
            found = statistics.read(of, topic, peer)
        except StateError:
            found = Published(peer.shard, 0, 0, {"": State()})  # of no model: refused
        taken[peer.shard] = Peer(peer.end, found.now, found.learned), found.models
    shard.mix.take(taken)


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
        self._log, self._owner, self._live, self._found = of, owner, live, found
        self._clock, self._journal = clock, found.journal
        self._topic = found.mix
        self._seconds = duration_ms(config.scale.mix or "1m") / 1000
        self._next = 0.0
        self._published: tuple[int, int] | None = None  # learned and corrected labels by then
        self._taken = False
        shards = range(config.scale.shards)
        self._others = [Partition(self._topic, n) for n in shards if n != live.shard.spec.number]

    def due(self) -> bool:
        """Whether it is time for a mix."""
        return self._clock() >= self._next

    def step(self, now: int) -> bool:
        """Publish, and take over what is new. False if nothing is.

        Parameters
        ----------
        now
            The clock in ms to journal.

        Raises
        ------
        FencedError, TransportError
            From the owner and the log. The shard in memory may then be ahead of the log and must be
            discarded.
        """
        self._next = self._clock() + self._seconds
        live, shard = self._live, self._live.shard
        at = self._learned()
        peers, outputs = self._newer(), list[Outgoing]()
        now = max(now, live.now)
        if at != self._published and at != (0, 0):
            outputs = self._own(now)
        if not peers and not outputs:
            return False
        apply_mix(self._log, self._topic, peers, shard)
        entry = MixRecord(live.seq + 1, now, live.chain, peers, live.entry.settings)
        record = journal.written(entry, self._journal, now)
        offset = self._owner.commit(outputs, record, shard.positions)
        live.advance_past(entry, offset)
        self._report(outputs, peers)
        if outputs:
            self._published = at
        return True

    def _learned(self) -> tuple[int, int]:
        shard = self._live.shard
        return shard.learned, shard.join.outcomes["corrected"]

    def _newer(self) -> list[PeerStatistics]:
        """The newest statistics of each other shard that were not taken over yet."""
        known = self._live.shard.mix.peers
        ends = self._log.end_offsets(self._others)
        begins: dict[Partition, int] = {}
        found = []
        for partition in self._others:
            start = known[partition.number].end if partition.number in known else 0
            if start >= ends[partition]:
                continue
            begins = begins or self._log.beginning_offsets(self._others)
            first = max(start, begins[partition])
            found.append(statistics.newest(self._log, partition, first, ends[partition]))
        return [peer for peer in found if peer is not None]

    def _own(self, now: int) -> list[Outgoing]:
        shard = self._live.shard
        number = shard.spec.number
        published = Published(number, now, shard.learned, shard.mix.statistics())
        data = statistics.to_bytes(published)
        return list(parts_of(data, Partition(self._topic, number), now))

    def _report(self, outputs: Sequence[Outgoing], peers: Sequence[PeerStatistics]) -> None:
        """The first mix of a start, as a line in the log."""
        if self._published is None and outputs:
            size = sum(len(record.value or b"") for record in outputs)
            log.info(
                "publishes what it has learned to %s, %s at present",
                self._topic,
                counted(size, "byte"),
            )
        if peers and not self._taken:
            self._taken = True
            known = self._live.shard.mix.peers.values()
            log.info(
                "predicts with the statistics of %d of %d other shards, which have learned %s",
                len(known),
                len(self._others),
                counted(sum(peer.learned for peer in known), "label"),
            )
