"""Each operation of the HTTP API, by a real client, against a service that runs."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from collections.abc import Iterator
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest
import trustme

from consumers.api.api import Api
from consumers.api.bodies import ProblemError
from consumers.base.records import Outgoing, Partition
from consumers.config import parse
from consumers.transports import open_log
from tests.waiting import PATIENCE, until
from tests.web.living import NOW, Living, living

TOKENS = """
[serve]
read_token = "${env:READ}"
write_token = "${env:WRITE}"
max_body_bytes = 2000
max_records = 20
timeout = "60s"
"""
READ, WRITE = "r" * 20, "w" * 20


@pytest.fixture(scope="module", params=["memory", "sqlite"])
def service(tmp_path_factory, request) -> Iterator[Living]:
    """A service on loopback without tokens, after 60 labels."""
    path = tmp_path_factory.mktemp("api")
    more = '[serve]\nmax_age = "10ms"\ntimeout = "60s"\n[output]\nexplain = 1'
    with living(path, transport=request.param, more=more) as service:
        service.send(60)
        until(lambda: (c := service.status_feed.copies.newest) is not None and c.learned == 60)
        yield service


@pytest.fixture
def client(service) -> Iterator[httpx.Client]:
    """A client of it."""
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
        yield client


def test_prediction_is_the_one_of_the_topic(client, service) -> None:
    """The same object; nothing is learned or written."""
    before = service.runner._log.end_offsets([Partition("obs", 0), Partition("svc-journal", 0)])
    answer = client.post("/v1/predict", json={"id": "x1", "a": 1.0, "b": 0.3})

    assert answer.status_code == 200
    found = answer.json()
    assert found["id"] == "x1"
    assert found["prediction"] == "right"
    assert found["model"] == {"name": "svc", "type": "GaussianNB", "learned": 60}
    assert found["position"]["topic"] == "svc-journal"
    assert found["age_ms"] >= 0
    assert sum(p for _, p in found["probabilities"]) == pytest.approx(1.0)
    after = service.runner._log.end_offsets(list(before))
    assert after == before


def test_many_records_are_answered_in_their_order_and_form(client) -> None:
    """A list for a list, lines for lines; a bad record does not hide the others."""
    records = [{"a": 1.0}, {"a": "x"}, {"id": "z", "a": 0.0, "b": None}]
    answers = client.post("/v1/predict", json=records).json()

    assert [a.get("id") for a in answers] == ["0", None, "z"]
    assert answers[1]["index"] == 1
    assert answers[1]["reason"] == "wrong_kind"
    lines = "\n".join(map(json.dumps, records)) + "\n"
    headers = {"content-type": "application/x-ndjson"}
    found = client.post("/v1/predict", content=lines, headers=headers)
    assert [json.loads(x).get("id") for x in found.text.splitlines()] == ["0", None, "z"]
    assert client.post("/v1/predict", json=[]).json() == []


def test_explanation_sums_up_the_difference(client) -> None:
    """The features that were asked for, the largest first."""
    found = client.post("/v1/predict?explain=2", json={"a": 1.0, "b": 0.3}).json()

    shares = [abs(share) for _, share in found["explanation"]["top"]]
    assert shares == sorted(shares, reverse=True)
    assert len(shares) == 2


@pytest.mark.parametrize(
    ("path", "body", "kind", "status", "words"),
    [
        ("/v1/predict", b"{", "application/json", 422, "JSON"),
        ("/v1/predict", b"[{", "application/json", 400, "list of JSON objects"),
        ("/v1/predict", b"[" * 5000, "application/json", 400, "list"),
        ("/v1/predict", b"\xff", "application/json", 422, "utf-8"),
        ("/v1/predict", b"{}", "text/plain", 415, "application/json"),
        ("/v1/predict", b"{}", "", 415, "application/json"),
        ("/v1/predict?explain=x", b"{}", "application/json", 400, "whole number for explain"),
        ("/v1/predict?explain=101", b'{"a":1}', "application/json", 400, "from 0 to 100"),
        ("/v1/predict?expain=3", b"{}", "application/json", 400, "expected shard, explain, record"),
        ("/v1/labels?record=true", b"{}", "application/json", 400, "'record'; expected none"),
        ("/v1/predict?record=maybe", b'{"a":1}', "application/json", 400, "true or false"),
        ("/v1/predict?shard=7", b'{"a":1}', "application/json", 404, "a shard of this process (0)"),
        ("/v1/observations", b'{"a": 1}', "application/json", 422, "in field 'id' or as the key"),
        ("/v1/predict", rb'{"id": "\ud83d", "a": 1}', "application/json", 422, "within a char"),
        ("/v1/labels", rb'[{"id":"\ud83d","label":"x"}]', "application/json", 422, "is cut with"),
        ("/v1/observations", b'[{"id":"1"},{"id":"2","a":1e999}]', "application/json", 422, "a"),
        ("/v1/labels", b'{"id": "1"}', "application/json", 422, "label"),
        ("/v1/labels", b'{"id": "1", "label": 1.5}', "application/json", 422, "the number 1.5"),
        (
            *("/v1/labels", b'{"id": "1", "label": "yes", "w": 101}', "application/json", 422),
            "at most 100 ([labels] max_weight)",
        ),
        ("/v1/predict", b" " * 2**21, "application/json", 413, "1,048,576 bytes"),
        ("/v1/predict", b"[" + b"{}," * 1000 + b"{}]", "application/json", 413, "1,000 records"),
    ],
)  # fmt: skip
def test_bad_requests_are_one_line(client, service, path, body, kind, status, words) -> None:
    """A problem with status, detail and nothing written."""
    before = service.runner._log.end_offsets([Partition("obs", 0), Partition("ans", 0)])
    answer = client.post(path, content=body, headers={"content-type": kind} if kind else {})

    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert words in problem["detail"]
    assert "\n" not in problem["detail"]
    assert service.runner._log.end_offsets(list(before)) == before


def test_compressed_body_is_refused_by_its_name(client) -> None:
    """It was read as JSON, and the error was about its first byte."""
    coded = {"content-type": "application/json", "content-encoding": "gzip"}
    answer = client.post("/v1/predict", content=gzip.compress(b'{"a": 1}'), headers=coded)

    assert answer.status_code == 415
    assert "without Content-Encoding, got 'gzip'" in answer.json()["detail"]


def test_refused_label_of_a_batch_is_named(client) -> None:
    """The reason is the one of the dead letter, with the index of the record."""
    labels = [{"id": "1", "label": "left"}, {"id": "2", "label": True}]
    problem = client.post("/v1/labels", json=labels).json()

    assert (problem["reason"], problem["index"]) == ("label_kind", 1)


def test_label_inside_an_observation_is_checked(tmp_path) -> None:
    """Also before the first label: a fraction is never one, and a request has one kind."""
    with (
        living(tmp_path, inside='label = "y"') as service,
        httpx.Client(base_url=service.url) as client,
    ):
        until(lambda: service.status_feed.copies.newest is not None)

        def reasons(*labels: object) -> tuple[object, object]:
            records = [{"id": f"y{i}", "a": 1.0, "y": y} for i, y in enumerate(labels)]
            problem = client.post("/v1/observations", json=records).json()
            return problem.get("reason"), problem.get("index")

        assert reasons(None, 1.5) == ("label_kind", 1)
        assert reasons("text", None, 1) == ("label_kind", 2)
        assert reasons(3, None, 4) == (None, None)
        until(lambda: (c := service.status_feed.copies.newest) is not None and c.learned == 2)
        assert reasons(3, "text") == ("label_kind", 1)


def test_fields_that_are_not_used_are_named(client) -> None:
    """In the prediction; with `strict` the record is rejected."""
    many = {"a": 1, **{f"n{i:02}": i for i in range(30)}}
    records = [{"id": "1", "aa": 1.0, "bb": 2}, {"a": 1.0, "b": 1}, {"a": None, "b": None}, many]
    found = client.post("/v1/predict", json=records).json()

    shown = [[note["field"] for note in p.get("notes", [])] for p in found]
    assert shown == [["aa", "bb"], [], [], [*(f"n{i:02}" for i in range(19)), ""]]
    assert found[0]["notes"][0]["detail"] == "no field of the model"
    assert found[0]["probabilities"]

    strict = client.post("/v1/predict?strict=true", json=records).json()
    assert [p.get("reason") for p in strict] == ["not_used", None, None, "not_used"]
    assert strict[1]["probabilities"] == found[1]["probabilities"]
    problem = client.post("/v1/predict?strict=true", json=records[0])
    assert (problem.status_code, problem.json()["reason"]) == (422, "not_used")
    assert "field 'aa': no field of the model; field 'bb'" in problem.json()["detail"]


def test_strict_request_with_a_field_that_is_not_used_writes_nothing(client, service) -> None:
    """Without `strict` the answer names it beside the committed prediction."""
    topic = Partition("obs", 0)
    before = service.runner._log.end_offsets([topic])
    record = {"id": uuid4().hex, "a": 1.0, "B": 2}
    problem = client.post("/v1/predict?record=true&strict=true", json=record).json()

    assert problem["reason"] == "not_used"
    assert service.runner._log.end_offsets([topic]) == before
    found = client.post("/v1/predict?record=true", json=record).json()
    assert [note["field"] for note in found["notes"]] == ["B"]
    assert found["position"]["topic"] == "obs"


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/v1/predict", 405, "expected POST for /v1/predict, got GET"),
        ("DELETE", "/v1/model", 405, "got DELETE"),
        ("GET", "/v1/modle", 404, "did you mean /v1/model?"),
        ("POST", "/v1", 404, "/docs lists"),
    ],
)
def test_unknown_path_or_method_is_a_problem(client, method, path, status, words) -> None:
    """As every other error of the API; pages answer as text."""
    answer = client.request(method, path)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert words in answer.json()["detail"]
    assert ("allow" in answer.headers) == (status == 405)
    assert client.get("/nothing").text == "Not Found\n"


def test_prediction_is_not_missing_while_the_service_starts(tmp_path) -> None:
    """503 with Retry-After, as for every other operation."""
    where = f"memory:{uuid4()}"
    text = f'name = "svc"\n[input]\ntransport = "{where}"\nobservations = "obs"\nlabel = "y"\n'
    api = Api(parse(text, directory=tmp_path), dict, lambda: open_log(where))
    try:
        with pytest.raises(ProblemError, match="starting") as refused:
            asyncio.run(api.prediction("x"))
        assert (refused.value.status, refused.value.headers) == (503, {"retry-after": "2"})
    finally:
        api.close()


def test_written_records_are_joined_and_learned(client, service) -> None:
    """202 has the places; the journal has the rest."""
    first = service.runner._log.end_offsets([Partition("obs", 0)])[Partition("obs", 0)]
    learned = service.status_feed.view.learned
    records = [{"id": f"w{i}", "a": float(i % 2), "b": 0.1} for i in range(5)]
    answer = client.post("/v1/observations", json=records)
    labels = [{"id": f"w{i}", "label": ("left", "right")[i % 2]} for i in range(5)]
    told = client.post("/v1/labels", json=labels)

    assert (answer.status_code, told.status_code) == (202, 202)
    places = answer.json()["records"]
    assert places == [{"topic": "obs", "partition": 0, "offset": first + i} for i in range(5)]
    until(lambda: service.status_feed.view.learned == learned + 5)


def test_recorded_prediction_is_the_committed_one(client, service) -> None:
    """It comes from the topic, with the place of the observation."""
    answer = client.post("/v1/predict?record=true", json={"id": "rec1", "a": 1.0, "b": 0.5})

    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["id"] == "rec1"
    assert found["position"]["topic"] == "obs"
    assert "age_ms" not in found
    assert client.get("/v1/predictions/rec1").json() == found
    why = client.get("/v1/explain/rec1?explain=1").json()
    assert why["prediction"] == "right"
    assert len(why["explanation"]["top"]) == 1
    unnamed = client.post("/v1/predict?record=true", json={"a": 1.0}).json()
    assert client.get(f"/v1/predictions/{unnamed['id']}").json() == unnamed
    many = [{"id": f"m{i}", "a": 0.0} for i in range(10)]
    assert [p["id"] for p in client.post("/v1/predict?record=true", json=many).json()] == [
        f"m{i}" for i in range(10)
    ]


def test_repeated_id_is_predicted_again(client) -> None:
    """The join predicts each observation; one request may repeat an id, the last decides."""
    first = client.post("/v1/predict?record=true", json={"id": "twice", "a": 1.0})
    second = client.post("/v1/predict?record=true", json={"id": "twice", "a": 0.0})

    assert second.json()["position"]["offset"] > first.json()["position"]["offset"]
    assert second.json()["prediction"] != first.json()["prediction"]
    both = client.post("/v1/predict?record=true", json=[{"id": "u", "a": 1.0}, {"id": "u", "a": 0}])
    assert [p["prediction"] for p in both.json()] == ["left", "left"]


@pytest.mark.parametrize("id_", ["a/b", "/", "a b%?#", "é\n", "x/", "../explain/7"])
def test_any_id_can_be_asked_for(client, id_) -> None:
    """Percent-encoded in the path; slashes too."""
    written = client.post("/v1/predict?record=true", json={"id": id_, "a": 1.0}).json()

    found = client.get(f"/v1/predictions/{quote(id_, safe='')}")
    assert found.json() == written
    assert client.get(f"/v1/explain/{quote(id_, safe='')}").json()["id"] == id_


def test_records_of_others_are_no_predictions(client, service) -> None:
    """Nor do they hide the prediction of their id; a record without a value deletes it."""
    written = client.post("/v1/predict?record=true", json={"id": "f1", "a": 1.0}).json()
    topic = "svc-predictions"
    foreign = [b"garbage", b"", b"\xff", b"[]", b'{"id": "f1"}', b'{"position": {}}']
    service._feed.append([Outgoing(topic, b"f1", value, NOW) for value in foreign])

    assert client.get("/v1/predictions/f1").json() == written
    assert client.get("/v1/explain/f1").status_code == 200
    assert client.post("/v1/predict?record=true", json={"id": "f2", "a": 1.0}).status_code == 200

    service._feed.append([Outgoing(topic, b"f1", None, NOW)])
    assert client.get("/v1/predictions/f1").status_code == 404


def test_unknown_id_is_not_found(client) -> None:
    """Neither a prediction nor an explanation."""
    for path in ("/v1/predictions/nobody", "/v1/explain/nobody", "/v1/predictions/%F0%9F%A6%89"):
        assert client.get(path).status_code == 404


def test_model_says_what_it_is(client) -> None:
    """Identity, fields, classes and scores."""
    model = client.get("/v1/model").json()

    assert (model["service"], model["type"], model["shard"]) == ("svc", "GaussianNB", 0)
    assert [f["name"] for f in model["fields"]] == ["a", "b"]
    assert sorted(model["classes"]) == ["left", "right"]
    assert model["scores"]["all"]["accuracy"] > 0.5
    assert model["scores"]["all"]["majority_accuracy"] <= 1.0


def test_tokens_separate_reading_from_writing(tmp_path, monkeypatch) -> None:
    """Each token does its own; a recorded prediction writes."""
    monkeypatch.setenv("READ", READ)
    monkeypatch.setenv("WRITE", WRITE)
    with living(tmp_path, more=TOKENS) as service, httpx.Client(base_url=service.url) as client:
        service.send(20)
        until(lambda: service.status_feed.copies.newest is not None)
        record = {"id": "t1", "a": 1.0}

        def status(path: str, token: str | None, body: object = record) -> int:
            headers = {} if token is None else {"authorization": f"Bearer {token}"}
            return client.post(path, json=body, headers=headers).status_code

        assert status("/v1/predict", READ) == 200
        assert [status("/v1/predict", t) for t in (None, WRITE, "x", READ + "r")] == [401] * 4
        assert [status("/v1/observations", t) for t in (None, READ)] == [401, 401]
        assert status("/v1/observations", WRITE) == 202
        assert status("/v1/predict?record=true", READ) == 401
        assert status("/v1/predict?record=true", WRITE) == 200
        assert status("/v1/predict?record=false", READ) == 200
        assert status("/v1/predict", READ, {"a": 1.0, "c": "x" * 3000}) == 413
        assert status("/v1/predict", READ, [record] * 21) == 413
        refused = client.get("/v1/model")
        assert refused.headers["www-authenticate"] == "Bearer"
        paths = client.get("/openapi.json").json()["paths"]
        assert paths["/v1/model"]["get"]["security"] == [{"read_token": []}]
        assert paths["/v1/labels"]["post"]["security"] == [{"write_token": []}]
        assert READ not in refused.text


def test_recorded_prediction_needs_the_read_token_where_no_other_is_set(
    tmp_path, monkeypatch
) -> None:
    """On loopback anybody can write, but predictions stay behind their token."""
    monkeypatch.setenv("READ", READ)
    more = '[serve]\nread_token = "${env:READ}"\ntimeout = "60s"'
    with living(tmp_path, more=more) as service, httpx.Client(base_url=service.url) as client:
        service.send(20)
        until(lambda: service.status_feed.copies.newest is not None)
        asked = {"url": "/v1/predict?record=true", "json": {"id": "t1", "a": 1.0}}

        assert client.post(**asked).status_code == 401
        allowed = client.post(**asked, headers={"authorization": f"Bearer {READ}"})
        assert allowed.status_code == 200


def test_client_certificate_opens_the_api(tmp_path) -> None:
    """TLS as the web-config says: the client with a certificate reads, another one does not."""
    authority = trustme.CA()
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(tmp_path / "key.pem")
    leaf.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    asks = "client_ca_file: ca.pem\n  client_auth_type: RequireAndVerifyClientCert"
    (tmp_path / "web.yml").write_text(
        f"tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n  {asks}\n"
    )
    known, stranger = (ssl.create_default_context(cafile=tmp_path / "ca.pem") for _ in range(2))
    authority.issue_cert("ann@example.org").configure_cert(known)
    with living(tmp_path, more='web_config = "web.yml"') as service:
        until(lambda: service.status_feed.copies.newest is not None)
        service.send(5)
        with httpx.Client(base_url=service.url, verify=known, timeout=PATIENCE) as client:
            taken = client.post("/v1/predict", json={"a": 1.0})
        other = httpx.Client(base_url=service.url, verify=stranger, timeout=PATIENCE)
        with other, pytest.raises(httpx.HTTPError):
            other.post("/v1/predict", json={"a": 1.0})

    assert service.url.startswith("https:")
    assert taken.status_code == 200, taken.text


def test_page_of_another_site_cannot_write(client, service) -> None:
    """By its Origin, by what a browser says of it, or by a foreign Host. Another port is another
    program, whose pages are not ours."""
    own, port = {"origin": service.url}, int(service.url.rpartition(":")[2])
    record = {"id": "csrf", "a": 1.0}
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"origin": "http://[bad"},
        {"origin": f"http://127.0.0.1:{port % 65535 + 1}"},
        {"origin": "http://127.0.0.1"},
        {"origin": f"http://localhost:{port}"},
        {"origin": ""},
    ):
        assert client.post("/v1/observations", json=record, headers=headers).status_code == 403
    foreign = {"host": "evil.example", "content-type": "application/json"}
    assert client.post("/v1/observations", headers=foreign).status_code == 421
    assert client.post("/v1/observations", json=record, headers=own).status_code == 202


def test_document_describes_every_operation(client) -> None:
    """And the page loads nothing from elsewhere."""
    document = client.get("/openapi.json").json()

    assert document["openapi"] == "3.1.0"
    assert document["paths"]["/v1/predict"]["post"]["responses"]["429"]
    page = client.get("/docs").text
    assert all(path in page for path in document["paths"])
    assert "http://" not in page
    assert "https://" not in page


def test_too_many_requests_are_refused(service) -> None:
    """429 with Retry-After, and the requests being answered are."""
    from consumers.api.routes import _Limit

    limit = _Limit(1)
    with limit:
        with pytest.raises(ProblemError) as refused, limit:
            pass
        assert refused.value.headers == {"retry-after": "1"}
    with limit:
        pass
