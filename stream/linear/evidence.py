"""The tables of SpamScorer: empty, enlarged, swept, merged, saved and restored.

Rule: predictions do not depend on the places of features. A state has the features sorted by key,
so that it depends only on what was learned.

Counts of words by class, from another filter, as features of SpamScorer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.block import Rows
from stream.data.columns import padded
from stream.data.parameters import number
from stream.data.schema import Label
from stream.data.state import Saved, State
from stream.errors import SchemaError
from stream.linear._kernels import evidence as kernels
from stream.linear._kernels import lessons
from stream.linear._kernels.evidence import HEAVIEST, LARGEST_UNIT, MEMORIES, Evidence
from stream.text._kernels.features import SENT, WORDS
from stream.text.features import VIEWS, features

__all__ = [
    "FEWEST",
    "NOTES",
    "WordCount",
    "beginning",
    "bytes_of",
    "counted",
    "counted_words",
    "empty",
    "enlarged",
    "exported",
    "merged",
    "noted",
    "restored",
    "retracted",
    "room",
    "swept",
    "uncounted",
    "widened",
]

TOGETHER = 10_000  # words whose features are computed in one call
ONE_WORD = re.compile(r"[\w'’]+")


class WordCount(NamedTuple):
    """A word of a field, and how many records of each class have it."""

    field: str
    word: str
    records: Mapping[Label, float]


class CountedWords(NamedTuple):
    """Keys of the view of words, rising, uint32 (n,); of each, the records of each class, (n, C);
    and the words that are not one token, which are left out."""

    key: NDArray[np.uint32]
    records: NDArray[np.float64]
    left_out: int


def counted_words(
    counts: Iterable[WordCount], records: NDArray[np.float64], codes: Mapping[Label, int]
) -> CountedWords:
    """The features of words with the sums of their counts, each at most the records of its class.

    A word that is written in two ways (`Free` and `free`) has one feature for both, so the sum may
    count a record twice.

    Raises
    ------
    SchemaError
        A count is not a finite number of at least 0, or its class has no records.
    """
    key = np.empty(0, dtype=np.uint32)
    total = np.empty((0, records.size))
    left_out = 0
    every = iter(counts)
    while some := list(islice(every, TOGETHER)):
        words = [one for one in some if ONE_WORD.fullmatch(one.word)]
        left_out += len(some) - len(words)
        rows = Rows.from_dicts([{one.field: one.word} for one in words], strings="text")
        found = features(rows, np.arange(len(words)))
        sizes = np.diff(found.start)
        view = np.repeat(np.tile(np.arange(VIEWS), len(words)), sizes)
        at = np.flatnonzero(view % SENT == WORDS)
        of_word = np.repeat(np.repeat(np.arange(len(words)), VIEWS), sizes)[at]
        table = np.zeros((len(words), records.size))
        for i, one in enumerate(words):
            for label, n in one.records.items():
                if label not in codes:
                    raise SchemaError(f"expected records of the class {label!r}, got none")
                table[i, codes[label]] = number("a count", n, 0.0, 2.0**53)
        both = np.concatenate((key, found.key[at])), np.concatenate((total, table[of_word]))
        key, place = np.unique(both[0], return_inverse=True)
        total = np.zeros((key.size, records.size))
        np.add.at(total, place.ravel(), both[1])
    return CountedWords(key, np.minimum(total, records), left_out)


TINIEST = 1e-30  # of a divisor
FEWEST, MOST = 2**12, 2**22  # places of the table
TWO = 2  # classes that share a column
ROOM = 2  # enlarging a table doubles it, and the old one exists until it is copied
KEY, CELL = 4, 4  # bytes
# The weight of each view in the sum at the start. How a message was sent counts as one view.
BEGIN = (1 / 3, 1 / 3, 1 / 3, 1.0, 1 / 9, 1 / 9, 1 / 9)
NOTES = 2**12  # records whose labels can be taken back exactly
BY_COLUMN = ("final", "final_squares")
OF_VIEWS = ("slope", "slope_squares")
COUNTS = ("cut", "evicted", "records", "refused")
OF_NOTES = ("note_count", "note_pull", "note_slope", "note_bias", "note_final")
FARTHEST, HEAVY = 1e30, 1e38  # of signed numbers and of the others in a state; never reached


def empty() -> Evidence:
    """The state before anything is learned."""
    ones: dict[str, Any] = {
        name: np.zeros(1, dtype=np.int64) for name in ("size", "noted", *COUNTS)
    }
    notes: dict[str, Any] = {n: np.zeros((NOTES, *of), np.float32) for n, of in _notes(TWO).items()}
    return Evidence(
        key=np.zeros(FEWEST, dtype=np.uint32),
        cell=np.zeros((FEWEST, width(TWO)), dtype=np.float32),
        totals=np.zeros((MEMORIES, TWO)),
        bias=np.zeros((VIEWS, 1)),
        slope=np.array(BEGIN),
        slope_squares=np.zeros(VIEWS),
        final=np.zeros(1),
        final_squares=np.zeros(1),
        unit=np.ones(MEMORIES),
        losses=np.zeros(MEMORIES),
        surprise=np.zeros(2),
        note_key=np.zeros(NOTES, dtype=np.int64),
        **notes,
        **ones,
    )


def _notes(classes: int) -> dict[str, tuple[int, ...]]:
    """The shape of what is noted of a record, by the name of the array."""
    k = columns(classes)
    shapes = (MEMORIES,), (MEMORIES, VIEWS, k), (VIEWS,), (VIEWS, k), (k,)
    return dict(zip(OF_NOTES, shapes, strict=True))


def note_bytes(classes: int) -> int:
    """Bytes of all notes."""
    return NOTES * (8 + 4 * sum(prod(shape) for shape in _notes(classes).values()))


def bytes_of(places: int, classes: int) -> int:
    """Bytes that a table of so many places can take, with the notes."""
    return ROOM * places * (KEY + CELL * width(classes)) + note_bytes(classes)


def beginning(known: int) -> NDArray[np.int64]:
    """Where `progressive` begins, with so many known classes."""
    at = np.zeros(7, dtype=np.int64)
    at[3] = known
    return at


def width(classes: int) -> int:
    """Numbers of a feature in both memories: counts, and weight and squares of each column."""
    return MEMORIES * (classes + 2 * columns(classes))


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
    counts = cell[:, : s.totals.shape[1]].astype(np.float64)  # of the slow memory
    seen = np.zeros(order.size)
    for c in range(s.totals.shape[1]):
        seen += counts[:, c]
    best = np.sort(np.lexsort((key, -seen))[:kept])
    s.evicted[0] += order.size - best.size
    s.size[0] = best.size
    return _filled(s, places, key[best], cell[best])


def counted(
    s: Evidence,
    words: CountedWords,
    records: NDArray[np.float64],
    weights: Sequence[float],
    most: int,
) -> tuple[Evidence, int]:
    """`s` with these counts added, and how many words it has of them. `weights`: of each record in
    each memory.

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
    for m, weight in enumerate(weights):
        own, mine = weight * float(s.unit[m]), m * records.size + np.arange(records.size)
        s.cell[at[:, None], mine] += (own * words.records[kept]).astype(np.float32)
        s.totals[m] += own * records
    return s, kept.size


def noted(s: Evidence, key: NDArray[np.uint32], code: int) -> int:
    """Where the newest record of class `code` with these features is noted; -1: nowhere."""
    at = np.flatnonzero(s.note_key == lessons.note_key_of(key, 0, key.size, code))
    if not at.size:
        return -1
    age = (int(s.noted[0]) - 1 - at) % NOTES
    return int(at[np.argmin(age)])


def retracted(
    s: Evidence, key: NDArray[np.uint32], start: NDArray[np.int64], code: int, slot: int
) -> None:
    """Take back what a record taught that is noted at `slot`, and its note."""
    place = np.empty(key.size, dtype=np.int64)
    kernels.find(key, 0, key.size, s.key, s.cell, place)
    room = np.empty((s.cell.shape[1] + 1, key.size), dtype=np.float32)
    lessons.retract(code, place, room, start, slot, s)


def uncounted(s: Evidence, key: NDArray[np.uint32], code: int, weights: Sequence[float]) -> None:
    """Take a record of class `code` with these features out of the counts, as far as it is there.

    What else its features have learned fades by its share of their counts: a feature that was in
    no other record is as if it were new. weights: those of the record now, in each memory.
    """
    at = np.empty(key.size, dtype=np.int64)
    kernels.find(key, 0, key.size, s.key, s.cell, at)
    at, classes = at[at >= 0], s.totals.shape[1]
    for m, weight in enumerate(weights):
        own, first = weight * float(s.unit[m]), m * classes
        counts = s.cell[at, first : first + classes]
        whole = np.maximum(counts.sum(axis=1, dtype=np.float64), TINIEST)
        left = np.clip(1.0 - own / whole, 0.0, 1.0).astype(np.float32)
        s.cell[at, _of_memory(m, classes)] *= left[:, None]
        s.cell[at, first + code] = np.maximum(counts[:, code] - np.float32(own), np.float32(0.0))
        s.totals[m, code] = max(float(s.totals[m, code]) - own, 0.0)


def _of_memory(memory: int, classes: int) -> slice:
    """The columns of a cell with weights and squares in a memory."""
    first, each = MEMORIES * classes, 2 * columns(classes)
    return slice(first + memory * each, first + (memory + 1) * each)


def _in_order(s: Evidence) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[Any]]:
    """Places, keys and cells of the features, sorted by key."""
    at = np.flatnonzero(s.key)
    order = at[np.argsort(s.key[at], kind="stable")]
    return order, s.key[order], s.cell[order]


def widened(s: Evidence, classes: int) -> Evidence:
    """`s` with room for that many classes. Two classes that shared a column get one each."""
    old = s.totals.shape[1]
    if old >= classes:
        return s
    k = columns(old)
    cell = np.zeros((s.key.size, width(classes)), dtype=np.float32)
    out: dict[str, NDArray[Any]] = {"cell": cell, "totals": np.zeros((MEMORIES, classes))}
    out["totals"][:, :old] = s.totals
    for m in range(MEMORIES):
        cell[:, m * classes : m * classes + old] = s.cell[:, m * old : (m + 1) * old]
        first = _of_memory(m, classes).start
        cell[:, first : first + 2 * old] = _by_class(s.cell[:, _of_memory(m, old)], k)
    for name in (*BY_COLUMN, "bias", "note_pull", "note_bias", "note_final"):
        mine = getattr(s, name)
        sign = 1.0 if name.endswith("squares") else -1.0
        made = np.zeros((*mine.shape[:-1], classes), dtype=mine.dtype)
        made[..., :old] = mine if k > 1 else np.concatenate((sign * mine, mine), axis=-1)
        out[name] = made
    return s._replace(**out)


def _by_class(cells: NDArray[Any], k: int) -> NDArray[Any]:
    """Weight and squares (n, 2K), as those of each class."""
    if k > 1:
        return cells
    return np.stack((-cells[:, 0], cells[:, 1], cells[:, 0], cells[:, 1]), axis=1)


def exported(s: Evidence) -> dict[str, NDArray[Any]]:
    """The arrays of a state; some are not copied. Of the notes only those in use."""
    _, key, cell = _in_order(s)
    out = s._asdict()
    del out["size"]
    used = min(int(s.noted[0]), NOTES)
    notes = {name: out[name][:used] for name in ("note_key", *OF_NOTES)}
    return {**out, "key": key, "cell": cell, **notes}


def restored(state: State, classes: int) -> Evidence:
    """The tables of a state made by `exported`.

    Raises
    ------
    StateError
        The state is damaged.
    """
    classes = max(classes, TWO)
    found = state.read(_saved(classes), {"at most as many features as there is room for": _fit})
    key, cell = found.pop("key"), found.pop("cell")
    n = key.size
    found |= _restored_notes(state, int(found["noted"][0]), classes)
    places = FEWEST
    while room(places) < n:
        places *= 2
    out = empty()._replace(**found, size=np.array([n], dtype=np.int64))
    return _filled(out, places, key, cell)


def _saved(classes: int) -> dict[str, Saved]:
    """What the arrays of a state must be, without those of the notes."""
    k = columns(classes)
    shapes: dict[str, tuple[int, ...]] = {"totals": (MEMORIES, classes), "bias": (VIEWS, k)}
    shapes |= dict.fromkeys(("unit", "losses"), (MEMORIES,)) | {"surprise": (2,)}
    shapes |= dict.fromkeys(BY_COLUMN, (k,)) | dict.fromkeys(OF_VIEWS, (VIEWS,))
    low = dict.fromkeys(shapes, -HEAVY)
    low |= dict.fromkeys(("slope", "slope_squares", "final_squares", "losses", "surprise"), 0.0)
    low |= {"unit": 1.0, "totals": 0.0}
    high = dict.fromkeys(shapes, HEAVY) | {"unit": LARGEST_UNIT, "slope": HEAVIEST}
    table = {name: Saved(np.float64, shapes[name], low[name], high[name]) for name in shapes}
    least, most = np.zeros(width(classes)), np.full(width(classes), HEAVY)
    signed = np.s_[MEMORIES * classes :: 2]
    least[signed], most[signed] = -FARTHEST, FARTHEST
    table["key"] = Saved(np.uint32, ("features",), 1, rising=True)
    table["cell"] = Saved(np.float32, ("features", width(classes)), least, most)
    return table | dict.fromkeys((*COUNTS, "noted"), Saved(np.int64, (1,), 0))


def _fit(found: Mapping[str, NDArray[Any]]) -> bool:
    return found["key"].size <= room(MOST)


def _restored_notes(state: State, made: int, classes: int) -> dict[str, NDArray[Any]]:
    """The arrays of the notes, of which `made` were ever made."""
    used = min(made, NOTES)
    table = {"note_key": Saved(np.int64, (used,))} | {
        name: Saved(np.float32, (used, *shape), -HEAVY, HEAVY)
        for name, shape in _notes(classes).items()
    }
    return {name: padded(a, (NOTES, *a.shape[1:])) for name, a in state.read(table).items()}


def merged(
    mine: Evidence, theirs: Evidence, codes: NDArray[np.int64], left: Sequence[float]
) -> Evidence:
    """`mine` with `theirs` added, which has at most as many classes.

    Counts are added. Each weight becomes the mean of both, weighted by their sums of squared
    gradients; biases of views are weighted by records. No note is left, because what a record has
    taught is no longer there as it was.

    Parameters
    ----------
    codes
        For each class of `theirs`, its code in `mine`.
    left
        What remains of the counts and squares of `mine` in each memory.
    """
    classes, others = mine.totals.shape[1], theirs.totals.shape[1]
    order, key, cell = _in_order(theirs)
    fresh = ~np.isin(key, mine.key)
    places = mine.key.size
    while room(places) < int(mine.size[0]) + int(np.count_nonzero(fresh)):
        places *= 2
    mine = _filled(mine, places, mine.key, mine.cell)
    kernels.insert(key[fresh], np.zeros((order.size, mine.cell.shape[1]), np.float32), *mine[:2])
    mine.size[0] += np.count_nonzero(fresh)
    at = np.empty(key.size, dtype=np.int64)
    kernels.find(key, 0, key.size, mine.key, mine.cell, at)
    for m in range(MEMORIES):
        fade = left[m] * float(theirs.unit[m] / mine.unit[m])
        mine.cell[:, m * classes : (m + 1) * classes] *= np.float32(fade)
        mine.totals[m] *= fade
        for theirs_code, code in enumerate(codes.tolist()):
            mine.cell[at, m * classes + code] += cell[:, m * others + theirs_code]
            mine.totals[m, code] += theirs.totals[m, theirs_code]
        _merge_weights(mine, cell[:, _of_memory(m, others)], at, codes, m, fade)
    losses_left = lessons.LOSSES_LEFT ** int(theirs.records[0])
    mine.losses[:] = losses_left * mine.losses + theirs.losses
    surprise_left = np.array(lessons.SURPRISE_LEFT) ** int(theirs.records[0])
    mine.surprise[:] = surprise_left * mine.surprise + theirs.surprise
    mine.unit[:] = theirs.unit
    _merge_sums(mine, theirs, codes)
    for name in COUNTS:
        getattr(mine, name)[:] += getattr(theirs, name)
    mine.noted[:] = 0
    mine.note_key[:] = 0
    for name in OF_NOTES:
        getattr(mine, name)[:] = 0.0
    return mine


def _merge_weights(
    mine: Evidence,
    cell: NDArray[Any],
    at: NDArray[np.int64],
    codes: NDArray[np.int64],
    memory: int,
    fade: float,
) -> None:
    """Make weights of a memory the mean of both; cell: weights and squares of the other one."""
    classes = mine.totals.shape[1]
    first = _of_memory(memory, classes).start
    mine.cell[:, first + 1 : _of_memory(memory, classes).stop : 2] *= np.float32(fade)
    k = cell.shape[1] // 2
    each = _by_class(cell, k).astype(np.float64)
    for theirs_code, code in enumerate(codes.tolist()):
        column, sign = _column_of(classes, code)
        if columns(classes) == 1 and theirs_code > 0:
            continue  # both classes are one column
        own = first + 2 * column
        pair = each[:, 2 * theirs_code : 2 * theirs_code + 2]
        mine.cell[at, own], mine.cell[at, own + 1] = _mean(
            mine.cell[at, own], mine.cell[at, own + 1], sign * pair[:, 0], pair[:, 1]
        )


def _column_of(classes: int, code: int) -> tuple[int, float]:
    """The column of a class, and the sign with which it is there."""
    return (code, 1.0) if columns(classes) > 1 else (0, 1.0 if code == 1 else -1.0)


def _merge_sums(mine: Evidence, theirs: Evidence, codes: NDArray[np.int64]) -> None:
    """Make biases and weights of views the mean of both."""
    k, classes = columns(theirs.totals.shape[1]), mine.totals.shape[1]
    share = float(theirs.records[0] / max(theirs.records[0] + mine.records[0], 1))
    bias = theirs.bias if k > 1 else np.hstack((-theirs.bias, theirs.bias))
    final = theirs.final if k > 1 else np.hstack((-theirs.final, theirs.final))
    squares = theirs.final_squares if k > 1 else np.tile(theirs.final_squares, 2)
    for theirs_code, code in enumerate(codes.tolist()):
        column, sign = _column_of(classes, code)
        if columns(classes) == 1 and theirs_code > 0:
            continue  # both classes are one column
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


def _mean(a: Any, weight: Any, b: Any, other: Any) -> tuple[Any, Any]:
    """The weighted mean of a and b, or a if nobody has learned; and the sum of the weights."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    total = np.asarray(weight, dtype=np.float64) + other
    both = np.divide(a * weight + b * other, total, out=a.copy(), where=total > 0)
    return both, np.minimum(total, lessons.LARGEST)
