"""scikit-learn as the oracle along a stream: fitted again to all records learned so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream import Learner
from stream.text import encode


def worst_difference(
    model: Learner,
    oracle: Any,
    xs: Sequence[dict[str, Any]],
    ys: Sequence[Any],
    matrix: Any,
    *,
    sparse: bool,
    every: int = 100,
) -> float:
    """The largest difference of a posterior, after each `every` records, on the next ten.

    Row i of `matrix` is record i for the oracle. Where it is sparse a 0 is nothing, so the
    oracle gets only the columns with something learned.
    """
    worst = 0.0
    for stop in range(every, len(xs), every):
        model.learn_many(xs[stop - every : stop], ys[stop - every : stop])
        seen = np.asarray(abs(matrix[:stop]).sum(axis=0)).ravel()
        known = np.flatnonzero(seen) if sparse else np.arange(seen.size)
        fitted = oracle.fit(matrix[:stop][:, known], ys[:stop])
        asked = slice(stop, stop + 10)
        expected = fitted.predict_proba(matrix[asked][:, known])
        said = model.predict_proba_many(xs[asked])
        got = [[p[label] for label in fitted.classes_.tolist()] for p in said]
        worst = max(worst, float(np.abs(np.array(got) - expected).max()))
    return worst


def token_matrix(texts: Sequence[str]) -> Any:
    """Counts of buckets, sparse: a row a text, a column a bucket that occurs."""
    encoded = [encode(text) for text in texts]
    found, column = np.unique(np.concatenate([e[0] for e in encoded]), return_inverse=True)
    row = np.repeat(np.arange(len(texts)), [e.shape[1] for e in encoded])
    times = np.concatenate([e[1] for e in encoded]).astype(float)
    return csr_array((times, (row, column)), shape=(len(texts), found.size))


def named(matrix: NDArray[np.float64]) -> list[dict[str, float]]:
    """The rows of a dense matrix as records with fields x0, x1, …"""
    names = [f"x{j}" for j in range(matrix.shape[1])]
    return [dict(zip(names, row, strict=True)) for row in matrix.tolist()]
