"""The server, asked over HTTP as a scraper and an orchestrator ask it."""

from __future__ import annotations

import http.client
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.registry import Collector, CollectorRegistry

from consumers.base.errors import ConfigError
from consumers.base.health import Health
from consumers.telemetry.prometheus import Telemetry
from consumers.web.app import Server, application
from tests.telemetry.views import view
from tests.waiting import PATIENCE


class Service:
    """A running server whose health a test sets."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        Telemetry(registry, view, clock=lambda: 0.0, version="1.2.3")
        self.health = Health("live")
        app = application(registry, lambda: self.health, name="mail <1>")
        self.server = Server(app, "127.0.0.1", 0)
        self.address = self.server.start()

    def ask(self, path: str, method: str = "GET", accept: str = "") -> tuple[int, str, str]:
        """Status, content type and body."""
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
        try:
            connection.request(method, path, headers={"accept": accept} if accept else {})
            answer = connection.getresponse()
            return answer.status, answer.getheader("content-type", ""), answer.read().decode()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    """One server for all; each test sets its health."""
    started = Service()
    yield started
    started.server.stop()


@pytest.fixture
def service(running: Service) -> Service:
    """The server, live."""
    running.health = Health("live")
    return running


def test_metrics_are_text_unless_openmetrics_is_asked_for(service: Service) -> None:
    """The scraper chooses; both parse and hold the observations."""
    accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
    status, kind, text = service.ask("/metrics")
    open_status, open_kind, open_text = service.ask("/metrics", accept=accept)

    assert (status, open_status) == (200, 200)
    assert kind.startswith("text/plain; version=")
    assert open_kind.startswith("application/openmetrics-text; version=1.0.0")
    for families in (parse_text(text), parse_openmetrics(open_text)):
        values = {s.name: s.value for f in families for s in f.samples}
        assert values["headwater_observations_total"] == 100


class Dear(Collector):
    """A metric that takes a processor for 50 ms, and counts how often it was made."""

    made = 0

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Once a page."""
        self.made += 1
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass
        yield GaugeMetricFamily("dear", "Takes its time.", self.made)


def test_eager_scraper_takes_no_more_than_its_share() -> None:
    """A page that took 50 ms to make is given again for 5 s, to each kind of scraper."""
    registry = CollectorRegistry()
    server = Server(application(registry, lambda: Health("live")), "127.0.0.1", 0)
    registry.register(dear := Dear())
    dear.made = 0
    address = server.start()
    bodies, began = set(), time.monotonic()
    for _ in range(20):
        with closing(http.client.HTTPConnection(*address, timeout=PATIENCE)) as connection:
            connection.request("GET", "/metrics")
            bodies.add(connection.getresponse().read())
    server.stop()

    assert dear.made == len(bodies) <= 1 + (time.monotonic() - began) / 5


@pytest.mark.parametrize(
    ("state", "alive", "ready"),
    [
        ("starting", 200, 503),
        ("replaying", 200, 503),
        ("live", 200, 200),
        ("stopped", 200, 503),
        ("stalled", 503, 503),
        ("dead", 503, 503),
    ],
)
def test_health_by_state(service: Service, state: str, alive: int, ready: int) -> None:
    """Alive unless the loop is dead or stands still, ready only while live; and why."""
    service.health = Health(state, "12 records remain")  # type: ignore[arg-type]

    body = f"{state}: 12 records remain\n"
    assert service.ask("/healthz") == (alive, "text/plain; charset=utf-8", body)
    assert service.ask("/readyz") == (ready, "text/plain; charset=utf-8", body)


def test_page_names_the_service_and_the_other_pages(service: Service) -> None:
    """A person who opens the address finds the rest; a name cannot inject markup."""
    status, kind, body = service.ask("/")

    assert status == 200
    assert kind.startswith("text/html")
    assert "mail &lt;1&gt;" in body
    assert "<1>" not in body
    assert all(f'href="{path}"' in body for path in ("metrics", "healthz", "readyz", "status"))


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz", "/readyz"])
def test_pages_are_only_read(service: Service, path: str) -> None:
    """GET and HEAD are answered, everything else is refused."""
    head = service.ask(path, "HEAD")

    assert (head[0], head[2]) == (200, "")
    assert [service.ask(path, m)[0] for m in ("POST", "PUT", "DELETE")] == [405, 405, 405]


def test_unknown_page_is_not_found(service: Service) -> None:
    """A wrong path is the asker's fault."""
    assert service.ask("/metric")[0] == 404


def test_port_in_use_is_one_line_that_names_the_key(service: Service) -> None:
    """The operator learns which key to change."""
    second = Server(application(CollectorRegistry(), lambda: Health("live")), *service.address)

    with pytest.raises(ConfigError) as raised:
        second.start()
    assert str(raised.value) == (
        f"[http] port: expected a free port, but 127.0.0.1:{service.address[1]} is in use; "
        "stop what uses it, set another port, or 0 for any free one"
    )
    second.stop()


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_foreign_host_is_one_line_that_names_the_key(host: str) -> None:
    """An address that is not this machine's cannot be listened on."""
    server = Server(application(CollectorRegistry(), lambda: Health("live")), host, 0)

    with pytest.raises(ConfigError, match=r"^\[http\] host: expected an address of this machine"):
        server.start()


def test_stopped_server_frees_its_port_and_thread() -> None:
    """After `stop` nothing listens and no thread is left; a second `stop` does nothing."""
    before = set(threading.enumerate())
    started = Service()
    status, _, _ = started.ask("/healthz")
    during = set(threading.enumerate()) - before
    started.server.stop()
    started.server.stop()

    assert status == 200
    assert [(t.name, t.daemon) for t in during] == [("headwater-http", True)]
    assert set(threading.enumerate()) <= before
    with socket.create_server(started.address) as again:
        assert again.getsockname() == started.address


def test_stop_right_after_start_ends() -> None:
    """A service that fails while it starts is not held up by its server."""
    server = Server(application(CollectorRegistry(), lambda: Health("starting")), "127.0.0.1", 0)
    address = server.start()
    server.stop()

    with socket.create_server(address) as again:
        assert again.getsockname() == address


def test_server_takes_no_signals_and_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C stays the runner's, and the log stays the service's."""
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    started = Service()
    started.ask("/metrics")
    during = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    started.server.stop()

    assert during == before
    assert capfd.readouterr() == ("", "")
