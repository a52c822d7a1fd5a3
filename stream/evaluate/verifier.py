"""Compare a run in blocks with river's own loop over the same records.

Rule: the twin starts from a copy of the learner that was made before the first record. It shares
the learner and the formulas of the scores, and nothing of blocks, join and counting.

River's own loop as a slow twin: the same records, predicted, scored and learned one at a time.

Rule: nothing here runs a block. River decides the order, calls the learner for one record at a
time, and hands each prediction to a metric that counts in plain Python. `stream.evaluate.quality`
must come to the same scores, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from math import inf
from struct import pack, unpack
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from river import base, evaluate, metrics

from stream.data.block import LEARN, PREDICT, Block
from stream.data.parameters import shown
from stream.data.rows import Rows
from stream.data.schema import Label
from stream.errors import SchemaError
from stream.evaluate import _kernels as kernels
from stream.evaluate.quality import FADING_FACTOR, RANKED, QualityView, windows
from stream.evaluate.result import Timed, Verification
from stream.evaluate.scores import BINS, PredictionTable, Scores, Tally
from stream.evaluate.table import SCORES
from stream.kernel._kernels import HALF_ROOT
from stream.learner.base import Learner, Predictions

__all__ = [
    "PlainScores",
    "Verifier",
]

STEP = 100  # labels between two reports of progress


class Opinion(NamedTuple):
    """What river's loop came to.

    Parameters
    ----------
    confusion
        River's confusion matrix: (true, predicted) to the number of predictions.
    scores
        Window to scores, for these classes.
    unscored
        Labelled predictions without a class.
    """

    confusion: Mapping[tuple[Label, Label], float]
    scores: Mapping[str, Scores]
    unscored: int


def opinion(
    records: Iterable[Timed],
    learner: Learner,
    window: int,
    compare: Callable[[int, Mapping[Label, float]], None],
    progress: Callable[[int], None],
) -> Opinion:
    """Run `river.evaluate.iter_progressive_val_score` over labelled records.

    Parameters
    ----------
    records
        Records in order, each with its label.
    learner
        The learner as it was before the first record. It learns them.
    window
        The N of the scores of the last N records.
    compare
        Called with the number of each record and its prediction.
    progress
        Called with the number of labels that were learned since the last call.
    """
    model = _Compared(learner, compare)
    matrix, plain = metrics.ConfusionMatrix(), PlainScores(window)  # type: ignore[no-untyped-call]
    steps = evaluate.iter_progressive_val_score(
        dataset=_dataset(records),
        model=model,
        metric=metrics.base.Metrics([matrix, plain]),  # type: ignore[no-untyped-call]
        moment=lambda x: x.moment,
        delay=lambda x, _: x.delay,  # river sorts labels by their time if this is a function
        step=STEP,
    )
    done = 0
    for step in steps:
        progress(step["Step"] - done)
        done = step["Step"]
    counts = {(t, p): n for t, row in matrix.data.items() for p, n in row.items() if n}
    return Opinion(counts, plain.scores(learner.classes), model.learned - plain.scored)


class _Features(dict[str, Any]):
    """The features of a record, with its number and times, for which river's loop asks."""

    number: int
    moment: Any
    delay: Any


def _dataset(records: Iterable[Timed]) -> Iterator[tuple[Any, ...]]:
    """The records as river expects them."""
    for record in records:
        x = _Features(record.x)
        x.number, x.moment = record.number, record.moment
        x.delay = record.delay if record.delay != 0 else _nothing(record)
        yield (x, record.y) if record.w == 1.0 else (x, record.y, {"w": record.w})


def _nothing(record: Timed) -> Any:
    """A delay of zero that can be added to the moment, as river does."""
    if isinstance(record.moment, int | float):
        return 0
    try:
        return record.moment - record.moment
    except TypeError:
        raise SchemaError(
            f"record {record.number}: river adds the delay to the moment; expected a number or a "
            f"time, got {shown(record.moment)}"
        ) from None


class _Compared(base.Classifier):
    """The learner for river's loop. Each prediction is compared with the one of the blocks.

    A learner that notes what it predicted gets the noted row back when the label comes, as in the
    service. River's loop has only the features for it, which would be predicted again.
    """

    def __init__(
        self, learner: Learner, compare: Callable[[int, Mapping[Label, float]], None]
    ) -> None:
        self.learner = learner
        self.compare = compare
        self.learned = 0
        self._waiting: dict[int, Rows] = {}

    def predict_proba_one(self, x: Any, **_: Any) -> dict[Any, float]:
        """The learner's prediction."""
        if self.learner.memo_size:
            rows = self._waiting[x.number] = self.learner.rows([dict(x)])
            # Two columns of notes: kernels take the memory layout of one as another type.
            rows.memo = rows.memo_of(2, self.learner.memo_size)
            said = self.learner.run(Block.of(rows, PREDICT)).dicts()[0]
        else:
            said = self.learner.predict_proba_one(dict(x))
        self.compare(x.number, said)
        return said

    def learn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Let the learner learn the record."""
        if self.learner.memo_size:
            self.learner.run(Block.of(self._waiting.pop(x.number), LEARN, [y], w))
        else:
            self.learner.learn_one(dict(x), y, w)
        self.learned += 1

    @property
    def _multiclass(self) -> bool:
        return True


class _Sums:
    """Sums over all predictions, the newest of which weighs `factor` times the one before."""

    def __init__(self, factor: float) -> None:
        self.factor, self.unit = factor, 1.0
        self.sums = [0.0, 0.0, 0.0]  # of weights, log losses and Brier scores
        self.pairs: dict[tuple[Label, Label], float] = {}
        self.bins = [[0.0, 0.0, 0.0, 0.0] for _ in range(BINS)]

    def add(self, true: Label, predicted: Label, loss: float, sure: float, brier: float) -> None:
        """Add one prediction."""
        if self.unit * self.factor >= kernels.LARGEST:
            self._scale()
        self.unit *= self.factor
        w = self.unit
        for k, value in enumerate((w, w * loss, w * brier)):
            self.sums[k] += value
        self.pairs[true, predicted] = self.pairs.get((true, predicted), 0.0) + w
        cell, right = self.bins[min(int(sure * BINS), BINS - 1)], true == predicted
        cell[2 * right] += w
        cell[2 * right + 1] += w * sure

    def _scale(self) -> None:
        """Make all weights smaller by a power of two, which is exact."""
        self.unit *= kernels.SCALE
        self.sums = [value * kernels.SCALE for value in self.sums]
        self.pairs = {pair: value * kernels.SCALE for pair, value in self.pairs.items()}
        self.bins = [[value * kernels.SCALE for value in cell] for cell in self.bins]

    def scores(self, codes: Mapping[Label, int]) -> Scores:
        """The scores. Those of the baselines are not known here and stay 0."""
        n = len(codes)
        confusion = np.zeros((n, n))
        for (true, predicted), weight in self.pairs.items():
            confusion[codes[true], codes[predicted]] = weight
        scored, loss, brier = (value / self.unit for value in self.sums)
        bins = np.array(self.bins).reshape(BINS, 2, 2)
        tally = Tally(
            (scored, loss, brier, 0.0, 0.0),
            confusion / self.unit,
            np.zeros((2, n + 1, 2)),
            bins / self.unit,
        )
        return Scores.of(tally, tuple(codes))


def _log(p: float) -> float:
    """The logarithm of 0 < p < inf, with the same last bit as that of the kernels.

    The formula of `take_logs` in plain Python, from fdlibm's e_log.c. The library's log has another
    last bit for 3 % of the probabilities.
    """
    bits = unpack("<q", pack("<d", p))[0]
    k = (bits - HALF_ROOT) >> 52
    f = unpack("<d", pack("<q", bits - (k << 52)))[0] - 1.0
    half = 0.5 * f * f
    r = f / (2.0 + f)
    z = r * r
    u = z * z
    even = u * (0.3999999999940941908 + u * (0.2222219843214978396 + u * 0.1531383769920937332))
    odd = 0.2857142874366239149 + u * (0.1818357216161805012 + u * 0.1479819860511658591)
    odd = z * (0.6666666666666735130 + u * odd)
    low = r * (half + (odd + even)) + k * 1.90821492927058770002e-10
    return float(k * 6.93147180369123816490e-01 - ((half - low) - f))


class PlainScores(metrics.base.MultiClassMetric):
    """Our scores as a metric of river: plain sums, one prediction after the other.

    Parameters
    ----------
    window
        The N of the scores of the last N predictions.
    """

    def __init__(self, window: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.window = window
        self.scored = 0
        self._whole, self._fading = _Sums(1.0), _Sums(1.0 / FADING_FACTOR)
        self._last: list[tuple[Label, Label, tuple[float, float, float], Mapping[Any, float]]] = []

    @property
    def requires_labels(self) -> bool:
        """False: it reads probabilities."""
        return False

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Count a prediction."""
        true: Label = y_true
        predicted = max(y_pred, key=y_pred.__getitem__)
        sure, p, squares = y_pred[predicted], y_pred.get(true, 0.0), 0.0
        for share in y_pred.values():
            squares += share * share
        brier = (1.0 - 2.0 * p) + squares
        loss = 0.0 - _log(max(p, kernels.SMALLEST))
        for sums in (self._whole, self._fading):
            sums.add(true, predicted, loss, sure, brier)
        row = (true, predicted, (loss, sure, brier), y_pred)
        if len(self._last) < self.window:
            self._last.append(row)
        else:
            self._last[self.scored % self.window] = row
        self.scored += 1

    def revert(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Not possible: the sums have no inverse."""
        raise NotImplementedError

    def get(self) -> float:
        """The accuracy."""
        return self._whole.scores(self._codes()).accuracy or 0.0

    def scores(self, classes: Iterable[Label]) -> Mapping[str, Scores]:
        """Window to scores. Scores against the baselines are not computed."""
        codes = {label: code for code, label in enumerate(classes)}
        made = (self._whole.scores(codes), self._table(codes), self._fading.scores(codes))
        return dict(zip(windows(self.window), made, strict=True))

    def _codes(self) -> dict[Label, int]:
        labels = {label for pair in self._whole.pairs for label in pair}
        return {label: code for code, label in enumerate(labels)}

    def _table(self, codes: Mapping[Label, int]) -> Scores:
        """The scores of the last predictions."""
        n, ranked = len(self._last), list(codes)[:RANKED]
        pairs = np.full((4, n), -1, dtype=np.int32)
        measures, posterior = np.zeros((5, n)), np.zeros((n, len(ranked)))
        for i, (true, predicted, found, proba) in enumerate(self._last):
            pairs[0, i], pairs[1, i] = codes[true], codes[predicted]
            measures[:3, i] = found
            posterior[i] = [proba.get(label, 0.0) for label in ranked]
        return PredictionTable(pairs, measures, posterior, len(codes)).scores(tuple(codes))


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
