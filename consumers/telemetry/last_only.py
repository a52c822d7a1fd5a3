"""Scores that need each prediction of a window, computed at a bounded rate."""

from __future__ import annotations

from collections.abc import Callable

from stream.evaluate.scores import Scores
from stream.evaluate.table import SCORES

__all__ = ["LastOnly"]

LAST_ONLY_SECONDS = 1.0  # between two computations


class LastOnly:
    """Scores that need each prediction, computed at most once per second.

    Parameters
    ----------
    clock
        Seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, dict[str, float | None]]] = {}

    def of(self, model: tuple[str, str], last: Scores) -> dict[str, float | None]:
        """Metric to value for a model; at most one second old."""
        now = self._clock()
        at, found = self._known.get(model, (0.0, {}))
        if model not in self._known or not 0 <= now - at < LAST_ONLY_SECONDS:
            found = {s.metric: s.value(last) for s in SCORES if s.last_only}
            self._known[model] = (now, found)
        return found
