"""The account of the fields of observations, and what the log says of it."""

from __future__ import annotations

import json
import logging
import pickle
from collections import Counter
from typing import Any

import pytest

from consumers.base.records import Record
from consumers.codecs.account import EVERY, FIRST, FieldAccount, FieldsView
from consumers.shard.shard import Shard
from consumers.shard.views import Committed, ShardView
from consumers.telemetry.added import AddedFacts
from consumers.telemetry.event_logger import LOOKED_AT, EventLogger
from consumers.telemetry.field_lines import field_lines
from stream.data.schema import Schema
from tests.consumers.feeds import GARBAGE, NOW, batch, seen, shard, told

FEW = 200


class Service:
    """A shard with the account of its commits, and their log."""

    def __init__(self, **fields: str) -> None:
        self.shard: Shard = shard(schema=Schema.of(**fields), keep_bad=True)
        self._added, self._logger = AddedFacts(), EventLogger(lambda: 0.0)
        self._offset = 0

    def commit(self, records: list[Record]) -> ShardView:
        """Commit records."""
        outcome = self.shard.process(batch(records), NOW)
        tally = outcome.seen.tally(self._added.counted)
        event = Committed(len(records), 0, 0, {}, {}, 0.0, 0, fields=tally)
        self._added.committed(event)
        view = self._added.with_view(self.shard.view())
        self._logger.committed(event, view)
        return view

    def commit_many(self, n: int, **fields: Any) -> FieldsView:
        """Commit n observations, and as many labels."""
        at = range(self._offset, self._offset + n)
        self._offset += n
        records = [seen(str(i), i, **fields) for i in at]
        view = self.commit(records + [told(str(i), "p", i) for i in at])
        assert view.fields is not None
        return view.fields


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines about fields."""
    lines = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    return [line for line in lines if "of [features]" in line]


def test_field_of_no_observation_is_reported_once_a_thousand_were_decoded(caplog) -> None:
    """By its name and not before, then never again; with the field that has a like name."""
    service = Service(a="numeric", colur="categorical", note="text")
    counts = []
    for _ in range(LOOKED_AT // FEW + 3):
        service.commit_many(FEW, a=1.0, colour="red")
        counts.append(len(warnings(caplog)))

    assert counts == [0, 0, 0, 0, 2, 2, 2, 2]
    first = "in the first 1,000 observations since this start; check its name"
    assert warnings(caplog) == [
        f"field 'colur' of [features] has no value {first}: they have 'colour'",
        f"field 'note' of [features] has no value {first}",
    ]


def test_field_that_all_observations_have_as_text_is_not_called_absent(caplog) -> None:
    """It was reported as one that no observation has, and its name was to be checked."""
    service = Service(a="numeric", **{"payment.amount.value": "numeric"})
    service.commit_many(LOOKED_AT, a=1.0, payment={"amount": {"value": "12.50"}})

    (line,) = warnings(caplog)
    assert line.startswith("no value of field 'payment.amount.value' of [features] fits its kind")
    assert "(wrong_kind)" in line
    assert "12.50" not in line


def test_field_of_one_observation_is_there(caplog) -> None:
    """Null is no value; one record with a value is enough."""
    service = Service(a="numeric", b="numeric")
    service.commit_many(LOOKED_AT - 1, a=None, b=2.0)
    fields = service.commit_many(1, a=0.0)

    assert warnings(caplog) == []
    assert (fields.used, fields.missing("a")) == ({"a": 1, "b": 999}, 999)


def test_a_rejected_observation_says_nothing_about_its_fields(caplog) -> None:
    """It is a dead letter, which is reported."""
    service = Service(a="numeric", b="numeric")
    fields = service.commit_many(LOOKED_AT, a="1,5")
    assert (fields.observations, dict(fields.bad)) == (0, {})
    service.commit_many(LOOKED_AT, a=1.5)

    assert len(warnings(caplog)) == 1


def looked(number: int) -> bool:
    """Whether unknown fields are looked for in an observation."""
    return number < FIRST or number % EVERY == 0


@pytest.mark.parametrize("size", [1, 7, 400])
def test_the_account_is_that_of_the_values_counted_one_by_one(size) -> None:
    """The account reads columns; its twin reads the JSON of each record that was predicted."""
    kinds = {"a": "numeric", "urgent": "binary", "colour": "categorical", "note": "text"}
    fits = {
        "a": (float, int),
        "urgent": bool,
        "colour": str,
        "note": str,
    }
    values: list[dict[str, Any]] = [
        *({"a": None, "note": "x"}, {"a": 1.5}, {}, {"urgent": True, "a": "dear"}, {"note": ""}),
        *({"colour": "red", "note": 7, "zzz": 1}, {"a": "NA", "note": "x", "colr": {"b": 2}}),
    ]
    bodies = [
        json.dumps({"id": str(i), **values[i % len(values)]}).encode() for i in range(EVERY + 90)
    ]
    bodies = [*bodies[:3], *GARBAGE, *bodies[3:]]
    records = [Record("obs", 0, i, NOW, None, body) for i, body in enumerate(bodies)]
    service = Service(**kinds)
    used, bad, unknown, good = Counter[str](), Counter[str](), Counter[str](), 0
    for body in [body for body in bodies if body not in GARBAGE]:
        document = json.loads(body)
        good += 1
        for name, value in document.items():
            if name == "id" or value is None or value == "NA":
                continue
            if name not in kinds:
                unknown[name] += looked(bodies.index(body))
            elif isinstance(value, fits[name]):
                used[name] += 1
            else:
                bad[name] += 1

    for at in range(0, len(records), size):
        view = service.commit(records[at : at + size])

    fields = view.fields
    assert fields is not None
    assert fields.observations == good
    assert {name: n for name, n in fields.used.items() if n} == used
    assert {name: each.found for name, each in fields.bad.items()} == bad
    assert [fields.bad["a"].example, fields.bad["note"].reason] == ['"dear"', "wrong_kind"]
    assert {name: each.found for name, each in fields.unknown.items()} == unknown
    assert fields.unknown["colr"].example == '{"b":2}'
    assert fields.looked == sum(looked(i) for i, body in enumerate(bodies) if body not in GARBAGE)
    assert pickle.loads(pickle.dumps(fields)) == fields


@pytest.mark.parametrize("size", [1, 7, 400])
def test_fields_of_label_records_that_nobody_reads_have_an_account_of_their_own(size) -> None:
    """Also those of a label record that is rejected, because its label has another name."""
    service = Service(a="numeric")
    every = [{"id": "1", "label": "p", "weihgt": 3}, {"id": "2", "label": "p", "w": 2.0}]
    every = [*every * EVERY, {"id": "3", "lable": "p"}]
    bodies = [*(json.dumps(each).encode() for each in every[: EVERY + 90]), b"null", b"["]
    records = [Record("ans", 0, i, NOW, None, body) for i, body in enumerate(bodies)]
    records.insert(0, Record("ans", 0, 0, NOW, None, json.dumps(every[-1]).encode()))

    for at in range(0, len(records), size):
        view = service.commit(records[at : at + size])

    fields = view.fields
    assert fields is not None
    assert fields.labels is not None
    assert (fields.looked, fields.unknown) == (0, {})
    assert fields.labels.observations == len(records)
    assert fields.labels.looked == FIRST + 1
    found = {name: each.found for name, each in fields.labels.unknown.items()}
    assert found == {"lable": 1, "weihgt": 50}
    assert field_lines(fields) == ["in label records, not used: 'lable', 'weihgt'"]
    error = service.shard.process(batch(records[:1]), NOW).rejected[0]
    assert error.detail == "a label record needs \"label\", and this one has 'lable'"


def test_accounts_of_parts_of_the_records_add_up_to_that_of_all() -> None:
    """A backfill learns its splits apart."""
    of = {"a": 1.0, "bb": 2}, {"a": "x", "b": 3, "c": 1}, {"b": 1}
    services = [Service(a="numeric", b="numeric") for _ in of]
    views = [service.commit_many(9, **more) for service, more in zip(services, of, strict=True)]
    joined = FieldAccount(views[0].names)

    for view in views:
        joined.join(view)

    whole = Service(a="numeric", b="numeric")
    assert joined.view() == [whole.commit_many(9, **more) for more in of][-1]


def test_unknown_names_and_examples_are_bounded() -> None:
    """A map whose keys are ids would else grow without end."""
    service = Service(a="numeric")
    for i in range(120):
        more = {f"{'k' * 200}": "v" * 10_000} | {f"id{i}.{k}": k for k in range(3)}
        fields = service.commit_many(1, a=1.0, **more)

    assert len(fields.unknown) == 100
    assert fields.unnamed == 3 * FIRST - 99
    assert max(map(len, fields.unknown)) == 100
    assert max(len(each.example) for each in fields.unknown.values()) == 60
