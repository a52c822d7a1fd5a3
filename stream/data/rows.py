"""Rows: the features of records in columns.

Rule: columns made from dicts are sorted by name, and columns of a schema have its order. So the
order never depends on the other rows of a block.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data import schema as kinds
from stream.data.parameters import shown
from stream.data.schema import BUCKETS, Schema
from stream.errors import InvalidRecordError, SchemaError

__all__ = ["Floats", "Objects", "Rows", "are_notes", "conflicts"]

SLACK = 1e-6  # by which a noted probability may exceed 1

Floats = NDArray[np.float64]
Objects = NDArray[np.object_]


@dataclass(slots=True)
class Rows:
    """Features of n records, one column for each feature.

    Parameters
    ----------
    numeric_names, categorical_names, text_names
        The columns.
    numeric
        float64, (n, len(numeric_names)); NaN is missing.
    categorical
        object, (n, len(categorical_names)); text, or None if missing.
    text
        object, (n, len(text_names)); text, None if missing, or the encoded text from a learner's
        `prepare`.
    binary_names
        The numeric columns that are declared as truth values, 1 and 0.
    memo
        float64, (n, 1 + classes, any): what a learner predicted for the rows and needs when their
        labels come. At [:, 0] it notes how many classes it knew, at [:, 1 + c] what it predicted
        of class c; NaN where it has predicted nothing. None: nothing at all. Rows keep it while
        they wait.
    """

    numeric_names: tuple[str, ...]
    numeric: Floats
    categorical_names: tuple[str, ...]
    categorical: Objects
    text_names: tuple[str, ...]
    text: Objects
    binary_names: frozenset[str] = frozenset()
    memo: Floats | None = None

    def __len__(self) -> int:
        return int(self.numeric.shape[0])

    @classmethod
    def from_dicts(
        cls,
        xs: Sequence[Mapping[str, Any]],
        *,
        numbers: str = "numeric",
        truths: str = "numeric",
        strings: str = "categorical",
        texts: Collection[str] = (),
    ) -> Rows:
        """Rows of undeclared features, each value in a column of its kind.

        Parameters
        ----------
        xs
            One mapping for each record. Names that are not texts are converted to text.
        numbers, truths
            ``"numeric"`` or ``"categorical"``: the kind of numbers and of truth values.
        strings
            ``"categorical"`` or ``"text"``: the kind of strings. ``"refused"``: strings are
            rejected.
        texts
            Features whose strings are texts, in any case.

        Raises
        ------
        InvalidRecordError
            A value does not fit any kind.

        Examples
        --------
        >>> rows = Rows.from_dicts([{"b": 1, "a": 2.0}, {"a": None, "c": "x"}])
        >>> rows.numeric_names, rows.categorical_names
        (('a', 'b'), ('c',))
        """
        cells: dict[str, list[tuple[int, str, Any]]]
        cells = {"numeric": [], "categorical": [], "text": []}
        _check_list(xs)
        for i, x in enumerate(xs):
            if not isinstance(x, Mapping):
                raise InvalidRecordError(
                    "wrong_kind", f"a record must map features to values, got {type(x).__name__}"
                )
            other: set[str] = set()  # names that are not text
            for key, value in x.items():
                name = key if type(key) is str else _named(key, x, other)
                if value is None:
                    continue
                if isinstance(value, str):
                    kind = "text" if name in texts else strings
                else:
                    kind = truths if isinstance(value, bool | np.bool_) else numbers
                if kind == "categorical":
                    category = kinds.category(name, value)
                    if category is not None:
                        cells[kind].append((i, name, category))
                elif kind == "text":
                    cells[kind].append((i, name, str(value)))
                elif isinstance(value, bool | np.bool_):
                    cells["numeric"].append((i, name, float(value)))
                else:
                    number = kinds.number(name, value)
                    if number == number:  # a column with only NaN would have no kind
                        cells["numeric"].append((i, name, number))
        n = len(xs)
        return cls(
            *_columns_of(cells["numeric"], n, np.nan, np.float64),
            *_columns_of(cells["categorical"], n, None, np.object_),
            *_columns_of(cells["text"], n, None, np.object_),
        )

    @classmethod
    def declared(cls, xs: Sequence[Mapping[str, Any]], schema: Schema) -> Rows:
        """Rows of the fields of `schema`, each value of its declared kind.

        Parameters
        ----------
        xs
            One mapping for each record. Fields that are not in the schema are ignored.

        Raises
        ------
        InvalidRecordError
            A value does not have the kind of its field.

        Examples
        --------
        >>> rows = Rows.declared([{"zip": 8001, "note": "x"}], Schema.of(zip="categorical"))
        >>> rows.categorical.tolist(), rows.text_names
        ([['8001']], ())
        """
        _check_list(xs)
        rows = cls.empty(schema, len(xs))
        convert = {"numeric": kinds.number, "binary": kinds.binary}
        for j, name in enumerate(schema.numeric):
            kind = "binary" if name in rows.binary_names else "numeric"
            rows.numeric[:, j] = [convert[kind](name, x.get(name)) for x in xs]
        for j, name in enumerate(schema.categorical):
            rows.categorical[:, j] = [kinds.category(name, x.get(name)) for x in xs]
        for j, name in enumerate(schema.text):
            rows.text[:, j] = [kinds.text(name, x.get(name)) for x in xs]
        return rows

    @classmethod
    def empty(cls, schema: Schema, n: int = 0) -> Rows:
        """n rows of `schema` with every value missing."""
        return cls(
            schema.numeric,
            np.full((n, len(schema.numeric)), np.nan),
            schema.categorical,
            np.full((n, len(schema.categorical)), None, dtype=object),
            schema.text,
            np.full((n, len(schema.text)), None, dtype=object),
            frozenset(f.name for f in schema.fields if f.kind == "binary"),
        )

    @property
    def present(self) -> set[str]:
        """The columns with a value in any row. O(cells).

        Examples
        --------
        >>> sorted(Rows.from_dicts([{"b": 1.0, "c": None}, {"a": "x"}]).present)
        ['a', 'b']
        """
        numbers = zip(self.numeric_names, self.numeric.T, strict=True)
        found = {name for name, column in numbers if not np.isnan(column).all()}
        for names, cells in (
            (self.categorical_names, self.categorical),
            (self.text_names, self.text),
        ):
            columns = zip(names, cells.T.tolist(), strict=True)
            found.update(name for name, column in columns if any(v is not None for v in column))
        return found

    def check(self) -> None:
        """Check that the cells have the kinds and the number of the columns; O(cells).

        Raises
        ------
        SchemaError
            They do not, or two columns have the same name.
        InvalidRecordError
            A number is infinite or beyond `schema.LARGEST`.
        """
        n = len(self.numeric) if isinstance(self.numeric, np.ndarray) and self.numeric.ndim else 0
        numeric, other = np.dtype(np.float64), np.dtype(np.object_)
        for kind, dtype in (("numeric", numeric), ("categorical", other), ("text", other)):
            names, cells = getattr(self, f"{kind}_names"), getattr(self, kind)
            texts = isinstance(names, tuple) and all(isinstance(name, str) for name in names)
            if not texts or len(set(names)) < len(names):
                came = shown(names)
                raise SchemaError(f"{kind}_names must be a tuple of distinct names, got {came}")
            fits = isinstance(cells, np.ndarray) and cells.dtype == dtype
            if not fits or cells.shape != (n, len(names)):
                shape = f"{dtype} of shape ({n}, {len(names)})"
                raise SchemaError(f"{kind} must be an array of {shape}, got {shown(cells)}")
        memo = self.memo
        if memo is not None and not (
            isinstance(memo, np.ndarray)
            and memo.dtype == np.float64
            and memo.ndim == 3
            and len(memo) == n
            and are_notes(memo)
        ):
            raise SchemaError(
                "memo must be a float64 array of counts and probabilities with a row each, got "
                f"{shown(memo)}"
            )
        beyond = np.abs(self.numeric) > kinds.LARGEST
        if beyond.any():  # this check is much faster than searching for the cell
            row, column = np.argwhere(beyond)[0].tolist()
            kinds.number(self.numeric_names[column], self.numeric[row, column])
        for value in self.categorical.ravel().tolist():
            if value is not None and not isinstance(value, str):
                raise SchemaError(f"a category must be text or None, got {shown(value)}")
        for value in self.text.ravel().tolist():
            if not (value is None or isinstance(value, str) or _encoded(value)):
                raise SchemaError(f"a text must be text or None, got {shown(value)}")

    def take(self, index: NDArray[np.int64]) -> Rows:
        """The rows at `index`, copied."""
        return Rows(
            self.numeric_names,
            self.numeric[index],
            self.categorical_names,
            self.categorical[index],
            self.text_names,
            self.text[index],
            self.binary_names,
            None if self.memo is None else self.memo[index],
        )

    def with_memo(self, memo: Floats | None) -> Rows:
        """The same columns, not copied, with another memo."""
        return Rows(
            self.numeric_names,
            self.numeric,
            self.categorical_names,
            self.categorical,
            self.text_names,
            self.text,
            self.binary_names,
            memo,
        )

    def put(self, index: NDArray[np.int64], rows: Rows) -> None:
        """Write `rows` (same columns) over the rows at `index`, without their memo."""
        self.numeric[index] = rows.numeric
        self.categorical[index] = rows.categorical
        self.text[index] = rows.text

    def memo_of(self, classes: int, numbers: int) -> Floats:
        """The memo with at least this shape for each row; what is new is NaN."""
        old = (0, 0) if self.memo is None else self.memo.shape[1:]
        if self.memo is not None and old[0] >= classes and old[1] >= numbers:
            return self.memo
        out = np.full((len(self), max(classes, old[0]), max(numbers, old[1])), np.nan)
        if self.memo is not None:
            out[:, : old[0], : old[1]] = self.memo
        return out

    def blank(self, index: Sequence[int]) -> None:
        """Make every value of the rows at `index` missing."""
        if index:
            self.numeric[index] = np.nan
            self.categorical[index] = None
            self.text[index] = None
            if self.memo is not None:
                self.memo[index] = np.nan

    def concat(self, other: Rows) -> Rows:
        """These rows, then those of `other` (same columns)."""
        if not len(other):
            return self
        memo = None
        if self.memo is not None or other.memo is not None:
            shapes = [m.shape[1:] for m in (self.memo, other.memo) if m is not None]
            shape = [max(sizes) for sizes in zip(*shapes, strict=True)]
            memo = np.concatenate((self.memo_of(*shape), other.memo_of(*shape)))
        return Rows(
            self.numeric_names,
            np.concatenate((self.numeric, other.numeric)),
            self.categorical_names,
            np.concatenate((self.categorical, other.categorical)),
            self.text_names,
            np.concatenate((self.text, other.text)),
            self.binary_names,
            memo,
        )

    def with_columns_of(self, other: Rows) -> Rows:
        """These rows with the columns of `other` too, sorted by name. New columns are missing."""
        if self._columns() == other._columns():
            return self
        numeric, numeric_names = _widened(
            self.numeric, self.numeric_names, other.numeric_names, np.nan
        )
        categorical, categorical_names = _widened(
            self.categorical, self.categorical_names, other.categorical_names, None
        )
        text, text_names = _widened(self.text, self.text_names, other.text_names, None)
        return Rows(
            numeric_names,
            numeric,
            categorical_names,
            categorical,
            text_names,
            text,
            self.binary_names | other.binary_names,
            self.memo,
        )

    def recast(self, *, numbers: str = "numeric", truths: str = "numeric") -> Rows:
        """These rows with numbers or declared truth values as columns of categories.

        So rows of a schema equal those of `from_dicts` with the same arguments.

        Examples
        --------
        >>> rows = Rows.from_dicts([{"a": 3.0}, {"a": 2.5}]).recast(numbers="categorical")
        >>> rows.numeric_names, rows.categorical[:, 0].tolist()
        ((), ['3', '2.5'])
        """
        if numbers == "numeric" and (truths == "numeric" or not self.binary_names):
            return self
        moved = [
            (j, name)
            for j, name in enumerate(self.numeric_names)
            if (truths if name in self.binary_names else numbers) == "categorical"
        ]
        if not moved:
            return self
        at = [j for j, _ in moved]
        values = np.empty((len(self), len(at)), dtype=object)
        for k, (j, name) in enumerate(moved):
            truth = name in self.binary_names
            column = self.numeric[:, j].tolist()
            values[:, k] = [
                kinds.category(name, bool(v) if truth and v == v else v) for v in column
            ]
        return Rows(
            tuple(np.delete(np.array(self.numeric_names, dtype=object), at).tolist()),
            np.ascontiguousarray(np.delete(self.numeric, at, axis=1)),
            (*self.categorical_names, *(name for _, name in moved)),
            np.concatenate((self.categorical, values), axis=1),
            self.text_names,
            self.text,
            self.binary_names - {name for _, name in moved},
            self.memo,
        )

    def beside(self, other: Rows) -> Rows:
        """These rows joined with the columns of `other`, sorted by name."""
        out, more = self.with_columns_of(other), other.with_columns_of(self)
        here = ~np.isnan(more.numeric)
        out.numeric = np.where(here, more.numeric, out.numeric)
        for mine, theirs in ((out.categorical, more.categorical), (out.text, more.text)):
            for at in zip(*np.nonzero(theirs != None), strict=True):  # noqa: E711 elementwise
                mine[at] = theirs[at]
        return out

    def _columns(self) -> tuple[tuple[str, ...], ...]:
        return self.numeric_names, self.categorical_names, self.text_names

    def grown(self, n: int) -> Rows:
        """These rows, followed by missing ones, n in total."""
        more = n - len(self)
        missing = Rows(
            self.numeric_names,
            np.full((more, self.numeric.shape[1]), np.nan),
            self.categorical_names,
            np.full((more, self.categorical.shape[1]), None, dtype=object),
            self.text_names,
            np.full((more, self.text.shape[1]), None, dtype=object),
            self.binary_names,
        )
        return self.concat(missing)

    def sizes(self) -> list[int]:
        """Bytes of the categories and texts of each row. Numbers are left out, because they have
        the same size in every row.

        Examples
        --------
        >>> Rows.from_dicts([{"a": 1.0, "c": "red"}, {"a": 2.0}]).sizes()
        [3, 0]
        """
        out = [0] * len(self)
        for cells in (self.categorical, self.text):
            for column in cells.T.tolist():
                for i, value in enumerate(column):
                    if isinstance(value, str):
                        out[i] += kinds.text_bytes(value)
                    elif value is not None:
                        out[i] += value.nbytes
        return out

    def dicts(self) -> list[dict[str, Any]]:
        """One dict for each row, without missing values. O(n · columns) objects."""
        out: list[dict[str, Any]] = []
        floats, categories, texts = (
            self.numeric.tolist(),
            self.categorical.tolist(),
            self.text.tolist(),
        )
        for i in range(len(self)):
            x = {k: v for k, v in zip(self.numeric_names, floats[i], strict=True) if v == v}
            pairs = zip(self.categorical_names, categories[i], strict=True)
            x.update((k, v) for k, v in pairs if v is not None)
            x.update(
                (k, v) for k, v in zip(self.text_names, texts[i], strict=True) if v is not None
            )
            out.append(x)
        return out


def _check_list(xs: object) -> None:
    listed = isinstance(xs, Collection) and getattr(xs, "ndim", 1) == 1
    if not listed or isinstance(xs, str | bytes | Mapping):
        raise SchemaError(f"expected a list of records, got {shown(xs)}")


def _named(key: object, x: Mapping[Any, Any], other: set[str]) -> str:
    """The text of a name. InvalidRecordError if the record has another name with the same text."""
    name = str(key)
    if (name in x and type(key) not in (str, np.str_)) or name in other:
        raise InvalidRecordError("wrong_kind", f"two features have the name {name!r} as text")
    other.add(name)
    return name


def _encoded(value: object) -> bool:
    """Whether it is a text encoded by a learner's `prepare`: buckets and their counts."""
    if not isinstance(value, np.ndarray) or value.dtype != np.int64:
        return False
    if value.ndim != 2 or len(value) != 2:
        return False
    bucket, times = value
    return bool(((bucket >= -1) & (bucket < BUCKETS) & (times > 0)).all())


def _columns_of(
    cells: list[tuple[int, str, Any]], n: int, missing: float | None, dtype: Any
) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Sorted names and the values of the columns of these (row, name, value)."""
    names = tuple(sorted({name for _, name, _ in cells}))
    at = {name: j for j, name in enumerate(names)}
    out = np.full((n, len(names)), missing, dtype=dtype)
    for i, name, value in cells:
        out[i, at[name]] = value
    return names, out


def _widened(
    values: NDArray[Any], names: tuple[str, ...], more: tuple[str, ...], missing: float | None
) -> tuple[NDArray[Any], tuple[str, ...]]:
    if set(more) <= set(names):
        return values, names
    union = tuple(sorted({*names, *more}))
    out = np.full((len(values), len(union)), missing, dtype=values.dtype)
    out[:, [union.index(name) for name in names]] = values
    return out, union


def conflicts(
    rows: Rows,
    numeric: Collection[str] = (),
    categorical: Collection[str] = (),
    text: Collection[str] = (),
) -> dict[int, InvalidRecordError]:
    """Rows in which a value differs in kind from what is known of its field, or from other rows.

    Parameters
    ----------
    rows
        The rows.
    numeric, categorical, text
        The known fields of that kind. With dicts and sets, the cost is O(columns).
    """
    known = {"a number": numeric, "a category": categorical, "a text": text}
    columns = {
        "a number": rows.numeric_names,
        "a category": rows.categorical_names,
        "a text": rows.text_names,
    }
    out: dict[int, InvalidRecordError] = {}
    for came, names in columns.items():
        others = [k for k in known if k != came and (len(known[k]) or columns[k])]
        for j, name in enumerate(names if others else ()):
            learned = [kind for kind in others if name in known[kind]]
            if not learned and name in known[came]:
                continue
            expected = learned or [kind for kind in others if name in columns[kind]]
            if expected:
                for i in _present(rows, came, j):
                    out.setdefault(i, _another_kind(name, expected[0], came))
    return out


def are_notes(memo: Floats) -> bool:
    """Whether a memo float64 (n, 1 + classes, any) has finite counts and then probabilities, or NaN
    where nothing was noted."""
    counts, shares = memo[:, :1], memo[:, 1:]
    wrong = ((counts < 0.0) | (counts == np.inf)).any()
    return not (wrong or ((shares < 0.0) | (shares > 1.0 + SLACK)).any())


def _present(rows: Rows, kind: str, column: int) -> list[int]:
    """The rows with a value in this column of numbers, categories or texts."""
    if kind == "a number":
        return list(np.flatnonzero(~np.isnan(rows.numeric[:, column])).tolist())
    cells = rows.categorical if kind == "a category" else rows.text
    return [i for i, value in enumerate(cells[:, column].tolist()) if value is not None]


def _another_kind(name: str, expected: str, came: str) -> InvalidRecordError:
    return InvalidRecordError(
        "wrong_kind", f"field {name!r} expects {expected}, as it was learned, got {came}"
    )
