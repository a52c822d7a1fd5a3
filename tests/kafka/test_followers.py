"""Members of a real group: who follows a shard, and who gets it when its owner leaves or dies."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from uuid import uuid4

import httpx
import pytest
from kafka.net.connection import KafkaConnection
from kafka.protocol.metadata import MetadataRequest

from consumers.cluster.group import ShardGroup
from consumers.transports import open_log
from consumers.transports.kafka.assignor import KafkaMember
from consumers.transports.kafka.log import KafkaLog
from tests.acceptance.kafka_feed import Stream, committed, configure, elec2, fill, outgoing
from tests.acceptance.service import Service
from tests.consumers.sharded import Sharded
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.kafka

SHARDS = 4


def settled(members: list[KafkaMember], standbys: int) -> bool:
    """Whether each shard has one owner, and as many followers as it should. All copies are warm."""
    for member in members:
        if (each := member.assigned()) is not None:
            member.caught_up(each.follows)
    known = [each for member in members if (each := member.assigned()) is not None]
    loads = [len(each.runs) for each in known]
    runs = sorted(n for each in known for n in each.runs)
    follows = sorted(n for each in known for n in each.follows)
    expected = min(standbys, len(members) - 1)
    return (
        len(known) == len(members)
        and max(loads) - min(loads) <= 1
        and runs == list(range(SHARDS))
        and follows == sorted(list(range(SHARDS)) * expected)
    )


def test_shards_of_a_member_that_leaves_go_to_their_followers(kafka_bootstrap) -> None:
    """Members come and go at random; each shard has two followers."""
    standbys = 2
    name, random = f"followers-{uuid4().hex[:8]}", Random(standbys)
    with closing(KafkaLog([kafka_bootstrap], {})) as log, ExitStack() as stack:
        log.create_topic(f"{name}-journal", SHARDS)
        members: list[KafkaMember] = []
        for step in range(8):
            if len(members) < 2 or (len(members) < 4 and random.random() < 0.5):
                members.append(log.member(name, f"{name}-journal", standbys))
                stack.callback(members[-1].close)
                until(lambda: settled(members, standbys))
                continue
            gone = members.pop(random.randrange(len(members)))
            left, followed = gone.assigned(), [m.assigned() for m in members]
            gone.close()
            until(lambda: settled(members, standbys))
            assert left is not None
            for member, before in zip(members, followed, strict=True):
                after = member.assigned()
                assert before is not None
                assert after is not None
                assert after.runs & left.runs <= before.follows, f"cold at step {step}"
                assert before.runs <= after.runs


def answering(services: list[Service], stream: Stream) -> dict[int, list[Service]]:
    """The processes that have each shard's model, of their own or followed."""
    found: dict[int, list[Service]] = {n: [] for n in range(3)}
    for service in services:
        address = service.wait_said(r"metrics on (http://\S+)/metrics")[1]
        for shard, those in found.items():
            asked = f"{address}/v1/predict?shard={shard}"
            if httpx.post(asked, json=stream[0][0], timeout=PATIENCE).status_code == 200:
                those.append(service)
    return found


def test_shards_of_a_killed_process_continue_where_they_were_followed(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    """Three processes, three shards, kill -9 of one and of a second one: each prediction once."""
    stream, name = elec2()[:900], f"followers-{uuid4().hex[:8]}"
    feed = fill(kafka_bootstrap, stream[:300], 3)
    later = [r for r in outgoing(stream, feed) if int(r.key or b"0") >= 300]
    with closing(open_log(f"kafka://{kafka_bootstrap}")) as log, ExitStack() as stack:
        for topic in ("predictions", "dead-letters", "journal"):
            log.create_topic(f"{name}-{topic}", 3)
        services = []
        for host in ("a", "b", "c"):
            (tmp_path / host).mkdir()
            config = configure(tmp_path / host, feed, name, every_records=200)
            config.write_text(f"{config.read_text()}\n[scale]\nshards = 3\n")
            services.append(stack.enter_context(Service(config)))

        def predicted() -> list[str]:
            return [p["id"] for part in committed(kafka_bootstrap, name) for p in part]

        def warm() -> bool:
            # A process that joined late follows nothing before it has a shard of its own.
            joined = all("was assigned to this process" in s.output for s in services)
            return joined and all(len(n) == 2 for n in answering(services, stream).values())

        until(lambda: len(predicted()) == 300)
        for count in (300, 600):
            until(warm)
            gone = services.pop()
            heard = [len(service.output) for service in services]
            gone.kill()
            log.append([r for r in later if count <= int(r.key or b"0") < count + 300])
            until(lambda: len(predicted()) >= count + 300)  # noqa: B023
            news = "".join(s.output[n:] for s, n in zip(services, heard, strict=True))
            assert "was assigned to this process; it continues after journal record" in news
            assert "it is loaded" not in news
    ids = predicted()
    assert len(ids) == len(set(ids)) == 900


def test_process_that_joins_takes_over_what_it_has_followed(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    """It has no snapshot, and each of its shards goes on where its copy is. Nothing is loaded."""
    stream, name = elec2()[:400], f"joins-{uuid4().hex[:8]}"
    feed = fill(kafka_bootstrap, stream[:300], 2)
    with closing(open_log(f"kafka://{kafka_bootstrap}")) as log, ExitStack() as stack:
        for topic in ("predictions", "dead-letters", "journal"):
            log.create_topic(f"{name}-{topic}", 2)
        services = []
        for host in ("a", "b"):
            (tmp_path / host).mkdir()
            config = configure(tmp_path / host, feed, name, every_records=10_000)
            config.write_text(f"{config.read_text()}\n[scale]\nshards = 2\nstandbys = 0\n")
            services.append(stack.enter_context(Service(config)))
            shard = services[-1].wait_said(r"shard (\d) was assigned to this process; it (.*)")
            until(lambda: sum(map(len, committed(kafka_bootstrap, name))) == 300)

        assert shard[2].startswith("continues after journal record")
        assert "it is loaded" not in services[1].output
        services[0].wait_said(rf"shard {shard[1]} was assigned to another process")
        log.append([r for r in outgoing(stream, feed) if int(r.key or b"0") >= 300])
        until(lambda: sum(map(len, committed(kafka_bootstrap, name))) >= 400)
    ids = [p["id"] for part in committed(kafka_bootstrap, name) for p in part]
    assert len(ids) == len(set(ids)) == 400


def test_only_topics_of_the_service_are_asked_about(
    kafka_bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start, followers, commits and a takeover: a cluster may have thousands of topics."""
    url, name = f"kafka://{kafka_bootstrap}", f"asked-{uuid4().hex[:8]}"
    service = Sharded(tmp_path, 2, url, name)
    service.log.create_topic(f"of-others-{name}", 1)
    service.feed(12)
    asked: set[str | None] = set()
    send = KafkaConnection._send_request

    def send_request(connection, request, *args, **kwargs):
        if isinstance(request, MetadataRequest):
            topics = [None] if request.topics is None else [t.name for t in request.topics]
            asked.update(topics)
        return send(connection, request, *args, **kwargs)

    monkeypatch.setattr(KafkaConnection, "_send_request", send_request)
    with closing(service.log), ExitStack() as stack:
        groups = []
        for host in range(2):
            stop, config = threading.Event(), service.on_host(tmp_path / str(host))
            member = service.log.member(config.name, config.journal_topic, 1)
            groups.append((stop, ShardGroup(config, lambda: open_log(url), member, stop)))
            thread = threading.Thread(target=groups[-1][1].run)
            thread.start()
            stack.callback(thread.join)
            stack.callback(stop.set)
        until(lambda: all(g.health().state == "live" for _, g in groups))
        until(lambda: all(s.seq is not None for _, g in groups for s in g._standbys.values()))
        service.feed(12)
        groups[0][0].set()
        until(lambda: set(groups[1][1].status_feeds()) == {0, 1})
        until(lambda: groups[1][1].health().state == "live")

    assert asked == set(service.config.topics.values())
