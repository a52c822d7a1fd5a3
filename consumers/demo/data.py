"""The feeds of the demo: data sets that ship with river, or a file. Real records, in their order.

Rule: no record is invented, renamed or left out.

The records of data sets that ship with river, read from its files.

Rule: they are the records that `river.datasets` yields. Its import loads scipy, pandas and
scikit-learn, which takes longer than the rest of a start.
"""

from __future__ import annotations

import csv
import gzip
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from io import BytesIO, StringIO
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

from consumers.base.counts import first_ones
from consumers.base.errors import ConfigError
from consumers.config.propose import Source, check_labels, choose, service_name, toml
from consumers.config.sample import SAMPLE_SIZE, infer

__all__ = ["FEEDS", "DemoStream", "bundled", "fresh_directory", "from_file", "settings"]

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


# Name -> description of its records, and name of the label.
FEEDS = {
    "phishing": ("web pages, phishing or not (Phishing)", "is_phishing"),
    "bananas": ("points of two shapes like bananas (Bananas)", "banana"),
    "segments": ("patches of photographs (ImageSegments)", "category"),
}
ID = "id"

_COMMITS = 50  # minimum number of points of the curve, also with --fast
_FEWEST_RECORDS, _MOST_RECORDS = 50, 5_000


@dataclass(frozen=True, slots=True)
class DemoStream:
    """Records with their labels inside.

    Parameters
    ----------
    name
        Name of the topic and the service.
    origin
        A description of the records.
    label
        The field that holds the label.
    records
        Returns all records from the first one; can be called again.
    warnings
        Warnings about the labels, each one line.
    """

    name: str
    origin: str
    label: str
    records: Callable[[], Iterator[Mapping[str, Any]]]
    warnings: tuple[str, ...] = ()


def bundled(name: str) -> DemoStream:
    """A data set that ships with river.

    Examples
    --------
    >>> feed = bundled("phishing")
    >>> next(feed.records())["is_phishing"], feed.origin
    (True, 'web pages, phishing or not (Phishing)')
    """
    if name not in FEEDS:
        raise ConfigError(f"expected --feed as one of {', '.join(FEEDS)}, got {name!r}")
    origin, label = FEEDS[name]
    return DemoStream(name, origin, label, RECORDS[name])


def from_file(path: Path, label: str | None) -> DemoStream:
    """The records of a file.

    Raises
    ------
    ConfigError
        The file cannot be read or is empty; or the label is not named, not in the first records,
        or cannot be learned.
    """
    from consumers.base.fields import field_of
    from consumers.files.source import read_records

    def records() -> Iterator[dict[str, Any]]:
        return read_records(path, verbatim=(label,))

    sample = list(islice(records(), SAMPLE_SIZE))
    if not sample:
        raise ConfigError(f"{path}: expected records, got none; give a file with records")
    names = list(dict.fromkeys(name for record in sample for name in record))
    shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    if label is None:
        raise ConfigError(f"--from {path} needs --label FIELD; the fields are {shown}")
    if all(field_of(record, label) is None for record in sample):
        raise ConfigError(
            f"{path}: no field {label!r} in {first_ones(len(sample), 'record')}; "
            f"give --label one of {shown}"
        )
    values = [field_of(record, label) for record in sample]
    where = f"{first_ones(len(sample), 'record')} of {path.name}"
    warnings = check_labels(label, values, where)
    name = service_name(path.name.split(".")[0])
    origin = f"records of {path.name}"
    return DemoStream(name, origin, label, records, tuple(warnings))


def settings(feed: DemoStream, records: int) -> str:
    """The configuration of the service for a feed, as TOML, for a file next to its log.

    Parameters
    ----------
    records
        Number of observations and labels.

    Raises
    ------
    ConfigError
        No field of the first records can be learned from.
    """
    sample = list(islice(feed.records(), SAMPLE_SIZE))
    fields = infer(sample, {ID, feed.label}, text=True)
    topics = Source(
        feed.name, f"sqlite:{feed.name}.db", feed.name, f"{feed.name}-labels", None, feed.origin
    )
    _, _, body = toml(topics, fields, choose(fields)).partition("\n")
    commit = min(max(records // _COMMITS, _FEWEST_RECORDS), _MOST_RECORDS)
    return (
        f"# Written by `headwater demo`: {feed.origin}.\n"
        f"{body}\n"
        "[commit]\n"
        f"max_records = {commit}  # few, to see each step; the default, 5,000, is faster\n"
        "\n"
        "[snapshots]\n"
        'directory = "state"\n'
    )


def fresh_directory(wanted: Path) -> Path:
    """Create the directory `wanted`, or `wanted`-2, -3 … if it exists and is not empty.

    Raises
    ------
    ConfigError
        It cannot be created.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as where:
    ...     for _ in range(2):
    ...         directory = fresh_directory(Path(where, "demo"))
    ...         _ = (directory / "feed.db").write_text("")
    ...     directory.name
    'demo-2'
    """
    wanted = wanted if wanted.name.strip(".") else wanted.resolve()
    for number in count(1):
        directory = wanted if number == 1 else Path(f"{wanted}-{number}")
        try:
            if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
                continue
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"cannot make {directory} ({error.strerror or error}); "
                "give another place with --directory DIR"
            ) from None
        return directory
    raise AssertionError("count() does not end")
