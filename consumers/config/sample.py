"""Infers the fields of an input and their kinds from a sample of its records. Pure.

Rule: a wrong guess must not cost values. Two kinds are not inferred: one that would not fit values
that are rare in the records (binary for a rare counter), and one without a bound (ids, times,
names). Each field that is left out has a reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import isfinite
from typing import Any

from consumers.base.counts import counted
from consumers.base.errors import ConfigError
from consumers.base.fields import EXACT, MISSING, is_missing, number_in
from consumers.config.sections import LONGEST_NAME
from consumers.config.strings import LEADING_ZERO, LONGEST_ID, form_of
from consumers.mail.fields import FIELDS
from stream.data.schema import Field, Kind, Schema

__all__ = [
    "SAMPLE_SIZE",
    "InferredField",
    "come_again",
    "fields_of_mail",
    "infer",
    "likely_ids",
    "named_like_a_time",
    "named_like_an_id",
    "schema_of",
    "share_text",
]

MOST_FIELDS = 1000
RAREST = 0.05  # of the sample: one unusual record must not add a field permanently
SAMPLE_SIZE = 500  # estimates a share to ±4 %, and takes milliseconds to read
FEWEST_BINARY = 20  # of the rarer of 0 and 1: if a seventh of them were 2, one would be seen
FEW_DISTINCT = 10  # values that a category can have in a sample of any size
LEAST_REPEATED = 0.05  # share of the values that came before: a value of an id comes once
TEXT_WORDS = 4  # mean words per value at which a string is text rather than a name
RAREST_BINARY = 0.1  # share of the rarer of 0 and 1; a counter that is mostly 0 exceeds 1 one day

AS_NUMBERS = ", written as text: [input] numbers_as_text reads them"
AS_TEXT = '; declared "text" its words would be learned'
MANY = "`auto` learns what the labels of each say"  # of the values of a field that has many

FEW_RECORDS = 20  # in fewer records, distinct values are no evidence of an id

_ID_NAME = re.compile(r"(?i:(^|[._-])(id|uuid|guid|key|index|nr)$)|[a-z](Id|ID|Uuid|Key)$")
_TIME_NAME = re.compile(r"(^|[._-])(ts|time|timestamp|date|datetime|at)$", re.IGNORECASE)

# Numbers of this name are no measurements, also if they repeat.
_REFERENCE_NAME = re.compile(r"(?i:(^|[._-])(id|uuid|guid)$)|[a-z](Id|ID|Uuid)$")

# Names that a field with distinct values may also have where records have no field `id`.
_KEY_NAME = re.compile(
    r"(?i:(^|[._-])(number|num|no|nr|txn|trans|transaction|ref)$)|[a-z](Number|Num|No|Nr|Ref)$"
)

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATE = re.compile(
    r"\d{4}([-/.])\d\d?\1\d\d?(?!\d)"  # 2024-03-01, 2024/3/1
    r"|\d\d?([./-])\d\d?\2\d{4}(?!\d)"  # 1.3.2024
    r"|\d\d?/\d\d?/\d\d(?!\d)|\d\d\.\d\d\.\d\d(?![\d.])"  # 3/1/24, 01.03.24
    rf"|\d\d?[ -]{_MONTH}[ -](?:\d{{4}}|\d\d)(?!\d)|{_MONTH} \d\d?,? \d{{4}}(?!\d)",
    re.IGNORECASE,
)


Again = Callable[[], bool]  # whether values of a field come again


@dataclass(frozen=True, slots=True)
class InferredField:
    """The inferred kind of a field, None if it is left out. `why` is one sentence with figures.

    `missing` says in how many records the field has no value, "" if it is in all. `as_text`: its
    numbers are texts.
    """

    name: str
    kind: Kind | None
    why: str
    missing: str = ""
    as_text: bool = False

    @property
    def about(self) -> str:
        """`why`, and how often the field is missing."""
        return f"{self.why}; {self.missing}" if self.missing else self.why

    @property
    def may_be_text(self) -> bool:
        """Whether it was left out but can be declared as text."""
        return self.kind is None and self.why.endswith(AS_TEXT)


def likely_ids(records: Sequence[Mapping[str, Any]], label: str | None) -> dict[str, str]:
    """Fields that look like the id of the records, each with the reason.

    Examples
    --------
    >>> records = [{"amount": 1.5, "txn": f"t{i}"} for i in range(30)]
    >>> likely_ids(records, None)
    {'txn': 'all 30 values are distinct, and its name is that of an id'}
    >>> records = [{"account": "a", "payment": {"id": i}} for i in range(30)]
    >>> list(likely_ids(records, None))
    ['payment.id']
    """
    flat = [dict(_flat(record, set())) for record in records]
    first = next(iter(flat[0]), None) if flat else None
    found = {}
    for name in flat[0] if len(flat) >= FEW_RECORDS else ():
        values = [record.get(name) for record in flat]
        if name == label or not all(_may_be_id(v) for v in values):
            continue
        if len(set(map(str, values))) < len(values) or _TIME_NAME.search(name):
            continue
        why = f"all {len(values):,} values are distinct, and "
        if _ID_NAME.search(name) or _KEY_NAME.search(name):
            found[name] = why + "its name is that of an id"
        elif name == first and all(isinstance(v, str) for v in values):
            found[name] = why + "it is the first column"
        elif name == first and _rises(values):
            found[name] = why + "it is the first column and rises"
    return found


def named_like_a_time(name: str) -> bool:
    """Whether a field of this name may be the time of its record.

    Examples
    --------
    >>> [name for name in ("ts", "created_at", "format", "times") if named_like_a_time(name)]
    ['ts', 'created_at']
    """
    return _TIME_NAME.search(name) is not None


def named_like_an_id(name: str) -> bool:
    """Whether a field of this name may refer to something, or identify its record.

    Examples
    --------
    >>> [name for name in ("customer_id", "orderId", "paid") if named_like_an_id(name)]
    ['customer_id', 'orderId']
    """
    return _REFERENCE_NAME.search(name) is not None


def fields_of_mail() -> list[InferredField]:
    """The fields that each mail has.

    Examples
    --------
    >>> fields_of_mail()[0]
    InferredField(name='subject', kind='text', why='of each mail', missing='', as_text=False)
    """
    return [InferredField(name, kind, "of each mail") for name, kind in FIELDS.items()]


def _may_be_id(value: object) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= LONGEST_ID and " " not in value and not _DATE.match(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _rises(values: Sequence[Any]) -> bool:
    """Whether they are strictly rising integers: sequence numbers, not measurements."""
    return all(isinstance(v, int) for v in values) and all(a < b for a, b in pairwise(values))


def infer(
    records: Sequence[Mapping[str, Any]],
    exclude: set[str],
    *,
    text: bool,
    many: bool = True,
    csv: bool = False,
    missing: Collection[str] = MISSING,
    later: Callable[[str], Iterable[Any]] | None = None,
) -> list[InferredField]:
    """The fields of `records` and their kinds, sorted by name.

    Parameters
    ----------
    records
        The sample; a nested object's fields get dotted names.
    exclude
        Fields that are never features: id and label.
    text
        Whether free text may be inferred. A running service does not infer it, because text
        needs another model.
    many
        Whether a category may have many values, if they come again: `auto` learns by their labels,
        and other models learn chance.
    csv
        Whether they come from a CSV file, where a number kept as text has another reason and
        remedy than in JSON.
    missing
        Texts that mean "no value" among numbers and truth values.
    later
        The values of a field in the records after the sample. They decide whether a field of zeros
        and ones is binary and whether values come again, and are counted where they are missing or
        do not fit.

    Examples
    --------
    >>> records = [{"price": 1.5 * i, "shop": {"city": "Bonn"}} for i in range(20)]
    >>> for field in infer(records, set(), text=True):
    ...     print(field.name, field.kind, "-", field.why)
    price numeric - 20 of 20 values are numbers
    shop.city categorical - 1 of 20 values distinct, strings
    """
    columns: dict[str, list[Any]] = {}
    literal: set[str] = set()
    for record in records:
        for name, value in _flat(record, literal):
            columns.setdefault(name, []).append(value)
    inferred = []
    for name in sorted(columns.keys() - exclude):
        if (unnamed := _unnamed(name, literal)) is not None:
            inferred.append(InferredField(name[:LONGEST_NAME], None, unnamed))
            continue
        values = _present(columns[name], missing)
        as_text = text and not csv and _decimals_as_text(values, missing)
        values = _as_numbers(values) if as_text else values
        if len(values) < RAREST * len(records):
            why = f"in {len(values):,} of {len(records):,} records: too rare to be inferred"
            inferred.append(InferredField(name, None, why))
            continue
        again = partial(_come_again, values, later, name) if many else _never
        kind, why = _kind(name, values, len(records), again, text=text, csv=csv)
        if later is not None and kind in ("numeric", "binary") and _zeros_and_ones(values):
            kind, why = _tried(values, later(name))
        absent = len(records) - len(values)
        after = list(later(name)) if later is not None and kind is not None else []
        share = _absent(absent, len(records), kind, _as_numbers(after, as_text), missing)
        why += AS_NUMBERS if as_text else ""
        inferred.append(InferredField(name, kind, why, share, as_text))
    return inferred


def _unnamed(name: str, literal: Collection[str]) -> str | None:
    """Why a configuration cannot name a field; None if it can."""
    if name in literal:
        return "it is in an object and its own name has a dot; rename it to use it"
    if len(name) > LONGEST_NAME:
        return f"its name has {len(name):,} characters, expected at most {LONGEST_NAME:,}"
    return None


def _as_numbers(values: Sequence[Any], convert: bool = True) -> list[Any]:
    """The values with numbers for texts that are numbers, if they are converted."""
    found = ((v, number_in(v) if convert and isinstance(v, str) else None) for v in values)
    return [v if number is None else number for v, number in found]


def _decimals_as_text(values: Sequence[Any], missing: Collection[str]) -> bool:
    """Whether texts are numbers, and one has a decimal point: whole numbers may be codes."""
    texts = [v for v in values if isinstance(v, str) and not is_missing(v, missing)]
    if not all(isinstance(v, str | int | float) and not isinstance(v, bool) for v in values):
        return False
    if not any("." in text for text in texts):
        return False
    return all(number_in(t) is not None and not LEADING_ZERO.match(t.strip()) for t in texts)


def _absent(
    absent: int, n: int, kind: Kind | None, after: Sequence[Any], missing: Collection[str]
) -> str:
    """In how many records a field has no value, and which values after the sample do not fit.

    Parameters
    ----------
    absent, n
        Those of the sample without a value, and all of the sample.
    after
        The values after the sample.

    Examples
    --------
    >>> _absent(0, 500, "numeric", [1, "NA", None, "much"], {"NA"})
    "missing in 2 of 504 records; 1 value after the sample ('much') counts as missing"
    """
    values = [v for v in after if v is not None and v == v]
    odd: list[str] = []
    if kind in ("numeric", "binary"):
        values = [v for v in values if not (isinstance(v, str) and is_missing(v, missing))]
        odd = [v for v in values if isinstance(v, str)]
    absent, n = absent + len(after) - len(values), n + len(after)
    parts = [f"missing in {absent:,} of {n:,} records"] if absent else []
    if odd:
        count = "1 value" if len(odd) == 1 else f"{len(odd):,} values"
        verb = "counts" if len(odd) == 1 else "count"
        parts.append(f"{count} after the sample ({odd[0][:20]!r}) {verb} as missing")
    return "; ".join(parts)


def schema_of(fields: Iterable[InferredField]) -> Schema:
    """The schema of the inferred fields, without those that were left out; sorted by name."""
    kept = sorted((f.name, f.kind) for f in fields if f.kind is not None)
    if len(kept) > MOST_FIELDS:
        raise ConfigError(
            f"the sample shows {len(kept):,} fields, at most {MOST_FIELDS:,} are inferred; "
            "declare the ones to learn from in [features]"
        )
    return Schema(tuple(Field(name, kind) for name, kind in kept))


def _flat(record: Mapping[str, Any], literal: set[str]) -> Iterator[tuple[str, Any]]:
    """Names and values of the fields, nested ones by their paths; unreachable names are added to
    `literal`."""
    for key, value in record.items():
        if "." in key and isinstance(value, Mapping):
            literal.add(key)
            yield key, value
        elif isinstance(value, Mapping):
            inner = _nested(value, key + ".", literal)
            yield from ((name, found) for name, found in inner if name not in record)
        else:
            yield key, value


def _nested(record: Mapping[str, Any], prefix: str, literal: set[str]) -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        name = prefix + key
        if "." in key:
            literal.add(name)
            yield name, value
        elif isinstance(value, Mapping):
            yield from _nested(value, name + ".", literal)
        else:
            yield name, value


def _present(values: Sequence[Any], missing: Collection[str]) -> list[Any]:
    """The values that are not missing. A text can be so only among numbers or truth values."""
    values = [v for v in values if v is not None and v == v]
    rest = [v for v in values if not (isinstance(v, str) and is_missing(v, missing))]
    strings = sum(1 for v in rest if isinstance(v, str))
    numbers = sum(1 for v in rest if isinstance(v, int | float))
    return rest if numbers and numbers >= strings else values


def _kind(
    name: str, values: list[Any], n: int, again: Again, *, text: bool, csv: bool
) -> tuple[Kind | None, str]:
    if not values:
        return None, f"no value in {counted(n, 'record')}"
    every = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    numbers = [v for v in every if not _infinite(v)]
    truths = [v for v in values if isinstance(v, bool)]
    strings = [v for v in values if isinstance(v, str)]
    infinite = len(every) - len(numbers)
    others = len(values) - len(numbers) - len(truths) - len(strings) - infinite
    if infinite * 2 > len(values):
        return None, share_text(infinite, len(values), "infinite") + ", which no model supports"
    if others * 2 > len(values):
        return None, share_text(
            others, len(values), "a list", "lists"
        ) + ", which no model supports"
    if _identifies(name, values):
        return None, f"{len(values):,} of {len(values):,} values distinct, and named like an id"
    if len(strings) > max(len(numbers), len(truths)):
        return _string_kind(name, values, strings, again, text=text, csv=csv)
    if _grows(name, numbers, len(values)):
        return None, "named like a time and rising from record to record"
    if _refers(name, values, numbers):
        return _reference_kind(values, again)
    beyond = sum(isinstance(v, int) and abs(v) > EXACT for v in numbers)
    if beyond == len(values) == len(set(values)) and beyond >= FEW_RECORDS:
        return (
            None,
            f"{beyond:,} of {beyond:,} values distinct, and of more digits than a number has",
        )
    kind, why = _number_kind(values, numbers, truths)
    return kind, why + (f"; {beyond:,} lose digits beyond 2^53, as ids would" if beyond else "")


def _number_kind(values: list[Any], numbers: list[Any], truths: list[bool]) -> tuple[Kind, str]:
    total = len(values)
    if len(truths) > len(numbers):
        return "binary", share_text(len(truths), total, "true or false")
    if len(truths) + len(numbers) == total and all(v in (0, 1) for v in values):
        ones = sum(1 for v in values if v == 1)
        rarer = min(ones, total - ones)
        if truths or (total >= 20 and rarer >= RAREST_BINARY * total):
            return "binary", _zeros(total, ones)
        return "numeric", _perhaps_more(total, ones)
    why = share_text(len(numbers), total, "a number", "numbers")
    odd = (
        v if isinstance(v, str) else repr(v) for v in values if isinstance(v, str) or _infinite(v)
    )
    words = Counter(odd).most_common(1)
    return "numeric", why + _rejects(total - len(numbers), words[0][0] if words else None)


def _infinite(value: Any) -> bool:
    return isinstance(value, float) and not isfinite(value)  # an integer may have any length


def _refers(name: str, values: list[Any], numbers: list[Any]) -> bool:
    """Whether these are ids of something that many records are about, such as a customer."""
    if len(values) < FEW_RECORDS or not _REFERENCE_NAME.search(name):
        return False
    return len(numbers) == len(values) and all(isinstance(v, int) for v in numbers)


def _reference_kind(values: list[Any], again: Again) -> tuple[Kind | None, str]:
    figures = f"{len(set(values)):,} of {len(values):,} values distinct, and named like an id"
    if _few(len(set(values)), len(values)):
        return "categorical", figures
    if again():
        return "categorical", f"{figures}; {MANY}"
    return None, f"{figures}: too many for a category"


def _few(distinct: int, total: int) -> bool:
    return distinct <= max(FEW_DISTINCT, total // 4)


def _come_again(
    values: Sequence[Any], later: Callable[[str], Iterable[Any]] | None, name: str
) -> bool:
    """`come_again` of a field, with the records after the sample."""
    every = [v for v in (*values, *(later(name) if later else ())) if isinstance(v, str | int)]
    return come_again(len({*every}), len(every))


def come_again(distinct: int, total: int) -> bool:
    """Whether values of a field with many come again, as those of an id do not.

    Examples
    --------
    >>> come_again(450, 500), come_again(490, 500)
    (True, False)
    """
    return total >= FEW_RECORDS and total - distinct >= LEAST_REPEATED * total


def _never() -> bool:
    return False


def _zeros_and_ones(values: Sequence[Any]) -> bool:
    return all(type(v) in (int, float) and v in (0, 1) for v in values)


def _zeros(total: int, ones: int) -> str:
    """What the values of a field with zeros and ones only are.

    Examples
    --------
    >>> _zeros(1, 1), _zeros(1200, 20)
    ('the only value is 1', 'all 1,200 values are 0 or 1, 20 of them 1')
    >>> _zeros(20_000, 0), _zeros(300, 300)
    ('all 20,000 values are 0', 'all 300 values are 1')
    """
    if total == 1:
        return f"the only value is {ones}"
    if ones in (0, total):
        return f"all {total:,} values are {1 if ones else 0}"
    return f"all {total:,} values are 0 or 1, {ones:,} of them 1"


def _perhaps_more(total: int, ones: int) -> str:
    """Why a field with zeros and ones only is numeric."""
    lack = "one value is too rare to"
    if total < FEWEST_BINARY:
        lack = "there are too few values to"
    elif ones in (0, total):
        lack = "one value alone does not"
    return f"{_zeros(total, ones)}: {lack} rule out other numbers"


def share_text(n: int, total: int, one: str, more: str | None = None) -> str:
    """How many values are of a kind.

    Examples
    --------
    >>> share_text(1, 1, "a number", "numbers"), share_text(1, 3, "a number", "numbers")
    ('the only value is a number', '1 of 3 values is a number')
    >>> share_text(2, 3, "true or false")
    '2 of 3 values are true or false'
    """
    if n == total == 1:
        return f"the only value is {one}"
    return f"{n:,} of {total:,} values {f'is {one}' if n == 1 else f'are {more or one}'}"


def _tried(values: Sequence[Any], later: Iterable[Any]) -> tuple[Kind, str]:
    """The kind of a field with zeros and ones only in the sample, by the records after it too."""
    numbers = [v for v in later if type(v) in (int, float) and v == v]
    other = next((v for v in numbers if v not in (0, 1)), None)
    if other is not None:
        one = len(values) == 1
        seen = "the first value is 0 or 1" if one else f"all {len(values):,} values are 0 or 1"
        return "numeric", f"{seen}, but a later one is {other}"
    total, ones = len(values) + len(numbers), sum(values) + sum(numbers)
    if min(ones, total - ones) >= FEWEST_BINARY:
        return "binary", _zeros(total, int(ones))
    return "numeric", _perhaps_more(total, int(ones))


def _string_kind(
    name: str, values: list[Any], strings: list[str], again: Again, *, text: bool, csv: bool
) -> tuple[Kind | None, str]:
    total, distinct = len(strings), len(set(strings))
    dates = sum(1 for s in strings if _DATE.match(s))
    if dates * 2 > total:
        return None, share_text(
            dates, total, "a date", "dates"
        ) + ", and future ones will all be new"
    words = sum(len(s.split()) for s in strings) / total
    figures = f"{distinct:,} of {total:,} values distinct"
    if words >= TEXT_WORDS and distinct * 2 > total:
        if text:
            why = f"{figures}, {words:.0f} words each on average"
            return "text", why + _rejects(len(values) - total)
        return None, f"{figures}, {words:.0f} words each: free text, which must be declared"
    form = form_of(name, strings, csv=csv)
    if csv and form != "strings":
        figures = f"{distinct} distinct"  # the rest of the line is long enough
    few, names = _few(distinct, total), form == "strings" or "leading zeros" in form
    if few or (names and again()):
        # A category also accepts numbers and truth values; only lists are rejected.
        lists = sum(1 for v in values if not isinstance(v, str | int | float))
        return "categorical", f"{figures}, {form}{'' if few else f'; {MANY}'}" + _rejects(lists)
    as_text = AS_TEXT if form == "strings" else ""
    return None, f"{figures}: too many for a category, {form}{as_text}"


def _rejects(n: int, such: str | None = None) -> str:
    """What becomes of `n` values that do not fit; `such` is one of them."""
    shown = "" if such is None else f" ({such[:20]!r})"
    if n == 1:
        return f"; the other value{shown} counts as missing"
    return f"; the other {n:,}{shown} count as missing" if n else ""


def _identifies(name: str, values: list[Any]) -> bool:
    if len(values) < 2 or not _ID_NAME.search(name):
        return False
    if not all(isinstance(v, str | int) and not isinstance(v, bool) for v in values):
        return False
    return len(set(values)) == len(values)


def _grows(name: str, numbers: list[Any], total: int) -> bool:
    if len(numbers) < max(2, total) or not _TIME_NAME.search(name):
        return False
    return all(a < b for a, b in pairwise(numbers))
