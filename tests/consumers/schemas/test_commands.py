"""Commands and requests on topics with schemas: people see JSON, the topics have the format."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from consumers.base.errors import RegistryError
from consumers.cli import main
from consumers.codecs.format import framed, schema_id
from consumers.codecs.registry import wire_format
from consumers.codecs.schemas import StoredSchema
from consumers.commands.run import served
from consumers.config import load
from consumers.config.serve import RegistryConfig
from consumers.schemas.client import SchemaRegistry, subject_of
from consumers.schemas.translate import NEWEST_SECONDS, Translator
from consumers.service.runner import Runner
from tests.consumers.schemas.registered import FORMATS, Registered
from tests.waiting import PATIENCE, until

Said = pytest.CaptureFixture[str]
ROWS: list[dict[str, Any]] = [
    {"id": f"{i}", "amount": float(i % 3), "shop": {"city": ("Bonn", "Rom")[i % 2]}}
    for i in range(12)
]


@pytest.fixture(params=FORMATS)
def shop(request, tmp_path: Path) -> Registered:
    """A service over a file, with its configuration and records as files."""
    made = Registered(tmp_path, request.param, url=f"sqlite:{tmp_path / 'log.db'}")
    (tmp_path / "shop.toml").write_text(made.text())
    lines = [json.dumps({**row, "bought": ("no", "yes")[i % 2]}) for i, row in enumerate(ROWS)]
    (tmp_path / "visits.jsonl").write_text("\n".join(lines))
    return made


def said(capsys: Said) -> list[str]:
    """What was printed since the last time."""
    return capsys.readouterr().out.splitlines()


def test_commands_from_a_file_to_predictions(shop, tmp_path, capsys) -> None:
    """check, produce, run, tail and audit."""
    config = str(tmp_path / "shop.toml")
    late = ("--label-topic", "bought", "--label", "bought")

    assert main(["check", config]) == 0
    assert "visits has schema" in capsys.readouterr().out
    assert (
        main(["produce", "visits", str(tmp_path / "visits.jsonl"), "--config", config, *late]) == 0
    )
    assert {schema_id(r.value) for r in shop.records("visits")} == {
        shop.registry.latest(subject_of("visits"))[0]
    }
    shop.run()
    said(capsys)
    tail = ("--config", config, "--from-beginning", "--drain")
    assert main(["tail", "visits", *tail]) == 0
    assert [json.loads(line) for line in said(capsys)] == ROWS
    assert main(["tail", "shop-predictions", *tail]) == 0
    made = [json.loads(line) for line in said(capsys)]
    assert [each["id"] for each in made] == [row["id"] for row in ROWS]
    assert made[-1]["probabilities"][0][0] == made[-1]["prediction"] == "yes"
    assert main(["audit", config, "11", "--json"]) == 0
    audited = json.loads(capsys.readouterr().out)
    assert audited["same"]
    assert audited["prediction"] == made[-1]
    assert shop.dead() == []


AVRO = {
    "type": "record",
    "name": "Visit",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}


@pytest.mark.parametrize("shop", ["avro"], indirect=True)
def test_produce_registers_a_schema(shop, tmp_path, capsys) -> None:
    """For the topic or another one that is written; records then have its id."""
    before, _ = shop.registry.latest(subject_of("visits"))
    file, config = str(tmp_path / "visits.jsonl"), str(tmp_path / "shop.toml")
    (tmp_path / "new.avsc").write_text(json.dumps(AVRO))
    (tmp_path / "bad.avsc").write_text('{"type": "rekord"}')
    produce = ["produce", "visits", file, "--config", config]

    for given, message in (
        ("gone.avsc", "give the file of a schema"),
        (f"other={tmp_path}/new.avsc", "this command writes to visits, not to other"),
        (str(tmp_path / "bad.avsc"), "the schema for visits cannot be used"),
    ):
        assert main([*produce, "--register", given]) == 2
        assert message in capsys.readouterr().err
    assert main([*produce, "--register", str(tmp_path / "new.avsc")]) == 0
    id_, schema = shop.registry.latest(subject_of("visits"))
    assert id_ != before
    assert json.loads(schema.text)["name"] == "Visit"
    assert f"visits: schema {id_} of the registry" in said(capsys)
    assert {schema_id(r.value) for r in shop.records("visits")} == {id_}


def test_produce_registers_nothing_for_plain_json(tmp_path, capsys) -> None:
    """It says which format needs it."""
    (tmp_path / "v.jsonl").write_text('{"x": 1}')
    asked = ["--transport", f"sqlite:{tmp_path}/l.db", "--register", "v.avsc"]

    assert main(["produce", "v", str(tmp_path / "v.jsonl"), *asked]) == 2
    assert "--register needs a CONFIG whose [input] format is avro" in capsys.readouterr().err


@pytest.mark.parametrize("shop", ["avro"], indirect=True)
def test_audit_reads_a_prediction_by_the_schema_that_it_has(shop, tmp_path, capsys) -> None:
    """Another version has registered its fields in another order. The audit finds the record, and
    says that it is not the one that this version makes."""
    shop.feed(4)
    shop.run()
    made = shop.records("shop-predictions")[2]
    _, schema = wire_format("avro").predictions()
    other = json.loads(schema.text)
    other["fields"].reverse()
    other["fields"].append({"name": "quality", "type": "double", "default": 0.5})
    text = json.dumps(other)
    id_ = shop.registry.register("elsewhere", text)
    document = wire_format("avro").to_wire(json.loads(shop.translator.as_json(made.value)))
    write = wire_format("avro").writer(StoredSchema("AVRO", text))
    value = framed(id_, write({**document, "quality": 0.75}))
    shop.write("shop-predictions", value, made.timestamp, made.key)

    for what in (
        "2",
        f"visits:0:{json.loads(shop.translator.as_json(value))['position']['offset']}",
    ):
        assert main(["audit", str(tmp_path / "shop.toml"), what, "--json"]) == 1
        audited = json.loads(capsys.readouterr().out)
        assert audited["published"]["offset"] == 4
        assert json.loads(audited["published"]["value"]) == audited["prediction"] | {
            "quality": 0.75
        }


@pytest.mark.parametrize("shop", ["protobuf"], indirect=True)
def test_init_finds_the_format_of_a_topic_by_its_schemas(shop, tmp_path, capsys) -> None:
    """The configuration that it writes runs."""
    shop.feed(60)
    written = tmp_path / "made.toml"
    asked = ("--labels", "bought", "--transport", shop.url, "--registry", shop.registry_url)

    assert main(["init", "visits", *asked, "--output", str(written), "--no-look"]) == 0
    text = written.read_text()
    assert f'format = "{shop.name}"' in text
    assert f'[registry]\nurl = "{shop.registry_url}"' in text
    assert main(["check", str(written), "--create"]) == 0
    shop.run(load(written))
    assert len(shop.records("visits-predictions")) == 60
    capsys.readouterr()
    assert main(["init", "visits", *asked[:-1], "mock://other", "--output", f"{written}2"]) == 2
    assert "have no schema of mock://other; remove --registry" in capsys.readouterr().err


def test_file_that_does_not_fit_its_schema_writes_nothing(shop, tmp_path, capsys) -> None:
    """The record is named; a topic without a schema too."""
    config = str(tmp_path / "shop.toml")
    (tmp_path / "bad.jsonl").write_text(
        f'{json.dumps(ROWS[0])}\n{{"id": "x", "amount": "much", "shop": {{"city": "Bonn"}}}}\n'
    )

    assert main(["produce", "visits", str(tmp_path / "bad.jsonl"), "--config", config]) == 2
    assert "record 2 for visits" in capsys.readouterr().err
    assert shop.records("visits") == []
    other = ["produce", "other", str(tmp_path / "visits.jsonl"), "--config", config, "--any-topic"]
    assert main(other) == 2
    assert "no subject other-value; register one" in capsys.readouterr().err


@pytest.mark.parametrize("shop", ["avro"], indirect=True)
def test_tail_shows_what_it_cannot_decode_as_it_is(shop, tmp_path, capsys) -> None:
    """An unknown id, and a record without a header."""
    shop.write("visits", b"plain")
    shop.write("visits", framed(4711, b"x"))

    config = str(tmp_path / "shop.toml")
    assert main(["tail", "visits", "--config", config, "--from-beginning", "--drain"]) == 0
    assert said(capsys) == ["plain", "\\x00\\x00\\x00\\x12gx"]


@pytest.mark.parametrize("name", FORMATS)
def test_requests_are_json_and_the_topics_have_the_format(tmp_path, name) -> None:
    """Predict, record, label, explain: as for topics of JSON."""
    shop = Registered(
        tmp_path, name, '[http]\nport = 0\n[serve]\nmax_age = "10ms"\ntimeout = "60s"'
    )
    shop.feed(30)
    stop = threading.Event()
    runner = Runner(shop.config, shop.log, stop)
    thread = threading.Thread(target=runner.run)
    with served(shop.config, runner) as url:
        thread.start()
        try:
            until(lambda: (c := runner.status_feed.copies.newest) is not None and c.learned == 30)
            with httpx.Client(base_url=url, timeout=PATIENCE) as client:
                ask(client)
                page = client.get("/status").json()["shard"]["latest"]
                assert page[0]["id"] == "new"
        finally:
            stop.set()
            thread.join(PATIENCE)

    written = [shop.translator.document(r.value) for r in shop.records("visits")[-1:]]
    assert written == [{"id": "new", "amount": 2.0, "shop": {"city": "Rom"}}]
    assert shop.dead() == []


def ask(client: httpx.Client) -> None:
    """Each operation once."""
    visit = {"id": "new", "amount": 2.0, "shop": {"city": "Rom"}}
    asked = client.post("/v1/predict", json=visit).json()
    assert asked["prediction"] == "yes"
    recorded = client.post("/v1/predict?record=true", json=visit).json()
    assert recorded["position"] == {"topic": "visits", "partition": 0, "offset": 30}
    assert client.get("/v1/predictions/new").json() == recorded
    assert client.get("/v1/explain/new?explain=1").json()["explanation"]["against"] == "no"
    label = client.post("/v1/labels", json={"id": "new", "label": "yes"})
    assert label.status_code == 202
    refused = client.post("/v1/observations", json={"id": "x", "amount": 1.0, "shop": {"city": 5}})
    assert refused.status_code == 422


OLD = {"type": "record", "name": "Visit", "fields": [{"name": "id", "type": "string"}]}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "amount", "type": "double", "default": 0.0}]}


def test_records_are_written_by_the_newest_schema(tmp_path, monkeypatch) -> None:
    """Also in a program that runs for weeks: a field that was added is not left out for ever. While
    the registry does not answer, the schema before is used."""
    shop = Registered(tmp_path, "avro", registry=f"mock://{uuid4()}")
    shop.registry.register("visits-value", json.dumps(OLD))
    now = [0.0]
    translator = Translator(shop.config, clock=lambda: now[0])
    visit = {"id": "7", "amount": 2.5}

    def written() -> dict[str, object]:
        return shop.translator.document(translator.record("visits", visit))

    assert not translator.knows("visits")
    assert written() == {"id": "7"}
    assert translator.knows("visits")
    shop.registry.register("visits-value", json.dumps(NEW))
    now[0] = NEWEST_SECONDS - 1
    assert written() == {"id": "7"}

    def down(*_: object) -> None:
        raise RegistryError("down")

    with monkeypatch.context() as patched:
        patched.setattr(SchemaRegistry, "_asked", down)
        now[0] = NEWEST_SECONDS
        assert written() == {"id": "7"}
    now[0] = 2 * NEWEST_SECONDS
    assert written() == visit


def test_newest_version_is_asked_for_again() -> None:
    """By default the client of the registry remembers it for ever."""
    newest = [1]

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(
                {
                    "subject": "visits-value",
                    "id": newest[0],
                    "version": newest[0],
                    "schema": json.dumps(OLD),
                }
            ).encode()
            self.send_response(200)
            self.send_header("content-type", "application/vnd.schemaregistry.v1+json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            registry = SchemaRegistry(wire_format("avro"), RegistryConfig(url=url))
            assert registry.latest_id("visits-value") == 1
            newest[0] = 2
            until(lambda: registry.latest_id("visits-value") == 2)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b"null", b'{"schema": 5, "id": "x"}', b'{"schema": {}, "id": null}']
)
def test_other_server_than_a_registry_is_one_line(body: bytes) -> None:
    """It says nothing about a schema, so records wait; a number as schema was a traceback."""

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            registry = SchemaRegistry(wire_format("avro"), RegistryConfig(url=url))
            for asked in (lambda: registry.schema(7), lambda: registry.latest("visits-value")):
                with pytest.raises(RegistryError, match="as a schema registry does") as caught:
                    asked()
                assert "\n" not in str(caught.value)
        finally:
            server.shutdown()
            thread.join()


def test_slow_registry_holds_up_one_thread_only(tmp_path: Path) -> None:
    """The others write by the schema that they know."""
    shop = Registered(tmp_path, "avro")
    now = [0.0]
    translator = Translator(shop.config, clock=lambda: now[0])
    document = {"id": "a", "amount": 1.5, "shop": {"city": "Bonn"}}
    expected = translator.record("visits", document)
    asked, may = threading.Event(), threading.Event()
    latest = translator._registry.latest_id

    def slow(subject: str) -> int | None:
        asked.set()
        assert may.wait(PATIENCE)
        return latest(subject)

    translator._registry.latest_id = slow
    now[0] = NEWEST_SECONDS
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(translator.record, "visits", document)
        assert asked.wait(PATIENCE)
        asked.clear()
        assert translator.record("visits", document) == expected
        assert not asked.is_set()
        may.set()
        assert first.result(PATIENCE) == expected
