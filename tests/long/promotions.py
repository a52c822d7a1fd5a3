"""How often a challenger that is no better would be promoted: python -m tests.long.promotions.

Streams of pairs of models, looked at after every record by the kernels of the service. Figures for
each kind of stream: how many reach e = 20 at any record, and how many have a record at which the
interval of the Brier difference does not hold what it should. Each at most 5 % where the challenger
is no better. Where it is better, also after how many records half of the streams reach e = 20.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from stream.contest.compare import LEVEL, Comparison

__all__ = ["BETTER", "NULLS", "Pair", "observed"]

PAGE = Path(__file__).parents[2] / "docs" / "challengers.md"
THRESHOLD = 20.0
HEAD = (
    "| date | challenger | kinds × streams × records | reach e = 20, at most | records until then, "
    "median | interval misses, at most |\n|---|---|---|---|---|---|\n"
)
DELAY = 500
WINDOW = 50  # newest records of each class that a learner of `learned` knows
Truths = NDArray[np.bool_]


class Pair(NamedTuple):
    """Who was right, the Brier scores, the labels, and the mean difference in the long run."""

    champion: NDArray[np.int8]
    challenger: NDArray[np.int8]
    lost: NDArray[np.float64]
    spared: NDArray[np.float64]
    labels: NDArray[np.int64]
    mean: float


def chain(n: int, rng: Generator, stay: float) -> NDArray[np.int64]:
    """Labels 0 and 1 that are those of the record before with probability `stay`."""
    return (np.cumsum(rng.random(n) > stay) + rng.integers(2)) % 2


def scored(champion: Truths, challenger: Truths, labels: Any, rng: Generator, mean: float) -> Pair:
    """The pair with Brier scores: who is right has the lower one."""
    n = champion.size
    high, low = 2.0 * rng.beta(4, 2, n), 2.0 * rng.beta(1, 6, n)
    lost, spared = np.where(champion, low, high), np.where(challenger, low, high)
    return Pair(champion.astype(np.int8), challenger.astype(np.int8), lost, spared, labels, mean)


def independent(n: int, rng: Generator, share: float, chance: float, seasons: bool = False) -> Pair:
    """They differ on `share` of the records, and the challenger wins `chance` of these."""
    differ = rng.random(n) < share
    if seasons:  # they differ after they did, and with a seasonal rate
        season = 0.5 + 0.45 * np.sin(np.arange(n) / 500)
        differ = rng.random(n) < np.where(np.roll(differ, 1), season, 0.1)
    wins, same = rng.random(n) < chance, rng.random(n) < 0.8
    mean = share * (2 * chance - 1) * (2.0 * 4 / 6 - 2.0 / 7)
    labels = rng.integers(2, size=n)
    return scored(np.where(differ, ~wins, same), np.where(differ, wins, same), labels, rng, mean)


def constant(n: int, rng: Generator, stay: float, delay: int = 0) -> Pair:
    """Each knows one class: the same one always, or the one of `delay` records ago."""
    labels = chain(n, rng, stay)
    known = (
        np.concatenate([np.zeros(delay, np.int64), labels[: n - delay]]) if delay else 0 * labels
    )
    return scored(known == labels, known != labels, labels, rng, 0.0)


def shares(n: int, rng: Generator, period: int) -> Pair:
    """Each knows one class, and the shares of the classes drift."""
    wave = 0.3 * np.sin(2 * np.pi * (np.arange(n) / period + rng.random()))
    labels = (rng.random(n) < 0.5 + wave).astype(np.int64)
    return scored(labels == 0, labels == 1, labels, rng, 0.0)


def hidden(n: int, rng: Generator, stay: float) -> Pair:
    """Where they differ, each wins 70 % by turns, and no label shows whose turn it is."""
    turn = chain(n, rng, stay)
    differ, same = rng.random(n) < 0.3, rng.random(n) < 0.8
    wins = rng.random(n) < 0.3 + 0.4 * turn
    labels = rng.integers(2, size=n)
    return scored(np.where(differ, ~wins, same), np.where(differ, wins, same), labels, rng, 0.0)


def learned(n: int, rng: Generator, stay: float, delay: int = 0, drift: float = 0.0) -> Pair:
    """Both learn the means of one feature by class, each of its own feature, equally good."""
    labels = chain(n, rng, stay)
    out = []
    for _ in range(2):
        x = 1.4 * labels + rng.normal(size=n) + drift * np.cumsum(rng.normal(size=n))
        distance = np.empty((2, n))
        for c in range(2):
            at = np.flatnonzero(labels == c)
            total = np.concatenate([[0.0], np.cumsum(x[at])])
            known = np.searchsorted(at, np.arange(n) - delay)
            oldest = np.maximum(known - WINDOW, 0)
            distance[c] = x - (total[known] - total[oldest]) / np.maximum(known - oldest, 1)
        odds = np.clip((distance[0] ** 2 - distance[1] ** 2) / 2, -30, 30)
        one = 1 / (1 + np.exp(-odds))
        out.append(((one > 0.5) == labels, 2 * (one - labels) ** 2))
    (right, lost), (other, spared) = out
    return Pair(right.astype(np.int8), other.astype(np.int8), lost, spared, labels, 0.0)


Draw = Callable[[int, Generator], Pair]
NULLS: dict[str, Draw] = {
    "as good; they differ on half of the records": partial(independent, share=0.5, chance=0.5),
    "as good; they differ on 1 % of the records": partial(independent, share=0.01, chance=0.5),
    "as good; when they differ is predictable": partial(
        independent, share=0.5, chance=0.5, seasons=True
    ),
    "right on 49 % of the records where they differ": partial(independent, share=0.5, chance=0.49),
    **{
        f"each knows one class; the label stays with probability {stay}": partial(
            constant, stay=stay
        )
        for stay in (0.8, 0.9, 0.99)
    },
    **{
        f"each knows a label {DELAY} records old, or its opposite; it stays with {stay}": partial(
            constant, stay=stay, delay=DELAY
        )
        for stay in (0.8, 0.9, 0.98, 0.99)
    },
    "each knows one class, whose share drifts; in 200 records": partial(shares, period=200),
    "each knows one class, whose share drifts; in 1,000 records": partial(shares, period=1000),
    "each wins 70 % in turn, for 100 records": partial(hidden, stay=0.99),
    **{
        f"both learn, each of its own feature{late}{drifts}; the label stays with {stay}": partial(
            learned, stay=stay, delay=delay, drift=drift
        )
        for late, delay in (("", 0), (f", labels {DELAY} late", DELAY))
        for drifts, drift in (("", 0.0), (", which drifts", 0.03))
        for stay in (0.5, 0.9, 0.99)
    },
}
BETTER: dict[str, Draw] = {
    f"right on {chance:.0%} of the records where they differ, {share:.0%} of all": partial(
        independent, share=share, chance=chance
    )
    for share, chance in ((0.1, 0.9), (0.1, 0.7), (0.1, 0.6), (0.5, 0.55), (0.5, 0.52))
}


def observed(pair: Pair) -> tuple[int | None, bool]:
    """The record at which e = 20 is reached, and whether the interval ever misses the mean.

    The interval is looked at whenever there are 5 % more records.
    """
    comparison, start, reached, misses = Comparison(), 0, None, False
    given, n = (*pair[:4],), pair.labels.size
    while start < n:
        stop = min(n, max(1000, start + start // 20))
        if reached is None:
            reached = comparison.advance(*given, start, stop, THRESHOLD, true=pair.labels)
            start = stop if reached is None else reached + 1
        if start < stop:
            comparison.advance(*given, start, stop, true=pair.labels)
            start = stop
        view = comparison.view()
        misses |= not view.lower <= pair.mean <= view.upper  # type: ignore[operator]
    return reached, misses


def main() -> int:
    """Print a row for each kind of stream; 1 where one is above 5 %."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--write", type=Path, default=PAGE, help="the page that ends with the table"
    )
    parser.add_argument("--print", action="store_true", help="write no row, only print them")
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float, str]]] = {}
    for name, draw in {**NULLS, **BETTER}.items():
        pairs = [
            observed(draw(options.records, np.random.default_rng([options.seed, i])))
            for i in range(options.streams)
        ]
        at = sorted(options.records if at is None else at + 1 for at, _ in pairs)
        reached = sum(at is not None for at, _ in pairs) / options.streams
        outside = sum(misses for _, misses in pairs) / options.streams
        half = f"{at[len(at) // 2]:,}" if reached > 0.5 else "–"
        sys.stdout.write(f"{name}: {reached:.1%}, {half}, {outside:.1%}\n")
        sys.stdout.flush()
        found.setdefault(name.partition("; ")[0], []).append((reached, outside, half))
    rows, worst = [], 0.0
    for name, kinds in found.items():
        reached, outside, half = (max(each) for each in zip(*kinds, strict=True))
        worst = max(worst, outside, 0.0 if name in BETTER else reached)
        size = f"{len(kinds)} × {options.streams:,} × {options.records:,}"
        shown = f"{size} | {reached:.1%} | {half} | {outside:.1%}"
        rows.append(f"| {date.today().isoformat()} | {name} | {shown} |\n")
    sys.stdout.write(HEAD + "".join(rows))
    if not options.print:
        with options.write.open("a") as file:
            file.write("".join(rows))
    return int(worst > LEVEL)


if __name__ == "__main__":
    sys.exit(main())
