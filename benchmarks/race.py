"""Races: headwater and its peers in turn, one thread each; ratios are medians."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import median

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream import Block, Learner, Rows
from stream.data.block import PREDICT_THEN_LEARN
from stream.evaluate.quality import Quality
from stream.learner.base import Predictions

__all__ = [
    "Line",
    "Seconds",
    "blocks",
    "clock",
    "dicts",
    "normal",
    "progressive",
    "race",
    "seconds_per_log",
    "seconds_per_term",
]

Seconds = Callable[[], float]  # one run; the seconds it took a record


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    benchmark: str
    target: str
    got: str
    ours: str
    peer: str
    limit: str


def clock(work: Callable[[], object], records: int) -> float:
    """Seconds a record of CPU time: what else runs on the machine does not count."""
    started = time.thread_time()
    work()
    return (time.thread_time() - started) / records


def race(ours: Seconds, peers: Mapping[str, Seconds], rounds: int) -> dict[str, list[float]]:
    """Seconds a record of "headwater" and each peer, round by round; a first one is for warming."""
    every = {"headwater": ours, **peers}
    times: dict[str, list[float]] = {name: [] for name in every}
    ours()
    for _ in range(rounds):
        for name, run in every.items():
            times[name].append(run())
    return times


def ratio(times: Mapping[str, Sequence[float]], peer: str) -> float:
    """How many times longer the peer took: the median over the rounds."""
    return median(b / a for a, b in zip(times["headwater"], times[peer], strict=True))


def lines(
    name: str, times: Mapping[str, Sequence[float]], targets: Mapping[str, float], limit: str
) -> list[Line]:
    """A line a peer that has a target."""
    ours = micro(median(times["headwater"]))
    return [
        Line(
            name,
            f"≥ {least:,g} × {peer}",
            f"{ratio(times, peer):,.1f} ×",
            ours,
            micro(median(times[peer])),
            limit,
        )
        for peer, least in targets.items()
    ]


def micro(seconds: float) -> str:
    """Seconds in microseconds."""
    return f"{seconds * 1e6:,.3g} µs"


def normal(n: int, d: int, missing: float = 0.02) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Two normal classes half a deviation apart, some values missing."""
    rng = np.random.default_rng(18)
    y = rng.integers(0, 2, n)
    x = rng.normal(size=(n, d)) + 0.5 * y[:, None]
    x[rng.random((n, d)) < missing] = np.nan
    return x, y


def dicts(x: NDArray[np.float64]) -> list[dict[str, float]]:
    """Rows as river takes them; a missing value is absent."""
    return [{f"x{j}": v for j, v in enumerate(row) if v == v} for row in x.tolist()]


def blocks(x: NDArray[np.float64], y: NDArray[np.int64], size: int = 1000) -> list[Block]:
    """Prepared blocks with weights that differ."""
    names = tuple(f"x{j}" for j in range(x.shape[1]))
    w = np.random.default_rng(2).uniform(0.5, 2.0, len(x))
    out = []
    for a in range(0, len(x), size):
        part = slice(a, a + size)
        none = np.empty((len(x[part]), 0), dtype=object)
        rows = Rows(names, x[part], (), none, (), none)
        out.append(Block.of(rows, PREDICT_THEN_LEARN, y[part].tolist(), w[part].tolist()))
    return out


def progressive(learner: Learner, stream: Sequence[Block]) -> Quality:
    """Predict, score and learn: accuracy, log loss, confusion, windows and two baselines."""
    quality = Quality()
    for block in stream:
        _score(quality, block, learner.progressive_many(block))
    return quality


def _score(quality: Quality, block: Block, predictions: Predictions) -> None:
    codes = {label: code for code, label in enumerate(predictions.classes)}
    label = np.array([codes[value] for value in block.labels], dtype=np.int64)
    quality.score_at_once(block.y, label, predictions)


@njit(cache=True)
def _logs(x):
    total = 0.0
    for i in range(x.shape[0]):
        total += log(x[i])
    return total


@njit(cache=True)
def _squares(x, q, out):
    for i in range(x.shape[0]):
        out[i] = 0.0
    for j in range(x.shape[1]):
        for i in range(x.shape[0]):
            out[i] += (x[i, j] - q[j]) * (x[i, j] - q[j])


def seconds_per_log() -> float:
    """A logarithm in a compiled loop, on this machine now."""
    x = np.random.default_rng(3).uniform(0.1, 10.0, 1_000_000)
    _logs(x)
    return clock(lambda: _logs(x), x.size)


def seconds_per_term(window: int, d: int) -> float:
    """One squared difference of a window that is scanned again and again."""
    x = np.asfortranarray(np.random.default_rng(4).normal(size=(window, d)))
    q, out, times = np.zeros(d), np.empty(window), 2_000_000 // (window * d) + 1
    _squares(x, q, out)
    return clock(lambda: [_squares(x, q, out) for _ in range(times)], times * window * d)
