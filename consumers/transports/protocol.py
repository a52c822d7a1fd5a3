"""What a transport is: a log of topics, and one owner's transactional way of consuming it.

`Log` is what anybody may do: look at topics, read, append. `Owner` is what only the owner of a
shard may do: poll the inputs and commit outputs, journal record and offsets as one. Opening an
owner fences every older owner of the same name and shard: its next commit raises `FencedError`.

Every method may raise `TransportError`; after any error of an owner the caller drops it and
starts over by recovery, never by retrying the call.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from typing import Protocol

from consumers.base.records import (
    UNBOUNDED,
    Fetched,
    Outgoing,
    Partition,
    Record,
    Topic,
    Uncommitted,
)

__all__ = ["ANY", "Demand", "Log", "Member", "Owner"]


class Demand(Protocol):
    """What the caller of `Log.read` can take next; asked before each chunk."""

    @property
    def room(self) -> int:
        """Bytes of the next chunk, at most."""

    def full(self) -> Collection[Partition]:
        """Partitions to pass over for now; one of the others has records left."""


class _Any:
    """Whatever there is."""

    room = UNBOUNDED

    def full(self) -> Collection[Partition]:
        return ()


ANY: Demand = _Any()


class Log(Protocol):
    """A log of topics. Safe for one thread."""

    def topics(self) -> dict[str, int]:
        """Topic to its number of partitions."""

    def describe(self, topics: Collection[str]) -> dict[str, Topic]:
        """What the log says of these topics now; one that does not exist is left out."""

    def create_topic(self, topic: str, partitions: int) -> None:
        """Make a topic; nothing happens where it exists already."""

    def beginning_offsets(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The first offset still kept of each. TransportError for an unknown topic."""

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

        Whoever stops before the last one closes it or lets go of it: it may hold a connection.

        Chunks of one partition come in order; partitions interleave. Ends when every partition
        has reached its end. `starts` and `ends` have the same keys. A chunk is a few MiB at most,
        but for one record that is larger; Kafka gives all that a fetch brought.

        Parameters
        ----------
        demand
            What the caller can take.
        """

    def follow(self, starts: Mapping[Partition, int], *, poll_seconds: float) -> Iterator[Record]:
        """Committed records as they come, for ever; yields in any order of partitions."""

    def append(self, records: Sequence[Outgoing]) -> None:
        """Write records durably and return once they are acknowledged."""

    def owner(self, name: str, shard: int, inputs: Sequence[Partition]) -> Owner:
        """Become the owner of a shard, fencing whoever was.

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
        """The offsets that a service's group has committed, of those that have one.

        Parameters
        ----------
        name
            The service's.
        """

    def member(self, name: str, topic: str) -> Member | None:
        """Join the group of a service, which shares its shards out among processes.

        None where the log has no groups: then one process runs every shard.

        Parameters
        ----------
        name
            The service's.
        topic
            Its journal: a partition a shard.
        """

    def close(self) -> None:
        """Release everything."""


class Member(Protocol):
    """A process's place in the group of a service."""

    def shards(self) -> frozenset[int]:
        """The shards it is to run, as far as it knows. Never blocks."""

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
    ) -> list[Fetched]:
        """Records from the inputs, as they lie; empty when none came within `timeout` seconds.

        A partition's records come in offset order and are never repeated or left out. Those of
        `skip`, of which the caller has enough for now, are left for a later call. They have at
        most `max_bytes` together (`Fetched.nbytes`), but for the last of them.
        """

    def ends(self) -> dict[Partition, int]:
        """The newest known end of each input: the merge waits for partitions that lag behind it.

        A partition whose end is not known yet is left out.
        """

    def uncommitted(self) -> dict[Partition, Uncommitted]:
        """What open transactions of others keep from each input; one without any is left out.

        As of the last call of `ends`, which does not count these records.
        """

    def commit(
        self, records: Sequence[Outgoing], journal: Outgoing, positions: Mapping[Partition, int]
    ) -> int:
        """Write records, journal record and the group's offsets: all of it, or nothing.

        Returns
        -------
        int
            The offset of the journal record.

        Raises
        ------
        FencedError
            Another owner has taken over; nothing was written.
        TransportError
            It is unknown whether it was written: recovery will find out.
        """

    def confirm(self, positions: Mapping[Partition, int]) -> None:
        """Ask whether the shard is still ours, for an owner that has nothing to commit.

        `positions` are those of the last commit; they are told again. FencedError if it is not.
        """

    def overtaken(self) -> bool:
        """Whether another owner has taken over since; also of an owner that failed or was closed.

        A process that lost sight of the log asks before it takes the shard again: to do so would
        fence whoever has gone on in its place. False where the log cannot know.
        """

    def committed(self) -> dict[Partition, int]:
        """The group's committed offsets, for cross-checking; the journal is the truth."""

    def close(self) -> None:
        """Give up polling; ownership ends with the next owner."""
