"""Does the false positive rate stay within its budget: python -m tests.long.budget.

Streams of scores with known distributions, through the code of the service: labels come late and
for some records only. Three figures: the share of streams in which the rate of flags among all
others, labelled or not, is above the budget at any record; that rate at the end, as a share of the
budget, in the mean and in the worst stream; and how many of the flagged label are found from the
first threshold on, beside the threshold with exactly the budget.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from datetime import date
from math import log
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import binom, norm

from stream.decision import Budget, FalsePositiveBudget
from stream.decision.budget import EVIDENCE, NO_LABEL

__all__ = ["Run", "most", "simulate", "summary"]

PAGE = Path(__file__).parents[2] / "docs" / "budget.md"
HEAD = (
    "| date | budget | records | delay | labelled | streams | above the budget | rate "
    "at the end | worst | recall | of the best |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
)
EVERY = 500
APART, SPAM = 4.0, 0.3  # distance of the two normal distributions of scores; share of the label


@dataclass(frozen=True)
class Run:
    """One stream: whether the rate exceeded the budget; the rate at the end, as a share of it; the
    first record with a threshold, or None; the label's records from there on, those found, those
    the best finds."""

    above: bool
    rate: float
    first: int | None
    spam: int
    found: int
    best: int


def simulate(rate: float, n: int, delay: int, share: float, rng: Generator) -> Run:
    """One stream of n records."""
    spam = rng.random(n) < SPAM
    score = rng.standard_normal(n) + APART * spam
    p = 1 / (1 + np.exp(-(APART * score - APART**2 / 2 + log(SPAM / (1 - SPAM)))))
    evidence = ~spam & (rng.random(n) < share)
    budget = FalsePositiveBudget(Budget("spam", rate))
    parts: list[NDArray[np.bool_]] = []
    flagged, first = np.zeros(0, dtype=np.bool_), None
    for start in range(0, n, EVERY):
        stop = min(n, start + EVERY)
        # Step t predicts record t and then learns the label of record t - delay.
        of = np.arange(start, stop) - delay
        there = of >= 0
        source = np.where(of >= start, of - start, -1)
        at = np.maximum(of, 0)
        labels = np.where(there & evidence[at], EVIDENCE, NO_LABEL)
        before = np.zeros(stop - start, dtype=np.bool_)
        waited = there & (source < 0)
        if waited.any():
            flagged = np.concatenate([flagged, *parts])
            parts.clear()
            before[waited] = flagged[at[waited]]
        steps = np.arange(stop - start)
        early = np.zeros(stop - start, dtype=np.bool_)
        made = budget.follow(steps, p[start:stop], labels, source, (p[at], before, early))
        parts.append(made.flagged)
        threshold = budget.threshold
        if threshold is not None:
            first = stop if first is None else first
    flagged = np.concatenate([flagged, *parts])
    running = np.cumsum(flagged & ~spam) > rate * np.cumsum(~spam)
    late = spam & (np.arange(n) >= (n if first is None else first))
    best = score >= norm.isf(rate)
    counts = (int(late.sum()), int((late & flagged).sum()), int((late & best).sum()))
    spent = float((flagged & ~spam).sum() / (rate * (~spam).sum()))
    return Run(bool(running.any()), spent, first, *counts)


def most(streams: int) -> int:
    """The largest number of 5 % of the streams that chance explains, at 1 in 1,000."""
    return int(binom.isf(1e-3, streams, 0.05))


def summary(runs: list[Run]) -> tuple[int, float, float]:
    """How many were above the budget, recall, and its share of the best."""
    found, spam = sum(r.found for r in runs), sum(r.spam for r in runs)
    best = sum(r.best for r in runs)
    return sum(r.above for r in runs), found / max(spam, 1), found / max(best, 1)


def main() -> int:
    """Run all, write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--write", action="store_true", help="add the rows to docs/budget.md")
    options = parser.parse_args()
    rows, bad = [], 0
    cases = [(0.01, 30_000, d, s) for d in (0, 1000, 5000) for s in (1.0, 0.5, 0.2)]
    cases += [(0.001, 150_000, d, s) for d, s in ((0, 1.0), (5000, 0.5))]
    for rate, n, delay, share in cases:
        n_streams, rng = options.streams, np.random.default_rng([delay, int(100 * share), n])
        runs = [simulate(rate, n, delay, share, rng) for _ in range(n_streams)]
        above, recall, of = summary(runs)
        spent = [run.rate for run in runs]
        bad += above > most(n_streams) or of < 0.9
        row = (
            f"| {date.today():%Y-%m-%d} | {100 * rate:g} % | {n:,} | {delay:,} | {100 * share:g} % "
            f"| {n_streams:,} | {100 * above / n_streams:.1f} % "
            f"| {100 * sum(spent) / n_streams:.0f} % | {100 * max(spent):.0f} % "
            f"| {100 * recall:.1f} % | {100 * of:.1f} % |"
        )
        sys.stdout.write(row + "\n")
        sys.stdout.flush()
        rows.append(row + "\n")
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(text.replace(HEAD, HEAD + "".join(rows)), encoding="utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
