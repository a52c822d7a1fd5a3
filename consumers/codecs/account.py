"""The account of the fields of records: how often each was used, absent, bad or unknown.

Rule: a `FieldTally` is made where a commit is decoded, and a `FieldAccount` adds them up since the
process started. Values of declared fields are all counted. Unknown fields are looked for in the
first 100 observations and in every 512th, because the decoder skips them; in label records
likewise, which have an account of their own. All numbers are the same however the records are
divided into commits. Both are bounded: the fields by the schema,
unknown names and examples here. No prediction depends on them, so they are in no journal and no
state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from consumers.base.errors import RecordError
from consumers.codecs.json import DecodedObservations, JsonObservations
from consumers.codecs.unused import LONGEST_NAME, BadValue
from stream.data.schema import Schema

__all__ = [
    "EVERY",
    "FIRST",
    "NO_RECORDS",
    "BadField",
    "FieldAccount",
    "FieldTally",
    "FieldsView",
    "SeenRecords",
    "Unknown",
    "UnknownField",
    "names_of",
]

FIRST = 100  # observations whose unknown fields are looked for
EVERY = 512  # after them, one of so many
MOST_UNKNOWN = 100  # names; those that come later are counted together
LONGEST_EXAMPLE = 60  # characters

Unknown = Callable[[Any], list[tuple[str, object]]]  # the unknown fields of a record, with values


class SeenRecords(NamedTuple):
    """How many records an account has, which decides where unknown fields are looked for next."""

    observations: int = 0
    labels: int = 0


NO_RECORDS = SeenRecords()


class BadField(NamedTuple):
    """How many values of a field did not fit its kind, and why the last one did not."""

    found: int
    reason: str
    example: str


class UnknownField(NamedTuple):
    """In how many observations an unknown field was found, and its last value."""

    found: int
    example: str


@dataclass(frozen=True, slots=True)
class FieldTally:
    """The fields of the observations of one commit. Rejected observations do not count.

    Parameters
    ----------
    names
        The declared fields.
    seen
        How many there were, with those that were rejected.
    observations
        How many there were.
    used
        int64: how many had a value of each field.
    bad
        Field to how many values did not fit, and the last one.
    looked
        In how many observations unknown fields were looked for.
    unknown
        Name to how many of these had the field, and its last value.
    labels
        The tally of the label records of the commit, whose fields are never declared; None: it has
        none.
    """

    names: tuple[str, ...]
    seen: int
    observations: int
    used: NDArray[np.int64]
    bad: Mapping[str, tuple[int, BadValue]]
    looked: int
    unknown: Mapping[str, tuple[int, object]]
    labels: FieldTally | None = None

    @classmethod
    def of(
        cls,
        decoder: JsonObservations,
        found: DecodedObservations,
        value: Callable[[int], Any],
        before: int = 0,
    ) -> FieldTally:
        """The tally of decoded observations.

        Parameters
        ----------
        value
            Returns the bytes of one by its index.
        before
            How many observations came before, which decides where unknown fields are looked for.
        """
        rows, rejected = found.rows, found.rejected
        names = (*rows.numeric_names, *rows.categorical_names, *rows.text_names)
        n = len(rows)
        bad: dict[str, tuple[int, BadValue]] = {}
        for k, values in found.bad.items():
            for each in values if k not in rejected else ():
                bad[each.field] = bad.get(each.field, (0, each))[0] + 1, each
        looked, unknown = _unknown(decoder.unknown, n, value, before, rejected)
        return cls(names, n, n - len(rejected), _used(found), bad, looked, unknown)

    @classmethod
    def of_labels(
        cls, find: Unknown, count: int, value: Callable[[int], Any], before: int = 0
    ) -> FieldTally:
        """The tally of `count` label records, also of those that are rejected; `find` returns the
        fields of one that nobody reads."""
        looked, unknown = _unknown(find, count, value, before)
        return cls((), count, count, np.zeros(0, np.int64), {}, looked, unknown)


def names_of(schema: Schema) -> tuple[str, ...]:
    """The fields in the order of the columns of rows."""
    return (*schema.numeric, *schema.categorical, *schema.text)


def _used(found: DecodedObservations) -> NDArray[np.int64]:
    """How many observations have a value in each field; those that are rejected have none."""
    rows, numbers = found.rows, found.rows.numeric
    used = np.add.reduce(numbers == numbers, axis=0, dtype=np.int64)  # NaN is not equal to itself
    if found.given is None:
        cells = (column.tolist() for of in (rows.categorical, rows.text) for column in of.T)
        others = np.array([len(rows) - each.count(None) for each in cells], dtype=np.int64)
    else:
        found.given[list(found.rejected)] = False
        others = np.add.reduce(found.given, axis=0, dtype=np.int64)
    return np.concatenate([used, others])


def _unknown(
    find: Unknown,
    count: int,
    value: Callable[[int], Any],
    before: int,
    rejected: Collection[int] = (),
) -> tuple[int, dict[str, tuple[int, object]]]:
    """In how many of `count` records unknown fields were looked for, and what was found."""
    looked, found = 0, dict[str, tuple[int, object]]()
    regular = range(-before % EVERY, count, EVERY)
    for k in sorted({*range(min(FIRST - before, count)), *regular}):
        if k in rejected:
            continue
        looked += 1
        with suppress(RecordError):  # a row of a message has only the columns that are read
            for name, given in find(value(k))[:MOST_UNKNOWN]:
                found[name] = found.get(name, (0, given))[0] + 1, given
    return looked, found


@dataclass(frozen=True, slots=True)
class FieldsView:
    """A frozen account.

    Parameters
    ----------
    names
        The declared fields.
    observations
        How many observations were counted.
    used
        Field to how many of them had a value that was used.
    bad
        Field to its values that did not fit.
    looked
        In how many observations unknown fields were looked for.
    unknown
        Unknown field to what was found of it.
    unnamed
        How often other unknown fields were found, after the first `MOST_UNKNOWN` names.
    labels
        The account of the label records; None without any.
    """

    names: tuple[str, ...]
    observations: int
    used: Mapping[str, int]
    bad: Mapping[str, BadField]
    looked: int
    unknown: Mapping[str, UnknownField]
    unnamed: int
    labels: FieldsView | None = None

    def missing(self, name: str) -> int:
        """How many observations had no value in a field."""
        bad = self.bad[name].found if name in self.bad else 0
        return self.observations - self.used[name] - bad


@dataclass(slots=True)
class FieldAccount:
    """Adds up tallies.

    Parameters
    ----------
    names
        The declared fields.

    Examples
    --------
    >>> from stream.data.schema import Schema
    >>> decoder = JsonObservations(Schema.of(amount="numeric"), "id", None)
    >>> account = FieldAccount(("amount",))
    >>> values = [b'{"id":1,"amount":2.5}', b'{"id":2,"amuont":2.5}']
    >>> account.add(FieldTally.of(decoder, decoder.decode([None] * 2, values), values.__getitem__))
    >>> view = account.view()
    >>> view.observations, view.used, view.missing("amount"), view.looked
    (2, {'amount': 1}, 1, 2)
    """

    names: tuple[str, ...]
    seen: int = 0
    observations: int = 0
    looked: int = 0
    unnamed: int = 0
    labels: FieldAccount | None = None
    _used: NDArray[np.int64] = field(init=False)
    _bad: dict[str, BadField] = field(default_factory=dict)
    _unknown: dict[str, UnknownField] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._used = np.zeros(len(self.names), dtype=np.int64)

    @property
    def counted(self) -> SeenRecords:
        """How many records there were."""
        return SeenRecords(self.seen, 0 if self.labels is None else self.labels.seen)

    def add(self, tally: FieldTally) -> None:
        """Add the tally of one more commit."""
        self.seen += tally.seen
        self.observations += tally.observations
        self.looked += tally.looked
        self._used += tally.used
        for name, (n, last) in tally.bad.items():
            self._add_bad(name, BadField(n, last.reason, _shown(last.value)))
        for name, (n, value) in tally.unknown.items():
            self._add_unknown(name[:LONGEST_NAME], UnknownField(n, _shown(value)))
        if tally.labels is not None:
            self._of_labels().add(tally.labels)

    def join(self, view: FieldsView) -> None:
        """Add the account of other records with the same fields."""
        self.seen += view.observations
        self.observations += view.observations
        self.looked += view.looked
        self.unnamed += view.unnamed
        self._used += np.array([view.used[name] for name in self.names], dtype=np.int64)
        for name, bad in view.bad.items():
            self._add_bad(name, bad)
        for name, unknown in view.unknown.items():
            self._add_unknown(name, unknown)
        if view.labels is not None:
            self._of_labels().join(view.labels)

    def _of_labels(self) -> FieldAccount:
        self.labels = self.labels or FieldAccount(())
        return self.labels

    def _add_bad(self, name: str, more: BadField) -> None:
        before = self._bad[name].found if name in self._bad else 0
        self._bad[name] = more._replace(found=before + more.found)

    def _add_unknown(self, name: str, more: UnknownField) -> None:
        if name not in self._unknown and len(self._unknown) >= MOST_UNKNOWN:
            self.unnamed += more.found
            return
        before = self._unknown[name].found if name in self._unknown else 0
        self._unknown[name] = more._replace(found=before + more.found)

    def view(self) -> FieldsView:
        """A frozen copy."""
        return FieldsView(
            self.names,
            self.observations,
            dict(zip(self.names, self._used.tolist(), strict=True)),
            dict(self._bad),
            self.looked,
            dict(self._unknown),
            self.unnamed,
            None if self.labels is None else self.labels.view(),
        )


def _shown(value: object) -> str:
    """The beginning of a value as JSON."""
    if isinstance(value, str):
        value = value[: 2 * LONGEST_EXAMPLE]
    if isinstance(value, float) and not isfinite(value):
        return str(value)  # JSON has no such number, and null is no value
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= LONGEST_EXAMPLE else text[: LONGEST_EXAMPLE - 1] + "…"
