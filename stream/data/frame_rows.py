"""Rows of a table: each cell is read as the same value of a dict would be.

Rule: `rows_of(table)` equals `Rows.from_dicts(table.records())`, except that the columns have the
order of the table, and that a column without any value may stay. A frame keeps each column in one
piece, but kernels read rows. So columns are read in place and copied once, some thousand rows at a
time. A table that has its rows in memory is not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream.data import schema as kinds
from stream.data.frames import Table
from stream.data.rows import Floats, Rows
from stream.data.schema import Schema
from stream.errors import InvalidRecordError

__all__ = ["declared_rows", "rows_of"]

PIECE = 2**15  # cells that are copied and checked together: they fit into the cache of a processor
NAN_BITS = np.float64(np.nan).view(np.int64)
NEGATIVE_ZERO = np.float64(-0.0).view(np.int64)

Named = list[tuple[str, NDArray[Any]]]


def rows_of(
    table: Table,
    *,
    numbers: str = "numeric",
    truths: str = "numeric",
    strings: str = "categorical",
    texts: Collection[str] = (),
    without: Collection[str] = (),
) -> Rows:
    """Rows of undeclared features, each value in a column of its kind.

    Parameters
    ----------
    numbers, truths, strings, texts
        See `Rows.from_dicts`.
    without
        Columns to ignore.

    Raises
    ------
    InvalidRecordError
        A value does not fit any kind.
    SchemaError
        A column has a type that is no feature, such as a date.

    Examples
    --------
    >>> from stream.data.frames import mini_batch
    >>> rows = rows_of(mini_batch(np.array([[1.5, 2.0], [np.nan, 3.0]])))
    >>> rows.numeric_names, rows.dicts()
    (('0', '1'), [{'0': 1.5, '1': 2.0}, {'1': 3.0}])
    """
    if numbers == "numeric" and not without and (whole := _in_place(table)) is not None:
        return _rows(table.names, whole, [], [])
    vectors: Named = []
    cells: dict[str, Named] = {"numeric": [], "categorical": [], "text": []}
    reading = {"numbers": numbers, "truths": truths, "strings": strings, "texts": texts}
    for column in table.columns():
        name = column.name
        kind = {"number": numbers, "truth": truths}.get(column.cells, "")
        if name in without:
            continue
        if kind == "numeric" and column.vector is not None:
            vectors.append((name, column.vector))
            continue
        string = "text" if name in texts else strings
        values = column.values()
        if column.cells == "string" and string != "refused" and _are_texts(values):
            cells[string].append((name, _objects([v if type(v) is str else None for v in values])))
        elif kind == "categorical":
            cells[kind].append((name, _each(kinds.category, name, values, object)))
        else:
            for each, more in _by_cell(name, values, reading).items():
                cells[each] += more
    vectors += cells["numeric"]
    numeric = _gathered(vectors, len(table))
    names = tuple(name for name, _ in vectors)
    return _rows(names, numeric, cells["categorical"], cells["text"])


def declared_rows(table: Table, schema: Schema) -> Rows:
    """Rows of the fields of `schema`, each value of its declared kind.

    Raises
    ------
    InvalidRecordError
        A value does not have the kind of its field.

    Examples
    --------
    >>> from stream.data.frames import mini_batch
    >>> table = mini_batch(np.array([[8001.0, 2.0]]))
    >>> declared_rows(table, Schema((kinds.Field("0", "categorical"),))).categorical.tolist()
    [['8001']]
    """
    rows = Rows.empty(schema, len(table))
    declared = {field.name: field.kind for field in schema.fields}
    columns = {c.name: c for c in table.columns() if c.name in declared}
    read: dict[str, tuple[Callable[[str, Any], Any], Any]] = {
        "numeric": (kinds.number, np.float64),
        "binary": (kinds.binary, np.float64),
        "categorical": (kinds.category, object),
        "text": (kinds.text, object),
    }
    for names, out in (
        (schema.numeric, rows.numeric),
        (schema.categorical, rows.categorical),
        (schema.text, rows.text),
    ):
        for j, name in enumerate(names):
            column = columns.get(name)
            if column is None:
                continue
            vector = column.vector if column.cells == "number" else None
            if declared[name] == "numeric" and vector is not None:
                out[:, j] = _gathered([(name, vector)], len(table))[:, 0]
            else:
                convert, dtype = read[declared[name]]
                out[:, j] = _each(convert, name, column.values(), dtype)
    return rows


def _rows(names: Sequence[str], numeric: Floats, categories: Named, texts: Named) -> Rows:
    def beside(named: Named) -> NDArray[Any]:
        out = np.full((len(numeric), len(named)), None, dtype=object)
        for j, (_, values) in enumerate(named):
            out[:, j] = values
        return out

    return Rows(
        tuple(names),
        numeric,
        tuple(name for name, _ in categories),
        beside(categories),
        tuple(name for name, _ in texts),
        beside(texts),
    )


def _in_place(table: Table) -> Floats | None:
    """The memory of the table, if all of it is numbers with the bits that dicts would give."""
    whole = table.matrix
    if whole is None:
        return None
    step = max(PIECE // max(whole.shape[1], 1), 1)
    for start in range(0, len(whole), step):
        piece = whole[start : start + step]
        bits = piece.view(np.int64)
        if (bits == NEGATIVE_ZERO).any():
            return None
        odd = ~(np.abs(piece) <= kinds.LARGEST)
        if odd.any() and (bits[odd] != NAN_BITS).any():
            return None
    return whole


def _gathered(vectors: Named, n: int) -> Floats:
    """Columns of numbers side by side, float64 (n, columns): missing values are NaN with the usual
    bits, and -0.0 is 0.0, because equal numbers must have equal bits.

    Raises
    ------
    InvalidRecordError
        A number is infinite or beyond `schema.LARGEST`.
    """
    out = np.empty((n, len(vectors)))
    step = max(PIECE // max(len(vectors), 1), 1)
    for start in range(0, n, step):
        piece = out[start : start + step]
        for j, (_, vector) in enumerate(vectors):
            piece[:, j] = vector[start : start + step]
        piece += 0.0
        odd = ~(np.abs(piece) <= kinds.LARGEST)
        if not odd.any():
            continue
        for row, j in np.argwhere(odd & ~np.isnan(piece)).tolist():
            name = vectors[j][0]
            _each(kinds.number, name, [float(piece[row, j])], np.float64, start + row)
        piece[odd] = np.nan
    return out


def _each(
    convert: Callable[[str, Any], Any], name: str, values: list[Any], dtype: Any, first: int = 0
) -> NDArray[Any]:
    """Each value converted. An error names the row; the first one is row `first`."""
    out: list[Any] = []
    try:
        for value in values:
            out.append(convert(name, value))  # noqa: PERF401  its length is the row
    except InvalidRecordError as error:
        detail = f"row {first + len(out)}: {error.detail}"
        raise InvalidRecordError(error.reason, detail) from None
    return _objects(out) if dtype is object else np.array(out, dtype=dtype)


def _by_cell(name: str, values: list[Any], reading: dict[str, Any]) -> dict[str, Named]:
    """A column whose cells may have several kinds, as columns of one kind each."""
    try:
        rows = Rows.from_dicts([{name: value} for value in values], **reading)
    except InvalidRecordError:
        _each(lambda _, value: Rows.from_dicts([{name: value}], **reading), name, values, object)
        raise
    return {
        "numeric": [(name, rows.numeric[:, j]) for j in range(len(rows.numeric_names))],
        "categorical": [(name, rows.categorical[:, j]) for j in range(len(rows.categorical_names))],
        "text": [(name, rows.text[:, j]) for j in range(len(rows.text_names))],
    }


def _are_texts(values: list[Any]) -> bool:
    """Whether each is a str, None or NaN."""
    return set(map(type, values)) <= {str, type(None), float} and not any(
        type(v) is float and v == v for v in values
    )


def _objects(values: list[Any]) -> NDArray[Any]:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
