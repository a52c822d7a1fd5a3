"""Records that are columns already, and become bytes only on demand.

Rule: the columns are equal to those that the decoder would make of the bytes. The code that makes
them ensures this, and leaves each record for which it cannot to the decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from consumers.codecs.json import DecodedLabels, DecodedObservations

__all__ = ["ColumnRecords"]


class ColumnRecords(Sequence[bytes | None]):
    """The values of the records of a batch.

    Parameters
    ----------
    observations, labels
        What the decoders return for the observations and for the label records of the batch, each
        in their order.
    count
        The number of records.
    encode
        Returns the bytes of a record by its index in the batch.
    as_json
        Returns a record as JSON by its index; None: `encode` does so.
    """

    def __init__(
        self,
        observations: DecodedObservations,
        labels: DecodedLabels,
        count: int,
        encode: Callable[[int], bytes | None],
        as_json: Callable[[int], bytes | None] | None = None,
    ) -> None:
        self.observations, self.labels = observations, labels
        self._count, self._encode, self.as_json = count, encode, as_json or encode

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> bytes | None: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes | None]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes | None] | None:
        if isinstance(at, slice):
            return [self._encode(i) for i in range(*at.indices(self._count))]
        return self._encode(range(self._count)[at])
