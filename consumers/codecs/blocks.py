"""Blocks of JSON observations and labels as columns, by the compiled decoder.

Rule: the columns of a record are those that `json` makes of it one by one. Each record of which
that is not certain is left to `json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from consumers.base.cells import as_texts, chosen
from consumers.codecs.compiled import CompiledDecoder, JsonField, JsonKind, Spans
from consumers.codecs.json_document import LARGEST_RECORD, LONGEST_ID
from stream.data.block import Rows
from stream.data.schema import Schema
from stream.data.sequences import CodedColumn, TextColumn
from stream.join.reporters import LONGEST_REPORTER

__all__ = ["FEWEST", "LabelBlocks", "ObservationBlocks", "compile_decoder"]

FEWEST = 64  # records; for fewer, a call costs more than it saves
KINDS = {
    "numeric": JsonKind.NUMBER,
    "binary": JsonKind.BINARY,
    "categorical": JsonKind.CATEGORY,
    "text": JsonKind.TEXT,
}


@dataclass(frozen=True, slots=True)
class ObservationBlock:
    """Rows, ids and labels of a block, and which records are left: theirs have no meaning.

    `whole` bool (rows,): which ids are integers. `times`: the values of the field of time. `given`
    bool (rows, categories and texts): which cells have a value.
    """

    rows: Rows
    ids: TextColumn
    labels: CodedColumn
    left: list[int]
    whole: NDArray[np.bool_]
    times: CodedColumn
    given: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LabelBlock:
    """Ids, labels, weights and reporters of a block, and which records are left."""

    ids: TextColumn
    labels: CodedColumn
    weights: NDArray[np.float64]
    reporters: list[str | None] | None
    left: list[int]


class ObservationBlocks:
    """Reads blocks of observations.

    Parameters
    ----------
    schema, id_field, label_field
        As of `json.JsonObservations`. The names are distinct.
    time_field
        A field with a text or an integer, or None.
    largest
        Bytes of the largest record that is not left.
    """

    def __init__(
        self,
        schema: Schema,
        id_field: str,
        label_field: str | None,
        time_field: str | None = None,
        largest: int = LARGEST_RECORD,
    ) -> None:
        self._schema = schema
        numbers = {name: i for i, name in enumerate(schema.numeric)}
        others = {name: i for i, name in enumerate((*schema.categorical, *schema.text))}
        declared = [
            JsonField(f.name, KINDS[f.kind], (numbers | others)[f.name]) for f in schema.fields
        ]
        self._id = len(others)
        declared.append(JsonField(id_field, JsonKind.ID, self._id, longest=LONGEST_ID))
        self._more = [name for name in (label_field, time_field) if name is not None]
        declared += [
            JsonField(name, JsonKind.LABEL, column)
            for column, name in enumerate(self._more, self._id + 1)
        ]
        self._label_field, self._time_field = label_field, time_field
        self._decoder = CompiledDecoder(declared, largest)

    def read(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None]
    ) -> ObservationBlock:
        """The columns of a block."""
        numbers, spans, plain = self._decoder.read(values)
        n, schema = len(values), self._schema
        ids, whole = _ids(spans, self._id, keys, plain), spans.integers(self._id)
        labels, times = (
            self._values(spans, name, n) for name in (self._label_field, self._time_field)
        )
        rows = Rows.empty(schema, 0)
        split = len(schema.categorical)
        other = np.empty((n, self._id), dtype=object)
        for column in range(self._id):
            other[:, column] = spans.objects(column) if column < split else spans.each(column)
        rows.numeric, rows.categorical, rows.text = numbers, other[:, :split], other[:, split:]
        left: list[int] = np.flatnonzero(~plain).tolist()
        return ObservationBlock(rows, ids, labels, left, whole, times, spans.given(self._id))

    def _values(self, spans: Spans, name: str | None, n: int) -> CodedColumn:
        if name is None:
            return CodedColumn.nothing(n)
        return spans.labels(self._id + 1 + self._more.index(name))


class LabelBlocks:
    """Reads blocks of label records.

    Parameters
    ----------
    reporter
        The field with the reporter, without dots, or None.
    heaviest
        The largest weight of a record that is not left.
    """

    def __init__(self, reporter: str | None, heaviest: float) -> None:
        self._reporter, self._heaviest = reporter, heaviest
        declared = [
            JsonField("id", JsonKind.ID, 0, longest=LONGEST_ID),
            JsonField("label", JsonKind.LABEL, 1),
            JsonField("w", JsonKind.GIVEN, 0),
        ]
        if reporter is not None:
            declared.append(JsonField(reporter, JsonKind.ID, 2, longest=LONGEST_REPORTER))
        self._decoder = CompiledDecoder(declared, LARGEST_RECORD)

    def read(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> LabelBlock:
        """The columns of a block."""
        numbers, spans, plain = self._decoder.read(values)
        weights = numbers[:, 0]
        weights[np.isnan(weights)] = 1.0
        plain &= (weights > 0.0) & (weights <= self._heaviest) & ~spans.missing(1)
        ids = _ids(spans, 0, keys, plain)
        reporters = None if self._reporter is None else spans.objects(2).tolist()
        left = np.flatnonzero(~plain).tolist()
        return LabelBlock(ids, spans.labels(1), weights, reporters, left)


def _ids(
    spans: Spans, column: int, keys: Sequence[bytes | None], plain: NDArray[np.bool_]
) -> TextColumn:
    """The ids of the records, or else their keys. Records without a usable one are not plain."""
    at = np.arange(len(plain))
    ids, absent = spans.texts(column, at), np.flatnonzero(spans.missing(column) & plain)
    if not absent.size:
        return ids
    given = as_texts(chosen(keys, absent))
    sizes = np.diff(given.start)
    for k in np.flatnonzero((sizes == 0) | (sizes > LONGEST_ID)).tolist():  # in bytes
        if not 0 < len(given[k]) <= LONGEST_ID:
            plain[absent[k]] = False
    if absent.size == at.size:
        return given
    at[absent] = at.size + np.arange(absent.size)
    return TextColumn.joined([ids, given]).take(at)


def compile_decoder() -> None:
    """Decode a block, so that the kernels are compiled."""
    schema = Schema.of(number="numeric", category="categorical", text="text")
    value = b'{"id":"a","number":1.5,"category":"b","text":"c","label":true}'
    block = ObservationBlocks(schema, "id", "label").read([None], [value])
    block.ids.take(np.zeros(1, dtype=np.int64))
