"""How often a challenger that is no better would be promoted: python -m tests.long.promotions.

Streams on which the challenger is not better, looked at after every record, by the kernels of the
service. Two figures a kind of stream: how many reach e = 20 at any record, and how many have a
record at which the interval of the Brier difference does not hold what it should. Each at most 5 %.
"""

from __future__ import annotations

import argparse
import sys
from datetime import date
from math import log
from pathlib import Path

import numpy as np
from numba import njit
from numpy.random import Generator
from numpy.typing import NDArray

from stream.contest.compare import LEVEL, Comparison
from stream.contest.compare import _kernels as kernels

__all__ = ["NULLS", "drawn", "false_promotions", "missed"]

PAGE = Path(__file__).parents[2] / "docs" / "challengers.md"
THRESHOLD = 20.0
HEAD = (
    "| date | challenger | streams × records | reach e = 20 | interval misses |\n"
    "|---|---|---|---|---|\n"
)
NULLS = {
    "as good": "as good as the champion; they differ on half of the records",
    "nearly the same": "as good as the champion; they differ on 1 % of the records",
    "by turns": "better and worse in turn, predictable from the past; right with probability 1/2 "
    "where they differ",
    "worse": "right on 49 % of the records where they differ",
}

Streams = tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.float64], NDArray[np.float64]]


def drawn(name: str, n: int, rng: Generator) -> tuple[Streams, NDArray[np.float64]]:
    """Who was right and the Brier scores, and the expectation of each difference."""
    share = {"nearly the same": 0.01}.get(name, 0.5)
    differ = rng.random(n) < share
    if name == "by turns":  # they differ after they did, and with a seasonal rate
        season = 0.5 + 0.45 * np.sin(np.arange(n) / 500)
        differ = rng.random(n) < np.where(np.roll(differ, 1), season, 0.1)
    chance = 0.49 if name == "worse" else 0.5
    wins = rng.random(n) < chance
    same = rng.random(n) < 0.8
    champion = np.where(differ, ~wins, same).astype(np.int8)
    challenger = np.where(differ, wins, same).astype(np.int8)
    # Sure ones are right more often than not; who is right of two has the lower score.
    high, low = 2.0 * rng.beta(4, 2, n), 2.0 * rng.beta(1, 6, n)
    lost = np.where(champion == 1, low, high)
    spared = np.where(challenger == 1, low, high)
    mean = np.zeros(n)
    if name == "worse":  # the past foretells whether they differ only in "by turns"
        mean += share * (2 * chance - 1) * (2.0 * 4 / 6 - 2.0 / 7)
    return (champion, challenger, lost, spared), mean


def false_promotions(name: str, streams: int, records: int, seed: int) -> int:
    """How many streams reach the threshold at any of their records."""
    reached = 0
    for i in range(streams):
        given, _ = drawn(name, records, np.random.default_rng([seed, i]))
        reached += Comparison().advance(*given, threshold=THRESHOLD) is not None
    return reached


def missed(name: str, streams: int, records: int, seed: int) -> int:
    """How many streams have a record at which the interval is not around what it should hold."""
    out = 0
    for i in range(streams):
        (_, _, lost, spared), mean = drawn(name, records, np.random.default_rng([seed, i]))
        out += bool(_leaves(lost - spared, mean, log(2.0 / LEVEL)))
    return out


@njit
def _leaves(differences, means, wanted):  # type: ignore[no-untyped-def]
    """Whether the sum is ever beyond the radius: the mixture is looked at after each record."""
    total, off, expected = 0.0, 0.0, 0.0
    for n in range(differences.shape[0]):
        foreseen = total / n if n > 0 else 0.0
        off += (differences[n] - foreseen) ** 2
        total += differences[n]
        expected += means[n]
        if kernels.excess(abs(total - expected), off) >= wanted:
            return True
    return False


def main() -> int:
    """Print a row a kind of stream; 1 where one is above 5 %."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--write", type=Path, default=PAGE, help="the page that ends with the table"
    )
    parser.add_argument("--print", action="store_true", help="write no row, only print them")
    options = parser.parse_args()
    rows, worst = [], 0.0
    for name, words in NULLS.items():
        told = (name, options.streams, options.records, options.seed)
        reached, outside = false_promotions(*told), missed(*told)
        worst = max(worst, reached / options.streams, outside / options.streams)
        size = f"{options.streams:,} × {options.records:,}"
        shares = f"{reached / options.streams:.1%} | {outside / options.streams:.1%}"
        rows.append(f"| {date.today().isoformat()} | {words} | {size} | {shares} |\n")
        sys.stdout.write((HEAD if len(rows) == 1 else "") + rows[-1])
        sys.stdout.flush()
    if not options.print:
        with options.write.open("a") as file:
            file.write("".join(rows))
    return int(worst > LEVEL)


if __name__ == "__main__":
    sys.exit(main())
