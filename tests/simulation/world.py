"""A world in which everything fails by a seed, and the life of a service in it.

The real runner, shard, join, commit, recovery, snapshots and Kafka owner run over the client of
`client.py` with all its lies, the broker of `broker.py`, a clock that only they move, and a disk
that fails at any step. The process dies, sleeps past its transaction's timeout, is overtaken, and
wakes to find that a successor has gone on. In the end every observation must have been predicted
exactly once, with the bytes an undisturbed run would have written, the group must stand where the
journal ends, and the state must be what the journal alone gives. On the way each life must commit,
or end, within 30 seconds of the world's clock after its last fault.
"""

from __future__ import annotations

import itertools
import json
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from kafka import TopicPartition

from consumers.base.errors import FencedError, NoAnswerError, SnapshotError, TransportError
from consumers.config import parse
from consumers.service import mix, pace, runner
from consumers.service.differences import Decision
from consumers.service.recovery import rebuild, sources
from consumers.service.runner import Runner
from consumers.snapshots import key_files, places
from consumers.snapshots.format import name_of
from consumers.snapshots.store import open_store
from consumers.transports.kafka import inputs as kafka_inputs
from consumers.transports.kafka import log as kafka_log
from consumers.transports.kafka import owner as kafka_owner
from consumers.transports.kafka.log import KafkaLog
from tests.consumers.disk import FAULTS, FailingOs, PowerCutError
from tests.consumers.feeds import MODEL, NOW, Labelled, config_text, feed, phishing
from tests.simulation.broker import START, VERIFIED, Broker, Clock
from tests.simulation.client import LIES, Admin, Consumer, Producer
from tests.simulation.weather import STORMY, DiedError, HungError, StuckError, Weather

__all__ = ["COMMITS", "KEYED", "RECORDS", "SMALL", "Told", "World", "violations"]

RECORDS = 300
COMMITS = 50
# A short life, but the seed decides as much.
SMALL: Mapping[str, Any] = {"records": 60, "commits": 12}
LIVES = 300  # of a service, before it is clear that it gets nowhere
FUTURE = int(START * 1000) + 12 * 3_600_000  # inputs take it as a timestamp, outputs do not
DELAY = 30
PARTITIONS = 2
FEATURES = tuple(sorted(phishing(1)[0][0]))
KEY = "tenant"
KEYS = [f"t{n}" for n in range(40)]
KEYED: Mapping[str, Any] = {"records": 240, "commits": 20, "key": KEY}
FEW_IN_MEMORY = "keys_on_disk = true\nmax_classes = 2\nmax_state_bytes = 12000\n"  # some of KEYS
OPTIONS = {
    "transaction_timeout_ms": 3_000,
    "delivery_timeout_ms": 2_500,
    "request_timeout_ms": 2_000,
    "linger_ms": 0,
}
TRANSPORT = "kafka://simulated:9092"
INPUTS = {"obs": PARTITIONS, "ans": 1}
DEAD = "svc-dead-letters"
OUTPUTS = {"svc-predictions": PARTITIONS, DEAD: 1}


class Stop(threading.Event):
    """Asks a process to end; it waits by the world's clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        """Wait; nobody sets it meanwhile."""
        self._clock.sleep(timeout or 0.0)
        return self.is_set()


@dataclass
class Told:
    """What happened in a run, and what came of it."""

    faults: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    said: dict[TopicPartition, list[tuple[bytes | None, bytes | None]]] = field(
        default_factory=dict
    )
    from_snapshots: list[str] = field(default_factory=list)  # of each host, the fingerprint
    from_journal: str = ""
    stands: bool = True  # the group, where the journal ends
    stuck: list[str] = field(default_factory=list)  # lives that got nowhere, and nothing hindered


def violations(told: Told, expected: Told, *, repeats: bool = False) -> list[str]:
    """What is not as in a world without faults.

    With `repeats`, as at least once promises: identical repeats are allowed, and so is the order
    that comes of one record that failed among others that did not, outside of any transaction.
    """
    out = [f"liveness: {why}" for why in told.stuck]
    for (topic, number), wanted in expected.said.items():
        said = told.said[TopicPartition(topic, number)]
        if repeats:
            said, wanted = sorted(set(said)), sorted(set(wanted))  # type: ignore[type-var]
        came, due = Counter(key for key, _ in said), Counter(key for key, _ in wanted)
        if missing := (due - came).total():
            out.append(f"{topic} {number}: {missing} missing")
        if extra := (came - due).total():
            out.append(f"{topic} {number}: {extra} doubled")
        if came == due and said != wanted:
            out.append(f"values: other ones in {topic} {number}, or another order")
    if any(mark != told.from_journal for mark in told.from_snapshots):
        out.append("state: from the snapshots it is another than from the journal")
    if told.from_journal != expected.from_journal:
        out.append("state: the journal's is not the undisturbed one's")
    if not told.stands:
        out.append("offsets: the group does not stand where the journal ends")
    return out


class World:
    """One seed.

    Parameters
    ----------
    seed
        Decides everything.
    directory
        Where the snapshots of two hosts go.
    records
        Observations; as many labels follow.
    commits
        At least so many are made of them.
    chances
        Of the faults.
    lies
        Of the client.
    protocol
        Of the broker's transactions, see `broker.py`.
    guarantee
        Of the service.
    more
        Sections besides, as TOML.
    key
        The feature whose values have models of their own. `KEY` is one that the records get.
    on_disk
        Whether only few of its keys are in memory.
    model
        The section [model] without `per`, as TOML.
    shards
        Of the service, each with a partition of every input, if there is more than one.
    mix
        Whether they exchange what they learn.
    corrected
        Whether some labels are followed by another one.
    """

    def __init__(
        self,
        seed: int,
        directory: Path,
        *,
        records: int = RECORDS,
        commits: int = COMMITS,
        chances: Mapping[str, float] = STORMY,
        lies: frozenset[str] = LIES,
        protocol: str = VERIFIED,
        guarantee: str = "exactly_once",
        more: str = "",
        key: str = "",
        on_disk: bool = False,
        model: str = MODEL,
        shards: int = 1,
        mix: bool = False,
        corrected: bool = False,
    ) -> None:
        self._model, self._shards, self._mix = model, shards, mix
        self._more, self._guarantee, self._key, self._on_disk = more, guarantee, key, on_disk
        self._random, self._clock, self._lies = Random(seed), Clock(), lies
        self._broker = Broker(self._clock, protocol)
        self._weather = Weather(self._random, self._clock, chances)
        self._weather.overtake = self._overtake
        self._weather.succeed = self._succeed
        self.told = Told(self._weather.faults)
        self._directory = directory
        self._hosts = [directory / "a", directory / "b"]
        # Not many more commits, and replays of a few of them: what takes time are these.
        self._most = self._random.randint(3 * records // (2 * commits), 2 * records // commits)
        self._every = self._random.randint(5, 20) if on_disk else self._random.randint(20, 60)
        labelled = phishing(records)
        if key == KEY:
            names = Random(0).choices(KEYS, range(1, len(KEYS) + 1), k=records)
            labelled = [({**x, KEY: name}, y) for name, (x, y) in zip(names, labelled, strict=True)]
        self._features = sorted(labelled[0][0])
        _fill(self._broker, labelled, shards, corrected=corrected)
        if mix:
            self._broker.create("svc-mix", shards)

    def run(self) -> Told:
        """Live through it to the end of the inputs."""
        with self._installed():
            for life in itertools.count():
                assert life < LIVES, "the service gets nowhere"
                before = self.told.commits, self.told.faults.total()
                try:
                    self._life(self._random.choice(self._hosts))
                    break
                except (DiedError, FencedError, TransportError) as error:
                    if before == (self.told.commits, self.told.faults.total()):
                        self.told.stuck.append(f"nothing failed, and a life ended: {error}")
                    self._damage()
                except StuckError as stuck:
                    self.told.stuck.append(str(stuck))
                    break
            self._weather.settled()
            self._look()
        shutil.rmtree(self._directory, ignore_errors=True)
        return self.told

    def _life(
        self,
        host: Path,
        commits: int | None = None,
        decision: Decision | None = None,
        shard: int = 0,
    ) -> None:
        """One process, until it drains or dies; or until it has made so many commits."""
        stop, log = Stop(self._clock), KafkaLog(["simulated:9092"], OPTIONS)
        made = 0

        def committed(*_: Any) -> None:
            nonlocal made
            made += 1
            self.told.commits += 1
            self._weather.progressed()
            if made == commits:
                stop.set()

        try:
            runner = Runner(
                self._config(host),
                log,
                stop,
                shard=shard,
                drain=True,
                subscribers=[committed],
                decision=decision,
            )
            with self._weather.life():
                runner.run()
        finally:
            log.close()

    def _config(self, host: Path) -> Any:
        sizes = {"max_records": self._most, "every_records": self._every}
        more = self._more
        if self._shards > 1:
            more += f"\n[scale]\nshards = {self._shards}\n" + 'mix = "100ms"\n' * self._mix
        text = config_text(TRANSPORT, self._features, **sizes, more=more, model=self._learner())
        if self._key:
            text = text.replace(f'{self._key} = "numeric"', f'{self._key} = "categorical"')
        made = parse(text, directory=host)
        commit = made.commit.model_copy(update={"guarantee": self._guarantee})
        return made.model_copy(update={"commit": commit})

    def _learner(self) -> str:
        if not self._key:
            return self._model
        return f'per = "{self._key}"\n{FEW_IN_MEMORY * self._on_disk}'

    def _overtake(self) -> None:
        """Somebody becomes the owner of a shard, and is never heard of again."""
        shard = self._random.randrange(self._shards) if self._shards > 1 else 0
        self._broker.init(f"svc.{shard}", 3.0)

    def _succeed(self) -> None:
        """Another process goes on while this one sleeps in the midst of a call."""
        with self._weather.calm():
            self._life(self._random.choice(self._hosts), self._random.randint(1, 5))

    def _damage(self) -> None:
        """Sometimes the newest snapshot of a host was cut short or has a wrong bit, or its file of
        keys, or this file is gone."""
        host = self._random.choice(self._hosts)
        if self._on_disk and (files := [*host.rglob("keys-*.db")]):
            self._damage_keys(max(files, key=lambda path: path.stat().st_mtime_ns))
        found = host.rglob("*.hws")
        # By the journal's offset, not by the directory: its name differs from run to run.
        paths = sorted(found, key=lambda path: (path.name, path.stat().st_size, shard_of(path)))
        if not paths or self._random.random() > 0.2:
            return
        self._damage_file(paths[-1], "damaged")

    def _damage_keys(self, path: Path) -> None:
        how = self._random.random()
        if how < 0.1:
            self.told.faults["damaged keys"] += 1
            path.unlink()
        elif how <= 0.3:
            self._damage_file(path, "damaged keys")

    def _damage_file(self, path: Path, fault: str) -> None:
        """Cut it short, or change a bit. One without bytes stays as it is."""
        data = bytearray(path.read_bytes())
        if not data:
            return
        self.told.faults[fault] += 1
        at = self._random.randrange(len(data))
        if self._random.random() < 0.5:
            del data[at:]
        else:
            data[at] ^= 1 << self._random.randrange(8)
        path.write_bytes(bytes(data))

    def _look(self) -> None:
        """What came of it."""
        for topic, count in OUTPUTS.items():
            for part in (TopicPartition(topic, n) for n in range(count)):
                said = [(r.key, r.value) for r in self._broker.committed(part)]
                if self._shards > 1 and topic == DEAD:  # each shard writes there
                    said.sort(key=repr)
                self.told.said[part] = said
        log = KafkaLog(["simulated:9092"], OPTIONS)
        models = [self._models(log, shard) for shard in range(self._shards)]
        self.told.from_journal, *self.told.from_snapshots = map("".join, zip(*models, strict=True))
        log.close()

    def _models(self, log: KafkaLog, shard: int) -> list[str]:
        """The fingerprints of a shard: from the journal alone, then by each host's snapshots."""
        settings = self._config(self._hosts[0])
        found = sources(settings, log, shard)
        end = log.end_offsets([found.journal])[found.journal]
        whole = rebuild(settings, log, found, None, end=end).shard
        self.told.stands &= all(
            self._broker.offsets.get(("svc", TopicPartition(*part))) == at
            for part, at in whole.positions.items()
        )
        stores = [open_store(self._config(host), shard) for host in self._hosts]
        kept = [rebuild(settings, log, found, store, end=end).shard for store in stores]
        return [each.fingerprint() for each in (whole, *kept)]

    @contextmanager
    def _installed(self) -> Iterator[None]:
        """The world in the place of the real one."""
        consumer = partial(Consumer, self._broker, self._weather)
        clients = {
            "KafkaConsumer": consumer,
            "column_consumer": lambda settings, **_: consumer(**settings),
            "BatchProducer": partial(Producer, self._broker, self._weather, self._lies),
            "KafkaAdminClient": partial(Admin, self._broker, self._weather),
            "within": self._within,
        }
        with ExitStack() as stack:
            for module in (kafka_log, kafka_owner):
                stack.enter_context(patch.multiple(module, **clients))
            for module in (kafka_log, kafka_inputs, runner, pace, mix):
                stack.enter_context(patch.object(module, "time", self._clock))
            stack.enter_context(patch.object(key_files, "BUSY_SECONDS", 0.0))
            stack.enter_context(patch.object(runner, "SnapshotWriter", self._writer))
            yield

    def _within(self, seconds: float, what: str, call: Any) -> Any:
        """By this clock: what takes longer was done all the same, or will be, or will not."""
        began, result = self._clock.now, None
        try:
            result, hung = call(), False
        except HungError:
            hung = True
            self._clock.sleep(seconds)
        if hung or self._clock.now - began > seconds:
            raise NoAnswerError(f"simulated: {what} took longer than {seconds:g} s")
        return result

    def _writer(self, store: Any, done: Any, failed: Any) -> _Writer:
        return _Writer(store, done, failed, self._weather)


class _Writer:
    """Writes a snapshot at once where the real one has a thread; on a disk that may fail."""

    def __init__(self, store: Any, done: Any, failed: Any, weather: Weather) -> None:
        self._store, self._done, self._failed, self._weather = store, done, failed, weather

    busy = False

    def submit(self, about: Any, state: Any) -> None:
        """It may come to nothing: the process ends before, or the disk fails, or the power."""
        if self._weather.happens("snapshot_unwritten"):
            return
        if not self._weather.happens("snapshot_on_a_bad_disk"):
            self._write(about, state)
            return
        random = self._weather.random
        fault = random.choice(FAULTS)
        disk = FailingOs(fault, random.randrange(25), random.randrange(1 << 30))
        self._weather.faults[f"disk: {fault}"] += 1
        with patch.object(places, "os", disk):
            try:
                self._write(about, state)
            except PowerCutError:
                disk.settle()
                raise DiedError from None

    def _write(self, about: Any, state: Any) -> None:
        try:
            with self._store.locked():
                written = self._store.write(about, state)
            self._done(written, 0.0)
            self._store.copy(name_of(written))
        except Exception as error:  # as the real one
            self._failed(error if isinstance(error, SnapshotError) else SnapshotError(str(error)))

    def close(self) -> None:
        """Everything is written, or never will be."""


def shard_of(path: Path) -> str:
    """The shard that a snapshot is of, by its directory."""
    return next((part for part in path.parts if part.startswith("shard-")), "")


def _fill(broker: Broker, labelled: Labelled, shards: int, *, corrected: bool) -> None:
    """Topics and inputs: written by transactions, some of them aborted, alike in every world."""
    answers = INPUTS["ans"] if shards == 1 else PARTITIONS
    for topic, count in {**INPUTS, "ans": answers, **OUTPUTS, "svc-journal": shards}.items():
        broker.create(topic, count)
    broker.permissive = set(INPUTS)
    random = Random(0)
    _, epoch = broker.init("feeder", 60.0)
    batch: dict[TopicPartition, list[Any]] = {}
    for i, record in enumerate(feed(labelled, DELAY, PARTITIONS)):
        answer = record.topic == "ans"  # where its observation is
        number = i % len(labelled) % answers if answer else record.partition or 0
        part = TopicPartition(record.topic, number)
        value = record.value if random.random() > 0.03 else (record.value or b"")[:-2]
        timestamp = (record.timestamp or NOW) if i % 37 != 36 else FUTURE
        batch.setdefault(part, []).append((timestamp, record.key, value, ()))
        if random.random() < 0.1 or i == 2 * len(labelled) - 1:
            for commit in (False, True) if random.random() < 0.3 else (True,):
                for part, told in batch.items():
                    broker.produce("feeder", epoch, part, told if commit else told[:2])
                epoch = broker.finish("feeder", epoch, commit=commit)
            batch = {}
    for i in range(0, len(labelled), 7) if corrected else ():
        value = json.dumps({"id": str(i), "label": not labelled[i][1]}).encode()
        at = NOW + 10 * (i + 2 * DELAY)
        broker.produce(None, 0, TopicPartition("ans", i % answers), [(at, None, value, ())])
