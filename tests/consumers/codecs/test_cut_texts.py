"""Texts that a program cut within a character: half of a surrogate pair becomes U+FFFD."""

from __future__ import annotations

import json
import random

import pytest

from consumers.api.bodies import records_of
from consumers.codecs.json import JsonLabels, JsonObservations
from consumers.codecs.json_document import parse, uncut
from stream.data.schema import Schema

SCHEMA = Schema.of(amount="numeric", colour="categorical", text="text")
PARTS = ["a", "é", "\U0001f600", "\ud83d", "\ude00", "\\", '"', "\n", "\\ud83d", "\ufffd", "u"]


def oracle(found: object) -> object:
    """The same value without surrogates, character by character."""
    if isinstance(found, str):
        return "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in found)
    if isinstance(found, dict):
        return {oracle(name): oracle(value) for name, value in found.items()}
    return [oracle(value) for value in found] if isinstance(found, list) else found


@pytest.mark.parametrize("seed", range(50))
def test_each_half_of_a_pair_becomes_one_replacement_character(seed) -> None:
    """Whole pairs, and backslashes that are no escapes, stay."""
    rng = random.Random(seed)
    texts = ["".join(rng.choices(PARTS, k=rng.randrange(8))) for _ in range(4)]
    document = {"x": texts[0], texts[1]: [texts[2], {"y": texts[3]}]}
    value = json.dumps(document).encode()  # escapes all that is not ASCII

    assert parse(value) == oracle(json.loads(value))
    assert len(uncut(value)) == len(value)


def test_a_cut_text_costs_no_other_field_and_is_counted() -> None:
    """Else a sender escapes a filter by half an emoji in a field that nobody declared."""
    codec = JsonObservations(SCHEMA, "id", None)
    good = b'{"id":"a","amount":1.5,"colour":"red","text":"hi"}'
    cut = good.replace(b"hi", rb"hi \ud83d").replace(b"}", rb',"note":"\ude00"}')

    for n in (1, 100):  # one by one, and by the compiled decoder
        found = codec.decode([None] * (n + 1), [good] * n + [cut])
        assert not found.rejected
        assert found.rows.text[-1].tolist() == ["hi \ufffd"]
        assert found.rows.numeric[-1].tolist() == [1.5]
        assert found.cut == 1


def test_ids_and_labels_with_half_a_pair_join() -> None:
    """Both sides of the join read the same text."""
    x = JsonObservations(SCHEMA, "id", None).decode([None], [rb'{"id":"a\ud83d","amount":1}'])
    y = JsonLabels().decode([None], [rb'{"id":"a\ud83d","label":"ok","note":"\ud83d"}'])

    assert list(x.ids) == list(y.ids) == ["a\ufffd"]
    assert not x.rejected
    assert not y.rejected


def test_a_list_over_http_with_a_cut_text_is_a_list() -> None:
    """One cut text must not cost the other records of a request."""
    body = rb'[{"note": "\ud83d"}, {"note": "b"}]'

    assert list(map(json.loads, records_of(body, "application/json", 2).values)) == [
        {"note": "\ufffd"},
        {"note": "b"},
    ]
