"""compose.yaml without containers: its service, its feed, its Prometheus, on the tests' broker.

Rule: the configuration, the data set and the rules are those of docker/; the address of the broker,
ports, directories and the pace are the test's.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import river.datasets

from consumers.base.records import Outgoing
from consumers.transports import open_log
from tests.acceptance.service import Service, headwater
from tests.docker.prometheus import Prometheus, running
from tests.docker.queries import DOCKER, Query, alerts, panels, recorded

__all__ = [
    "BUDGET",
    "CONFUSION",
    "Answer",
    "Stack",
    "answers",
    "asked",
    "started",
]

BAD = (b"no json", b'{"id": "x", "hue-mean": 1e999}')
UNLABELLED = 50
SEEN_FIRST = 700  # records
CONFUSION = "headwater_confusion_total"

Changes = tuple[tuple[str, str], ...]  # of the configuration: what is replaced, and by what
# A budget decides alone and takes no challenger.
BUDGET: Changes = (
    ("reject = 0.3", 'max_false_positive_rate = {label = "sky", rate = 0.3}'),
    ('[[challenger]]\nname = "covariances"\ntype = "GaussianBayes"\n', ""),
)


class Stack(NamedTuple):
    """What runs."""

    service: Service
    prometheus: Prometheus
    topic: str


class Answer(NamedTuple):
    """What Prometheus said to a query."""

    query: Query
    series: int
    example: float


@contextlib.contextmanager
def started(directory: Path, bootstrap: str, changes: Changes = ()) -> Iterator[Stack]:
    """The service live, scraped, and fed with the whole data set and some that is wrong."""
    name = f"segments-{uuid4().hex[:8]}"
    config = _configured(directory, name, bootstrap, changes)
    created = headwater("check", config, "--create")
    assert created.returncode == 0, created.stdout + created.stderr
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(Service(config))
        # The first start compiles the kernels of what docker/headwater.toml names.
        address = service.wait_said(r"metrics on http://([\w.:]+)/metrics")[1]
        port = address.rpartition(":")[2]
        prometheus = stack.enter_context(running(directory, f"127.0.0.1:{port}"))
        header, *rows = _data()
        feed = partial(_feed, directory / "segment.csv", name, f"kafka://{bootstrap}")
        # What was counted before the first scrape of a series has not risen for Prometheus.
        feed([header, *rows[:SEEN_FIRST]])
        service.wait_until(lambda: len(prometheus.query(CONFUSION)) > 7)
        feed([header, *rows[SEEN_FIRST:]])
        _feed_unlabelled(name, f"kafka://{bootstrap}")
        service.wait_until(lambda: _told(prometheus))
        yield Stack(service, prometheus, name)


def asked(budget: bool) -> list[Query]:
    """The queries for which this service has data, by whether it has a budget."""
    every = (*panels(), *recorded(), *alerts())
    return [query for query in every if of_budget(query) == budget and not of_others(query)]


def of_budget(query: Query) -> bool:
    """Whether only a service with a budget of false positives has data for it."""
    names = ("headwater_budget_", "headwater:flagged:", "headwater:false_positives:")
    return any(name in query.expression for name in names)


def of_others(query: Query) -> bool:
    """Whether only another service has data for it: one with [labels] reporter or [model] per, that
    mixes, or that reads mail, as in tests/telemetry; or one that ran an hour ago, as in
    tests/docker/test_rules.py."""
    names = (
        *("headwater_reporter", "headwater_key", "headwater_scored_keys", "headwater_mix_"),
        *("headwater_mail_", "offset", "1d before"),
    )
    return any(name in query.expression for name in names)


def answers(prometheus: Prometheus, queries: list[Query], seconds: float) -> list[Answer]:
    """What each query gives; asked again until it gives numbers, or the time is over."""
    deadline = time.monotonic() + seconds
    found: dict[str, Answer] = {}
    while True:
        for query in queries:
            if query.where not in found or not found[query.where].series:
                values = [v for _, v in prometheus.query(query.expression) if not math.isnan(v)]
                example = values[0] if values else math.nan
                found[query.where] = Answer(query, len(values), example)
        if all(a.series for a in found.values()) or time.monotonic() > deadline:
            return [found[query.where] for query in queries]
        time.sleep(0.2)


def _configured(directory: Path, name: str, bootstrap: str, changes: Changes) -> Path:
    text = (DOCKER / "headwater.toml").read_text()
    for old, new in (
        ("kafka://kafka:9092", f"kafka://{bootstrap}"),
        ('"segments', f'"{name}'),
        ("/var/lib/headwater", str(directory / "state")),
        ("[snapshots]\n", "[snapshots]\nevery_seconds = 1\n"),
        ("[http]\n", "[http]\nport = 0\n"),
        ('host = "0.0.0.0"', 'host = "127.0.0.1"'),
        ('log = "json"', 'log = "text"'),
        *changes,
    ):
        assert old in text, old
        text = text.replace(old, new)
    path = directory / "headwater.toml"
    path.write_text(text)
    return path


def _data() -> list[str]:
    """The lines of the data set."""
    packed = Path(river.datasets.__file__).with_name("segment.csv.zip")
    with zipfile.ZipFile(packed) as archive:
        [inside] = archive.namelist()
        return archive.read(inside).decode().splitlines(keepends=True)


def _feed(file: Path, name: str, url: str, lines: list[str]) -> None:
    """As the feeder of compose.yaml, eight times as fast."""
    file.write_text("".join(lines))
    late = ["--label-topic", f"{name}-labels", "--label", "category", "--delay", "2s"]
    fed = headwater("produce", name, file, "--transport", url, "--rate", "400", *late)
    assert fed.returncode == 0, fed.stdout + fed.stderr


def _feed_unlabelled(name: str, url: str) -> None:
    """Records that are bad or alone."""
    now = time.time_ns() // 1_000_000
    alone = [json.dumps({"id": f"alone-{i}", "hue-mean": -2.0 + i}) for i in range(UNLABELLED)]
    log = open_log(url)
    try:
        log.append([Outgoing(name, None, v, now) for v in (*BAD, *map(str.encode, alone))])
    finally:
        log.close()


def _told(prometheus: Prometheus) -> bool:
    """Whether the last records fed have been consumed, and that was scraped."""
    waiting = prometheus.query("headwater_pending_labels")
    return bool(waiting) and waiting[0][1] == UNLABELLED
