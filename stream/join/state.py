"""The join state: ids, rows and labels of the delayed-label join, their bytes, and their saved
form.

Waiting rows, early labels and settled ids each have a dict of their own, ordered by time of
arrival. An id is in at most one of them. The rules are in `transitions.py`. A transition removes
the id from one dict and adds it to another. The methods here update the byte counts.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream.data.schema import Label, text_bytes
from stream.data.state import State, pack, unpack
from stream.errors import StateError
from stream.join.label_delay import LabelDelays
from stream.join.labels import AcceptedLabels
from stream.join.reporters import Votes
from stream.join.row_pool import RowPool
from stream.join.transitions import IdState

__all__ = ["EarlyLabel", "Fifo", "JoinState", "SettledId", "WaitingRow"]

V = TypeVar("V")

# Built-in tuples, because two are made for each record and a hundred thousand are kept: an object
# of a class takes five times as long to make, and the garbage collector visits it repeatedly. The
# second item of each is the stream time at which it came.
WaitingRow: TypeAlias = tuple[int, int]  # its slot in the row pool
# A label whose observation has not come: label, time, weight, and its record if it may be rejected.
EarlyLabel: TypeAlias = tuple[Label, int, float, bytes]
# An id that is settled: its label (None: given up before a label came), time, the slot of its row
# (-1: not kept), weight, and the number of records learned up to and including it.
SettledId: TypeAlias = tuple[Label | None, int, int, float, int]
Kept: TypeAlias = WaitingRow | EarlyLabel | SettledId
# Columns of settled ids that are saved if their rows are kept.
SETTLED_COLUMNS = (("slot", np.int64), ("w", np.float64), ("learned", np.int64))

UNKNOWN, WAITING, EARLY, UNFIT, LABELLED, CORRECTABLE, UNLABELLED = IdState


class Fifo(dict[str, V]):
    """A dict from which only the oldest key is removed.

    Finding the first key of a plain dict scans the deleted keys before it. An `OrderedDict`, which
    can remove any key, takes twice as long to add and remove a key.

    Attributes
    ----------
    order : deque
        The keys, the oldest first.

    Examples
    --------
    >>> ids = Fifo({"a": 1})
    >>> ids.put("b", 2)
    >>> ids.oldest, list(ids.order)
    (1, ['a', 'b'])
    """

    def __init__(self, items: Mapping[str, V] | Iterable[tuple[str, V]] = ()) -> None:
        super().__init__(items)
        self.order = deque(self)

    @property
    def oldest(self) -> V | None:
        """The value of the oldest key; None if there is no key."""
        return self[self.order[0]] if self.order else None

    def put(self, id_: str, value: V) -> None:
        """Add a key that is not there."""
        self[id_] = value
        self.order.append(id_)


class JoinState:
    """What the join knows about ids, and what it has counted.

    Parameters
    ----------
    max_classes
        How many different labels are accepted.
    rules
        See `LabelJoin`.
    after
        The `after` of silence; None: silence means nothing.

    Attributes
    ----------
    waiting : OrderedDict
        Id to the row that waits for its label.
    unheard : OrderedDict
        Of the waiting ids those whose silence has not been heard yet, with the time of each.
    flagged : set
        Of these the ones that were decided otherwise, so that silence is void.
    early : OrderedDict
        Id to the label that waits for its observation.
    settled : Fifo
        Id to its last label and row. Only the oldest id is removed.
    votes : dict
        Id to the labels that reporters gave; empty without reporters. Saved by `ReportedJoin`.
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
    weigh : callable
        The bytes that a text counts towards `max_bytes`.
    text_bytes, early_bytes, settled_bytes : int
        Bytes of all ids, labels and records; of early labels; of settled ids with their rows.
    """

    def __init__(self, max_classes: int, rules: int, after: int | None = None) -> None:
        self.rules, self.after = rules, after
        self.weigh = _weigher(rules)
        self.waiting: OrderedDict[str, WaitingRow] = OrderedDict()
        self.unheard: OrderedDict[str, int] = OrderedDict()
        self.flagged: set[str] = set()
        self.early: OrderedDict[str, EarlyLabel] = OrderedDict()
        self.settled: Fifo[SettledId] = Fifo()
        self.votes: dict[str, Votes] = {}
        self.rows = RowPool()
        self.labels = AcceptedLabels(max_classes)
        self.outcomes: Counter[str] = Counter()
        self.label_delays = LabelDelays()
        self.time = self.oldest = self.learned = 0
        self.text_bytes = self.early_bytes = self.settled_bytes = 0

    @property
    def total_bytes(self) -> int:
        """Bytes of all ids, labels, rows and records, by the rule of `max_bytes`."""
        return self.text_bytes + self.rows.bytes

    def of(self, id_: str) -> IdState:
        """The state of an id."""
        if id_ in self.waiting:
            return WAITING
        settled = self.settled.get(id_)
        if settled is not None:
            if settled[0] is None:
                return UNLABELLED
            return LABELLED if settled[2] < 0 else CORRECTABLE
        early = self.early.get(id_)
        if early is None:
            return UNKNOWN
        if self.rules == 1:  # its label has a promised place among the classes
            return EARLY
        return EARLY if self.labels.refusal(early[0]) is None else UNFIT

    def weight(self, id_: str, label: Label | None = None) -> int:
        """The bytes that an id, and a label with it, count towards `max_bytes`."""
        weigh = self.weigh
        return weigh(id_) + weigh(label) if type(label) is str else weigh(id_)

    def add_row(self, id_: str, slot: int) -> None:
        """The observation of an unknown id waits from now on."""
        self.waiting[id_] = (slot, self.time)
        if self.after is not None:
            self.unheard[id_] = self.time
        self.text_bytes += self.weigh(id_)

    def remove_row(self, id_: str) -> WaitingRow:
        """The row no longer waits; its slot is still taken."""
        row = self.waiting.pop(id_)
        self.unheard.pop(id_, None)
        self.flagged.discard(id_)
        self.text_bytes -= self.weigh(id_)
        return row

    def add_label(self, id_: str, label: Label, w: float, origin: bytes) -> None:
        """Keep the early label of an unknown id."""
        self.early[id_] = (label, self.time, w, origin)
        if self.rules == 1:
            self.labels.promise(label)
        size = self.weight(id_, label) + len(origin)
        self.text_bytes += size
        self.early_bytes += size

    def remove_label(self, id_: str) -> EarlyLabel:
        """Remove the early label of an id."""
        early = self.early.pop(id_)
        label, _, _, origin = early
        if self.rules == 1:
            self.labels.release(label)
        size = self.weight(id_, label) + len(origin)
        self.text_bytes -= size
        self.early_bytes -= size
        return early

    def settle(self, id_: str, settled: SettledId) -> None:
        """An unknown id is settled; its row, if kept, has its slot already."""
        label, _, slot, _, _ = settled
        self.settled.put(id_, settled)
        size = self.weight(id_, label)
        self.text_bytes += size
        if slot >= 0:
            size += self.rows.size(slot)
        self.settled_bytes += size

    def keep_settled_row(self, id_: str, slot: int, size: int) -> None:
        """The row of a settled id was given this slot."""
        label, time, _, w, learned = self.settled[id_]
        self.settled[id_] = (label, time, slot, w, learned)
        self.settled_bytes += size

    def relabel(self, id_: str, label: Label, w: float) -> None:
        """Replace the label of a settled id; the new label has the same age."""
        old, time, slot, _, learned = self.settled[id_]
        self.settled[id_] = (label, time, slot, w, learned)
        longer = self.weight("", label) - self.weight("", old)
        self.text_bytes += longer
        self.settled_bytes += longer

    def remove_settled(self) -> SettledId:
        """Remove the oldest settled id; the slot of its row is still taken."""
        id_ = self.settled.order.popleft()
        settled = self.settled.pop(id_)
        label, _, slot, _, _ = settled
        size = self.weight(id_, label)
        self.text_bytes -= size
        self.settled_bytes -= size if slot < 0 else size + self.rows.size(slot)
        return settled

    def settle_many(
        self, ids: Sequence[str], settled: Iterable[SettledId], size: int, bound: int
    ) -> int:
        """Settle unknown ids whose rows are not kept, which weigh `size` with their labels. The
        oldest ids beyond `bound` are removed. Returns how many."""
        of, order = self.settled, self.settled.order
        of.update(zip(ids, settled, strict=True))
        order.extend(ids)
        gone = [order.popleft() for _ in range(len(order) - bound)]
        counts = Counter(map(itemgetter(0), map(of.pop, gone)))
        labels = sum(n * self.weight("", label) for label, n in counts.items())
        change = size - self.weigh_many(gone) - labels
        self.text_bytes += change
        self.settled_bytes += change
        return len(gone)

    def weigh_many(self, texts: Sequence[str]) -> int:
        """The bytes of all these texts, see `weigh`."""
        joined = "".join(texts)
        return self.weigh(joined) if joined.isascii() else sum(map(self.weigh, texts))

    def count_bytes(self) -> tuple[int, int, int]:
        """`text_bytes`, `early_bytes` and `settled_bytes`, recounted from all ids."""
        rows = sum(map(self.weigh, self.waiting))
        early = sum(self.weight(i, y) + len(raw) for i, (y, _, _, raw) in self.early.items())
        settled = sum(self.weight(i, s[0]) for i, s in self.settled.items())
        kept = sum(self.rows.size(s[2]) for s in self.settled.values())
        return rows + early + settled, early, settled + kept

    def before(self, limit: int) -> tuple[list[str], list[str]]:
        """Ids of early labels and of waiting rows that came before this time, oldest first."""
        return _before(self.early.items(), limit), _before(self.waiting.items(), limit)

    def find_oldest(self) -> None:
        """Set `oldest` from what is held."""
        ends: tuple[Mapping[str, Kept], ...] = (self.early, self.waiting)
        first = [self.settled.oldest, *(next(iter(kept.values()), None) for kept in ends)]
        self.oldest = min((kept[1] for kept in first if kept is not None), default=self.time)

    def to_state(self, *, corrections: bool) -> State:
        """The whole state. O(ids held)."""
        header = {
            "labels": list(self.labels.learned),
            "overflow": self.labels.learned.overflow,
            "outcomes": dict(self.outcomes),
            "account": self.label_delays.to_header(),
            "time": self.time,
            "slots": self.rows.count,
            "early_labels": [label for label, *_ in self.early.values()],
            "settled_labels": [label for label, *_ in self.settled.values()],
            "promised": self.labels.promised,
        }
        if corrections:  # otherwise only the labels of settled ids are saved
            header["learned"] = self.learned
        if self.rules > 1:
            header["rules"] = self.rules
        return State(header, self.rows.arrays() | self._arrays(rows_of_settled=corrections))

    def load_state(self, state: State, *, corrections: bool) -> None:
        """Load what `to_state` saved.

        Raises
        ------
        StateError
            The state is damaged.
        """
        header = state.header
        self.rules = header.get("rules", 1)  # left out for rules 1
        self.weigh = _weigher(self.rules)
        self.labels.load(header["labels"], header["overflow"])
        self.outcomes = Counter(header["outcomes"])
        self.label_delays = LabelDelays()
        self.label_delays.load_header(header["account"])
        self.time, self.oldest = header["time"], 0
        self.rows.load(header["slots"], state)
        self.learned = header["learned"] if corrections else 0
        self._load_arrays(state, header["early_labels"], header["settled_labels"], corrections)
        promised = (label for label, *_ in self.early.values() if self.rules == 1)
        self.labels.load_promised(header["promised"], promised)
        self.text_bytes, self.early_bytes, self.settled_bytes = self.count_bytes()

    def _arrays(self, *, rows_of_settled: bool) -> dict[str, NDArray[Any]]:
        """All columns except the labels. Settled ids are included only if their rows are kept."""
        arrays: dict[str, NDArray[Any]] = {}
        every: dict[str, Mapping[str, Kept]] = {
            "waiting": self.waiting,
            "early": self.early,
            "settled": self.settled,
        }
        for name, ids in every.items():
            arrays |= {f"{name}_{k}": v for k, v in pack(ids).items()}
            arrays[f"{name}_time"] = np.array([kept[1] for kept in ids.values()], dtype=np.int64)
        slots = [slot for slot, _ in self.waiting.values()]
        arrays["waiting_slot"] = np.array(slots, dtype=np.int64)
        if self.after is not None:
            flagged = [id_ in self.flagged for id_ in self.waiting]
            arrays["waiting_flagged"] = np.array(flagged, dtype=np.bool_)
        weights = [w for _, _, w, _ in self.early.values()]
        arrays["early_w"] = np.array(weights, dtype=np.float64)
        if self.rules > 1:
            records = [origin for *_, origin in self.early.values()]
            arrays["early_origin_sizes"] = np.array([len(r) for r in records], dtype=np.int64)
            arrays["early_origin_bytes"] = np.frombuffer(b"".join(records), dtype=np.uint8)
        for place, (name, dtype) in enumerate(SETTLED_COLUMNS if rows_of_settled else (), 2):
            column = [settled[place] for settled in self.settled.values()]
            arrays[f"settled_{name}"] = np.array(column, dtype=dtype)
        return arrays

    def _load_arrays(
        self,
        state: State,
        early: Iterable[Label],
        settled: Iterable[Label | None],
        rows_of_settled: bool,
    ) -> None:
        ids = {name: _ids(state, name) for name in ("waiting", "early", "settled")}
        times = {name: state.array(f"{name}_time", np.int64, 1).tolist() for name in ids}
        slots = state.array("waiting_slot", np.int64, 1).tolist()
        weights = state.array("early_w", np.float64, 1).tolist()
        saved = "early_origin_sizes" in state.arrays
        origins = _origins(state) if saved else [b""] * len(weights)
        kept: list[Iterable[Any]] = [repeat(-1), repeat(0.0), repeat(0)]
        if rows_of_settled:
            columns = SETTLED_COLUMNS
            kept = [state.array(f"settled_{name}", dtype, 1).tolist() for name, dtype in columns]
        waiting = zip(slots, times["waiting"], strict=True)
        labels = zip(early, times["early"], weights, origins, strict=True)
        self.waiting = OrderedDict(zip(ids["waiting"], waiting, strict=True))
        if self.after is not None:  # what is older was heard before the state was saved
            since = self.time - self.after
            self.unheard = OrderedDict((i, t) for i, (_, t) in self.waiting.items() if t >= since)
            flagged = state.array("waiting_flagged", np.bool_, 1).tolist()
            self.flagged = {id_ for id_, other in zip(self.waiting, flagged, strict=True) if other}
        self.early = OrderedDict(zip(ids["early"], labels, strict=True))
        columns_of = zip(settled, times["settled"], *kept, strict=False)
        self.settled = Fifo(zip(ids["settled"], columns_of, strict=True))


def _nothing(text: str) -> int:
    return 0


def _weigher(rules: int) -> Callable[[str], int]:
    return text_bytes if rules > 1 else _nothing


def _before(items: Iterable[tuple[str, Kept]], limit: int) -> list[str]:
    out = []
    for id_, kept in items:
        if kept[1] >= limit:
            break
        out.append(id_)
    return out


def _origins(state: State) -> list[bytes]:
    sizes = state.array("early_origin_sizes", np.int64, 1)
    raw = state.array("early_origin_bytes", np.uint8, 1).tobytes()
    if (sizes < 0).any() or int(sizes.sum()) != len(raw):
        raise StateError("the records of early labels are damaged")
    ends = np.cumsum(sizes).tolist()
    return [raw[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]


def _ids(state: State, name: str) -> list[str]:
    arrays = {k: state.arrays[f"{name}_{k}"] for k in ("lengths", "bytes")}
    ids = [i for i in unpack(arrays) if i is not None]
    if len(ids) != len(arrays["lengths"]):
        raise StateError(f"the ids of {name!r} are damaged")
    return ids
