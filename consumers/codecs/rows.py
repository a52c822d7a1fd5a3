"""A batch of messages with many rows -> a batch of records, one for each row.

Rule: a message is whole or not at all in a commit, so the ranges of the batch stay those of the
messages. Inside the commit each row is a record of its own, with its `index` in the message. A
message of which no row can be used is one record without an index, and so is a label.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from consumers.base.errors import RecordError
from consumers.base.records import Batch
from consumers.codecs.columns import ColumnRecords
from consumers.codecs.json import DecodedObservations, JsonLabels
from stream.data.block import Rows
from stream.data.schema import Schema

__all__ = ["ByRow", "MessageReader", "MessageRows", "joined"]


@dataclass(frozen=True, slots=True)
class MessageRows:
    """The rows of one message.

    Parameters
    ----------
    count
        How many.
    decoded
        The rows as observations, in pieces.
    encode
        Returns a message of one row, by its index.
    as_json
        Returns a row as a JSON object, by its index.
    """

    count: int
    decoded: Sequence[DecodedObservations]
    encode: Callable[[int], bytes]
    as_json: Callable[[int], bytes]


class MessageReader(Protocol):
    """Reads messages as rows."""

    def read(self, value: bytes | None, most: int) -> MessageRows:
        """The rows, at most so many. RecordError if none of them can be used."""


class ByRow:
    """Makes a record of each row.

    Parameters
    ----------
    reader
        Reads the messages; None: a message is one record, and batches stay as they are.
    labels
        Decodes the records of `label_topics`.
    schema
        The features.
    """

    def __init__(
        self,
        reader: MessageReader | None,
        labels: JsonLabels,
        label_topics: Collection[str],
        schema: Schema,
    ) -> None:
        self._reader, self._labels = reader, labels
        self._label_topics, self._schema = label_topics, schema

    def __call__(
        self, batch: Batch, passed: dict[int, RecordError], most: int
    ) -> tuple[Batch, dict[int, RecordError]]:
        """The batch with a record for each row, already decoded, and which records are not decoded.

        Parameters
        ----------
        passed
            Index in the batch to the error of messages and labels that are not decoded.
        most
            The largest number of rows of a message.
        """
        if self._reader is None:
            return batch, passed
        topics, schema = self._label_topics, self._schema
        return _by_row(batch, topics, passed, self._reader, self._labels, schema, most), {}


def _by_row(
    batch: Batch,
    label_topics: Collection[str],
    passed: Mapping[int, RecordError],
    reader: MessageReader,
    labels: JsonLabels,
    schema: Schema,
    most: int,
) -> Batch:
    is_label = [p.topic in label_topics for p in batch.partitions]
    counts, whole = np.ones(len(batch), dtype=np.int64), np.ones(len(batch), dtype=np.bool_)
    observed: list[DecodedObservations] = []
    told: list[int] = []
    read: dict[int, MessageRows] = {}
    for i, source in enumerate(batch.source.tolist()):
        if is_label[source]:
            told.append(i)
            continue
        try:
            if i in passed:
                raise passed[i]
            rows = read[i] = reader.read(batch.values[i], most)
        except RecordError as error:
            observed.append(_nothing(schema, error.bare()))
            continue
        counts[i], whole[i] = rows.count, False
        observed += rows.decoded
    of = np.repeat(np.arange(len(batch)), counts)
    index = np.arange(of.size) - np.repeat(np.cumsum(counts) - counts, counts)
    index[whole[of]] = -1
    y = labels.decode(
        [batch.keys[i] for i in told], [None if i in passed else batch.values[i] for i in told]
    )
    y.rejected |= {k: passed[i] for k, i in enumerate(told) if i in passed}
    at = of.tolist()

    def encode(k: int) -> bytes | None:
        i = at[k]
        return read[i].encode(int(index[k])) if i in read else batch.values[i]

    def as_json(k: int) -> bytes | None:
        i = at[k]
        return read[i].as_json(int(index[k])) if i in read else batch.values[i]

    return replace(
        batch,
        source=batch.source[of],
        offsets=batch.offsets[of],
        timestamps=batch.timestamps[of],
        keys=[batch.keys[i] for i in at],
        values=ColumnRecords(joined(observed, schema), y, of.size, encode, as_json),
        index=index,
    )


def _nothing(schema: Schema, error: RecordError) -> DecodedObservations:
    """One observation that cannot be used."""
    return DecodedObservations(Rows.empty(schema, 1), [""], [None], {0: error})


def joined(parts: Sequence[DecodedObservations], schema: Schema) -> DecodedObservations:
    """Observations, one part after the other."""
    ids, labels = [], []  # type: list[str], list[object]
    out = DecodedObservations(Rows.empty(schema, 0), ids, labels, {})
    for part in parts:
        at = len(ids)
        ids += part.ids
        labels += part.labels
        out.rejected |= {at + k: error for k, error in part.rejected.items()}
        out.bad |= {at + k: names for k, names in part.bad.items()}
    if parts:
        every, like = [part.rows for part in parts], out.rows
        out.rows = Rows(
            like.numeric_names,
            np.concatenate([rows.numeric for rows in every]),
            like.categorical_names,
            np.concatenate([rows.categorical for rows in every]),
            like.text_names,
            np.concatenate([rows.text for rows in every]),
            like.binary_names,
        )
    return out
