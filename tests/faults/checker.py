"""The independent checker: whether what lies in the topics is exactly once, in order, and right.

Rule: it shares no code with `consumers`; it decodes JSON, knows the wire format from its
documentation, and takes the order of an entry from the slow twin of the merge. Every violation is
one line; an empty list is a proof for this run. Each shard has a journal of its own: it is checked
alone, and all of them together must have taken everything.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.faults.seen import Log, Seen
from tests.oracles.merge import merge_heads

__all__ = ["Entry", "Names", "Place", "check", "cut_out"]

MOST = 5  # places named in a violation


class Place(NamedTuple):
    """Where a record lies: its identity, whatever its application calls it."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True)
class Names:
    """The topics of a service."""

    observations: str
    labels: str
    predictions: str
    dead_letters: str
    journal: str

    @property
    def inputs(self) -> tuple[str, str]:
        return self.observations, self.labels

    @property
    def outputs(self) -> tuple[str, str, str]:
        return self.predictions, self.dead_letters, self.journal


@dataclass
class Entry:
    """One journal record and what it should have brought."""

    shard: int
    seq: int
    now: int
    predictions: int = 0
    dead_letters: int = 0
    records: list[Seen] = field(default_factory=list)  # in the order it consumed them
    skips: set[Place] = field(default_factory=set)
    back_to: int | None = None  # a rollback to that entry

    def __str__(self) -> str:
        return f"entry {self.seq} of shard {self.shard}"


LATE = (b"label_kind", b"max_classes")  # why a label is refused, perhaps long after it came

# The entries of one shard, and the dead letters, to what each prediction must say.
Oracle = Callable[[Sequence[Entry], Collection[Place]], Mapping[Place, Mapping[str, Any]]]


def check(
    log: Log,
    names: Names,
    *,
    shards: int = 1,
    watched: Log | None = None,
    committed: Mapping[tuple[str, int], int] | None = None,
    bad: Callable[[Seen], bool] | None = None,
    oracle: Oracle | None = None,
) -> list[str]:
    """Every violation in the topics of a service that has come to the end of its inputs.

    Parameters
    ----------
    log
        Everything in its topics, read afterwards.
    shards
        How many it has.
    watched
        What a reader saw that ran during the faults.
    committed
        The group's offsets.
    bad
        Which input records must be dead letters, and no others; None: those that are.
    oracle
        What the predictions of a shard must say, from its entries in order and the dead letters.
    """
    told: list[str] = []
    entries = [e for shard in range(shards) for e in _entries(log, names, shard, shards, told)]
    predictions = _predictions(log, names, told)
    dead = _dead_letters(log, names, told)
    skips = {place for entry in entries for place in entry.skips}
    told += _tiled(log, names, entries, committed)
    told += _complete(log, names, predictions, dead, skips)
    told += _ordered(log, names, entries)
    told += _counted(names, entries, predictions, dead)
    if bad is not None:
        expected = {_place(r) for topic in names.inputs for r in _all(log, topic) if bad(r)}
        told += _difference("dead letters", set(dead), expected)
    if watched is not None:
        told += _as_watched(log, names, watched)
    if oracle is not None:
        for shard in range(shards):
            mine = [entry for entry in entries if entry.shard == shard]
            told += _as_told(predictions, oracle(mine, dead.keys() | skips))
    return told


def cut_out(log: Log, names: Names, shard: int) -> set[int]:
    """Numbers of the entries that rollbacks cut out of the history of a shard."""
    cut: set[int] = set()
    for record in reversed(log.get((names.journal, shard), ())):
        entry = json.loads(record.value or b"null")
        if entry["kind"] == "rollback" and entry["seq"] not in cut:  # else it was cut out itself
            cut |= set(range(entry["to"] + 1, entry["seq"]))
    return cut


def _all(log: Log, topic: str) -> Iterator[Seen]:
    for (name, _), records in sorted(log.items()):
        if name == topic:
            yield from records


def _place(record: Seen) -> Place:
    return Place(record.topic, record.partition, record.offset)


def _named(places: Collection[Any]) -> str:
    some = ", ".join(str(tuple(place)) for place in sorted(places)[:MOST])
    return some + (f" and {len(places) - MOST} more" if len(places) > MOST else "")


def _difference(what: str, found: set[Place], expected: set[Place]) -> list[str]:
    told = []
    if missing := expected - found:
        told.append(f"{what}: {len(missing)} missing: {_named(missing)}")
    if extra := found - expected:
        told.append(f"{what}: {len(extra)} too many: {_named(extra)}")
    return told


def _entries(log: Log, names: Names, shard: int, shards: int, told: list[str]) -> Iterator[Entry]:
    """A journal's entries with their records in order; what is wrong with it goes to `told`."""
    journal = [json.loads(r.value or b"null") for r in log.get((names.journal, shard), ())]
    if not journal or journal[0]["kind"] != "identity":
        told.append(f"journal: that of shard {shard} does not begin with an identity")
        return
    at = {(topic, number): start for topic, number, start in journal[0]["starts"]}
    clock = 0
    for expected, entry in enumerate(journal[1:], 1):
        if entry["kind"] == "identity":
            told.append(f"journal: a second identity at entry {expected} of shard {shard}")
            continue
        made = _entry(log, names, shard, entry)
        if made.seq != expected:
            told.append(f"journal: {made} where {expected} should be")
        if made.now < clock:
            told.append(f"journal: the clock of {made} goes back")
        clock = made.now
        if made.back_to is not None and not 0 <= made.back_to < made.seq:
            told.append(f"journal: {made} goes back to {made.back_to}")
        told += _ranges(made, entry.get("ranges", ()), at, shards)
        yield made


def _entry(log: Log, names: Names, shard: int, told: Mapping[str, Any]) -> Entry:
    """What an entry says, and its records."""
    if told["kind"] != "commit":  # a rollback, or who speaks: nothing is consumed
        return Entry(shard, told["seq"], told["now"], back_to=told.get("to"))
    heads = {
        (topic, number): [r for r in log.get((topic, number), ()) if first <= r.offset < end]
        for topic, number, first, end, *_ in told["ranges"]
    }
    return Entry(
        shard,
        told["seq"],
        told["now"],
        told["predictions"],
        told["dead_letters"],
        list(_in_order(heads, names)),
        {Place(*skip[:3]) for skip in told.get("skips") or ()},
    )


def _ranges(
    entry: Entry, ranges: Sequence[Any], at: dict[tuple[str, int], int], shards: int
) -> Iterator[str]:
    """Whether an entry goes on where the one before ended, and counts what is there."""
    counts = Counter((record.topic, record.partition) for record in entry.records)
    for topic, number, first, end, count, *_ in ranges:
        part = (topic, number)
        if number % shards != entry.shard:
            yield f"journal: {entry} takes {part}, which is another shard's"
        if first != at.get(part, 0):
            yield (
                f"journal: {entry} takes {part} from {first}, "
                f"the one before ended at {at.get(part, 0)}"
            )
        at[part] = end
        if counts[part] != count:
            yield f"journal: {entry} counts {count} records of {part}, {counts[part]} are there"


def _in_order(heads: Mapping[tuple[str, int], list[Seen]], names: Names) -> Iterator[Seen]:
    at = {part: {r.offset: r for r in records} for part, records in heads.items()}
    times = {part: [(r.offset, r.timestamp) for r in records] for part, records in heads.items()}
    for topic, number, offset in merge_heads(times, {names.labels}):
        yield at[topic, number][offset]


def _predictions(log: Log, names: Names, told: list[str]) -> dict[Place, dict[str, Any]]:
    found: dict[Place, dict[str, Any]] = {}
    doubled: Counter[Place] = Counter()
    for record in _all(log, names.predictions):
        said = json.loads(record.value or b"null")
        at = said["position"]
        place = Place(at["topic"], at["partition"], at["offset"])
        doubled[place] += place in found
        found[place] = {**said, "learned": said["model"]["learned"]}
    if twice := +doubled:
        told.append(f"predictions: {twice.total()} doubled: {_named(twice)}")
    return found


def _dead_letters(log: Log, names: Names, told: list[str]) -> dict[Place, Seen]:
    found: dict[Place, Seen] = {}
    doubled: Counter[Place] = Counter()
    for record in _all(log, names.dead_letters):
        said = dict(record.headers)
        place = Place(
            said["topic"].decode(), int(said["partition"].decode()), int(said["offset"].decode())
        )
        doubled[place] += place in found
        found[place] = record
    if twice := +doubled:
        told.append(f"dead letters: {twice.total()} doubled: {_named(twice)}")
    originals = {_place(r): r for topic in names.inputs for r in _all(log, topic)}
    for place, record in found.items():
        original = originals.get(place)
        whole = b"cut_from_bytes" not in dict(record.headers)
        if original is None or (whole and record.value != original.value):
            told.append(f"dead letters: that of {tuple(place)} does not hold the original")
    return found


def _tiled(
    log: Log,
    names: Names,
    entries: list[Entry],
    committed: Mapping[tuple[str, int], int] | None,
) -> list[str]:
    """Each input record is in exactly one entry; the group stands where the journal ends."""
    told = []
    taken = Counter(_place(record) for entry in entries for record in entry.records)
    if twice := {place for place, count in taken.items() if count > 1}:
        told.append(f"journal: {len(twice)} records in two entries: {_named(twice)}")
    every = {_place(r) for topic in names.inputs for r in _all(log, topic)}
    told += _difference("records in the journal", set(taken), every)
    if committed is not None:
        for part, offset in sorted(committed.items()):
            last = max((p.offset for p in taken if (p.topic, p.partition) == part), default=-1)
            if last >= 0 and offset != last + 1:
                told.append(f"offsets: {part} is committed at {offset}, its last record is {last}")
        ended = {(p.topic, p.partition) for p in taken}
        told += [f"offsets: {part} has none committed" for part in sorted(ended - committed.keys())]
    return told


def _complete(
    log: Log,
    names: Names,
    predictions: Mapping[Place, Any],
    dead: Mapping[Place, Any],
    skips: set[Place],
) -> list[str]:
    """Each observation ends as exactly one of prediction, dead letter, skip."""
    observations = {_place(record) for record in _all(log, names.observations)}
    told = _difference("predictions", set(predictions), observations - dead.keys() - skips)
    if both := predictions.keys() & dead.keys():
        told.append(f"predictions: {len(both)} of dead letters: {_named(both)}")
    return told


def _ordered(log: Log, names: Names, entries: list[Entry]) -> list[str]:
    """In a partition of the predictions each shard's have the order in which it consumed them."""
    told = []
    rank = {
        _place(r): (entry.shard, i)
        for i, (entry, r) in enumerate((e, r) for e in entries for r in e.records)
    }
    originals = {_place(r): r for r in _all(log, names.observations)}
    for (topic, number), records in sorted(log.items()):
        if topic != names.predictions:
            continue
        before: dict[int, int] = {}
        for record in records:
            said = json.loads(record.value or b"null")
            place = Place(*(said["position"][k] for k in ("topic", "partition", "offset")))
            if place in rank:
                shard, here = rank[place]
                if here < before.get(shard, -1):
                    told.append(f"order: partition {number} tells {tuple(place)} too late")
                before[shard] = max(before.get(shard, -1), here)
            original = originals.get(place)
            if original is not None and said["ts"] != original.timestamp:
                told.append(f"predictions: {tuple(place)} has another time than its observation")
    return told[:MOST]


def _counted(
    names: Names, entries: list[Entry], predictions: Collection[Place], dead: Mapping[Place, Seen]
) -> list[str]:
    """No transaction is torn: an entry's outputs are as many as it says.

    A label that came before its observation may be refused in a later entry, when that comes: it
    counts in any entry from its own on, and in one of them.
    """
    told = []
    refused = {p for p, r in dead.items() if dict(r.headers).get("reason") in LATE}
    late = {p for p in refused if p.topic == names.labels}
    left: Counter[int] = Counter()  # of each shard, late ones that no entry has counted yet
    for entry in entries:
        places = {_place(record) for record in entry.records}
        found = len(places & set(predictions))
        if entry.predictions != found:
            told.append(f"{entry}: says {entry.predictions} predictions, {found} are there")
        least = len(places & set(dead) - late)
        left[entry.shard] += len(places & late)
        if not least <= entry.dead_letters <= least + left[entry.shard]:
            most = least + left[entry.shard]
            came = least if most == least else f"{least} to {most}"
            told.append(f"{entry}: says {entry.dead_letters} dead letters, {came} are there")
        left[entry.shard] -= entry.dead_letters - least
    if not told and any(left.values()):
        told.append(f"dead letters: {sum(left.values())} are in no entry's count")
    return told


def _as_watched(log: Log, names: Names, watched: Log) -> list[str]:
    """A reader that ran all the time saw the same sequence of records."""
    told = []
    for part, records in sorted(log.items()):
        if part[0] not in names.outputs:
            continue
        beside = watched.get(part, [])
        if beside != records:
            first = next(
                (i for i, (a, b) in enumerate(zip(beside, records, strict=False)) if a != b),
                min(len(beside), len(records)),
            )
            told.append(
                f"watched: {part} differs from record {first} on: {len(beside)} seen during the "
                f"faults, {len(records)} afterwards"
            )
    return told


def _as_told(
    predictions: Mapping[Place, Mapping[str, Any]], expected: Mapping[Place, Mapping[str, Any]]
) -> list[str]:
    """Every number of every prediction is the oracle's, to the last bit."""
    wrong = [
        f"values: {tuple(place)} says {said}, the oracle {wanted}"
        for place, wanted in expected.items()
        if place in predictions
        and (said := {k: predictions[place].get(k) for k in wanted}) != wanted
    ]
    return wrong[:MOST] + ([f"values: {len(wrong)} wrong in all"] if wrong else [])
