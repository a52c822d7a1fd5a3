"""What came of a world, compared with a twin that was never killed.

The twin is the same service over the same records in memory. Where the order of records depends on
when they came, it gets them as the journal says, commit by commit. Where predictions depend on the
clock, because shards mix, the journal is replayed instead, which is no process that could be killed
either. Lost, doubled and changed records are named, and states and counts of labels that differ.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import msgspec

from consumers.base.records import Outgoing, Partition
from consumers.codecs.registry import prediction_as_json
from consumers.commands.run import make_own_topics
from consumers.config import Config
from consumers.config.load import log_of
from consumers.journal import records as journal
from consumers.journal.records import CommitRecord
from consumers.service import recovery
from consumers.service.live import LiveShard
from consumers.service.recovery import rebuild, sources
from consumers.service.replay import steps
from consumers.service.runner import Runner
from consumers.shard.batches import Explained
from consumers.shard.outcome import Outcome
from consumers.shard.views import Committed, ShardView
from consumers.snapshots.store import open_store
from consumers.transports.protocol import Log
from tests.faults.checker import Names, check
from tests.faults.seen import Seen, read_topics
from tests.worlds.features import SCHEMAS
from tests.worlds.services import Setting, Sizes

__all__ = ["Switch", "Told", "Topics", "differences", "joined", "judge", "topics_of", "twin"]

Topics = dict[tuple[str, int], list[Seen]]
Place = tuple[str, int, int, int]  # topic, partition, offset, row
Switch = Mapping[tuple[str, int], int]  # offset from which on each input is predicted otherwise
TWIN = Sizes(max_records=97)
CAUSE = "cause"  # header of a dead letter of a twin
SHOWN = 3
CUT = 400  # characters of a value


@dataclass
class Told:
    """What a service has written, and what it knows at the end."""

    predictions: dict[int, list[Seen]] = field(default_factory=dict)
    dead: list[Seen] = field(default_factory=list)
    states: list[LiveShard] = field(default_factory=list)
    causes: list[Place] = field(default_factory=list)  # of each dead letter of a twin


def topics_of(log: Log, names: Sequence[str], bootstrap: str) -> Topics:
    """Every record of these topics now, with its headers."""
    counts = {topic: about.partitions for topic, about in log.describe(names).items()}
    if bootstrap:
        return read_topics(bootstrap, [*counts]) if counts else {}
    parts = [Partition(topic, n) for topic, count in counts.items() for n in range(count)]
    ends = log.end_offsets(parts)
    return {tuple(part): list(_records(log, part, ends[part])) for part in parts}  # type: ignore[misc]


def _records(log: Log, part: Partition, end: int) -> Iterator[Seen]:
    if end == 0:
        return
    with closing(log.follow({part: 0}, poll_seconds=0.01)) as records:  # type: ignore[type-var]
        for record in records:
            yield Seen(*record)
            if record.offset == end - 1:
                return


def judge(
    setting: Setting,
    directory: Path,
    *,
    first: int,
    ids: Mapping[int, list[list[str]]],
    before: Setting | None = None,
    switch: Switch | None = None,
    bootstrap: str = "",
) -> list[str]:
    """Everything that is not as in the twin.

    Parameters
    ----------
    setting
        The service as it is at the end of all records.
    directory
        For the twin.
    first
        How many records there were when it began, if that decides its fields; else 0.
    ids
        Those that were sent, by partition and offset.
    before, switch
        The service before a command, and where it changed.
    bootstrap
        The broker; "": an embedded log.
    """
    config, c = setting.config(), setting.choice
    with closing(log_of(config)) as log:
        names = [*config.topics.values(), *([before.config().journal_topic] if before else [])]
        there = topics_of(log, [*dict.fromkeys(names)], bootstrap)
        inputs = {part: seen for part, seen in there.items() if part[0] in config.input_topics}
        came = _told(config, there, _states(config, log))
        if c["mix"] == "yes":
            due = _replayed(config, log)
        else:
            chunks = _commits(config, there) if c["feed"] == "live" else None
            due = twin(setting, inputs, directory / "twin", first, chunks)
            if before is not None and switch is not None:
                old = twin(before, inputs, directory / "before", first, None)
                due = joined(old, due, switch, config)
        found = _compared(config, came, due, repeats=c["guarantee"] == "at_least_once")
        found += _of_ids(config, came, ids)
        found += _of_snapshots(config, log, came)
        found += _of_group(config, log, there)
        if c["format"] not in (*SCHEMAS, "arrow") and before is None:
            found += _checked(config, there, exactly=c["guarantee"] == "exactly_once")
    return found


# What there is.


def _told(config: Config, there: Topics, states: list[LiveShard]) -> Told:
    predictions = {
        number: seen for (topic, number), seen in there.items() if topic == config.predictions_topic
    }
    return Told(predictions, there.get((config.dead_letters_topic, 0), []), states)


def _states(config: Config, log: Log) -> list[LiveShard]:
    """Each shard, from its journal alone."""
    out = []
    for number in range(config.scale.shards):
        found = sources(config, log, number)
        end = log.end_offsets([found.journal])[found.journal]
        out.append(rebuild(config, log, found, None, end=end))
    return out


def twin(
    setting: Setting,
    inputs: Topics,
    directory: Path,
    first: int,
    chunks: list[list[list[tuple[str, int, int, int]]]] | None,
) -> Told:
    """The same service, never killed, over the same records.

    `chunks`: of each shard, the ranges that each of its commits has; None: all at once, but for
    the `first` ones, which are there when it begins. Each dead letter has its cause: its own
    record, or the later record of its id with which an early label is refused.
    """
    directory.mkdir()
    own = setting.twin(f"memory:{uuid4()}", directory)
    config = own.config(TWIN if setting.choice["format"] != "arrow" else Sizes(40))
    with closing(log_of(config)) as log, patch.object(Outcome, "dead_letters", _caused()):
        for topic in config.input_topics:
            log.create_topic(topic, setting.partitions)
        make_own_topics(config, log)
        every = sorted((r for seen in inputs.values() for r in seen), key=lambda r: r.timestamp)
        for number in range(config.scale.shards):
            if chunks is not None:
                _fed(config, number, inputs, chunks[number])
        for part in filter(None, (every[:first], every[first:]) if chunks is None else ()):
            log.append([_outgoing(record) for record in part])
            for number in range(config.scale.shards):
                with closing(log_of(config)) as opened:
                    Runner(config, opened, threading.Event(), shard=number, drain=True).run()
        there = topics_of(log, [*config.topics.values()], "")
        told = _told(config, there, _states(config, log))
    for i, record in enumerate(told.dead):
        (cause,) = [value for name, value in record.headers if name == CAUSE]
        topic, part, offset = json.loads(cause)
        told.causes.append((topic, part, offset, -1))
        headers = tuple(each for each in record.headers if each[0] != CAUSE)
        told.dead[i] = record._replace(headers=headers)
    return told


def _caused() -> Callable[[Outcome], Iterator[Outgoing]]:
    """`Outcome.dead_letters`, with the place of the record that is the cause as a header."""
    real = Outcome.dead_letters

    def dead_letters(outcome: Outcome) -> Iterator[Outgoing]:
        at = sorted([*outcome.rejected, *(early.at for early in outcome.early)])
        for i, record in zip(at, real(outcome), strict=True):
            (topic, part), offset = outcome.batch.place(i)
            cause = json.dumps([topic, part, offset]).encode()
            yield record._replace(headers=(*record.headers, (CAUSE, cause)))

    return dead_letters


def _outgoing(record: Seen) -> Outgoing:
    return Outgoing(
        record.topic, record.key, record.value, record.timestamp, record.headers, record.partition
    )


def _fed(
    config: Config, number: int, inputs: Topics, chunks: list[list[tuple[str, int, int, int]]]
) -> None:
    """Run a shard that gets the records of one commit after those of the one before it."""
    stop, waiting, ends = threading.Event(), iter(chunks), dict[Partition, int]()

    def more() -> None:
        ranges = next(waiting, None)
        if ranges is None:
            stop.set()
            return
        ends.clear()
        for topic, part, _, end in ranges:
            ends[Partition(topic, part)] = end
        log.append(
            [
                _outgoing(r)
                for topic, part, first, end in ranges
                for r in inputs[topic, part]
                if first <= r.offset < end
            ]
        )

    def committed(event: Committed, view: ShardView) -> None:
        if all(view.positions[part] >= end for part, end in ends.items()):
            more()

    with closing(log_of(config)) as log, closing(log_of(config)) as opened:
        more()
        if not stop.is_set():
            Runner(config, opened, stop, shard=number, subscribers=[committed]).run()


def _commits(config: Config, there: Topics) -> list[list[list[tuple[str, int, int, int]]]]:
    """Of each shard, the ranges of each of its commits."""
    out = []
    for number in range(config.scale.shards):
        entries = [journal.decode(r.value) for r in there[config.journal_topic, number]]
        commits = [entry for entry in entries if isinstance(entry, CommitRecord)]
        out.append([[(r.topic, r.partition, r.first, r.end) for r in c.ranges] for c in commits])
    return out


def _replayed(config: Config, log: Log) -> Told:
    """What the journal makes of the records, each shard from nothing."""
    told, made = Told(), list[Outgoing]()

    def replay(*args: Any, **options: Any) -> None:
        everything = Explained(config.output.explain) if config.output.explain else Explained()
        for _, outcome in steps(*args[:5], explain=everything):
            made.extend([*outcome.predictions(), *outcome.dead_letters()])

    with patch.object(recovery, "replay", replay):
        told.states = _states(config, log)
    for record in made:
        seen = Seen(
            record.topic,
            record.partition or 0,
            0,
            record.timestamp or 0,
            record.key,
            record.value,
            tuple(record.headers),
        )
        if record.topic == config.predictions_topic:
            told.predictions.setdefault(seen.partition, []).append(seen)
        else:
            told.dead.append(seen)
    return told


def joined(old: Told, new: Told, switch: Switch, config: Config) -> Told:
    """The old service up to the switch, and the new one from there on.

    A dead letter is written with its cause: a label from before the switch may be refused after it.
    """

    def later(place: Place) -> bool:
        return place[2] >= switch.get(place[:2], 0)

    out = Told(states=new.states)
    for number in sorted(old.predictions.keys() | new.predictions.keys()):
        before = [r for r in old.predictions.get(number, []) if not later(_place(config, r))]
        after = [r for r in new.predictions.get(number, []) if later(_place(config, r))]
        out.predictions[number] = before + after
    pairs = [zip(told.dead, told.causes, strict=True) for told in (old, new)]
    out.dead = [r for r, cause in pairs[0] if not later(cause)]
    out.dead += [r for r, cause in pairs[1] if later(cause)]
    return out


# What differs.


def _place(config: Config, record: Seen) -> Place:
    """Where the observation of a prediction is."""
    at = _prediction(config, record)["position"]
    return at["topic"], at["partition"], at["offset"], at.get("index") or 0


def _prediction(config: Config, record: Seen) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(
        prediction_as_json(config.input.format, record.value or b"")
    )
    return found


def _dead(record: Seen) -> Place:
    """Where the record of a dead letter is."""
    h = dict(record.headers)
    return h["topic"].decode(), int(h["partition"]), int(h["offset"]), int(h.get("index", b"-1"))


def _bytes(record: Seen) -> tuple[Any, ...]:
    return record.key, record.value, record.timestamp, tuple(sorted(record.headers))


def _compared(config: Config, came: Told, due: Told, *, repeats: bool) -> list[str]:
    """Lost, doubled and changed records, and states that are others."""
    found = []
    for number in sorted(came.predictions.keys() | due.predictions.keys()):
        mine, its = (told.predictions.get(number, []) for told in (came, due))
        where = f"predictions of partition {number}"
        placed = [[(_place(config, r), _bytes(r)) for r in each] for each in (mine, its)]
        found += differences(where, *placed, repeats=repeats, ordered=True)
    placed = [[(_dead(r), _bytes(r)) for r in told.dead] for told in (came, due)]
    found += differences("dead letters", *placed, repeats=repeats, ordered=False)
    for number, (a, b) in enumerate(zip(came.states, due.states, strict=True)):
        if not a.shard.pickled and a.shard.fingerprint() != b.shard.fingerprint():
            found.append(f"state: that of shard {number} is not the twin's")
        mine, its = ({k: n for k, n in live.shard.view().labels.items() if n} for live in (a, b))
        if mine != its:
            found.append(f"state: labels of shard {number}: {mine}, those of the twin {its}")
    return found


def differences(
    where: str,
    came: list[tuple[Place, tuple[Any, ...]]],
    due: list[tuple[Place, tuple[Any, ...]]],
    *,
    repeats: bool,
    ordered: bool,
) -> list[str]:
    """What is missing, too many or another one, of records that have come and that are due.

    `repeats`: identical ones may be there again. `ordered`: their order counts.
    """
    if repeats:
        came, due = ([*dict.fromkeys(each)] for each in (came, due))
    found, places = [], [Counter(place for place, _ in each) for each in (came, due)]
    for what, more, less in (("missing", places[1], places[0]), ("too many", *places)):
        if extra := more - less:
            shown = ", ".join(map(str, sorted(extra)[:SHOWN]))
            found.append(f"{where}: {extra.total()} {what}: {shown}")
    expected = dict(due)
    wrong = [(p, its) for p, its in came if p in expected and its != expected[p]]
    for place, its in [] if found else wrong[:SHOWN]:
        mine, twins = ("; ".join(each) for each in zip(*_unlike(its, expected[place]), strict=True))
        found.append(f"values: {where}: {place} has {mine}, the twin's {twins}")
    if ordered and not found and not repeats and came != due:
        found.append(f"values: {where}: another order")
    return found


def _unlike(one: tuple[Any, ...], two: tuple[Any, ...]) -> list[tuple[str, str]]:
    """The parts of two records that differ, up to where a line gets too long."""
    pairs = zip(one, two, strict=True)
    return [(repr(a)[:CUT], repr(b)[:CUT]) for a, b in pairs if a != b]


def _of_ids(config: Config, came: Told, ids: Mapping[int, list[list[str]]]) -> list[str]:
    """A prediction has the id of its observation, as its key too; each of them has an outcome."""
    found = []
    dead = {_dead(r)[:3] for r in came.dead}
    seen: dict[tuple[int, int], list[str]] = {}
    for records in came.predictions.values():
        for record in records:
            place, made = _place(config, record), _prediction(config, record)
            seen.setdefault((place[1], place[2]), []).append(made["id"])
            if record.key != made["id"].encode():
                found.append(f"values: the prediction of {place} has the key {record.key!r}")
    for number, each in ids.items():
        for offset, known in enumerate(each):
            there = {*seen.get((number, offset), [])}
            whole = (config.input.observations, number, offset) not in dead
            if there - {*known} and known:
                found.append(f"values: ids of {number} {offset}: {there}, sent as {known}")
            if known and not there and whole:
                found.append(f"predictions: that of {number} {offset} is missing")
    return found[:SHOWN]


def _of_snapshots(config: Config, log: Log, came: Told) -> list[str]:
    """The state from a snapshot is the journal's."""
    found = []
    for number, live in enumerate(came.states):
        at = sources(config, log, number)
        end = log.end_offsets([at.journal])[at.journal]
        warm = rebuild(config, log, at, open_store(config, number), end=end)
        if not live.shard.pickled and warm.shard.fingerprint() != live.shard.fingerprint():
            found.append(f"state: that of shard {number} from a snapshot is not the journal's")
    return found


def _of_group(config: Config, log: Log, there: Topics) -> list[str]:
    """The offsets that the service has committed are the ends of its inputs."""
    parts = [Partition(*part) for part in there if part[0] in config.input_topics]
    at = log.committed(config.name, parts)
    ends = {part: len(there[tuple(part)]) for part in parts}  # type: ignore[index]
    return [f"offsets: {p} is committed at {at.get(p)}, it ends at {end}"
        for p, end in ends.items() if end and at.get(p) != end]  # fmt: skip


def _checked(config: Config, there: Topics, *, exactly: bool) -> list[str]:
    """What the checker finds, which shares no code with the service."""
    if not exactly:
        return []
    observations, labels = config.input.observations, config.input.labels or "none"
    names = Names(
        observations,
        labels,
        config.predictions_topic,
        config.dead_letters_topic,
        config.journal_topic,
    )
    return check(there, names, shards=config.scale.shards)
