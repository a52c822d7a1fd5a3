"""The live page as a browser asks for it, without a browser: shell, streams, explanations."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPResponse

import pytest
from prometheus_client.registry import CollectorRegistry

from consumers.base.health import Health
from consumers.web import limits, page
from consumers.web.app import Server, application
from consumers.web.status_feed import StatusFeed
from tests.telemetry.views import view
from tests.waiting import PATIENCE, until
from tests.web.living import Living, living


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    """One service for the tests that only look."""
    with living(tmp_path_factory.mktemp("page")) as running:
        running.send(120)
        yield running


def events(answer, n: int) -> list[dict]:
    """The next n documents of a stream."""
    found: list[dict] = []
    while len(found) < n:
        line = answer.readline()
        assert line, "the stream ended"
        if line.startswith(b"data: "):
            found.append(json.loads(line[6:]))
    return found


def text(service: Living, path: str) -> str:
    """The answer's body."""
    with service.asked(path) as answer:
        return answer.read().decode()


def test_shell_allows_no_script_but_its_own(service: Living) -> None:
    """The policy, and markup that keeps to it: nothing inline, nothing from elsewhere."""
    with service.asked("/") as answer:
        policy, body = answer.getheader("content-security-policy"), answer.read().decode()

    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?![^>]* src=)|\son\w+=|style=|https?://", body)


def test_assets_of_the_shell_are_there_and_kept_for_ever(service: Living) -> None:
    """Each address has the contents' hash in it, so that a new version is a new address."""
    with service.asked("/") as answer:
        named = re.findall(r'(?:src|href)="(assets/[^"]+)"', answer.read().decode())
    for path in named:
        with service.asked(f"/{path}") as answer:
            assert answer.status == 200
            assert "immutable" in answer.getheader("cache-control")
            assert answer.read()
    kinds = sorted(path.rpartition("/")[2] for path in named)

    assert kinds == ["chart.js", "icon.svg", "page.css", "page.js"]
    for path in (f"/{named[0].replace('assets/', 'assets/0')}", "/assets/../page.py"):
        with service.asked(path) as answer:
            assert answer.status == 404


def test_stream_tells_the_document_and_what_is_new(tmp_path) -> None:
    """The first at once, the next after a commit; both are what /status shows."""
    with living(tmp_path) as service, service.asked("/events") as stream:
        (empty,) = events(stream, 1)
        service.send(60)
        later = events(stream, 1)[0]
        while later["shard"]["learned"] < 60:
            (later,) = events(stream, 1)
        status = service.json("/status")

    assert stream.getheader("content-type").startswith("text/event-stream")
    assert empty["shard"]["observations"] == 0
    assert later["shard"]["observations"] == 60
    assert {**status, "now": 0} == {**later, "now": 0}


def test_nothing_new_is_not_said_again(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is merely open costs a line now and then."""
    monkeypatch.setattr(page, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(page, "QUIET_SECONDS", 0.03)
    with living(tmp_path) as service, service.asked("/events") as stream:
        service.send(20)
        lines: list[bytes] = []
        while lines[-6:] != 3 * [
            b":\n",
            b"\n",
        ]:
            lines.append(stream.readline())
            assert len(lines) < 1_000
    documents = [line for line in lines if line.startswith(b"data: ")]

    assert len(set(documents)) == len(documents) > 0


def test_throughput_falls_to_zero_when_nothing_comes_any_more(tmp_path) -> None:
    """Without a commit there is news still: a rate of a while ago is not that of now."""
    with living(tmp_path) as service, service.asked("/events") as stream:
        service.send(60)
        (later,) = events(stream, 1)
        while not (flow := later["shard"]["throughput"]) or flow["rate"][-1] > 0:
            (later,) = events(stream, 1)

    assert later["shard"]["observations"] == 60


def test_stream_answers_head_without_a_body(service: Living) -> None:
    """Whoever only asks what it is does not hold a stream open."""
    with service.asked("/events", "HEAD") as answer:
        assert (answer.status, answer.read()) == (200, b"")


def test_one_page_too_many_is_told_to_come_back(tmp_path, monkeypatch) -> None:
    """503 with a time to wait, counted; when one is closed there is room again."""
    monkeypatch.setattr(page, "MAX_STREAMS", 2)
    with living(tmp_path) as service:
        with service.asked("/events"), service.asked("/events"):
            with service.asked("/events") as refused:
                refused.read()
            metrics = text(service, "/metrics")

        def admitted() -> bool:
            with service.asked("/events") as stream:
                return stream.status == 200

        until(admitted)
        counted = text(service, "/metrics")

    assert (refused.status, refused.getheader("retry-after")) == (503, "30")
    assert "headwater_http_open_pages 2.0" in metrics
    assert 'headwater_http_refused_total{reason="pages"} 1.0' in metrics
    assert 'headwater_http_refused_total{reason="connections"} 0.0' in counted


def test_stranger_with_all_pages_open_keeps_nobody_out(tmp_path, monkeypatch) -> None:
    """Its oldest page ends for that of another address, and is refused when it comes back."""
    monkeypatch.setattr(page, "MAX_STREAMS", 3)
    with living(tmp_path) as service, ExitStack() as stack:
        place = service.url.removeprefix("http://")

        def opened(address: str, method: str = "GET") -> HTTPResponse:
            held = HTTPConnection(place, timeout=PATIENCE, source_address=(address, 0))
            stack.callback(held.close)
            held.request(method, "/events")
            return stack.enter_context(held.getresponse())

        strangers = [opened("127.0.0.2") for _ in range(3)]
        asked = opened("127.0.0.1", "HEAD")
        again = opened("127.0.0.2")  # nothing has ended for a request without a stream
        operator = opened("127.0.0.1")
        strangers[0].read()  # it ends

        assert (asked.status, again.status, operator.status) == (200, 503, 200)
        assert opened("127.0.0.2").status == 503
        assert opened("127.0.0.1").status == 503  # one page each would change places for ever
        assert events(operator, 1)


def test_reader_that_stops_reading_is_dropped(tmp_path, monkeypatch) -> None:
    """It holds no more than a buffer, and that not for long."""
    monkeypatch.setattr(limits, "WRITE_SECONDS", 0.3)
    monkeypatch.setattr(page, "EVERY_SECONDS", 0.0)
    status_feed = StatusFeed(time.time, lambda: Health("live"))
    status_feed.recovered(view())
    long = Health("live", "x" * 1_000_000)  # fills what the system buffers in a few documents
    app = application(CollectorRegistry(), lambda: long, status_feeds=lambda: {0: status_feed})
    server = Server(app, "127.0.0.1", 0)
    with socket.create_connection(server.start(), PATIENCE) as lazy:
        lazy.sendall(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        until(lambda: app.state.page.open == 1)

        def posted() -> bool:
            status_feed.recovered(view())  # always something new to say
            return app.state.page.open == 0

        until(posted)
    server.stop()


def test_open_pages_end_with_the_server_and_silently(tmp_path, capfd) -> None:
    """A stream would never end by itself; Ctrl-C waits for none.

    The server here would wait for ever for what does not end, instead of a second.
    """
    before = set(threading.enumerate())
    status_feed = StatusFeed(time.time, lambda: Health("live"))
    app = application(
        CollectorRegistry(), lambda: Health("live"), status_feeds=lambda: {0: status_feed}
    )
    server = Server(app, "127.0.0.1", 0)
    address = server.start()
    streams = [socket.create_connection(address, PATIENCE) for _ in range(3)]
    for stream in streams:
        stream.sendall(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert stream.recv(100).startswith(b"HTTP/1.1 200")
    server._uvicorn.config.timeout_graceful_shutdown = None
    stopping = threading.Thread(target=server.stop, daemon=True)
    stopping.start()
    stopping.join(PATIENCE)
    for stream in streams:
        stream.close()

    assert not stopping.is_alive()
    assert set(threading.enumerate()) <= before
    assert capfd.readouterr() == ("", "")


def test_explanation_is_made_by_the_loop(service: Living) -> None:
    """Of a prediction that was shown: shares that add up, by the model as it is now."""
    shown = service.json("/status")["shard"]["latest"][0]
    why = service.json(f"/explain?shard=0&place={shown['place']}")

    assert why["label"] == shown["predicted"]
    assert {why["label"], why["against"]} == {"left", "right"}
    assert sum(share for _, share in why["shares"]) == pytest.approx(why["log_odds"])
    assert {name for name, _ in why["shares"]} == {"(prior)", "a", "b"}
    assert (why["learned"], why["then"], why["as_made"]) == (120, shown["learned"], False)


def test_published_explanation_is_shown_as_it_was_made(tmp_path) -> None:
    """With [output] explain nobody has to be asked."""
    with living(tmp_path, more="[output]\nexplain = 2") as service:
        service.send(60)
        shown = service.json("/status")["shard"]["latest"][0]
        why = service.json(f"/explain?shard=0&place={shown['place']}")

    assert why["as_made"]
    assert why["then"] == why["learned"] == shown["learned"]
    assert len(why["shares"]) == 2


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/explain?shard=0&place=obs:0:999999", 404, "headwater audit"),
        ("/explain?shard=7&place=obs:0:1", 404, "headwater audit"),
        ("/explain", 404, "headwater audit"),
    ],
)
def test_question_about_what_was_not_shown_is_refused(service, path, status, words) -> None:
    """In one line that says what to do instead."""
    with service.asked(path) as answer:
        assert answer.status == status
        assert words in json.load(answer)["error"]


def test_model_without_shares_says_so(tmp_path) -> None:
    """A river model is no sum over features."""
    with living(tmp_path, model="river:tree.HoeffdingTreeClassifier") as service:
        service.send(40)
        shown = service.json("/status")["shard"]["latest"][0]
        answer = service.json(f"/explain?shard=0&place={shown['place']}")

    assert answer == {"error": "this model has no explanations"}


def test_too_many_questions_are_refused_and_an_idle_loop_is_not_waited_for(monkeypatch) -> None:
    """A board without a loop answers nobody: the asker hears it after its time."""
    monkeypatch.setattr(page, "ANSWER_SECONDS", 0.1)
    said = page.PublishedPrediction(None, b"{}", json.dumps(PREDICTION).encode())
    status_feed = StatusFeed(time.time, lambda: Health("live"))
    status_feed.recovered(view())
    status_feed.latest = (said,)
    app = application(
        CollectorRegistry(), lambda: Health("live"), status_feeds=lambda: {0: status_feed}
    )
    server = Server(app, "127.0.0.1", 0)
    address = server.start()
    asked = Living(None, None, f"http://{address[0]}:{address[1]}")
    asked.json("/status")
    slow = asked.json("/explain?place=obs:0:3")
    while status_feed.questions.ask(said) is not None:
        pass
    refused = asked.json("/explain?place=obs:0:3")
    metrics = text(asked, "/metrics")
    server.stop()

    assert slow == {"error": "the loop is busy or does not run; ask again"}
    assert refused == {"error": "too many questions wait; ask again"}
    assert 'headwater_http_refused_total{reason="questions"} 1.0' in metrics


PREDICTION = {
    "id": "x",
    "prediction": "ham",
    "probabilities": [["ham", 0.9], ["spam", 0.1]],
    "model": {"name": "mail", "type": "GaussianNB", "learned": 5},
    "position": {"topic": "obs", "partition": 0, "offset": 3},
    "ts": 1_700_000_000_000,
}
