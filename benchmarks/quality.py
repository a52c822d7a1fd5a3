"""What scores cost: python -m benchmarks.quality [--rounds 9] [--write].

GaussianNB, 8 features, 2 classes, blocks of 1,000 records: learning alone, with all scores, and
with the scores of an earlier version (accuracy and log loss in three windows, confusion, accuracy
of two baselines), of which this file has a copy. They take turns in one run. Times are medians of
the CPU time of one thread.
`--write` puts the table, with its date, into docs/performance.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median

import numpy as np
from numba import njit

from benchmarks.performance import show
from benchmarks.race import blocks, clock, normal
from stream import Block, GaussianNB
from stream.evaluate._kernels import losses
from stream.evaluate.quality import FADING_FACTOR, Quality
from stream.learner.base import Predictions

RECORDS = 100_000


@njit(cache=True)
def _before(
    y, label, proba, known, counts, memory, confusion, sums, fading, factor, ring, ring_loss, at
):
    unscored, place, one, end = 0, np.uint64(at), np.uint64(1), np.uint64(ring.shape[0])
    majority, last = memory[0], memory[1]
    p_true = np.empty(y.shape[0])
    for i in range(y.shape[0]):
        p_true[i] = proba[i, label[y[i]]]
    costs = losses(p_true)
    n, loss, a, b, c = sums[0], sums[1], sums[2], sums[3], sums[4]
    n_, loss_, a_, b_, c_ = fading[0], fading[1], fading[2], fading[3], fading[4]
    for i in range(y.shape[0]):
        t = label[y[i]]
        if known[i] == 0:
            unscored += 1
        else:
            best, top = 0, proba[i, 0]
            for k in range(1, proba.shape[1]):
                p = proba[i, k]
                best, top = (k if p > top else best), (p if p > top else top)
            cost = costs[i]
            confusion[t, best] += 1
            ring_loss[place] = cost
            ring[place, 0], ring[place, 1] = t, best
            ring[place, 2], ring[place, 3] = majority, last
            place = place + one if place + one < end else np.uint64(0)
            hit = 1.0 if best == t else 0.0
            hit_b = 1.0 if majority == t else 0.0
            hit_c = 1.0 if last == t else 0.0
            n, n_ = n + 1.0, factor * n_ + 1.0
            loss, loss_ = loss + cost, factor * loss_ + cost
            a, a_ = a + hit, factor * a_ + hit
            b, b_ = b + hit_b, factor * b_ + hit_b
            c, c_ = c + hit_c, factor * c_ + hit_c
        counts[t] += 1
        last = t
        if majority < 0 or counts[t] > counts[majority]:
            majority = t
    memory[0], memory[1] = majority, last
    sums[0], sums[1], sums[2], sums[3], sums[4] = n, loss, a, b, c
    fading[0], fading[1], fading[2], fading[3], fading[4] = n_, loss_, a_, b_, c_
    return place, unscored


class Before:
    """The scores there were before."""

    def __init__(self) -> None:
        self._counts, self._memory = np.zeros(2, dtype=np.int64), np.full(2, -1, dtype=np.int64)
        self._confusion = np.zeros((2, 2), dtype=np.int64)
        self._sums, self._fading = np.zeros(5), np.zeros(5)
        self._ring, self._loss = np.full((1000, 4), -1, dtype=np.int32), np.zeros(1000)
        self._at = 0

    def score_at_once(self, y, label, predictions: Predictions) -> None:
        """Add a block."""
        place, _ = _before(
            y,
            label,
            predictions.proba,
            predictions.known,
            self._counts,
            self._memory,
            self._confusion,
            self._sums,
            self._fading,
            FADING_FACTOR,
            self._ring,
            self._loss,
            self._at,
        )
        self._at = int(place)


def run(stream: list[Block], make: Callable[[], Quality | Before] | None) -> float:
    """Seconds a record, with or without scores."""

    def work() -> None:
        learner, scores = GaussianNB(), None if make is None else make()
        for block in stream:
            predictions = learner.progressive_many(block)
            if scores is not None:
                codes = {label: code for code, label in enumerate(predictions.classes)}
                label = np.array([codes[value] for value in block.labels], dtype=np.int64)
                scores.score_at_once(block.y, label, predictions)

    return clock(work, RECORDS)


def main() -> None:
    """Print the table, and keep it where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    stream = blocks(*normal(RECORDS, 8))
    makes = {"no scores": None, "scores of an earlier version": Before, "all scores": Quality}
    times: dict[str, list[float]] = {name: [] for name in makes}
    for make in makes.values():
        run(stream, make)
    for _ in range(options.rounds):
        for name, make in makes.items():
            times[name].append(run(stream, make))
    lines = ["| | per record | throughput |", "|---|---|---|"]
    for name, found in times.items():
        share = median(a / b for a, b in zip(times["no scores"], found, strict=True))
        lines.append(f"| {name} | {median(found) * 1e9:.1f} ns | {share:.0%} |")
    more = [
        a - b
        for a, b in zip(times["all scores"], times["scores of an earlier version"], strict=True)
    ]
    lines.append(f"| difference of the two | {median(more) * 1e9:.1f} ns | |")
    show("quality", lines, write=options.write)


if __name__ == "__main__":
    main()
