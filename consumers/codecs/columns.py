"""Records that are columns already, and become bytes only on demand.

Rule: the columns are equal to those that the decoder would make of the bytes. The code that makes
them ensures this, and leaves each record for which it cannot to the decoder.

Merges observations and labels, which are decoded separately, back into their order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from consumers.codecs.json import DecodedLabels, DecodedObservations
from stream.data.sequences import joined, taken
from stream.evaluate.progressive import Events

__all__ = ["ColumnRecords", "in_order"]


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


def in_order(
    times: NDArray[np.int64],
    observed: tuple[NDArray[np.int64], DecodedObservations],
    labelled: tuple[NDArray[np.int64], DecodedLabels],
    rejected: Collection[int],
) -> tuple[Events, Sequence[int]]:
    """Observations and labels, each with its places in the batch, in order; the places."""
    n = len(times)
    (seen, x), (heard, y) = observed, labelled
    if seen.size == n and not rejected:  # no label of its own: nothing to merge
        return Events(x.ids, np.arange(n), x.labels, np.ones(n), times), range(n)
    decoded = np.full(n, -1, dtype=np.int64)  # which of the observations, then of the labels
    decoded[seen], decoded[heard] = np.arange(seen.size), np.arange(seen.size, n)[: heard.size]
    at: Sequence[int] = range(n)
    dead = None
    if rejected:
        usable = np.ones(n, dtype=np.bool_)
        usable[list(rejected)] = False
        places = np.flatnonzero(usable)
        decoded, times, at = decoded[places], times[places], places.tolist()
        dead = (np.diff(places, prepend=-1, append=n) - 1).tolist()
    row = np.where(decoded < seen.size, decoded, -1)
    nobody: list[str | None] = [None] * seen.size
    names = None if y.reporters is None else taken(joined([nobody, y.reporters]), decoded)
    weights = np.concatenate((np.ones(seen.size), np.array(y.weights, dtype=np.float64)))[decoded]
    ids = taken(joined([x.ids, y.ids]), decoded)
    labels = taken(joined([x.labels, y.labels]), decoded)
    return Events(ids, row, labels, weights, times, dead, names), at
