"""Laws of `/metrics` for any clients: few formats, and one share of a processor for all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, MutableMapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.applications import Starlette

from consumers.base.health import Health
from consumers.web import app as apps
from consumers.web.app import SHARE, Exposition, application
from tests.seed import share

OPEN = "application/openmetrics-text"
CONTENT_TYPES = {
    ("text/plain", "version=0.0.4", "charset=utf-8"),
    (OPEN, "version=1.0.0", "charset=utf-8"),
    (OPEN, "version=2.0.0", "charset=utf-8"),
}
VERSIONS = st.sampled_from(["", "x", "0.0.4", "1.0.0", '"1.0.0"', "1.0.0.x", "2.0.0", "1.x", "9"])
PARAMETERS = st.one_of(
    (VERSIONS | st.integers(0, 10**6).map(lambda n: f"1.0.{n}")).map(lambda v: f"version={v}"),
    st.sampled_from(["q=0", "q=0.5", "q=x", "q", "charset=x", "escaping=allow-utf-8", "=", ""]),
)
KINDS = [OPEN, "Application/OpenMetrics-Text", "text/plain", "*/*", "x"]
RANGES = st.builds(
    lambda kind, parameters: "; ".join([kind, *parameters]),
    st.sampled_from(KINDS),
    st.lists(PARAMETERS, max_size=3),
)
ACCEPTS = st.lists(RANGES | st.text(max_size=40), max_size=4).map(",".join)


class Dear(Collector):
    """A metric that takes `cost` seconds of a processor, on a clock that a test moves."""

    cost = 0.01

    def __init__(self) -> None:
        self.made = 0
        self.now = self.used = 0.0

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Once a response. Its value is the time at which it was made."""
        self.made += 1
        self.now += self.cost
        self.used += self.cost
        yield GaugeMetricFamily("dear", "Takes its time.", self.now)

    def clocks(self) -> SimpleNamespace:
        """The part of `time` that an exposition reads."""
        return SimpleNamespace(monotonic=lambda: self.now, thread_time=lambda: self.used)


async def respond(app: Starlette, accept: str) -> tuple[int, str, bytes]:
    """Status, content type and body of `/metrics`."""
    header = accept.encode("utf-8", "replace")
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/metrics",
        "headers": [(b"accept", header)],
        "query_string": b"",
        "root_path": "",
        "state": {"admit": lambda: None},
    }
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b""}

    await app(scope, receive, send)
    kind = dict(sent[0]["headers"])[b"content-type"].decode()
    return sent[0]["status"], kind, b"".join(message.get("body", b"") for message in sent)


@settings(max_examples=share(0.25))
@given(accepts=st.lists(ACCEPTS, max_size=40))
@example(accepts=[f"{OPEN}; version=1.0.{n}" for n in range(100)])
@example(accepts=[f"{kind}; version=x" for kind in KINDS])
def test_accept_headers_choose_among_three_responses(accepts: list[str]) -> None:
    """Each answer is 200 with a valid content type; a format is not made again within its time."""
    registry = CollectorRegistry()
    registry.register(dear := Dear())
    dear.made = 0  # registration asks for its names
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apps, "time", dear.clocks())
        app = application(registry, lambda: Health("live"))
        answers = {asyncio.run(respond(app, accept)) for accept in accepts}

    assert {status for status, _, _ in answers} <= {200}
    kinds = {tuple(kind.split("; ")[:3]) for _, kind, _ in answers}
    assert kinds <= CONTENT_TYPES
    assert dear.made == len(answers) == len(kinds)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/plain; version=0.0.4"),
        ("text/plain;version=1.0.0", "text/plain; version=0.0.4"),
        (OPEN, f"{OPEN}; version=1.0.0"),
        (f"{OPEN};version=0.0.1,{OPEN}; version=1.0.0;q=0.5,*/*", f"{OPEN}; version=1.0.0"),
        (f"{OPEN};version=1.0.7", "text/plain; version=0.0.4"),
    ],
)
def test_first_supported_version_of_openmetrics_is_chosen(accept: str, kind: str) -> None:
    """The text format is used if the header has no supported version."""
    assert Exposition(CollectorRegistry()).respond(accept)[0].startswith(f"{kind}; charset=utf-8")


@settings(max_examples=share(0.25))
@given(
    pauses=st.lists(st.floats(0.01, 5), min_size=1, max_size=50),
    accepts=st.lists(ACCEPTS, min_size=1, max_size=10),
)
@example(pauses=[0.1], accepts=["", OPEN, f"{OPEN}; version=2.0.0"])
@example(pauses=[0.1], accepts=[f"{OPEN}; version=1.0.{n}" for n in range(300)])
@example(pauses=[0.1], accepts=[*[""] * 99, OPEN])  # one is eager, the other is not
def test_all_formats_share_one_budget(pauses: list[float], accepts: list[str]) -> None:
    """Except for the first response of each; and no answer is older than the share makes it."""
    registry = CollectorRegistry()
    registry.register(dear := Dear())
    dear.now = dear.used = 0.0  # registration asks for its names
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apps, "time", dear.clocks())
        asked = Exposition(registry)
        made: dict[str, float] = {}
        for turn in range(600):
            dear.now += pauses[turn % len(pauses)]
            kind, body = asked.respond(accepts[turn % len(accepts)])
            made[kind] = float(body.split(b"dear ")[-1].split()[0])
            assert dear.now - made[kind] <= len(CONTENT_TYPES) * dear.cost / SHARE
            assert dear.used <= SHARE * dear.now + len(made) * dear.cost + 1e-9
