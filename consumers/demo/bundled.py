"""The records of data sets that ship with river, read from its files.

Rule: they are the records that `river.datasets` yields. Its import loads scipy, pandas and
scikit-learn, which takes longer than the rest of a start.
"""

from __future__ import annotations

import csv
import gzip
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib.resources import files
from io import BytesIO, StringIO
from typing import Any, Final

__all__ = ["RECORDS"]

Records = Callable[[], Iterator[Mapping[str, Any]]]


@cache
def _text(name: str) -> str:
    """A compressed file of `river.datasets`; of an archive its first file."""
    data = files("river").joinpath("datasets", name).read_bytes()
    if name.endswith(".gz"):
        return gzip.decompress(data).decode()
    with zipfile.ZipFile(BytesIO(data)) as archive:
        return archive.read(archive.namelist()[0]).decode()


def _table(
    name: str, label: str, label_of: Callable[[str], Any], whole: frozenset[str]
) -> Iterator[dict[str, Any]]:
    """A CSV of numbers and a label. `whole`: the fields that are whole numbers."""
    for row in csv.DictReader(StringIO(_text(name))):
        y = label_of(row.pop(label))
        numbers = {k: int(v) if k in whole else float(v) for k, v in row.items()}
        yield {**numbers, label: y}


def _pairs(name: str, label: str) -> Iterator[dict[str, Any]]:
    """Lines of a label, 1 or -1, and pairs of a field and a number."""
    for line in _text(name).splitlines():
        y, *pairs = line.split()
        numbers = (pair.split(":") for pair in pairs)
        yield {**{field: float(value) for field, value in numbers}, label: y == "1"}


# By the name of the feed.
RECORDS: Final[Mapping[str, Records]] = {
    "phishing": partial(
        _table,
        "phishing.csv.gz",
        "is_phishing",
        "1".__eq__,
        frozenset(("age_of_domain", "ip_in_url")),
    ),
    "bananas": partial(_pairs, "banana.zip", "banana"),
    "segments": partial(
        _table,
        "segment.csv.zip",
        "category",
        str,
        frozenset(("region-centroid-col", "region-centroid-row")),
    ),
}
