"""Distances by name, the parameters that select them, and the volume of a ball.

Rule: an attribute is used only if a record of the window has it. `KNNClassifier` documents the
treatment of missing values by metric; the kernels implement it.
"""

from __future__ import annotations

from math import inf, isfinite, lgamma, log

import numpy as np

from stream.data.parameters import number
from stream.neighbors._kernels.search import (
    ALWAYS,
    CHEBYSHEV,
    COSINE,
    EUCLIDEAN,
    HAMMING,
    IF_NOMINAL,
    MANHATTAN,
    MINKOWSKI,
    NEVER,
    Query,
    Rule,
)
from stream.neighbors._kernels.window import BY_RANGE, BY_STD, UNSCALED

__all__ = ["METRICS", "SCALES", "WEIGHTS", "exponent", "log_volume", "rule"]

# Name to the kernel's metric, and to when an attribute that x does not have adds 1.
METRICS = {
    "auto": (EUCLIDEAN, IF_NOMINAL),
    "euclidean": (EUCLIDEAN, NEVER),
    "heom": (EUCLIDEAN, ALWAYS),
    "manhattan": (MANHATTAN, NEVER),
    "chebyshev": (CHEBYSHEV, NEVER),
    "minkowski": (MINKOWSKI, NEVER),
    "cosine": (COSINE, NEVER),
    "hamming": (HAMMING, NEVER),
}
SCALES = {None: UNSCALED, "range": BY_RANGE, "std": BY_STD}
WEIGHTS = ("uniform", "distance")
NORMS = {1.0: MANHATTAN, 2.0: EUCLIDEAN, inf: CHEBYSHEV}


def exponent(p: float) -> float:
    """Check that Minkowski's `p` is at least 1, since it is not a norm otherwise. Infinity is
    allowed."""
    return p if isinstance(p, float) and p == inf else number("p", p, 1.0)


def rule(n_neighbors: int, metric: str, p: float, weights: str) -> Rule:
    """The parameters in the form that kernels take. Special cases of Minkowski have their own
    loops."""
    kind, strict = METRICS[metric]
    if kind == MINKOWSKI:
        kind = NORMS.get(float(p), MINKOWSKI)
    power = float(p) if isfinite(p) else 1.0  # not used by the maximum
    return Rule(kind, strict, power, n_neighbors, int(weights == "distance"))


def log_volume(rule: Rule, q: Query, radius: float) -> float | None:
    """Log volume of a ball around q.x, (2 Γ(1/p + 1))ᵈ / Γ(d/p + 1) · rᵈ in scaled units.

    None if the ball has no volume: the radius is 0, or x and the window have no common attribute.
    """
    used = (q.held > 0) & ~np.isnan(q.x) & (q.inverse > 0)
    d = int(used.sum())
    if radius == 0.0 or d == 0:
        return None
    share = {MANHATTAN: 1.0, EUCLIDEAN: 0.5, CHEBYSHEV: 0.0}.get(rule.metric, 1.0 / rule.p)
    side = log(2.0) + lgamma(share + 1.0) + log(radius)
    units = sum(log(inverse) for inverse in q.inverse[used].tolist())
    return d * side - lgamma(d * share + 1.0) - units
