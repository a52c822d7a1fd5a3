"""The tables of SpamScorer: empty, enlarged, swept, merged, saved and restored.

Rule: predictions do not depend on the places of features. A state has the features sorted by key,
so that it depends only on what was learned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data.state import State
from stream.errors import StateError
from stream.linear._kernels import evidence as kernels
from stream.linear._kernels.evidence import HEAVIEST, LARGEST_UNIT, Evidence
from stream.linear.word_counts import CountedWords
from stream.text.features import VIEWS

__all__ = [
    "FEWEST",
    "counted",
    "empty",
    "enlarged",
    "exported",
    "merged",
    "restored",
    "room",
    "swept",
    "widened",
]

TINIEST = 1e-30  # of a divisor
FEWEST, MOST = 2**12, 2**22  # places of the table
TWO = 2  # classes that share a column
BY_COLUMN = ("final", "final_squares")
OF_VIEWS = ("slope", "slope_squares")
COUNTS = ("changes", "cut", "evicted", "records", "refused")
FARTHEST, HEAVY = 1e30, 1e38  # of signed numbers and of the others in a state; never reached


def empty() -> Evidence:
    """The state before anything is learned: the views of texts share the sum."""
    return Evidence(
        key=np.zeros(FEWEST, dtype=np.uint32),
        cell=np.zeros((FEWEST, width(TWO)), dtype=np.float32),
        totals=np.zeros(TWO),
        bias=np.zeros((VIEWS, 1)),
        slope=np.array([1 / 3, 1 / 3, 1 / 3, 1.0]),
        slope_squares=np.zeros(VIEWS),
        final=np.zeros(1),
        final_squares=np.zeros(1),
        unit=np.ones(1),
        losses=np.zeros(3),
        size=np.zeros(1, dtype=np.int64),
        **{name: np.zeros(1, dtype=np.int64) for name in COUNTS},
    )


def width(classes: int) -> int:
    """Numbers of a feature: counts, and weight and squares of each column."""
    return classes + 2 * columns(classes)


def columns(classes: int) -> int:
    """One column for two classes, else one for each."""
    return 1 if classes <= TWO else classes


def room(places: int) -> int:
    """Features that a table of that many places may have."""
    return places // 4 * 3


def enlarged(s: Evidence, places: int) -> Evidence:
    """`s` with a table of at least that many places, a power of two."""
    if s.key.size >= places:
        return s
    return _filled(s, places, s.key, s.cell)


def _filled(s: Evidence, places: int, key: NDArray[np.uint32], cell: NDArray[Any]) -> Evidence:
    """`s` with a table of these features only; those with the key 0 are left out."""
    keys = np.zeros(places, dtype=np.uint32)
    cells = np.zeros((places, cell.shape[1]), dtype=np.float32)
    kernels.insert(key, cell, keys, cells)
    return s._replace(key=keys, cell=cells)


def swept(s: Evidence, kept: int, places: int) -> Evidence:
    """`s` with the `kept` features that have most evidence: the weight of their records, of which
    older ones count less. `places`: of the table."""
    order, key, cell = _in_order(s)
    counts = cell[:, : s.totals.size].astype(np.float64)
    seen = np.zeros(order.size)
    for c in range(s.totals.size):
        seen += counts[:, c]
    best = np.sort(np.lexsort((key, -seen))[:kept])
    s.evicted[0] += order.size - best.size
    s.size[0] = best.size
    return _filled(s, places, key[best], cell[best])


def counted(
    s: Evidence, words: CountedWords, records: NDArray[np.float64], weight: float, most: int
) -> tuple[Evidence, int]:
    """`s` with these counts added, each record with that weight, and how many words it has of them.

    The table has at most `most` places; the words with most records come first. Words in the table
    always have room.
    """
    known = np.isin(words.key, s.key)
    order = np.lexsort((words.key, -words.records.sum(axis=1), ~known))
    new = max(room(most) - int(s.size[0]), 0)
    kept = np.sort(order[: int(np.count_nonzero(known)) + new])
    s.refused[0] += words.key.size - kept.size
    key, fresh = words.key[kept], words.key[kept][~known[kept]]
    places = s.key.size
    while room(places) < int(s.size[0]) + fresh.size:
        places *= 2
    s = enlarged(s, places)
    kernels.insert(fresh, np.zeros((fresh.size, s.cell.shape[1]), np.float32), s.key, s.cell)
    s.size[0] += fresh.size
    at = np.empty(key.size, dtype=np.int64)
    kernels.find(key, 0, key.size, s.key, s.cell, at)
    weight *= float(s.unit[0])
    s.cell[at, : records.size] += (weight * words.records[kept]).astype(np.float32)
    s.totals[:] += weight * records
    return s, kept.size


def uncounted(s: Evidence, key: NDArray[np.uint32], code: int, weight: float) -> Callable[[], None]:
    """Take a record of class `code` with these features out of the counts, as far as it is there.

    What else its features have learned fades by its share of their counts: a feature that was in
    no other record is as if it were new. weight: that of the record now. Returns a function that
    undoes it, while the table is the same.
    """
    at = np.empty(key.size, dtype=np.int64)
    kernels.find(key, 0, key.size, s.key, s.cell, at)
    at, own, classes = at[at >= 0], weight * float(s.unit[0]), s.totals.size
    before, totals = s.cell[at].copy(), s.totals.copy()
    whole = np.maximum(before[:, :classes].sum(axis=1, dtype=np.float64), TINIEST)
    left = np.clip(1.0 - own / whole, 0.0, 1.0).astype(np.float32)
    s.cell[at, classes:] *= left[:, None]
    s.cell[at, code] = np.maximum(before[:, code] - np.float32(own), np.float32(0.0))
    s.totals[code] = max(totals[code] - own, 0.0)

    def undo() -> None:
        s.cell[at] = before
        s.totals[:] = totals

    return undo


def _in_order(s: Evidence) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[Any]]:
    """Places, keys and cells of the features, sorted by key."""
    at = np.flatnonzero(s.key)
    order = at[np.argsort(s.key[at], kind="stable")]
    return order, s.key[order], s.cell[order]


def widened(s: Evidence, classes: int) -> Evidence:
    """`s` with room for that many classes. Two classes that shared a column get one each."""
    old = s.totals.size
    if old >= classes:
        return s
    k = columns(old)
    cell = np.zeros((s.key.size, width(classes)), dtype=np.float32)
    cell[:, :old] = s.cell[:, :old]
    cell[:, classes : classes + 2 * old] = _by_class(s.cell[:, old:], k)
    out: dict[str, NDArray[Any]] = {"cell": cell, "totals": np.zeros(classes)}
    out["totals"][:old] = s.totals
    out["bias"] = np.zeros((VIEWS, classes))
    out["bias"][:, :old] = s.bias if k > 1 else np.hstack((-s.bias, s.bias))
    for name in BY_COLUMN:
        mine = getattr(s, name)
        out[name] = np.zeros(classes)
        sign = 1.0 if name.endswith("squares") else -1.0
        out[name][:old] = mine if k > 1 else [sign * mine[0], mine[0]]
    return s._replace(**out)


def _by_class(cells: NDArray[Any], k: int) -> NDArray[Any]:
    """Weight and squares (n, 2K), as those of each class."""
    if k > 1:
        return cells
    return np.stack((-cells[:, 0], cells[:, 1], cells[:, 0], cells[:, 1]), axis=1)


def exported(s: Evidence) -> dict[str, NDArray[Any]]:
    """The arrays of a state; some are not copied."""
    _, key, cell = _in_order(s)
    out = s._asdict()
    del out["size"]
    return {**out, "key": key, "cell": cell}


def restored(state: State, classes: int) -> Evidence:
    """The tables of a state made by `exported`.

    Raises
    ------
    StateError
        The state is damaged.
    """
    classes = max(classes, TWO)
    k = columns(classes)
    key = state.array("key", np.uint32, 1)
    n = key.size
    if n and not (key[0] > 0 and (key[1:] > key[:-1]).all()):
        raise StateError("array 'key': expected rising numbers above 0, got others")
    if n > room(MOST):
        raise StateError(f"expected at most {room(MOST)} features, got {n}")
    shapes: dict[str, tuple[int, ...]] = {"totals": (classes,), "bias": (VIEWS, k), "unit": (1,)}
    shapes["losses"] = (3,)
    shapes |= dict.fromkeys(BY_COLUMN, (k,)) | dict.fromkeys(OF_VIEWS, (VIEWS,))
    found: dict[str, NDArray[Any]] = {}
    for name, shape in shapes.items():
        found[name] = _checked(state.array(name, np.float64, len(shape)), name, shape)
    cell = _checked(state.array("cell", np.float32, 2), "cell", (n, width(classes)))
    signed = cell[:, classes::2]
    if (np.abs(signed) > FARTHEST).any() or (np.delete(cell, np.s_[classes::2], 1) < 0).any():
        raise StateError("array 'cell': expected counts and squares of at least 0")
    for name in ("totals", "slope", "slope_squares", "final_squares", "losses"):
        if (found[name] < 0).any():
            raise StateError(f"array {name!r}: expected numbers of at least 0")
    if (found["slope"] > HEAVIEST).any() or not 1.0 <= found["unit"][0] <= LARGEST_UNIT:
        raise StateError("expected the weights of views and the unit within their bounds")
    for name in COUNTS:
        found[name] = state.array(name, np.int64, 1)
        if found[name].shape != (1,) or found[name][0] < 0:
            raise StateError(f"array {name!r}: expected one count of at least 0")
    places = FEWEST
    while room(places) < n:
        places *= 2
    out = empty()._replace(**found, size=np.array([n], dtype=np.int64))
    return _filled(out, places, key, cell)


def _checked(array: NDArray[Any], name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    if array.shape != shape or not (np.abs(array) <= HEAVY).all():
        raise StateError(f"array {name!r}: expected finite numbers of shape {shape}")
    return array


def merged(mine: Evidence, theirs: Evidence, codes: NDArray[np.int64], fade: float) -> Evidence:
    """`mine` with `theirs` added, which has at most as many classes.

    Counts are added. Each weight becomes the mean of both, weighted by their sums of squared
    gradients; biases of views are weighted by records.

    Parameters
    ----------
    codes
        For each class of `theirs`, its code in `mine`.
    fade
        What remains of the counts and squares of `mine`, in the unit of `theirs`.
    """
    classes = mine.totals.size
    order, key, cell = _in_order(theirs)
    fresh = ~np.isin(key, mine.key)
    places = mine.key.size
    while room(places) < int(mine.size[0]) + int(np.count_nonzero(fresh)):
        places *= 2
    mine = _filled(mine, places, mine.key, mine.cell)
    mine.cell[:, :classes] *= np.float32(fade)
    mine.cell[:, classes + 1 :: 2] *= np.float32(fade)
    mine.totals[:] *= fade
    kernels.insert(key[fresh], np.zeros((order.size, mine.cell.shape[1]), np.float32), *mine[:2])
    mine.size[0] += np.count_nonzero(fresh)
    at = np.empty(key.size, dtype=np.int64)
    kernels.find(key, 0, key.size, mine.key, mine.cell, at)
    for theirs_code, code in enumerate(codes.tolist()):
        mine.cell[at, code] += cell[:, theirs_code]
        mine.totals[code] += theirs.totals[theirs_code]
    left = fade * float(mine.unit[0] / theirs.unit[0])
    mine.losses[:] = mine.losses * [0.0, left, left] + theirs.losses
    mine.unit[:] = theirs.unit
    k = columns(theirs.totals.size)
    each = _by_class(cell[:, theirs.totals.size :], k).astype(np.float64)
    share = float(theirs.records[0] / max(theirs.records[0] + mine.records[0], 1))
    bias = theirs.bias if k > 1 else np.hstack((-theirs.bias, theirs.bias))
    final = theirs.final if k > 1 else np.hstack((-theirs.final, theirs.final))
    squares = theirs.final_squares if k > 1 else np.tile(theirs.final_squares, 2)
    for theirs_code, code in enumerate(codes.tolist()):
        column, sign = (code, 1.0) if columns(classes) > 1 else (0, 1.0 if code == 1 else -1.0)
        if columns(classes) == 1 and theirs_code > 0:
            continue  # both classes are one column
        own = classes + 2 * column
        pair = each[:, 2 * theirs_code : 2 * theirs_code + 2]
        mine.cell[at, own], mine.cell[at, own + 1] = _mean(
            mine.cell[at, own], mine.cell[at, own + 1], sign * pair[:, 0], pair[:, 1]
        )
        mine.bias[:, column] += share * (sign * bias[:, theirs_code] - mine.bias[:, column])
        mine.final[column], mine.final_squares[column] = _mean(
            mine.final[column],
            mine.final_squares[column],
            sign * final[theirs_code],
            squares[theirs_code],
        )
    mine.slope[:], mine.slope_squares[:] = _mean(
        mine.slope, mine.slope_squares, theirs.slope, theirs.slope_squares
    )
    for name in COUNTS:
        getattr(mine, name)[:] += getattr(theirs, name)
    return mine


def _mean(a: Any, weight: Any, b: Any, other: Any) -> tuple[Any, Any]:
    """The weighted mean of a and b, or a if nobody has learned; and the sum of the weights."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    total = np.asarray(weight, dtype=np.float64) + other
    both = np.divide(a * weight + b * other, total, out=a.copy(), where=total > 0)
    return both, np.minimum(total, kernels.LARGEST)
