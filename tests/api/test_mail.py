"""The HTTP API of a service whose observations are raw mails."""

from __future__ import annotations

import base64
import json

import httpx

from consumers.base.records import Outgoing, Partition
from consumers.mail.document import mail_document
from tests.waiting import PATIENCE, until
from tests.web.living import NOW, living

SPAM = b"Subject: cheap pills\n\nbuy now www.pills.example"
HAM = b"Subject: minutes\n\nof the meeting"


def as_json(id_: str, value: bytes) -> dict[str, str]:
    """A mail as a request has it."""
    return {"id": id_, "mail": base64.b64encode(value).decode()}


def test_requests_have_mails_in_base64(tmp_path) -> None:
    """They are predicted as from the topic, and written as raw mails."""
    more = '[serve]\nmax_age = "10ms"\ntimeout = "60s"'
    features = 'subject = "text"\ntext = "text"\nlinks = "text"'
    kind = {"model": "MultinomialNB", "wire": "mail", "features": features, "more": more}
    labels = [json.dumps({"id": f"m{i}", "label": ["spam", "ham"][i % 2]}) for i in range(20)]
    with (
        living(tmp_path, **kind) as service,
        httpx.Client(base_url=service.url, timeout=PATIENCE) as client,
    ):
        log = service._feed
        log.append(
            [Outgoing("obs", b"m%d" % i, (SPAM, HAM)[i % 2], NOW + i, (), 0) for i in range(20)]
        )
        log.append([Outgoing("ans", None, label.encode(), NOW + 30, (), 0) for label in labels])
        feed = service.status_feed
        until(lambda: (c := feed.copies.newest) is not None and c.learned == 20)

        raw = client.post("/v1/predict?explain=5", json=as_json("x", SPAM)).json()
        fields = {"id": "x", **mail_document(SPAM)}
        flat = client.post("/v1/predict?explain=5", json=fields).json()
        explained = client.get("/v1/explain/m18?explain=5").json()
        written = client.post("/v1/observations", json=as_json("new", HAM))
        recorded = client.post("/v1/predict?record=true", json=as_json("n2", SPAM)).json()
        broken = client.post("/v1/observations", json={"id": "y", "mail": "é"})
        without = client.post("/v1/observations", json=fields)
        (chunk,) = log.read({Partition("obs", 0): 20}, {Partition("obs", 0): 22})

    assert raw["prediction"] == recorded["prediction"] == "spam"
    assert raw["probabilities"] == flat["probabilities"]
    assert explained["explanation"] == raw["explanation"]
    assert written.status_code == 202
    assert (chunk.keys, chunk.values) == ([b"new", b"n2"], [HAM, SPAM])
    assert broken.json()["reason"] == "unparsable"
    assert without.status_code == 422
    assert "mail in base64" in without.json()["detail"]
