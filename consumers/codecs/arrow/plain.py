"""Arrow batches -> the columns that the decoder would make of their records as JSON.

Rule: only plain values are converted here, those about which the decoder has nothing to decide. For
every other batch the answer is None, and its records take the way through JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumers.codecs.arrow.sizes import byte_lengths
from consumers.codecs.json_document import LARGEST_RECORD, LONGEST_ID
from stream.data import schema as kinds
from stream.data.block import Rows
from stream.data.schema import Schema
from stream.errors import InvalidRecordError

__all__ = ["PlainBatch", "PlainColumns"]

_EXACT = 2.0**53  # larger integers are not all numbers of their own
_ESCAPED = 6  # bytes of a character in JSON at most, as \\u001f
_CELL = 40  # bytes of a number or a time in JSON at most, with its comma
_STRINGS = ("string", "large_string", "string_view")
_OTHERS = ("null", "boolean", "integer", "floating", "timestamp", "date")


@dataclass(slots=True)
class PlainBatch:
    """The records of one batch.

    Parameters
    ----------
    rows
        The features.
    ids
        The ids as the file has them; None without a column of ids.
    labels
        The labels, None for a record without one.
    whole
        Whether the ids are integers in the file.
    """

    rows: Rows
    ids: Sequence[str] | None
    labels: Sequence[object]
    whole: bool


class PlainColumns:
    """Converts batches to the columns of a schema.

    Parameters
    ----------
    schema
        The features.
    id_field
        The column with the id.
    label
        The column with the label, or None.
    inside
        Whether the label may be a feature too, because it is inside the observation.
    """

    def __init__(
        self, schema: Schema, id_field: str, label: str | None, *, inside: bool = True
    ) -> None:
        self.schema, self.id_field, self.label = schema, id_field, label
        hidden = None if inside else label
        self._kinds = {f.name: f.kind for f in schema.fields if f.name != hidden}

    def convert(self, batch: Any) -> PlainBatch | None:
        """The columns of an Arrow batch; None if a value is not plain."""
        names = batch.schema.names
        at = {name: batch.column(number) for number, name in enumerate(names)}
        if not _fits(names, batch.columns):
            return None
        ids = _ids(at[self.id_field]) if self.id_field in at else []
        labels: list[object] | None = [None] * len(batch)
        if self.label is not None and self.label in at:
            labels = _labels(at[self.label])
        if ids is None or labels is None:
            return None
        rows = Rows.empty(self.schema, len(batch))
        for names_of, cells in (
            (rows.numeric_names, rows.numeric),
            (rows.categorical_names, rows.categorical),
            (rows.text_names, rows.text),
        ):
            for number, name in enumerate(names_of):
                if name not in at or name not in self._kinds:
                    continue
                found = _cells(at[name], self._kinds[name])
                if found is None:
                    return None
                cells[:, number] = found
        if self.id_field not in at:
            return PlainBatch(rows, None, labels, whole=False)
        return PlainBatch(rows, ids, labels, whole=_is(at[self.id_field].type, "integer"))


def _is(kind: Any, *names: str) -> bool:
    import pyarrow as pa

    return any(getattr(pa.types, f"is_{name}")(kind) for name in names)


def _texts(column: Any) -> Any:
    """The column of texts itself, or the texts of a dictionary; None if it has no texts."""
    kind = column.type
    if _is(kind, "dictionary") and _is(kind.value_type, *_STRINGS):
        return column.dictionary
    return column if _is(kind, *_STRINGS) else None


def _fits(names: list[str], columns: list[Any]) -> bool:
    """Whether no record can be too large, and each column has a type that JSON has too."""
    room = LARGEST_RECORD
    for name, column in zip(names, columns, strict=True):
        room -= _ESCAPED * len(name.encode()) + _CELL
        texts = _texts(column)
        if texts is not None:
            room -= _ESCAPED * int(byte_lengths(texts).max(initial=0))
        elif not _is(column.type, *_OTHERS):
            return False
    return room > 0


def _ids(column: Any) -> list[str] | None:
    if column.null_count:
        return None
    if _is(column.type, "integer"):
        return list(map(str, _values(column)))
    if not _is(column.type, *_STRINGS):
        return None
    ids: list[str] = _values(column)
    return ids if all(0 < len(id_) <= LONGEST_ID for id_ in ids) else None


def _labels(column: Any) -> list[object] | None:
    if _texts(column) is None and not _is(column.type, "integer", "boolean", "null"):
        return None
    return _cells_of(column).tolist() if _is(column.type, "dictionary") else _values(column)


def _values(column: Any) -> list[Any]:
    """The values as objects. Arrow makes them one by one where numpy has no type for them."""
    if _is(column.type, "string", "large_string") or not column.null_count:
        column = column.to_numpy(zero_copy_only=False)
        values: list[Any] = column.tolist()
    else:
        values = column.to_pylist()
    return values


def _cells(column: Any, kind: str) -> NDArray[Any] | None:
    """The values of a field of this kind."""
    if kind in ("numeric", "binary"):
        return _numbers(column, truths=kind == "binary")
    if kind == "categorical" and _is(column.type, "boolean", "integer", "floating"):
        return _categories(column.to_pylist())
    if _texts(column) is None and not _is(column.type, "null"):
        return None
    return _cells_of(column)


def _cells_of(column: Any) -> NDArray[Any]:
    """The texts as cells. A text of a dictionary is one object in all its cells."""
    if not _is(column.type, "dictionary"):
        return np.array(_values(column), dtype=object)
    texts = np.array([*column.dictionary.to_pylist(), None], dtype=object)
    codes = column.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    cells: NDArray[Any] = texts[codes]
    return cells


def _numbers(column: Any, *, truths: bool) -> NDArray[np.float64] | None:
    types = ("boolean",) if truths else ()
    if not _is(column.type, "integer", "floating", "null", *types):
        return None
    if _is(column.type, "boolean"):
        column = column.cast("uint8")
    found = column.to_numpy(zero_copy_only=False)
    values = (
        np.array([np.nan if v is None else v for v in found], dtype=np.float64)
        if (found.dtype == object)
        else found.astype(np.float64)
    )
    bound = _EXACT if _is(column.type, "integer") else kinds.LARGEST
    plain = np.isnan(values) | (np.abs(values) <= bound)
    if truths:
        plain &= np.isnan(values) | (values == 0.0) | (values == 1.0)
    return values + 0.0 if plain.all() else None  # -0.0 becomes 0.0


def _categories(values: list[Any]) -> NDArray[Any] | None:
    out = np.full(len(values), None, dtype=object)
    try:
        for number, value in enumerate(values):
            if value == value:  # no NaN
                out[number] = kinds.category("", value)
    except InvalidRecordError:
        return None
    return out
