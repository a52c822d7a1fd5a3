"""Warns of data that make a model look better than it is, or that it cannot learn. Pure.

Rule: a warning needs evidence that chance does not give: enough records, and for a field the
prediction of each label by the *other* records with the same value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, log, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumers.base.counts import counted
from consumers.base.fields import MISSING, field_of, is_missing
from consumers.config.sample import FEW_DISTINCT, FEW_RECORDS, InferredField, come_again
from consumers.offline.suspicious import (
    known_later,
    names_or_dates,
    renamed,
    stands_for_missing,
)
from stream.data.schema import Kind
from stream.decision.risk import named

__all__ = ["MOST_WARNINGS", "Pitfalls", "pitfalls"]

Codes = NDArray[np.int64]

LEAST = 100  # labelled records; in fewer a field can separate the classes by chance
LEAST_ERRORS = 20  # of always predicting the most frequent class
EXPLAINED = 0.95  # share of these errors that a field avoids, to predict almost perfectly
PURE = 0.99  # share of one class among the records that have a field
UNLIKELY = 20.0  # nats: a chance of 2e-9, for each of at most a thousand fields
FEW_VALUES = 32  # numbers with as many distinct values are compared value by value
BINS, BIN_RECORDS = 256, 8  # the largest number of bins of a field, and the least records of one
TWIN = 0.5  # share of a class that a field must have, other than 0, to stand for it
REPEATS = 2  # records with each value on average; with fewer, equal groups may be chance
DENSE = 2  # numbers of a range of at most twice as many integers are sequence numbers
FEW_RUNS = 30  # of equal labels: too few to be evidence of how good a model will be
LEAST_DISTINCT = 10  # numbers of a field, to be another one on another scale
PROBED = 50  # records in which two fields are compared before all are
SAME = 1e-3  # of the interquartile range: the largest difference of a field on another scale
MOST_WARNINGS = 10  # of fields; more of them show that the label is wrong, not the fields


@dataclass(frozen=True, slots=True)
class Pitfalls:
    """What was found.

    Parameters
    ----------
    labels
        Warnings of the labels.
    fields
        Field to its warning.
    in_order
        False if the labels look sorted: scores then do not show how good a model will be.
    """

    labels: Sequence[str] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    in_order: bool = True

    def lines(self) -> list[str]:
        """All warnings, one line each; of fields at most `MOST_WARNINGS`."""
        each = [f"field {name} {why}" for name, why in self.fields.items()]
        more = len(each) - MOST_WARNINGS
        rest = [f"{counted(more, 'more field')} of this sort"] if more > 0 else []
        return [*self.labels, *each[:MOST_WARNINGS], *rest]


def pitfalls(
    fields: Iterable[InferredField],
    records: Sequence[Mapping[str, Any]],
    labels: Sequence[Any],
    label: str,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    missing: Collection[str] = MISSING,
) -> Pitfalls:
    """Check labelled records in their order.

    Parameters
    ----------
    fields
        The inferred fields; those that are left out are not checked.
    records, labels
        The records, and the label of each; None for a record without one.
    label
        Name of the label, for messages.
    progress
        Called with the number of checked fields, and with that of all.
    missing
        Texts that mean "no value" in a field of numbers or truth values.

    Examples
    --------
    >>> records = [{"paid": i % 2 + 0.5} for i in range(200)]
    >>> kinds = [InferredField("paid", "numeric", "")]
    >>> pitfalls(kinds, records, [i % 2 for i in range(200)], "fraud").fields
    {'paid': 'is the label in another coding: each of its values is one class; remove it'}
    """
    kept = [
        (record, y) for record, y in zip(records, labels, strict=True) if y is not None and y == y
    ]
    if not kept:
        return Pitfalls()
    y, classes = _coded(y for _, y in kept)
    about, in_order = _of_labels(y, len(classes), label)
    about += renamed(y, [named(each) for each in classes], label) if in_order else []
    if len(kept) < LEAST:
        return Pitfalls(about, in_order=in_order)
    found: dict[str, str] = {}
    checked = [each for each in fields if each.kind is not None]
    seen: dict[bytes, str] = {}
    scales = _Scales()
    where = [f"{label} is {named(each)}" for each in classes]
    for n, each in enumerate(checked, 1):
        values = [field_of(record, each.name) for record, _ in kept]
        if each.kind in ("numeric", "binary"):
            texts = (isinstance(v, str) and is_missing(v, missing) for v in values)
            values = [None if gone else v for v, gone in zip(values, texts, strict=True)]
        groups = _values(each.kind, values)
        if (why := _of_field(each.name, each.kind, values, y, where, groups)) is not None:
            found[each.name] = why
        elif (
            groups is not None
            and (other := seen.setdefault(groups.tobytes(), each.name)) != each.name
        ):
            found[each.name] = (
                f"is {other} in another coding: each value of one belongs to one value of the "
                "other; remove one of them, because a model may count it twice"
            )
        elif each.kind == "numeric" and (same := scales.add(each.name, values)) is not None:
            found[each.name] = f"{same}; remove one of them, because a model may count it twice"
        progress(n, len(checked))
    return Pitfalls(about, found, in_order)


def _of_labels(y: Codes, k: int, label: str) -> tuple[list[str], bool]:
    """Warnings of the labels: sorted, never repeated; and whether they do not look sorted.

    `check_labels` warns of one class.
    """
    n, warnings, in_order = y.size, [], True
    changes = int(np.count_nonzero(np.diff(y)))
    shares = np.bincount(y) / n
    by_chance = n * (1.0 - float(shares @ shares))
    if n >= FEW_RECORDS and 0 < changes < max(2 * k, FEW_RUNS) and by_chance >= 10 * changes:
        in_order = False
        figures = (
            f"{label} changes {counted(changes, 'time')} in {counted(n, 'record')}, in random "
            f"order some {by_chance:,.0f} times"
        )
        warnings.append(
            f"the labels look sorted: {figures}; a model predicts no class before its first label, "
            "so give the records in the order of their time"
            if changes < 2 * k
            else f"the labels come in long runs: {figures}; if the records are not in the order of "
            "their time, shuffle them"
        )
    once = int(np.count_nonzero(np.bincount(y) == 1))
    if n >= FEW_RECORDS and 2 * once >= n:
        warnings.append(
            f"{once:,} of {n:,} labels never repeat: {label} looks like an id or a measurement; "
            "name a field that holds classes"
        )
    return warnings, in_order


def _of_field(
    name: str,
    kind: Kind | None,
    values: Sequence[Any],
    y: Codes,
    named_class: Sequence[str],
    groups: Codes | None,
) -> str | None:
    """The warning of a field; None without one. `groups`: see `_values`."""
    there = np.array([v is not None and v == v and v != "" for v in values])
    presence = _of_presence(there, y, named_class)
    if presence is None and groups is not None and np.array_equal(groups, y):
        return "is the label in another coding: each of its values is one class; remove it"
    if presence is None and kind == "numeric":
        presence = _of_zero(values, there, y, named_class)
    if presence is not None:
        return presence
    codes = _groups(kind, values, there)
    errors = y.size - int(np.bincount(y).max())
    if codes is not None and errors >= LEAST_ERRORS:
        wrong = y.size - _right(codes, y)
        if wrong <= (1.0 - EXPLAINED) * errors:
            share = 1.0 - wrong / y.size
            return (
                f"alone predicts {share:.1%} of the labels: is it known before the label? if not, "
                "remove it"
            )
    if kind == "numeric":
        why = known_later(name, values, y) or stands_for_missing(values)
        if why is not None:
            return why
    present = [v for v, here in zip(values, there, strict=True) if here]
    found = _like_an_id(kind, present)
    return names_or_dates(name, present) if found is None and kind == "numeric" else found


def _of_presence(there: NDArray[np.bool_], y: Codes, named_class: Sequence[str]) -> str | None:
    """Whether a field is filled in, or missing, only for one class."""
    for rows, what in ((there, "filled in"), (~there, "missing")):
        n = int(np.count_nonzero(rows))
        if not n or n == y.size:
            continue
        counts = np.bincount(y[rows], minlength=len(named_class))
        most = int(counts.argmax())
        others = float(np.count_nonzero(y == most)) / y.size
        if counts[most] >= PURE * n and others < PURE and -n * log(others) >= UNLIKELY:
            only = "only" if counts[most] == n else "nearly only"
            return (
                f"is {what} {only} where {named_class[most]} ({counts[most]:,} of {n:,} records): "
                "is it known before the label? if not, remove it"
            )
    return None


def _of_zero(
    values: Sequence[Any], there: NDArray[np.bool_], y: Codes, named_class: Sequence[str]
) -> str | None:
    """Whether a number that is often 0 is another one only for one class, and mostly there."""
    other = there & np.array([v != 0 for v in values])
    n = int(np.count_nonzero(other))
    if not n or not np.any(there & ~other):
        return None
    counts = np.bincount(y[other], minlength=len(named_class))
    most = int(counts.argmax())
    of_class = int(np.count_nonzero(y == most))
    others = of_class / y.size
    if counts[most] < max(PURE * n, TWIN * of_class) or others >= PURE:
        return None
    if -n * log(others) < UNLIKELY:
        return None
    only = "only" if counts[most] == n else "nearly only"
    return (
        f"is not 0 {only} where {named_class[most]} ({counts[most]:,} of {n:,} records, and "
        f"{counts[most] / of_class:.0%} of that class): is it known before the label? if not, "
        "remove it"
    )


def _values(kind: Kind | None, values: Sequence[Any]) -> Codes | None:
    """A code for each record, numbered by first appearance: equal values have the same one, and
    missing ones too. None if few values repeat, or all are equal."""
    if kind == "text":
        return None
    gone = (None if v is None or v != v or v == "" else v for v in values)
    codes, distinct = _coded(gone)
    return codes if 1 < len(distinct) <= len(codes) // REPEATS else None


def _groups(kind: Kind | None, values: Sequence[Any], there: NDArray[np.bool_]) -> Codes | None:
    """A code for each record: equal values, or numbers that are close, have the same one; missing
    values have one of their own. None for texts."""
    if kind == "text":
        return None
    present = [v for v, here in zip(values, there, strict=True) if here]
    codes, distinct = _coded(present)
    if kind == "numeric" and len(distinct) > FEW_VALUES:
        x = np.array([_number(v) for v in present])
        bins = max(2, min(BINS, x.size // BIN_RECORDS))
        edges = np.unique(np.nanquantile(x, np.arange(1, bins) / bins))
        codes = np.searchsorted(edges, x, side="right")
    out = np.zeros(len(values), dtype=np.int64)
    out[there] = 1 + codes
    return out


class _Scales:
    """Finds fields of numbers that are an earlier one, times a number, plus a number."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._values: list[NDArray[np.float64]] = []
        self._probes: list[NDArray[np.float64]] = []

    def add(self, name: str, values: Sequence[Any]) -> str | None:
        """Keep a field for later ones; or what it is, if it is an earlier one on another scale."""
        x = np.array([_number(v) for v in values])
        here = ~np.isnan(x)
        if np.unique(x[here]).size < LEAST_DISTINCT:
            return None
        probe = _unit(x[np.linspace(0, x.size - 1, PROBED).astype(int)])
        if self._probes:
            apart = np.abs(np.stack(self._probes) - probe)
            near = np.flatnonzero(np.where(apart > PROBED * SAME, 1, 0).sum(axis=1) == 0)
            for i in near.tolist():
                if (line := _line(self._values[i], x)) is not None:
                    return _scaled(self._names[i], *line)
        self._names.append(name)
        self._values.append(x)
        self._probes.append(probe)
        return None


def _unit(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The numbers less their mean, in standard deviations; the first one that differs is above."""
    with np.errstate(all="ignore"):
        z = x - np.nanmean(x) if not np.isnan(x).all() else x
        far = z[np.abs(z) > 0]
        scale = np.sqrt(np.nanmean(z**2)) if far.size else 1.0
        return z / (scale if not far.size or far[0] > 0 else -scale)


def _line(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float] | None:
    """Slope and offset if each y is on one line over x, and missing where x is.

    The line is that of two records inside the range, so one outlier of both fields does not make
    the differences of all others look small.
    """
    here = ~np.isnan(x)
    if not np.array_equal(here, ~np.isnan(y)):
        return None
    x, y = x[here], y[here]
    order = np.argsort(x, kind="stable")
    low, high = order[x.size // 10], order[-1 - x.size // 10]
    spread = float(np.subtract(*np.quantile(y, (0.75, 0.25))))
    if x[high] == x[low] or spread == 0.0:
        return None
    with np.errstate(all="ignore"):
        slope = float((y[high] - y[low]) / (x[high] - x[low]))
        offset = float(y[low] - slope * x[low])
        apart = np.abs(y - (slope * x + offset))
        near = apart <= np.maximum(SAME * spread, 1e-9 * np.abs(y))
    return (slope, offset) if slope != 0.0 and near.all() else None


def _scaled(other: str, slope: float, offset: float) -> str:
    """What a field is.

    Examples
    --------
    >>> print(_scaled("b", 2.0, -1.0), _scaled("b", 1.0, 0.0), sep=", ")
    is b on another scale (2 * b - 1), is a copy of b
    """
    factor, sign = f"{slope:.4g}", "-" if offset < 0 else "+"
    shift = "" if abs(offset) < 1e-9 * max(1.0, abs(slope)) else f" {sign} {abs(offset):.4g}"
    if factor == "1" and not shift:
        return f"is a copy of {other}"
    return f"is {other} on another scale ({factor} * {other}{shift})"


def _right(codes: Codes, y: Codes) -> int:
    """How many labels are predicted by the majority of the other records with the same code."""
    pairs, counts = np.unique(np.stack((codes, y)), axis=1, return_counts=True)
    order = np.lexsort((-counts, pairs[0]))
    group, n = pairs[0, order], counts[order]
    first = np.flatnonzero(np.diff(group, prepend=-1))
    # Only the most frequent class of a group can be right, if it leads by more than one record.
    second = np.append(n, 0)[first + 1]
    second[np.append(group, -1)[first + 1] != group[first]] = 0
    return int(n[first][n[first] - 1 > second].sum())


def _like_an_id(kind: Kind | None, values: Sequence[Any]) -> str | None:
    n = len(values)
    if n < LEAST or kind == "text":
        return None
    if kind == "numeric":
        if not all(isinstance(v, int) or (isinstance(v, float) and v.is_integer()) for v in values):
            return None
        distinct = len(set(values))
        if distinct < n or max(values) - min(values) >= DENSE * n:
            return None
        return f"looks like an id or a row number: all {n:,} values are distinct; remove it"
    _, distinct_values = _coded(values)
    if len(distinct_values) <= FEW_DISTINCT or come_again(len(distinct_values), n):
        return None
    return f"looks like an id: {len(distinct_values):,} of {n:,} values are distinct; remove it"


def _coded(values: Iterable[Any]) -> tuple[Codes, list[Any]]:
    """A code for each value, and the distinct values; 1 and true differ."""
    seen: dict[Any, int] = {}
    codes = [seen.setdefault((type(v) is bool, _hashable(v)), len(seen)) for v in values]
    return np.array(codes, dtype=np.int64), [value for _, value in seen]


def _number(value: Any) -> float:
    """A number; NaN for anything else, also for integers that no float can hold."""
    try:
        x = float(value) if isinstance(value, int | float) else nan
    except OverflowError:
        return nan
    return x if isfinite(x) else nan


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int | float) else str(value)
