"""One model over many shards: python -m benchmarks.mix [--shards 1,2,4,8,16] [--write]

Each record is predicted before it is learned, its label at once; record i belongs to shard i mod S.
Three ways: one model sees every record; each shard learns alone; the shards mix after each
`interval` records of the stream, all at the same record. Streams: Elec2 and the KDD 99 tenth with
`MixedNB`, the SMS collection with `MultinomialNB`.

The costs are processor time: of a mix in one shard, mean over the stream; and of a record,
predicted and learned in blocks of 1,000, by the plain learner and by one that has mixed, in turn,
median of five rounds. The size is what a shard publishes at the end of the stream.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy import FLOOR, Pairs, table
from benchmarks.performance import show
from consumers.journal.statistics import Statistics, to_bytes
from stream import Learner, MixedNB, MultinomialNB
from stream.data.block import PREDICT_THEN_LEARN, Block, Rows
from stream.mix import MixedLearner

STREAMS: dict[str, tuple[Learner, Sequence[int]]] = {
    "Elec2": (MixedNB(), (100, 1_000, 10_000)),
    "SMS spam": (MultinomialNB(), (100, 1_000)),
    "KDD 99": (MixedNB(), (1_000, 10_000, 100_000)),
}
INTERVALS = sorted({interval for _, each in STREAMS.values() for interval in each})
MOST = 10**6


class Run(NamedTuple):
    """One way to learn a stream: right predictions and mean log loss; ms a mix in one shard, and
    bytes published by one shard at the end."""

    accuracy: float
    log_loss: float
    mix: float
    size: int


class Stream(NamedTuple):
    """A stream as rows and codes of its labels."""

    rows: Rows
    codes: NDArray[np.int32]
    labels: list[str]


def stream_of(learner: Learner, pairs: Pairs) -> Stream:
    """The records, prepared once."""
    labels = list(dict.fromkeys(y for _, y in pairs))
    at = {label: code for code, label in enumerate(labels)}
    codes = np.array([at[y] for _, y in pairs], dtype=np.int32)
    return Stream(learner.rows([x for x, _ in pairs]), codes, labels)


def part(stream: Stream, rows: NDArray[np.int64]) -> Block:
    """Predict, then learn these records."""
    n = rows.size
    op = np.full(n, PREDICT_THEN_LEARN, dtype=np.int8)
    codes, at = stream.codes[rows], np.arange(n)
    return Block(stream.rows.take(rows), op, at, codes, np.ones(n), stream.labels)


def scored(learner: Learner, stream: Stream, rows: NDArray[np.int64]) -> tuple[int, float]:
    """How many predictions were right, and the sum of the log losses."""
    made = learner.run(part(stream, rows))
    known = {label: code for code, label in enumerate(made.classes)}
    at = np.array([known[label] for label in stream.labels if label in known])
    column = np.full(len(stream.labels), -1)
    column[[code for code, label in enumerate(stream.labels) if label in known]] = at
    true = column[stream.codes[rows]]
    p = np.where(true < made.known, made.proba[np.arange(rows.size), true], 0.0)
    count = np.maximum(made.known, 1)
    loss = -np.log((1 - FLOOR) * p + FLOOR / np.maximum(count, 2))
    right = (made.best() == true) & (made.known > 0)
    return int(right.sum()), float(loss.sum())


def run(learner: Learner, stream: Stream, shards: int, interval: int | None) -> Run:
    """Learn the stream in so many shards. `interval` None: they do not mix."""
    n = len(stream.codes)
    own = [
        MixedLearner(learner.clone(), k, shards) if interval and shards > 1 else learner.clone()
        for k in range(shards)
    ]
    right, loss, mixing, mixes = 0, 0.0, 0.0, 0
    step = interval or n
    for start in range(0, n, step):
        for k, model in enumerate(own):
            rows = np.arange(start + (k - start) % shards, min(start + step, n), shards)
            if rows.size:
                one = scored(model, stream, rows)
                right, loss = right + one[0], loss + one[1]
        mixed = [model for model in own if isinstance(model, MixedLearner)]
        if start + step < n and mixed:
            began = time.process_time()
            peers = {m.shard: m.peer(m.learner.to_state()) for m in mixed}
            for m in mixed:
                m.mix({k: peer for k, peer in peers.items() if k != m.shard})
            mixing, mixes = mixing + time.process_time() - began, mixes + shards
    last = own[0].learner if isinstance(own[0], MixedLearner) else own[0]
    size = len(to_bytes(Statistics(0, 0, n, {"": last.to_state()})))
    return Run(right / n, loss / n, 1000 * mixing / max(mixes, 1), size)


def record_costs(learner: Learner, stream: Stream) -> tuple[float, float]:
    """µs a record of the plain learner, and of one that has mixed."""
    n = min(len(stream.codes), 20_000)
    blocks = [part(stream, np.arange(at, min(at + 1000, n))) for at in range(0, n, 1000)]
    found: list[tuple[float, float]] = []
    for _ in range(5):
        mixed = MixedLearner(learner.clone(), 0, 2)
        peer = learner.clone()
        peer.run(blocks[0])
        mixed.mix({1: peer})
        took = []
        for model in (learner.clone(), mixed):
            began = time.process_time()
            for block in blocks:
                model.run(block)
            took.append(1e6 * (time.process_time() - began) / n)
        found.append((took[0], took[1]))
    return median(a for a, _ in found), median(b for _, b in found)


def lines(name: str, shards: Sequence[int]) -> list[str]:
    """The rows of the table for a stream."""
    learner, intervals = STREAMS[name]
    stream = stream_of(learner, table(name, MOST))
    scored(learner.clone(), stream, np.arange(min(1000, len(stream.codes))))  # compiles
    one = run(learner, stream, 1, None)
    kind = type(learner).__name__
    plain, mixed = record_costs(learner, stream)
    costs = f"{plain:.2f} µs a record, {mixed:.2f} after a mix"
    out = [_line(f"{name}, `{kind}`: {costs}", 1, one, {})]
    for count in shards:
        if count == 1:
            continue
        found = {interval: run(learner, stream, count, interval) for interval in intervals}
        out.append(_line("", count, run(learner, stream, count, None), found))
        sys.stderr.write(f"{name}: {count} shards\n")
    return out


def _line(name: str, shards: int, alone: Run, mixed: dict[int, Run]) -> str:
    cells = [_scores(mixed[each]) if each in mixed else "" for each in INTERVALS]
    mix = ""
    if mixed:
        took = [found.mix for found in mixed.values()]
        size = max(found.size for found in mixed.values()) / 1000
        mix = f"{min(took):.2f}–{max(took):.2f} ms, {size:,.0f} kB"
    return f"| {name} | {shards} | {_scores(alone)} | {' | '.join(cells)} | {mix} |"


def _scores(found: Run) -> str:
    return f"{100 * found.accuracy:.2f} / {found.log_loss:.4f}"


def main() -> None:
    """All streams, as one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", default="1,2,4,8,16")
    parser.add_argument("--only", choices=STREAMS)
    parser.add_argument("--write", action="store_true", help="into docs/performance.md")
    options = parser.parse_args()
    shards = [int(count) for count in options.shards.split(",")]
    ways = " | ".join(f"mixed every {interval:,}" for interval in INTERVALS)
    out = [
        "Accuracy in percent / log loss. One shard is one model that learns all.",
        "",
        f"| stream | shards | alone | {ways} | a mix in one shard |",
        "|---|---|---|" + "---|" * (len(INTERVALS) + 1),
    ]
    for name in [options.only] if options.only else STREAMS:
        out += lines(name, shards)
    show("mix", out, write=options.write)


if __name__ == "__main__":
    main()
