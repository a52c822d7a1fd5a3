"""`headwater doctor`: what `check` finds, and probes of log, disk and service, each with advice."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from prometheus_client.registry import CollectorRegistry

from consumers.base.errors import TransportError
from consumers.base.health import Health
from consumers.base.records import Outgoing, TopicSettings
from consumers.cli import main
from consumers.commands import doctor as probes
from consumers.commands.doctor import probe_service, read_status
from consumers.commands.findings import Report
from consumers.config import load
from consumers.service.warm_up import CompilationStopped, compile_kernels
from consumers.transports import open_log
from consumers.transports.sqlite.log import SqliteLog
from consumers.web.app import Server, application
from tests.kafka.broker import free_ports

CONFIG = """
name = "shop"
[input]
transport = "sqlite:log.db"
observations = "orders"
labels = "paid"
[features]
price = "numeric"
[model]
type = "GaussianNB"
[http]
port = {port}
"""
FOR_EVER = TopicSettings(-1, -1, compacted=False, replicas=3)
WEEK = FOR_EVER._replace(retention_ms=7 * 86_400_000)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration whose topics exist, on a port that nobody uses."""
    monkeypatch.chdir(tmp_path)
    configure(free_ports(1)[0])
    assert main(["check", "shop.toml", "--create"]) == 0
    return tmp_path


def configure(port: int) -> None:
    Path("shop.toml").write_text(CONFIG.format(port=port))


def findings(report: Report, level: str = "wrong") -> list[str]:
    return [f"{found.what}: {found.text}" for found in report.findings if found.level == level]


def test_doctor_says_all_that_check_does_and_probes_the_rest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing is wrong with a service that does not run yet; nothing is written."""
    assert main(["check", "shop.toml"]) == 0
    checked = capsys.readouterr().out
    before = Path("log.db").stat().st_size
    assert main(["doctor", "shop.toml"]) == 0
    shown = capsys.readouterr().out

    assert shown.startswith(checked)
    for what in ("log: answers in", "write: the log accepts", "file: ", "kernels: ", "snapshots: "):
        assert what in shown.removeprefix(checked)
    assert "note     service: does not run on this machine: port 127.0.0.1:" in shown
    assert Path("log.db").stat().st_size == before
    assert not Path("headwater-state").exists()


def test_json_has_each_finding_and_the_exit_code_says_which_part_failed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 if `check` fails, 1 if only a probe does."""

    def refuse(*_: object) -> None:
        raise TransportError("the disk is read-only")

    capsys.readouterr()
    monkeypatch.setattr(SqliteLog, "check_writable", refuse)
    assert main(["doctor", "shop.toml", "--json", "--no-kernels"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["name"], document["wrong"]) == ("shop", 1)
    assert {"level": "wrong", "what": "write"}.items() <= next(
        each for each in document["findings"] if each["level"] == "wrong"
    ).items()

    Path("shop.toml").write_text(CONFIG.format(port=0).replace("orders", "missing"))
    assert main(["doctor", "shop.toml", "--json", "--no-kernels"]) == 2
    out = capsys.readouterr()
    assert json.loads(out.out)["wrong"] == 2
    assert out.err == "headwater: 2 things are wrong with shop.toml, shown above\n"


@contextmanager
def answering(body: bytes, code: int = 200) -> Iterator[int]:
    """A server of another program that gives this answer; its port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("body", "code", "level", "text"),
    [
        (b"<html>", 200, "wrong", "is used by another program; set another [http] port"),
        (b"[]", 200, "wrong", "is used by another program"),
        (b'{"service": "other"}', 200, "wrong", "is used by the service other"),
        (b"", 401, "note", "asks for a password"),
        (b'{"service": "shop", "state": "live", "detail": ""}', 200, "ok", "service: live"),
    ],
)
def test_who_answers_on_the_port_is_known(body: bytes, code: int, level: str, text: str) -> None:
    """This service, another one, or another program."""
    report = Report(quiet=True)
    with answering(body, code) as port:
        configure(port)
        probe_service(load(Path("shop.toml")), report)

    [line] = findings(report, level)
    assert text in line


def test_health_of_the_running_service_is_read() -> None:
    """From the server that every service has."""
    report = Report(quiet=True)
    health = Health("degraded", "no label for a day")
    server = Server(application(CollectorRegistry(), lambda: health, name="shop"), "127.0.0.1", 0)
    _, port = server.start()
    configure(port)
    probe_service(load(Path("shop.toml")), report)
    server.stop()

    assert findings(report) == [
        "service: degraded: no label for a day; it predicts and does not learn"
    ]


def test_port_that_is_taken_and_silent_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not waited for."""
    monkeypatch.setattr("consumers.commands.doctor.ASK_SECONDS", 0.05)
    report = Report(quiet=True)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        configure(silent.getsockname()[1])
        probe_service(load(Path("shop.toml")), report)

    assert "is taken, and does not answer" in findings(report)[0]


SHARD = {"observations": 1000, "learned": 900, "lag": 0, "committed_at": 1000.0, "refusals": []}


def fields(used: int, bad: int, observations: int = 1000) -> dict[str, Any]:
    """The fields of a status: one that is used so often, and an unknown one."""
    one = {"name": "amount", "used": used, "bad": bad, "reason": "wrong_kind", "example": "secret"}
    unknown = [{"name": "amuont", "found": 9, "example": "secret"}]
    return {"fields": {"observations": observations, "fields": [one], "unknown": unknown}}


@pytest.mark.parametrize(
    ("state", "shard", "wrong"),
    [
        ("live", {}, None),
        ("live", fields(1000, 0), None),
        ("live", fields(0, 0, observations=999), None),
        ("live", fields(995, 5), None),
        (
            "live",
            fields(0, 0),
            "fields: 'amount' has no value in 1,000 observations; check its name: they have "
            "'amuont'",
        ),
        ("live", fields(0, 50), "fields: 50 values of 'amount' in 1,000 observations do not fit"),
        ("standby", {}, None),
        ("dead", {}, "service: dead: why; read its log, then start it again"),
        ("stalled", {}, "service: stalled: why; read its log"),
        (
            "live",
            {"lag": 7, "committed_at": 0.0},
            "commits: the last one was 17 min ago, 7 records",
        ),
        ("live", {"lag": 0, "committed_at": 0.0}, None),
        ("live", {"refusals": [["wrong_kind", 50]]}, "dead letters: 50 beside 1,000 observations"),
        ("live", {"refusals": [["wrong_kind", 5]]}, None),
        ("live", {"learned": 0}, "labels: no label was learned yet"),
        ("live", {"worse_than_guessing": "auto is worse"}, "quality: auto is worse"),
        ("live", {"only_one_class": "only spam"}, "quality: only spam"),
        ("live", {"snapshot_error": "disk full"}, "snapshots: the last one failed: disk full"),
    ],
)
def test_status_of_a_service_is_judged(
    state: str, shard: dict[str, Any], wrong: str | None
) -> None:
    """Each condition that an operator should know, and no other."""
    report = Report(quiet=True)
    read_status({"state": state, "detail": "why", "shard": SHARD | shard}, report, 1020.0)

    if wrong is None:
        assert findings(report) == []
    else:
        [line] = findings(report)
        assert line.startswith(wrong)
        assert "secret" not in line


def test_every_shard_is_looked_at() -> None:
    """Not only the one that the page shows first; what is fine is one line."""
    shards = [SHARD | {"number": n} for n in range(4)]
    shards[2] |= {"snapshot_error": "disk full"}
    shards[3] |= {"lag": 7, "committed_at": 0.0}
    document = {
        "state": "live",
        "shards": [{"number": n, "state": "live"} for n in range(5)],
        "shard": shards[0],
    }
    report = Report(quiet=True)
    # a process that does not run shard 4 shows its first one instead
    read_status(document, report, 1020.0, lambda n: shards[n] if n < 4 else shards[0])

    assert [line.partition(":")[0] for line in findings(report)] == [
        "snapshots of shard 2",
        "commits of shard 3",
    ]
    assert "status of shard 4: live; its records cannot be read" in findings(report, "note")[0]
    assert findings(report, "ok") == [
        "service: live",
        "shards: 2 of 5 in this process are well",
    ]


def test_findings_of_many_shards_are_bounded() -> None:
    """The worst ones are shown, and how many are left out."""
    shards = [SHARD | {"number": n, "learned": 0, "snapshot_at": 1.0} for n in range(100)]
    document = {"state": "live", "shards": [{"number": n} for n in range(100)], "shard": None}
    asked: list[int] = []
    report = Report(quiet=True)
    read_status(document, report, 1e9, lambda n: asked.append(n) or shards[n])

    assert asked == list(range(64))
    assert len(report.findings) < 25
    assert all("of shard" in line for line in findings(report))
    assert any("more findings" in line for line in findings(report, "note"))
    assert "shards: 36 more of this process were not looked at" in findings(report, "note")


def test_status_of_each_shard_is_asked_for() -> None:
    """By the address that the page uses."""
    full = {"number": 0} | SHARD
    document = {
        "service": "shop",
        "state": "live",
        "shards": [{"number": 0}, {"number": 1}],
        "shard": full,
    }
    report = Report(quiet=True)
    with answering(json.dumps(document).encode()) as port:
        configure(port)
        probe_service(load(Path("shop.toml")), report)

    [line] = [line for line in findings(report, "note") if "shard" in line]
    assert line.startswith("status of shard 1: ")  # this server shows shard 0 whatever is asked


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({}, None),
        ({"orders": WEEK, "shop-journal": FOR_EVER}, None),
        ({"orders": WEEK, "shop-journal": WEEK}, None),
        ({"orders": FOR_EVER, "shop-journal": WEEK}, "shop-journal is kept shorter than the"),
        (
            {"orders": WEEK, "shop-journal": FOR_EVER._replace(retention_bytes=9)},
            "loses its oldest",
        ),
        ({"orders": FOR_EVER._replace(compacted=True)}, "orders is compacted"),
    ],
)
def test_journal_is_kept_at_least_as_long_as_the_inputs(
    settings: dict[str, TopicSettings], wrong: str | None
) -> None:
    """A model is rebuilt from both; predictions may be compacted."""
    report = Report(quiet=True)
    compacted = {"shop-predictions": WEEK._replace(compacted=True, replicas=1)}
    probes._probe_settings(load(Path("shop.toml")), settings | compacted, report)

    lines = findings(report)
    assert bool(lines) == bool(wrong)
    assert (wrong or "") in "".join(lines)
    assert "shop-predictions: one copy only" in findings(report, "note")[0]


def test_records_of_the_future_show_that_clocks_differ() -> None:
    """More than a minute ahead of this machine."""
    report = Report(quiet=True)
    later = int(time.time() * 1000) + 600_000
    with closing(open_log("sqlite:log.db")) as log:
        log.append([Outgoing("orders", b"1", b"{}", later)])
    probes.probe_log(load(Path("shop.toml")), report)

    [line] = findings(report)
    assert line.startswith("clock: the newest record is ")
    assert "s ahead of this machine" in line


@pytest.mark.parametrize(("free", "level"), [(10**12, "ok"), (10**10, "note"), (10**6, "wrong")])
def test_room_for_the_next_snapshots_is_needed(
    free: int, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice the largest one; a disk that is almost full is a note."""
    shard = Path("headwater-state/shop/shard-0/abc")
    shard.mkdir(parents=True)
    with Path(shard, "snap-00000000000000000001.hws").open("wb") as file:
        file.truncate(10**9)
    usage = shutil._ntuple_diskusage(10**12, 10**12 - free, free)  # type: ignore[attr-defined]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    report = Report(quiet=True)
    probes.probe_disk(load(Path("shop.toml")), report)

    assert len(findings(report, level)) == 1
    assert len(report.findings) == 1
    assert os.listdir("headwater-state") == ["shop"]  # the probe left no file


def test_kernels_that_have_to_be_compiled_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look ends at the first one."""

    def stop(*_: object, **__: object) -> None:
        raise CompilationStopped

    monkeypatch.setattr("consumers.service.warm_up.missing_kernels", stop)
    report = Report(quiet=True)
    probes.probe_kernels(load(Path("shop.toml")), report)

    assert findings(report, "note")[0].startswith("kernels: not compiled yet")


def test_kernels_that_are_compiled_are_no_note() -> None:
    """Whatever the look asks for, a start has nothing to compile."""
    config = load(Path("shop.toml"))
    compile_kernels(config, lambda line: None)
    report = Report(quiet=True)
    probes.probe_kernels(config, report)

    assert findings(report, "ok") == ["kernels: compiled"]


def test_unused_pages_of_the_log_are_a_note() -> None:
    """With the command that returns them."""
    with closing(SqliteLog("log.db")) as log:
        log.append([Outgoing("orders", None, os.urandom(10**6))])
        database = log._database
        with database.transaction():
            database.connection.execute("DELETE FROM batches")
    report = Report(quiet=True)
    probes._probe_file(load(Path("shop.toml")), report)

    assert "`headwater compact` returns them" in findings(report, "note")[0]
