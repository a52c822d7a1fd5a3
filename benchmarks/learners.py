"""The learners compared with their peers: river 0.26, MOA 2024.07.

    python -m benchmarks.learners [--rounds 5] [--only NAME …] [--write]

`--write` puts the table, with its date, into docs/performance.md, which says what is timed.
Java 17 and Maven are needed for MOA; the shared SMS spam for the texts.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from math import log
from pathlib import Path
from statistics import median

import numpy as np
from river import forest, linear_model, metrics, naive_bayes, neighbors, preprocessing, proba
from river.feature_extraction import BagOfWords

from benchmarks import moa
from benchmarks.performance import put
from benchmarks.race import (
    Line,
    Seconds,
    blocks,
    clock,
    dicts,
    lines,
    micro,
    normal,
    progressive,
    race,
    seconds_per_log,
    seconds_per_term,
)
from stream import Block, Learner, Rows
from stream.data.block import PREDICT_THEN_LEARN

ROOT = Path(__file__).resolve().parent.parent
LEAST = 0.4  # seconds of a run
SMS = Path(os.environ.get("HEADWATER_SHARED", ROOT.parent / "shared")) / "data/sms_spam"


def rivers(model, xs: list, ys: list) -> float:
    """river's loop: predict, score the accuracy, learn; seconds a record."""

    def loop() -> None:
        accuracy = metrics.Accuracy()
        for x, y in zip(xs, ys, strict=True):
            accuracy.update(y, model.predict_one(x))
            model.learn_one(x, y)

    return clock(loop, len(xs))


def moas(learner: str, x, y, directory: Path) -> Seconds:
    """MOA on the same records."""
    arff = directory / f"{learner.split()[0]}-{len(x)}.arff"
    moa.write_arff(arff, x, y)
    return lambda: moa.prequential(learner, arff, len(x)).seconds / len(x)


def ours(make: Callable[[], Learner], stream: list[Block], warm: int = 0) -> Seconds:
    """Progressive validation by blocks; the first `warm` of them are not timed.

    The stream is run again, by a new learner, for as long as a peer takes: a run of milliseconds
    would be of a cold processor, which a service is not.
    """
    records = sum(len(block) for block in stream[warm:])

    def once() -> float:
        learner = make()
        progressive(learner, stream[:warm])
        return clock(lambda: progressive(learner, stream[warm:]), records)

    def run() -> float:
        times = [once()]
        while sum(times) * records < LEAST:
            times.append(once())
        return sum(times) / len(times)

    return run


def naive(rounds: int, directory: Path) -> list[Line]:
    """d = 8, 2 classes."""
    from stream import GaussianNB

    x, y = normal(500_000, 8)
    few, labels = dicts(x[:5_000]), y[:5_000].tolist()
    peers = {
        "river": lambda: rivers(naive_bayes.GaussianNB(), few, labels),
        "MOA": moas("bayes.NaiveBayes", x, y, directory),
    }
    times = race(ours(GaussianNB, blocks(x[:200_000], y[:200_000])), peers, rounds)
    floor = 16 * seconds_per_log()
    limit = f"16 log evaluations: {micro(floor)}; {median(times['headwater']) / floor:.1f} ×"
    return lines("GaussianNB, d = 8", times, {"river": 1000, "MOA": 8}, limit)


def _knn(
    window: int, n: int, targets: dict[str, float], rounds: int, directory: Path
) -> list[Line]:
    from stream import KNNClassifier

    x, y = normal(n, 8)
    peers = {"MOA": moas(f"lazy.kNN -k 5 -w {window}", x, y, directory)}
    if "river" in targets:
        xs, ys = dicts(x), y.tolist()

        def river() -> float:
            engine = neighbors.LazySearch(window_size=window)
            model = neighbors.KNNClassifier(n_neighbors=5, engine=engine)
            for pair in zip(xs[:window], ys[:window], strict=True):
                model.learn_one(*pair)
            return rivers(model, xs[window : window + 200], ys[window : window + 200])

        peers["river"] = river
    # MOA's figure has its filling of the window in it: so has ours.
    warm = window // 1000 if "river" in targets else 0
    make = lambda: KNNClassifier(n_neighbors=5, window=window)  # noqa: E731
    times = race(ours(make, blocks(x, y), warm), peers, rounds)
    terms = window * 8 if "river" in targets else sum(min(i, window) for i in range(n)) / n * 8
    floor = terms * seconds_per_term(window, 8)
    limit = f"{terms:,.0f} squared differences: {micro(floor)}; "
    limit += f"{median(times['headwater']) / floor:.1f} ×"
    return lines(f"KNNClassifier, d = 8, window {window:,}, k = 5", times, targets, limit)


def knn_1000(rounds: int, directory: Path) -> list[Line]:
    """Against both peers."""
    return _knn(1_000, 20_000, {"river": 50, "MOA": 20}, rounds, directory)


def knn_10000(rounds: int, directory: Path) -> list[Line]:
    """river would take minutes."""
    return _knn(10_000, 20_000, {"MOA": 20}, rounds, directory)


def texts(rounds: int, directory: Path) -> list[Line]:
    """SMS spam; the texts are split and hashed inside the clock."""
    from stream import MultinomialNB
    from stream.text import encode_many

    with gzip.open(SMS / "sms_spam.csv.gz", "rt", newline="") as lines_:
        rows = list(csv.DictReader(lines_))
    messages, labels = [row["text"] for row in rows], [row["label"] for row in rows]
    stream = []
    for a in range(0, len(messages), 1000):
        xs = [{"text": text} for text in messages[a : a + 1000]]
        raw = Rows.from_dicts(xs, strings="text")
        stream.append(Block.of(raw, PREDICT_THEN_LEARN, labels[a : a + 1000]))
    peers = {"river": lambda: rivers(BagOfWords() | naive_bayes.MultinomialNB(), messages, labels)}
    times = race(ours(MultinomialNB, stream), peers, rounds)
    reading = clock(lambda: encode_many(messages), len(messages))
    distinct = encode_many(messages).bucket.size / len(messages)
    floor = 2 * distinct * seconds_per_log()
    limit = f"{2 * distinct:.0f} log evaluations: {micro(floor)} + {micro(reading)} for reading; "
    limit += f"{median(times['headwater']) / (floor + reading):.1f} ×"
    return lines("MultinomialNB, SMS texts", times, {"river": 100}, limit)


def full(rounds: int, directory: Path) -> list[Line]:
    """d = 32, 2 classes, every value there: river's has no missing ones."""
    from stream import GaussianBayes

    x, y = normal(20_000, 32, missing=0.0)
    few, labels = dicts(x[:300]), y[:300].tolist()
    peers = {"river": lambda: _rivers_full_bayes(few, labels)}
    times = race(ours(GaussianBayes, blocks(x, y)), peers, rounds)
    # Two triangular solves to predict, one update of a triangle to learn.
    floor = 1.5 * 32 * 32 * seconds_per_term(32, 32)
    limit = f"{1.5 * 32 * 32:,.0f} multiply-adds: {micro(floor)}; "
    limit += f"{median(times['headwater']) / floor:.1f} ×"
    return lines("GaussianBayes, d = 32", times, {"river": 500}, limit)


def _rivers_full_bayes(xs: list, ys: list, warm: int = 280) -> float:
    """A MultivariateGaussian a class; those of `warm` records are not timed."""
    models = {label: proba.MultivariateGaussian() for label in (0, 1)}
    counts = dict.fromkeys(models, 0)

    def predict(x) -> int:
        seen = sum(counts.values())
        return max(models, key=lambda c: counts[c] / seen * models[c](x))

    for x, y in zip(xs[:warm], ys[:warm], strict=True):
        models[y].update(x)
        counts[y] += 1

    def loop() -> None:
        accuracy = metrics.Accuracy()
        for x, y in zip(xs[warm:], ys[warm:], strict=True):
            accuracy.update(y, predict(x))
            models[y].update(x)
            counts[y] += 1

    return clock(loop, len(xs) - warm)


def full_growth(rounds: int, directory: Path) -> list[Line]:
    """8 (d + 1) records from the first on, so that each rebuilding of the factor is in it."""
    from stream import GaussianBayes

    sizes = (32, 64, 128, 256, 512)
    streams = {d: blocks(*normal(8 * (d + 1), d, missing=0.0)) for d in sizes}
    runs = {d: ours(GaussianBayes, streams[d]) for d in sizes}
    runs[32]()
    times = {d: [] for d in sizes}
    for _ in range(max(rounds // 2, 1)):
        for d in sizes:
            times[d].append(runs[d]())
    logs = np.polyfit([log(d) for d in sizes], [log(median(times[d])) for d in sizes], 1)
    each = ", ".join(micro(median(times[d])) for d in sizes)
    return [
        Line(
            "GaussianBayes, d = 32 … 512, ridge > 0: exponent of the cost in d",
            "≤ 2.1",
            f"{logs[0]:.2f}",
            each,
            "–",
            "2, because d² numbers change",
        )
    ]


def _one_record(name: str, make, peer, xs, ys, warm: int, least: float, rounds: int) -> list[Line]:
    """predict_proba_one and learn_one with dicts, after `warm` records."""

    def calls(model) -> float:
        for pair in zip(xs[:warm], ys[:warm], strict=True):
            model.learn_one(*pair)

        def loop() -> None:
            for x, y in zip(xs[warm:], ys[warm:], strict=True):
                model.predict_proba_one(x)
                model.learn_one(x, y)

        return clock(loop, len(xs) - warm)

    times = race(lambda: calls(make()), {"river": lambda: calls(peer())}, rounds)
    return lines(name, times, {"river": least}, "cost of a Python call with dicts")


def logistic(rounds: int, directory: Path) -> list[Line]:
    """d = 8, 2 classes; river's with its scaler."""
    from stream import LogisticRegression

    x, y = normal(50_000, 8, missing=0.0)
    few, labels = dicts(x[:5_000]), y[:5_000].tolist()
    peer = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    times = race(
        ours(LogisticRegression, blocks(x, y)),
        {"river": lambda: rivers(peer.clone(), few, [label == 1 for label in labels])},
        rounds,
    )
    floor = 32 * seconds_per_term(32, 8)
    limit = f"32 multiply-adds: {micro(floor)}; {median(times['headwater']) / floor:.1f} ×"
    return lines("LogisticRegression, d = 8", times, {"river": 10}, limit)


def auto(rounds: int, directory: Path) -> list[Line]:
    """d = 8, 2 classes; the peer is the forest that is as accurate."""
    from consumers.config.auto import auto_of
    from stream import Schema
    from stream.mixture.composed import made

    x, y = normal(20_000, 8, missing=0.0)
    few, labels = dicts(x[:1_000]), y[:1_000].tolist()
    schema = Schema.of(**dict.fromkeys(few[0], "numeric"))
    times = race(
        ours(lambda: made(auto_of(schema)).declare(schema), blocks(x, y)),
        {"river": lambda: rivers(forest.ARFClassifier(n_models=10, seed=1), few, labels)},
        rounds,
    )
    return lines("auto, d = 8, and river's ARF(10)", times, {"river": 100}, "sum of its learners")


def one_naive(rounds: int, directory: Path) -> list[Line]:
    """One-record calls, d = 8."""
    from stream import GaussianNB

    x, y = normal(2_000, 8)
    name = "GaussianNB, one-record calls"
    return _one_record(
        name, GaussianNB, naive_bayes.GaussianNB, dicts(x), y.tolist(), 100, 10, rounds
    )


def one_knn(rounds: int, directory: Path) -> list[Line]:
    """One-record calls, d = 8, window 1,000."""
    from stream import KNNClassifier

    x, y = normal(1_200, 8)

    def peer():
        engine = neighbors.LazySearch(window_size=1_000)
        return neighbors.KNNClassifier(n_neighbors=5, engine=engine)

    name = "KNNClassifier, one-record calls, window 1,000"
    make = lambda: KNNClassifier(n_neighbors=5, window=1_000)  # noqa: E731
    return _one_record(name, make, peer, dicts(x), y.tolist(), 1_000, 8, rounds)


ROWS = {
    row.__name__: row
    for row in (
        naive,
        knn_1000,
        knn_10000,
        texts,
        full,
        full_growth,
        logistic,
        auto,
        one_naive,
        one_knn,
    )
}


def table(found: list[Line]) -> Iterator[str]:
    """The lines as Markdown."""
    columns = "benchmark | target | measured | headwater, per record | peer, per record"
    yield f"| {columns} | lower bound; ratio |"
    yield "|---|---|---|---|---|---|"
    for line in found:
        cells = (line.benchmark, line.target, line.got, line.ours, line.peer, line.limit)
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Print one line a target, and keep them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.write and len(options.only) < len(ROWS):
        parser.error("--write replaces the whole table: leave out --only")
    found: list[Line] = []
    with tempfile.TemporaryDirectory() as directory:
        for name in options.only:
            some = ROWS[name](options.rounds, Path(directory))
            found += some
            sys.stdout.write("\n".join(list(table(some))[2:]) + "\n")
            sys.stdout.flush()
    if options.write:
        put("learners", table(found))


if __name__ == "__main__":
    main()
