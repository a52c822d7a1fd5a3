"""The failing world, in which the configuration changes at every start and journals are lost.

Each life of the service is short and has a configuration of its own, drawn from everything that may
change under a name. Kills also come while records are in hand and while they are tried in child
processes. Now and then the journal is called otherwise or is empty at a start, beside offsets,
snapshots or predictions that tell: the service must then end with a clear word and write nothing;
afterwards the journal is there again.

In the end every observation is predicted once (or again in the same bytes, where at least once was
promised at some time), as an undisturbed run would have predicted it; an audit by the last
configuration repeats what was written under the others byte for byte; no record is condemned; and
the model is the same from every host's snapshots and from the journal alone.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kafka import TopicPartition

from consumers.base.errors import ConfigError, FencedError, TransportError
from consumers.service import runner
from consumers.service.crash_guard import TrialResult
from consumers.service.recovery import rebuild, sources
from consumers.shard.shard import Shard
from consumers.snapshots.store import open_store
from consumers.timetravel.audit import audit
from consumers.transports.kafka.log import KafkaLog
from tests.consumers.feeds import config
from tests.simulation.broker import OPEN
from tests.simulation.weather import CALM, DiedError, Weather
from tests.simulation.world import FEATURES, OPTIONS, PARTITIONS, TRANSPORT, World

__all__ = ["ChangingWorld", "undisturbed", "wrong"]

PREDICTIONS = ("svc-predictions", "second")
DEAD = ("svc-dead-letters", "second-dead")
JOURNAL = TopicPartition("svc-journal", 0)
AUDITED = 6
KILLED = {"killed_in_hand": 0.2, "killed_in_trial": 0.2, "child_killed": 0.2}
CHALLENGERS = (
    "",
    '[[challenger]]\nname = "near"\ntype = "KNNClassifier"\nwindow = 20\n',
    '[[challenger]]\nname = "bins"\ntype = "CategoricalNB"\n',
)
DECISIONS = (
    "",
    "[decision]\nreject = 0.2\n",
    "[decision]\nlosses.stay = {true = 1, false = 0}\nlosses.go = {true = 0, false = 2}\n",
)
DRIFTS = ("", '[drift]\ndetectors = [{on = "error", type = "ADWIN"}]\n')


class ChangingWorld(World):
    """One seed; the parameters are those of `World`."""

    def __init__(self, seed: int, directory: Path, **more: Any) -> None:
        super().__init__(seed, directory, **more)
        self._guarantees = {"exactly_once"}
        for topic in (PREDICTIONS[1], DEAD[1], "other-journal"):
            self._broker.create(topic, PARTITIONS if topic == PREDICTIONS[1] else 1)
        self._sections, self._named = "", ""
        self._most_bytes = 1 << 26
        self.wrong: list[str] = []
        self.made: dict[str, set[tuple[str, bytes]]] = {}  # of an id: topic and bytes
        self.count: Counter[str] = Counter()  # of an id: how often
        self.condemned = 0

    def run(self) -> ChangingWorld:  # type: ignore[override]
        """Live through it to the end of the inputs."""
        with self._installed(), self._killing():
            while True:
                before = self.told.commits
                self._change()
                self._lose_journal()
                try:
                    self._life(self._random.choice(self._hosts), self._random.randint(1, 6))
                except (DiedError, FencedError, TransportError):
                    self._damage()
                    continue
                if self.told.commits == before:
                    break
            self._weather.settled()
            self._look()
        shutil.rmtree(self._directory, ignore_errors=True)
        return self

    def _change(self) -> None:
        """Another configuration, in every way that is permitted."""
        draw = self._random.choice
        second = self._random.random() < 0.3
        output = [f"top = {draw((1, 2, 10))}", f"explain = {draw((0, 0, 2))}"]
        if second:
            output += [f'predictions = "{PREDICTIONS[1]}"', f'dead_letters = "{DEAD[1]}"']
        telemetry = f"[telemetry]\nwindow = {draw((50, 1000))}\n"
        parts = ["[output]", *output, draw(DECISIONS), draw(DRIFTS), telemetry, draw(CHALLENGERS)]
        self._sections = "\n".join(parts)
        self._guarantee = draw(("exactly_once", "exactly_once", "at_least_once"))
        self._guarantees.add(self._guarantee)
        self._most = self._random.randint(3, 40)
        self._every = self._random.randint(10, 60)
        # A few records: an entry of before is then replayed in pieces.
        self._most_bytes = draw((1 << 10, 10_000, 1 << 26))
        self.told.faults["configuration_changed"] += 1

    def _config(self, host: Path) -> Any:
        sizes = {"max_records": self._most, "every_records": self._every}
        text = self._sections + self._named
        made = config(host, TRANSPORT, features=FEATURES, more=text, **sizes)
        changes = {"guarantee": self._guarantee, "max_bytes": self._most_bytes}
        commit = made.commit.model_copy(update=changes)
        return made.model_copy(update={"commit": commit})

    def _lose_journal(self) -> None:
        """Sometimes the next start finds an empty journal, and must say so and write nothing."""
        if not any(True for _ in self._broker.committed(JOURNAL)) or self._random.random() > 0.15:
            return
        kept, offsets = list(self._broker._parts[JOURNAL]), dict(self._broker.offsets)
        unfinished = dict(self._broker._open[JOURNAL])
        how = self._random.choice(("renamed", "lost", "offsets_expired"))
        self.told.faults[f"journal_{how}"] += 1
        if how == "renamed":
            self._named = '\n[journal]\ntopic = "other-journal"\n'
        else:
            self._broker._parts[JOURNAL].clear()
            self._broker._open[JOURNAL].clear()  # an empty log has no part of a transaction
        if how == "offsets_expired" and self._traces_left():
            self._broker.offsets.clear()
        before = self._written()
        try:
            with self._weather.calm():
                self._life(self._random.choice(self._hosts), 1)
            self.wrong.append(f"a start with its journal {how} was not refused")
        except ConfigError as error:
            if "has run before" not in str(error) or "--new-journal" not in str(error):
                self.wrong.append(f"a start with its journal {how} said: {error}")
        self._named = ""
        if self._written() != before:
            self.wrong.append(f"a start with its journal {how} wrote outputs")
        self._broker._parts[JOURNAL][:] = kept
        self._broker._open[JOURNAL] = {t: at for t, at in unfinished.items() if t.status == OPEN}
        self._broker.offsets.update(offsets)

    def _traces_left(self) -> bool:
        """Whether predictions tell, whatever configuration and host comes next."""
        topic = PREDICTIONS["second" in self._sections]
        parts = (TopicPartition(topic, n) for n in range(PARTITIONS))
        return any(True for part in parts for _ in self._broker.committed(part))

    def _written(self) -> list[int]:
        parts = [TopicPartition(topic, 0) for topic in (*PREDICTIONS, *DEAD)]
        return [sum(1 for _ in self._broker.committed(part)) for part in parts]

    @contextmanager
    def _killing(self) -> Iterator[None]:
        """Kills while records are in hand, and while they are tried."""
        weather, process = self._weather, Shard.process

        def processed(shard: Shard, *args: Any, **options: Any) -> Any:
            if options.get("ratio") is None and self._happens("killed_in_hand"):
                raise DiedError
            return process(shard, *args, **options)

        def trials(config: Any, found: Any, *_: Any, **__: Any) -> _Trials:
            return _Trials(found, weather, self._happens)

        with ExitStack() as stack:
            stack.enter_context(patch.object(Shard, "process", processed))
            stack.enter_context(patch.object(runner, "TrialProcesses", trials))
            yield

    def _happens(self, fault: str) -> bool:
        if self._weather._chances is CALM or self._random.random() >= KILLED[fault]:
            return False
        self.told.faults[fault] += 1
        return True

    def _look(self) -> None:
        """What came of it."""
        for topic in PREDICTIONS:
            for number in range(PARTITIONS):
                for record in self._broker.committed(TopicPartition(topic, number)):
                    id_, value = (record.key or b"").decode(), record.value or b""
                    self.made.setdefault(id_, set()).add((topic, value))
                    self.count[id_] += 1
        letters = (r for topic in DEAD for r in self._broker.committed(TopicPartition(topic, 0)))
        self.condemned = sum(("reason", b"crash_poison") in r.headers for r in letters)
        self._change()
        settings, log = self._config(self._hosts[0]), KafkaLog(["simulated:9092"], OPTIONS)
        found = sources(settings, log)
        end = log.end_offsets([found.journal])[found.journal]
        whole = rebuild(settings, log, found, None, end=end).shard
        self.told.from_journal = whole.learner.fingerprint()
        for host in self._hosts:
            store = open_store(self._config(host))
            kept = rebuild(settings, log, found, store, end=end).shard
            self.told.from_snapshots.append(kept.learner.fingerprint())
        store = open_store(settings)
        for id_ in self._random.sample(sorted(self.made), min(AUDITED, len(self.made))):
            if not audit(settings, log, found, store, id_).same:
                self.wrong.append(f"values: audit of {id_} gives other bytes")
        log.close()


class _Trials:
    """Tries innocent records: what dies was killed by somebody."""

    def __init__(self, found: Any, weather: Weather, happens: Any) -> None:
        self.found, self._weather, self._happens = found, weather, happens

    @contextmanager
    def of(self, *_: Any) -> Iterator[_Trials]:
        """A court."""
        self._weather.faults["tried"] += 1
        yield self

    def run(self, count: int, *, without_first: bool = False) -> TrialResult:
        """In a child that may be killed, of a service that may be."""
        if self._happens("killed_in_trial"):
            raise DiedError
        return (
            TrialResult("died", "SIGKILL", True)
            if self._happens("child_killed")
            else TrialResult("lived")
        )


def undisturbed(directory: Path, **more: Any) -> ChangingWorld:
    """What a service without faults and changes writes: all classes, nothing beside them."""

    class Calm(ChangingWorld):
        def _change(self) -> None:
            self._sections = ""

        def _lose_journal(self) -> None:
            """It does not happen."""

    return Calm(0, directory, chances=CALM, **more).run()


def wrong(world: ChangingWorld, expected: ChangingWorld) -> list[str]:
    """Which promise was broken."""
    out = list(world.wrong)
    if world.condemned:
        out.append(f"{world.condemned} innocent records condemned")
    if lost := expected.made.keys() - world.made.keys():
        out.append(f"{len(lost)} predictions missing")
    if extra := world.made.keys() - expected.made.keys():
        out.append(f"{len(extra)} predictions too many")
    if twice := [id_ for id_, n in world.count.items() if n > 1]:
        if world._guarantees == {"exactly_once"}:
            out.append(f"{len(twice)} predictions doubled")
        other = [id_ for id_ in twice if len(world.made[id_]) > 1]
        out += [f"values: {id_} was repeated in other bytes" for id_ in other]
    for id_ in world.made.keys() & expected.made.keys():
        ((_, value), *_), ((_, due), *_) = sorted(world.made[id_]), sorted(expected.made[id_])
        if not _same(json.loads(value), json.loads(due)):
            out.append(f"values: {id_} is {value!r} where {due!r} was due")
    if {world.told.from_journal, *world.told.from_snapshots} != {expected.told.from_journal}:
        out.append("state: the model is another one")
    return out


def _same(made: dict[str, Any], due: dict[str, Any]) -> bool:
    """Whether two predictions are the same but for their shape."""
    told, due_all = made["probabilities"], due["probabilities"]
    alike = all(made[k] == due[k] for k in ("id", "prediction", "model", "position", "ts"))
    return alike and told == due_all[: len(told)] and bool(told) == bool(due_all)
