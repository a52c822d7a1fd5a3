"""A service over a log in memory whose records have the schemas of a registry in memory."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any
from uuid import uuid4

from consumers.base.errors import RegistryError
from consumers.base.records import Outgoing, Partition, Record
from consumers.codecs.registry import wire_format
from consumers.codecs.schemas import StoredSchema
from consumers.commands.run import make_own_topics
from consumers.config import Config
from consumers.config.load import parse
from consumers.schemas.client import SchemaRegistry, subject_of
from consumers.schemas.translate import Translator
from consumers.service.recovery import rebuild, sources
from consumers.service.runner import Runner
from consumers.transports import open_log

FORMATS = ("avro", "json_schema", "protobuf")
NOW = 1_795_000_000_000
HEADLESS = "[http]\nenabled = false"

_VISIT = [{"name": "id", "type": "string"}, {"name": "amount", "type": ["null", "double"]}]
_SHOP = {"type": "record", "name": "Shop", "fields": [{"name": "city", "type": "string"}]}
_TEXT, _NUMBER = {"type": "string"}, {"type": "number"}
SCHEMAS: dict[str, dict[str, str]] = {
    "avro": {
        "visits": json.dumps(
            {
                "type": "record",
                "name": "Visit",
                "fields": [*_VISIT, {"name": "shop", "type": _SHOP}],
            }
        ),
        "bought": json.dumps(
            {
                "type": "record",
                "name": "Bought",
                "fields": [_VISIT[0], {"name": "label", "type": ["string", "boolean"]}],
            }
        ),
    },
    "json_schema": {
        "visits": json.dumps(
            {
                "type": "object",
                "properties": {
                    "id": _TEXT,
                    "amount": {"type": ["null", "number"]},
                    "shop": {"properties": {"city": _TEXT}},
                },
                "required": ["id"],
            }
        ),
        "bought": json.dumps({"type": "object", "required": ["label"]}),
    },
    "protobuf": {
        "visits": 'syntax = "proto3"; message Visit { string id = 1; optional double amount = 2; '
        "message Shop { string city = 1; } Shop shop = 3; }",
        "bought": 'syntax = "proto3"; message Bought { string id = 1; string label = 2; '
        "optional double w = 3; }",
    },
}


class Registered:
    """A service `shop` with observations in `visits` and labels in `bought`."""

    def __init__(
        self,
        directory: Path,
        name: str,
        more: str = "",
        url: str = "",
        registry: str = "",
        partitions: int = 1,
    ) -> None:
        self.url, self.name = url or f"memory:{uuid4()}", name
        self.registry_url = registry or f"mock://{uuid4()}"
        self.directory = directory
        self.config = self.configured(more)
        self.log = open_log(self.url)
        for topic in self.config.input_topics:
            self.log.create_topic(topic, partitions)
        make_own_topics(self.config, self.log)
        self.registry = SchemaRegistry(wire_format(name), self.config.registry)
        self.translator = Translator(self.config)
        for topic, text in SCHEMAS[name].items() if not registry else ():
            self.registry.register(subject_of(topic), text)

    def configured(self, more: str = "") -> Config:
        """Its configuration, with further lines."""
        return parse(self.text(more), directory=self.directory)

    def text(self, more: str = "") -> str:
        """Its configuration as TOML."""
        return f"""
            name = "shop"
            [input]
            transport = "{self.url}"
            observations = "visits"
            labels = "bought"
            format = "{self.name}"
            [registry]
            url = "{self.registry_url}"
            [features]
            amount = "numeric"
            shop.city = "categorical"
            [model]
            type = "MixedNB"
            [commit]
            max_records = 20
            {more or HEADLESS}
        """

    def feed(self, count: int, first: int = 0) -> None:
        """Write observations, each with its label after it."""
        for i in range(first, first + count):
            city = ("Bonn", "Rom")[i % 2]
            visit = {"id": f"{i}", "amount": float(i % 7), "shop": {"city": city}}
            label = {"id": f"{i}", "label": ("no", "yes")[i % 2]}
            self.write("visits", self.translator.record("visits", visit), NOW + 10 * i)
            self.write("bought", self.translator.record("bought", label), NOW + 10 * i + 5)

    def write(
        self,
        topic: str,
        value: bytes,
        timestamp: int = NOW,
        key: bytes = b"k",
        partition: int = 0,
    ) -> None:
        """Append one record."""
        self.log.append([Outgoing(topic, key, value, timestamp, (), partition)])

    def run(self, config: Config | None = None) -> None:
        """Consume all that is there."""
        config = config or self.config
        for number in range(config.scale.shards):
            Runner(config, self.log, threading.Event(), shard=number, drain=True).run()

    def records(self, topic: str) -> list[Record]:
        """The records of a topic with headers."""
        end = self.log.end_offsets([Partition(topic, 0)])[Partition(topic, 0)]
        if not end:
            return []
        out = []
        for record in self.log.follow({Partition(topic, 0): 0}, poll_seconds=0.01):
            out.append(record)
            if record.offset >= end - 1:
                break
        return out

    def predictions(self) -> list[dict[str, Any]]:
        """The predictions, decoded."""
        return [self.translator.document(r.value) for r in self.records("shop-predictions")]

    def dead(self) -> list[tuple[str, bytes | None]]:
        """Reason and bytes of each dead letter."""
        found = self.records("shop-dead-letters")
        return [(dict(r.headers)["reason"].decode(), r.value) for r in found]

    def fingerprint(self, number: int = 0) -> str:
        """The state, rebuilt from the journal without a registry and without snapshots."""
        found = sources(self.config, self.log, number)
        end = self.log.end_offsets([found.journal])[found.journal]
        return rebuild(self.config, self.log, found, None, end=end).shard.fingerprint()


class Failing:
    """A registry that fails some times before it answers."""

    def __init__(self, registry: SchemaRegistry, failures: int) -> None:
        self._registry, self.failures, self.asked = registry, failures, 0

    def schema(self, id_: int) -> StoredSchema | None:
        """As the registry, after the failures."""
        self.asked += 1
        if self.failures:
            self.failures -= 1
            raise RegistryError("the schema registry does not answer")
        return self._registry.schema(id_)

    def predictions_schema(self, topic: str) -> int:
        """As the registry."""
        return self._registry.predictions_schema(topic)
