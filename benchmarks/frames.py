"""GaussianNB by DataFrames: headwater, river 0.26 and scikit-learn side by side.

    python -m benchmarks.frames [--rounds 7] [--write]

`--write` puts the table, with its date, into docs/performance.md, which says what is timed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from river import naive_bayes
from sklearn import naive_bayes as sklearn

from benchmarks.performance import put
from benchmarks.race import Seconds, clock, micro, race, ratio
from stream import GaussianNB

ROWS, FEATURES = 100_000, 8
LEAST = 0.05  # seconds of a run, in which quick calls are repeated
LABELS = np.array(["no", "yes"])


def columns(n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """float64 columns of two normal classes, without missing values, which scikit-learn refuses."""
    rng = np.random.default_rng(18)
    y = rng.integers(0, 2, n)
    return {f"x{j}": rng.normal(size=n) + 0.5 * y for j in range(FEATURES)}, y


def seconds(work: Callable[[], object], rows: int) -> Seconds:
    """CPU seconds a row, of as many calls as take a while."""
    calls = max(1, int(LEAST / clock(work, 1)))
    return lambda: clock(lambda: [work() for _ in range(calls)], calls * rows)


def learning(x: Any, y: Any, size: int) -> dict[str, Seconds]:
    """A new learner of each peer learns the frame, `size` rows a call."""
    classes = np.unique(y)
    calls = [(x[i : i + size], y[i : i + size]) for i in range(0, len(x), size)]

    def ours() -> None:
        learner = GaussianNB()
        for some in calls:
            learner.learn_many(*some)

    def rivers() -> None:
        learner = naive_bayes.GaussianNB()
        for some in calls:
            learner.learn_many(*some)

    def theirs() -> None:
        learner = sklearn.GaussianNB()
        for some in calls:
            learner.partial_fit(*some, classes=classes)

    works = {"headwater": ours, "river": rivers, "scikit-learn": theirs}
    return {name: seconds(work, len(x)) for name, work in works.items()}


def predicting(x: Any, y: Any, method: str) -> dict[str, Seconds]:
    """Learners that know the frame predict it in one call: `predict` or `predict_proba`."""
    ours, rivers = GaussianNB(), naive_bayes.GaussianNB()
    ours.learn_many(x, y)
    rivers.learn_many(x, y)
    theirs = sklearn.GaussianNB().fit(x, y)
    works = {
        "headwater": getattr(ours, f"{method}_many"),
        "river": getattr(rivers, f"{method}_many"),
        "scikit-learn": getattr(theirs, method),
    }
    return {name: seconds(lambda work=work: work(x), len(x)) for name, work in works.items()}


def by_dicts(x: pd.DataFrame, y: pd.Series) -> dict[str, Seconds]:
    """The same rows as dicts, which are made before."""
    xs, ys = x.to_dict("records"), y.tolist()
    rivers = naive_bayes.GaussianNB()

    def loop() -> None:
        for each, label in zip(xs[:1000], ys, strict=False):
            rivers.learn_one(each, label)

    return {
        "headwater": seconds(lambda: GaussianNB().learn_many(xs, ys), len(xs)),
        "river": seconds(loop, 1000),
    }


def races() -> dict[str, dict[str, Seconds]]:
    """The runs of each row of the table."""
    by_column, y = columns(ROWS)
    frame, labels = pd.DataFrame(by_column), pd.Series(y)
    polars = pl.DataFrame(by_column)
    texts = pd.Series(LABELS[y])
    return {
        "learn, pandas, 10,000 rows a call": learning(frame, labels, 10_000),
        "the same, labels are texts": learning(frame, texts, 10_000),
        "learn, pandas, 100 rows a call": learning(frame[:10_000], labels[:10_000], 100),
        "learn, Polars, 10,000 rows a call": learning(polars, pl.Series(y), 10_000),
        "learn, a list of dicts (river: `learn_one`)": by_dicts(frame, labels),
        "predict, pandas, in one call": predicting(frame, labels, "predict"),
        "probabilities, pandas, in one call": predicting(frame, labels, "predict_proba"),
    }


def main() -> None:
    """Run every race, print the table, and write it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    rows = [
        "| | headwater | river | scikit-learn | river ÷ headwater | scikit-learn ÷ headwater |",
        "|---|" + "---|" * 5,
    ]
    for name, runs in races().items():
        times = race(
            runs["headwater"], {k: v for k, v in runs.items() if k != "headwater"}, args.rounds
        )
        peers = ("river", "scikit-learn")
        shown = [
            micro(median(times[peer])) if peer in times else "–" for peer in ("headwater", *peers)
        ]
        ratios = [f"{ratio(times, peer):.1f} ×" if peer in times else "–" for peer in peers]
        rows.append(f"| {name} | {' | '.join(shown + ratios)} |")
        print(rows[-1], flush=True)  # noqa: T201  a benchmark reports
    if args.write:
        put("frames", rows)


if __name__ == "__main__":
    main()
