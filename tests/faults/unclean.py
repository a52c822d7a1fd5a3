"""Two of three nodes are gone, and the third, which was away, leads: what it lacks is lost.

A service of several shards and processes on three nodes. Its inputs allow an unclean election; all
else needs two nodes. A node is killed, records are predicted without it, the other two are killed,
and the first one comes back. Every process must end with 2 and its one line. After the operator's
answer the partitions that lost records are predicted from their first record, and all others go on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from kafka.partitioner.default import murmur2

from tests.acceptance.service import Service
from tests.faults.broker import NODES, Cluster
from tests.faults.changes import CONFIG, SAID, Bench, Changes
from tests.faults.lab import wait_for
from tests.faults.nodes import HOSTS, PARTITIONS, SHARDS
from tests.faults.outages import lost_the_broker
from tests.faults.seen import Seen
from tests.waiting import PATIENCE

__all__ = ["unclean_round"]

PAUSE = 0.5  # seconds between two looks
SCALE = """
[scale]
shards = {shards}
[snapshots]
directory = "{own}"
copy_to = "file://{shared}"
every_records = 1  # who loses the broker leaves none at its end, and the inputs are no longer there
"""


class _Group(Bench):
    """The same bench with several shards, which the processes of a group share.

    What one of them writes when it ends, the others need: all copy their snapshots to one place.
    """

    def __init__(
        self, cluster: Cluster, directory: Path, seed: int, done: Changes, shards: int, hosts: int
    ) -> None:
        super().__init__(cluster.bootstrap, directory, seed, done)
        self._shards = shards
        self.partitions = PARTITIONS
        self._configs = []
        shared = directory / "shared"
        shared.mkdir()
        for n in range(hosts):
            path = directory / f"{self.name}-{n}.toml"
            scale = SCALE.format(shards=shards, own=directory / f"own-{n}", shared=shared)
            path.write_text(CONFIG.format(name=self.name, bootstrap=cluster.bootstrap) + scale)
            self._configs.append(path)
        self._services: list[Service] = []
        self._arguments: tuple[str, ...] = ()
        self.took = 0.0  # seconds of the last look
        self.say: Callable[[str], None] = lambda line: None

    def __enter__(self) -> _Group:
        for topic in (self.topic, f"{self.name}-labels", f"{self.name}-predictions"):
            self.make(topic, self.partitions)
        self.make(f"{self.name}-journal", self._shards)
        self.make(f"{self.name}-dead-letters", 1)
        return self

    def __exit__(self, *_: object) -> None:
        for service in self._services:
            service.close()

    def make(self, topic: str, partitions: int) -> None:
        """Make a topic on three nodes; the observations may lose records, nothing else."""
        configs = {"unclean.leader.election.enable": str(topic == self.topic).lower()}
        settings: dict[str, Any] = {"num_partitions": partitions, "replication_factor": NODES}
        made = {topic: {**settings, "configs": configs}}
        self.admin(lambda client: client.create_topics(made))
        self.admin(lambda client: client.wait_for_topics([topic]))

    def place(self, id_: str) -> int:
        """The partition of its key, because the shards divide the keys."""
        return (murmur2(id_.encode()) & 0x7FFFFFFF) % self.partitions

    def run(self, *arguments: str) -> None:
        """Start all processes."""
        for service in self._services:
            service.close()
        self._services = [Service(path, *arguments) for path in self._configs]
        self._arguments = arguments

    def stop(self) -> None:
        """Stop all in order, each with its snapshots."""
        for service in self._services:
            if service.alive:
                service.terminate()

    def tend(self) -> None:
        """Start those again that have ended because they lost the broker; nothing else may end."""
        for n, service in enumerate(self._services):
            if not service.alive:
                if not lost_the_broker(service.code, service.output):
                    last = service.output.strip().splitlines()[-1:]
                    self.done.violations.append(f"process {n} ended with {service.code}: {last}")
                self.say(f"process {n}: {service.output.strip()[-1500:]}")
                service.close()
                self._services[n] = Service(self._configs[n], *self._arguments)

    def look(self, when: str) -> None:
        """As ever, while processes that lost the broker are started again."""
        began = time.monotonic()

        def all_came() -> bool:
            self.tend()
            time.sleep(PAUSE)  # a look reads all predictions
            return self.predicted().total() >= self.expected.total()

        wait_for(all_came)
        self.took = time.monotonic() - began
        self.compare(when)
        self.expected = self.predicted()  # a violation counts once

    def ends(self, when: str) -> None:
        """Each process must end with 2 and its one line, having predicted nothing more.

        Those that lost the broker before they saw it are started again, as an orchestrator does.
        """
        ended = {}
        for n in range(len(self._configs)):
            while n not in ended:
                with suppress(Exception):
                    self._services[n].wait(PATIENCE)
                code, output = self._services[n].code, self._services[n].output
                if lost_the_broker(code, output):
                    self._services[n].close()
                    self._services[n] = Service(self._configs[n])
                    continue
                ended[n] = code == 2 and re.search(SAID, output) is not None
                if not ended[n]:
                    last = output.strip().splitlines()[-1:]
                    self.done.violations.append(f"{when}: process {n} ended with {code}: {last}")
        self.compare(f"{when}, before an answer")


def unclean_round(
    cluster: Cluster,
    directory: Path,
    seed: int,
    count: int,
    *,
    shards: int = SHARDS,
    hosts: int = HOSTS,
    say: Callable[[str], None] = lambda line: None,
) -> Changes:
    """One service; so often a node that was away comes to lead. It stands still every other time.

    The cluster has its controller apart.
    """
    done, random = Changes(), Random(seed)
    with _Group(cluster, directory, seed, done, shards, hosts) as bench:
        bench.say = say
        bench.run()
        for turn in range(count):
            bench.due(bench.feed(random.randint(200, 500)))
            bench.look(f"before election {turn}")
            if not cluster.whole(PATIENCE):
                done.violations.append(f"the nodes were not in sync before election {turn}")
            stale = random.randrange(NODES)
            cluster.nodes[stale].kill()
            bench.due(bench.feed(random.randint(200, 500)))
            bench.look(f"on two nodes, {turn}")
            before = bench.log()
            stopped = random.random() < 0.5
            if stopped:
                bench.stop()
            say(f"{bench.name}: on two nodes after {bench.took:.2f} s; {done.violations}")
            _only(cluster, stale, bench, turn)
            bench.feed(random.choice([0, 5, 100, 800]))
            if stopped:
                bench.run()
            bench.ends(f"election {turn}")
            say(f"{bench.name}: all have ended; {done.violations}")
            bench.due(_begun_again(bench, before))
            bench.run("--accept-new-topic")
            bench.look(f"election {turn}")
            done.recoveries.append(bench.took)
            done.faults["unclean, stopped" if stopped else "unclean, running"] += 1
            say(f"{bench.name}: election {turn}, after {done.recoveries[-1]:.2f} s")
        bench.stop()
    return done


def _only(cluster: Cluster, stale: int, bench: _Group, turn: int) -> None:
    """The node that was away is alone until it leads; then the others come back."""
    others = [node for n, node in enumerate(cluster.nodes) if n != stale]
    for node in others:
        node.kill()
    cluster.nodes[stale].launch()

    def leads() -> bool:
        found = cluster.partitions([bench.topic])
        return bool(found) and all(part["leader_id"] == stale for part in found)

    if not wait_for(leads):
        bench.done.violations.append(f"no unclean election in turn {turn}")
    for node in others:
        node.launch()
    for node in others:
        node.wait()


def _begun_again(bench: _Group, before: Sequence[Seen]) -> list[str]:
    """What must be predicted now: all of the partitions that lost records, and what is new."""
    log = bench.log()
    here = {(r.partition, r.key) for r in log}
    cut = {r.partition for r in before if (r.partition, r.key) not in here}
    if len(cut) < PARTITIONS / 2:
        bench.done.violations.append(f"the election cut {len(cut)} partitions: it proves little")
    known = {(r.partition, r.key) for r in before}
    fresh = [r for r in log if r.partition in cut or (r.partition, r.key) not in known]
    return [(r.key or b"").decode() for r in fresh]
