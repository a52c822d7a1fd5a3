"""A Kafka in memory: partitions with markers, the last stable offset, transactions, fencing.

Rule: it does what a broker does for clients that speak kafka-python's versions of the protocol, one
call after the other, by a clock that stands still unless it is moved. It never lies; what a client
makes of its answers is `client.py`.

A request names producer and epoch, and no transaction. So one that comes late acts on whatever
transaction the producer has open by then: a commit tears it, and what is written afterwards belongs
to none. KIP-890 gives three kinds of broker (`PROTOCOLS`):

unverified  before 3.6: such a record hangs, and keeps back every reader of committed records
verified    from 3.6 on, and 4.x for a client of the old protocol: such a record is refused
numbered    `transaction.version` 2 and a client that speaks it, which kafka-python does not: the
            epoch of each transaction is another one, and what is late is refused
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka.errors import (
    InvalidProducerEpochError,
    InvalidTimestampError,
    InvalidTxnStateError,
    ProducerFencedError,
    UnknownTopicOrPartitionError,
)

__all__ = ["PROTOCOLS", "START", "VERIFIED", "Broker", "Clock", "Record"]

OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"
PROTOCOLS = UNVERIFIED, VERIFIED, NUMBERED = "unverified", "verified", "numbered"
NODES = 3
START = 1_800_000_000.0
AFTER_MAX = 3_600_000  # ms a timestamp may be ahead of the clock: the default of a topic


class Clock:
    """Stands in for the module `time`: it moves when it is told to, and a hair at each look."""

    def __init__(self) -> None:
        self.now = START

    def monotonic(self) -> float:
        """Seconds."""
        self.now += 1e-6
        return self.now

    time = perf_counter = monotonic

    def sleep(self, seconds: float) -> None:
        """It takes no time of the real clock."""
        self.now += seconds

    def time_ns(self) -> int:
        """Nanoseconds since 1970."""
        return int(self.monotonic() * 1e9)


class Record(NamedTuple):
    """What lies at an offset; a marker has no value and no key, and nobody is given it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    transaction: _Transaction | None = None
    marker: bool = False
    epoch: int = 0  # of the leader that wrote it


@dataclass
class _Replicas:
    """Where a partition lies: three nodes, one of which leads, some of which have fallen behind.

    `behind` is where the log of such a node ends; the others have all of it. Nobody waits for it.
    """

    leader: int = 0
    epoch: int = 0
    behind: dict[int, int] = field(default_factory=dict)


@dataclass(eq=False)
class _Transaction:
    """What a producer has written and not yet ended, or has."""

    deadline: float
    status: str = OPEN
    first: dict[TopicPartition, int] = field(default_factory=dict)  # of its records
    offsets: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)


@dataclass
class _Producer:
    """What the coordinator knows of a transactional id."""

    id: int
    timeout: float
    epoch: int = -1
    state: str = "Empty"
    timed_out: bool = False  # it was this coordinator that ended the last transaction
    transaction: _Transaction | None = None
    hanging: dict[TopicPartition, _Transaction] = field(default_factory=dict)


class _Late(NamedTuple):
    """A request of a producer that is still on its way."""

    after: float
    name: str
    epoch: int
    act: Callable[[_Producer], None]


class Broker:
    """The brokers of a cluster, as one: each coordinates everything, and three keep each partition.

    A topic may be deleted and made again, get partitions, and lose what a node that is elected does
    not have. `versions` keeps every log there ever was.

    Parameters
    ----------
    clock
        Transactions end by it that are not ended in time.
    protocol
        One of `PROTOCOLS`.
    """

    def __init__(self, clock: Clock, protocol: str = VERIFIED) -> None:
        self._clock, self._protocol = clock, protocol
        self._parts: dict[TopicPartition, list[Record]] = {}
        self._open: dict[TopicPartition, dict[_Transaction, int]] = {}
        self._producers: dict[str, _Producer] = {}
        self._late: list[_Late] = []
        self._made = 0
        self._replicas: dict[TopicPartition, _Replicas] = {}
        self.topics: dict[str, int] = {}
        self.permissive: set[str] = set()  # topics that take any timestamp
        self.ids: dict[str, str] = {}
        self.versions: dict[TopicPartition, list[list[Record]]] = {}
        self.offsets: dict[tuple[str, TopicPartition], int] = {}

    def create(self, topic: str, partitions: int) -> None:
        """Make a topic."""
        self._made += 1
        self.topics[topic], self.ids[topic] = 0, f"{self._made:032x}"
        self.widen(topic, partitions)

    def widen(self, topic: str, partitions: int) -> None:
        """Have so many partitions."""
        for n in range(self.topics[topic], partitions):
            part = TopicPartition(topic, n)
            self._parts[part], self._open[part] = [], {}
            self._replicas[part] = _Replicas()
            self.versions.setdefault(part, []).append(self._parts[part])
        self.topics[topic] = partitions

    def delete(self, topic: str) -> None:
        """Delete a topic; its log stays in `versions`."""
        for n in range(self.topics.pop(topic)):
            part = TopicPartition(topic, n)
            del self._parts[part], self._open[part], self._replicas[part]
        del self.ids[topic]

    def fall_behind(self, part: TopicPartition, at: int) -> None:
        """A follower has nothing from `at` on, and the leader goes on without it."""
        replicas = self._replicas[part]
        node = next(n for n in range(NODES) if n != replicas.leader)
        replicas.behind[node] = at

    def restore(self, topic: str) -> None:
        """Delete a topic and make it again with the same records at the same offsets."""
        logs = [self.log(TopicPartition(topic, n)) for n in range(self.topics[topic])]
        self.delete(topic)
        self.create(topic, len(logs))
        for n, log in enumerate(logs):
            self._parts[TopicPartition(topic, n)] += [r._replace(epoch=0) for r in log]

    def elect(self, part: TopicPartition) -> int:
        """The leader is lost; one that is in sync leads, or the one that has fallen behind.

        Returns how many records went with the old leader.
        """
        replicas, kept = self._replicas[part], self._parts[part]
        node, end = next(iter(replicas.behind.items()), (None, len(kept)))
        replicas.leader = (replicas.leader + 1) % NODES if node is None else node
        replicas.behind.clear()
        replicas.epoch += 1
        lost = len(kept) - end
        if lost:
            self._parts[part] = kept[:end]
            self.versions[part].append(self._parts[part])
        return lost

    def epoch(self, part: TopicPartition) -> int:
        """How many elections its leader is the outcome of."""
        return self._replicas[part].epoch

    def end_of(self, part: TopicPartition, epoch: int) -> int:
        """Where the records of leaders up to this one end (OffsetForLeaderEpoch)."""
        return next((r.offset for r in self.log(part) if r.epoch > epoch), self.end(part))

    def log(self, part: TopicPartition) -> list[Record]:
        """What there is of a partition."""
        if part not in self._parts:
            raise UnknownTopicOrPartitionError(str(part))
        return self._parts[part]

    def end(self, part: TopicPartition) -> int:
        """The high watermark."""
        self._settle()
        return len(self.log(part))

    def stable(self, part: TopicPartition) -> int:
        """The last stable offset: nothing at or behind it is of an open transaction."""
        end = self.end(part)
        return min(self._open.get(part, {}).values(), default=end)

    def fetch(self, part: TopicPartition, start: int, count: int, committed: bool) -> list[Record]:
        """Records from an offset on, markers and aborted ones among them; up to what is stable."""
        end = self.stable(part) if committed else self.end(part)
        return self.log(part)[start : min(start + count, end)]

    def committed(self, part: TopicPartition) -> Iterator[Record]:
        """What a reader of committed records is given, all of it."""
        for record in self._parts[part][: self.stable(part)]:
            if not record.marker and _status(record) in (None, COMMITTED):
                yield record

    def init(self, name: str, timeout: float, epoch: int | None = None) -> tuple[int, int]:
        """A producer's id and epoch; whoever had it before is fenced, what it has open aborted.

        With `epoch` it is a producer that goes on after an error, and must be the last one.
        """
        self._settle()
        known = self._producers.setdefault(name, _Producer(len(self._producers) + 1, timeout))
        if epoch is not None and epoch != known.epoch - known.timed_out:
            raise ProducerFencedError
        if known.transaction is not None:  # one for the fence that aborts it, one for the new owner
            self._end(known, commit=False)
            known.epoch += 1
        known.epoch += 1
        known.timeout, known.timed_out, known.state = timeout, False, "Empty"
        return known.id, known.epoch

    def known(self, name: str) -> tuple[int, int, str]:
        """Id, epoch and state of a transactional id."""
        self._settle()
        known = self._producers[name]
        return known.id, known.epoch, known.state

    def owners(self, name: str) -> list[int]:
        """The epochs that producers of this name have taken; not those of timeouts."""
        known = self._producers.get(name)
        return [] if known is None else [known.id, known.epoch - known.timed_out]

    def produce(
        self,
        name: str | None,
        epoch: int,
        part: TopicPartition,
        records: Sequence[tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes]]]],
        *,
        new: bool = True,
    ) -> int:
        """Append a batch; the offset of its first record. Without a name: no transaction.

        If the partition is `new`, the coordinator first adds it to the transaction.
        """
        self._settle()
        latest = max((timestamp for timestamp, *_ in records), default=0)
        if part.topic not in self.permissive and latest > self._clock.now * 1000 + AFTER_MAX:
            raise InvalidTimestampError
        transaction = None
        if name is not None:
            known = self._producers[name]
            if epoch != known.epoch:  # the coordinator knows who is fenced
                fenced = new and not known.timed_out
                raise ProducerFencedError if fenced else InvalidProducerEpochError
            transaction = self._transaction_of(known, part, new=new)
        kept = self.log(part)
        base = len(kept)
        epoch_of = self._replicas[part].epoch
        if transaction is not None:
            transaction.first.setdefault(part, base)
            self._open[part].setdefault(transaction, base)  # one that hangs too
        for timestamp, key, value, headers in records:
            kept.append(
                Record(
                    *(part.topic, part.partition, len(kept)),
                    *(timestamp, key, value, tuple(headers), transaction, False, epoch_of),
                )
            )
        return base

    def _transaction_of(self, known: _Producer, part: TopicPartition, *, new: bool) -> _Transaction:
        """The transaction that a record of this partition belongs to."""
        if new or (known.transaction is not None and part in known.transaction.first):
            return self._begun(known)
        if self._protocol != UNVERIFIED:
            raise InvalidTxnStateError
        return known.hanging.setdefault(part, _Transaction(float("inf")))

    def add_offsets(
        self, name: str, epoch: int, group: str, offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Offsets of a group that count once the transaction is committed.

        The members of the group are not checked: any client may commit offsets.
        """
        known = self._fenced(name, epoch)
        transaction = self._begun(known)
        transaction.offsets |= {(group, part): offset for part, offset in offsets.items()}

    def add_offsets_late(
        self, name: str, epoch: int, group: str, offsets: Mapping[TopicPartition, int], after: float
    ) -> None:
        """The same, but the request takes so long to come."""

        def act(known: _Producer) -> None:
            if known.transaction is not None:
                told = {(group, part): offset for part, offset in offsets.items()}
                known.transaction.offsets |= told

        self._late.append(_Late(self._clock.now + after, name, epoch, act))

    def finish(self, name: str, epoch: int, *, commit: bool) -> int:
        """End a transaction; the epoch of the next one.

        An end that was there already is answered like the first one: it may be its second copy.
        """
        state = "CompleteCommit" if commit else "CompleteAbort"
        known = self._producers[name]
        if self._protocol == NUMBERED and (epoch + 1, state) == (known.epoch, known.state):
            return known.epoch
        known = self._fenced(name, epoch)
        if known.transaction is not None:
            self._end(known, commit=commit)
            known.epoch += self._protocol == NUMBERED
        elif known.state != state:
            raise InvalidTxnStateError
        return known.epoch

    def finish_late(self, name: str, epoch: int, after: float, *, commit: bool) -> None:
        """The same, but the request takes so long to come."""
        act = partial(self._end, commit=commit)
        self._late.append(_Late(self._clock.now + after, name, epoch, act))

    def _begun(self, known: _Producer) -> _Transaction:
        if known.transaction is None:
            known.transaction = _Transaction(self._clock.now + known.timeout)
            known.state, known.timed_out = "Ongoing", False
        return known.transaction

    def _fenced(self, name: str, epoch: int) -> _Producer:
        self._settle()
        known = self._producers[name]
        if epoch != known.epoch:
            raise ProducerFencedError
        return known

    def _settle(self) -> None:
        """What is due by now: requests that were on their way, and timeouts."""
        now = self._clock.now
        for request in [late for late in self._late if late.after <= now]:
            self._late.remove(request)
            known = self._producers[request.name]
            if known.epoch == request.epoch:
                request.act(known)
        for known in self._producers.values():
            if known.transaction is not None and now > known.transaction.deadline:
                self._end(known, commit=False)
                known.epoch += 1
                known.timed_out = True

    def _end(self, known: _Producer, *, commit: bool) -> None:
        transaction, known.transaction = known.transaction, None
        if transaction is None:
            return
        known.state = "CompleteCommit" if commit else "CompleteAbort"
        ended = [known.hanging.pop(p) for p in transaction.first if p in known.hanging]
        for each in (transaction, *ended):
            each.status = COMMITTED if commit else ABORTED
        for part in transaction.first:
            if part not in self._parts or transaction not in self._open[part]:
                continue  # the topic was deleted meanwhile
            kept = self._parts[part]
            epoch = self._replicas[part].epoch
            kept.append(Record(*part, len(kept), 0, None, None, (), None, True, epoch))
            for each in (transaction, *ended):
                self._open[part].pop(each, None)
        if commit:
            self.offsets |= transaction.offsets


def _status(record: Record) -> Any:
    return None if record.transaction is None else record.transaction.status
