"""A world whose input topics do not stay what they are, and what must hold in it all the same.

While the service runs, dies and starts, its inputs are deleted and made again, emptied or filled
far beyond what was consumed, restored under another id, given partitions, and lose what a node that
is elected does not have. The world keeps every log there ever was. An operator answers whenever the
service ends with `InputChangedError`, and knows the truth.

The checker reads the journal with code of its own. Of each partition it keeps the logs that hold
exactly what was consumed: where none is left, the service has read on from another log in silence.
The model it makes again from nothing, of those entries that no rollback has cut out.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from kafka import TopicPartition

from consumers.base.errors import FencedError, InputChangedError, TransportError
from consumers.base.records import Fetched, Partition
from consumers.journal import records as journal
from consumers.journal.merge import Merge
from consumers.journal.records import (
    ChallengersRecord,
    CommitRecord,
    IdentityRecord,
    InputsRecord,
    Range,
    RollbackRecord,
)
from consumers.service.differences import Decision
from consumers.service.recovery import _empty, rebuild, sources
from consumers.shard.batches import Commit
from consumers.shard.challengers import ChallengerSet
from consumers.shard.shard import Outcome, Shard
from consumers.snapshots.store import open_store
from consumers.transports.kafka.log import KafkaLog
from tests.consumers.feeds import NOW, phishing
from tests.simulation.broker import Broker, Record
from tests.simulation.weather import STORMY, DiedError
from tests.simulation.world import INPUTS, OPTIONS, OUTPUTS, Told, World

__all__ = ["RESTLESS", "Upheaval"]

# Snapshots are written here: what was consumed of a topic that is gone is in nothing else.
RESTLESS: Mapping[str, float] = {
    **{what: chance for what, chance in STORMY.items() if not what.startswith("snapshot")},
    "changed": 0.008,
}
CHANGES = ("remade", "outgrown", "restored", "lost", "elected", "widened", "grown")
MOST = 4  # changes of a seed
SLOW = 1.1  # seconds that one takes
LIVES = 200
# What a start says that needs records of a log that is not there any more.
LOST = (
    "cannot be rebuilt",
    "restarted at journal record",
    "nothing arrived",
    "changed or expired",
    "no longer exist",
)
JOURNAL = TopicPartition("svc-journal", 0)


@dataclass
class Reading:
    """What a journal says of the inputs, held against the logs there were."""

    broker: Broker
    fits: dict[TopicPartition, list[list[Record]]] = field(default_factory=dict)
    at: dict[TopicPartition, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    touched: set[TopicPartition] = field(default_factory=set)
    entries: list[tuple[Any, list[Fetched]]] = field(default_factory=list)
    identity: IdentityRecord | None = None

    def follow(self) -> Reading:
        """Read all of it."""
        for record in self.broker.committed(JOURNAL):
            entry = journal.decode(record.value)
            if isinstance(entry, IdentityRecord):
                self.identity = entry
                self._begin(entry.starts)
            elif isinstance(entry, InputsRecord):
                for topic, number in entry.gone:
                    del self.at[TopicPartition(topic, number)]
                self._begin(entry.starts)
                self.ids |= entry.topics
            elif isinstance(entry, CommitRecord):
                self.ids |= entry.topics
                self.entries.append((entry, [self._read(entry, r) for r in entry.ranges]))
            else:
                self.entries.append((entry, []))
        return self

    def _begin(self, starts: list[tuple[str, int, int]]) -> None:
        for topic, number, at in starts:
            part = TopicPartition(topic, number)
            self.at[part] = at
            self.fits[part] = list(self.broker.versions[part])
            self.touched.discard(part)

    def _read(self, entry: CommitRecord, r: Range) -> Fetched:
        part = TopicPartition(r.topic, r.partition)
        if self.at.get(part) != r.first:
            self.wrong.append(f"entry {entry.seq}: {part} jumps from {self.at.get(part)}")
        self.at[part] = r.end
        self.touched.add(part)
        logs = self.fits.setdefault(part, list(self.broker.versions[part]))
        found = [(log, _cut(log, r)) for log in logs]
        found = [(log, cut) for log, cut in found if (len(cut), _crc(cut)) == (r.count, r.crc32)]
        self.fits[part] = [log for log, _ in found]
        if not found:
            self.wrong.append(f"entry {entry.seq}: {part} was read on from another log, unsaid")
            return Fetched(Partition(*part), [], [], [], [])
        return found[0][1]

    def renewed(self) -> list[str]:
        """Which inputs have another id than the journaled one."""
        return [t for t, known in self.ids.items() if self.broker.ids.get(t) != known]

    def stale(self) -> list[str]:
        """Which inputs are not what was consumed of them.

        The id of a topic of which nothing was consumed is journaled with its first records.
        """
        begun = {part.topic for part in self.touched} | {p.topic for p, at in self.at.items() if at}
        out = [topic for topic in self.renewed() if topic in begun]
        return out + [str(part) for part in self.at if not self.fitting(part)]

    def fitting(self, part: TopicPartition) -> bool:
        """Whether a partition is the log that was consumed."""
        if part.topic not in self.broker.topics or part.partition >= self.broker.topics[part.topic]:
            return False
        log, at = self.broker.log(part), self.at[part]
        same = any(log is fit or _bare(log, at) == _bare(fit, at) for fit in self.fits[part])
        return same and len(log) >= at


class Upheaval(World):
    """One seed."""

    def __init__(self, seed: int, directory: Path, **options: Any) -> None:
        options = {"chances": RESTLESS, **options}
        super().__init__(seed, directory, **options)
        self._hosts = self._hosts[:1]  # a model that is on one host only is lost with it
        self._weather.change = self._change
        self._changes = 0
        self._fed = 0
        self._values = [x for x, _ in phishing(50)]
        self.wrong: list[str] = []
        self.lost = False

    def run(self) -> Told:
        """Live through it, answer, and look at what came of it."""
        with self._installed():
            decision: Decision | None = None
            for life in range(LIVES):
                calm = life >= LIVES // 2 or self._changes >= MOST
                if calm and self._weather.random.random() < 0.3:
                    self._weather.settled()
                try:
                    self._between()
                    self._life(self._hosts[0], decision=decision)
                    decision = None
                    if self._finished():
                        break
                except (DiedError, FencedError):
                    continue
                except InputChangedError as error:
                    decision = self._answer(error)
                except TransportError as error:
                    if self._is_lost(error):
                        break
            else:
                self.wrong.append(f"it did not come to an end in {LIVES} lives")
            self._weather.settled()
            self._judge()
        return self.told

    def _between(self) -> None:
        """Nobody else does anything."""

    def _finished(self) -> bool:
        """Whether nothing more will come; where something may, it does now."""
        while self._changes < MOST and self._weather.random.random() < 0.5:
            self._change()
        reading = Reading(self._broker).follow()
        ends = {part: self._broker.stable(part) for part in self._inputs()}
        return not reading.stale() and all(
            _last(self._broker, part, end) <= reading.at.get(part, -1) for part, end in ends.items()
        )

    def _inputs(self) -> list[TopicPartition]:
        return [TopicPartition(t, n) for t in INPUTS for n in range(self._broker.topics[t])]

    def _answer(self, error: InputChangedError) -> Decision:
        """What an operator says who knows what happened."""
        self.told.faults["said"] += 1
        reading = Reading(self._broker).follow()
        same = not reading.stale() and not reading.renewed()
        if same and reading.ids.keys() == INPUTS.keys():  # all were journaled
            self.wrong.append(f"false alarm: {error}")
        if all(reading.fitting(part) for part in reading.at):
            self.told.faults["answered: same"] += 1
            return "same"
        self.told.faults["answered: new"] += 1
        return "new"

    def _is_lost(self, error: TransportError) -> bool:
        """Whether records of before a change are needed: a process died before its snapshot."""
        self.lost = bool(Reading(self._broker).follow().stale()) or "restarted at" in str(error)
        words = (
            "rebuilt",
            "restarted at journal record",
            "nothing arrived",
            "changed or expired",
            "gone from",
            "no longer exist",
        )
        self.lost = self.lost and any(word in str(error) for word in words)
        self.told.faults["model lost, and said"] += self.lost
        return self.lost

    def _change(self) -> None:
        """Something happens to an input."""
        random, broker = self._weather.random, self._broker
        if self._changes >= MOST:
            return
        self._changes += 1
        what, topic = random.choice(CHANGES), random.choice([*INPUTS])
        self.told.faults[what] += 1
        part = TopicPartition(topic, random.randrange(broker.topics[topic]))
        end = broker.end(part)
        if what in ("remade", "outgrown"):
            partitions = broker.topics[topic]
            broker.delete(topic)
            broker.create(topic, partitions)
        elif what == "restored":
            broker.restore(topic)
        elif what == "lost":
            broker.fall_behind(part, random.randint(max(0, end - 30), end))
            broker.elect(part)
        elif what == "elected":
            broker.elect(part)
        elif what == "widened":
            broker.widen(topic, broker.topics[topic] + random.randint(1, 2))
        # Nobody deletes a topic, makes it again and fills it faster than the service looks.
        self._clock.now += SLOW
        for number in range(broker.topics[topic]):
            more = random.choice([0, 1, 7])
            self._feed(TopicPartition(topic, number), end + more if what == "outgrown" else more)

    def _feed(self, part: TopicPartition, count: int) -> None:
        """Records that were never there before."""
        batch = []
        for _ in range(count):
            self._fed += 1
            name = f"new{self._fed}"
            if part.topic == "obs":
                value = json.dumps({"id": name, **self._values[self._fed % 50]}).encode()
            else:
                value = json.dumps({"id": f"new{self._fed // 2}", "label": True}).encode()
            batch.append((NOW + self._fed, name.encode(), value, ()))
        if batch:
            self._broker.produce(None, 0, part, batch)

    def _judge(self) -> None:
        """Lost, doubled, other bits, unsaid."""
        reading = Reading(self._broker).follow()
        self.wrong += reading.wrong
        if not self.lost:
            self.wrong += [f"{what} is not what was consumed, unsaid" for what in reading.stale()]
            for part in self._inputs():
                end = _last(self._broker, part, self._broker.stable(part))
                if reading.at.get(part, 0) < end:
                    self.wrong.append(f"{part}: missing from {reading.at.get(part)} to {end}")
        if reading.identity is None or reading.wrong:
            return
        shard, said = self._again(reading)
        for topic, count in OUTPUTS.items():
            for part in (TopicPartition(topic, n) for n in range(count)):
                came = [(r.key, r.value) for r in self._broker.committed(part)]
                if came != said[part]:
                    self.wrong.append(f"values: {part} has {len(came)}, expected {len(said[part])}")
        if self.lost:
            return
        settings, log = self._config(self._hosts[0]), KafkaLog(["simulated:9092"], OPTIONS)
        found = sources(settings, log)
        end = log.end_offsets([found.journal])[found.journal]
        kept = rebuild(settings, log, found, open_store(settings), end=end).shard
        if kept.fingerprint() != shard.fingerprint():
            self.wrong.append("state: from the snapshots it is another than from the journal")
        log.close()

    def _again(self, reading: Reading) -> tuple[Shard, dict[TopicPartition, list[Any]]]:
        """The model from the journal and the logs of then, and what it must have said."""
        log = KafkaLog(["simulated:9092"], OPTIONS)
        found = sources(self._config(self._hosts[0]), log)
        log.close()
        assert reading.identity is not None

        def empty() -> Shard:
            assert reading.identity is not None
            return _empty(self._config(self._hosts[0]), reading.identity, found)

        said: dict[TopicPartition, list[Any]] = {
            TopicPartition(t, n): [] for t, count in OUTPUTS.items() for n in range(count)
        }
        shard, past = empty(), Past()
        for entry, parts in reading.entries:
            if isinstance(entry, RollbackRecord):
                shard = empty()
                for step in past.back(entry):
                    step(shard)
                continue
            step = _step(entry, parts, found.label_topics)
            outcome = step(shard)
            past.add(entry, step)
            for r in () if outcome is None else (*outcome.predictions(), *outcome.dead_letters()):
                said[TopicPartition(r.topic, r.partition or 0)].append((r.key, r.value))
        shard.positions = {Partition(*part): at for part, at in reading.at.items()}
        return shard, said


Step = Callable[[Shard], Outcome | None]


class Past:
    """What made the model, and what had made it after each entry."""

    def __init__(self) -> None:
        self._steps: tuple[Step, ...] = ()
        self._after: dict[int, tuple[Step, ...]] = {0: ()}
        self._refused: dict[int, list[tuple[str, int, list[int]]]] = {}

    def add(self, entry: CommitRecord | ChallengersRecord, step: Step) -> None:
        """An entry makes it another one."""
        self._steps = self._after[entry.seq] = (*self._steps, step)
        if isinstance(entry, CommitRecord):
            self._refused[entry.seq] = entry.early

    def back(self, reset: RollbackRecord) -> tuple[Step, ...]:
        """What makes the model after a rollback; dead letters that are written stay written."""
        to = max(seq for seq in self._after if seq <= reset.to)
        refused = [early for seq, early in sorted(self._refused.items()) if seq > reset.to]
        gone = [partial(_forget, early) for early in refused]
        self._steps = self._after[reset.seq] = (*self._after[to], *gone)
        return self._steps


def _forget(early: list[tuple[str, int, list[int]]], shard: Shard) -> None:
    shard.forget_early(early)


def _step(
    entry: CommitRecord | ChallengersRecord, parts: list[Fetched], label_topics: frozenset[str]
) -> Step:
    """What an entry does to a model."""

    def change(shard: Shard) -> None:
        assert isinstance(entry, ChallengersRecord)
        shard.set_challengers(ChallengerSet(entry.challengers, entry.threshold), entry.champion)

    def process(shard: Shard) -> Outcome:
        assert isinstance(entry, CommitRecord)
        merge = Merge([p.partition for p in parts], label_topics)
        merge.add(parts)
        batch = merge.take(1 << 62, {}, now=entry.now, wait=False)
        assert batch is not None
        commit = Commit(entry.skips, entry.max_dead_letter_ratio, entry.drift)
        return shard.process(batch, entry.now, commit)

    return change if isinstance(entry, ChallengersRecord) else process


def _visible(log: list[Record], first: int, end: int) -> Iterator[Record]:
    for r in log[first:end]:
        if not r.marker and (r.transaction is None or r.transaction.status == "committed"):
            yield r


def _bare(log: list[Record], end: int) -> list[tuple[Any, ...]]:
    """What somebody was given of a log up to an offset."""
    return [(r.offset, r.timestamp, r.key, r.value) for r in _visible(log, 0, end)]


def _cut(log: list[Record], r: Range) -> Fetched:
    found = list(_visible(log, r.first, r.end))
    return Fetched(
        Partition(r.topic, r.partition),
        [x.offset for x in found],
        [x.timestamp for x in found],
        [x.key for x in found],
        [x.value for x in found],
    )


def _crc(part: Fetched) -> int:
    """Offsets, timestamps, then keys and values with their sizes, as the journal says."""
    crc = zlib.crc32(np.array(part.offsets, dtype="<i8").tobytes())
    crc = zlib.crc32(np.array(part.timestamps, dtype="<i8").tobytes(), crc)
    for cells in (part.keys, part.values):
        sizes = [-1 if cell is None else len(cell) for cell in cells]
        crc = zlib.crc32(np.array(sizes, dtype="<i8").tobytes(), crc)
        for cell in cells:
            crc = zlib.crc32(cell or b"", crc)
    return crc


def _last(broker: Broker, part: TopicPartition, end: int) -> int:
    """The offset after the last record that somebody is given."""
    return max((r.offset + 1 for r in _visible(broker.log(part), 0, end)), default=0)
