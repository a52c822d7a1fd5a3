"""Learners on many streams, beside guessing and river: python -m benchmarks.accuracy [--help].

Each record is predicted before it is learned; a label comes `--delays` records later. A line for
each stream, delay and model: accuracy and log loss after the first 1,000 labels, the calibration
error, and µs of CPU time a record, with the reading of its dict. All probabilities are mixed with
0.001 of the uniform distribution over the classes known by then, so that a probability of 0 costs a
finite loss. River's models get their labels at once, and learn the first 30,000 records. `--out
FILE` keeps the lines as JSON, and a second call continues after them. `--write` puts a table of all
lines into docs/learners.md.

Streams: the tables of the shared data (HEADWATER_SHARED), those that river brings, and river's
generators, with a drift in the middle too.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from river import (
    base,
    compose,
    datasets,
    ensemble,
    forest,
    linear_model,
    multiclass,
    preprocessing,
    tree,
)
from river.datasets import synth
from scipy.stats import rankdata

from benchmarks.performance import put
from consumers.config.auto import auto_of
from stream import (
    DecisionTreeClassifier,
    GaussianNB,
    KNNClassifier,
    Learner,
    LogisticRegression,
    MixedNB,
    MultinomialNB,
    Schema,
)
from stream.evaluate.progressive import progressive
from stream.mixture.composed import made
from stream.mixture.guesses import ClassShares, NoChange

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("HEADWATER_SHARED", ROOT.parent / "shared")) / "data"
FLOOR = 0.001
WARM_UP = 1000  # labels that are not scored
BINS = 10
GENERATED = 20_000

Pairs = list[tuple[dict[str, Any], Any]]
Floats = NDArray[np.float64]


class Table(NamedTuple):
    """A file of the shared data."""

    path: str
    label: str
    without: tuple[str, ...] = ()
    text: str = ""


TABLES = {
    "Elec2": Table("elec2/elecNormNew.csv.gz", "class", ("date",)),
    "Adult": Table("adult/adult.csv.gz", "income", ("split",)),
    "weather": Table("weather/weather.csv.gz", "target"),
    "Luxembourg": Table("luxembourg/LUdata.csv.gz", "target"),
    "Outdoor": Table("outdoor/outdoorStream.csv.gz", "target"),
    "phishing sites": Table("phishing_uci/phishing.csv.gz", "target"),
    "KDD 99": Table("kdd99_10pct/kddcup_10_percent.csv.gz", "class"),
    "SMS spam": Table("sms_spam/sms_spam.csv.gz", "label", text="text"),
}


def table(name: str, most: int) -> Pairs:
    """The records of a file; numbers as numbers, `?` and nothing as missing."""
    path, label, without, text = TABLES[name]
    out: Pairs = []
    with gzip.open(SHARED / path, "rt", newline="") as lines:
        for row in islice(csv.DictReader(lines), most):
            y = row.pop(label)
            fields = {k: v if k == text else _value(v) for k, v in row.items() if k not in without}
            out.append(({k: v for k, v in fields.items() if v is not None}, y))
    return out


def _value(cell: str) -> float | str | None:
    if cell in ("", "?"):
        return None
    try:
        return float(cell)
    except ValueError:
        return cell


def drifting(kind: Callable[..., Any], first: dict[str, Any], then: dict[str, Any]) -> Any:
    """One generator, and after the middle another one."""
    return synth.ConceptDriftStream(
        kind(seed=1, **first), kind(seed=2, **then), position=GENERATED // 2, width=100, seed=1
    )


def agrawals() -> dict[str, Callable[[], Any]]:
    """Agrawal's other functions, without noise."""
    others = (0, 2, 3, 4, 5, 6, 7, 8, 9)
    return {
        f"Agrawal {i}": lambda i=i: synth.Agrawal(classification_function=i, seed=42)
        for i in others
    }


def generators() -> dict[str, Callable[[], Any]]:
    """Name to river's generator."""
    rbf = {"n_classes": 3, "n_features": 8, "n_centroids": 20}
    return {
        "SEA": lambda: synth.SEA(seed=1, noise=0.1),
        "SEA, drift": lambda: drifting(synth.SEA, {"variant": 0}, {"variant": 2}),
        "Agrawal": lambda: synth.Agrawal(classification_function=1, seed=1),
        **agrawals(),
        "Agrawal, drift": lambda: drifting(
            synth.Agrawal, {"classification_function": 1}, {"classification_function": 3}
        ),
        "LED": lambda: synth.LED(seed=1, noise_percentage=0.1),
        "random tree": lambda: synth.RandomTree(seed_tree=1, seed_sample=2),
        "random tree, drift": lambda: synth.ConceptDriftStream(
            synth.RandomTree(seed_tree=1, seed_sample=2),
            synth.RandomTree(seed_tree=3, seed_sample=4),
            position=GENERATED // 2,
            width=100,
            seed=1,
        ),
        "random RBF": lambda: synth.RandomRBF(seed_model=1, seed_sample=2, **rbf),
        "random RBF, drift": lambda: synth.RandomRBFDrift(
            seed_model=1, seed_sample=2, change_speed=0.001, n_drift_centroids=20, **rbf
        ),
        "hyperplane, drift": lambda: synth.Hyperplane(
            seed=1, n_features=8, n_drift_features=4, mag_change=0.001
        ),
        "sine, drift": lambda: drifting(
            synth.Sine, {"classification_function": 0}, {"classification_function": 2}
        ),
        "STAGGER, drift": lambda: drifting(
            synth.STAGGER, {"classification_function": 0}, {"classification_function": 2}
        ),
        "mixed, drift": lambda: drifting(
            synth.Mixed, {"classification_function": 0}, {"classification_function": 1}
        ),
        "waveform": lambda: synth.Waveform(seed=1, has_noise=True),
    }


def streams(most: int) -> dict[str, Callable[[], Pairs]]:
    """Name to what reads it."""
    out: dict[str, Callable[[], Pairs]] = {}
    for name in TABLES:
        out[name] = lambda name=name: table(name, most)
    for kind in (datasets.Phishing, datasets.ImageSegments, datasets.Bananas):
        out[f"river {kind.__name__}"] = lambda kind=kind: list(islice(kind(), most))
    for name, make in generators().items():
        out[name] = lambda make=make: [
            ({str(k): v for k, v in x.items()}, y) for x, y in make().take(min(most, GENERATED))
        ]
    return out


def _texts(pairs: Pairs) -> list[str]:
    """Fields whose strings are texts: those with spaces and hardly a repeated value."""
    strings: dict[str, set[str]] = {}
    for x, _ in pairs[:500]:
        for name, value in x.items():
            if isinstance(value, str) and " " in value:
                strings.setdefault(name, set()).add(value)
    return [name for name, values in strings.items() if len(values) > 250]


def schema_of(pairs: Pairs) -> Schema:
    """Each field as what its values are."""
    texts, kinds = set(_texts(pairs)), {}
    for x, _ in pairs:
        for name, value in x.items():
            kind = "binary" if isinstance(value, bool) else "numeric"
            kind = "categorical" if isinstance(value, str) else kind
            kinds[name] = "text" if name in texts else kind
    return Schema.of(**kinds)


def ours(schema: Schema) -> dict[str, Callable[[], Learner]]:
    """Name to an empty learner that fits the fields."""
    kinds = {field.kind for field in schema.fields}
    out: dict[str, Callable[[], Learner]] = {
        "auto": lambda: made(auto_of(schema)),
        "prior": ClassShares,
        "no-change": NoChange,
        "MixedNB": MixedNB,
        "LogisticRegression": LogisticRegression,
    }
    if kinds - {"text"}:
        out["KNNClassifier"] = KNNClassifier
        out["DecisionTreeClassifier"] = DecisionTreeClassifier
    if kinds == {"numeric"}:
        out["GaussianNB"] = GaussianNB
    if kinds == {"text"}:
        out["MultinomialNB"] = MultinomialNB
    return out


def rivers() -> dict[str, Callable[[], base.Classifier]]:
    """River's models, as its documentation builds them."""
    numbers = compose.SelectType(float, int) | preprocessing.StandardScaler()
    others = compose.SelectType(str) | preprocessing.OneHotEncoder()
    logistic = multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
    return {
        "river ARF(10)": lambda: forest.ARFClassifier(n_models=10, seed=1),
        "river HT": lambda: tree.HoeffdingTreeClassifier(),
        "river HAT": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1),
        "river LeveragingBagging": lambda: ensemble.LeveragingBaggingClassifier(
            tree.HoeffdingTreeClassifier(), n_models=10, seed=1
        ),
        "river logistic": lambda: ((numbers + others) | logistic).clone(),
    }


class Predicted(NamedTuple):
    """The probability of each class for each record; 0 where the class was not known."""

    proba: Floats
    known: NDArray[np.int64]
    seconds: float


def predicted_by_ours(
    learner: Learner, pairs: Pairs, codes: dict[Any, int], delay: int
) -> Predicted:
    """One pass in blocks, as the service does."""
    proba, known = np.zeros((len(pairs), len(codes))), np.zeros(len(pairs), dtype=np.int64)
    began, at = time.process_time(), 0
    for now in progressive(pairs, learner, delay=delay):
        block = now.predictions
        place = slice(at, at + len(block.known))
        proba[place][:, [codes[y] for y in block.classes]] = block.proba
        known[place], at = block.known, place.stop
    return Predicted(proba, known, time.process_time() - began)


def predicted_by_river(model: base.Classifier, pairs: Pairs, codes: dict[Any, int]) -> Predicted:
    """One pass, record by record."""
    proba, known = np.zeros((len(pairs), len(codes))), np.zeros(len(pairs), dtype=np.int64)
    seen: set[Any] = set()
    began = time.process_time()
    for i, (x, y) in enumerate(pairs):
        for label, p in model.predict_proba_one(x).items():
            proba[i, codes[label]] = p
        known[i] = len(seen)
        model.learn_one(x, y)
        seen.add(y)
    return Predicted(proba, known, time.process_time() - began)


def figures(found: Predicted, y: NDArray[np.int64], delay: int) -> dict[str, Any]:
    """Accuracy, log loss and calibration error, after the first labels have come."""
    first = delay + WARM_UP
    proba, known, y = found.proba[first:], np.maximum(found.known[first:, None], 1), y[first:]
    mixed = (1 - FLOOR) * proba + FLOOR / known
    top, right = proba.max(axis=1), proba.argmax(axis=1) == y
    at = np.minimum((top * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(at, top - right, BINS)
    rng = np.random.default_rng(1)  # what a perfectly calibrated model would show
    chance = [
        np.abs(np.bincount(at, top - (rng.random(top.size) < top), BINS)).sum() / top.size
        for _ in range(200)
    ]
    return {
        "accuracy": float(right.mean()),
        "log_loss": float(-np.log(mixed[np.arange(y.size), y]).mean()),
        "ece": float(np.abs(gaps).sum() / top.size),
        "ece_of_chance": float(np.quantile(chance, 0.95)),
        "us": 1e6 * found.seconds / len(found.known),
    }


def lines(options: argparse.Namespace, have: set[tuple[str, int, str]]) -> Iterator[dict[str, Any]]:
    """The figures of each model on each stream that are not there yet."""
    for name, read in streams(options.records).items():
        if options.only and name not in options.only:
            continue
        pairs = read()
        codes = {y: code for code, y in enumerate(dict.fromkeys(y for _, y in pairs))}
        y = np.array([codes[label] for _, label in pairs])
        schema = schema_of(pairs)
        for delay in options.delays:
            for model, make in ours(schema).items():
                if (delay and delay > len(pairs) - 2 * WARM_UP) or (name, delay, model) in have:
                    continue
                learner = make().declare(schema)
                learner.compile_kernels()
                found = predicted_by_ours(learner, pairs, codes, delay)
                about = {"stream": name, "n": len(pairs), "delay": delay, "model": model}
                yield about | figures(found, y, delay)
        for model, make_river in rivers().items():
            if model not in options.peers or (name, 0, model) in have:
                continue
            found = predicted_by_river(make_river(), pairs, codes)
            about = {"stream": name, "n": len(pairs), "delay": 0, "model": model}
            yield about | figures(found, y, 0)


GUESSES = ("prior", "no-change")
ARF = "river ARF(10)"


def summary(found: list[dict[str, Any]]) -> Iterator[str]:
    """The table of docs/learners.md: `auto` beside guessing, the best learner and ARF."""
    by = {(line["stream"], line["delay"], line["model"]): line for line in found}
    yield (
        "| stream | records | delay | `auto` | ECE | best guess | best single learner "
        "| river ARF(10) | speed |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    order = {name: i for i, name in enumerate(streams(1))}
    each = dict.fromkeys((line["stream"], line["delay"]) for line in found)
    for name, delay in sorted(each, key=lambda pair: (order[pair[0]], pair[1])):
        models = {m: line for (n, d, m), line in by.items() if (n, d) == (name, delay)}
        auto = models.get("auto")
        if auto is None:
            continue
        single = [m for m in models if m not in ("auto", *GUESSES) and not m.startswith("river")]
        best = max(single, key=lambda m: models[m]["accuracy"])
        arf = models.get(ARF)
        guess = _best(models[m] for m in GUESSES)
        others = [guess, models[best], *([arf] if arf else [])]
        leads = all(auto["log_loss"] <= other["log_loss"] for other in others)
        cells = (
            name,
            f"{auto['n']:,}",
            f"{delay:,}",
            f"**{_shown(auto)}**" if leads else _shown(auto),
            f"{100 * auto['ece']:.1f} ({100 * auto['ece_of_chance']:.1f})",
            _shown(guess),
            f"{_shown(models[best])} `{best}`",
            _shown(arf) if arf else "–",
            f"{arf['us'] / auto['us']:.0f} ×" if arf else "–",
        )
        yield f"| {' | '.join(cells)} |"


def ranks(found: list[dict[str, Any]]) -> Iterator[str]:
    """The mean rank of `auto` and of river's models over the streams that all of them have."""
    models = ("auto", *rivers())
    by: dict[str, dict[str, dict[str, Any]]] = {}
    for line in found:
        if line["delay"] == 0 and line["model"] in models:
            by.setdefault(line["stream"], {})[line["model"]] = line
    models = tuple(m for m in models if any(m in lines for lines in by.values()))
    full = [lines for lines in by.values() if len(lines) == len(models)]
    for score, sign in (("log_loss", 1.0), ("accuracy", -1.0)):
        table = np.array([[sign * lines[m][score] for m in models] for lines in full])
        mean = rankdata(table, axis=1).mean(axis=0)
        named = ", ".join(f"{m} {r:.2f}" for m, r in zip(models, mean.tolist(), strict=True))
        how = f"by {score.replace('_', ' ')}, labels at once"
        yield f"Mean rank over {len(full)} streams {how}: {named}."


def _best(candidates: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """The best figures of several models."""
    each = list(candidates)
    return {
        "accuracy": max(line["accuracy"] for line in each),
        "log_loss": min(line["log_loss"] for line in each),
    }


def _shown(line: dict[str, Any]) -> str:
    return f"{100 * line['accuracy']:.2f}, {line['log_loss']:.3f}"


def main() -> None:
    """Print a line for each stream, delay and model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=30_000, help="of each stream at most")
    parser.add_argument("--delays", type=int, nargs="*", default=[0, 100, 10_000])
    parser.add_argument("--only", nargs="*", default=[], help="names of streams")
    parser.add_argument("--peers", nargs="*", default=list(rivers()), help="river's models")
    parser.add_argument("--out", type=Path, help="keep the lines there as JSON")
    parser.add_argument("--write", action="store_true", help="the table into docs/learners.md")
    options = parser.parse_args()
    kept = options.out.read_text().splitlines() if options.out and options.out.exists() else []
    found = [json.loads(line) for line in kept]
    have = {(line["stream"], line["delay"], line["model"]) for line in found}
    head = ("stream", "delay", "model", "accuracy %", "log loss", "ECE %", "µs")
    sys.stdout.write(f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n")
    for line in lines(options, have):
        cells = (
            line["stream"],
            f"{line['delay']:,}",
            line["model"],
            f"{100 * line['accuracy']:.2f}",
            f"{line['log_loss']:.4f}",
            f"{100 * line['ece']:.1f}",
            f"{line['us']:.1f}",
        )
        sys.stdout.write(f"| {' | '.join(cells)} |\n")
        sys.stdout.flush()
        found.append(line)
        if options.out:
            with options.out.open("a") as out:
                out.write(json.dumps(line) + "\n")
    if options.write:
        put("accuracy", [*summary(found), "", *ranks(found)], ROOT / "docs/learners.md")


if __name__ == "__main__":
    main()
