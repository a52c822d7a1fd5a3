"""Series of scores: each is a number of `stream.evaluate.scores`, one a window.

Rule: no series a class. What is asked of single classes is computed from
`headwater_confusion_total`, whose series are bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from consumers.telemetry.spec import Spec
from stream.evaluate.quality import QualityView
from stream.evaluate.scores import Scores
from stream.evaluate.table import SCORES

__all__ = ["SCORE_METRICS", "LastOnly", "Score", "scores"]

Score = tuple[str, tuple[str, ...], float | None]  # name, label values, value

LAST_ONLY_SECONDS = 1.0  # between two looks at scores that need each prediction of a window
# Those of every window first, and of them those whose only labels are the usual ones.
_METRICS = tuple(sorted(SCORES, key=lambda score: (score.last_only, bool(score.labels))))
_BASELINES = tuple(found for score in SCORES if (found := score.baselines) and found.metric)

_MODEL = ("shard", "model")

SCORE_METRICS = (
    *(Spec(s.metric, "gauge", (*_MODEL, *dict(s.labels), "window"), s.help) for s in _METRICS),
    *(Spec(b.metric, "gauge", (*_MODEL, "baseline", "window"), b.help) for b in _BASELINES),
)


class LastOnly:
    """Scores that need each prediction, computed once a second at most, however often asked for.

    Parameters
    ----------
    clock
        Seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, dict[str, float | None]]] = {}

    def of(self, model: tuple[str, str], last: Scores) -> dict[str, float | None]:
        """Metric to value, of a model; at most a second old."""
        now = self._clock()
        at, found = self._known.get(model, (0.0, {}))
        if model not in self._known or not 0 <= now - at < LAST_ONLY_SECONDS:
            found = {s.metric: s.value(last) for s in SCORES if s.last_only}
            self._known[model] = (now, found)
        return found


def scores(of: tuple[str, str], quality: QualityView, last_only: LastOnly) -> Iterator[Score]:
    """Every score of a model, in the order of `SCORE_METRICS`; None where it does not exist."""
    windows, last = quality.scores, quality.last
    dear = last_only.of(of, windows[last])
    for score in _METRICS:
        more = tuple(value for _, value in score.labels)
        if score.last_only:
            yield score.metric, (*of, *more, last), dear[score.metric]
        else:
            for window, found in windows.items():
                yield score.metric, (*of, *more, window), score.value(found)
    for baseline in _BASELINES:
        for window in (last,) if baseline.last_only else windows:
            for name, value in baseline.values(windows[window]).items():
                yield baseline.metric, (*of, name, window), value
