"""What N processes, S shards and P partitions cost, from measured constants. Arithmetic only.

`docs/scale.md` has the same formulae. Records are observations and labels, as many of each.
"""

from __future__ import annotations

from dataclasses import dataclass

REPLICAS = 3
INPUTS = 2  # topics: observations and labels
SESSION_SECONDS = 6.0  # after which the group gives up a silent member


@dataclass(frozen=True)
class Constants:
    """Measured. CPU times are in seconds; those of the brokers are of all nodes together."""

    record: float  # service: for each record
    commit: float  # for each commit
    part: float  # for each partition in a commit
    live: float  # for each commit of a steady feed, added to `commit`
    follow: float  # for each commit that a follower repeats, without its records
    idle: float  # for each shard and second
    replay: float  # for each record of a replay
    replay_commit: float  # for each commit of a replay
    broker_write: float  # brokers: for each record that is written to an input
    broker_record: float  # for each record that is read and answered
    broker_commit: float  # for each commit
    broker_part: float  # for each partition in a commit, or in a write
    broker_live: float  # for each commit of a steady feed, added to `broker_commit`
    broker_idle: float  # for each second of all nodes
    broker_replica: float  # for each replica and second
    broker_shard: float  # for each shard and second
    input_bytes: float  # one replica: a record of an input
    prediction_bytes: float  # a prediction
    commit_bytes: float  # journal, offsets and transaction of a commit
    part_bytes: float  # of each partition in a commit
    process_memory: float  # bytes of a process
    shard_memory: float  # bytes of each shard in it
    snapshot_base: float  # bytes of a snapshot
    snapshot_id: float  # bytes for each id that it knows
    commit_seconds: float  # wall: from the end of a poll to the acknowledged commit
    busy: float  # share of the time that a shard computes while it has a backlog
    detection: float  # wall: from the end of the session to the assignment
    takeover: float  # wall: from the assignment to the first commit of the new owner


@dataclass(frozen=True)
class Load:
    """A service and its feed."""

    processes: int
    shards: int
    partitions: int  # of each input
    rate: float  # observations a second; as many labels
    delay: float = 0.040  # [commit] max_delay_ms
    writes: float = 20.0  # how often a second the producer writes to each input
    standbys: int = 1
    most: float = 20_000  # records of a commit while there is a backlog


def touched(partitions: float, records: float) -> float:
    """How many of the partitions get at least one of `records`, each of them at random.

    Examples
    --------
    >>> touched(1, 5), round(touched(4, 2), 2)
    (1.0, 1.75)
    """
    return partitions * (1 - (1 - 1 / partitions) ** records)


@dataclass(frozen=True)
class Model:
    """What the constants predict for a service and its feed."""

    known: Constants
    load: Load

    @property
    def cycle(self) -> float:
        """Seconds from one commit of a shard to the next; at least one record comes in them."""
        load = self.load
        return max(load.delay + self.known.commit_seconds, load.shards / (INPUTS * load.rate))

    @property
    def commits(self) -> float:
        """Each second, of all shards."""
        return self.load.shards / self.cycle

    @property
    def parts(self) -> float:
        """Partitions in the commits of a second."""
        return self.commits * self.touched(self.load.rate / self.commits)

    def touched(self, observations: float) -> float:
        """Partitions in a commit: those read of both inputs, and those of the predictions."""
        return (INPUTS + 1) * touched(self.load.partitions / self.load.shards, observations)

    @property
    def followers(self) -> int:
        """Of each shard."""
        return min(self.load.standbys, self.load.processes - 1)

    @property
    def followed(self) -> float:
        """Cores of all followers."""
        records = INPUTS * self.load.rate * self.known.replay
        each = records + self.commits * self.known.follow + self.load.shards * self.known.idle
        return self.followers * each

    @property
    def service_cores(self) -> float:
        """Of all processes."""
        known, load = self.known, self.load
        return (
            INPUTS * load.rate * known.record
            + self.commits * (known.commit + known.live)
            + self.parts * known.part
            + load.shards * known.idle
            + self.followed
        )

    @property
    def broker_cores(self) -> float:
        """Of all nodes, with those that write the inputs."""
        known, load = self.known, self.load
        written = INPUTS * load.writes * touched(load.partitions, load.rate / load.writes)
        replicas = REPLICAS * (load.partitions * (INPUTS + 1) + load.shards + 1)
        return (
            INPUTS * load.rate * (known.broker_write + known.broker_record)
            + self.commits * (known.broker_commit + known.broker_live)
            + (self.parts + written) * known.broker_part
            + known.broker_idle
            + replicas * known.broker_replica
            + load.shards * known.broker_shard
        )

    @property
    def stored(self) -> float:
        """Bytes a second on the disks of all nodes."""
        known, load = self.known, self.load
        return REPLICAS * (
            INPUTS * load.rate * known.input_bytes
            + load.rate * known.prediction_bytes
            + self.commits * known.commit_bytes
            + self.parts * known.part_bytes
        )

    @property
    def lag(self) -> float:
        """Mean seconds from the timestamp of a record to its commit, while nothing waits."""
        return self.cycle / 2 + self.known.commit_seconds

    @property
    def memory(self) -> float:
        """Bytes of all processes."""
        known, load = self.known, self.load
        copies = load.shards * (1 + self.followers)
        return load.processes * known.process_memory + copies * known.shard_memory

    def snapshot(self, ids: float) -> float:
        """Bytes of the snapshot of a shard that knows so many ids."""
        return self.known.snapshot_base + ids * self.known.snapshot_id

    @property
    def backlog_cpu(self) -> float:
        """CPU seconds of the service for each record of a backlog."""
        known, most = self.known, self.load.most
        return known.record + (known.commit + known.part * self.touched(most / INPUTS)) / most

    @property
    def capacity(self) -> float:
        """Records/s of a backlog, on a core for each process, without its followers."""
        working = min(self.load.processes, self.load.shards)
        return working * self.known.busy / self.backlog_cpu

    @property
    def takeover(self) -> float:
        """Seconds from `kill -9` to the first commit of the new owner, which has followed."""
        return SESSION_SECONDS + self.known.detection + self.known.takeover

    def restart(self, records: float, commits: float) -> float:
        """CPU seconds of a replay of so much, by one shard."""
        return records * self.known.replay + commits * self.known.replay_commit

    def catch_up(self, seconds: float) -> float:
        """Seconds until a backlog of so many seconds is consumed; infinite above the capacity."""
        records = INPUTS * self.load.rate
        spare = self.capacity - records
        return seconds * records / spare if spare > 0 else float("inf")
