"""Predictions of the topic with the fields that were not used."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from consumers.base.errors import ConfigError
from consumers.base.records import Record
from consumers.config import parse
from consumers.shard.batches import Commit
from stream import MixedNB
from tests.consumers.feeds import NOW, batch, seen, shard, told

GIVEN: Sequence[dict[str, Any]] = [
    *({"a": 1.0}, {"a": 1.0, "aa": 2}, {"b": 2.0, "a": "dear", "zz": None}, {"colour": 5, "a": 1}),
]
NAMED = [None, ["aa"], ["a", "zz"], None]


def records(n: int = 40) -> list[Record]:
    """Observations with these values in turn, labels, and observations that cannot be read."""
    out = []
    for i in range(n):
        out += [seen(str(i), i, **GIVEN[i % len(GIVEN)]), told(str(i), "xy"[i % 2], i)]
        if i % 7 == 0:
            out.append(Record("obs", 0, 1000 + i, NOW + i, None, b"{"))
    return out


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("more", [{}, {"explain": 2}, {"cloudevents": True}])
def test_prediction_names_the_fields_that_were_not_used(size: int, more: dict[str, Any]) -> None:
    """Each its own, in blocks of any size, beside labels and dead letters; else it is the same."""
    machine, plain = (shard(MixedNB(), keep_bad=True, notes=n, **more) for n in (True, False))
    made, without = [], []
    every = records()
    for at in range(0, len(every), size):
        for of, out in ((machine, made), (plain, without)):
            outcome = of.process(batch(every[at : at + size]), NOW + 10**6)
            out += [json.loads(each.value) for each in outcome.predictions()]

    for each in made:
        named = [note["field"] for note in each.pop("notes", [])] or None
        assert named == NAMED[int(each["id"]) % len(GIVEN)]
    assert made == without
    assert len(made) == 40


def test_shape_of_a_commit_decides_whether_its_predictions_have_notes() -> None:
    """A replay writes the bytes of the commit, whatever the configuration is now."""
    then, now = (shard(MixedNB(), keep_bad=True, notes=n) for n in (True, False))
    first = [each.value for each in then.process(batch(records()), NOW).predictions()]
    again = now.process(batch(records()), NOW, Commit(outputs=then.spec.outputs))

    assert [each.value for each in again.predictions()] == first
    assert any(b'"notes":' in (value or b"") for value in first)


def test_notes_need_predictions_in_json() -> None:
    """A registered schema has no place for them."""
    text = """
name = "svc"
[input]
transport = "memory:notes"
observations = "obs"
labels = "ans"
format = "avro"
[registry]
url = "http://localhost:8081"
[output]
notes = true
"""
    with pytest.raises(ConfigError, match=r"\[output\] notes needs predictions in JSON"):
        parse(text)
