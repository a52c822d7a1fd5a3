"""Parquet, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from os import SEEK_END
from typing import Any, BinaryIO

from consumers.files.file import File
from consumers.files.format import Format, Options
from consumers.files.tables import ROWS, TableReader

__all__ = ["FORMAT", "footer", "of_groups"]

TITLE = "Parquet"
TAIL = 8  # bytes after the footer: its size, and the magic number


def _batches(
    stream: BinaryIO, groups: Sequence[int] | None = None, columns: Sequence[str] | None = None
) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(stream) as file:
        yield from file.iter_batches(batch_size=ROWS, row_groups=groups, columns=columns)


def footer(file: File) -> tuple[list[int], bytes]:
    """The rows of each row group of a file, and the bytes of its footer.

    Raises
    ------
    ConfigError
        The file is damaged, or pyarrow is missing.
    """

    def read(stream: BinaryIO) -> Iterator[tuple[list[int], bytes]]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(stream) as opened:
            about = opened.metadata
            rows = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
            stream.seek(-TAIL, SEEK_END)
            size = int.from_bytes(stream.read(4), "little")
            stream.seek(-TAIL - size, SEEK_END)
            yield rows, stream.read(size)

    return next(TableReader(file, Options(), read, TITLE).each(read))


def of_groups(
    file: File, groups: Sequence[int], columns: Sequence[str] | None = None
) -> TableReader:
    """Reads some row groups of a file, and some columns; None: all of them."""
    read = partial(_batches, groups=groups, columns=columns)
    return TableReader(file, Options(), read, TITLE)


FORMAT = Format(
    name="parquet",
    title=TITLE,
    suffixes=(".parquet", ".pq"),
    options=frozenset(),
    piped=False,
    reader=partial(TableReader, batches=_batches, title=TITLE),
)
