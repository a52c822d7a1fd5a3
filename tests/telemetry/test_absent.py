"""Declared fields that no observation has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from consumers.base.records import Record
from consumers.codecs.json import JsonObservations
from consumers.shard.batches import fields_of
from consumers.shard.shard import Shard
from consumers.shard.views import Committed, FieldCheck
from consumers.telemetry.advice import LOOKED_AT, AbsentFields
from stream.data.schema import Schema
from tests.consumers.feeds import GARBAGE, NOW, batch, seen, shard, told

FEW = 200


class Service:
    """A shard, and the check of its commits; `reports` are what was reported so far."""

    def __init__(self, **fields: str) -> None:
        schema = Schema.of(**fields)
        self.shard: Shard = shard(schema=schema)
        self.reports: list[list[str]] = []
        self.absent = AbsentFields(schema, lambda names: self.reports.append(list(names)))
        self._offset = 0

    def commit(self, records: list[Record]) -> FieldCheck | None:
        """Commit records; what the shard found of their fields."""
        outcome, left = self.shard.process(batch(records), NOW), self.absent.left
        fields = fields_of(outcome.decoded, left) if left else None
        event = Committed(len(records), 0, 0, {}, {}, 0.0, 0, fields=fields)
        self.absent.committed(event, self.shard.view())
        return fields

    def commit_many(self, n: int, **fields: Any) -> None:
        """Commit n observations, and as many labels."""
        at = range(self._offset, self._offset + n)
        self._offset += n
        records = [seen(str(i), i, **fields) for i in at]
        self.commit(records + [told(str(i), "p", i) for i in at])


def test_field_of_no_observation_is_reported_once_a_thousand_were_decoded() -> None:
    """By its name and not before; then never again. Labels are no observations."""
    service = Service(a="numeric", colur="categorical", note="text")
    reports = []
    for _ in range(LOOKED_AT // FEW + 3):
        service.commit_many(FEW, a=1.0, colour="red")
        reports.append(len(service.reports))

    assert reports == [0, 0, 0, 0, 1, 1, 1, 1]
    assert service.reports == [["colur", "note"]]


def test_field_of_one_observation_is_there() -> None:
    """Null is no value; one record with a value is enough."""
    service = Service(a="numeric", b="numeric")
    service.commit_many(LOOKED_AT - 1, a=None, b=2.0)
    service.commit_many(1, a=0.0)

    assert service.reports == []


def test_only_the_first_thousand_of_a_large_commit_are_checked() -> None:
    """A value that comes later is too late to matter from the beginning."""
    service = Service(a="numeric")
    service.commit([seen(str(i), i, **({"a": 1.0} if i >= LOOKED_AT else {})) for i in range(1500)])

    assert service.reports == [["a"]]


def test_a_rejected_observation_says_nothing_about_its_fields() -> None:
    """A field with a value of the wrong kind is there: it is no misspelt name."""
    service = Service(a="numeric", b="numeric")
    service.commit_many(LOOKED_AT, a="1,5")
    assert service.reports == []
    service.commit_many(LOOKED_AT, a=1.5)

    assert service.reports == [["b"]]


def test_nothing_is_checked_once_every_field_was_found_or_the_thousand_are_full() -> None:
    """The commits after that cost nothing."""
    found, full = Service(a="numeric"), Service(a="numeric", b="numeric")
    found.commit_many(1, a=1.0)
    full.commit_many(LOOKED_AT, a=1.0)

    assert [found.absent.left, full.absent.left] == [0, 0]
    assert found.commit([seen("x")]) is None
    assert full.commit([seen("x")]) is None


@pytest.mark.parametrize("first", [1, 7, 400])
def test_the_fields_found_are_those_of_the_records_decoded_one_by_one(first) -> None:
    """The check reads columns; its twin decodes each record alone, the slow way."""
    kinds = {"a": "numeric", "urgent": "binary", "colour": "categorical", "note": "text"}
    values = [{"a": None}, {"a": 1.5}, {}, {"urgent": True}, {"note": ""}, {"colour": "red"}]
    bodies = [json.dumps({"id": str(i), **values[i % len(values)]}).encode() for i in range(30)]
    bodies = [*bodies[:3], *GARBAGE, *bodies[3:]]
    records = [Record("obs", 0, i, NOW, None, body) for i, body in enumerate(bodies)]
    schema, good, present = Schema.of(**kinds), 0, set[str]()
    for body in bodies[:first]:
        one = JsonObservations(schema, "id", None).decode([None], [body])
        good += not one.rejected
        present |= {name for name in one.rows.dicts()[0] if not one.rejected}

    outcome = shard(schema=schema).process(batch(records), NOW)

    fields = fields_of(outcome.decoded, first)
    assert fields.observations == good
    assert set(fields.present) == present
