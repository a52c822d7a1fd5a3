"""`headwater run` while it runs: its metrics, its health, its signals, its owner."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from consumers.base.records import Outgoing, Partition
from consumers.transports import open_log
from tests.acceptance.conftest import PAGES, Shell
from tests.acceptance.service import HEADWATER, Service
from tests.stores import the_store
from tests.waiting import PATIENCE, until

PROMISED = {
    "headwater_observations": {"shard"},
    "headwater_labels": {"shard", "outcome"},
    "headwater_predictions": {"shard"},
    "headwater_learned": {"shard"},
    "headwater_dead_letters": {"shard", "reason"},
    "headwater_confusion": {"shard", "model", "true", "predicted"},
    "headwater_accuracy_ratio": {"shard", "model", "window"},
    "headwater_log_loss": {"shard", "model", "window"},
    "headwater_baseline_accuracy_ratio": {"shard", "model", "baseline", "window"},
    "headwater_pending_labels": {"shard"},
    "headwater_input_lag_records": {"shard", "topic", "partition"},
    "headwater_committed_offset": {"shard", "topic", "partition"},
    "headwater_commit_seconds": {"shard"},
    "headwater_snapshot_age_seconds": {"shard"},
    "headwater_last_record_timestamp_seconds": {"shard"},
}
OBSERVATIONS = 'headwater_observations_total{shard="0"}'
LEARNED = 'headwater_learned_total{shard="0"}'
ACCURACY = 'headwater_accuracy_ratio{model="svc",shard="0",window="all"}'
CONFIG = """
name = "{name}"
[input]
transport = "sqlite:feed.db"
observations = "visits"
labels = "answers"
[features]
is_popular = "numeric"
long_url = "numeric"
age_of_domain = "numeric"
request_from_other_domain = "numeric"
[model]
type = "GaussianNB"
[http]
port = 0
"""


class Feed(Shell):
    """A directory with a log, a file to produce and a configuration."""

    @property
    def config(self) -> Path:
        return self.directory / "svc.toml"

    def produce(self) -> None:
        """All pages once more, and every label 50 records later."""
        labels = ["--label-topic", "answers", "--label", "is_phishing", "--delay", "50"]
        self("produce", "visits", "fresh.csv", "--transport", "sqlite:feed.db", *labels)

    def snapshot(self) -> int:
        """The journal position of the newest good snapshot."""
        store = the_store(self.directory / "headwater-state", "svc")
        return next(iter(store.newest(lambda _: None)))[0].position

    def predictions(self) -> list[dict[str, Any]]:
        """All of them, in order."""
        return self.values("feed.db", "svc-predictions")


@pytest.fixture
def feed(tmp_path: Path, pages: Path) -> Feed:
    """Pages without their id, so that each time they are produced they are new."""
    rows = [line.split(",", 1) for line in pages.read_text().splitlines()]
    made = Feed(tmp_path)
    made.write("svc.toml", CONFIG.format(name="svc"))
    made.write("fresh.csv", "".join(f"{rest}\n" for _, rest in rows))
    return made


@pytest.fixture
def running(feed: Feed) -> Iterator[Service]:
    """The service, with every page predicted and every label learned."""
    feed.produce()
    with Service(feed.config) as service:
        service.wait_until(lambda: service.metric(LEARNED) == PAGES)
        yield service
        assert "Traceback" not in service.output


def test_metrics_have_every_promised_name_and_their_values_are_true(feed: Feed) -> None:
    """Prometheus' own parser reads them; accuracy is what the predictions topic adds up to."""
    feed.produce()
    feed.edit("svc.toml", ("[http]", "[snapshots]\nevery_records = 1\n[http]"))
    with Service(feed.config) as service:
        service.wait_until(lambda: service.metric('headwater_snapshot_age_seconds{shard="0"}'))
        families = {f.name: f for f in text_string_to_metric_families(service.get())}
        accuracy = service.metric(ACCURACY)
    truth = {record["id"]: record["label"] for record in feed.values("feed.db", "answers")}
    scored = [p for p in feed.predictions() if p["prediction"] is not None]
    right = sum(p["prediction"] == truth[p["id"]] for p in scored)
    confusion = {
        (s.labels["true"], s.labels["predicted"]): s.value
        for s in families["headwater_confusion"].samples
    }

    for name, labels in PROMISED.items():
        assert families[name].samples, name
        for sample in families[name].samples:
            assert set(sample.labels) - {"le"} == labels
    assert families["headwater_commit_seconds"].type == "histogram"
    assert {s.labels["window"] for s in families["headwater_log_loss"].samples} == {
        "all",
        "last_1000",
        "fading",
    }
    assert accuracy == right / len(scored)
    assert sum(confusion.values()) == len(scored)
    assert confusion["yes", "yes"] + confusion["no", "no"] == right
    assert all(s.value == 0 for s in families["headwater_input_lag_records"].samples)
    assert {s.value for s in families["headwater_committed_offset"].samples} == {PAGES}


def test_counters_go_on_where_they_were_after_a_restart(feed: Feed, running: Service) -> None:
    """Its health is told, and records that come while it runs are taken at once."""
    accuracy = running.metric(ACCURACY)
    health = (running.get("/healthz"), running.get("/readyz"))
    assert running.terminate() == 0
    with Service(feed.config) as again:
        again.wait_said("live at journal record")
        before = (again.metric(OBSERVATIONS), again.metric(LEARNED), again.metric(ACCURACY))
        feed.produce()
        again.wait_until(lambda: again.metric(OBSERVATIONS) == 2 * PAGES)

    assert health == ("live\n", "live\n")
    assert before == (PAGES, PAGES, accuracy)
    positions = [p["position"]["offset"] for p in feed.predictions()]
    assert positions == list(range(2 * PAGES))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_it_with_a_snapshot_and_success(
    feed: Feed, running: Service, number: signal.Signals
) -> None:
    """Ctrl-C and SIGTERM: the commit in hand is finished, and a restart replays nothing."""
    running._process.send_signal(number)
    code = running.wait()
    entries = len(feed.values("feed.db", "svc-journal"))

    assert code == 0
    assert feed.snapshot() == entries
    assert len(feed.predictions()) == PAGES
    assert " 0 records replayed" in feed("run", "svc.toml", "--drain").stderr


def test_second_owner_fences_the_first_which_exits_3(feed: Feed, running: Service) -> None:
    """With the next record; one line says why, and nothing is predicted twice."""
    with Service(feed.config) as second:
        second.wait_said("live at journal record")
        feed.produce()
        code = running.wait()
        second.wait_until(lambda: second.metric(OBSERVATIONS) == 2 * PAGES)
        ended = second.terminate()

    (line,) = re.findall(r"^headwater: .*", running.output, re.MULTILINE)
    assert f"shard 0 of svc belonged to process {running.pid}, which still runs" in second.output
    assert code == 3
    assert "another owner has taken it over" in line
    assert ended == 0
    offsets = [p["position"]["offset"] for p in feed.predictions()]
    assert offsets == list(range(2 * PAGES))


def test_log_of_json_is_json_to_its_last_line(feed: Feed) -> None:
    """Also the line that says why the process ends."""
    feed.produce()
    feed.edit("svc.toml", ("[http]", '[telemetry]\nlog = "json"\n[http]'))
    with Service(feed.config) as first:
        first.wait_until(lambda: '"message":"live at journal record' in first.output)
        first.wait_until(lambda: len(feed.predictions()) == PAGES)
        feed("run", "svc.toml", "--drain")
        code = first.wait()
        lines = [json.loads(line) for line in first.output.splitlines()]

    assert code == 3
    assert lines[-1]["level"] == "error"
    assert lines[-1]["exit_code"] == 3
    assert "another owner has taken it over" in lines[-1]["message"]


def test_changed_identity_exits_2_and_names_the_key_and_the_ways_on(
    feed: Feed, running: Service
) -> None:
    """The journal of a name belongs to what it began with; the rest may change freely."""
    running.terminate()
    feed.edit("svc.toml", ('long_url = "numeric"', 'long_url = "binary"'))
    refused = feed("run", "svc.toml", "--drain", code=2).stderr.splitlines()[-1]
    feed.edit("svc.toml", ('long_url = "binary"', 'long_url = "numeric"'))
    feed.edit("svc.toml", ("[http]", "[commit]\nmax_records = 7\n[http]"))

    assert refused.startswith("headwater: ")
    assert 'features.long_url: was "numeric", now "binary"' in refused
    assert "change it back, or give this one a new name" in refused
    feed("run", "svc.toml", "--drain")


def test_taken_port_is_one_line_that_names_the_key(feed: Feed) -> None:
    """With what to do about it."""
    feed("check", "svc.toml", "--create")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        feed.edit("svc.toml", ("port = 0", f"port = {port}"))
        refused = feed("run", "svc.toml", code=2).stderr.splitlines()[-1]

    assert refused.startswith(f"headwater: [http] port: expected a free port, but 127.0.0.1:{port}")
    assert "set another port, or 0" in refused


def test_port_of_the_service_itself_is_reported_as_that(feed: Feed, running: Service) -> None:
    """A second start of the same configuration: nothing is fenced, and it says what runs there."""
    port = running.wait_said(r"live page on http://127\.0\.0\.1:(\d+)")[1]
    feed.edit("svc.toml", ("port = 0", f"port = {port}"))
    refused = feed("run", "svc.toml", code=2).stderr.splitlines()[-1]

    assert refused.startswith("headwater: [http] port: this service already runs there: svc ")
    assert "need different ports" in refused
    assert running.status("/readyz")[0] == 200


def test_probes_are_answered_while_kernels_compile(feed: Feed) -> None:
    """Alive, however short max_idle is, and not ready, with the reason."""
    feed("check", "svc.toml", "--create")
    feed.edit("svc.toml", ("[http]", '[http]\nmax_idle = "1s"'))
    cache = str(feed.directory / "cache")  # nothing in it, as on a new machine

    with Service(feed.config, environment={"NUMBA_CACHE_DIR": cache}) as fresh:
        fresh.wait_said("compiling kernels")
        alive, ready = fresh.status("/healthz"), fresh.status("/readyz")
        lives = "live at journal record" in fresh.output

    assert alive == (200, "starting: compiling kernels\n")
    assert ready == (503, "starting: compiling kernels\n")
    assert not lives


def test_sigterm_ends_it_between_two_kernels(feed: Feed) -> None:
    """With success and without waiting for those that are left; the next start compiles them."""
    feed("check", "svc.toml", "--create")
    cache = str(feed.directory / "cache")

    with Service(feed.config, environment={"NUMBA_CACHE_DIR": cache}) as fresh:
        fresh.wait_said("compiling kernels")
        code = fresh.terminate()

    assert code == 0
    assert "stopped while compiling kernels, before anything was consumed" in fresh.output
    assert "live at journal record" not in fresh.output


def test_second_signal_ends_it_at_once_and_says_so(feed: Feed) -> None:
    """In one line of the log's own style, while the end that the first began takes its time."""
    feed.produce()
    feed.edit("svc.toml", ("[http]", '[telemetry]\nlog = "json"\n[http]'))
    with Service(
        feed.config, environment={"HEADWATER_FAILPOINT": "shutdown:sleep+60000"}
    ) as service:
        service.wait_until(lambda: '"message":"live at journal record' in service.output)
        service._process.send_signal(signal.SIGINT)
        service.wait_said("failpoint shutdown")
        code = service.terminate()
        last = json.loads(service.output.splitlines()[-1])

    assert code == -signal.SIGTERM
    assert last["message"].startswith("second signal: ended at once, without a snapshot")


def test_log_pipe_nobody_reads_blocks_neither_start_nor_end(tmp_path: Path) -> None:
    """It is full before the first line; the service commits, and ends at SIGTERM with 0."""
    url = f"sqlite:{tmp_path / 'log.db'}"
    with closing(open_log(url)) as log:
        log.create_topic("obs", 1)
        log.append([Outgoing("obs", b"1", b'{"id": "1", "a": 1}')])
        path = tmp_path / "svc.toml"
        path.write_text(
            f'name = "svc"\n[input]\ntransport = "{url}"\nobservations = "obs"\n'
            '[features]\na = "numeric"\n[model]\ntype = "GaussianNB"\n[http]\nport = 0\n'
        )
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 4096)
        os.set_blocking(writing, True)
        service = subprocess.Popen(
            [HEADWATER, "run", str(path)], stdout=writing, stderr=writing, stdin=subprocess.DEVNULL
        )
        try:
            said = Partition("svc-predictions", 0)
            until(lambda: "svc-predictions" in log.topics(), "the start")
            until(lambda: log.end_offsets([said])[said], "the first prediction")
            service.terminate()
            assert service.wait(PATIENCE) == 0
        finally:
            service.kill()
            service.wait()
            os.close(reading)
            os.close(writing)
