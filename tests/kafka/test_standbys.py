"""What a follower costs a real broker: as much for eight shards as for one."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from kafka.net.connection import KafkaConnection

from consumers.cluster import standby
from consumers.cluster.standby import Follower
from consumers.transports import open_log
from tests.consumers.sharded import Sharded, Watched
from tests.topics import widen
from tests.waiting import until

pytestmark = pytest.mark.kafka

LOOKS = 20
CLIENTS = 3  # of a thread: one reads the journal, one the inputs, one asks about topics


@dataclass
class Cost:
    """Threads, connections, and requests of so many looks."""

    threads: int
    connections: int
    requests: Counter[str]


class Connections:
    """The client's connections: those that are open, and the requests sent by all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open: set[int] = set()
        self.sent: Counter[str] = Counter()
        made, lost = KafkaConnection.connection_made, KafkaConnection.connection_lost
        send = KafkaConnection._send_request

        def connection_made(connection, transport) -> None:
            self.open.add(id(connection))
            made(connection, transport)

        def connection_lost(connection, exc) -> None:
            self.open.discard(id(connection))
            lost(connection, exc)

        def send_request(connection, request, *args, **kwargs):
            self.sent[type(request).__name__] += 1
            return send(connection, request, *args, **kwargs)

        monkeypatch.setattr(KafkaConnection, "connection_made", connection_made)
        monkeypatch.setattr(KafkaConnection, "connection_lost", connection_lost)
        monkeypatch.setattr(KafkaConnection, "_send_request", send_request)


def cost(directory: Path, bootstrap: str, shards: int, monkeypatch: pytest.MonkeyPatch) -> Cost:
    """Of following so many shards of which nothing is committed any more."""
    url = f"kafka://{bootstrap}"
    service = Sharded(directory, shards, url, f"follow-{uuid4().hex[:8]}")
    service.feed(12)
    service.run()
    parts = [service.journal(n) for n in range(shards)]
    logs: list[Watched] = []

    def opened() -> Watched:
        logs.append(Watched(open_log(url)))
        return logs[-1]

    def looks() -> int:
        return sum(log.calls["end_offsets"] for log in logs)

    before, clients = threading.active_count(), Connections(monkeypatch)
    with closing(service.log), closing(Follower(service.standby, opened)) as follower:
        standbys = [follower.follow(n) for n in range(shards)]
        until(lambda: all(each.seq is not None for each in standbys))
        begun, sent = looks(), Counter(clients.sent)
        until(lambda: looks() >= begun + LOOKS)
        found = Cost(threading.active_count() - before, len(clients.open), clients.sent - sent)
        for each, part in zip(standbys, parts, strict=True):
            live = each.release()
            assert live is not None
            assert live.shard.fingerprint() == service.fingerprint(part.number)
    return found


def test_eight_shards_cost_the_broker_what_one_costs(
    kafka_bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads, connections and requests have one bound, and a look is one request."""
    monkeypatch.setattr(standby, "LOOK_SECONDS", 0.02)
    one, eight = (cost(tmp_path / str(n), kafka_bootstrap, n, monkeypatch) for n in (1, 8))

    for of in (one, eight):
        assert of.threads <= standby.LANES * (1 + CLIENTS)  # a client has a thread of its own
        assert of.connections <= standby.LANES * CLIENTS
        # The last look is under way, or another one besides.
        assert LOOKS - 1 <= of.requests["ListOffsetsRequest"] <= LOOKS + 1
        assert not of.requests["FetchRequest"]


def test_partition_that_is_added_is_followed(
    kafka_bootstrap: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The follower has described the topics before, and its client knows fewer partitions."""
    url = f"kafka://{kafka_bootstrap}"
    service = Sharded(tmp_path, 1, url, f"added-{uuid4().hex[:8]}")
    service.feed(12)
    service.run()
    part = service.journal(0)
    with closing(Follower(service.standby, lambda: open_log(url))) as follower:
        followed = follower.follow(0)
        until(lambda: followed.seq is not None)
        for topic in service.config.input_topics:
            widen(service.log, topic, 2)
        service.shards = 2  # feeds the second partition too
        service.log.close()
        service.log = open_log(url)  # the client of the other one does not know the partition yet
        service.feed(12)
        service.run([0])
        end = service.log.end_offsets([part])[part]
        until(lambda: (at := followed._followed.live) is not None and at.position >= end)
        live = followed.release()
        assert live is not None
        assert live.shard.fingerprint() == service.fingerprint(0)
        assert live.shard.view().learned == 36
    service.log.close()
    assert "cannot be followed" not in caplog.text
