"""The interface of a transport: a log of topics, and the transactional owner of a shard.

`Log` is for every client: describe topics, read, append. `Owner` is only for the owner of a shard:
poll the inputs, and commit outputs, journal record and offsets as one unit. Creating an owner
fences every older owner of the same name and shard: its next commit raises `FencedError`.

Every method may raise `TransportError`. After any error of an owner the caller discards it and
starts over by recovery. It never retries the call.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import closing
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from consumers.base.records import (
    UNBOUNDED,
    Fetched,
    Outgoing,
    Partition,
    Record,
    Topic,
    TopicSettings,
    TransactionRules,
    Uncommitted,
)

__all__ = [
    "ANY",
    "Assigned",
    "Demand",
    "Log",
    "Member",
    "Owner",
    "Unfinished",
    "first_offsets",
    "nothing",
]


class Demand(Protocol):
    """What the caller of `Log.read` can take next; requested before each chunk."""

    @property
    def room(self) -> int:
        """Maximum size of the next chunk in bytes."""

    def full(self) -> Collection[Partition]:
        """Partitions to skip for now. At least one other partition has records left."""


class _Any:
    """No limit."""

    room = UNBOUNDED

    def full(self) -> Collection[Partition]:
        return ()


ANY: Demand = _Any()


class Unfinished:
    """A demand for the partitions that are not done.

    Parameters
    ----------
    partitions
        All partitions that are read.

    Attributes
    ----------
    partitions : set
        Those that are not done. The caller removes one, and stops reading when none is left.
    """

    room = UNBOUNDED

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self.partitions = set(partitions)
        self._all = frozenset(self.partitions)

    def full(self) -> Collection[Partition]:
        """Partitions that are done."""
        return self._all - self.partitions


def first_offsets(
    log: Log,
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    wanted: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
) -> dict[Partition, int]:
    """The offset of the first record with a wanted timestamp in each partition, or its end."""
    out = dict(ends)
    left = Unfinished(p for p in starts if starts[p] < ends[p])
    some = {p: starts[p] for p in left.partitions}
    if not some:
        return out
    with closing(log.read(some, {p: ends[p] for p in some}, demand=left)) as chunks:
        for chunk in chunks:
            found = np.flatnonzero(wanted(np.asarray(chunk.timestamps, dtype=np.int64)))
            if found.size and chunk.partition in left.partitions:
                out[chunk.partition] = int(chunk.offsets[int(found[0])])
                left.partitions.discard(chunk.partition)
            if not left.partitions:
                break
    return out


def nothing() -> None:
    """What a caller of `Log.follow` does by default while no record arrives."""


class Log(Protocol):
    """A log of topics. Safe for one thread."""

    def topics(self) -> dict[str, int]:
        """Topic to its number of partitions."""

    def describe(self, topics: Collection[str]) -> dict[str, Topic]:
        """The description of these topics. Topics that do not exist are missing from the result."""

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic. Nothing happens if it exists."""

    def beginning_offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The first retained offset of each. TransportError for an unknown topic."""

    def end_offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The offset after the last committed record of each."""

    def offsets_at(self, partitions: Sequence[Partition], timestamp: int) -> dict[Partition, int]:
        """The first offset of each whose record is at or after `timestamp` (ms), or its end."""

    def read(
        self,
        starts: Mapping[Partition, int],
        ends: Mapping[Partition, int],
        *,
        demand: Demand = ANY,
    ) -> Generator[Fetched, None, None]:
        """Committed records of each partition from its start up to its end, in chunks.

        A reader that stops early closes the generator, because it may hold a connection.

        Chunks of one partition come in order; partitions interleave. It ends when every partition
        has reached its end. `starts` and `ends` have the same keys. A chunk is a few MiB at most,
        except for one larger record; Kafka returns everything that a fetch returned.

        Parameters
        ----------
        demand
            Limits of the caller.
        """

    def follow(
        self,
        starts: Mapping[Partition, int],
        *,
        poll_seconds: float,
        idle: Callable[[], None] = nothing,
    ) -> Iterator[Record]:
        """Committed records as they arrive, for ever; partitions in any order.

        `idle` is called, while the caller waits for a record, each time that there was no new one.
        """

    def append(self, records: Sequence[Outgoing]) -> list[tuple[int, int]]:
        """Write records durably. Returns when they are acknowledged.

        Returns
        -------
        list of tuple
            Partition and offset of each record, in the order of `records`.
        """

    def owner(self, name: str, shard: int, inputs: Sequence[Partition]) -> Owner:
        """Become the owner of a shard, and fence the previous one.

        Parameters
        ----------
        name
            The service's name: consumer group and prefix of the transactional id.
        shard
            Number of the shard.
        inputs
            The partitions it consumes.
        """

    def committed(self, name: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The committed offsets of a service's group, for partitions that have one.

        Parameters
        ----------
        name
            Name of the service.
        """

    def member(self, name: str, topic: str, standbys: int) -> Member | None:
        """Join the group of a service, which assigns its shards to processes.

        None if the log has no groups. Then one process runs every shard.

        Parameters
        ----------
        name
            Name of the service.
        topic
            Its journal, with one partition per shard.
        standbys
            How many other processes follow each shard, as far as there are so many.
        """

    def topic_settings(self, topics: Collection[str]) -> dict[str, TopicSettings]:
        """How long these topics are kept. Empty if the log keeps every record for ever."""

    def transaction_rules(self) -> TransactionRules | None:
        """What a broker knows of the transaction of a request. None if each is one call."""

    def check_writable(self, name: str) -> None:
        """Check that this process may write, without writing and without fencing anybody.

        Parameters
        ----------
        name
            Name of the service.

        Raises
        ------
        TransportError
            It may not.
        """

    def close(self) -> None:
        """Release all resources."""


class Assigned(NamedTuple):
    """The shards that a process runs, and those that it follows."""

    runs: frozenset[int]
    follows: frozenset[int]


class Member(Protocol):
    """A process in the group of a service."""

    def assigned(self) -> Assigned | None:
        """The shards of this process, as far as it knows; None before it has joined. Never blocks.

        While it is not in the group, it runs none, and follows those that it followed before.
        """

    def caught_up(self, shards: frozenset[int]) -> None:
        """Report the followed shards that have reached the end of their journals. Never blocks.

        A shard moves here from a living process only if it is among them.
        """

    def close(self) -> None:
        """Leave the group."""


class Owner(Protocol):
    """The one process that consumes a shard's inputs and commits.

    Attributes
    ----------
    fenced
        Number of the process on this machine that owned the shard and still runs; "" if no such
        process is known.
    """

    fenced: str

    def seek(self, positions: Mapping[Partition, int]) -> None:
        """Start polling each input at its position. Called once, with every input."""

    def poll(
        self,
        *,
        max_records: int,
        timeout: float,
        skip: Collection[Partition] = (),
        max_bytes: int = UNBOUNDED,
        each: int = UNBOUNDED,
    ) -> list[Fetched]:
        """Records from the inputs, not merged; empty if none arrived within `timeout` seconds.

        A partition's records come in offset order, without repeats or omissions. Records of `skip`
        are left for a later call. The records have at most `max_bytes` together
        (`Fetched.nbytes`), and those of a partition at most `each`, except that the last one may
        exceed it.
        """

    def ends(self) -> dict[Partition, int]:
        """The newest known end of each input. The merge waits for lagging partitions.

        A partition with an unknown end is missing from the result.
        """

    def uncommitted(self) -> dict[Partition, Uncommitted]:
        """The records of each input that open transactions of other producers hide.

        It refers to the last call of `ends`, which does not count these records. Inputs without
        any are missing from the result.
        """

    def commit(
        self, records: Sequence[Outgoing], journal: Outgoing, positions: Mapping[Partition, int]
    ) -> int:
        """Write records, journal record and the group's offsets: all of them, or none.

        Returns
        -------
        int
            The offset of the journal record.

        Raises
        ------
        FencedError
            Another owner has taken over; nothing was written.
        TransportError
            It is unknown whether they were written. Recovery finds out.
        """

    def confirm(self, positions: Mapping[Partition, int]) -> None:
        """Check the ownership, for an owner that has nothing to commit.

        `positions` are those of the last commit. FencedError if another owner has taken over.
        """

    def overtaken(self) -> bool:
        """Whether another owner has taken over. It also works after a failure or `close`.

        A process that lost the connection to the log calls this before it takes the shard again,
        because that would fence its successor. False if the log cannot know.
        """

    def committed(self) -> dict[Partition, int]:
        """The group's committed offsets, for cross-checks. The journal is the truth."""

    def close(self) -> None:
        """Stop polling. The ownership ends with the next owner."""
