"""Shards in processes of one command: the same journals, page and metrics as in one process."""

from __future__ import annotations

import json
import os
import pickle
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest

from consumers.base.errors import ConfigError, FencedError
from consumers.base.records import Partition
from consumers.cluster import processes
from consumers.cluster.fleet import Fleet
from consumers.cluster.processes import ProcessFleet, spread
from consumers.transports import open_log
from consumers.web.page import Page
from consumers.web.status import status
from consumers.web.status_feed import StatusFeed
from stream.evaluate.table import SCORES
from tests.consumers.sharded import Sharded
from tests.waiting import PATIENCE, until
from tests.web.living import living

SHARDS = 3


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Sharded]:
    """Three shards over a log in a file, with some records of each."""
    service = Sharded(tmp_path, SHARDS, f"sqlite:{tmp_path / 'log.db'}")
    service.feed(40)
    with closing(service.log):
        yield service


def fleet_of(service: Sharded, count: int = 2, **options) -> ProcessFleet:
    """Its shards in so many processes."""
    stop = options.pop("stop", threading.Event())
    return ProcessFleet(service.config, stop, spread(range(SHARDS), count), **options)


@contextmanager
def live(service: Sharded, count: int = 2) -> Iterator[ProcessFleet]:
    """Its processes, once all shards are live; they are stopped at the end."""
    stop = threading.Event()
    fleet = fleet_of(service, count, stop=stop)
    thread = threading.Thread(target=fleet.run)
    thread.start()
    try:
        until(lambda: fleet.health().ready)
        yield fleet
    finally:
        stop.set()
        thread.join()


def predicted(service: Sharded) -> int:
    """The number of predictions, of which each is of another observation."""
    topic = service.config.predictions_topic
    parts = [Partition(topic, n) for n in range(service.log.topics()[topic])]
    chunks = service.log.read(service.log.beginning_offsets(parts), service.log.end_offsets(parts))
    found = [json.loads(value)["position"] for chunk in chunks for value in chunk.values]
    assert len({(p["partition"], p["offset"]) for p in found}) == len(found)
    return len(found)


def learned(fleet: ProcessFleet) -> int:
    """Labels that the page shows."""
    views = [feed.view for feed in fleet.status_feeds().values()]
    return sum(view.learned for view in views if view is not None)


def test_processes_leave_the_journals_of_one(tmp_path: Path) -> None:
    """The same models, and every observation predicted once."""
    apart, together = (
        Sharded(tmp_path / name, SHARDS, f"sqlite:{tmp_path / f'{name}.db'}")
        for name in ("apart", "together")
    )
    for each in (apart, together):
        each.feed(60)
    fleet = fleet_of(apart, drain=True)
    fleet.run()
    Fleet(
        together.config,
        lambda: open_log(together.url),
        threading.Event(),
        range(SHARDS),
        drain=True,
    ).run()

    assert [apart.fingerprint(s) for s in range(SHARDS)] == [
        together.fingerprint(s) for s in range(SHARDS)
    ]
    assert predicted(apart) == predicted(together) == 60 * SHARDS
    assert fleet.health().state == "stopped"
    assert learned(fleet) == 60 * SHARDS
    for each in (apart, together):
        each.log.close()


def test_page_and_metrics_are_those_of_all_processes(service: Sharded) -> None:
    """A series for each shard; questions are answered by the process that has the shard."""
    with live(service) as fleet:
        until(lambda: learned(fleet) == 40 * SHARDS)
        text = generate_latest(fleet.registry).decode()
        for shard in range(SHARDS):
            assert f'headwater_learned_total{{shard="{shard}"}} 40.0' in text
        assert text.count("# HELP headwater_learned_total") == 1
        page = Page("svc", fleet.health, fleet.status_feeds)
        assert page._document(2).count(b'"state":"live"') >= SHARDS
        feed = fleet.status_feeds()[2]
        answer = feed.questions.ask(feed.latest[-1])
        explanation, at = answer.result(PATIENCE)
        assert at == 40
        assert explanation.contributions
        assert feed.questions.copy().result(PATIENCE).learned == 40


def pids(fleet: ProcessFleet) -> list[int]:
    """Their numbers, in the order of the processes."""
    from multiprocessing import active_children

    names = [
        child.thread.name.replace("process-", "headwater-shards-") for child in fleet._children
    ]
    every = {child.name: child.pid for child in active_children()}
    return [next(pid for name, pid in every.items() if name.startswith(n)) for n in names]


def test_killed_process_is_started_again(
    service: Sharded, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its shards are starting, the others continue; nothing is lost or predicted twice."""
    caplog.set_level("WARNING")
    monkeypatch.setattr(processes, "FIRST_PAUSE", 0.05)
    with live(service) as fleet:
        first, second = pids(fleet)
        service.feed(40)
        os.kill(first, signal.SIGKILL)
        until(lambda: "killed by SIGKILL" in str(fleet.status_feeds()[2].health()))
        assert fleet.health().state == "starting"
        assert fleet.status_feeds()[1].health().ready
        until(lambda: fleet.health().ready and learned(fleet) == 80 * SHARDS)
        assert pids(fleet)[0] != first
        assert pids(fleet)[1] == second
        assert "the process of shards 0, 2 ended (killed by SIGKILL)" in caplog.text

    assert predicted(service) == 80 * SHARDS


def test_silent_process_is_stalled(service: Sharded, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is stopped tells nothing: the service should be replaced, and its metrics are
    absent."""
    monkeypatch.setattr(processes, "COLLECT_SECONDS", 0.5)
    with live(service) as fleet:
        first, _ = pids(fleet)
        fleet._children[0]._silence = 0.5  # of [http] max_idle
        os.kill(first, signal.SIGSTOP)
        try:
            until(lambda: fleet.health().state == "stalled")
            assert "silent for" in fleet.health().detail
            for _ in range(5):
                text = generate_latest(fleet.registry)
                assert b'headwater_learned_total{shard="0"}' not in text
                assert b'headwater_learned_total{shard="1"}' in text
            assert fleet._children[0].waiting == 1  # asked once, although nobody answers
        finally:
            os.kill(first, signal.SIGCONT)
        until(lambda: fleet.health().ready)


def test_fenced_process_ends_all(service: Sharded) -> None:
    """As one process does: a restart would fence the new owner in turn."""
    stop, errors = threading.Event(), list[BaseException]()
    fleet = fleet_of(service, stop=stop)

    def run() -> None:
        try:
            fleet.run()
        except FencedError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: fleet.health().ready)
    Fleet(service.config, lambda: open_log(service.url), threading.Event(), [1], drain=True).run()
    service.feed(40)
    thread.join()

    assert len(errors) == 1


def test_error_of_the_operator_ends_all(service: Sharded) -> None:
    """A journal of another configuration; it is raised here, in one piece."""
    fleet_of(service, drain=True).run()
    other = service.config.model_copy(
        update={"scale": service.config.scale.model_copy(update={"shards": 2})}
    )
    with pytest.raises(ConfigError, match=r"scale\.shards: was 3, now 2"):
        ProcessFleet(other, threading.Event(), [[0], [1]], drain=True).run()


def test_each_process_has_its_processor(service: Sharded, monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are as many; otherwise any."""
    cores = sorted(os.sched_getaffinity(0))
    assert processes._cores(len(cores)) == cores
    assert processes._cores(len(cores) + 1) == [None] * (len(cores) + 1)
    monkeypatch.setattr(processes, "_cores", lambda n: [cores[-1]] * n)
    with live(service, 1) as fleet:
        (pid,) = pids(fleet)
        tasks = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
        assert os.sched_getaffinity(pid) == {cores[-1]}
        # Its threads too; those of libraries, from before, have nothing to do.
        assert sum(os.sched_getaffinity(task) == {cores[-1]} for task in tasks) >= 1 + SHARDS


CHALLENGED = """
[[challenger]]
name = "other"
type = "GaussianNB"
[drift]
detectors = [{on = "error", type = "ADWIN"}]
"""
DECIDING = """
[decision]
max_false_positive_rate = {label = "right", rate = 0.2}
"""


@pytest.mark.parametrize("more", [CHALLENGED, DECIDING])
def test_copy_of_a_status_feed_shows_the_same(tmp_path: Path, more: str) -> None:
    """Whatever the page shows and whatever the scores are, after a way through a pipe."""
    with living(tmp_path, more=more) as service:
        service.send(300)
        service.spoil(b"x")
        feed = service.status_feed
        posted = feed.posted()
        copied = StatusFeed(lambda: 0.0, feed.health)
        copied.take(pickle.loads(pickle.dumps(posted)))
        same = StatusFeed(lambda: 0.0, feed.health)
        same.take(posted)

        def shown(feed: StatusFeed) -> object:
            return status("svc", "1", ("live", ""), {0: feed}, 0, 1000.0)

        assert shown(copied) == shown(same)
        scores: Sequence = (copied.view.quality.scores, feed.view.quality.scores)
        assert scores[0] == dict(scores[1])
        for window in scores[1]:
            for score in SCORES:
                assert score.value(scores[0][window]) == score.value(scores[1][window])
