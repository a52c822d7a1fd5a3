"""Records with schemas of a real Apicurio: python -m tests.long.registry [--records 500].

Confluent's own serializers write the records and its deserializers read the predictions, so both
ends are code that is not ours. Maven fetches the registry; it needs Java 17.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass

from consumers.codecs.format import framed
from consumers.codecs.formats import protobuf
from consumers.codecs.registry import wire_format
from consumers.codecs.schemas import StoredSchema
from consumers.schemas.client import subject_of
from consumers.service.runner import Runner
from tests.consumers.schemas.registered import FORMATS, NOW, SCHEMAS, Registered
from tests.kafka.broker import free_ports

ARTIFACT = "io.apicurio:apicurio-registry-app:{}:tar.gz:all"
START_SECONDS = 300
APIS = ("v6", "v7")
DRAFT = "http://json-schema.org/draft-07/schema#"

Encode = Callable[[str, dict[str, Any]], bytes]


@contextlib.contextmanager
def apicurio(version: str, home: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A registry in memory, its address and its process."""
    options = [f"-Dartifact={ARTIFACT.format(version)}", f"-DoutputDirectory={home}"]
    subprocess.run(["mvn", "-q", "-B", "dependency:copy", *options], check=True)
    (archive,) = home.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(home / "app", filter="data")
    (jar,) = (home / "app").glob("*-runner.jar")
    (port,) = free_ports(1)
    options = ["-Xmx512m", "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}"]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(["java", *options, "-jar", str(jar)], stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + START_SECONDS
        while not _answers(f"{url}/health/ready"):
            assert process.poll() is None, (home / "log").read_text()[-2000:]
            assert time.monotonic() < end, "the registry does not start"
            time.sleep(0.5)
        yield url, process
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError):
        return bool(urllib.request.urlopen(url, timeout=5).status == 200)
    return False


def serializers(name: str, client: SchemaRegistryClient) -> Encode:
    """Confluent's serializers of observations and labels, which register the schemas."""

    def made(topic: str) -> Any:
        text = SCHEMAS[name][topic]
        if name == "avro":
            return AvroSerializer(client, text)
        if name == "json_schema":
            return JSONSerializer(json.dumps(_titled(topic, text)), client)
        return ProtobufSerializer(_messages()[topic], client, {"use.deprecated.format": False})

    of = {topic: made(topic) for topic in ("visits", "bought")}

    def encode(topic: str, document: dict[str, Any]) -> bytes:
        value: Any = document
        if name == "protobuf":
            fields = dict(document)
            value = _messages()[topic](**{k: v for k, v in fields.items() if v is not None})
        return bytes(of[topic](value, SerializationContext(topic, MessageField.VALUE)))

    return encode


def _titled(title: str, text: str) -> dict[str, Any]:
    """A JSON Schema as Confluent's serializer and Apicurio need it."""
    return {"$schema": DRAFT, "title": title, **json.loads(text)}


_made: dict[str, Any] = {}


def _messages() -> dict[str, Any]:
    if not _made:
        for topic, text in SCHEMAS["protobuf"].items():
            stored = wire_format("protobuf").compiled(StoredSchema("PROTOBUF", text))
            file = protobuf.file_of(stored)
            _made[topic] = GetMessageClass(next(iter(file.message_types_by_name.values())))
    return _made


def deserializer(name: str, client: SchemaRegistryClient) -> Callable[[bytes], Any]:
    """Confluent's deserializer of predictions."""
    context = SerializationContext("shop-predictions", MessageField.VALUE)
    if name == "avro":
        read = AvroDeserializer(client)
    elif name == "json_schema":
        text, _ = wire_format(name).predictions()
        read = JSONDeserializer(text)
    else:
        _, stored = wire_format(name).predictions()
        message = protobuf.file_of(stored).message_types_by_name["Prediction"]
        read = ProtobufDeserializer(GetMessageClass(message), {"use.deprecated.format": False})
    return lambda value: read(value, context)


def run(
    name: str, url: str, process: subprocess.Popen[bytes], count: int, home: Path
) -> Registered:
    """One format: write, predict, an outage, an evolved schema, and an unknown id."""
    client = SchemaRegistryClient({"url": url})
    shop = Registered(home, name, registry=url)
    encode = serializers(name, client)

    def feed(first: int, last: int) -> None:
        for i in range(first, last):
            city = ("Bonn", "Rom")[i % 2]
            visit = {"id": f"{i}", "amount": float(i % 7), "shop": {"city": city}}
            label = {"id": f"{i}", "label": ("no", "yes")[i % 2]}
            shop.write("visits", encode("visits", visit), NOW + 10 * i)
            shop.write("bought", encode("bought", label), NOW + 10 * i + 5)

    feed(0, count)
    shop.run()
    made = shop.predictions()
    assert len(made) == count, len(made)
    assert [each["prediction"] for each in made[-10:]] == ["no", "yes"] * 5
    read = deserializer(name, client)
    for record, document in zip(shop.records("shop-predictions"), made, strict=True):
        found = read(record.value)
        assert (found.id if name == "protobuf" else found["id"]) == document["id"]
    _outage(shop, name, client, process, count)
    shop.write("visits", framed(4_000_000, b"\x02a"))
    shop.run()
    assert [reason for reason, _ in shop.dead()] == ["unknown_schema"], shop.dead()
    feed(count + 1, count + 20)
    shop.run()
    assert len(shop.predictions()) == count + 20
    return shop


def _outage(
    shop: Registered,
    name: str,
    client: SchemaRegistryClient,
    process: subprocess.Popen[bytes],
    count: int,
) -> None:
    """A record of a new schema with a reference arrives while the registry is stopped."""
    wire = wire_format(name)
    text, references = _evolved(name, client)
    id_ = client.register_schema(
        subject_of("visits"), Schema(text, wire.schema_type, [r for r, _ in references])
    )
    named = tuple((r.name, body) for r, body in references)
    write = wire.writer(wire.compiled(StoredSchema(wire.schema_type, text, named)))
    visit = {"id": f"{count}", "amount": 1.0, "shop": {"city": "Rom"}, "more": {"note": "x"}}
    stop = threading.Event()
    runner = Runner(shop.configured(), shop.log, stop)
    thread = threading.Thread(target=runner.run)
    thread.start()
    _until(lambda: runner.health().ready)
    process.send_signal(signal.SIGSTOP)
    try:
        shop.write("visits", framed(id_, write(visit)), NOW + 10 * count)
        _until(lambda: "wait for their schemas" in runner.health().detail)
        assert len(shop.records("shop-predictions")) == count
    finally:
        process.send_signal(signal.SIGCONT)
    _until(lambda: runner.health().ready and len(shop.records("shop-predictions")) > count)
    stop.set()
    thread.join()
    assert shop.dead() == []


def _evolved(name: str, client: SchemaRegistryClient) -> tuple[str, list[tuple[Any, str]]]:
    """The next version of the schema of observations, which refers to another schema."""
    if name == "avro":
        more = {"type": "record", "name": "More", "fields": [{"name": "note", "type": "string"}]}
        document = json.loads(SCHEMAS[name]["visits"])
        document["fields"].append({"name": "more", "type": ["null", "More"], "default": None})
        known, other, text = "More", json.dumps(more), json.dumps(document)
    elif name == "json_schema":
        document = _titled("visits", SCHEMAS[name]["visits"])
        document["properties"]["more"] = {"$ref": "more.json"}
        known, text = "more.json", json.dumps(document)
        other = json.dumps(_titled("more", '{"type": "object"}'))
    else:
        known, other = "more.proto", 'syntax = "proto3"; message More { string note = 1; }'
        head, rest = SCHEMAS[name]["visits"].split(";", 1)
        text = f'{head}; import "more.proto";{rest[:-1]} More more = 4; }}'
    subject = f"more-{name}"
    client.register_schema(subject, Schema(other, wire_format(name).schema_type))
    return text, [(SchemaReference(known, subject, 1), other)]


def _until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not reached():
        assert time.monotonic() < end, "not reached within 120 s"
        time.sleep(0.05)


def main() -> int:
    """All formats; 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="2.6.13.Final")
    parser.add_argument("--records", type=int, default=500)
    parser.add_argument("--formats", nargs="*", default=FORMATS)
    options = parser.parse_args()
    for number, name in enumerate(options.formats):
        api = APIS[number % len(APIS)]
        with tempfile.TemporaryDirectory(prefix="headwater-apicurio-") as folder:
            with apicurio(options.version, Path(folder)) as (url, process):
                at = f"{url}/apis/ccompat/{api}"
                shop = run(name, at, process, options.records, Path(folder))
                fingerprint = shop.fingerprint()
            again = shop.fingerprint()  # the registry is gone
        assert again == fingerprint
        sys.stdout.write(f"{name}, API {api}: {options.records + 20} predictions, replayed\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
