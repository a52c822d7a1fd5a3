"""`headwater run --processes`: one command, one page, several processes."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from consumers.base.records import Outgoing
from consumers.transports import open_log
from consumers.transports.placement import murmur2
from tests.acceptance.kafka_feed import committed, configure, elec2, fill
from tests.acceptance.service import Service
from tests.calling import call
from tests.waiting import PATIENCE, until

CONFIG = """
name = "svc"
[input]
transport = "{transport}"
observations = "obs"
labels = "ans"
[features]
a = "numeric"
b = "numeric"
[model]
type = "GaussianNB"
[scale]
shards = 2
[snapshots]
directory = "state"
[http]
port = 0
[serve]
max_age = "50ms"
{more}
"""
NOW = int(time.time() * 1000) - 10_000_000


def configured(directory: Path, transport: str = "", more: str = "") -> Path:
    """A service of two shards."""
    path = directory / "svc.toml"
    transport = transport or f"sqlite:{directory / 'log.db'}"
    path.write_text(CONFIG.format(transport=transport, more=more))
    return path


@pytest.fixture
def send(tmp_path: Path) -> Iterator[Callable[[int], None]]:
    """Appends more observations with their labels."""
    log = open_log(f"sqlite:{tmp_path / 'log.db'}")
    for topic in ("obs", "ans"):
        log.create_topic(topic, 2)
    sent = 0

    def send(count: int) -> None:
        nonlocal sent
        records = []
        for i in range(sent, sent + count):
            key = b"%d" % i
            place = (murmur2(key) & 0x7FFFFFFF) % 2
            x = json.dumps({"a": i % 2 + (i % 7) / 10, "b": (i * 37 % 11) / 11}).encode()
            label = json.dumps({"label": ("left", "right")[i % 2]}).encode()
            records.append(Outgoing("obs", key, x, NOW + 10 * i, (), place))
            records.append(Outgoing("ans", key, label, NOW + 10 * i + 5, (), place))
        log.append(records)
        sent += count

    yield send
    log.close()


def learned(service: Service) -> float:
    """Labels that all shards have learned; those of a process that starts are absent."""
    return sum(service.metric(f'headwater_learned_total{{shard="{n}"}}') or 0.0 for n in range(2))


def children(pid: int) -> list[int]:
    """The processes that it has started, without multiprocessing's own."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")  # a thread starts each of them
    every = [each for task in tasks for each in _read(task).decode().split()]
    return sorted(int(each) for each in every if b"spawn_main" in _read(f"/proc/{each}/cmdline"))


def _read(file: str | Path) -> bytes:
    """What it has; nothing if its thread or process has ended meanwhile."""
    try:
        return Path(file).read_bytes()
    except OSError:
        return b""


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("more", ["", "port = 0"])
def test_one_page_answers_for_all(tmp_path: Path, send, more: str) -> None:
    """Metrics, page, and requests, also with a process for them; SIGTERM ends all with 0."""
    send(200)
    with Service(configured(tmp_path, more=more), "--processes", "auto") as service:
        service.wait_until(lambda: service.status("/readyz")[0] == 200)
        service.wait_until(lambda: learned(service) == 200)
        until(lambda: sum(shard["observations"] for shard in _shards(service)) == 200)
        assert [shard["state"] for shard in _shards(service)] == ["live", "live"]
        where = r"answered on http://(\S+)" if more else r"metrics on http://(\S+)/metrics"
        with httpx.Client(
            base_url=f"http://{service.wait_said(where)[1]}", timeout=PATIENCE
        ) as client:
            for shard in range(2):
                asked = f"/v1/predict?shard={shard}"
                found = until(lambda asked=asked: _answer(client, asked))
                assert found["prediction"] == "right"
                recorded = client.post("/v1/predict?record=true", json={"id": "r", "a": 1.0})
                assert recorded.status_code == 200, recorded.text
        every = children(service.pid)
        assert len(every) == 2 + (more != "")
        assert service.terminate() == 0
        assert all(map(gone, every))
        assert service.output.count("stopped at journal position") == 2


def _shards(service: Service) -> list[dict]:
    """What the page shows of each; a process posts it after its metrics."""
    return json.loads(service.get("/status"))["shards"]


def _answer(client: httpx.Client, path: str) -> dict | None:
    """The prediction of a model that has learned."""
    answer = client.post(path, json={"a": 1.0, "b": 0.5})
    found = answer.json()
    return found if answer.status_code == 200 and found["model"]["learned"] > 50 else None


def test_processes_end_with_the_one_that_started_them(tmp_path: Path, send) -> None:
    """After kill -9 nobody is left to stop them; nothing is predicted twice by the next start."""
    send(100)
    with Service(configured(tmp_path), "--processes", "2") as service:
        service.wait_until(lambda: learned(service) == 100)
        every = children(service.pid)
        assert len(every) == 2
        service.kill()
        until(lambda: all(map(gone, every)))
    send(100)
    with Service(configured(tmp_path), "--processes", "1") as service:
        service.wait_until(lambda: learned(service) == 200)
        os.kill(children(service.pid)[0], signal.SIGTERM)  # the one that started it decides
        os.kill(service.pid, signal.SIGINT)
        assert service.wait() == 0


def test_process_whose_parent_is_killed_during_its_start_takes_no_shard(
    tmp_path: Path, send
) -> None:
    """It would fence a successor."""
    send(100)
    with Service(configured(tmp_path), "--processes", "2") as service:
        every = until(lambda: len(found := children(service.pid)) == 2 and found)
        service.kill()
        until(lambda: all(map(gone, every)))
        assert "live at" not in service.output


def test_start_ends_the_processes_that_a_killed_run_has_left(tmp_path: Path, send) -> None:
    """One that is stopped would go on later, perhaps just before it takes its shard."""
    send(100)
    with Service(configured(tmp_path), "--processes", "2") as service:
        service.wait_until(lambda: learned(service) == 100)
        left, other = children(service.pid)
        os.kill(left, signal.SIGSTOP)
        service.kill()
        until(lambda: gone(other))
    with Service(configured(tmp_path), "--processes", "2") as service:
        send(100)
        service.wait_until(lambda: learned(service) == 200)
        assert gone(left)
        assert f"ended process {left}, which a killed run --processes had left" in service.output
        assert service.terminate() == 0
    assert list(tmp_path.rglob("run-*.lock")) == []


@pytest.mark.kafka
def test_kills_on_a_broker_lose_and_double_nothing(tmp_path: Path, kafka_bootstrap: str) -> None:
    """One process after the other is killed while it works, and started again."""
    feed, name = fill(kafka_bootstrap, elec2()[:20_000], 4), f"apart-{uuid4().hex[:8]}"
    with closing(open_log(f"kafka://{kafka_bootstrap}")) as log:
        for topic, partitions in (("predictions", 4), ("dead-letters", 1), ("journal", 4)):
            log.create_topic(f"{name}-{topic}", partitions)
    path = configure(tmp_path, feed, name, max_records=500, every_records=2_000)
    path.write_text(f"{path.read_text()}\n[scale]\nshards = 4\n")

    def predicted() -> list[str]:
        return [p["id"] for part in committed(kafka_bootstrap, name) for p in part]

    with Service(path, "--processes", "2") as service:
        for kill in range(1, 5):
            service.wait_until(lambda kill=kill: len(predicted()) >= 3_000 * kill)
            victim = children(service.pid)[kill % 2]
            os.kill(victim, signal.SIGKILL)
            # A killed child is listed until its parent has noticed.
            service.wait_until(lambda v=victim: len({*children(service.pid)} - {v}) == 2)
        service.wait_until(lambda: len(predicted()) >= 20_000)
        assert service.output.count("ended (killed by SIGKILL)") == 4
        assert service.terminate() == 0
    assert sorted(predicted(), key=int) == [str(i) for i in range(20_000)]


@pytest.mark.parametrize(
    ("transport", "arguments", "words"),
    [
        ("memory:x", ["--processes", "auto"], "memory: is for one; use kafka: or sqlite:"),
        ("", ["--processes", "3"], "auto, or a number from 1 to 2, one for each shard, got '3'"),
        ("", ["--processes", "0"], "a number from 1 to 2"),
        ("", ["--processes", "two"], "got 'two'"),
        ("", ["--shards", "1", "--processes", "2"], "a number from 1 to 1"),
    ],
)
def test_wrong_number_of_processes_is_one_line(
    tmp_path: Path,
    transport: str,
    arguments: list[str],
    words: str,
) -> None:
    """Before anything is opened."""
    ended = call("run", configured(tmp_path, transport), *arguments, code=2)

    assert words in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
