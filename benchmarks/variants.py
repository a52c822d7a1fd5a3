"""The main job with other models and with more work: python -m benchmarks.variants [--write]

One shard to the end of filled topics of three partitions, exactly once, as `headwater` of
`benchmarks.main_job`. Each variant differs from the first one by its model, or by `[drift]`. The
texts are the messages of SMS Spam, over and over.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Mapping
from itertools import cycle, islice
from statistics import median

from benchmarks.main_job import ELEC2, Source, rate, records
from benchmarks.performance import rate_cells, show
from consumers.cli import collect_rarely
from consumers.files.source import read_records
from tests.kafka.broker import running_broker

PARTITIONS = 3
ONE = """
[drift]
detectors = [{on = "error", type = "ADWIN"}]
"""
THREE = """
[drift]
detectors = [
    {on = "error", type = "ADWIN"},
    {on = "score", type = "PageHinkley"},
    {on = "feature:nswprice", type = "KSWIN"},
]
"""


def messages(limit: int) -> Iterator[Mapping[str, object]]:
    """SMS Spam, over and over."""
    once = list(read_records(ELEC2.parent / "sms_spam" / "sms_spam.csv.gz"))
    texts = ({"text": str(r["text"]), "class": r["label"]} for r in once)
    return islice(cycle(texts), limit)


VARIANTS: dict[str, tuple[Source, dict[str, str], str]] = {
    "GaussianNB, 8 numbers": (records, {}, ""),
    "the same, ADWIN on the error": (records, {"more": ONE}, "≥ 85%"),
    "the same, three drift detectors": (records, {"more": THREE}, "reported"),
    "KNNClassifier, window 1,000": (
        records,
        {"model": 'type = "KNNClassifier"\nwindow = 1000'},
        "≥ 70%",
    ),
    "auto": (records, {"model": 'type = "auto"'}, "reported"),
    "MultinomialNB, SMS": (
        messages,
        {"model": 'type = "MultinomialNB"', "more": '[features]\ntext = "text"'},
        "≥ 60%",
    ),
}


def lines(bootstrap: str, limit: int, rounds: int) -> Iterator[str]:
    """The table."""
    rates: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for _ in range(rounds):
        for name, (of, parts, _) in VARIANTS.items():
            rates[name].append(rate(bootstrap, PARTITIONS, limit, of, **parts))
            sys.stdout.write(f"{name}: {rates[name][-1]:,.0f} records/s\n")
            sys.stdout.flush()
    yield f"{limit:,} observations and their labels, {PARTITIONS} partitions, {rounds} rounds."
    yield ""
    yield "| model | records/s | spread | of the first | target |"
    yield "|---|---|---|---|---|"
    first = median(next(iter(rates.values())))
    for name, found in rates.items():
        share = median(found) / first
        yield f"| {name} | {rate_cells(found)} | {share:.0%} | {VARIANTS[name][2]} |"


def main() -> None:
    """Print the table; with --write also into docs/performance.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    collect_rarely()  # as the command does
    with running_broker() as bootstrap:
        show("variants", lines(bootstrap, options.records, options.rounds), write=options.write)


if __name__ == "__main__":
    main()
