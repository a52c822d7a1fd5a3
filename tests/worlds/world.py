"""One world: a random service over random records, killed or without power, and its verdict."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from threading import Event
from uuid import uuid4

from consumers.base.errors import ConfigError, TransportError
from consumers.base.records import Outgoing, Partition
from consumers.cluster.fleet import Fleet
from consumers.codecs.registry import wire_format
from consumers.commands.run import make_own_topics
from consumers.config.load import log_of
from consumers.schemas.client import SchemaRegistry, subject_of
from consumers.service.warm_up import compile_kernels
from consumers.transports import open_log
from consumers.transports.protocol import Log
from tests.waiting import PATIENCE
from tests.worlds.features import Choice
from tests.worlds.judge import judge
from tests.worlds.lives import Ended, Fork, Trap, called
from tests.worlds.power import Disk
from tests.worlds.records import Records, schemas_of
from tests.worlds.services import KEY, LABELS, OBSERVATIONS, Setting, Sizes

__all__ = ["Ran", "World"]

ALL = 1.5  # seconds after it is live in which a trap must be met; else it is killed anyhow
LIVE = "live at journal record"
COMMANDS = 4  # attempts, of which the last one is not killed
AGAIN = "nothing to re-learn"  # what a relearn says that was killed after it had been journaled


@dataclass
class Ran:
    """What happened in a world, and what was wrong."""

    choice: Choice
    ended: Counter[str] = field(default_factory=Counter)  # lives and commands: killed, drained
    records: int = 0
    seconds: float = 0.0
    refused: str = ""  # why the service does not start at all
    violations: list[str] = field(default_factory=list)


class World:
    """One seed.

    Parameters
    ----------
    choice
        Its features.
    seed
        Of records and faults.
    directory
        For everything it writes.
    forks
        Whether lives are processes; else they are in this one, without live feeds.
    count
        Of observations; 0: drawn.
    bootstrap
        A broker; "": an embedded log.
    """

    def __init__(
        self,
        choice: Choice,
        seed: int,
        directory: Path,
        *,
        forks: bool = True,
        count: int = 0,
        bootstrap: str = "",
    ) -> None:
        self._random, self._forks, self._bootstrap = Random(f"world {seed}"), forks, bootstrap
        self._directory, self._seed = directory, seed
        for name in ("disk", "files"):
            (directory / name).mkdir()
        (directory / "files" / "key").write_text(KEY)
        embedded = f"sqlite:{directory}/disk/log.db"
        self._setting = Setting(
            choice,
            f"w{seed}-{directory.name}" if bootstrap else "svc",
            f"kafka://{bootstrap}" if choice["log"] == "kafka" else embedded,
            directory / "disk",
            f"mock://{uuid4()}",
        )
        self._count = count or self._random.randint(80, 220)
        self._disk: Disk | None = None
        self._done = Ran(choice)
        self._feeder: Fork | None = None
        self._lives: list[Fork] = []
        self._sent = self._first = 0
        self._started = False  # whether a life has begun that was not refused
        self._before: Setting | None = None
        self._switch: dict[tuple[str, int], int] = {}
        self._ids: Mapping[int, list[list[str]]] = {}

    def run(self) -> Ran:
        """Live through it, and compare."""
        began = time.monotonic()
        with ExitStack() as stack:
            if self._setting.choice["fault"] == "power":
                self._disk = Disk(self._directory / "disk", self._directory / "shadow")
                stack.enter_context(self._disk.installed())
            stack.callback(self._end)
            try:
                self._prepare()
                self._live()
            except ConfigError as error:
                if self._lives or not self._forks:
                    raise
                self._done.refused = str(error)
        self._done.seconds = time.monotonic() - began
        return self._done

    # The records.

    def _prepare(self) -> None:
        """Topics, schemas and records; kernels are loaded before anything is forked."""
        setting, c = self._setting, self._setting.choice
        compile_kernels(setting.config(), lambda line: None)
        if c["command"] == "relearn":
            compile_kernels(self._changed().config(), lambda line: None)
        if schemas := schemas_of(setting):
            registry = SchemaRegistry(wire_format(c["format"]), setting.config().registry)
            for topic, text in schemas.items():
                registry.register(subject_of(topic), text)
            # The one in memory gives two shards that register at once two ids for one schema.
            registry.predictions_schema(setting.config().predictions_topic)
        records = Records(setting, self._count, self._seed)
        with closing(self._log()) as log:
            config = setting.config()
            # An embedded log makes the others itself.
            own = dict.fromkeys(config.own_topics, len(setting.numbers)) | {
                config.predictions_topic: setting.partitions,
                config.dead_letters_topic: 1,
            }
            for topic, count in (own if self._bootstrap else {}).items():
                log.create_topic(topic, count)
            for topic in config.input_topics:
                log.create_topic(topic, setting.partitions)
        if c["feed"] == "file":
            self._all: list[Outgoing] = []
            self._produce(records.file())
            return
        self._all, self._ids = records.all(), records.ids
        self._done.records = len(self._all)

    def _log(self) -> Log:
        return open_log(self._setting.transport)

    def _produce(self, content: str) -> None:
        """Write a file into the log, as `headwater produce` does."""
        path, name = self._directory / "files" / "records.csv", self._setting.name
        path.write_text(content)
        self._done.records = content.count("\n") - 1
        words: list[str | Path] = ["produce", f"{name}-{OBSERVATIONS}", path]
        words += ["--config", self._written(self._setting, Sizes()), "--label-topic"]
        words += [f"{name}-{LABELS}", "--label", "label", "--delay", "20"]
        ended = self._fork(words).end()
        if ended.code:
            self._done.violations.append(f"produce ended with {ended.code}: {ended.said[-500:]}")

    def _feed(self, upto: int) -> None:
        """Write the next records, but none of the time of the first one that is left."""
        while 0 < upto < len(self._all) and self._at(upto) == self._at(upto - 1):
            upto += 1
        if upto > self._sent:
            with closing(self._log()) as log:
                log.append(self._all[self._sent : upto])
            self._sent = upto

    def _at(self, place: int) -> int:
        return self._all[place].timestamp or 0

    def _feed_on(self) -> None:
        """Let a process write what is left, a few records at a time."""
        config, records, seed = self._setting.config(), self._all, self._random.random()

        def feed() -> None:
            random = Random(seed)
            with closing(self._log()) as log:
                parts = [
                    Partition(topic, number)
                    for topic in config.input_topics
                    for number in range(self._setting.partitions)
                ]
                at = sum(log.end_offsets(parts).values())  # an append is written whole
                while at < len(records):
                    some = random.randint(1, 12)
                    log.append(records[at : at + some])
                    at += some
                    time.sleep(random.choice((0.0, 0.002, 0.02)))

        self._feeder, self._sent = Fork.of(feed, self._directory / "files" / "feed"), len(records)

    def _end_feed(self) -> None:
        if self._feeder is not None:
            self._feeder.kill()

    def _end(self) -> None:
        """No process is left."""
        self._end_feed()
        for each in self._lives:
            each.kill()

    # The lives.

    def _live(self) -> None:
        c, random = self._setting.choice, self._random
        kills = random.randint(2, 4)
        live = c["feed"] == "live"
        self._feed(len(self._all) // (kills + 1))
        self._first = self._sent if c["fields"] == "inferred" else 0
        if live:
            self._feed_on()
        middle = random.randrange(kills) if c["command"] != "none" else -1
        for n in range(kills):
            self._life()
            if n == middle and not self._over:
                self._operate()
            if self._over:
                return
            if not live and (c["fields"] == "declared" or self._begun()):
                self._feed(len(self._all) * (n + 2) // (kills + 1))
        if live and self._feeder is not None and (fed := self._feeder.end()).code:
            self._done.violations.append(f"the feed ended with {fed.code}: {fed.said[-500:]}")
        if c["fields"] == "inferred" and not self._begun():
            self._drained()
        self._feed(len(self._all))
        self._drained()
        if not self._over:
            self._done.violations += judge(
                self._setting,
                self._directory,
                first=self._first,
                ids=self._ids,
                before=self._before,
                switch=self._switch,
                bootstrap=self._bootstrap,
            )

    @property
    def _over(self) -> bool:
        """Whether there is nothing to compare any more."""
        return bool(self._done.refused or self._done.violations)

    def _begun(self) -> bool:
        """Whether the service has inferred its fields."""
        journal = Partition(self._setting.config().journal_topic, 0)
        with closing(self._log()) as log:
            there = log.describe([journal.topic])
            return bool(there) and log.end_offsets([journal])[journal] > 0

    def _written(self, setting: Setting, sizes: Sizes) -> Path:
        """The configuration as a file, which no cut of power reaches."""
        path = self._directory / "files" / f"{setting.name}.toml"
        path.write_text(setting.text(sizes))
        return path

    def _words(self, *, drain: bool) -> list[list[str | Path]]:
        """The commands of the processes of a life."""
        setting, c = self._setting, self._setting.choice
        path = self._written(setting, Sizes.drawn(c, self._random))
        common: list[str | Path] = ["run", path, *(["--drain"] if drain else [])]
        if c["processes"] == "children" and len(setting.numbers) > 1:
            return [[*common, "--processes", "2"]]
        if c["processes"] == "one each":
            return [[*common, "--shards", str(number)] for number in setting.numbers]
        return [[*common, "--shards", ",".join(map(str, setting.numbers))]]

    def _life(self) -> None:
        """One that is killed, sooner or later."""
        c, random = self._setting.choice, self._random
        power = self._disk is not None
        trapped = c["fault"] == "failpoint" or (power and random.random() < 0.8)
        trap = Trap.drawn(random, power=power) if trapped else None
        if not self._forks:
            self._note([called(self._fleet, trap, self._disk)])
            self._cut()
            return
        services = [
            self._fork(words, trap if n == 0 else None)
            for n, words in enumerate(self._words(drain=random.random() < 0.5))
        ]
        # While it starts, or at any moment after it is live.
        patience = random.uniform(0.0, 0.3) if trap is None and random.random() < 0.2 else PATIENCE
        first, later = services[0], random.choice((0.02, 0.1, 0.4)) * random.random()
        if first.until(lambda: LIVE in first.said, patience):
            if patience == PATIENCE and LIVE not in first.said:
                self._done.violations.append(f"a life was never live: {first.said[-1500:]}")
            first.until(lambda: False, ALL if trap else later)
        for service in random.sample(services, len(services)):
            if not power and random.random() < 0.5:
                service.until(lambda: False, random.uniform(0, 0.1))
            service.kill(group=power)
        self._note([service.kill() for service in services])
        self._cut()

    def _fork(self, words: Sequence[str | Path], trap: Trap | None = None) -> Fork:
        said = self._directory / "files" / f"said-{len(self._lives)}"
        self._lives.append(Fork(words, said, trap=trap, disk=self._disk))
        return self._lives[-1]

    def _fleet(self) -> None:
        """The service in this process."""
        config = self._setting.config(Sizes.drawn(self._setting.choice, self._random))
        with closing(log_of(config)) as log:
            make_own_topics(config, log)
        opened: Callable[[], Log] = partial(log_of, config)
        Fleet(config, opened, Event(), self._setting.numbers, drain=True).run()

    def _note(self, every: Sequence[Ended]) -> None:
        """A service may be killed, or come to the end of its records."""
        for ended in every:
            self._done.ended["lives killed" if ended.killed else "lives drained"] += 1
            if ended.code == 2 and not self._started:
                self._done.refused = ended.said[-500:]
            elif ended.code not in (0, -9) or "Traceback" in ended.said:
                self._done.violations.append(
                    f"a life ended with {ended.code}: {ended.said[-1500:]}"
                )
        self._started = True

    def _cut(self) -> None:
        """If power is cut, all processes of the machine have ended, and files are what is durable.

        Only one commit may be gone, which was not acknowledged yet.
        """
        if self._disk is None:
            return
        # A broker and who writes to it are other machines.
        feeding = self._feeder is not None and self._feeder.poll() is None and not self._bootstrap
        if feeding:
            self._end_feed()
        self._disk.cut()
        before = self._commits(self._disk.last)
        self._disk.settle(self._random if self._forks else None)
        self._done.ended["cuts of power"] += 1
        try:
            lost = before - self._commits(self._disk.root)
        except TransportError as error:
            self._done.violations.append(f"after a cut of power: {error}")
        else:
            if lost > 1:
                self._done.violations.append(f"after a cut of power {lost} commits are missing")
        if feeding:
            self._feed_on()

    def _commits(self, disk: Path) -> int:
        """How many records the journals have, as the files below a directory say."""
        if self._bootstrap:
            return 0
        topic = self._setting.config().journal_topic
        with closing(
            open_log(self._setting.transport.replace(str(self._setting.directory), str(disk)))
        ) as log:
            there = log.describe([topic])
            parts = [Partition(topic, number) for number in self._setting.numbers if there]
            return sum(log.end_offsets(parts).values())

    def _drained(self) -> None:
        """The last life, which comes to the end of all records."""
        if not self._forks:
            self._fleet()
            return
        services = [self._fork(words) for words in self._words(drain=True)]
        for service in services:
            ended = service.end()
            if ended.code or "Traceback" in ended.said:
                self._done.violations.append(
                    f"the last life ended with {ended.code}: {ended.said[-1500:]}"
                )

    # The commands.

    def _changed(self) -> Setting:
        """The service after its command."""
        if self._setting.choice["command"] == "relearn":
            return replace(self._setting, relearned=True)
        return self._setting.moved()

    def _operate(self) -> None:
        """Change the service, with attempts that are killed."""
        setting, c, random = self._setting, self._setting.choice, self._random
        if c["command"] == "reshard" or not self._begun_all():
            self._drained()
        new = self._changed()
        command = [
            c["command"],
            self._written(new if c["command"] == "relearn" else setting, Sizes()),
        ]
        command += ["--shards", str(len(new.numbers))] if c["command"] == "reshard" else []
        for attempt in range(COMMANDS):
            last = attempt == COMMANDS - 1 or random.random() < 0.2
            trap = (
                None
                if last
                else Trap.drawn(random, power=self._disk is not None, command=c["command"])
            )
            ended = self._fork([*command, "--yes"], trap).end()
            if ended.killed:
                self._done.ended["commands killed"] += 1
            if ended.code == 0 or (ended.code == 2 and AGAIN in ended.said):
                break
            if not ended.killed or "Traceback" in ended.said:
                said = f"{c['command']} ended with {ended.code}: {ended.said[-1500:]}"
                self._done.violations.append(said)
                return
            self._cut()
        self._before, self._setting = setting, new
        config = setting.config()
        with closing(self._log()) as log:
            counts = {t: about.partitions for t, about in log.describe(config.input_topics).items()}
            parts = [Partition(topic, n) for topic, count in counts.items() for n in range(count)]
            at = log.committed(config.name, parts)
        self._switch = {tuple(part): at.get(part, 0) for part in parts}  # type: ignore[misc]

    def _begun_all(self) -> bool:
        """Whether every shard has a journal, without which there is nothing to change."""
        config = self._setting.config()
        parts = [Partition(config.journal_topic, number) for number in self._setting.numbers]
        with closing(self._log()) as log:
            there = log.describe([config.journal_topic])
            return bool(there) and all(log.end_offsets(parts).values())
