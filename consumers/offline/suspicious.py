"""Fields of numbers that are hardly measurements, and fields that are known only at the end. Pure.

Rule: what all values of a field have in common shows that they name or date something. A model
would learn from their size, which says nothing, and future values are all new.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumers.base.fields import timestamp_ms, unit_of

__all__ = ["known_later", "names_or_dates"]

LEAST = 100  # values
DISTINCT = 0.5  # share of the values: names of things repeat less than measurements of few digits
LONG = 7  # digits, all values alike: phone numbers, order numbers, accounts
SAME = 0.95  # share of the values with as many digits
YEARS = 30  # times of one feed lie within
FIRST_MS, LAST_MS = 631_152_000_000, 2_524_608_000_000  # 1990 and 2050
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
