"""What the label join holds under an id: an observation that waits, an early label, a settled id.

Each is held in a dict of its own, ordered by when it came: times never fall along it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeAlias, TypeVar

import numpy as np

from stream.errors import StateError
from stream.schema import Label
from stream.state import State, unpack

__all__ = ["KEPT", "Early", "Held", "Settled", "Waiting", "ids_of", "keyed", "older", "repeated"]

V = TypeVar("V")


# Tuples of Python's own, for two are made a record and a hundred thousand are kept: a class of
# them takes five times as long to make, and the garbage collector looks at each again and again.
# The second of each is the stream time at which it came.
Waiting: TypeAlias = tuple[int, int]  # an observation: the slot of its row
Early: TypeAlias = tuple[Label, int, float]  # a label whose observation has not come, its weight
# An id of which nothing more is awaited: its label (None: it went before one came), the slot of its
# row (-1: not kept), its weight, and how many records were learned up to and with it.
Settled: TypeAlias = tuple[Label | None, int, int, float, int]
Held: TypeAlias = Waiting | Early | Settled
KEPT = (("slot", np.int64), ("w", np.float64), ("learned", np.int64))  # of what is settled


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


def ids_of(state: State, name: str) -> list[str]:
    """The ids that `pack` stored. StateError: they are damaged."""
    arrays = {k: state.arrays[f"{name}_{k}"] for k in ("lengths", "bytes")}
    ids = [i for i in unpack(arrays) if i is not None]
    if len(ids) != len(arrays["lengths"]):
        raise StateError(f"the ids of {name!r} are damaged")
    return ids


def keyed(ids: list[str], values: Iterable[V]) -> OrderedDict[str, V]:
    """The values, each under its id."""
    return OrderedDict(zip(ids, values, strict=True))
