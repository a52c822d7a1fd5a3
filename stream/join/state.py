"""What the label join holds under an id: an observation that waits, an early label, a settled id.

Each is held in a dict of its own, ordered by when it came: times never fall along it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream.data.schema import Label
from stream.data.state import State, pack, unpack
from stream.errors import StateError

__all__ = ["Early", "Fifo", "Held", "Settled", "Waiting", "loaded", "older", "repeated", "saved"]

V = TypeVar("V")


# Tuples of Python's own, for two are made a record and a hundred thousand are kept: a class of
# them takes five times as long to make, and the garbage collector looks at each again and again.
# The second of each is the stream time at which it came.
Waiting: TypeAlias = tuple[int, int]  # an observation: the slot of its row
# A label whose observation has not come: with its weight, and its record where it may be refused.
Early: TypeAlias = tuple[Label, int, float, bytes]
# An id of which nothing more is awaited: its label (None: it went before one came), the slot of its
# row (-1: not kept), its weight, and how many records were learned up to and with it.
Settled: TypeAlias = tuple[Label | None, int, int, float, int]
Held: TypeAlias = Waiting | Early | Settled
KEPT = (("slot", np.int64), ("w", np.float64), ("learned", np.int64))  # of what is settled


class Fifo(dict[str, V]):
    """A dict of which nothing but its oldest key goes.

    To find the first key of a plain one costs a scan over those deleted before it; an
    `OrderedDict`, of which any key may go, takes twice as long to add a key and let one go.

    Attributes
    ----------
    order : deque
        The keys, the oldest first.

    Examples
    --------
    >>> held = Fifo({"a": 1})
    >>> held.put("b", 2)
    >>> held.pop_oldest(), held.oldest, list(held.order)
    (1, 2, ['b'])
    """

    def __init__(self, items: Mapping[str, V] | Iterable[tuple[str, V]] = ()) -> None:
        super().__init__(items)
        self.order = deque(self)

    @property
    def oldest(self) -> V | None:
        """The value of the oldest key; None: there is no key."""
        return self[self.order[0]] if self.order else None

    def put(self, id_: str, value: V) -> None:
        """Add a key that is not there."""
        self[id_] = value
        self.order.append(id_)

    def pop_oldest(self) -> V:
        """The value of the oldest key, which goes."""
        return self.pop(self.order.popleft())


def repeated(first: Label | None, label: object) -> str:
    """The outcome of another label for an id whose first one was `first`.

    Examples
    --------
    >>> repeated(None, "a"), repeated("a", "a"), repeated(1, True)
    ('late', 'duplicate', 'conflicting')
    """
    if first is None:
        return "late"
    return "duplicate" if type(label) is type(first) and label == first else "conflicting"


def older(items: Iterable[tuple[str, Held]], limit: int) -> list[str]:
    """Ids at the front whose time is before `limit`."""
    out = []
    for id_, value in items:
        if value[1] >= limit:
            break
        out.append(id_)
    return out


def saved(
    waiting: Mapping[str, Waiting],
    early: Mapping[str, Early],
    settled: Mapping[str, Settled],
    *,
    rows_of_settled: bool,
    origins: bool,
) -> dict[str, NDArray[Any]]:
    """All but the labels as arrays; of what is settled only what is kept with its row, of early
    labels their records where `origins` are kept."""
    arrays: dict[str, NDArray[Any]] = {}
    every: dict[str, Mapping[str, Held]] = {"waiting": waiting, "early": early, "settled": settled}
    for name, ids in every.items():
        arrays |= {f"{name}_{k}": v for k, v in pack(ids).items()}
        arrays[f"{name}_time"] = np.array([held[1] for held in ids.values()], dtype=np.int64)
    arrays["waiting_slot"] = np.array([slot for slot, _ in waiting.values()], dtype=np.int64)
    arrays["early_w"] = np.array([w for _, _, w, _ in early.values()], dtype=np.float64)
    if origins:
        records = [origin for *_, origin in early.values()]
        arrays["early_origin_sizes"] = np.array([len(r) for r in records], dtype=np.int64)
        arrays["early_origin_bytes"] = np.frombuffer(b"".join(records), dtype=np.uint8)
    for place, (name, dtype) in enumerate(KEPT if rows_of_settled else (), 2):
        arrays[f"settled_{name}"] = np.array([s[place] for s in settled.values()], dtype=dtype)
    return arrays


def loaded(
    state: State, early: Iterable[Label], settled: Iterable[Label | None], *, rows_of_settled: bool
) -> tuple[OrderedDict[str, Waiting], OrderedDict[str, Early], Fifo[Settled]]:
    """What `saved` made arrays of, with these labels. StateError: it is damaged."""
    ids = {name: _ids(state, name) for name in ("waiting", "early", "settled")}
    times = {n: state.array(f"{n}_time", np.int64, 1).tolist() for n in ids}
    slots = state.array("waiting_slot", np.int64, 1).tolist()
    weights = state.array("early_w", np.float64, 1).tolist()
    origins = _origins(state) if "early_origin_sizes" in state.arrays else [b""] * len(weights)
    kept: list[Iterable[Any]] = [repeat(-1), repeat(0.0), repeat(0)]
    if rows_of_settled:
        kept = [state.array(f"settled_{k}", dtype, 1).tolist() for k, dtype in KEPT]
    return (
        OrderedDict(_keyed(ids["waiting"], zip(slots, times["waiting"], strict=True))),
        OrderedDict(
            _keyed(ids["early"], zip(early, times["early"], weights, origins, strict=True))
        ),
        Fifo(_keyed(ids["settled"], zip(settled, times["settled"], *kept, strict=False))),
    )


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


def _keyed(ids: list[str], values: Iterable[V]) -> Iterable[tuple[str, V]]:
    return zip(ids, values, strict=True)
