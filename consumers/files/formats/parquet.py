"""Parquet, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

from consumers.files.format import Format
from consumers.files.tables import ROWS, TableReader

__all__ = ["FORMAT"]


def _batches(stream: BinaryIO) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(stream) as file:
        yield from file.iter_batches(batch_size=ROWS)


FORMAT = Format(
    name="parquet",
    title="Parquet",
    suffixes=(".parquet", ".pq"),
    options=frozenset(),
    piped=False,
    reader=partial(TableReader, batches=_batches, title="Parquet"),
)
