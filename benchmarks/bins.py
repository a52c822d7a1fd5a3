"""What bins are worth: python -m benchmarks.bins.

Accuracy in percent, each record predicted before it is learned, in the order of the file: no bins
(`GaussianNB`), bins of equal weight and bins chosen by class, with `CategoricalNB` after them. The
first two streams come with river, the others with the shared data (HEADWATER_SHARED).
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
from pathlib import Path
from typing import Any

from river import datasets

from stream import CategoricalNB, GaussianNB, Learner
from stream.evaluate.progressive import progressive
from stream.preprocessing import Discretized, Discretizer, MDLDiscretizer

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("HEADWATER_SHARED", ROOT.parent / "shared")) / "data"
ADULT = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")
ELEC2 = ("period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer")

Stream = list[tuple[dict[str, Any], Any]]


def table(path: str, label: str, names: tuple[str, ...]) -> Stream:
    """The numbers of a file of the shared data, and its label."""
    with gzip.open(SHARED / path, "rt", newline="") as lines:
        return [({k: float(row[k]) for k in names}, row[label]) for row in csv.DictReader(lines)]


def main() -> None:
    """Print the table."""
    streams: dict[str, Stream] = {
        "Phishing": list(datasets.Phishing()),
        "ImageSegments": list(datasets.ImageSegments()),
        "Elec2": table("elec2/elecNormNew.csv.gz", "class", ELEC2),
        "Adult, its numbers": table("adult/adult.csv.gz", "income", ADULT),
    }
    lines = [
        "| stream | `GaussianNB`, no bins | 8 quantiles | `MDLDiscretizer` |",
        "|---|---|---|---|",
    ]
    for name, stream in streams.items():
        models: list[Learner] = [
            GaussianNB(),
            Discretized(Discretizer(n_bins=8), CategoricalNB()),
            Discretized(MDLDiscretizer(), CategoricalNB()),
        ]
        cells = []
        for model in models:
            *_, quality = progressive(stream, model)
            cells.append(f"{100 * quality.scores['all'].accuracy:.2f}")
        lines.append(f"| {name} ({len(stream):,}) | {' | '.join(cells)} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
