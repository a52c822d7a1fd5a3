"""Columns and classes that look wrong.

Fields of numbers that are hardly measurements, and fields that are known only at the end. Pure.

Rule: what all values of a field have in common shows that they name or date something. A model
would learn from their size, which says nothing, and future values are all new.

Classes that begin where others end: labels that were renamed midway. Pure.

Rule: how often two classes came says whether one that ends where the other one begins is chance.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumers.base.fields import EXACT, timestamp_ms, unit_of

__all__ = ["known_later", "names_or_dates", "renamed", "stands_for_missing"]

LEAST = 100  # values
DISTINCT = 0.5  # share of the values: names of things repeat less than measurements of few digits
LONG = 7  # digits, all values alike: phone numbers, order numbers, accounts
SAME = 0.95  # share of the values with as many digits
YEARS = 30  # times of one feed lie within
FIRST_MS, LAST_MS = 631_152_000_000, 2_524_608_000_000  # 1990 and 2050
FEWEST_PLACEHOLDERS = 3  # equal numbers that may mean "no value"
FEWEST_OTHERS = 3  # distinct other numbers
FAR = 2  # spreads of the other numbers that lie between these and one that means "no value"
_NINES = re.compile(r"99+|99+9\.9")  # 99.99 is a price
# The limits of integers of 16 and 32 bits.
_LIMITS = (-(2.0**15), 2.0**15 - 1, 2.0**16 - 1, -(2.0**31), 2.0**31 - 1, 2.0**32 - 1)
TELLING = 0.65  # area under the ROC curve

_NAMED = re.compile(
    r"(?i:(^|[._-])(phone|telephone|tel|mobile|fax|order|invoice|ticket|account|serial|card|zip|"
    r"postcode|plz|ssn|isbn|ean|sku)(_?(number|num|no|nr))?$)|[a-z](Phone|Invoice|Account|Number)$"
)
_LATER = re.compile(
    r"(?i:(^|[._-])(duration|elapsed|ended|closed|resolved|resolution|settled|finished|completed|"
    r"returned|refund|refunded|chargeback|outcome|result|final|handled|minutes_spent|time_spent)"
    r"([._-]|$))|(?:Duration|Elapsed|Outcome|Result|Resolution)$"
)


def names_or_dates(name: str, values: Sequence[Any]) -> str | None:
    """Why the numbers of a field, in the order of their records, name or date something.

    Examples
    --------
    >>> names_or_dates("at", [1_711_852_200 + 60 * (i * 7 % 500) for i in range(200)])
    'looks like a time (2024-03-31 02:30 UTC in seconds): future values are all new; remove it'
    >>> names_or_dates("n", [10_000_019 + 7 * i for i in range(200)])
    'rises from record to record, as order numbers and times do: future values are new; remove it'
    """
    if len(values) < LEAST or not all(type(v) in (int, float) for v in values):
        return None
    whole = [int(v) for v in values if isinstance(v, int) or v.is_integer()]
    distinct = len(set(values))
    if _dates(whole, values):
        return (
            "looks like a date (20240331 is no measurement): future values are all new; remove it"
        )
    if distinct > DISTINCT * len(values) and (moment := _moment(values)) is not None:
        return f"looks like a time ({moment}): future values are all new; remove it"
    if len(whole) < len(values):
        return None
    if all(a < b for a, b in pairwise(values)):
        return (
            "rises from record to record, as order numbers and times do: future values are new; "
            "remove it"
        )
    digits = [len(str(abs(v))) for v in whole]
    common = max(set(digits), key=digits.count)
    alike = digits.count(common) >= SAME * len(digits)
    if distinct > DISTINCT * len(values) and alike and common >= LONG:
        return (
            f"looks like a number that names something (a phone, an order): {distinct:,} of "
            f"{len(values):,} values distinct, of {common} digits; remove it, or declare it "
            "categorical if values repeat"
        )
    if _NAMED.search(name) and distinct > LEAST // 4:
        return "is a number by which something is named, not a measurement; declare it categorical"
    return None


def stands_for_missing(values: Sequence[Any]) -> str | None:
    """Why one number of a field may mean "no value"; None without such.

    Programs of measurement write a number that cannot be measured, such as -9999. A model would
    learn from its size.

    Examples
    --------
    >>> print(stands_for_missing([20 + i % 9 if i % 7 else -9999 for i in range(200)]))
    is -9999 in 29 of 200 values, far from all others (20 to 28): if it means "no value", \
--missing -9999 reads a CSV so, and JSON should have null
    """
    numbers = (v for v in values if type(v) is float or (type(v) is int and abs(v) < EXACT))
    x = np.array(list(numbers), dtype=np.float64)
    x = x[np.isfinite(x)]
    if x.size < LEAST:
        return None
    for extreme in (float(x.min()), float(x.max())):
        others = x[x != extreme]
        times = x.size - others.size
        if times < FEWEST_PLACEHOLDERS or not _is_placeholder(extreme):
            continue
        others = np.array([v for v in others if not _is_placeholder(v)])
        if np.unique(others).size < FEWEST_OTHERS:
            continue
        low, high = float(others.min()), float(others.max())
        spread = float(np.subtract(*np.quantile(others, (0.99, 0.01))))
        if max(low - extreme, extreme - high) > FAR * max(spread, 1.0):
            shown = f"{extreme:.15g}"
            return (
                f"is {shown} in {times:,} of {x.size:,} values, far from all others ({low:g} to "
                f'{high:g}): if it means "no value", --missing {shown} reads a CSV so, and JSON '
                "should have null"
            )
    return None


def _is_placeholder(value: float) -> bool:
    """Whether a number is one of those that programs write where they have none."""
    return value in _LIMITS or _NINES.fullmatch(f"{abs(value):.15g}") is not None


def known_later(name: str, values: Sequence[Any], y: NDArray[np.int64]) -> str | None:
    """Why a field may be known only after the label: its name says so, and it predicts the label.

    `values` has one value for each label; those that are no numbers are left out.
    """
    if not _LATER.search(name):
        return None
    numbers = np.array([float(v) if type(v) in (int, float) else np.nan for v in values])
    here = ~np.isnan(numbers)
    if np.count_nonzero(here) < LEAST:
        return None
    best = max((_area(numbers[here], y[here] == k) for k in np.unique(y[here])), default=0.5)
    if best < TELLING:
        return None
    return (
        f"predicts the label (area under the ROC curve {best:.2f}), and is named like something "
        "known at the end: is it known before the label? if not, remove it"
    )


def _area(x: NDArray[np.float64], of_class: NDArray[np.bool_]) -> float:
    """The area under the ROC curve of a number for a class, in the better direction."""
    n = int(np.count_nonzero(of_class))
    if not 0 < n < x.size:
        return 0.5
    _, place, counts = np.unique(x, return_inverse=True, return_counts=True)
    after = np.cumsum(counts)
    ranks = (after - (counts - 1) / 2.0)[place]
    area = (float(ranks[of_class].sum()) - n * (n + 1) / 2.0) / (n * (x.size - n))
    return max(area, 1.0 - area)


def _dates(whole: Sequence[int], values: Sequence[Any]) -> bool:
    """Whether all are dates as 20240331."""
    if len(whole) < len(values) or len(set(whole)) < 2:
        return False
    return all(19_000_101 <= v <= 21_001_231 and _is_date(v) for v in set(whole))


def _is_date(value: int) -> bool:
    try:
        datetime(value // 10_000, value // 100 % 100, value % 100, tzinfo=UTC)
    except ValueError:
        return False
    return True


def _moment(values: Sequence[Any]) -> str | None:
    """The first value as a time, if all are times of one feed by their size."""
    unit = unit_of(values[0])
    if unit is None or any(unit_of(v) != unit for v in values):
        return None
    times = [timestamp_ms(v) for v in values]
    if min(times) < FIRST_MS or max(times) > LAST_MS:
        return None
    if max(times) - min(times) > YEARS * 365 * 86_400_000:
        return None
    shown = datetime.fromtimestamp(times[0] / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    names = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
    return f"{shown} in {names[unit]}"


LEAST_LABELS = 20  # labels of each of the two classes
GAP = 10  # mean distances of two labels of a class, which may lie between the two
OVERLAP = 0.02  # share of the labels of a class that may lie beyond the change


def renamed(y: NDArray[np.int64], classes: Sequence[str], label: str) -> list[str]:
    """Warnings of classes that end where another one begins, in the order of the records.

    Parameters
    ----------
    y
        The class of each label, as its number.
    classes
        The name of each class.

    Examples
    --------
    >>> y = np.array([0, 1, 0, 0] * 20 + [2, 1, 2, 2] * 20)
    >>> print(*renamed(y, ["ok", "fraud", "legit"], "y"))
    label y: 'legit' begins at labelled record 81, where 'ok' ends: was it renamed? a model learns \
them as two classes; spell them alike
    """
    n = y.size
    at = [np.flatnonzero(y == k) for k in range(len(classes))]
    found = []
    for old, ends in enumerate(at):
        if ends.size < LEAST_LABELS:
            continue
        for new, begins in enumerate(at):
            if new == old or begins.size < LEAST_LABELS:
                continue
            last = int(np.quantile(ends, 1 - OVERLAP))
            first = int(np.quantile(begins, OVERLAP))
            step = (last - int(ends[0])) / ends.size + (int(begins[-1]) - first) / begins.size
            if not 0 < first - last <= GAP * step + OVERLAP * n:
                continue
            where = int(begins[0])
            if _spans(at, where, {old, new}) or _pairs(at, where):
                apart = abs(ends.size / where - begins.size / (n - where))
                found.append((apart, where, classes[new], classes[old]))
    return [
        f"label {label}: {new!r} begins at labelled record {where + 1:,}, where {old!r} ends: was "
        "it renamed? a model learns them as two classes; spell them alike"
        for _, where, new, old in sorted(_one_each(found), key=lambda each: each[1:])
    ]


def _spans(at: Sequence[NDArray[np.int64]], where: int, but: set[int]) -> bool:
    """Whether a third class comes before and after a record: else the labels are sorted."""
    others = (rows for k, rows in enumerate(at) if k not in but and rows.size)
    return any(bool(rows[0] < where < rows[-1]) for rows in others)


def _pairs(at: Sequence[NDArray[np.int64]], where: int) -> bool:
    """Whether several classes end there and several begin: all were renamed."""
    ended = sum(rows.size >= LEAST_LABELS and np.mean(rows < where) >= 1 - OVERLAP for rows in at)
    began = sum(rows.size >= LEAST_LABELS and np.mean(rows < where) <= OVERLAP for rows in at)
    return bool(ended >= 2 and began >= 2)


def _one_each(found: Sequence[tuple[float, int, str, str]]) -> list[tuple[float, int, str, str]]:
    """The changes, each name once: those with the nearest shares first."""
    best: list[tuple[float, int, str, str]] = []
    taken: set[str] = set()
    for each in sorted(found):
        if taken.isdisjoint(each[2:]):
            best.append(each)
            taken.update(each[2:])
    return best
