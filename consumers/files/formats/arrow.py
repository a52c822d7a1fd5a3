"""Arrow IPC, which is also Feather 2: files and streams, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

from consumers.files.format import Format
from consumers.files.tables import ROWS, TableReader

__all__ = ["FORMAT"]

_MAGIC = b"ARROW1"  # of a file; a stream has no such mark


def _batches(stream: BinaryIO) -> Iterator[Any]:
    import pyarrow as pa

    is_file = stream.read(len(_MAGIC)) == _MAGIC
    stream.seek(0)
    if is_file:
        with pa.ipc.open_file(stream) as file:
            for number in range(file.num_record_batches):
                yield from _cut(file.get_batch(number))
    else:
        with pa.ipc.open_stream(stream) as batches:
            for batch in batches:
                yield from _cut(batch)


def _cut(batch: Any) -> Iterator[Any]:
    """The batch in parts, because Python values take more memory than columns."""
    for start in range(0, len(batch), ROWS):
        yield batch.slice(start, ROWS)


FORMAT = Format(
    name="arrow",
    title="Arrow IPC",
    suffixes=(".arrow", ".arrows", ".feather", ".ipc"),
    options=frozenset(),
    piped=False,
    reader=partial(TableReader, batches=_batches, title="Arrow IPC"),
)
