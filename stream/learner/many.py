"""Many: the methods of a learner that take many records, as a list of dicts or as a table.

Rule: they have the names and parameters of river's mini-batch methods, so that a learner can end a
pipeline of river. The answer has the form of the question, and is what the calls with one record
answer for each row, to the last bit.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Self

from river import base

from stream.data.block import LEARN, PREDICT, Block, Rows
from stream.data.frame_rows import declared_rows, rows_of
from stream.data.frames import MiniBatch, Table, array_of, mini_batch
from stream.data.parameters import shown
from stream.data.schema import Schema, plain_label
from stream.errors import InvalidRecordError, SchemaError
from stream.kernel.interrupts import interruptible
from stream.kernel.tiers import MANY, interpreting, machine_first
from stream.learner.predictions import Predictions

__all__ = ["PIECE", "Many", "pieces"]

PIECE = 3  # records that Python runs at once: of mails each takes it a quarter of a second


def pieces(block: Block, size: int) -> Iterator[Block]:
    """A block in pieces of `size`, and then of `PIECE` steps while kernels run as Python, or what
    is left at once. Ctrl-C comes between two."""
    at = 0
    while at < len(block.op):
        yield block.slice(at, at + size)
        at += size
        size = PIECE if interpreting() else len(block.op)
        with interruptible():
            pass


class Many(base.MiniBatchClassifier, abc.ABC):
    """What `Learner` does with many records. See there for the attributes."""

    numbers: ClassVar[str] = "numeric"
    truths: ClassVar[str] = "numeric"
    strings: ClassVar[str] = "categorical"
    _declared: Schema | None = None

    @abc.abstractmethod
    def run(self, block: Block) -> Predictions:
        """Execute the steps of a block in order."""

    @abc.abstractmethod
    def prepare(self, rows: Rows) -> Rows:
        """Convert values into the columns that are learned from."""

    @property
    def _texts(self) -> Collection[str]:
        """Features that are texts, if strings are categories otherwise."""
        return ()

    @property
    def _reading(self) -> dict[str, Any]:
        """How it reads values without a declared kind: the arguments of `Rows.from_dicts`."""
        return {
            "numbers": self.numbers,
            "truths": self.truths,
            "strings": self.strings,
            "texts": self._texts,
        }

    def columns(self, X: Any) -> Rows:
        """`X` as columns, each value of its declared kind or else of the kind this learner
        reads."""
        batch = mini_batch(X)
        schema = self._declared
        if isinstance(batch, Table):
            if schema is None:
                return rows_of(batch, **self._reading)
            rest = rows_of(batch, **self._reading, without={f.name for f in schema.fields})
            return declared_rows(batch, schema).beside(rest)
        if schema is None:
            return Rows.from_dicts(X, **self._reading)
        names = {f.name for f in schema.fields}
        others = [
            {k: v for k, v in x.items() if k not in names} if isinstance(x, Mapping) else x
            for x in X
        ]
        rest = Rows.from_dicts(others, **self._reading)
        return Rows.declared(X, schema).beside(rest)

    def declare(self, schema: Schema) -> Self:
        """Read the values of records by the kinds of a schema, as the service reads its records.

        Without a schema a string is a category or a text, whichever this learner learns.

        Parameters
        ----------
        schema
            Kinds of fields. Values of other fields are read as before.

        Returns
        -------
        Self
            This learner. A clone of it does not have the schema.

        Examples
        --------
        >>> from stream import MixedNB
        >>> MixedNB().declare(Schema.of(note="text")).rows([{"note": "hello"}]).text_names
        ('note',)
        """
        if not isinstance(schema, Schema):
            raise SchemaError(f"schema must be a Schema, got {shown(schema)}")
        self._declared = schema
        return self

    def rows(self, X: Any) -> Rows:
        """`X` as rows that this learner accepts: a list of dicts or a table, as in `learn_many`."""
        return self.prepare(self.columns(X))

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """`learn_one` of each record in turn, in one compiled call. On an error nothing is learned.

        Parameters
        ----------
        X
            Dicts in a list, a DataFrame of pandas or Polars, an Arrow table or another stream of
            Arrow, or a numpy array, whose column 3 is the feature "3". Each cell is read as
            `learn_one` reads it: missing values are not evidence.
        y
            A label for each record, by position: a list, a column or an array.
        w
            The weight of all records, or one for each.

        Raises
        ------
        InvalidRecordError
            A value or label cannot be learned. For a table the message names the row.
        SchemaError
            `X` is not a table, the names of its columns are not distinct, a column has a type that
            is no feature (such as a date), or lengths differ.

        Examples
        --------
        >>> import numpy as np
        >>> from stream import GaussianNB
        >>> model = GaussianNB()
        >>> X = np.array([[1.6], [1.7], [1.9], [2.0]])
        >>> model.learn_many(X, ["a", "a", "b", "b"])
        >>> model.predict_many(X).tolist()
        ['a', 'a', 'b', 'b']
        """
        labels, weights = array_of("y", y), array_of("w", w)
        with _patience(X):
            rows = self.rows(X)
        try:
            block = Block.of(rows, LEARN, labels, weights)
        except InvalidRecordError as error:
            raise _of_row(labels, error) from None
        self.run(block)

    def predict_many(self, X: Any) -> Any:
        """`predict_one` of each record: the most probable label, None if no class is known. Pure.

        Parameters
        ----------
        X
            As in `learn_many`.

        Returns
        -------
        list, Series or array
            For dicts a list; for pandas a Series with the index of `X`; for Polars a Series; for
            Arrow a ChunkedArray; for numpy an array.

        Examples
        --------
        >>> from stream import GaussianNB
        >>> model = GaussianNB()
        >>> model.learn_many([{"height": 1.6}, {"height": 1.9}], ["a", "b"])
        >>> model.predict_many([{"height": 1.5}, {"height": 2.0}])
        ['a', 'b']
        """
        batch, found = self._asked(X)
        return batch.labels(found.classes, found.best())

    def predict_proba_many(self, X: Any) -> Any:
        """`predict_proba_one` of each record. Pure.

        Parameters
        ----------
        X
            As in `learn_many`.

        Returns
        -------
        list, DataFrame, table or array
            For dicts a list of dicts. For a table a table of the same library with a column for
            each class, in the order of `classes`; pandas keeps the index and has the labels as
            names, Polars and Arrow have their text. For numpy a float64 array (n, classes).

        Examples
        --------
        >>> import numpy as np
        >>> from stream import GaussianNB
        >>> model = GaussianNB()
        >>> model.learn_many(np.array([[1.0], [3.0], [7.0], [9.0]]), [0, 0, 1, 1])
        >>> model.predict_proba_many(np.array([[5.0]]))
        array([[0.5, 0.5]])
        """
        batch, found = self._asked(X)
        return batch.shares(found.classes, found.proba)

    def _asked(self, X: Any) -> tuple[MiniBatch, Predictions]:
        """What `X` is, and a prediction for each of its rows."""
        batch = mini_batch(X)
        with _patience(X):
            rows = self.rows(batch if isinstance(batch, Table) else X)
        return batch, self.run(Block.of(rows, PREDICT))


def _of_row(labels: Any, error: InvalidRecordError) -> InvalidRecordError:
    """The error of the first missing label or else of the first wrong one, with its row."""
    for row, label in enumerate(labels):
        if label is None or label != label or type(label).__name__ == "NaTType":
            detail = f"row {row} has no label, got {label}; drop the rows without labels"
            return InvalidRecordError("label_kind", detail)
    for row, label in enumerate(labels):
        try:
            plain_label(label)
        except InvalidRecordError as wrong:
            do = ""
            if type(label).__name__.startswith("float"):  # pandas has them beside missing labels
                form = "int" if float(label).is_integer() else "str"
                do = f" {label}; .astype({form}) makes classes of a column of numbers"
            return InvalidRecordError("label_kind", f"row {row}: {wrong.detail}{do}")
    return error


def _patience(X: Any) -> AbstractContextManager[None]:
    """Whether many records wait for machine code."""
    try:
        few = len(X) < MANY
    except TypeError:  # an iterator, a stream, or what is refused later, such as a sparse matrix
        few = False
    return nullcontext() if few else machine_first()
