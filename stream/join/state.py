"""The join state: what is known about each id, its bytes, and its saved form.

Waiting rows, early labels and settled ids are entries of one table of ids, of three kinds, each
ordered by time of arrival. An id has at most one entry. The rules are in `transitions.py`. A
transition moves the entry from one kind to another. Kernels do this, and update the byte counts
(`_kernels/planning.py`). The methods here do what they leave to Python: labels that were not
learned before, and corrections.

The row pool: which slots of the store have a kept row, and how large it is.

Kernels take and free slots. Free ones are reused, the last freed slot first. So the store is never
larger than the largest number of rows kept at one time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream.data.schema import Label, text_bytes
from stream.data.state import LONGEST, Rules, Saved, State, list_in
from stream.errors import StateError
from stream.join._kernels import ids as id_kernels
from stream.join._kernels.ids import (
    CODE,
    EARLY_BYTES,
    FREE_SLOTS,
    HEARD,
    IS_FLAGGED,
    KIND,
    LEARNED,
    NO_LABEL,
    NOT_HEARD,
    NOW,
    OLDEST,
    OTHER_LABEL,
    RECORDS,
    ROW_BYTES,
    SETTLED_BYTES,
    SIZE,
    SLOT,
    SLOTS,
    TEXT_BYTES,
    TIME,
    UNHEARD,
)
from stream.join.label_delay import LabelDelays
from stream.join.labels import AcceptedLabels
from stream.join.reporters import Votes
from stream.join.table import EARLY, SETTLED, WAITING, IdTable
from stream.join.transitions import IdState

__all__ = ["EarlyLabel", "JoinState"]


class RowPool:
    """Slots 0, 1, 2, …

    Parameters
    ----------
    table
        Its arrays have the slots.

    Examples
    --------
    >>> rows = RowPool(IdTable())
    >>> rows.count, rows.bytes, rows.size(-1)
    (0, 0, 0)
    """

    def __init__(self, table: IdTable) -> None:
        self._table = table

    @property
    def count(self) -> int:
        """One more than the largest slot ever taken: the size of the store."""
        return self._table.counts[SLOTS]

    @property
    def bytes(self) -> int:
        """Bytes of all rows."""
        return self._table.counts[ROW_BYTES]

    def size(self, slot: int) -> int:
        """The bytes of its row; 0 for slot -1, which means no row."""
        return int(self._table.arrays.sizes[slot]) if slot >= 0 else 0

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """The free slots, and slot and size of the rows that have bytes."""
        t = self._table.arrays
        sizes = t.sizes[: self.count]
        there = np.flatnonzero(sizes)
        return {
            "free": t.free[: t.counts[FREE_SLOTS]].copy(),
            "sizes": np.column_stack((there, sizes[there])),
        }

    def load(self, count: int, state: State, kept: NDArray[np.int64]) -> None:
        """Load the pool with this count and these arrays. `kept`: the slots that are taken.

        Raises
        ------
        StateError
            They are damaged.
        """
        table = {"free": Saved(np.int64, ("free",)), "sizes": Saved(np.int64, ("rows", 2))}
        rules: Rules = {
            "sizes of rows that are there": lambda a: np.isin(a["sizes"][:, 0], kept),
            "distinct slots of rows": lambda a: _are_slots(np.append(a["free"], kept), count),
        }
        free, sizes = state.read(table, rules).values()
        self._table.reserve(count, 0)
        t = self._table.arrays
        t.counts[SLOTS], t.counts[FREE_SLOTS] = count, free.size
        t.free[: free.size] = free
        t.sizes[:count] = 0
        t.sizes[sizes[:, 0]] = sizes[:, 1]
        t.counts[ROW_BYTES] = int(t.sizes[:count].sum())


def _are_slots(slots: NDArray[np.int64], count: int) -> bool:
    """Whether they are distinct and below `count`."""
    within = bool(((slots >= 0) & (slots < count)).all())
    return within and np.unique(slots).size == slots.size


V = TypeVar("V")

# What is known about an id, as Python sees it. The second item of each is the stream time at which
# it came.
WaitingRow: TypeAlias = tuple[int, int]  # its slot in the row pool
# A label whose observation has not come: label, time, weight, and its record if it may be rejected.
EarlyLabel: TypeAlias = tuple[Label, int, float, bytes]
# An id that is settled: its label (None: given up before a label came), time, the slot of its row
# (-1: not kept), weight, and the number of records learned up to and including it.
SettledId: TypeAlias = tuple[Label | None, int, int, float, int]


class KeptIds(Mapping[str, V]):
    """The ids of one kind with what is known about each, the oldest first. It cannot be changed.

    Parameters
    ----------
    table, kind
        The ids.
    read
        Returns what is known about an entry.
    """

    def __init__(self, table: IdTable, kind: int, read: Callable[[int], V]) -> None:
        self._table, self._kind, self._read = table, kind, read

    def __len__(self) -> int:
        return self._table.count(self._kind)

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.ids(self._kind))

    def __getitem__(self, id_: str) -> V:
        entry = self._table.find(id_)
        if self._table.kind(entry) != self._kind:
            raise KeyError(id_)
        return self._read(entry)

    @property
    def oldest(self) -> V | None:
        """What is known about the oldest id; None without one."""
        entry = self._table.oldest(self._kind)
        return self._read(entry) if entry >= 0 else None


def _counter(place: int) -> Any:
    """A property: one of the counters that kernels change too."""

    def read(state: JoinState) -> int:
        return state.table.counts[place]

    def write(state: JoinState, value: int) -> None:
        state.table.counts[place] = value

    return property(read, write)


class JoinState:
    """What the join knows about ids, and what it has counted.

    Parameters
    ----------
    max_classes
        How many different labels are accepted.
    after
        The `after` of silence; None: silence means nothing.

    Attributes
    ----------
    table : IdTable
        All ids.
    waiting : KeptIds
        Id to the row that waits for its label.
    unheard : int
        The oldest waiting entry whose silence has not been heard yet, as that of all newer ones;
        -1 without one. Entries that were decided otherwise are flagged: their silence is void.
    early : KeptIds
        Id to the label that waits for its observation.
    settled : KeptIds
        Id to its last label and row. Only the oldest id is removed.
    others : dict
        Entry to label and record, for labels that were not learned when they came: the table has
        the codes of learned labels only.
    votes : dict
        Entry to the labels that reporters gave; empty without reporters. Saved by `ReportedJoin`.
    rows : RowPool
        The slots of the rows that are kept.
    labels : AcceptedLabels
        The learned labels, and the check of new ones.
    outcomes : Counter
        Number of labels and observations by outcome, see `OUTCOMES`.
    label_delays : LabelDelays
        Counts of labelled predictions and of label delays.
    time : int
        Stream time: the latest of any event.
    oldest : int
        A lower bound of all times in the state. With it most events need no search for expired ids.
    learned : int
        Records learned so far.
    repaid_at : int
        For the bound of corrections, see `correction_rate.py`.
    text_bytes, early_bytes, settled_bytes : int
        Bytes of all ids, labels and records; of early labels; of settled ids with their rows.
    """

    time: int = _counter(NOW)
    oldest: int = _counter(OLDEST)
    learned: int = _counter(RECORDS)
    text_bytes: int = _counter(TEXT_BYTES)
    early_bytes: int = _counter(EARLY_BYTES)
    settled_bytes: int = _counter(SETTLED_BYTES)
    unheard: int = _counter(UNHEARD)

    def __init__(self, max_classes: int, after: int | None = None) -> None:
        self.after = after
        self.labels = AcceptedLabels(max_classes)
        self.outcomes: Counter[str] = Counter()
        self.label_delays = LabelDelays()
        self.repaid_at = 0
        self._clear()

    def _clear(self) -> None:
        """Forget all ids, rows and counters."""
        self.table = IdTable()
        self.rows = RowPool(self.table)
        self.waiting = KeptIds(self.table, WAITING, self.waiting_row)
        self.early = KeptIds(self.table, EARLY, self._early_label)
        self.settled = KeptIds(self.table, SETTLED, self._settled_id)
        self.others: dict[int, tuple[Label, bytes]] = {}
        self.votes: dict[int, Votes] = {}
        self._label_sizes = np.zeros(0, dtype=np.int64)

    @property
    def label_sizes(self) -> NDArray[np.int64]:
        """int64: the bytes of each learned label, by its code."""
        values, known = self.labels.learned.values, self._label_sizes.size
        if known < len(values):
            more = [self.weight("", label) for label in values[known:]]
            self._label_sizes = np.append(self._label_sizes, np.array(more, dtype=np.int64))
        return self._label_sizes

    def of(self, id_: str) -> IdState:
        """The state of an id."""
        entry = self.table.find(id_)
        if entry < 0:
            return IdState.UNKNOWN
        links = self.table.arrays.links[entry].tolist()
        kind, code = links[KIND], links[CODE]
        if kind == WAITING:
            return IdState.WAITING
        if kind == SETTLED:
            if code == NO_LABEL:
                return IdState.UNLABELLED
            return IdState.LABELLED if links[SLOT] < 0 else IdState.CORRECTABLE
        if code != OTHER_LABEL:  # its label has a place among the classes
            return IdState.EARLY
        fit = self.labels.refusal(self.others[entry][0]) is None
        return IdState.EARLY if fit else IdState.UNFIT

    def weight(self, id_: str, label: Label | None = None) -> int:
        """The bytes that an id, and a label with it, count towards `max_bytes`."""
        return text_bytes(id_) + text_bytes(label) if type(label) is str else text_bytes(id_)

    def code_of(self, label: Label | None) -> int:
        """The code of a label, for kernels."""
        if label is None:
            return NO_LABEL
        return self.labels.learned.codes[label] if self.labels.knows(label) else OTHER_LABEL

    def changed(self, gone: NDArray[np.int64]) -> None:
        """Kernels changed the arrays, and these entries are gone."""
        self.table.changed()
        for entry in gone.tolist():
            self.others.pop(entry, None)
            self.votes.pop(entry, None)

    def keep_other(self, id_: str, label: Label, origin: bytes) -> None:
        """The label of an id that kernels have just added, which was not learned before."""
        entry = self.table.find(id_)
        if entry >= 0 and self.table.arrays.links[entry, CODE] == OTHER_LABEL:
            self.others.setdefault(entry, (label, origin))

    def settle_early(self, id_: str, *, learn: bool) -> None:
        """The early label of an id is about to be learned, or else to be held back: its record is
        no longer needed."""
        entry, arrays = self.table.find(id_), self.table.arrays
        if arrays.links[entry, CODE] != OTHER_LABEL:
            return
        label, origin = self.others.pop(entry)
        if learn:
            self.labels.learned.add(label)
        self._name(entry, label, b"")
        arrays.values[entry, SIZE] -= len(origin)
        self.text_bytes -= len(origin)
        self.early_bytes -= len(origin)

    def remove_label(self, id_: str) -> EarlyLabel:
        """Remove the early label of an id."""
        entry = self.table.find(id_)
        early, size = self._early_label(entry), int(self.table.arrays.values[entry, SIZE])
        self.others.pop(entry, None)
        self.votes.pop(entry, None)
        self.table.remove(entry)
        self.text_bytes -= size
        self.early_bytes -= size
        return early

    def relabel(self, id_: str, label: Label, w: float) -> None:
        """Replace the label of a settled id; the new label has the same age."""
        entry, arrays = self.table.find(id_), self.table.arrays
        longer = self.weight(id_, label) - int(arrays.values[entry, SIZE])
        self.others.pop(entry, None)
        self._name(entry, label, b"")
        arrays.weights[entry] = w
        arrays.values[entry, SIZE] += longer
        self.text_bytes += longer
        self.settled_bytes += longer

    def flag(self, entries: Sequence[int] | NDArray[np.int64]) -> None:
        """These waiting entries were decided otherwise."""
        self.table.arrays.values[np.array(entries, dtype=np.int64), LEARNED] = IS_FLAGGED

    def slots(self, kind: int) -> NDArray[np.int64]:
        """The slots of the rows of a kind, oldest first; without those that have none."""
        links = self.table.arrays.links[self.table.entries(kind), SLOT]
        slots: NDArray[np.int64] = links.astype(np.int64)
        return slots[slots >= 0]

    # What is known about an entry.

    def waiting_row(self, entry: int) -> WaitingRow:
        """The row that waits."""
        arrays = self.table.arrays
        return int(arrays.links[entry, SLOT]), int(arrays.values[entry, TIME])

    def _early_label(self, entry: int) -> EarlyLabel:
        arrays = self.table.arrays
        label, origin = self._label(entry, int(arrays.links[entry, CODE]))
        assert label is not None  # noqa: S101  or it would not be an early label
        return label, int(arrays.values[entry, TIME]), float(arrays.weights[entry]), origin

    def _settled_id(self, entry: int) -> SettledId:
        arrays = self.table.arrays
        _, time, learned, _ = arrays.values[entry].tolist()
        links = arrays.links[entry].tolist()
        label, _ = self._label(entry, links[CODE])
        return label, time, links[SLOT], float(arrays.weights[entry]), learned

    def _label(self, entry: int, code: int) -> tuple[Label | None, bytes]:
        """Label and record of an entry."""
        if code >= 0:
            label: Label = self.labels.learned.values[code]
            return label, b""
        return self.others[entry] if code == OTHER_LABEL else (None, b"")

    def _name(self, entry: int, label: Label | None, origin: bytes) -> None:
        """Store the label of an entry, with its record if that is kept."""
        code = OTHER_LABEL if origin else self.code_of(label)
        if code == OTHER_LABEL:
            self.others[entry] = (label, origin)  # type: ignore[assignment]  # it is a label
        self.table.arrays.links[entry, CODE] = code

    # The saved form.

    def to_state(self, *, corrections: bool) -> State:
        """The whole state. O(ids held)."""
        settled, arrays = self.table.entries(SETTLED), self.table.arrays
        codes = arrays.links[settled, CODE]
        names = {NO_LABEL: None, **dict(enumerate(self.labels.learned.values))}
        labels = list(map(names.get, codes.tolist()))
        for place in np.flatnonzero(codes == OTHER_LABEL).tolist():
            labels[place], _ = self.others[int(settled[place])]
        header = {
            "labels": list(self.labels.learned),
            "overflow": self.labels.learned.overflow,
            "outcomes": dict(self.outcomes),
            "account": self.label_delays.to_header(),
            "time": self.time,
            "slots": self.rows.count,
            "early_labels": [label for label, *_ in self.early.values()],
            "settled_labels": labels,
        }
        if corrections:  # otherwise only the labels of settled ids are saved
            header["learned"] = self.learned
        if self.repaid_at > self.learned - self.outcomes["corrected"]:  # else it is like 0
            header["repaid_at"] = self.repaid_at
        columns = {**self.rows.arrays(), **self._arrays()}
        if corrections:
            columns["settled_slot"] = arrays.links[settled, SLOT].astype(np.int64)
            columns["settled_w"] = arrays.weights[settled]
            columns["settled_learned"] = arrays.values[settled, LEARNED]
        return State(header, columns)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Ids and times of all kinds, and what only waiting rows and early labels have."""
        held, arrays = self.table.arrays, dict[str, NDArray[Any]]()
        entries = {name: self.table.entries(kind) for name, kind in KINDS.items()}
        for name, at in entries.items():
            arrays |= {f"{name}_{k}": v for k, v in self.table.packed(at).items()}
            arrays[f"{name}_time"] = held.values[at, TIME]
        arrays["waiting_slot"] = held.links[entries["waiting"], SLOT].astype(np.int64)
        if self.after is not None:
            arrays["waiting_flagged"] = held.values[entries["waiting"], LEARNED] == IS_FLAGGED
        arrays["early_w"] = held.weights[entries["early"]]
        records = [origin for *_, origin in self.early.values()]
        arrays["early_origin_sizes"] = np.array([len(r) for r in records], dtype=np.int64)
        arrays["early_origin_bytes"] = np.frombuffer(b"".join(records), dtype=np.uint8)
        return arrays

    def load_state(self, state: State, *, corrections: bool) -> None:
        """Load what `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged.
        """
        header = state.header
        self.labels.load(header["labels"], header["overflow"])
        self.outcomes = Counter(header["outcomes"])
        self.label_delays = LabelDelays()
        self.label_delays.load_header(header["account"])
        self._clear()
        self.time, self.oldest = header["time"], 0
        self.learned = header["learned"] if corrections else 0
        self.repaid_at = header.get("repaid_at", 0)
        self._load_waiting(state)
        self._load_early(state)
        self._load_settled(state, corrections=corrections)
        taken = (self.slots(WAITING), self.slots(SETTLED))
        self.rows.load(header["slots"], state, np.concatenate(taken))
        held = {name: self.table.entries(kind) for name, kind in KINDS.items()}
        sizes = {name: int(self.table.arrays.values[at, SIZE].sum()) for name, at in held.items()}
        kept = self.table.arrays.sizes[self.slots(SETTLED)]
        self.text_bytes, self.early_bytes = sum(sizes.values()), sizes["early"]
        self.settled_bytes = sizes["settled"] + int(kept.sum())

    def _load_ids(self, state: State, name: str) -> NDArray[np.int64]:
        """The entries of the saved ids of a kind, with their times and the bytes of the ids."""
        table = {
            f"{name}_lengths": Saved(np.int64, (name,), 0, LONGEST),
            f"{name}_bytes": Saved(np.uint8, ("bytes",)),
            f"{name}_time": Saved(np.int64, (name,)),
        }
        whole: Rules = {f"the ids of {name!r}": partial(_whole, f"{name}_lengths", f"{name}_bytes")}
        lengths, data, times = state.read(table, whole).values()
        entries = self.table.insert_all(data, lengths, KINDS[name])
        if entries is None:
            raise StateError(f"the ids of {name!r} are damaged")
        arrays = self.table.arrays
        arrays.values[entries, TIME], arrays.values[entries, LEARNED] = times, 0
        arrays.weights[entries] = 0.0
        arrays.links[entries, SLOT], arrays.links[entries, CODE] = -1, NO_LABEL
        sizes = np.empty(entries.size, dtype=np.int64)
        id_kernels.weigh_ids(arrays, entries, sizes)
        arrays.values[entries, SIZE] = sizes
        return entries

    def _load_waiting(self, state: State) -> None:
        entries = self._load_ids(state, "waiting")
        slots = _column(state, "waiting_slot", Saved(np.int64, (entries.size,), 0))
        self.table.arrays.links[entries, SLOT] = slots
        if self.after is None:
            return
        # What is older was heard before the state was saved.
        values = self.table.arrays.values
        flagged = _column(state, "waiting_flagged", Saved(np.bool_, (entries.size,)))
        values[entries, LEARNED] = np.where(flagged, IS_FLAGGED, NOT_HEARD)
        heard = values[entries, TIME] < self.time - self.after
        values[entries[heard], LEARNED] = HEARD
        left = entries[~heard]
        self.unheard = int(left[0]) if left.size else -1

    def _load_early(self, state: State) -> None:
        entries = self._load_ids(state, "early")
        weights = Saved(np.float64, (entries.size,))
        self.table.arrays.weights[entries] = _column(state, "early_w", weights)
        labels = list_in(state.header, "early_labels", entries.size)
        self._name_all(entries.tolist(), labels, _origins(state, entries.size))

    def _load_settled(self, state: State, *, corrections: bool) -> None:
        entries, arrays = self._load_ids(state, "settled"), self.table.arrays
        if corrections:
            table = {
                "settled_slot": Saved(np.int64, (entries.size,)),
                "settled_w": Saved(np.float64, (entries.size,)),
                "settled_learned": Saved(np.int64, (entries.size,)),
            }
            slots, arrays.weights[entries], learned = state.read(table).values()
            arrays.links[entries, SLOT] = np.maximum(slots, -1)
            arrays.values[entries, LEARNED] = learned
        labels = list_in(state.header, "settled_labels", entries.size)
        values = self.labels.learned.values
        known, kind = {None: NO_LABEL, **self.labels.learned.codes}, type((values or [None])[0])
        plain = (kind, type(None))
        every = (known.get(y, OTHER_LABEL) if type(y) in plain else OTHER_LABEL for y in labels)
        codes = np.fromiter(every, np.int32, len(labels))
        sizes = np.append(self.label_sizes, [0, 0])  # the last two for negative codes
        arrays.links[entries, CODE] = codes
        arrays.values[entries, SIZE] += sizes[codes]
        others = np.flatnonzero(codes == OTHER_LABEL).tolist()
        self._name_all(entries[others].tolist(), [labels[place] for place in others])

    def _name_all(
        self, entries: Iterable[int], labels: Iterable[Label | None], origins: Iterable[bytes] = ()
    ) -> None:
        """Store the labels and records of entries whose ids have been weighed."""
        values, records = self.table.arrays.values, iter(origins)
        for entry, label in zip(entries, labels, strict=True):
            origin = next(records, b"")
            self._name(entry, label, origin)
            values[entry, SIZE] += self.weight("", label) + len(origin)


KINDS = {"waiting": WAITING, "early": EARLY, "settled": SETTLED}


def _column(state: State, name: str, saved: Saved) -> NDArray[Any]:
    return state.read({name: saved})[name]


def _whole(sizes: str, data: str, found: Mapping[str, NDArray[Any]]) -> bool:
    """Whether there are as many bytes as the sizes say."""
    return int(found[sizes].sum()) == found[data].size


def _origins(state: State, records: int) -> list[bytes]:
    sizes_of, bytes_of = "early_origin_sizes", "early_origin_bytes"
    table = {
        sizes_of: Saved(np.int64, (records,), 0, LONGEST),
        bytes_of: Saved(np.uint8, ("bytes",)),
    }
    whole: Rules = {"the records of early labels": partial(_whole, sizes_of, bytes_of)}
    sizes, data = state.read(table, whole).values()
    raw, ends = data.tobytes(), np.cumsum(sizes).tolist()
    return [raw[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]
