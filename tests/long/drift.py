"""Detectors on streams of known drift, beside river's: python -m tests.long.drift [--seeds N].

Prints the table of docs/drift.md: MixedNB on four generators of river, and one feature whose mean
moves. `--each` tells the generators apart; `--only DDM KSWIN,alpha=0.0001` looks at these. Ends
with 1 where one of our alarms is not at river's value.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import numpy as np
from river import drift
from river.datasets import synth
from scipy.special import expit

from stream import MixedNB
from stream.drift import DETECTORS, MonitorRule, build
from stream.drift.watch import Monitor
from stream.evaluate.progressive import Events, Progressive
from stream.join.join import LabelJoin

LENGTH, CHANGE, WIDTH = 20_000, 10_000, 1_000
SOON = 2_000  # records in which a change must be found
WARM_UP = 500

Values = dict[str, np.ndarray]


@dataclass
class Row:
    """One detector on one quantity of one stream, over all seeds."""

    ours: int = 0
    river: int = 0
    apart: int = 0
    found: int = 0
    runs: int = 0
    false: int = 0
    delays: list[int] = field(default_factory=list)

    def cells(self) -> tuple[str, str]:
        """In how many runs the change was found, and after how many records."""
        delay = f"{np.median(self.delays):,.0f}" if self.delays else "–"
        return f"{self.found} of {self.runs}", delay


def text(stream: str, on: str, name: str, by_shape: dict[str, Row]) -> str:
    """The row of one detector in Markdown, with its runs on streams of all shapes."""
    found = [cell for shape in ("abrupt", "gradual") for cell in by_shape[shape].cells()]
    false = ", ".join(f"{row.false / row.runs:.1f}" for row in by_shape.values())
    cells = (stream, on, name.replace(",", ", "), *found, false)
    return f"| {' | '.join(cells)} |"


def concepts(seed: int) -> dict[str, tuple[Any, Any]]:
    """Two concepts of each generator."""
    return {
        "SEA": (synth.SEA(variant=2, seed=seed), synth.SEA(variant=3, seed=seed + 1000)),
        "Sine": (
            synth.Sine(classification_function=0, seed=seed),
            synth.Sine(classification_function=1, seed=seed + 1000),
        ),
        "Agrawal": (
            synth.Agrawal(classification_function=0, seed=seed),
            synth.Agrawal(classification_function=3, seed=seed + 1000),
        ),
        "STAGGER": (
            synth.STAGGER(classification_function=0, seed=seed),
            synth.STAGGER(classification_function=2, seed=seed + 1000),
        ),
    }


def records(generator: str, shape: str, seed: int) -> Iterator[tuple[dict, Any]]:
    """One stream."""
    before, after = concepts(seed)[generator]
    if shape == "none":
        return islice(iter(before), LENGTH)
    if shape == "abrupt":  # river's width of 1 overflows
        return chain(islice(iter(before), CHANGE), islice(iter(after), LENGTH - CHANGE))
    both = synth.ConceptDriftStream(before, after, seed=seed, position=CHANGE, width=WIDTH)
    return islice(iter(both), LENGTH)


def said(pairs: Iterator[tuple[dict, Any]]) -> Values:
    """Error, log loss and score of each prediction of MixedNB, each before it learned."""
    xs, ys = zip(*pairs, strict=True)
    learner = MixedNB()
    rows = learner.rows(xs)
    machine = Progressive(learner, LabelJoin(), rows)
    n = len(xs)
    ids = [str(i) for i in range(n)]
    labels = [bool(y) if isinstance(y, bool) else int(y) for y in ys]
    result = machine.process(rows, Events(ids, range(n), labels, [1.0] * n, range(n)))
    made = result.predictions
    known = made.known > 0
    code = np.array([made.classes.index(y) for y in labels])
    p_true = made.proba[np.arange(n), code]
    return {
        "error": (result.predicted != code)[known].astype(float),
        "log_loss": -np.log(np.maximum(p_true, 2.0**-52))[known],
        "score": made.proba.max(axis=1)[known],
    }


def shifted(shape: str, seed: int) -> Values:
    """A feature whose mean moves by one standard deviation."""
    rng = np.random.default_rng(seed)
    at = np.arange(LENGTH)
    steep = {"abrupt": 1.0, "gradual": WIDTH, "none": 0.0}[shape]
    share = np.zeros(LENGTH) if not steep else expit(4 * (at - CHANGE) / steep)
    return {"feature": rng.normal(share)}


def rivers(name: str, parameters: dict[str, Any], values: np.ndarray) -> list[int]:
    """Where river's detector alarms."""
    made: Callable[..., Any]
    made = getattr(drift, name, None) or getattr(drift.binary, name.replace("_", ""))
    model = made(**({"seed": 42} if name == "KSWIN" else {}), **parameters)
    turned = 1.0 - values if name == "FHDDM" else values
    found = []
    for i, x in enumerate(turned.tolist()):
        model.update(x)
        if model.drift_detected:
            found.append(i)
    return found


def ours(look: Callable[[np.ndarray], int], values: np.ndarray) -> list[int]:
    """Where ours alarms."""
    at, found = 0, []
    while (i := look(values[at:])) >= 0:
        at += i + 1
        found.append(at - 1)
    return found


def chosen(text: str) -> tuple[str, dict[str, Any]]:
    """`NAME,PARAMETER=VALUE` as name and parameters."""
    name, *pairs = text.split(",")
    return name, {key: json.loads(value) for key, value in (pair.split("=") for pair in pairs)}


def measure(row: Row, detector: str, on: str, values: np.ndarray, shape: str) -> None:
    """Add one run: the bare detectors side by side, and the alarms as they are served."""
    name, parameters = chosen(detector)
    mine = ours(build(name, parameters).update_many, values)
    theirs = rivers(name, parameters, values)
    row.ours, row.river = row.ours + len(mine), row.river + len(theirs)
    row.apart += len(set(mine) ^ set(theirs))
    row.runs += 1
    quantity = "feature:x" if on == "feature" else on
    served = ours(Monitor(MonitorRule(quantity, name, parameters), WARM_UP).look, values)
    begins = {"abrupt": CHANGE, "gradual": CHANGE - WIDTH, "none": LENGTH}[shape]
    row.false += sum(at < begins for at in served)
    after = [at - begins for at in served if begins <= at < begins + SOON]
    if after:
        row.found += 1
        row.delays.append(after[0])


def streams(seeds: range) -> Iterator[tuple[str, str, int, Values]]:
    """Name, shape, seed and values of each stream."""
    for generator in concepts(0):
        for shape in ("abrupt", "gradual", "none"):
            for seed in seeds:
                yield f"{generator}, {shape}", shape, seed, said(records(generator, shape, seed))
    for shape in ("abrupt", "gradual", "none"):
        for seed in seeds:
            yield f"one feature, {shape}", shape, seed, shifted(shape, seed)


def _place(stream: str, on: str, name: str) -> tuple[str, str, int, str]:
    """Rows of one quantity and stream together, in the order of the detectors."""
    return on, stream, list(DETECTORS).index(chosen(name)[0]), name


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--each", action="store_true", help="a row a generator")
    parser.add_argument("--only", nargs="+", default=list(DETECTORS), help="detectors")
    options = parser.parse_args()
    rows: dict[tuple[str, str, str], dict[str, Row]] = {}
    for stream, shape, _, values in streams(range(options.seeds)):
        for on, column in values.items():
            for name in options.only:
                if DETECTORS[chosen(name)[0]].binary and on != "error":
                    continue
                if chosen(name)[0] == "KSWIN" and on == "error":
                    continue  # two values are no distribution
                alone = options.each or on == "feature"
                told = stream.rpartition(", ")[0] if alone else "four"
                row = rows.setdefault((told, on, name), {}).setdefault(shape, Row())
                measure(row, name, on, column, shape)
    sys.stdout.write(
        "| stream | on | detector | abrupt: found | delay | gradual: found | delay "
        "| false alarms a run: abrupt, gradual, none |\n|---|---|---|---|---|---|---|---|\n"
    )
    for (stream, on, name), by_shape in sorted(rows.items(), key=lambda item: _place(*item[0])):
        sys.stdout.write(text(stream, on, name, by_shape) + "\n")
    measured = [row for by_shape in rows.values() for row in by_shape.values()]
    apart = sum(row.apart for row in measured)
    sys.stdout.write(
        f"\n{sum(row.ours for row in measured):,} alarms of the bare detectors, "
        f"{sum(row.river for row in measured):,} of river's, {apart:,} of them at other values.\n"
    )
    return int(apart > 0)


if __name__ == "__main__":
    sys.exit(main())
