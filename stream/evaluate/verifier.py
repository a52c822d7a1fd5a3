"""Compare a run in blocks with river's own loop over the same records.

Rule: the twin starts from a copy of the learner that was made before the first record. It shares
the learner and the formulas of the scores, and nothing of blocks, join and counting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from math import inf

import numpy as np
from numpy.typing import NDArray

from stream.data.schema import Label
from stream.evaluate.quality import QualityView
from stream.evaluate.river_loop import Opinion, opinion
from stream.evaluate.table import SCORES
from stream.evaluate.verification import Timed, Verification
from stream.learner.base import Learner, Predictions

__all__ = ["Verifier"]

MOST_KEPT = 2**23  # probabilities, 64 MiB
# River's loop runs one model at a time, so it has no baselines beside it.
AGAINST_BASELINES = frozenset({"kappa_m", "kappa_t"})


class _Kept:
    """Predictions of the run in blocks, as many as there is room for."""

    def __init__(self) -> None:
        self._parts: list[tuple[NDArray[np.int64], Predictions]] = []
        self._size = 0
        self._at = 0
        self._full = False

    def add(self, numbers: NDArray[np.int64], made: Predictions) -> None:
        """Keep the predictions of these records."""
        self._full = self._full or self._size + made.proba.size > MOST_KEPT
        if len(made) and not self._full:
            self._size += made.proba.size
            self._parts.append((numbers, made))

    def beyond(self, number: int) -> bool:
        """Whether the record comes after all that were kept. Ask in order."""
        while self._at < len(self._parts) and self._parts[self._at][0][-1] < number:
            self._at += 1
        return self._at == len(self._parts)

    def of(self, number: int) -> dict[Label, float]:
        """The prediction of a record that is not beyond; empty if it has no prediction."""
        numbers, made = self._parts[self._at]
        k = int(np.searchsorted(numbers, number))
        if numbers[k] != number:
            return {}
        known = int(made.known[k])
        return dict(zip(made.classes[:known], made.proba[k, :known].tolist(), strict=True))


class Verifier:
    """Has river's loop repeat a run, and compares the results.

    Parameters
    ----------
    learner
        The learner before the first record. It is copied.
    window
        The N of the scores of the last N records.
    """

    def __init__(self, learner: Learner, window: int) -> None:
        self._learner = deepcopy(learner)
        self._window = window
        self._kept = _Kept()
        self._compared = self._records = 0
        self._first: int | None = None
        self._largest = 0.0

    def keep(self, numbers: NDArray[np.int64], made: Predictions) -> None:
        """Note the predictions of the run for the records of these numbers, which rise."""
        self._kept.add(numbers, made)

    def compare(
        self,
        records: Iterable[Timed],
        view: QualityView,
        progress: Callable[[int], None] = lambda _: None,
    ) -> Verification:
        """Run river's loop over the records, and compare it with the scores of the run.

        Parameters
        ----------
        records
            The same records in the same order; those without a label are left out.
        view
            The scores of the run.
        progress
            Called with the number of records that are done since the last call.
        """
        found = opinion(
            (record for record in records if record.y is not None),
            self._learner,
            self._window,
            self._check,
            progress,
        )
        differences = {"probability": self._largest, **_differences(found, view)}
        scored = int(next(iter(found.scores.values())).scored)
        return Verification(self._records, scored, self._compared, self._first, differences)

    def _check(self, number: int, theirs: Mapping[Label, float]) -> None:
        """Compare one prediction."""
        self._records += 1
        if self._kept.beyond(number):
            return
        self._compared += 1
        ours = self._kept.of(number)
        gap = inf if ours.keys() != theirs.keys() else 0.0
        for label, share in ours.items():
            gap = max(gap, _gap(share, theirs.get(label)))
        if gap:
            self._first = number if self._first is None else self._first
            self._largest = max(self._largest, gap)


def _differences(found: Opinion, view: QualityView) -> dict[str, float]:
    """The largest difference of counts and of each score."""
    ours = {
        (view.classes[t], view.classes[p]): float(view.confusion[t, p])
        for t, p in np.argwhere(view.confusion).tolist()
    }
    pairs = {**ours, **found.confusion}
    out = {
        "confusion": max(
            (abs(ours.get(pair, 0.0) - found.confusion.get(pair, 0.0)) for pair in pairs),
            default=0.0,
        ),
        "unscored": float(abs(view.unscored - found.unscored)),
    }
    for spec in SCORES:
        if spec.id not in AGAINST_BASELINES:
            out[spec.id] = max(
                _gap(spec.value(view.scores[window]), spec.value(theirs))
                for window, theirs in found.scores.items()
            )
    return out


def _gap(ours: float | None, theirs: float | None) -> float:
    """The difference of two numbers; infinite if only one of them exists, or it is NaN."""
    if ours is None or theirs is None:
        return 0.0 if ours is theirs else inf
    gap = abs(ours - theirs)
    return gap if gap == gap else inf
