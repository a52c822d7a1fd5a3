"""Arrow batches -> records.

Rule: a value becomes what it would be in a JSON file. Null and NaN are left out, because both mean
"no value".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, TypeVar

from consumers.base.errors import ConfigError
from consumers.base.extras import install
from consumers.codecs.arrow.values import UnreadableTypeError, UnreadableValueError, column_values
from consumers.files.file import File, shortened
from consumers.files.format import Assumption, Options, Record, Wanted, as_records

__all__ = ["ROWS", "TableReader"]

ROWS = 1 << 13  # of a batch

T = TypeVar("T")


class TableReader:
    """Reads a file of Arrow batches.

    Parameters
    ----------
    batches
        Opens the batches of an open file, each of at most `ROWS` rows or as it was written.
    title
        The format in messages.
    """

    def __init__(
        self,
        file: File,
        options: Options,
        batches: Callable[[BinaryIO], Iterator[Any]],
        title: str,
    ) -> None:
        self._file, self._batches, self._title = file, batches, title

    @property
    def guesses(self) -> Sequence[Assumption]:
        """Nothing: the file has its schema."""
        return []

    def records(self, wanted: Wanted) -> Iterator[Record]:
        """The rows as records."""
        row = 0
        for batch in self.batches():
            yield from self.records_of(batch, row)
            row += len(batch)

    def batches(self) -> Iterator[Any]:
        """The batches, one after the other.

        Raises
        ------
        ConfigError
            pyarrow is missing, or the file is damaged.
        """
        if self._file.compression() is not None:
            raise ConfigError(
                f"{self._file}: {self._title} is compressed inside; decompress the file"
            )
        for batch in self.each(self._valid):
            names = batch.schema.names
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise ConfigError(f"{self._file}: two columns are named {twice!r}")
            yield batch

    def _valid(self, stream: BinaryIO) -> Iterator[Any]:
        for batch in self._batches(stream):
            batch.validate(full=True)  # pyarrow reads outside the file if an offset is wrong
            yield batch

    def each(self, read: Callable[[BinaryIO], Iterator[T]]) -> Iterator[T]:
        """What `read` gets from the open file, with one error for damage.

        Raises
        ------
        ConfigError
            pyarrow is missing, or the file is damaged.
        """
        with self._file.stored() as stream, self._one_error():
            yield from read(stream)

    @contextmanager
    def _one_error(self) -> Iterator[None]:
        try:
            import pyarrow as pa
        except ImportError:
            raise ConfigError(
                f"{self._file}: {self._title} needs pyarrow, which is not installed; run "
                f"`{install('arrow')}`"
            ) from None
        damage = (pa.ArrowException, OSError, EOFError, MemoryError, LookupError, ValueError)
        try:
            yield
        except ConfigError:
            raise
        except damage as error:
            why = shortened(" ".join(str(error).split()) or type(error).__name__)
            raise ConfigError(
                f"{self._file}: damaged {self._title} file ({why}); fetch it again"
            ) from None

    def records_of(self, batch: Any, row: int) -> Iterator[Record]:
        """The rows of a batch as records; `row` is the number of its first one in the file."""
        columns = [
            self.values(name, column, row)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return as_records(batch.schema.names, columns, len(batch))

    def values(self, name: str, column: Any, row: int) -> Sequence[object]:
        """The values of a column as JSON values, None for a record without one."""
        try:
            return column_values(column, strict=True)
        except UnreadableTypeError as error:
            why = shortened(" ".join(str(error).split()))
            raise ConfigError(
                f"{self._file}: column {name!r} has the type {column.type}, which cannot be read "
                f"({why}); leave it out or convert it"
            ) from None
        except UnreadableValueError as error:
            raise ConfigError(
                f"{self._file}: row {row + error.row + 1}: column {name!r} has {error}; "
                "leave it out or convert it"
            ) from None
