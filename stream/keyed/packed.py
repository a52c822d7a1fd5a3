"""The sums of a key as one row of bytes, and back.

A row is, in little-endian numbers of 8 bytes:

    int64 (5,)     place of the key in the order of first learning, C, D, E, number of entries n
    float64        weight (C,), anchor (D,), moments (D, C, 3), seen (E, C), as in the kernels
    int64 (n,)     the tags of its entries, without the slot
    float64 (n, C) their counts

Rule: a row has the classes and features that were known when it was made. What came later is 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream.errors import StateError
from stream.keyed.table import LOW, KeyTable

__all__ = ["entries_in", "number_of", "pack_slots", "unpack_rows", "weights_of"]

Ints = NDArray[np.int64]
HEAD = 5  # integers
NO_SLOT = (1 << LOW) - 1


def pack_slots(table: KeyTable, slots: Ints, numbers: Ints) -> list[bytes]:
    """The rows of these slots, whose keys have these places in the order of first learning."""
    s, e, n = table.slots, table.entries, slots.size
    known, shape = (s.weight.shape[1], s.anchor.shape[1], s.seen.shape[1]), (n, -1)
    parts = s.weight[slots], s.anchor[slots], s.moments[slots], s.seen[slots]
    floats = np.concatenate([part.reshape(n, part[0].size) for part in parts], axis=1)
    at = np.full(len(s.weight), -1, dtype=np.int64)
    at[slots] = np.arange(n)
    tag = e.tag[: int(e.used[0])]
    of = at[tag >> LOW]
    mine = np.flatnonzero(of >= 0)
    mine = mine[np.argsort(of[mine], kind="stable")]
    count = np.bincount(of[mine], minlength=n)
    head = np.empty((n, HEAD), dtype=np.int64)
    head[:, 0], head[:, 1:4], head[:, 4] = numbers, known, count
    fixed = np.concatenate([head.view(np.float64), floats], axis=1).reshape(shape)
    size, whole = 8 * fixed.shape[1], fixed.tobytes()
    rows = [whole[i : i + size] for i in range(0, n * size, size)]
    if mine.size:
        wide, given = 8 * known[0], np.zeros((mine.size, known[0]))
        given[:, : e.counts.shape[1]] = e.counts[mine]
        low, counts = (tag[mine] & NO_SLOT).tobytes(), given.tobytes()
        end = 0
        for i in np.flatnonzero(count).tolist():
            start, end = end, end + int(count[i])
            rows[i] += low[8 * start : 8 * end] + counts[wide * start : wide * end]
    return rows


def unpack_rows(rows: Sequence[bytes], slots: Ints, table: KeyTable) -> Ints:
    """Put rows into slots, which are empty. There is room for everything.

    Returns
    -------
    int64 array
        The place of each key in the order of first learning.

    Raises
    ------
    StateError
        A row is damaged.
    """
    head, s = _heads(rows), table.slots
    if not rows:
        return head[:, 0]
    most = s.weight.shape[1], s.anchor.shape[1], s.seen.shape[1]
    if (head < 0).any() or (head[:, 1:4] > most).any():
        raise StateError("a row of a key is damaged: it has unknown classes or features")
    _, kind = np.unique(head[:, 1:4], axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    for one in range(int(kind.max(initial=-1)) + 1):
        at = np.flatnonzero(kind == one)
        _unpack_alike([rows[i] for i in at.tolist()], head[at], slots[at], table)
    return np.ascontiguousarray(head[:, 0])


def _heads(rows: Sequence[bytes]) -> Ints:
    joined = b"".join(row[: 8 * HEAD] for row in rows)
    if len(joined) != 8 * HEAD * len(rows):
        raise StateError("a row of a key is damaged: it is too short")
    return np.frombuffer(joined, dtype=np.int64).reshape(len(rows), HEAD)


def _unpack_alike(rows: list[bytes], head: Ints, slots: Ints, table: KeyTable) -> None:
    """`unpack_rows` of rows with the same number of classes and features."""
    classes, numbers, categories = head[0, 1:4].tolist()
    sizes = classes, numbers, 3 * numbers * classes, categories * classes
    start, end = 8 * HEAD, 8 * (HEAD + sum(sizes))
    sound = (len(r) == end + 8 * n * (1 + classes) for r, n in zip(rows, head[:, 4], strict=True))
    if not all(sound):
        raise StateError("a row of a key is damaged: it has another size than it names")
    joined = b"".join(row[start:end] for row in rows)
    n, s = len(rows), table.slots
    floats = np.frombuffer(joined).reshape(n, sum(sizes))
    weight, anchor, moments, seen = np.split(floats, np.cumsum(sizes)[:-1], axis=1)
    s.weight[slots, :classes] = weight
    s.anchor[slots, :numbers] = anchor
    s.moments[slots, :numbers, :classes] = moments.reshape(n, numbers, classes, 3)
    s.seen[slots, :categories, :classes] = seen.reshape(n, categories, classes)
    count = head[:, 4]
    if count.any():
        middle = [end + 8 * many for many in count.tolist()]
        tags = (row[end:at] for row, at in zip(rows, middle, strict=True))
        low = np.frombuffer(b"".join(tags), dtype=np.int64)
        counts = np.frombuffer(b"".join(row[at:] for row, at in zip(rows, middle, strict=True)))
        if ((low < 0) | (low > NO_SLOT)).any():
            raise StateError("a row of a key is damaged: it has entries of no feature")
        table.add_entries((np.repeat(slots, count) << LOW) | low, counts.reshape(-1, classes))


def entries_in(rows: Sequence[bytes]) -> int:
    """How many entries these rows have."""
    return int(_heads(rows)[:, 4].sum())


def number_of(row: bytes) -> int:
    """The place of the key of a row in the order of first learning."""
    return int(_heads([row])[0, 0])


def weights_of(row: bytes) -> list[float]:
    """The weight of each class in a row."""
    classes = int(_heads([row])[0, 1])
    found: list[float] = np.frombuffer(row, offset=8 * HEAD, count=classes).tolist()
    return found
