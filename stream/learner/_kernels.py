"""What a prediction says without the shares of the classes, as log-odds."""

from __future__ import annotations

from math import log
from typing import Any

from stream.kernel import kernel

TINIEST = 2.0**-1022  # of a probability, so that no logarithm is infinite


@kernel
def log_odds(even: Any, known: Any, out: Any) -> None:
    """The log-odds of each known class against all other ones, less those of equal shares.

    even float64 (n, C): posteriors with equal shares, of which row i has the first known[i] int64
    classes; out float64 (n, C).
    """
    for i in range(even.shape[0]):
        k = known[i]
        for c in range(k):
            rest = 0.0
            for other in range(k):
                if other != c:
                    rest += even[i, other]
            if even[i, c] != even[i, c]:
                out[i, c] = even[i, c]
            elif k > 1:
                out[i, c] = log(max((k - 1) * even[i, c], TINIEST) / max(rest, TINIEST))
