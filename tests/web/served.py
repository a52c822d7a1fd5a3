"""The server of a configuration whose loop does not run, and how it is asked."""

from __future__ import annotations

import base64
import http.client
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
from prometheus_client.registry import CollectorRegistry

from consumers.base.health import Health
from consumers.base.records import Outgoing
from consumers.commands.run import served
from consumers.config import parse
from consumers.service.pace import Ownership
from consumers.service.runner import Runner
from consumers.shard.views import PublishedPrediction
from consumers.web.status_feed import StatusFeed
from tests.telemetry.views import view
from tests.waiting import PATIENCE

__all__ = ["SHOWN", "ask", "body", "login", "serving_of", "status_of"]


def login(name: str, password: str) -> dict[str, str]:
    """The header of a login."""
    encoded = base64.b64encode(f"{name}:{password}".encode()).decode()
    return {"authorization": f"Basic {encoded}"}


def ask(
    address: tuple[str, int],
    path: str = "/healthz",
    headers: dict[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    method: str = "GET",
) -> http.client.HTTPResponse:
    """The answer; its body is read."""
    if tls is None:
        connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
    else:
        connection = http.client.HTTPSConnection(*address, timeout=PATIENCE, context=tls)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        answer.read()
        return answer
    finally:
        connection.close()


def status_of(
    address: tuple[str, int], path: str, headers: dict[str, str], method: str = "GET"
) -> int:
    """The status of the answer, whose body is not read: a stream has no end."""
    with closing(http.client.HTTPConnection(*address, timeout=PATIENCE)) as connection:
        connection.request(method, path, b"{}" if method == "POST" else None, headers)
        return connection.getresponse().status


CONFIG = """
name = "shop"
[input]
transport = "memory:shop"
observations = "orders"
[model]
type = "GaussianNB"
[http]
port = 0
host = "{host}"
{more}
"""


@contextmanager
def serving_of(host: str, more: str, directory: Path) -> Iterator[str]:
    """The server of a configuration, with one prediction and one dead letter on its page."""
    config = parse(CONFIG.format(host=host, more=more), directory=directory)
    runner = Runner.__new__(Runner)
    runner.registry = CollectorRegistry()
    runner._health, runner._shard, runner._config = Health("live"), 0, config
    runner._turned, runner._max_idle = time.monotonic(), 300.0
    runner._ownership = Ownership(time.monotonic)
    runner.status_feed = StatusFeed(time.time, lambda: Health("live"))
    runner.status_feed.recovered(view())
    place = ((name, value) for name, value in DEAD.items())
    runner.status_feed.dead = (Outgoing("shop-dead-letters", None, b"SECRET", 0, tuple(place)),)
    shown = msgspec.json.encode(SHOWN)
    runner.status_feed.latest = (PublishedPrediction(b"order-17", b"{}", shown),)
    with served(config, runner) as url:
        yield str(url)


SHOWN = {
    "id": "order-17",
    "prediction": "fraud",
    "probabilities": [["fraud", 0.9], ["ok", 0.1]],
    "model": {"name": "shop", "type": "GaussianNB", "learned": 5},
    "position": {"topic": "orders", "partition": 0, "offset": 3},
    "ts": 1_700_000_000_000,
    "explanation": {"against": "ok", "log_odds": 2.2, "top": [["note: WORDS", 2.0]]},
}
DEAD = {
    "topic": b"orders",
    "partition": b"0",
    "offset": b"7",
    "reason": b"unparsable",
    "detail": b"expected JSON, got SECRET",
}


def body(address: tuple[str, int], path: str, headers: dict[str, str]) -> str:
    """The text of a page."""
    with closing(http.client.HTTPConnection(*address, timeout=PATIENCE)) as connection:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().read().decode()
