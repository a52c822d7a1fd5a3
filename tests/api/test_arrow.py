"""The HTTP API and the page of a service whose observations are Arrow messages."""

from __future__ import annotations

import json

import httpx
import pytest

from consumers.base.records import Outgoing, Partition
from consumers.codecs.arrow.messages import documents, message_of
from tests.waiting import PATIENCE, until
from tests.web.living import NOW, living

pytest.importorskip("pyarrow")


def test_requests_take_and_give_json(tmp_path) -> None:
    """What is written is a message of one row; a row of a larger message can be explained."""
    more = '[serve]\nmax_age = "10ms"\ntimeout = "60s"'
    rows = [{"id": f"r{i}", "a": float(i % 2), "b": 0.5} for i in range(40)]
    labels = [json.dumps({"id": f"r{i}", "label": "xy"[i % 2]}).encode() for i in range(40)]
    with (
        living(tmp_path, wire="arrow", more=more) as service,
        httpx.Client(base_url=service.url, timeout=PATIENCE) as client,
    ):
        log = service._feed
        log.append([Outgoing("obs", None, message_of(rows), NOW, (), 0)])
        log.append([Outgoing("ans", None, label, NOW + 1, (), 0) for label in labels])
        feed = service.status_feed
        until(lambda: (c := feed.copies.newest) is not None and c.learned == 40)

        explained = client.get("/v1/explain/r39").json()
        direct = client.post("/v1/predict?explain=10", json=rows[39]).json()
        assert client.get("/v1/predictions/r39").json()["position"]["index"] == 39
        assert explained["explanation"] == direct["explanation"]
        written = client.post("/v1/observations", json={"id": "new", "a": 1.0})
        recorded = client.post("/v1/predict?record=true", json={"id": "n2", "a": 1.0}).json()
        until(lambda: json.loads(feed.latest[-1].observation)["id"] == "n2")

        assert written.json()["records"] == [{"topic": "obs", "partition": 0, "offset": 1}]
        at = {"topic": "obs", "partition": 0, "offset": 2, "index": 0}
        assert recorded["position"] == at
        (chunk,) = log.read({Partition("obs", 0): 1}, {Partition("obs", 0): 2})
        assert documents(chunk.values[0], 1) == [{"id": "new", "a": 1.0}]
        assert json.loads(feed.latest[-1].observation) == {"id": "n2", "a": 1.0}
        service.spoil(message_of([{"id": "bad", "a": 1e300}]))
        document = client.get("/status").json()
        assert document["shard"]["latest"][0]["place"] == "obs:0:2:0"
        assert document["shard"]["dead"][0]["place"] == "obs:0:3:0"
