"""What a record takes while kernels are Python, as at a first start.

    python -m benchmarks.first_start [--write]

`--write` puts the table, with its date, into docs/performance.md. The time is that of the
processor.
"""

from __future__ import annotations

import argparse
import os
from statistics import median
from time import process_time

import numpy as np

from benchmarks.performance import show
from stream import KNNClassifier, Mixture, SpamScorer
from stream.learner.base import Learner

SEED = 44
KNOWN, ROUNDS = 20, 5  # records before the clock starts; groups that are timed
WINDOW = 1000
LETTERS = 4096  # of a mail
CASES = ("8 numbers", "100 numbers", "a mail of 4 KB", "8 numbers, a full window of 1,000")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    os.environ["HEADWATER_KERNELS"] = "interpreted"  # read at the first call of a kernel
    rows = ["| learner | record | ms for a prediction and its label |", "|---|---|---|"]
    for learner, case in zip(learners(), CASES, strict=True):
        name = "auto" if isinstance(learner, Mixture) else type(learner).__name__
        rows.append(f"| {name} | {case} | {milliseconds(learner, case):.3g} |")
    show("first_start", rows, write=write)


def learners() -> tuple[Learner, ...]:
    """That of each case."""
    return Mixture(), Mixture(), SpamScorer(), KNNClassifier(window=WINDOW)


def milliseconds(learner: Learner, case: str) -> float:
    """The median over groups of records, each predicted and then learned."""
    few = 2 if "mail" in case else 10
    known = WINDOW if "window" in case else KNOWN
    given = records(case, known + ROUNDS * few)
    if "window" in case:  # by far fewer calls than records
        learner.learn_many([x for x, _ in given[:known]], [y for _, y in given[:known]])
    else:
        for x, y in given[:known]:
            learner.learn_one(x, y)
    taken = []
    for first in range(known, len(given), few):
        began = process_time()
        for x, y in given[first : first + few]:
            learner.predict_proba_one(x)
            learner.learn_one(x, y)
        taken.append((process_time() - began) / few * 1e3)
    return median(taken)


def records(case: str, n: int) -> list[tuple[dict[str, object], str]]:
    """Records of two classes."""
    rng = np.random.default_rng(SEED)
    labels = ["spam" if positive else "ham" for positive in rng.random(n) < 0.5]
    if "mail" in case:
        words = [f"word{i}" for i in range(3000)]
        return [({"text": " ".join(rng.choice(words, 480))[:LETTERS]}, y) for y in labels]
    count = int(case.split()[0])
    values = rng.normal(size=(n, count)) + np.array([y == "spam" for y in labels])[:, None]
    return [
        ({f"x{i}": float(v) for i, v in enumerate(row)}, y)
        for row, y in zip(values, labels, strict=True)
    ]


if __name__ == "__main__":
    main()
