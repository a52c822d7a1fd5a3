"""Every score beside its oracle's, over real streams: python -m tests.long.metrics [--write].

`--write` puts the table, with its date, into docs/quality.md. Ends with 1 where a difference is
above 1e-9.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from river import datasets

from stream import GaussianNB, KNNClassifier, Learner
from stream.decision import BayesDecision, OverallRisk
from stream.evaluate import QualityView, progressive
from stream.evaluate.quality import FADING_FACTOR
from tests.oracles.scores import FORMULA, LAST_ONLY, TABLE, Twin, difference, watched

PAGE = Path(__file__).resolve().parents[2] / "docs/quality.md"
MARK = "<!-- written by python -m tests.long.metrics --write -->"
END = "<!-- end of what tests.long.metrics wrote -->"
MOST = 1e-9
ABSTAIN = 0.01


class Run(NamedTuple):
    """A stream, a learner, when labels come, how many the last ones are."""

    name: str
    dataset: Callable[[], Any]
    learner: Callable[[], Learner]
    delay: int
    window: int


RUNS = (
    Run("Phishing", datasets.Phishing, GaussianNB, 0, 1000),
    Run("Phishing", datasets.Phishing, KNNClassifier, 25, 500),
    Run("Bananas", datasets.Bananas, GaussianNB, 100, 1000),
    Run("Bananas", datasets.Bananas, KNNClassifier, 0, 5000),
    Run("ImageSegments", datasets.ImageSegments, GaussianNB, 0, 1000),
    Run("ImageSegments", datasets.ImageSegments, GaussianNB, 50, 10_000),
)


def measured(run: Run) -> tuple[QualityView, Twin]:
    """Our scores, and every prediction made one by one."""
    *_, view = progressive(run.dataset(), run.learner(), delay=run.delay, window=run.window)
    return view, watched(run.dataset(), run.learner(), delay=run.delay or None)


def lines() -> Iterator[tuple[str, str, str, float]]:
    """Score, what it was of the last run's last window, whose oracle, largest difference."""
    found = [(run, *measured(run)) for run in RUNS]
    for name, (ours, oracle, whose) in {**TABLE, **LAST_ONLY}.items():
        worst, value = 0.0, None
        for run, view, twin in found:
            for window, scores in view.scores.items():
                if name in LAST_ONLY and window != view.last:
                    continue
                of, w = twin.window(window, run.window, FADING_FACTOR)
                value = ours(scores)
                worst = max(worst, difference(value, oracle(of, w)))
        shown = f"{value:.6f}" if isinstance(value, float) else "a list"
        yield name, shown, whose, worst
    yield from decided(found[-1][2], RUNS[-1].window)


def decided(twin: Twin, window: int) -> Iterator[tuple[str, str, str, float]]:
    """Risk and coverage where saying nothing costs a hundredth of a mistake."""
    risk = OverallRisk(BayesDecision(None, ABSTAIN), window)
    losses, abstained = [], []
    for true, proba in zip(twin.true, twin.proba, strict=True):
        posterior = {c: p for c, p in enumerate(proba) if p > 0}
        risk.update(true, risk.rule.decide_one(posterior))
        abstained.append(1 - max(proba) > ABSTAIN)
        losses.append(
            ABSTAIN if abstained[-1] else float(max(posterior, key=posterior.get) != true)
        )
    loss, none = np.array(losses), np.array(abstained)
    n = len(loss)
    weights = np.ones(n), 1.0 * (np.arange(n) >= n - window), FADING_FACTOR ** np.arange(n)[::-1]
    for name, value, expected in (
        ("risk", lambda r: r.risk, lambda w: np.average(loss, weights=w)),
        ("coverage", lambda r: r.coverage, lambda w: np.average(~none, weights=w)),
        (
            "selective risk",
            lambda r: r.selective_risk,
            lambda w: np.average(loss, weights=w * ~none),
        ),
    ):
        pairs = [(value(r), expected(w)) for r, w in zip(risk.windows, weights, strict=True)]
        worst = max(difference(ours, theirs) for ours, theirs in pairs)
        yield f"{name} of decisions", f"{pairs[-1][0]:.6f}", FORMULA, worst


def table(found: list[tuple[str, str, str, float]]) -> Iterator[str]:
    """The scores of each oracle as a row of Markdown."""
    yield "| oracle | scores | largest difference |"
    yield "|---|---|---|"
    for oracle in dict.fromkeys(whose for _, _, whose, _ in found):
        compared = [(name, worst) for name, _, whose, worst in found if whose == oracle]
        names = "; ".join(name for name, _ in compared)
        yield f"| {oracle} | {names} | {max(worst for _, worst in compared):.1e} |"


def main() -> int:
    """Print the table, and keep it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found = list(lines())
    for name, value, whose, worst in found:
        sys.stdout.write(f"{name}: {value}, {worst:.1e} from {whose}\n")
    text = "\n".join(table(found)) + "\n"
    if options.write:
        runs = "; ".join(
            f"{r.name}, {r.learner.__name__}, labels {r.delay} records late, last {r.window:,}"
            for r in RUNS
        )
        head, rest = PAGE.read_text().split(MARK)
        today = time.strftime("%Y-%m-%d")
        PAGE.write_text(
            f"{head}{MARK}\nMeasured {today}, three windows each: {runs}.\n\n{text}"
            f"{END}{rest.split(END)[1]}"
        )
    return int(any(worst > MOST for *_, worst in found))


if __name__ == "__main__":
    sys.exit(main())
