"""Three nodes under a storm: processes of one group come and go, and so does one node at a time.

A node that is killed is a leader: of an input, of a journal, of the transactions or of the group.
It comes back while processes join, leave, are killed or sleep. The next node goes only when all
replicas are in sync again, because two nodes must have each record.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.faults.broker import Cluster
from tests.faults.lab import Lab
from tests.faults.storm import Members, Storm
from tests.waiting import PATIENCE

__all__ = ["HOSTS", "PARTITIONS", "SHARDS", "faults", "nodes_round"]

SHARDS, HOSTS, PARTITIONS = 8, 5, 64
CALM = 6  # faults from one calm to the next
MOST_AWAY = 8.0  # seconds, until a killed node is started again
NODES_SHARE = 0.35  # of the faults, while no node is away
KAFKA = """
request_timeout_ms = 4000
delivery_timeout_ms = 6000
transaction_timeout_ms = 9000
"""


def nodes_round(
    cluster: Cluster,
    directory: Path,
    kind: str,
    seed: int,
    count: int,
    *,
    shards: int = SHARDS,
    hosts: int = HOSTS,
    partitions: int = PARTITIONS,
    nodes_share: float = NODES_SHARE,
    say: Callable[[str], None] = lambda line: None,
) -> Storm:
    """One service of several shards and processes on three nodes; so many faults of both."""
    random, done = Random(seed), Storm()
    with Lab(
        *(cluster.bootstrap, directory, kind, seed),
        rate=60,
        kafka=KAFKA,
        shards=shards,
        partitions=partitions,
    ) as lab:
        members = Members(lab, random, done, hosts=hosts, lonely=True)
        nodes = _Nodes(cluster, lab, random, done, nodes_share)
        try:
            members.fill()
            members.calm(say)
            cluster.whole(PATIENCE)
            done.changes.clear()  # the first start is no fault
            done.recoveries.clear()
            while (changed := faults(done)) < count:
                if not nodes.change():
                    members.change()
                if changed % CALM == CALM - 1:
                    members.calm(say)  # also while a node is away: two are enough
            nodes.back()
            members.calm(say)
            for host in list(members.there):
                members.leave(host)
        finally:
            members.end()
            nodes.back()
        if not cluster.whole(PATIENCE):
            done.violations.append("the nodes did not come back in sync")
        done.violations += lab.verdict()
    return done


def faults(done: Storm) -> int:
    """What was done to processes and nodes; one that wakes is the end of a fault."""
    return done.changes.total() - done.changes["woken"]


class _Nodes:
    """At most one of them is away."""

    def __init__(
        self, cluster: Cluster, lab: Lab, random: Random, done: Storm, share: float
    ) -> None:
        self._share = share
        self._cluster, self._random, self._done = cluster, random, done
        self._away: int | None = None
        self._until = 0.0
        self._leads = {
            "an input's leader": lab.names.observations,
            "a journal's leader": lab.names.journal,
            "a transaction coordinator": "__transaction_state",
            "a group coordinator": "__consumer_offsets",
        }

    def change(self) -> bool:
        """Start the node that was away long enough; kill one now and then. Whether one was."""
        if self._away is not None and time.monotonic() >= self._until:
            self.back()
        if self._away is not None or self._random.random() >= self._share:
            return False
        if not self._cluster.in_sync():
            return False
        what = self._random.choice(list(self._leads))
        leaders = [part["leader_id"] for part in self._cluster.partitions([self._leads[what]])]
        if not leaders:
            return False
        self._away = self._random.choice(leaders)
        self._until = time.monotonic() + self._random.uniform(0.0, MOST_AWAY)
        self._cluster.nodes[self._away].kill()
        self._done.changes[f"node of {what} killed"] += 1
        return True

    def back(self) -> None:
        """Start it on its data; it comes in sync by and by."""
        if self._away is not None:
            self._cluster.nodes[self._away].launch()
            self._away = None
