"""What `benchmarks.scale` runs on three nodes: backlogs of a shard, and steady feeds of a group."""

from __future__ import annotations

import json
import re
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any
from urllib.error import URLError

from kafka import KafkaAdminClient

from benchmarks.main_job import TimedRunner, create, outgoing, records, service_text
from benchmarks.scale_model import Load
from consumers.config import Config, parse
from consumers.service.recovery import rebuild, sources
from consumers.transports import open_log
from tests.acceptance.service import Service, processor_seconds
from tests.faults.broker import Cluster
from tests.faults.seen import Seen, read_topics

__all__ = ["Bench", "Counted", "Drained", "Fed", "drained", "fed"]

PATIENCE = 300.0
REST_SECONDS, RESTING = 30, 0.3  # cores of three nodes that have nothing to do
CHUNK = 5_000  # records that are written at once
ASSIGNED = r"(\S+) info shard (\d+) was assigned to this process"
DEFAULT = Load(1, 1, 1, 1.0)
SETTLE_SECONDS = 8.0  # without a move of a shard


@dataclass(frozen=True)
class Counted:
    """What a run did, by its journal."""

    records: int
    observations: int
    commits: int
    parts: int  # partitions in its commits, predictions included


class Bench:
    """Three nodes, and how much of a processor and of their disks they have used."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.bootstrap = cluster, cluster.bootstrap

    def brokers(self) -> float:
        """Processor seconds of all nodes."""
        return sum(processor_seconds(node.pid) for node in self.cluster.nodes)

    def rest(self) -> None:
        """Until the brokers have finished what nobody waits for, such as making topics."""
        for _ in range(REST_SECONDS):
            before = self.brokers()
            time.sleep(1)
            if self.brokers() - before < RESTING:
                return

    def stored(self, topic: str = "*") -> int:
        """Bytes of the records of topics, on all nodes."""
        files = self.cluster.home.glob(f"*/data/{topic}-[0-9]*/*.log")
        return sum(file.stat().st_size for file in files)

    def log(self) -> Any:
        """A log of the service."""
        return open_log(f"kafka://{self.bootstrap}")

    def config(
        self, topic: str, directory: str | Path, load: Load | None = None, most: int | None = None
    ) -> str:
        """A configuration with all defaults; snapshots only at the end of a run."""
        names = [name for name in next(records(1)) if name != "class"]
        lines = []
        if load is not None:
            lines += ["[scale]", f"shards = {load.shards}", f"standbys = {load.standbys}"]
        lines += ["[commit]", f"max_delay_ms = {1e3 * (load or DEFAULT).delay:.0f}"]
        lines += [] if most is None else [f"max_records = {most}"]
        lines += ["[features]", *(f'{name} = "numeric"' for name in names)]
        return service_text(self.bootstrap, topic, str(directory), more="\n".join(lines))

    def counted(self, topic: str) -> Counted:
        """By the journal of a service."""
        read = read_topics(self.bootstrap, [f"{topic}-journal"])
        return _counted(_commits(read, topic), topic)

    def steady(self, topic: str, began: float, ended: float) -> tuple[Counted, float]:
        """What was committed in a time, and the mean age of its records when it was."""
        read = read_topics(self.bootstrap, [topic, f"{topic}-labels", f"{topic}-journal"])
        found = [e for e in _commits(read, topic) if began * 1000 <= e["now"] < ended * 1000]
        ages = [
            entry["now"] - record.timestamp
            for entry in found
            for name, number, first, end, *_ in entry["ranges"]
            for record in read[name, number]
            if first <= record.offset < end
        ]
        return _counted(found, topic), mean(ages) / 1000

    def first_commits(self, topic: str, shards: Sequence[int], since: float) -> float:
        """When the last of these shards began to commit again; 0 while one has not."""
        time.sleep(1)  # a look reads all journals
        read = read_topics(self.bootstrap, [f"{topic}-journal"])
        firsts = []
        for shard in shards:
            after = [
                record.timestamp / 1000
                for record in read[f"{topic}-journal", shard]
                if record.timestamp / 1000 > since + 0.1
            ]
            firsts.append(min(after, default=0.0))
        return max(firsts) if all(firsts) else 0.0

    def delete(self, topic: str) -> None:
        """Delete the topics of a service, so that no other pays for them."""
        with closing(KafkaAdminClient(bootstrap_servers=self.bootstrap)) as admin:
            every = ("", "-labels", "-predictions", "-dead-letters", "-journal")
            admin.delete_topics([topic + suffix for suffix in every])


def _commits(read: dict[tuple[str, int], list[Seen]], topic: str) -> list[dict[str, Any]]:
    """The commits in the journals of a service."""
    found = [
        json.loads(record.value or b"{}")
        for (name, _), records in sorted(read.items())
        if name == f"{topic}-journal"
        for record in records
    ]
    return [entry for entry in found if entry["kind"] == "commit"]


def _counted(commits: list[dict[str, Any]], topic: str) -> Counted:
    ranges = [each for entry in commits for each in entry["ranges"]]
    of = [each for each in ranges if each[0] == topic]
    return Counted(
        sum(each[4] for each in ranges),
        sum(each[4] for each in of),
        len(commits),
        len(ranges) + len(of),  # a prediction has the partition of its observation
    )


def named() -> str:
    """A topic of its own."""
    return f"scale-{uuid.uuid4().hex[:8]}"


def waited(what: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Ask until the answer is true."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        if time.monotonic() > deadline:
            raise RuntimeError("what was awaited did not come")
        time.sleep(0.02)
    return found


@dataclass(frozen=True)
class Drained:
    """A backlog of one shard: what it cost."""

    counted: Counted
    cpu: float
    brokers: float
    seconds: float
    filled: float  # CPU seconds of the brokers while the inputs were written
    input_bytes: int  # on all nodes
    prediction_bytes: int
    other_bytes: int  # journal, offsets, transactions
    replay_cpu: float
    snapshot: int


def drained(
    bench: Bench, observations: int, partitions: int, most: int | None, shards: int = 1
) -> Drained:
    """Fill topics, run one shard after the other to their end in this process, and replay one."""
    topic = named()
    with closing(bench.log()) as log:
        create(log, topic, partitions, shards)
        bench.rest()
        before, source = bench.brokers(), outgoing(topic, observations)
        while chunk := list(islice(source, CHUNK)):
            log.append(chunk)
        filled = bench.brokers() - before
    internal = bench.stored("__*")
    cpu = brokers = seconds = 0.0
    with tempfile.TemporaryDirectory() as directory:
        load = Load(1, shards, partitions, 1.0)
        config = parse(bench.config(topic, directory, load, most), directory=Path(directory))
        with closing(open_log(config.input.transport, kafka=config.kafka)) as log:
            for shard in range(shards):
                used = _Used(config, log, threading.Event(), shard=shard, drain=True)
                used.bench = bench
                used.run()
                cpu += used.cpu
                brokers += used.broker_cpu
                seconds += used.seconds
            replay = _replayed(config, log)
        found = sorted(Path(directory).rglob("snap-*.hws"), key=lambda path: path.stat().st_mtime)
        snapshot = found[-1].stat().st_size
    done = Drained(
        bench.counted(topic),
        *(cpu, brokers, seconds, filled),
        bench.stored(topic) + bench.stored(f"{topic}-labels"),
        bench.stored(f"{topic}-predictions"),
        bench.stored(f"{topic}-journal") + bench.stored("__*") - internal,
        replay,
        snapshot,
    )
    bench.delete(topic)
    return done


class _Used(TimedRunner):
    """One that measures what is used from the moment it is live to its end."""

    bench: Any = None
    cpu = broker_cpu = seconds = 0.0

    def _recover(self, *arguments: Any) -> Any:
        live = super()._recover(*arguments)
        self.cpu, self.broker_cpu = -time.process_time(), -self.bench.brokers()
        self.seconds = -time.perf_counter()
        return live

    def run(self) -> Any:
        """As ever."""
        view = super().run()
        self.cpu += time.process_time()
        self.broker_cpu += self.bench.brokers()
        self.seconds += time.perf_counter()
        return view


def _replayed(config: Config, log: Any) -> float:
    """CPU seconds for each record of a replay of the journal from its start."""
    found = sources(config, log)
    end = log.end_offsets([found.journal])[found.journal]
    began = time.process_time()
    live = rebuild(config, log, found, None, end=end)
    return (time.process_time() - began) / live.replayed


@dataclass(frozen=True)
class Fed:
    """A steady feed of a group: what it cost in each second, and what a kill cost."""

    counted: Counted
    seconds: float
    service: float  # cores of all processes
    each: tuple[float, ...]  # of each process
    brokers: float
    bytes: float
    lag: float
    commit_seconds: float
    idle: float  # cores of all processes without a feed
    broker_idle: float
    memory: float
    takeover: float  # seconds from kill -9 until the last of its shards commits; 0: none was killed
    assigned: float  # seconds from kill -9 until the last assignment
    snapshot: float  # bytes of each shard's newest


class Feed(threading.Thread):
    """Writes observations and labels at a steady rate, with their times."""

    def __init__(self, bench: Bench, topic: str, load: Load) -> None:
        super().__init__(daemon=True)
        self._bench, self._topic, self._load = bench, topic, load
        self.end = threading.Event()
        self.failed: BaseException | None = None

    def run(self) -> None:
        """Until `end` is set."""
        try:
            self._write()
        except BaseException as error:
            self.failed = error

    def _write(self) -> None:
        load, source = self._load, outgoing(self._topic, 10_000_000)
        began, sent = time.monotonic(), 0
        with closing(self._bench.log()) as log:
            while not self.end.wait(1 / load.writes):
                due = int((time.monotonic() - began) * 2 * load.rate) - sent
                chunk, now = list(islice(source, due)), time.time_ns() // 1_000_000
                log.append([record._replace(timestamp=now) for record in chunk])
                sent += len(chunk)


def fed(bench: Bench, load: Load, seconds: float, *, kill: bool) -> Fed:
    """Run the processes of a group, feed them for some seconds, and kill the first one."""
    topic = named()
    with closing(bench.log()) as log, tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        create(log, topic, load.partitions, load.shards)
        services = []
        for n in range(load.processes):
            path = Path(home) / f"{n}.toml"
            path.write_text(bench.config(topic, f"{home}/{n}", load))
            services.append(stack.enter_context(Service(path)))
            waited(lambda: ready(services[-1]))
        feed = Feed(bench, topic, load)
        feed.start()
        stack.callback(feed.end.set)
        _settle(bench, topic, services, load)
        steady = _window(bench, topic, services, seconds)
        died = _killed(bench, topic, services) if kill else (0.0, 0.0)
        feed.end.set()
        feed.join()
        if feed.failed is not None:
            raise feed.failed
        left = [service for service in services if service.alive]
        waited(lambda: all(figure(service, "headwater_input_lag_records") == 0 for service in left))
        time.sleep(2)
        idle, broker_idle = _idle(bench, left, seconds)
        memory = sum(resident(service.pid) for service in left) * load.processes / len(left)
        for service in left:
            service.terminate(PATIENCE)
        snapshot = _snapshot(Path(home))
    bench.delete(topic)
    return Fed(*steady, idle, broker_idle, memory, *died, snapshot)


def _settle(bench: Bench, topic: str, services: Sequence[Service], load: Load) -> None:
    """Until every shard commits and is followed, and none has moved for some time."""
    began = time.time()
    waited(lambda: bench.first_commits(topic, range(load.shards), began))
    moves, since = -1, time.monotonic()
    while time.monotonic() - since < SETTLE_SECONDS:
        time.sleep(0.5)
        now = sum(service.output.count(" was assigned to ") for service in services)
        if now != moves or not all(ready(service) for service in services):
            moves, since = now, time.monotonic()


def ready(service: Service) -> bool:
    """Whether it runs or follows all that it should."""
    try:
        return service.status("/readyz")[0] == 200
    except URLError:
        return False


def figure(service: Service, name: str) -> float:
    """The sum of the series of a metric."""
    found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", service.get(), re.MULTILINE)
    return sum(map(float, found))


def resident(pid: int) -> int:
    """Bytes of a process in memory."""
    told = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(re.findall(r"VmRSS:\s+(\d+)", told)[0])


def _window(bench: Bench, topic: str, services: Sequence[Service], seconds: float) -> Any:
    """The first figures of `Fed`: of some seconds of the feed."""
    timed = "headwater_commit_seconds"

    def used() -> list[float]:
        return [processor_seconds(service.pid) for service in services]

    def commits() -> list[float]:
        return [sum(figure(s, f"{timed}_{what}") for s in services) for what in ("sum", "count")]

    took, internal = commits(), "__*"
    began, cpu, brokers = time.time(), used(), bench.brokers()
    stored = bench.stored(f"{topic}*") + bench.stored(internal)
    time.sleep(seconds)
    ended, spent = time.time(), [b - a for a, b in zip(cpu, used(), strict=True)]
    brokers = bench.brokers() - brokers
    stored = bench.stored(f"{topic}*") + bench.stored(internal) - stored
    took = [b - a for a, b in zip(took, commits(), strict=True)]
    length = ended - began
    counted, lag = bench.steady(topic, began, ended)
    each = tuple(cpu / length for cpu in spent)
    return (
        counted,
        *(length, sum(each), each, brokers / length, stored / length),
        *(lag, took[0] / took[1]),
    )


def _idle(bench: Bench, services: Sequence[Service], seconds: float) -> tuple[float, float]:
    """Cores of the services and of the brokers while nothing arrives."""
    began, brokers = time.monotonic(), bench.brokers()
    cpu = sum(processor_seconds(service.pid) for service in services)
    time.sleep(seconds)
    length = time.monotonic() - began
    after = sum(processor_seconds(service.pid) for service in services)
    return (after - cpu) / length, (bench.brokers() - brokers) / length


def _killed(bench: Bench, topic: str, services: Sequence[Service]) -> tuple[float, float]:
    """Seconds from `kill -9` of the first to the last first commit, and to the last assignment."""
    others = services[1:]
    lines = re.findall(r"shard (\d+) was assigned to (this|another)", services[0].output)
    its = {shard for shard, where in lines if where == "this"}
    its -= {shard for shard, where in lines if where == "another"}
    services[0].kill()
    ended = time.time()

    def assigned() -> dict[str, float]:
        found = [
            (shard, datetime.fromisoformat(at).timestamp())
            for other in others
            for at, shard in re.findall(
                r"(\S+) info shard (\d+) was assigned to this", other.output
            )
        ]
        return {shard: at for shard, at in found if at > ended}

    waited(lambda: its <= assigned().keys())
    last = waited(lambda: bench.first_commits(topic, [int(s) for s in its], ended))
    return last - ended, max(assigned().values()) - ended


def _snapshot(home: Path) -> float:
    """Mean bytes of the newest snapshot of each shard."""
    newest: dict[str, tuple[float, int]] = {}
    for path in home.rglob("snap-*.hws"):
        shard = next(part for part in path.parts if part.startswith("shard-"))
        told = path.stat()
        newest[shard] = max(newest.get(shard, (0.0, 0)), (told.st_mtime, told.st_size))
    return mean(size for _, size in newest.values())
