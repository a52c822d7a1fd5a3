"""`POST /checkv2`: what programs of rspamd send, and what they read."""

from __future__ import annotations

import base64
import gzip
import json
import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import zstandard

from consumers.api.api import SHORT
from consumers.api.rspamd import REASONS
from consumers.base.records import Outgoing
from consumers.mail import document
from consumers.mail.document import mail_document
from tests.waiting import PATIENCE, until
from tests.web.living import NOW, Living, living

MORE = """
[decision]
max_false_positive_rate = {label = "spam", rate = 0.2, unsure = 0.5, min_learned = 5}
[serve]
max_age = "10ms"
timeout = "60s"
"""
DOORS = ("/checkv2", "/v1/predict", "/v1/predict?record=true", "/v1/observations")
# As in the documentation of the protocol.
HEADERS = {
    "From": "smtp@example.com",
    "Rcpt": "user@example.org",
    "Pass": "all",
    "Ip": "95.211.146.161",
    "Helo": "localhost.localdomain",
    "Hostname": "localhost",
    "Queue-Id": "4F2A1",
    "User": "jo",
    "Deliver-To": "user@example.org",
}


def mail(n: int, *, spam: bool) -> bytes:
    """One of many mails."""
    words = "cheap pills and prizes" if spam else "minutes of the meeting"
    return f"Message-ID: <{n}@example.org>\nSubject: {words}\n\n{words} {n}\n".encode()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Living]:
    """A filter after 100 labels, of a learner without evidence."""
    with learned(tmp_path_factory.mktemp("rspamd"), "MultinomialNB") as running:
        yield running


@contextmanager
def learned(path: Path, model: str) -> Iterator[Living]:
    """A filter that learns 100 mails."""
    kind = {"wire": "mail", "model": model, "features": 'text = "text"'}
    with living(path, more=MORE, **kind) as running:
        until(lambda: running.status_feed.copies.newest is not None)
        early = ask(running, mail(0, spam=True)).json()
        assert early["action"] == "no action"
        assert list(early["symbols"]) == ["HEADWATER_UNSURE"]
        added = early["milter"]["add_headers"]["X-Headwater"]["value"]
        assert added.startswith("unsure score=0.500000")
        assert early["required_score"] > 36  # as long as nothing may be called spam
        for n in range(100):
            label = json.dumps({"id": str(n), "label": ("ham", "spam")[n % 2]}).encode()
            value = mail(n, spam=bool(n % 2))
            running._feed.append([Outgoing("obs", b"%d" % n, value, NOW + 10 * n, (), 0)])
            running._feed.append([Outgoing("ans", None, label, NOW + 10 * n + 5, (), 0)])
        feed = running.status_feed
        until(lambda: (c := feed.copies.newest) is not None and c.learned == 100)
        yield running


def ask(service: Living, value: bytes, **more: object) -> httpx.Response:
    """As an SMTP proxy asks."""
    url = f"{service.url}/checkv2"
    return httpx.post(url, content=value, headers=HEADERS, timeout=PATIENCE, **more)


def test_spam_has_the_published_shape(service: Living) -> None:
    """Action, score beside the required one, symbols with scores and options, the header to add."""
    forged = b"X-Headwater: ham\n" + mail(900, spam=True)
    answer = ask(service, forged)
    made = answer.json()
    (symbol,) = made["symbols"].values()

    assert answer.status_code == 200
    assert made["is_skipped"] is False
    assert made["action"] == "add header"
    assert made["score"] >= made["required_score"]
    assert made["message-id"] == "<900@example.org>"
    assert symbol["name"] == "HEADWATER_SPAM"
    assert symbol["score"] == symbol["metric_score"] == made["score"]
    assert any(option.startswith("pills=+") for option in symbol["options"])
    assert made["milter"]["remove_headers"] == {"X-Headwater": 0, "X-Headwater-Why": 0}
    assert made["milter"]["add_headers"]["X-Headwater"]["value"].startswith("spam score=1.0")


def predicted(service: Living, value: bytes) -> dict:
    """What /v1/predict says of a mail."""
    record = {"id": "x", "mail": base64.b64encode(value).decode()}
    return httpx.post(f"{service.url}/v1/predict", json=record, timeout=PATIENCE).json()


def test_ham_is_left_alone(service: Living) -> None:
    """Its score is the log-odds of the probability that /v1/predict gives, below the required."""
    made = ask(service, mail(901, spam=False)).json()
    asked = predicted(service, mail(901, spam=False))
    p = dict(asked["probabilities"])["spam"]

    assert made["action"] == "no action"
    assert list(made["symbols"]) == ["HEADWATER_HAM"]
    assert made["score"] < made["required_score"]
    assert made["score"] == pytest.approx(math.log(p / (1 - p)), abs=1e-4)
    assert "evidence" not in asked
    assert made["symbols"]["HEADWATER_HAM"]["options"]


def test_score_is_the_evidence_where_the_learner_knows_it(tmp_path: Path) -> None:
    """And it is compared with a threshold of evidence: labels of one class move neither."""
    with learned(tmp_path, "spam") as service:
        for n, spam in ((901, False), (902, True)):
            value = mail(n, spam=spam)
            made, asked = ask(service, value).json(), predicted(service, value)
            odds = dict(asked["evidence"])["spam"]
            header = made["milter"]["add_headers"]["X-Headwater"]["value"]

            assert made["score"] == pytest.approx(odds, abs=1e-4)
            assert (made["score"] >= made["required_score"]) == spam
            assert header.endswith(f" evidence={odds:+.2f}")
            options = next(iter(made["symbols"].values()))["options"]
            assert len(options) == REASONS
            assert not any(option.startswith("(prior)") for option in options)
        assert ask(service, b"\n\n").json()["score"] == 0.0


def test_long_and_odd_mails_are_answered(service: Living) -> None:
    """A long mail by its beginning, also one that is sent in pieces; broken bytes as they are."""
    long = mail(902, spam=True) + b"x" * 2**21
    pieces = (long[at : at + 2**16] for at in range(0, len(long), 2**16))

    assert ask(service, long).json()["action"] == "add header"
    assert ask(service, pieces).json()["action"] == "add header"  # type: ignore[arg-type]
    assert ask(service, b"\xff\x00\r\n").status_code == 200
    assert ask(service, b"").status_code == 400


def test_text_after_a_large_attachment_is_read(service: Living) -> None:
    """The attachment alone is more than a record takes."""
    head, _, text = mail(905, spam=True).partition(b"\n\n")
    image = b"--b\nContent-Type: image/png\n\n" + b"x" * 760_000
    value = b"Content-Type: multipart/mixed; boundary=b\n" + head + b"\n\n" + image
    plain, behind = mail(905, spam=True), value + b"\n--b\n\n" + text + b"\n--b--\n"

    scores = [ask(service, each).json()["score"] for each in (plain, behind, value)]

    assert abs(scores[1] - scores[0]) < abs(scores[2] - scores[0]) / 2


@pytest.mark.parametrize("header", ["Compression", "Content-Encoding"])
def test_compressed_mails_have_the_same_answer(service: Living, header: str) -> None:
    """As rspamc sends them, and as others do; another coding is refused."""
    plain = mail(903, spam=True)
    whole = ask(service, plain).json()
    long = plain + b"x" * 2**25

    def sent(body: bytes, coding: str) -> httpx.Response:
        headers = HEADERS | {header: coding}
        return httpx.post(f"{service.url}/checkv2", content=body, headers=headers, timeout=PATIENCE)

    for coding, packed in (("zstd", zstandard.compress), ("gzip", gzip.compress)):
        assert sent(packed(plain), coding).json() == whole
        assert sent(packed(long), coding).json()["action"] == "add header"
        assert sent(plain, coding).status_code == 400
        assert sent(b"", coding).status_code == 400
        assert sent(packed(plain)[:-9], coding).status_code == 400
    assert sent(plain, "identity").json() == whole
    assert sent(plain, "br").status_code == 415
    far = zstandard.ZstdCompressionParameters(window_log=27)  # memory that no mail needs
    wide = zstandard.ZstdCompressor(compression_params=far).compressobj()
    assert sent(wide.compress(plain) + wide.flush(), "zstd").status_code == 400


@pytest.mark.parametrize("kind", [None, "text/plain", "message/rfc822", "x", ""])
def test_content_type_is_not_asked_for_but_no_page_of_another_site_gets_a_verdict(
    service: Living, kind: str | None
) -> None:
    """A browser sends text/plain to any site without asking first; programs send anything."""
    typed = HEADERS if kind is None else HEADERS | {"Content-Type": kind}

    def sent(more: dict[str, str]) -> int:
        url, value = f"{service.url}/checkv2", mail(904, spam=True)
        return httpx.post(url, content=value, headers=typed | more, timeout=PATIENCE).status_code

    assert sent({}) == 200
    assert sent({"Origin": service.url}) == 200
    for foreign in ("https://evil.example", "null", "http://localhost:1"):
        assert sent({"Origin": foreign}) == 403


@pytest.mark.parametrize("path", DOORS)
def test_mail_that_takes_long_stops_no_other_request(
    service: Living, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """It is read in a thread, so the liveness probe is answered, at every door for mails."""
    value, entered, go_on = (
        mail(904, spam=True) + b"x" * SHORT,
        threading.Event(),
        threading.Event(),
    )

    def held(read: bytes, ignored: tuple[str, ...]) -> dict[str, object]:
        if read == value:
            entered.set()
            assert go_on.wait(PATIENCE)
        return mail_document(read, ignored)

    monkeypatch.setattr(document, "mail_document", held)
    record = {"id": "904", "mail": base64.b64encode(value).decode()}
    sent = {"content": value} if path == "/checkv2" else {"json": record}
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(httpx.post, f"{service.url}{path}", timeout=PATIENCE, **sent)
        try:
            until(entered.is_set)
            quick = httpx.get(f"{service.url}/healthz", timeout=PATIENCE / 10)
            answered_early = slow.done()
        finally:
            go_on.set()

    assert quick.status_code == 200
    assert not answered_early
    assert slow.result().status_code in (200, 202)


@pytest.mark.parametrize("path", DOORS)
def test_only_a_mail_that_can_be_long_changes_the_thread(
    service: Living, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """The way to the thread and back takes longer than a short mail. A packed one can be long."""
    readers: list[str] = []

    def noted(read: bytes, ignored: tuple[str, ...]) -> dict[str, object]:
        name = threading.current_thread().name
        if name != "living":  # the loop of the service reads what was recorded
            readers.append(name.partition("_")[0])
        return mail_document(read, ignored)

    def sent(value: bytes) -> None:
        record = {"id": "905", "mail": base64.b64encode(value).decode()}
        body = {"content": value} if path == "/checkv2" else {"json": record}
        answer = httpx.post(f"{service.url}{path}", timeout=PATIENCE, **body)
        assert answer.status_code in (200, 202)

    monkeypatch.setattr(document, "mail_document", noted)
    sent(mail(905, spam=True))
    sent(mail(906, spam=True) + b"x" * SHORT)
    packed = HEADERS | {"Compression": "gzip"}
    body = gzip.compress(mail(907, spam=True))
    httpx.post(f"{service.url}/checkv2", content=body, headers=packed, timeout=PATIENCE)

    assert readers == ["headwater-http", "headwater-mails", "headwater-mails"]


def test_service_of_other_records_says_so(tmp_path: Path) -> None:
    """404, and what to ask instead."""
    with living(tmp_path) as other:
        other.send(4)
        until(lambda: other.status_feed.copies.newest is not None)
        answer = httpx.post(f"{other.url}/checkv2", content=b"Subject: x\n\n", timeout=PATIENCE)

    assert answer.status_code == 404
    assert "/v1/predict" in answer.json()["detail"]


def test_nothing_reaches_the_required_score_before_both_labels(tmp_path: Path) -> None:
    """Without `[decision]` a score of 0 stood beside a required one of 0, as of spam."""
    more = '[serve]\nmax_age = "10ms"\ntimeout = "60s"\n'
    kind = {"wire": "mail", "model": "MultinomialNB", "features": 'text = "text"'}
    with living(tmp_path, more=more, **kind) as running:
        until(lambda: running.status_feed.copies.newest is not None)
        early = ask(running, mail(0, spam=True)).json()

    assert early["action"] == "no action"
    assert early["score"] < early["required_score"]
