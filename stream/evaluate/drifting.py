"""Execute a block while watching for drift. An alarm takes effect after its record, not after the
block.

Rule: all steps are executed at once, as if there were no alarm. If an alarm replaces the learner,
the steps after the alarm are executed again by the new learner. Nothing is rolled back, because the
old learner is dropped. So a block without an alarm costs one check, and any split of the stream
gives the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream.data.block import LEARN, PREDICT, Block, Floats
from stream.data.schema import Dictionary
from stream.drift.detectors import compile_detectors
from stream.drift.monitor import Alarm, Series
from stream.drift.watch import DriftWatch
from stream.evaluate import _kernels as kernels
from stream.evaluate.explained import ExplainedPredictions, ExplanationSettings, run_explained
from stream.evaluate.labelled import LabelledPredictions
from stream.join.silence import Silence
from stream.learner.base import Learner, Predictions
from stream.learner.predictions import connected

__all__ = ["BlockContext", "compile_drift", "executed"]


class BlockContext(NamedTuple):
    """What happened before a block.

    Parameters
    ----------
    events
        The event of each step.
    scored
        How many predictions were scored.
    made
        The steps, and the predictions that their labels belong to.
    silence
        See `run_explained`.
    """

    events: Sequence[int]
    scored: int
    made: LabelledPredictions
    silence: Silence | None = None


def executed(
    learner: Learner,
    drift: DriftWatch,
    why: ExplanationSettings | None,
    context: BlockContext,
    labels: Dictionary,
    features: Mapping[str, Floats],
) -> tuple[Learner, ExplainedPredictions, list[Alarm]]:
    """Execute the steps of a block. Returns the learner to continue with.

    Parameters
    ----------
    why, labels
        See `run_explained`.
    features
        For each watched feature its value in each row; NaN if it is missing.

    Returns
    -------
    Learner
        The learner to continue with.
    Predictions, list of Explanation
        See `run_explained`.
    list of Alarm
        In order, each at its event.
    """
    block = context.made.block
    last = len(block) - 1
    codes = np.array([labels.codes.get(label, -1) for label in block.labels], dtype=np.int64)
    drift.monitors.begin(_features(block, features))
    proven = len(learner.classes) > 0
    whole = run_explained(learner, block, why, labels, context.silence)
    alarms: list[Alarm] = []
    start = 0
    while True:
        series = _series(context.made, codes, whole[0], start)
        more, stop = drift.monitors.look(series, last)
        alarms += more
        end = last if stop is None else stop
        steps = start + np.flatnonzero(block.op[start : end + 1] != PREDICT)
        drift.learned(block, steps, codes)
        if stop is None:
            break
        acting = [alarm for alarm in more if alarm.at == stop]
        proven = proven or steps.size > 0
        learner = drift.replacement(learner, proven, acting, list(labels))
        # What the old learner noted in rows says nothing about the new one.
        block.rows.memo = None
        context.made.waiting.forget_memos()
        start = stop + 1
        if start <= last:
            rest = block.slice(start, last + 1)
            whole = _joined(whole, run_explained(learner, rest, why, labels, context.silence))
    return learner, whole, _completed(alarms, codes, whole[0], context) if alarms else []


def _completed(
    alarms: list[Alarm], codes: NDArray[np.int64], predictions: Predictions, context: BlockContext
) -> list[Alarm]:
    """The alarms with the event of each, and the number of predictions scored by then."""
    steps = _series(context.made, codes, predictions, 0)["error"].step
    scored = np.searchsorted(steps, [alarm.at for alarm in alarms], side="right").tolist()
    return [
        alarm._replace(at=context.events[alarm.at], scored=context.scored + n)
        for alarm, n in zip(alarms, scored, strict=True)
    ]


def _joined(before: ExplainedPredictions, after: ExplainedPredictions) -> ExplainedPredictions:
    """Predictions with the last ones replaced by `after`."""
    (old, why), (new, more) = before, after
    keep = len(old) - len(new)
    made = connected([old.part(0, keep), new], new.classes)
    return made, None if why is None else [*why[:keep], *(more or [])]


def _features(block: Block, features: Mapping[str, Floats]) -> dict[str, Series]:
    """The series of each feature of the observations, in order."""
    steps = np.flatnonzero(block.op != LEARN)
    out = {}
    for name, column in features.items():
        values = column[block.row[steps]]
        there = ~np.isnan(values)
        out[name] = Series(steps[there], values[there])
    return out


def _series(
    made: LabelledPredictions, codes: NDArray[np.int64], predictions: Predictions, start: int
) -> dict[str, Series]:
    """The series error, log_loss and score of the steps from `start` on."""
    block, predicting = made.block, made.predicting
    first = int(np.searchsorted(predicting, start))
    known = predictions.known[first:] > 0
    top = np.maximum.reduce(predictions.proba[first:], axis=1, initial=0.0)
    out = {"score": Series(predicting[first:][known], top[known])}

    steps = made.scored(block.op != PREDICT)
    steps = steps[steps >= start]
    true, answer, p_true = made.outcomes(steps, codes, predictions, predictions.best())
    named = answer >= 0  # predictions without a class are not scored either
    out["error"] = Series(steps[named], (answer != true)[named].astype(np.float64))
    out["log_loss"] = Series(steps[named], kernels.losses(p_true[named]))
    return out


def compile_drift() -> None:
    """Compile the kernels that watch for drift."""
    compile_detectors()
    kernels.losses(np.ones(1))
