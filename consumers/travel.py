"""Back in time: the model as it was, a prediction made again, and a span cut out of the history.

The journal says what was consumed, entry by entry, so any moment it reaches can be rebuilt. Only
`roll_back` and `say_last` before it write: one entry, and what was to be said before it. What was,
stays written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec

from consumers.base.errors import ConfigError, TransportError
from consumers.base.records import Outgoing, Partition, Record
from consumers.config import Config
from consumers.config.units import utc_text
from consumers.journal import records as journal
from consumers.journal.reader import course, entries
from consumers.journal.records import Entry, Identity, Journaled, Reset
from consumers.service.live import Live, Progress, Sources, pass_over
from consumers.service.recovery import rebuild, say_again
from consumers.service.replay import steps
from consumers.shard.models import build, explainable
from consumers.shard.shard import Outcome
from consumers.snapshots.store import SnapshotStore
from consumers.transports.protocol import Log, Owner

__all__ = [
    "Audit",
    "Cut",
    "Moment",
    "audit",
    "cut_from",
    "find",
    "moment",
    "rebuild_at",
    "roll_back",
    "say_last",
]

SHARES = 10  # of an explanation, where the configuration asks for none


@dataclass(frozen=True, slots=True)
class Moment:
    """After which entry: its number and clock, and the journal position after it."""

    seq: int
    now: int
    position: int

    def __str__(self) -> str:
        return f"journal position {self.position} (entry {self.seq}, {clock(self.now)})"


def clock(now: int) -> str:
    """A journaled clock for people, in UTC."""
    if not now:
        return "before any record"
    return f"{datetime.fromtimestamp(now / 1000, UTC).isoformat(timespec='milliseconds')[:-6]}Z"


def moment(log: Log, partition: Partition, at: str) -> Moment:
    """The last entry before a journal position, or until a time.

    Parameters
    ----------
    at
        A position of the journal, as `headwater snapshots list` shows them, or a time.

    Raises
    ------
    ConfigError
        It is neither, before the journal begins, or a position beyond its end.
    """
    end = log.end_offsets([partition])[partition]
    first = log.beginning_offsets([partition])[partition]
    position, until = (int(at), None) if at.isdecimal() else (end, _milliseconds(at))
    if position > end:
        raise ConfigError(f"{at} is beyond the journal {partition.topic}, which ends at {end}")
    found: Moment | None = None
    for offset, entry in entries(log, partition, first, position):
        if until is not None and entry.now > until:
            break
        found = Moment(entry.seq, entry.now, offset + 1)
    if found is None:
        start = next((entry for _, entry in entries(log, partition, first, end)), None)
        begins = "it is empty" if start is None else f"it begins with {_named(start)}"
        raise ConfigError(f"{at} is before what is left of the journal {partition.topic}: {begins}")
    return found


def rebuild_at(
    config: Config,
    log: Log,
    found: Sources,
    store: SnapshotStore | None,
    at: Moment,
    progress: Progress = lambda done, total: None,
) -> Live:
    """The shard as it was at a moment, from the newest good snapshot before it or from nothing.

    Raises
    ------
    TransportError
        Inputs, journal and snapshots do not reach that far back; it names what they reach.
    """
    try:
        return rebuild(config, log, found, store, end=at.position, progress=progress)
    except TransportError as error:
        raise TransportError(f"{error}; {_earliest(config, log, found, store, at)}") from None


def _earliest(
    config: Config, log: Log, found: Sources, store: SnapshotStore | None, at: Moment
) -> str:
    """What the snapshots still reach, the earliest of it."""
    reached: list[Moment] = []
    for part in [] if store is None else store.parts():
        for about, _ in part.newest(lambda _: None):
            reached.append(Moment(about.seq, about.now, about.position))
    later = [m for m in reached if m.position > at.position]
    if not later:
        return "no snapshot reaches any time either"
    return f"the earliest that can be rebuilt is {min(later, key=lambda m: m.position)}"


@dataclass(frozen=True, slots=True)
class Audit:
    """A prediction and the same made again.

    Parameters
    ----------
    said
        The record in the predictions topic; None where it is not there any more.
    again
        The record as it comes out now.
    entry
        The journal entry that made it; `learned` how many labels had been learned before it.
    explained
        The record with an explanation; None where the learner has none.
    others
        Where other observations lie that were predicted under the same id, TOPIC:PARTITION:OFFSET.
    """

    said: Record | None
    again: Outgoing
    entry: Entry
    explained: Outgoing | None
    others: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether both are the same bytes."""
        return self.said is not None and self.said.value == self.again.value


class _Position(msgspec.Struct):
    topic: str
    partition: int
    offset: int


class _Said(msgspec.Struct):
    position: _Position


def find(
    config: Config, log: Log, what: str, topics: Sequence[str] = ()
) -> tuple[list[Record], tuple[Partition, int]]:
    """The predictions of an observation, and where the observation lies.

    Parameters
    ----------
    what
        TOPIC:PARTITION:OFFSET of the observation, or its id.
    topics
        Where predictions may lie; empty: in the configured topic.

    Raises
    ------
    ConfigError
        There is no such prediction.
    """
    topic, _, rest = what.rpartition(":")
    name, _, number = topic.rpartition(":")
    placed = bool(name) and number.isdecimal() and rest.isdecimal()
    where = (Partition(name, int(number)), int(rest)) if placed else None
    key = what.encode()
    out = [
        record
        for topic in topics or [config.predictions_topic]
        for record in _all(log, topic)
        if (record.key == key if where is None else _place(record) == where)
    ]
    if out:
        found = _place(out[0])
        if found is not None:
            return out, found
    if where is not None and where[0].topic in config.input_topics:
        return [], where
    raise ConfigError(
        f"no prediction of {what!r} in {config.predictions_topic}; give the observation's id, or "
        "its TOPIC:PARTITION:OFFSET"
    )


def _topics(config: Config, log: Log, journaled: Partition) -> list[str]:
    """Where predictions go and, as journaled, went."""
    first = log.beginning_offsets([journaled])[journaled]
    end = log.end_offsets([journaled])[journaled]
    shapes = (e.shape for _, e in entries(log, journaled, first, end) if isinstance(e, Entry))
    went = [shape.predictions for shape in shapes if shape is not None]
    return list(dict.fromkeys([config.predictions_topic, *went]))


def _place(record: Record) -> tuple[Partition, int] | None:
    try:
        at = msgspec.json.decode(record.value or b"", type=_Said).position
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return Partition(at.topic, at.partition), at.offset


def _all(log: Log, topic: str) -> Iterator[Record]:
    parts = [Partition(topic, n) for n in range(log.topics().get(topic, 0))]
    starts, ends = log.beginning_offsets(parts), log.end_offsets(parts)
    for chunk in log.read(starts, ends):
        columns = zip(chunk.offsets, chunk.timestamps, chunk.keys, chunk.values, strict=True)
        for offset, timestamp, key, value in columns:
            yield Record(*chunk.partition, offset, timestamp, key, value, ())


def audit(
    config: Config,
    log: Log,
    found: Sources,
    store: SnapshotStore | None,
    what: str,
    progress: Progress = lambda done, total: None,
) -> Audit:
    """Rebuild the shard as it was just before a prediction, and make that prediction again.

    Raises
    ------
    ConfigError
        There is no such prediction, the record was never consumed, or another shard has it.
    TransportError
        What was then cannot be rebuilt.
    """
    said, (partition, offset) = find(config, log, what, _topics(config, log, found.journal))
    owner = partition.number % config.scale.shards
    if owner != found.journal.number:
        raise ConfigError(
            f"{partition} offset {offset} is of shard {owner}, not of {found.journal.number}; "
            f"give --shard {owner}"
        )
    before, after = _around(log, found.journal, partition, offset)
    shares = config.output.explain or (SHARES if explainable(build(config.model)) else 0)
    live = rebuild_at(config, log, found, store, before, progress)
    ahead = course(log, found.journal, live.position, after)
    made = (
        (entry, outcome, again)  # of the piece of the entry in which the record lies
        for entry, outcome in steps(log, found, live, after, ahead, explain=shares)
        if (again := _of(outcome, partition, offset)) is not None
    )
    entry, outcome, again = next(made, (None, None, None))
    if entry is None or outcome is None or again is None:
        raise ConfigError(f"{partition} offset {offset} was consumed and not predicted")
    shares = max(shares, outcome.spec.explain)
    told = replace(outcome, spec=replace(outcome.spec, explain=shares))
    then = next((record for record in said if record.topic == again.topic), None)
    explained = _of(told, partition, offset) if shares else None
    places = {place for record in said if (place := _place(record)) is not None}
    others = tuple(f"{p.topic}:{p.number}:{at}" for p, at in sorted(places - {(partition, offset)}))
    return Audit(then, again, entry, explained, others)


def _of(outcome: Outcome, partition: Partition, offset: int) -> Outgoing | None:
    """The prediction of one record of the batch."""
    batch = outcome.batch
    for i, record in zip(outcome.observed, outcome.predictions(), strict=True):
        if batch.partitions[batch.source[i]] == partition and batch.offsets[i] == offset:
            return record
    return None


def _around(
    log: Log, journaled: Partition, partition: Partition, offset: int
) -> tuple[Moment, int]:
    """The moment before the entry that consumed a record, and the position after that entry."""
    first = log.beginning_offsets([journaled])[journaled]
    end = log.end_offsets([journaled])[journaled]
    before = Moment(0, 0, first)
    for at, entry in entries(log, journaled, first, end):
        if isinstance(entry, Entry):
            for r in entry.ranges:
                if (r.topic, r.partition) == partition and r.first <= offset < r.end:
                    return before, at + 1
        before = Moment(entry.seq, entry.now, at + 1)
    raise ConfigError(
        f"{partition} offset {offset} is in no entry of the journal {journaled.topic}: it was not "
        "consumed yet, or its entry was trimmed"
    )


@dataclass(frozen=True, slots=True)
class Cut:
    """What a rollback would cut out: entries after `to`, how many, and how many records."""

    to: Moment
    last: Moment
    entries: int
    records: int


def cut_from(log: Log, found: Sources, to: Moment) -> Cut:
    """What lies behind a moment."""
    end = log.end_offsets([found.journal])[found.journal]
    last, count, records = to, 0, 0
    for at, entry in entries(log, found.journal, to.position, end):
        count += 1
        records += sum(r.count for r in entry.ranges) if isinstance(entry, Entry) else 0
        last = Moment(entry.seq, entry.now, at + 1)
    return Cut(to, last, count, records)


def say_last(
    config: Config, log: Log, found: Sources, store: SnapshotStore | None, live: Live
) -> str | None:
    """Write what the owner that was fenced may not have: a rollback would cut its entry out unsaid.

    Nothing is done where the last entry behind `live` holds its outputs itself. Returns why they
    cannot be made again; None where they were, or need not be.
    """
    end = log.end_offsets([found.journal])[found.journal]
    last = None
    for _, entry in entries(log, found.journal, live.position, end):
        last = entry if isinstance(entry, Entry) else last
    if last is None or not last.aside:
        return None
    try:
        live = rebuild(config, log, found, store, end=end)
    except TransportError as error:
        return f"the outputs of entry {last.seq} may be missing: {error}"
    say_again(log, live)
    return None


def roll_back(
    log: Log,
    owner: Owner,
    found: Sources,
    live: Live,
    *,
    now: int,
    reason: str,
) -> Reset:
    """Journal that the shard goes on from `live`, which was rebuilt at an earlier moment.

    `owner` has fenced the running service. `live` is then at the journal's end.

    Raises
    ------
    FencedError, TransportError
        From the owner; whether it was written shows in the journal.
    """
    end = log.end_offsets([found.journal])[found.journal]
    last = live.seq
    for _, entry in entries(log, found.journal, live.position, end):
        if isinstance(entry, Identity):
            continue
        pass_over(entry, live, cut=True)  # as a replay of this journal does
        last = entry.seq
        live.now = max(live.now, entry.now)
    reset = Reset(last + 1, max(now, live.now), live.seq, live.chain, reason)
    record = journal.written(reset, found.journal, reset.now)
    at = owner.commit([], record, live.shard.positions)
    live.seq, live.position, live.now = reset.seq, at + 1, reset.now
    return reset


def _milliseconds(text: str) -> int:
    try:
        return round(datetime.fromisoformat(utc_text(text)).timestamp() * 1000)
    except ValueError:
        wanted = 'expected a journal position or a time such as "2024-03-01T12:00:00Z"'
        raise ConfigError(f"{wanted}, got {text!r}") from None


def _named(entry: Journaled) -> str:
    return "entry 0" if isinstance(entry, Identity) else f"entry {entry.seq}, {clock(entry.now)}"
