"""Logs for the tests of recovery and the loop, and what a finished run looks like."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from consumers.base.records import Partition, Record
from consumers.config import Config
from consumers.journal import records as journal
from consumers.journal.records import CommitRecord
from consumers.service.live import LiveShard
from consumers.service.recovery import rebuild, sources
from consumers.service.runner import Runner
from consumers.shard.views import ShardView, Subscriber
from consumers.transports import open_log
from consumers.transports.protocol import Log
from tests.consumers import feeds

FEATURES = tuple(sorted(feeds.phishing(1)[0][0]))


class Service:
    """One service over a log: run it, and look at what it wrote."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url, self.directory = url, directory
        self.log = open_log(url)

    def config(self, **changes) -> Config:
        """The configuration over Phishing's features."""
        return feeds.config(self.directory, self.url, **{"features": FEATURES, **changes})

    def run(
        self,
        log: Log | None = None,
        *,
        stop_after: int | None = None,
        on_commit: Callable[[int], object] = lambda count: None,
        **changes,
    ) -> ShardView | None:
        """Drain the inputs, or stop after that many commits."""
        stop, count = threading.Event(), 0

        def told(event, view) -> None:
            nonlocal count
            count += 1
            on_commit(count)
            if count == stop_after:
                stop.set()

        return self.runner(stop, told, log, **changes).run()

    def runner(self, stop: threading.Event, told: Subscriber, log: Log | None, **changes) -> Runner:
        """A runner that drains."""
        config = self.config(**changes)
        return Runner(config, log or self.log, stop, drain=True, subscribers=[told])

    def rebuilt(self, end: int | None = None, **changes) -> LiveShard:
        """The shard from the journal alone."""
        config = self.config(**changes)
        found = sources(config, self.log)
        at = self.ends("svc-journal")[0] if end is None else end
        return rebuild(config, self.log, found, None, end=at)

    def fingerprint(self) -> str:
        """Of the shard as the journal describes it."""
        return self.rebuilt().shard.fingerprint()

    def records(self, topic: str) -> list[Record]:
        """Everything in a topic, partition by partition."""
        parts = [Partition(topic, n) for n in range(self.log.topics()[topic])]
        chunks = self.log.read(self.log.beginning_offsets(parts), self.log.end_offsets(parts))
        records = [
            Record(*chunk.partition, *columns)
            for chunk in chunks
            for columns in zip(
                chunk.offsets, chunk.timestamps, chunk.keys, chunk.values, strict=True
            )
        ]
        return sorted(records, key=lambda r: (r.partition, r.offset))

    def entries(self) -> list[CommitRecord]:
        """The journal's entries that consumed records."""
        found = [journal.decode(r.value) for r in self.records("svc-journal")]
        return [entry for entry in found if isinstance(entry, CommitRecord)]

    def predictions(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """Partition, key and value of each prediction."""
        return [(r.partition, r.key, r.value) for r in self.records("svc-predictions")]

    def ends(self, topic: str) -> list[int]:
        """The end of each partition of a topic."""
        parts = [Partition(topic, n) for n in range(self.log.topics()[topic])]
        return list(self.log.end_offsets(parts).values())

    def snapshots(self) -> list[Path]:
        """The files of the store."""
        return sorted((self.directory / "headwater-state").rglob("*.hws"))


MakeService = Callable[..., Service]


@contextmanager
def making(parent: Path) -> Iterator[MakeService]:
    """Make services below this directory; all are closed at the end."""
    services: list[Service] = []

    def made(kind: str = "memory") -> Service:
        directory = parent / str(len(services))
        directory.mkdir()
        name = f"{kind}:{uuid4() if kind == 'memory' else directory / 'log.db'}"
        services.append(Service(name, directory))
        return services[-1]

    yield made
    for service in services:
        service.log.close()


@pytest.fixture
def make_service(tmp_path: Path) -> Iterator[MakeService]:
    """Make a service on a log of its own; all are closed at the end of the test."""
    with making(tmp_path) as made:
        yield made


@pytest.fixture(scope="session")
def own_services(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[], AbstractContextManager[MakeService]]:
    """The same for each example of a property: they are closed at the end of the example."""
    return lambda: making(tmp_path_factory.mktemp("services"))


@pytest.fixture
def ran(make_service: MakeService) -> Service:
    """A service that drained 300 records, with snapshots on the way."""
    service = make_service()
    feeds.fill(service.log, feeds.phishing(300))
    service.run(every_records=120)
    return service


@pytest.fixture
def ran_thrice(make_service: MakeService) -> Service:
    """A service that took 300 records in three runs: so it has three snapshots, always the same."""
    service = make_service()
    feeds.fill(service.log, feeds.phishing(300))
    for stop_after in (4, 4, None):
        service.run(stop_after=stop_after, every_records=10**6)
    assert len(service.snapshots()) == 3
    return service
