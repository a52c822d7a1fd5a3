"""As accurate as MOA: our learners over the streams whose figures from MOA itself are kept.

The protocol is MOA's interleaved test-then-train: each record is predicted, counted over all
records (the first, which no class can be named for, is wrong), then learned. Within one point of
MOA's accuracy or above it; a larger difference stands below with its reason. KDD Cup 99, half a
million records, is left to `python -m tests.long.moa`, which prints all figures.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from river import datasets

import stream
from consumers.config.auto import auto_of
from stream import Block, Learner, Rows, Schema
from stream.data.block import PREDICT_THEN_LEARN
from stream.mixture.composed import made

SHARED = Path(os.environ.get("HEADWATER_SHARED", Path(__file__).parents[4] / "shared")) / "data"
REFERENCE = SHARED / "reference/moa_2024.07_interleaved.tsv"
POINT = 1.0

# MOA's stream -> file, number of records (0: all) and the columns MOA had as nominal.
FILES: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "elec6_2000": ("elec2/elec_skmultiflow.csv.gz", 2000, ()),
    "elec6": ("elec2/elec_skmultiflow.csv.gz", 0, ()),
    "elec8": ("elec2/elecNormNew.csv.gz", 0, ("day",)),
    "weather": ("weather/weather.csv.gz", 0, ()),
    "outdoor": ("outdoor/outdoorStream.csv.gz", 0, ()),
    "phishing_uci": ("phishing_uci/phishing.csv.gz", 0, ()),
    "kdd99": (
        "kdd99_10pct/kddcup_10_percent.csv.gz",
        0,
        (
            *("protocol_type", "service", "flag"),
            *("land", "logged_in", "is_host_login", "is_guest_login"),
        ),
    ),
}
BUNDLED: dict[str, Callable[[], datasets.base.Dataset]] = {
    "phishing_river": datasets.Phishing,
    "bananas": datasets.Bananas,
    "segment": datasets.ImageSegments,
}
# MOA's learner -> ours, as it comes and with MOA's own definition where that is another.
LEARNERS: dict[str, dict[str, Callable[[bool], Learner]]] = {
    "NB": {
        "default": lambda mixed: stream.MixedNB() if mixed else stream.GaussianNB(),
        "var_smoothing=0": lambda mixed: (
            stream.MixedNB(var_smoothing=0.0) if mixed else stream.GaussianNB(var_smoothing=0.0)
        ),
    },
    "kNN10w1000": {"default": lambda _: stream.KNNClassifier(n_neighbors=10, window=1000)},
    "kNN3w1000": {"default": lambda _: stream.KNNClassifier(n_neighbors=3, window=1000)},
}
_POINTS = (
    "features that are constant in a class so far: MOA gives their value the density 1, our "
    "1e-9 of the total variance a density of thousands, an argument for the class until a record "
    "says otherwise; with var_smoothing=0, which is MOA's definition, the difference is gone"
)
EXPLAINED: dict[tuple[str, str, str], str] = {
    ("phishing_uci", "NB", "default"): _POINTS,
    ("segment", "NB", "default"): _POINTS,
    ("kdd99", "NB", "default"): _POINTS,
}


def table(name: str) -> tuple[list[dict[str, str]], list[str]]:
    """Records and labels of a stream, as text."""
    if name in BUNDLED:
        pairs = list(BUNDLED[name]())
        return [{k: str(v) for k, v in x.items()} for x, _ in pairs], [str(y) for _, y in pairs]
    path, limit, _ = FILES[name]
    with gzip.open(SHARED / path, "rt", newline="") as lines:
        records = list(csv.DictReader(lines))[: limit or None]
    label = list(records[0])[-1]
    return records, [record.pop(label) for record in records]


def blocks(name: str, size: int = 1000) -> list[Block]:
    """The stream as steps that predict, then learn."""
    records, labels = table(name)
    nominal = FILES[name][2] if name in FILES else ()
    numeric = tuple(k for k in records[0] if k not in nominal)
    x = np.array([[float(r[k]) for k in numeric] for r in records])
    c = np.array([[r[k] for k in nominal] for r in records], dtype=object)
    c = c.reshape(len(records), len(nominal))
    none = np.empty((len(records), 0), dtype=object)
    out = []
    for a in range(0, len(records), size):
        part = slice(a, a + size)
        rows = Rows(numeric, x[part], nominal, c[part], (), none[part])
        out.append(Block.of(rows, PREDICT_THEN_LEARN, labels[part]))
    return out


def fresh(name: str, learner: str, variant: str) -> Learner:
    """Our learner for a stream."""
    mixed = name in FILES and bool(FILES[name][2])
    return LEARNERS[learner][variant](mixed)


def accuracy(learner: Learner, steps: list[Block]) -> float:
    """Per cent of all records whose label was predicted before it was learned."""
    hits = 0
    for block in steps:
        said = learner.progressive_many(block).labels()
        true: list[object] = [block.labels[y] for y in block.y.tolist()]
        hits += sum(a == b for a, b in zip(said, true, strict=True))
    return 100.0 * hits / sum(len(block) for block in steps)


def moas(known: set[str]) -> list[tuple[str, str, str, float]]:
    """Stream, learner, variant of ours and MOA's accuracy, for the streams `known`."""
    if not REFERENCE.exists():
        return []
    with REFERENCE.open(newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    return [
        (row["stream"], row["learner"], variant, float(row["accuracy_pct"]))
        for row in rows
        if row["stream"] in known
        for variant in LEARNERS.get(row["learner"], ())
    ]


def best_of_moa() -> dict[str, float]:
    """The highest of MOA's accuracies for each stream, guesses and Hoeffding tree included."""
    if not REFERENCE.exists():
        return {}
    best: dict[str, float] = {}
    with REFERENCE.open(newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            best[row["stream"]] = max(best.get(row["stream"], 0.0), float(row["accuracy_pct"]))
    return best


needs_reference = pytest.mark.skipif(
    not REFERENCE.exists(), reason="set HEADWATER_SHARED to the shared data"
)


@needs_reference
@pytest.mark.parametrize(
    ("name", "learner", "variant", "theirs"), moas({*FILES, *BUNDLED} - {"kdd99"})
)
def test_accuracy_is_within_a_point_of_moas_or_above(
    name: str, learner: str, variant: str, theirs: float
) -> None:
    """Unless the difference is explained, in which case it must still be there."""
    ours = accuracy(fresh(name, learner, variant), blocks(name))

    if (name, learner, variant) in EXPLAINED:
        assert ours < theirs - POINT, f"no longer worse: {ours:.2f} against {theirs:.2f}"
    else:
        assert ours >= theirs - POINT, f"{ours:.2f} against MOA's {theirs:.2f}"


@needs_reference
@pytest.mark.parametrize(
    ("name", "theirs"), [(n, a) for n, a in best_of_moa().items() if n != "kdd99"]
)
def test_auto_is_within_a_point_of_the_best_of_moas_or_above(name: str, theirs: float) -> None:
    """One model for all streams, against the best of MOA's five for each."""
    steps = blocks(name)
    rows = steps[0].rows
    numeric = dict.fromkeys(rows.numeric_names, "numeric")
    schema = Schema.of(**numeric, **dict.fromkeys(rows.categorical_names, "categorical"))
    auto = made(auto_of(schema)).declare(schema)

    assert accuracy(auto, steps) >= theirs - POINT
