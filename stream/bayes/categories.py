"""Categories: the learned features and values, and their codes; bounded.

Rule: a value gets its code (0, 1, 2, … within its feature) by learning steps only, in their order.
A value beyond a bound or outside a given domain gets no code. It is rejected and counted, and is
treated as a value that was never learned.

Smoothing of counts of categories: a pseudo-count, or the m-estimate with a prior for each value.

Rule: a mapping p is the prior distribution of a feature. So its keys are the feature's domain,
unless `domains` has the feature.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.bayes.classifier import BayesClassifier
from stream.data.block import Rows
from stream.data.columns import MAX_FEATURES, named, restored
from stream.data.frames import Table, mini_batch
from stream.data.parameters import mapping, number, one_of, shown
from stream.data.rows import Objects
from stream.data.schema import PER_NAME, Dictionary, Kind, Schema, category, text_bytes
from stream.data.state import Rules, Saved, State, pack, texts
from stream.errors import InvalidRecordError, SchemaError, StateError

__all__ = [
    "LARGEST_DOMAIN",
    "LONGEST_VALUE",
    "Categories",
    "CategoryClassifier",
    "Domains",
    "Estimate",
    "Shares",
    "check_domains",
    "check_estimate",
]

MAX_VALUES = 2**20  # over all features without a domain
LARGEST_DOMAIN = 4096  # values of one feature
LONGEST_VALUE = 512  # characters
VALUES_ROOM = 2**28  # bytes of all values without a domain, if `limit` is not called

MISSING, UNKNOWN = -1, -2

Domains = Mapping[str, Sequence[Any]] | None
Ints = NDArray[np.int64]


class CodedRows(NamedTuple):
    """Rows as codes, for the known features.

    code int64 (n, q): below 0 if the value is missing or has no code. column int64 (q,): the column
    of each feature in the state, rising. source int64 (q,): its column in the rows.
    """

    code: Ints
    column: Ints
    source: Ints


class Categories:
    """Features in the order they were learned, and the values of each.

    Parameters
    ----------
    domains
        Feature to all the values it can have. The values of other features are learned.
    max_features
        The largest number of features. More are rejected and counted.
    shares
        Feature to the prior probability of each of its values. These values are its domain, unless
        `domains` has the feature.

    Attributes
    ----------
    sizes, domain : NDArray
        int64 (D,): the number of codes of a feature; the size of its domain, 0 if it is learned.
    share_start : NDArray
        int64 (D,): the index in `shares` of the prior of a feature's first code; -1 if it has no
        priors.
    shares : NDArray
        float64: the given priors of values.
    refused : int
        Number of values that got no code when they were to be learned.
    """

    def __init__(
        self,
        domains: Domains = None,
        max_features: int = MAX_FEATURES,
        shares: Mapping[str, Mapping[Any, float]] | None = None,
    ) -> None:
        given = {name: list(of) for name, of in (shares or {}).items()} | dict(domains or {})
        self._domains = {
            name: dict.fromkeys(canonical(name, v) for v in values)
            for name, values in given.items()
        }
        self._share_at: dict[str, int] = {}
        flat: list[float] = []
        for name, of in (shares or {}).items():
            self._share_at[name] = len(flat)
            named = {canonical(name, v): share for v, share in of.items()}
            flat += [named.get(v, 0.0) for v in self._domains[name]]
        self.shares = np.array(flat, dtype=np.float64)
        self.share_start = np.zeros(0, dtype=np.int64)
        self.features = Dictionary(max_features)
        self._codes: list[dict[str | None, int]] = []
        self.sizes = np.zeros(0, dtype=np.int64)
        self.domain = np.zeros(0, dtype=np.int64)
        self.refused = 0
        self._held = 0  # values of features without a domain
        self._bytes = 0  # of these values
        self._room, self._per_value = VALUES_ROOM, PER_NAME

    def values(self, column: int) -> list[str]:
        """The values of a feature in the order of their codes."""
        return [v for v in self._codes[column] if v is not None]

    def encode(self, rows: Rows, used: Ints) -> CodedRows:
        """The rows with indices `used` as codes. Pure."""
        return self._coded(rows.categorical[used], self._columns(rows))

    def admit(self, rows: Rows, used: Ints, learned: Ints) -> CodedRows:
        """`encode`, after each learned value got a code.

        Parameters
        ----------
        learned
            int64: index into `used` of each learning step, in order.
        """
        cells = rows.categorical[used]
        column = self._columns(rows)
        if learned.size and column.size and column.min() < 0:
            self._admit_features(rows.categorical_names, cells[learned], column)
        coded = self._coded(cells, column)
        fresh = np.argwhere(coded.code[learned] == UNKNOWN).tolist()  # by step, then by column
        for i, k in fresh:
            self.add(int(coded.column[k]), cells[learned[i], coded.source[k]])
        for k in {k for _, k in fresh}:
            coded.code[:, k] = self._codes_of(cells[:, coded.source[k]], int(coded.column[k]))
        return coded

    def wide(self, coded: CodedRows) -> Ints:
        """Rows as codes of every known feature, int64 (n, D); -1 if they do not have it."""
        code = np.full((len(coded.code), self.sizes.size), MISSING, dtype=np.int64)
        code[:, coded.column] = coded.code
        return code

    def add_feature(self, name: str) -> int:
        """The column of a feature, a new one if needed; -1 if the bound is reached."""
        column = self.features.add(name)
        if column == len(self._codes):
            domain = self._domains.get(name, {})
            self._codes.append(_numbered(domain))
            self.sizes = np.append(self.sizes, len(domain))
            self.domain = np.append(self.domain, len(domain))
            self.share_start = np.append(self.share_start, self._share_at.get(name, -1))
        return column

    def add(self, column: int, value: str) -> int:
        """The code of a value, a new one if needed; UNKNOWN if the value is rejected."""
        codes = self._codes[column]
        if value in codes:
            return codes[value]
        if self.refuses(self.features.values[column], value):
            self.refused += 1
            return UNKNOWN
        codes[value] = len(codes) - 1  # `codes` has None too
        self.sizes[column] += 1
        if not self.domain[column]:
            self._held += 1
            self._bytes += self._per_value + text_bytes(value)
        return codes[value]

    def refuses(self, name: str, value: str) -> bool:
        """Whether a value without a code cannot get one now."""
        if self._bars(name, value) or name not in self.features:
            return self._bars(name, value) or len(self.features) >= self.features.bound
        size = int(self.sizes[self.features.codes[name]])
        full = size >= LARGEST_DOMAIN or self._held >= MAX_VALUES
        full = full or self._bytes + self._per_value + text_bytes(value) > self._room
        return full and name not in self._domains

    def _bars(self, name: str, value: str) -> bool:
        """Whether a value can never get a code."""
        domain = self._domains.get(name)
        return len(value) > LONGEST_VALUE if domain is None else value not in domain

    def cells(self, rows: Rows) -> Iterator[tuple[str, str, int, int]]:
        """Name, value, column and code of each value in the one row of `rows`; -1 for what it has
        not got."""
        for name, value in zip(rows.categorical_names, rows.categorical[0].tolist(), strict=True):
            if value is not None:
                column = self.features.codes.get(name, -1)
                yield name, value, column, self._codes[column].get(value, -1) if column >= 0 else -1

    def unlearn_refused(self, rows: Rows) -> None:
        """Subtract the rejected values of the one row of `rows` from the count."""
        lost = sum(
            code < 0 and (column >= 0 or self._bars(name, value))
            for name, value, column, code in self.cells(rows)
        )
        self.refused = max(self.refused - lost, 0)

    def remove(self, column: int, code: int) -> None:
        """Forget a value. Later codes are reduced by one. O(values)."""
        values = self.values(column)
        gone = values.pop(code)
        self._codes[column] = _numbered(values)
        self.sizes[column] -= 1
        self._held -= 1
        self._bytes -= self._per_value + text_bytes(gone)

    def remove_feature(self, column: int) -> None:
        """Forget a feature. Later columns are reduced by one. O(features)."""
        self.features.remove(self.features.values[column])
        if not self.domain[column]:
            self._held -= int(self.sizes[column])
            self._bytes -= self._weight(column)
        del self._codes[column]
        self.sizes = np.delete(self.sizes, column)
        self.domain = np.delete(self.domain, column)
        self.share_start = np.delete(self.share_start, column)

    def merge(self, other: Categories) -> list[tuple[int, Ints]]:
        """Add `other`'s features and values. Returns the column here of each of its features, and
        the code of each value."""
        out = []
        for k, name in enumerate(other.features):
            column = self.add_feature(name)
            codes = [self.add(column, v) if column >= 0 else UNKNOWN for v in other.values(k)]
            out.append((column, np.array(codes, dtype=np.int64)))
        self.refused += other.refused
        return out

    def export(self) -> State:
        """The state: features in the header, their values packed in arrays."""
        values = [v for column in range(len(self._codes)) for v in self.values(column)]
        arrays = {**pack(values), "sizes": self.sizes, "refused": np.array([self.refused])}
        return State(named(self.features), arrays)

    def restore(self, state: State) -> None:
        """Check the state and take it over."""
        self.features, values = restored(self.features, state), texts(state)
        names, most = list(self.features), len(values)
        table = {"sizes": Saved(np.int64, (len(names),), 0, most), "refused": Saved(np.int64)}
        whole: Rules = {"the values of all features": lambda a: a["sizes"].sum() == most}
        sizes, refused = state.read(table, whole).values()
        ends = np.cumsum(sizes).tolist()
        self._codes = [
            _numbered(values[end - size : end])
            for size, end in zip(sizes.tolist(), ends, strict=True)
        ]
        if [len(codes) - 1 for codes in self._codes] != sizes.tolist():
            raise StateError("expected distinct values for a feature, got one value twice")
        self.sizes, self.refused = sizes, int(refused[0])
        domains = [len(self._domains.get(name, {})) for name in names]
        self.domain = np.array(domains, dtype=np.int64)
        starts = [self._share_at.get(name, -1) for name in names]
        self.share_start = np.array(starts, dtype=np.int64)
        self._held = int(sizes[self.domain == 0].sum())
        self._bytes = sum(self._weight(k) for k in np.flatnonzero(self.domain == 0).tolist())

    @property
    def given(self) -> int:
        """The number of values in the given domains."""
        return sum(map(len, self._domains.values()))

    def open_in(self, schema: Schema) -> bool:
        """Whether the schema has a field whose values are learned."""
        return any(name not in self._domains for name in schema.categorical)

    def limit(self, room: int, per_value: int) -> None:
        """Bound learned values to `room` bytes: the text of each and `per_value` bytes more.

        Called before anything is learned. Given domains are not counted.
        """
        self._room, self._per_value = room, PER_NAME + per_value

    def _weight(self, column: int) -> int:
        """The bytes counted for the values of a feature."""
        return sum(self._per_value + text_bytes(value) for value in self.values(column))

    def _columns(self, rows: Rows) -> Ints:
        codes = self.features.codes
        return np.array([codes.get(name, -1) for name in rows.categorical_names], dtype=np.int64)

    def _admit_features(self, names: tuple[str, ...], cells: Objects, column: Ints) -> None:
        """Give new features in the learned `cells` a column: in the order of the first step with
        the feature, and by name within a step."""
        new = []
        for j in np.flatnonzero(column < 0).tolist():
            values = enumerate(cells[:, j].tolist())
            at = [i for i, v in values if v is not None and not self._bars(names[j], v)]
            if at:
                new.append((at[0], names[j], j, len(at)))
        for _, name, j, times in sorted(new):
            column[j] = self.add_feature(name)
            if column[j] < 0:  # counted once for each record, as one-record calls do
                self.features.overflow += times - 1
        for j in np.flatnonzero(column < 0).tolist():
            present = [v for v in cells[:, j].tolist() if v is not None]
            self.refused += sum(self._bars(names[j], v) for v in present)

    def _coded(self, cells: Objects, column: Ints) -> CodedRows:
        source = np.argsort(column, kind="stable")
        source = source[np.searchsorted(column[source], 0) :]
        code = np.empty((len(cells), source.size), dtype=np.int64)
        for k, j in enumerate(source.tolist()):
            code[:, k] = self._codes_of(cells[:, j], int(column[j]))
        return CodedRows(code, column[source], source)

    def _codes_of(self, values: Objects, column: int) -> Ints:
        found = map(self._codes[column].get, values.tolist(), repeat(UNKNOWN))
        return np.fromiter(found, np.int64, len(values))


class CategoryClassifier(BayesClassifier):
    """A Bayes classifier that reads every value as a category.

    Values are texts, numbers, truth values and tuples of them. `schema.category` makes 3, 3.0 and
    "3" the same category.
    """

    numbers: ClassVar[str] = "categorical"
    truths: ClassVar[str] = "categorical"
    strings: ClassVar[str] = "categorical"
    kinds: ClassVar[frozenset[Kind]] = frozenset(("numeric", "binary", "categorical"))

    def columns(self, X: Any) -> Rows:
        """`X` as columns of categories, tuples as their text."""
        batch = mini_batch(X)
        given = batch if isinstance(batch, Table) else X
        try:
            return super().columns(given)
        except InvalidRecordError:  # only records with tuples pay for the conversion
            xs = batch.records() if isinstance(batch, Table) else X
            if given is batch and not any(isinstance(v, tuple) for x in xs for v in x.values()):
                raise
            return super().columns([_without_tuples(x) for x in xs])


def canonical(name: str, value: Any) -> str:
    """The text that identifies a value.

    Examples
    --------
    >>> canonical("c", 3.0), canonical("c", ("a", 1, None))
    ('3', "('a', 1, None)")
    """
    if not isinstance(value, tuple):
        return category(name, value) or str(value)
    parts = [repr(v) if isinstance(v, str | None) else canonical(name, v) for v in value]
    return f"({', '.join(parts)})"


def check_domains(domains: Domains, named: str = "domains") -> Domains:
    """Check that each domain is a list of distinct values that a category can have.

    `named` is the name of the parameter, for the error.

    Raises
    ------
    SchemaError
        `domains` is not a mapping; a domain is not a list, is empty or too long; a value is
        missing, is not a category, or is there twice.
    """
    if domains is None:
        return None
    for name, values in mapping(named, domains, "feature to a list of its values").items():
        if not isinstance(name, str):
            raise SchemaError(f"{named}: the name of a feature must be text, got {name!r}")
        listed = isinstance(values, Sequence) and not isinstance(values, str | bytes)
        if not listed or not 1 <= len(values) <= LARGEST_DOMAIN:
            wanted = f"a list of 1 to {LARGEST_DOMAIN} values"
            raise SchemaError(f"{named}[{name!r}] must be {wanted}, got {shown(values)}")
        known: dict[str, Any] = {}
        for value in values:
            try:
                plain = not isinstance(value, tuple)
                text = category(name, value) if plain else canonical(name, value)
            except InvalidRecordError as error:
                raise SchemaError(f"{named}[{name!r}]: {error.detail}") from None
            if text is None:
                raise SchemaError(f"{named}[{name!r}]: {value} is not a value; leave it out")
            if text in known:
                raise SchemaError(
                    f"{named}[{name!r}]: {known[text]!r} and {value!r} are the same value as text; "
                    "leave one out"
                )
            known[text] = value
    return domains


def _numbered(values: Iterable[str | None]) -> dict[str | None, int]:
    """Value to code. None, for a missing value, has a code too, so that one look-up serves both."""
    codes: dict[str | None, int] = {None: MISSING}
    codes.update((v, i) for i, v in enumerate(values))
    return codes


def _without_tuples(x: Any) -> Any:
    if not isinstance(x, Mapping):
        return x
    return {k: canonical(str(k), v) if isinstance(v, tuple) else v for k, v in x.items()}


Shares = float | Mapping[str, Mapping[Any, float]] | None


class Estimate(NamedTuple):
    """The parameters that `check_estimate` has checked, under their names."""

    alpha: float
    m: float | None
    p: Shares
    smooth: Literal["all", "zeros"]


def check_estimate(
    alpha: float, m: float | None, p: Shares, smooth: str, domains: Domains
) -> Estimate:
    """Check the four parameters of smoothing.

    Parameters
    ----------
    domains
        The checked domains. Values in `p` must be in them.

    Raises
    ------
    SchemaError
        A parameter is out of range, `p` is given without `m`, or the priors of a feature do not sum
        to 1.

    Examples
    --------
    >>> check_estimate(1, 2, {"sky": {"sunny": 0.75, "rainy": 0.25}}, "all", None).m
    2.0
    """
    if p is not None and m is None:
        raise SchemaError(
            f"p = {shown(p)} needs m, because it belongs to the m-estimate; set m or leave p out"
        )
    return Estimate(
        number("alpha", alpha, 0.0),
        None if m is None else number("m", m, 0.0),
        _priors_of_values(p, domains) if isinstance(p, Mapping) else _one_prior(p),
        "zeros" if one_of("smooth", smooth, ("all", "zeros")) == "zeros" else "all",
    )


def _one_prior(p: Any) -> float | None:
    return None if p is None else number("p", p, 0.0, 1.0)


def _priors_of_values(p: Mapping[Any, Any], domains: Domains) -> Mapping[str, Mapping[Any, float]]:
    """The priors of each feature as floats, after a check that they sum to 1 over its values."""
    out: dict[str, dict[Any, float]] = {}
    for name, given in p.items():
        where = f"p[{name!r}]"
        shares = mapping(where, given, "value to its prior probability")
        if not shares:
            raise SchemaError(f"{where} must have at least one value, got {{}}")
        check_domains({name: list(shares)}, "p")
        plain = {v: number(f"{where}[{v!r}]", share, 0.0, 1.0) for v, share in shares.items()}
        total = sum(plain.values())
        if abs(total - 1) > 0.01:
            raise SchemaError(f"{where} must sum to 1, to two digits, got {total:g}")
        if name in (domains or {}):
            known = {canonical(name, value) for value in (domains or {})[name]}
            for value in plain:
                if canonical(name, value) not in known:
                    raise SchemaError(f"{where}: {value!r} is not in domains[{name!r}]")
        out[name] = plain
    return out
