"""Inputs on a real broker that do not stay what they are: made again, restored, widened, cut.

Each observation has an id of its own, so equality of counts is exact: what lies in the topic in the
end has been predicted once since it began, and what was passed over was said.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Self
from uuid import uuid4

from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaError

from tests.acceptance.service import Service
from tests.faults.broker import Cluster
from tests.faults.lab import wait_for
from tests.faults.seen import Seen, read_topics
from tests.waiting import PATIENCE

__all__ = ["CONFIG", "KINDS", "SAID", "Bench", "Changes", "changes_round", "elections_round"]

KINDS = ("remade, stopped", "remade, running", "restored", "widened", "widened, stopped")
SAID = r"headwater: .*--accept-new-topic"
CONFIG = """
name = "{name}"
[input]
transport = "kafka://{bootstrap}"
observations = "{name}-in"
labels = "{name}-labels"
max_wait_ms = 100
[features]
a = "numeric"
b = "numeric"
[model]
type = "GaussianNB"
[commit]
max_delay_ms = 20
[http]
enabled = false
[kafka]
request_timeout_ms = 4000
delivery_timeout_ms = 6000
transaction_timeout_ms = 9000
"""


@dataclass
class Changes:
    """What happened, and what was wrong."""

    faults: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)  # from the answer to the next prediction


class Bench:
    """A service, its input, and what must come of it."""

    def __init__(
        self, bootstrap: str, directory: Path, seed: int, done: Changes, replicas: Any = None
    ) -> None:
        self.name, self.random, self.done = f"change-{uuid4().hex[:8]}", Random(seed), done
        self._bootstrap, self._replicas = bootstrap, replicas
        self.topic = f"{self.name}-in"
        self._config = directory / f"{self.name}.toml"
        self._config.write_text(CONFIG.format(name=self.name, bootstrap=bootstrap))
        self._fed = 0
        self.expected: Counter[str] = Counter()  # predictions of each id
        self.partitions = 2
        self.service: Service | None = None

    def __enter__(self) -> Self:
        self.make(self.topic, self.partitions)
        for topic in ("labels", "dead-letters", "journal"):
            self.make(f"{self.name}-{topic}", 1)
        self.make(f"{self.name}-predictions", 2)
        return self

    def __exit__(self, *_: object) -> None:
        if self.service is not None:
            self.service.close()

    def admin(self, call: Callable[[KafkaAdminClient], Any]) -> Any:
        """Ask until the cluster does it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with closing(KafkaAdminClient(bootstrap_servers=self._bootstrap)) as client:
                    return call(client)
            except KafkaError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def make(self, topic: str, partitions: int) -> None:
        """Make a topic; the input where the caller says, each partition's first replica leads."""
        settings: dict[str, Any] = {"num_partitions": partitions, "replication_factor": -1}
        if self._replicas is not None and topic == self.topic:
            settings = {
                "assignments": {n: list(self._replicas) for n in range(partitions)},
                "configs": {
                    "unclean.leader.election.enable": "true",
                    "min.insync.replicas": "1",
                },
            }
        self.admin(lambda client: client.create_topics({topic: settings}))
        self.admin(lambda client: client.wait_for_topics([topic]))

    def delete(self) -> None:
        """Delete the input."""
        self.admin(lambda client: client.delete_topics([self.topic]))
        assert wait_for(lambda: self.told()["error_code"]), "the broker does not delete the topic"

    def told(self) -> Any:
        """What the cluster says of the input."""
        return self.admin(lambda client: client.describe_topics([self.topic]))[0]

    def send(self, records: Sequence[tuple[int, int | None, str, bytes]]) -> None:
        """Write records: partition, timestamp, key, value."""
        acks: Any = 1 if self._replicas is not None else "all"
        with closing(KafkaProducer(bootstrap_servers=self._bootstrap, acks=acks)) as producer:
            sent = [
                producer.send(self.topic, value, key=key.encode(), partition=n, timestamp_ms=at)
                for n, at, key, value in records
            ]
            producer.flush(60)
            for future in sent:
                future.get(60)

    def place(self, id_: str) -> int:
        """The partition of an observation: any, because one shard has all."""
        return self.random.randrange(self.partitions)

    def feed(self, count: int) -> list[str]:
        """Write observations that were never there; their ids."""
        ids = [f"{self._fed + i}" for i in range(count)]
        self._fed += count
        self.send(
            [
                (
                    self.place(id_),
                    None,
                    id_,
                    json.dumps({"id": id_, "a": self.random.random(), "b": int(id_)}).encode(),
                )
                for id_ in ids
            ]
        )
        return ids

    def due(self, ids: Sequence[str]) -> None:
        """These must be predicted once (more)."""
        self.expected.update(ids)

    def start(self, *arguments: str) -> Service:
        """Start the service again."""
        if self.service is not None:
            self.service.close()
        self.service = Service(self._config, "--shards", "0", *arguments)
        return self.service

    def _read(self, topic: str) -> dict[tuple[str, int], list[Seen]]:
        """All of a topic; a node that is away may have been asked first."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return read_topics(self._bootstrap, [topic])
            except KafkaError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def log(self) -> list[Seen]:
        """What lies in the input."""
        read = self._read(self.topic)
        return [record for (topic, _), records in sorted(read.items()) for record in records]

    def predicted(self) -> Counter[str]:
        """How often each id was predicted."""
        read = self._read(f"{self.name}-predictions")
        return Counter((r.key or b"").decode() for records in read.values() for r in records)

    def look(self, when: str) -> None:
        """Wait for every prediction that is due, and name what is missing or too many."""
        began = time.monotonic()
        wait_for(lambda: self.predicted().total() >= self.expected.total())
        self.done.recoveries.append(time.monotonic() - began)
        self.compare(when)
        self.expected = self.predicted()  # a violation counts once

    def compare(self, when: str) -> None:
        """Name what is missing or too many."""
        came = self.predicted()
        if missing := (self.expected - came).total():
            self.done.violations.append(f"{when}: {missing} missing")
        if extra := (came - self.expected).total():
            self.done.violations.append(f"{when}: {extra} doubled")

    def ends(self, when: str) -> None:
        """The service must end with 2 and its one line, having predicted nothing more."""
        assert self.service is not None
        with suppress(Exception):
            self.service.wait(PATIENCE)
        if self.service.code != 2 or not re.search(SAID, self.service.output):
            last = self.service.output.strip().splitlines()[-1:]
            code = self.service.code
            self.done.violations.append(f"{when}: unsaid, it ended with {code}: {last}")
        self.compare(f"{when}, before an answer")

    def stop(self) -> None:
        """Stop in order: with a snapshot, so that nothing is read again at the next start."""
        assert self.service is not None
        self.service.terminate()


def changes_round(
    bootstrap: str,
    directory: Path,
    seed: int,
    count: int,
    *,
    say: Callable[[str], None] = lambda line: None,
) -> Changes:
    """One service whose input is changed so often, each way in turn."""
    done = Changes()
    with Bench(bootstrap, directory, seed, done) as bench:
        bench.start()
        for turn in range(count):
            bench.due(bench.feed(bench.random.randint(20, 200)))
            bench.look(f"before change {turn}")
            what = KINDS[turn % len(KINDS)]
            if "running" not in what and what != "widened":
                bench.stop()
            _change(bench, what)
            done.faults[what] += 1
            bench.look(f"{what}, {turn}")
            say(f"{bench.name}: {what}, after {done.recoveries[-1]:.2f} s")
        bench.stop()
    return done


def _change(bench: Bench, what: str) -> None:
    """One change, and an operator's answer."""
    before = bench.log()
    if what.startswith("widened"):
        bench.partitions += 1
        size = bench.partitions
        bench.admin(lambda client: client.create_partitions({bench.topic: size}))
        wait_for(lambda: len(bench.told()["partitions"]) == size)
        bench.due(bench.feed(60))
        if what.endswith("stopped"):
            bench.start()
        return
    bench.delete()
    bench.make(bench.topic, bench.partitions)
    if what == "restored":
        bench.send(
            [(r.partition, r.timestamp, (r.key or b"").decode(), r.value or b"") for r in before]
        )
        fresh, answer = bench.feed(30), "--same-topic"
    else:
        more = bench.random.choice([0, 3, 2 * len(before)])
        fresh, answer = bench.feed(more), "--accept-new-topic"
    if "running" not in what:
        bench.start()
    bench.ends(what)
    bench.due(fresh)
    bench.start(answer)


def elections_round(
    cluster: Cluster,
    directory: Path,
    seed: int,
    count: int,
    *,
    say: Callable[[str], None] = lambda line: None,
) -> Changes:
    """So often a node that was away becomes the leader: what it does not have is lost.

    The input lies on two of the three nodes, and is written with acks=1; all else needs two nodes
    and has three. In every other turn the service is stopped meanwhile.
    """
    done = Changes()
    for turn in range(count):
        leader, follower = (turn % 3, (turn + 1) % 3)
        bench = Bench(cluster.bootstrap, directory, seed + turn, done, (leader, follower))
        with bench:
            bench.start()
            bench.due(bench.feed(bench.random.randint(5, 40)))
            bench.look(f"before election {turn}")
            wait_for(lambda: _in_sync(bench) == 2)  # noqa: B023
            cluster.nodes[follower].kill()
            bench.due(bench.feed(bench.random.randint(1, 60)))
            bench.look(f"on one node, {turn}")
            before = bench.log()
            if turn % 2:
                bench.stop()
            cluster.nodes[leader].kill()
            cluster.nodes[follower].start()
            if not wait_for(lambda: _leader(bench) == follower):  # noqa: B023
                done.violations.append(f"no unclean election in turn {turn}")
            bench.feed(bench.random.choice([0, 5, 100]))
            if turn % 2:
                bench.start()
            bench.ends(f"election {turn}")
            bench.due(_begun_again(bench, before))
            bench.start("--accept-new-topic")
            bench.look(f"election {turn}")
            done.faults["unclean, stopped" if turn % 2 else "unclean, running"] += 1
            say(f"{bench.name}: election {turn}, after {done.recoveries[-1]:.2f} s")
            bench.stop()
        cluster.nodes[leader].start()
        cluster.whole()
    return done


def _begun_again(bench: Bench, before: Sequence[Seen]) -> list[str]:
    """What must be predicted now: all of the partitions that lost records, and what is new."""
    log = bench.log()
    here = {(r.partition, r.key) for r in log}
    cut = {r.partition for r in before if (r.partition, r.key) not in here}
    if not cut:
        bench.done.violations.append("the election lost nothing: this turn proves nothing")
    fresh = [r for r in log if r.partition in cut or bench.expected[(r.key or b"").decode()] == 0]
    return [(r.key or b"").decode() for r in fresh]


def _in_sync(bench: Bench) -> int:
    return min(len(part["isr_nodes"]) for part in bench.told()["partitions"])


def _leader(bench: Bench) -> int:
    leaders = {part["leader_id"] for part in bench.told()["partitions"]}
    return int(leaders.pop()) if len(leaders) == 1 else -1
