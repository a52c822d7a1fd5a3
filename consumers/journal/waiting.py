"""Records of a history that still wait for their counterpart when a service begins. Pure.

An observation waits for its label, an early label for its observation. The journal holds the
records themselves, because the inputs may have expired when a replay needs them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from consumers.base.records import Batch, Partition, Record, ranges_of

__all__ = ["batch_of", "from_bytes", "to_bytes"]

_decoder = msgspec.msgpack.Decoder(list[Record])


def to_bytes(records: Sequence[Record]) -> bytes:
    """The records as the content of a file.

    Examples
    --------
    >>> record = Record("mails", 0, 7, 1000, b"a", b"{}")
    >>> from_bytes(to_bytes([record])) == [record]
    True
    """
    return msgspec.msgpack.encode(records)


def from_bytes(data: bytes) -> list[Record]:
    """The inverse of `to_bytes`."""
    return _decoder.decode(data)


def batch_of(records: Sequence[Record]) -> Batch:
    """The records, in their order, as one batch."""
    partitions = sorted({Partition(r.topic, r.partition) for r in records})
    places = {partition: i for i, partition in enumerate(partitions)}
    source = np.array([places[Partition(r.topic, r.partition)] for r in records], dtype=np.int64)
    offsets = np.array([r.offset for r in records], dtype=np.int64)
    times = np.array([r.timestamp for r in records], dtype=np.int64)
    keys, values = [r.key for r in records], [r.value for r in records]
    ranges = ranges_of(partitions, source, offsets)
    return Batch(partitions, source, offsets, times, keys, values, ranges)
