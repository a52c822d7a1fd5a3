"""Merges observations and labels, which are decoded separately, back into their order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

from consumers.codecs.json import DecodedLabels, DecodedObservations
from stream.evaluate.progressive import Events

__all__ = ["in_order"]


def in_order(
    times: list[int],
    observed: tuple[list[int], DecodedObservations],
    labelled: tuple[list[int], DecodedLabels],
    rejected: Collection[int],
) -> tuple[Events, Sequence[int]]:
    """Observations and labels, each with its places in the batch, in order; the places."""
    n = len(times)
    seen, x = observed
    if len(seen) == n and not rejected:  # no label of its own: nothing to merge
        return Events(x.ids, range(n), x.labels, [1.0] * n, times), range(n)
    ids, row, weights = [""] * n, [-1] * n, [1.0] * n
    labels: list[object] = [None] * n
    for k, i in enumerate(seen):
        ids[i], row[i], labels[i] = x.ids[k], k, x.labels[k]
    heard, y = labelled
    names: list[str | None] | None = None if y.reporters is None else [None] * n
    for k, i in enumerate(heard):
        ids[i], labels[i], weights[i] = y.ids[k], y.labels[k], y.weights[k]
        if names is not None and y.reporters is not None:
            names[i] = y.reporters[k]
    if not rejected:
        return Events(ids, row, labels, weights, times, reporters=names), range(n)
    at = [i for i in range(n) if i not in rejected]
    dead = [after - before - 1 for before, after in pairwise([-1, *at, n])]

    def used(column: list[Any]) -> list[Any]:
        return [column[i] for i in at]

    columns = (used(ids), used(row), used(labels), used(weights), used(times))
    return Events(*columns, dead, None if names is None else used(names)), at
