"""One suite, every transport: a test states a promise of `protocol.py` and knows no device.

Offsets may have gaps and a commit may show a moment later on a broker, so no test counts
offsets, and what has to show is awaited with a deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from _pytest.mark.structures import ParameterSet

from consumers.base.records import Fetched, Outgoing, Partition
from consumers.transports import open_log
from consumers.transports.protocol import Log, Owner
from consumers.transports.registry import Transport, transports
from tests.waiting import PATIENCE

Connect = Callable[[], Log]
MakeTopic = Callable[..., str]
Values = Callable[..., list[bytes | None]]
Own = Callable[..., Owner]
Polled = Callable[..., dict[Partition, list[bytes | None]]]


def logs(ability: Callable[[Transport], bool] = lambda transport: True) -> list[ParameterSet]:
    """Each transport that is shipped and has the ability, as a parameter of a test."""
    return [
        pytest.param(scheme, marks=[pytest.mark.kafka] if scheme == "kafka" else [])
        for scheme, transport in transports().items()
        if ability(transport)
    ]


def only(ability: Callable[[Transport], bool]) -> pytest.MarkDecorator:
    """Run a test only on the transports that have the ability."""
    return pytest.mark.parametrize("log_url", logs(ability), indirect=True)


@pytest.fixture(params=logs())
def log_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The log under test."""
    scheme = request.param
    if scheme == "kafka":
        return f"kafka://{request.getfixturevalue('kafka_bootstrap')}"
    return f"{scheme}:{tmp_path / 'log' if transports()[scheme].names_path else uuid4()}"


@pytest.fixture
def connect(log_url: str) -> Iterator[Connect]:
    """Open the log once more; all are closed at the end."""
    logs: list[Log] = []

    def opened() -> Log:
        logs.append(open_log(log_url))
        return logs[-1]

    yield opened
    for log in logs:
        log.close()


@pytest.fixture
def log(connect: Connect) -> Log:
    """An open log."""
    return connect()


@pytest.fixture
def unique() -> str:
    """A name nobody else uses: a broker outlives the test."""
    return f"t-{uuid4().hex[:12]}"


@pytest.fixture
def eventually() -> Callable[[Callable[[], object], object], object]:
    """Probe until the value is the expected one or the patience is over; the last value."""

    def awaited(probe: Callable[[], object], expected: object) -> object:
        deadline = time.monotonic() + PATIENCE
        while (value := probe()) != expected and time.monotonic() < deadline:
            time.sleep(0.01)
        return value

    return awaited


@pytest.fixture
def make_topic(log: Log, unique: str, eventually: Callable[..., object]) -> MakeTopic:
    """Make a topic and wait until the log lists it; its name."""

    def made(suffix: str = "topic", partitions: int = 1) -> str:
        topic = f"{unique}.{suffix}"
        log.create_topic(topic, partitions)
        assert eventually(lambda: log.topics().get(topic), partitions) == partitions
        return topic

    return made


@pytest.fixture
def read_all() -> Callable[[Log, Sequence[Partition]], list[Fetched]]:
    """Everything of some partitions, from their beginnings to their ends."""

    def chunks(log: Log, partitions: Sequence[Partition]) -> list[Fetched]:
        return list(log.read(log.beginning_offsets(partitions), log.end_offsets(partitions)))

    return chunks


@pytest.fixture
def values(read_all: Callable[[Log, Sequence[Partition]], list[Fetched]]) -> Values:
    """The values of one partition, in order."""

    def of(log: Log, topic: str, partition: int = 0) -> list[bytes | None]:
        return [
            value
            for chunk in read_all(log, [Partition(topic, partition)])
            for value in chunk.values
        ]

    return of


@pytest.fixture
def own(log: Log, unique: str) -> Iterator[Own]:
    """Become the owner, at the inputs' beginnings unless told not to seek; closed at the end."""
    owners: list[Owner] = []

    def owned(*inputs: Partition, shard: int = 0, log: Log = log, seek: bool = True) -> Owner:
        owner = log.owner(unique, shard, inputs)
        owners.append(owner)
        if seek:
            owner.seek(log.beginning_offsets(inputs))
        return owner

    yield owned
    for owner in owners:
        owner.close()


@pytest.fixture
def polled() -> Polled:
    """Poll until that many records have come or the patience is over; values by partition."""

    def by_partition(
        owner: Owner, count: int, *, most: int = 100, skip: Sequence[Partition] = ()
    ) -> dict[Partition, list[bytes | None]]:
        found: dict[Partition, list[bytes | None]] = {}
        deadline = time.monotonic() + PATIENCE
        while sum(map(len, found.values())) < count and time.monotonic() < deadline:
            for chunk in owner.poll(max_records=most, timeout=0.2, skip=skip):
                found.setdefault(chunk.partition, []).extend(chunk.values)
        return found

    return by_partition


@pytest.fixture
def numbered() -> Callable[..., list[Outgoing]]:
    """Records whose values are the numbers 0, 1, 2 …"""

    def records(topic: str, count: int, *, partition: int = 0, first: int = 0) -> list[Outgoing]:
        return [
            Outgoing(topic, None, b"%d" % number, partition=partition)
            for number in range(first, first + count)
        ]

    return records
