"""Rows (features, columnar) and blocks (rows with a sequence of steps over them).

Rule: the columns of rows made from dicts are sorted by name and those of a schema stand in its
order, so that the columns a row has never depend on the rows it shares a block with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream import schema as kinds
from stream.errors import InvalidRecordError
from stream.schema import Label, Schema

__all__ = ["LEARN", "PREDICT", "PREDICT_THEN_LEARN", "Block", "Floats", "Op", "Rows", "learning"]

Floats = NDArray[np.float64]
Objects = NDArray[np.object_]


class Op(IntEnum):
    """What a step does with its row."""

    PREDICT = 0
    LEARN = 1
    PREDICT_THEN_LEARN = 2


PREDICT, LEARN, PREDICT_THEN_LEARN = (int(op) for op in Op)


@dataclass(slots=True)
class Rows:
    """Features of n records, a column a feature.

    Parameters
    ----------
    numeric_names, categorical_names, text_names
        The columns.
    numeric
        float64, (n, len(numeric_names)); NaN is missing.
    categorical
        object, (n, len(categorical_names)); text, or None where missing.
    text
        object, (n, len(text_names)); text, None where missing, or what a learner's
        `prepare` put in its place.
    """

    numeric_names: tuple[str, ...]
    numeric: Floats
    categorical_names: tuple[str, ...]
    categorical: Objects
    text_names: tuple[str, ...]
    text: Objects

    def __len__(self) -> int:
        return int(self.numeric.shape[0])

    @classmethod
    def from_dicts(cls, xs: Sequence[Mapping[str, Any]], *, strings: str = "categorical") -> Rows:
        """Rows of undeclared features: numbers and truth values are numeric, strings as told.

        Parameters
        ----------
        xs
            One mapping a record. Names that are not text are taken by their text.
        strings
            ``"categorical"`` or ``"text"``: what a string value is; ``"refused"``: none may be.

        Raises
        ------
        InvalidRecordError
            A value no field can hold.

        Examples
        --------
        >>> rows = Rows.from_dicts([{"b": 1, "a": 2.0}, {"a": None, "c": "x"}])
        >>> rows.numeric_names, rows.categorical_names
        (('a', 'b'), ('c',))
        """
        numeric: list[tuple[int, str, float]] = []
        strung: list[tuple[int, str, str]] = []
        for i, x in enumerate(xs):
            if not isinstance(x, Mapping):
                raise InvalidRecordError(
                    "wrong_kind", f"a record maps features to values, got {type(x).__name__}"
                )
            for name, value in x.items():
                if isinstance(value, str) and strings != "refused":
                    strung.append((i, str(name), str(value)))
                elif isinstance(value, bool | np.bool_):
                    numeric.append((i, str(name), float(value)))
                else:
                    numeric.append((i, str(name), kinds.number(str(name), value)))
        n = len(xs)
        names = tuple(sorted({name for _, name, _ in numeric}))
        at = {name: j for j, name in enumerate(names)}
        floats = np.full((n, len(names)), np.nan)
        for i, name, number in numeric:
            floats[i, at[name]] = number
        others = tuple(sorted({name for _, name, _ in strung}))
        at = {name: j for j, name in enumerate(others)}
        objects = np.full((n, len(others)), None, dtype=object)
        for i, name, string in strung:
            objects[i, at[name]] = string
        nothing = np.empty((n, 0), dtype=object)
        if strings == "text":
            return cls(names, floats, (), nothing, others, objects)
        return cls(names, floats, others, objects, (), nothing)

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
        )

    def take(self, index: NDArray[np.int64]) -> Rows:
        """The rows at `index`, copied."""
        return Rows(
            self.numeric_names,
            self.numeric[index],
            self.categorical_names,
            self.categorical[index],
            self.text_names,
            self.text[index],
        )

    def put(self, index: NDArray[np.int64], rows: Rows) -> None:
        """Write `rows` (same columns) over the rows at `index`."""
        self.numeric[index] = rows.numeric
        self.categorical[index] = rows.categorical
        self.text[index] = rows.text

    def blank(self, index: Sequence[int]) -> None:
        """Make every value of the rows at `index` missing."""
        if index:
            self.numeric[index] = np.nan
            self.categorical[index] = None
            self.text[index] = None

    def concat(self, other: Rows) -> Rows:
        """These rows, then `other`'s (same columns)."""
        if not len(other):
            return self
        return Rows(
            self.numeric_names,
            np.concatenate((self.numeric, other.numeric)),
            self.categorical_names,
            np.concatenate((self.categorical, other.categorical)),
            self.text_names,
            np.concatenate((self.text, other.text)),
        )

    def with_columns_of(self, other: Rows) -> Rows:
        """These rows with `other`'s columns too, missing where they were not; sorted by name."""
        if self._columns() == other._columns():
            return self
        numeric, numeric_names = _widened(
            self.numeric, self.numeric_names, other.numeric_names, np.nan
        )
        categorical, categorical_names = _widened(
            self.categorical, self.categorical_names, other.categorical_names, None
        )
        text, text_names = _widened(self.text, self.text_names, other.text_names, None)
        return Rows(numeric_names, numeric, categorical_names, categorical, text_names, text)

    def _columns(self) -> tuple[tuple[str, ...], ...]:
        return self.numeric_names, self.categorical_names, self.text_names

    def grown(self, n: int) -> Rows:
        """These rows and missing ones behind them, n in all."""
        more = n - len(self)
        missing = Rows(
            self.numeric_names,
            np.full((more, self.numeric.shape[1]), np.nan),
            self.categorical_names,
            np.full((more, self.categorical.shape[1]), None, dtype=object),
            self.text_names,
            np.full((more, self.text.shape[1]), None, dtype=object),
        )
        return self.concat(missing)

    def dicts(self) -> list[dict[str, Any]]:
        """One dict a row, without the missing values. O(n · columns) objects."""
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


def _widened(
    values: NDArray[Any], names: tuple[str, ...], more: tuple[str, ...], missing: float | None
) -> tuple[NDArray[Any], tuple[str, ...]]:
    if set(more) <= set(names):
        return values, names
    union = tuple(sorted({*names, *more}))
    out = np.full((len(values), len(union)), missing, dtype=values.dtype)
    out[:, [union.index(name) for name in names]] = values
    return out, union


def encoder(schema: Schema) -> Callable[[Rows, int, Mapping[str, Any]], None]:
    """A function (rows, i, x) that writes the declared fields of `x` into row i of `rows`.

    Fields that are not declared are ignored. It raises `InvalidRecordError` and may then have
    written a part of the row: the caller drops that row.
    """
    kind = {f.name: f.kind for f in schema.fields}
    numeric = [
        (j, name, kinds.binary if kind[name] == "binary" else kinds.number)
        for j, name in enumerate(schema.numeric)
    ]
    categorical = list(enumerate(schema.categorical))
    texts = list(enumerate(schema.text))

    def encode(rows: Rows, i: int, x: Mapping[str, Any]) -> None:
        for j, name, convert in numeric:
            rows.numeric[i, j] = convert(name, x.get(name))
        for j, name in categorical:
            rows.categorical[i, j] = kinds.category(name, x.get(name))
        for j, name in texts:
            rows.text[i, j] = kinds.text(name, x.get(name))

    return encode


@dataclass(slots=True)
class Block:
    """Rows and the steps over them, executed in order.

    Parameters
    ----------
    rows
        The features; several steps may name one row.
    op
        int8, (m,): an `Op` a step.
    row
        int64, (m,): index into `rows`.
    y
        int32, (m,): index into `labels`; -1 where the step does not learn.
    w
        float64, (m,): weight of a learning step, > 0 and at most 2**53.
    labels
        This block's own dictionary of labels.
    """

    rows: Rows
    op: NDArray[np.int8]
    row: NDArray[np.int64]
    y: NDArray[np.int32]
    w: Floats
    labels: list[Label]

    def __len__(self) -> int:
        return int(self.op.shape[0])

    @property
    def n_predictions(self) -> int:
        """How many steps predict."""
        return int(np.count_nonzero(self.op != LEARN))

    @classmethod
    def of(
        cls,
        rows: Rows,
        op: int,
        ys: Sequence[Any] | None = None,
        ws: Sequence[float] | float = 1.0,
    ) -> Block:
        """The block that does `op` on each row in turn.

        Raises
        ------
        InvalidRecordError
            A label that is none.
        ValueError
            A weight that is not positive or beyond 2**53; lengths that differ.
        """
        n = len(rows)
        if ys is not None and len(ys) != n:
            raise ValueError(f"{n} rows need {n} labels, got {len(ys)}")
        w = np.array(
            np.broadcast_to(np.asarray(ws, dtype=np.float64), (n,))
        )  # writable: one kernel
        if not ((w > 0) & (w <= kinds.HEAVIEST)).all():
            raise ValueError("weights must be greater than 0 and at most 2**53")
        y = np.full(n, -1, dtype=np.int32)
        labels: list[Label] = []
        if ys is not None:
            codes: dict[tuple[type, Label], int] = {}
            for i, value in enumerate(ys):
                label = kinds.plain_label(value)
                code = codes.setdefault((type(label), label), len(labels))
                if code == len(labels):
                    labels.append(label)
                y[i] = code
        ops = np.full(n, op, dtype=np.int8)
        return cls(rows, ops, np.arange(n, dtype=np.int64), y, w, labels)

    def slice(self, start: int, stop: int) -> Block:
        """Steps start … stop-1 over the same rows."""
        part = slice(start, stop)
        return Block(
            self.rows, self.op[part], self.row[part], self.y[part], self.w[part], self.labels
        )


def learning(block: Block) -> NDArray[np.int64]:
    """Indices of the steps that learn, in order."""
    return np.flatnonzero(block.op != PREDICT)


def mixed_kinds(first: Label, label: Label) -> InvalidRecordError:
    """The error of a label of another kind than the first."""
    return InvalidRecordError(
        "label_kind",
        f"labels are {type(first).__name__} since the first one, got {type(label).__name__}",
    )
