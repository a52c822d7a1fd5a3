"""Two processes of one service on a real broker: one runs the shard, the other takes over warm."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError
from uuid import uuid4

import httpx
import pytest
from kafka import KafkaAdminClient

from consumers.transports import open_log
from tests.acceptance.kafka_feed import Feed, Stream, committed, configure, elec2, fill, outgoing
from tests.acceptance.service import Service
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.kafka

FIRST = 3_000  # records that are there before anybody starts


@pytest.fixture(scope="module")
def stream() -> Stream:
    """Elec2."""
    return elec2()


@pytest.fixture
def name() -> str:
    """A service nobody has run."""
    return f"group-{uuid4().hex[:8]}"


class Pair:
    """A service's configuration for two hosts: the same name, snapshots of their own."""

    def __init__(self, directory: Path, feed: Feed, name: str) -> None:
        self.feed, self.name = feed, name
        self.configs = [
            configure(directory / host, feed, name, every_records=1_000) for host in ("a", "b")
        ]
        log = open_log(f"kafka://{feed.bootstrap}")
        for topic in (f"{name}-predictions", f"{name}-dead-letters", f"{name}-journal"):
            log.create_topic(topic, 1)
        log.close()

    def predicted(self) -> list[str]:
        """Ids of the committed predictions, in order."""
        return [p["id"] for p in committed(self.feed.bootstrap, self.name)[0]]


@pytest.fixture
def pair(tmp_path: Path, kafka_bootstrap: str, stream: Stream, name: str) -> Pair:
    """Two hosts over a feed of which the first records are there."""
    for host in ("a", "b"):
        (tmp_path / host).mkdir()
    return Pair(tmp_path, fill(kafka_bootstrap, stream[:FIRST], 1), name)


def stands_by(service: Service) -> bool:
    """Whether it says that it follows the shard."""
    try:
        return service.get("/readyz").startswith("standby: shard 0 at record")
    except HTTPError:  # not ready yet
        return False


def assert_same_answers(owner: Service, follower: Service) -> None:
    """The standby predicts by the same model as the owner, and says how old it is."""
    record = dict.fromkeys(("date", "period", "nswprice", "nswdemand", "vicprice"), 0.5)

    def asked(service: Service) -> dict:
        address = service.wait_said(r"metrics on (http://\S+)/metrics")[1]
        answer = httpx.post(f"{address}/v1/predict", json=record, timeout=PATIENCE)
        found = answer.json()
        del found["ts"], found["position"]  # a marker of Kafka may be after the journal record
        return {"age": found.pop("age_ms"), "found": found}

    until(lambda: asked(owner)["found"] == asked(follower)["found"])
    assert asked(follower)["age"] >= 0
    assert asked(follower)["found"]["model"]["learned"] == FIRST


def members(pair: Pair) -> int:
    """How many processes the broker counts in the group of the service."""
    with closing(KafkaAdminClient(bootstrap_servers=pair.feed.bootstrap)) as admin:
        return len(admin.describe_groups([pair.name])[pair.name]["members"])


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_standby_takes_over_warm_and_nothing_is_lost_or_doubled(
    pair: Pair, stream: Stream, how: str
) -> None:
    """The second follows the journal, and goes on where the first was: each prediction once.

    One that ends by SIGTERM leaves the group, so nobody waits for the end of its session. How long
    a takeover lasts is measured by `benchmarks/takeover.py`.
    """
    log = open_log(f"kafka://{pair.feed.bootstrap}")
    more = [r for r in outgoing(stream[: FIRST + 400], pair.feed) if int(r.key or b"0") >= FIRST]
    try:
        with Service(pair.configs[0]) as first:
            until(lambda: len(pair.predicted()) >= FIRST)
            with Service(pair.configs[1]) as second:
                second.wait_until(lambda: stands_by(second))
                assert_same_answers(first, second)
                getattr(first, how)()
                assert how == "kill" or members(pair) == 1
                log.append([r._replace(partition=0) for r in more])
                until(lambda: len(pair.predicted()) >= FIRST + 400)
                assert second.terminate() == 0
                said = second.output
    finally:
        log.close()

    ids = pair.predicted()
    assert len(ids) == len(set(ids)) == FIRST + 400
    assert "assigned to this process; it continues after journal record" in said
    assert " 0 records replayed" in said
