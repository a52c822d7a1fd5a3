"""The label join over dicts: slow and obvious where `stream.join` has arrays.

It runs the transitions of `LabelJoin` event by event, but keeps ids, rows and slots in dicts and
lists. So it says whether the table of ids, its lists and its kernels do what dicts do. Silence and
reporters are left out. Whether the transitions are right is what `JoinTwin` says.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any

from stream.data.schema import text_bytes
from stream.join.join import LabelJoin
from stream.join.label_delay import LabelDelays
from stream.join.labels import AcceptedLabels
from stream.join.transitions import IdState

__all__ = ["DictJoin"]


class Ids(OrderedDict[str, Any]):
    """Ids by time of arrival."""

    @property
    def oldest_id(self) -> str:
        return next(iter(self))

    @property
    def oldest(self) -> Any:
        return next(iter(self.values()), None)

    def before(self, limit: int) -> list[str]:
        out = []
        for id_, kept in self.items():
            if kept[1] >= limit:
                break
            out.append(id_)
        return out


class Slots:
    """Slots of rows; the last freed one is used first."""

    def __init__(self) -> None:
        self.count = self.bytes = 0
        self.free: list[int] = []
        self.sizes: dict[int, int] = {}

    def take(self, size: int) -> int:
        slot = self.free.pop() if self.free else self.count
        self.count = max(self.count, slot + 1)
        self.sizes[slot] = size
        self.bytes += size
        return slot

    def give(self, slot: int) -> None:
        self.free.append(slot)
        self.bytes -= self.sizes.pop(slot)

    def size(self, slot: int) -> int:
        return self.sizes.get(slot, 0)


class DictState:
    """What `JoinState` knows, in dicts."""

    after = None
    unheard = -1

    def __init__(self, max_classes: int) -> None:
        self.waiting, self.early, self.settled = Ids(), Ids(), Ids()
        self.votes: dict[str, Any] = {}
        self.rows = Slots()
        self.labels = AcceptedLabels(max_classes)
        self.outcomes: Counter[str] = Counter()
        self.label_delays = LabelDelays()
        self.time = self.oldest = self.learned = self.repaid_at = 0
        self.text_bytes = self.early_bytes = self.settled_bytes = 0

    def of(self, id_: str) -> IdState:
        if id_ in self.waiting:
            return IdState.WAITING
        if id_ in self.settled:
            label, _, slot, *_ = self.settled[id_]
            if label is None:
                return IdState.UNLABELLED
            return IdState.LABELLED if slot < 0 else IdState.CORRECTABLE
        if id_ not in self.early:
            return IdState.UNKNOWN
        fit = self.labels.refusal(self.early[id_][0]) is None
        return IdState.EARLY if fit else IdState.UNFIT

    def is_unheard(self, id_: str) -> bool:
        return False

    def weight(self, id_: str, label: object = None) -> int:
        return text_bytes(id_) + (text_bytes(label) if type(label) is str else 0)

    def add_row(self, id_: str, slot: int) -> None:
        self.waiting[id_] = (slot, self.time)
        self.text_bytes += self.weight(id_)

    def remove_row(self, id_: str) -> Any:
        self.text_bytes -= self.weight(id_)
        return self.waiting.pop(id_)

    def add_label(self, id_: str, label: Any, w: float, origin: bytes) -> None:
        self.early[id_] = (label, self.time, w, origin)
        self.text_bytes += self.weight(id_, label) + len(origin)
        self.early_bytes += self.weight(id_, label) + len(origin)

    def remove_label(self, id_: str) -> Any:
        label, _, _, origin = early = self.early.pop(id_)
        self.text_bytes -= self.weight(id_, label) + len(origin)
        self.early_bytes -= self.weight(id_, label) + len(origin)
        return early

    def settle(self, id_: str, settled: Any) -> None:
        self.settled[id_] = settled
        self._count(id_, settled, 1)

    def keep_settled_row(self, id_: str, slot: int, size: int) -> None:
        label, time, _, w, learned = self.settled[id_]
        self.settled[id_] = (label, time, slot, w, learned)
        self.settled_bytes += size

    def relabel(self, id_: str, label: Any, w: float) -> None:
        old, time, slot, _, learned = self.settled[id_]
        self.settled[id_] = (label, time, slot, w, learned)
        longer = self.weight("", label) - self.weight("", old)
        self.text_bytes += longer
        self.settled_bytes += longer

    def remove_settled(self) -> Any:
        id_, settled = self.settled.popitem(last=False)
        self._count(id_, settled, -1)
        return settled

    def _count(self, id_: str, settled: Any, times: int) -> None:
        size = self.weight(id_, settled[0])
        self.text_bytes += times * size
        self.settled_bytes += times * (size + self.rows.size(settled[2]))

    def before(self, limit: int) -> tuple[list[str], list[str]]:
        return self.early.before(limit), self.waiting.before(limit)

    def find_oldest(self) -> None:
        kept = (self.waiting, self.early, self.settled)
        self.oldest = min((ids.oldest[1] for ids in kept if ids), default=self.time)


class DictJoin(LabelJoin):
    """The join over dicts. It cannot be saved."""

    def __init__(self, *join: Any, max_classes: int = 256, **more: Any) -> None:
        super().__init__(*join, max_classes=max_classes, **more)
        self.common = False
        self.state = DictState(max_classes)  # type: ignore[assignment]
