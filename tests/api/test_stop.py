"""Requests in progress when the service is stopped: acknowledged, or clearly refused."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from consumers.api.writer import Writer
from consumers.base.records import Partition
from tests.waiting import PATIENCE, until
from tests.web.living import Living, living

OBS = Partition("obs", 0)


class Asking(threading.Thread):
    """A request in a thread of its own."""

    def __init__(self, service: Living, path: str) -> None:
        super().__init__()
        self._url = service.url + path
        self.answer: Any = None
        self.answered = threading.Event()

    def run(self) -> None:
        record = {"id": "stopped", "a": 1.0}
        self.answer = httpx.post(self._url, json=record, timeout=PATIENCE)
        self.answered.set()


def test_prediction_that_is_not_committed_before_a_stop_names_its_record(tmp_path: Path) -> None:
    """It was 500 and a traceback; the observation is in the log."""
    with living(tmp_path, transport="sqlite") as service:
        service.send(20)
        until(lambda: service.status_feed.copies.newest is not None)
        service.runner._stop.set()  # the loop ends before the server, as in a service
        until(lambda: not service.runner.health().ready)
        end = service._feed.end_offsets([OBS])[OBS]
        asking = Asking(service, "/v1/predict?record=true")
        asking.start()
        until(lambda: service._feed.end_offsets([OBS])[OBS] == end + 1)
    asking.join(PATIENCE)

    assert asking.answer.status_code == 503
    problem = asking.answer.json()
    assert problem["detail"].startswith("the service stops, and the records are written")
    assert problem["records"] == [{"topic": "obs", "partition": 0, "offset": end}]


def test_prediction_that_is_not_committed_in_time_names_its_record(tmp_path: Path) -> None:
    """504 after `[serve] timeout`: the observation is in the log, and where."""
    with living(tmp_path, transport="sqlite", more='[serve]\ntimeout = "500ms"') as service:
        service.send(20)
        until(lambda: service.status_feed.copies.newest is not None)
        service.runner._stop.set()  # nothing commits; the server goes on
        until(lambda: not service.runner.health().ready)
        end = service._feed.end_offsets([OBS])[OBS]
        url = f"{service.url}/v1/predict?record=true"
        answer = httpx.post(url, json={"id": "late", "a": 1.0}, timeout=PATIENCE)

    assert answer.status_code == 504
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["records"] == [{"topic": "obs", "partition": 0, "offset": end}]


def test_write_that_the_log_does_not_acknowledge_before_a_stop_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a second; it says that the record may be written."""
    begun, may = threading.Event(), threading.Event()
    write = Writer._write

    def slow(self: Writer) -> None:
        begun.set()
        assert may.wait(PATIENCE)
        write(self)

    with living(tmp_path, transport="sqlite") as service:
        service.send(20)
        until(lambda: service.status_feed.copies.newest is not None)
        monkeypatch.setattr(Writer, "_write", slow)
        asking = Asking(service, "/v1/observations")
        asking.start()
        assert begun.wait(PATIENCE)
        freeing = threading.Thread(target=lambda: asking.answered.wait(PATIENCE) and may.set())
        freeing.start()
    asking.join(PATIENCE)
    freeing.join(PATIENCE)

    assert asking.answer.status_code == 503
    assert "may be written, so send it with the same id" in asking.answer.json()["detail"]
    assert asking.answer.headers["retry-after"] == "2"
