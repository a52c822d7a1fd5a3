"""Texts that a program cut within a character: half of a surrogate pair becomes U+FFFD."""

from __future__ import annotations

import json
import random

import pytest

from consumers.api.bodies import records_of
from consumers.base.errors import RecordError
from consumers.codecs.json import JsonLabels, JsonObservations
from consumers.codecs.json_document import parse, uncut
from consumers.codecs.raw import ChangeEvents
from consumers.offline.feed import timed
from headwater.records import prepare_observations
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


HALF = rb"\ud83d"
TEMPLATES = {
    "observation": (b'{"id":"a%s","amount":1}', "no_id"),
    "label inside": (b'{"id":"a","amount":1,"y":"ok%s"}', "label_kind"),
    "id of a label": (b'{"id":"a%s","label":"ok"}', "no_id"),
    "label": (b'{"id":"a","label":"ok%s"}', "label_kind"),
    "reporter": (b'{"id":"a","label":"ok","by":"ann%s"}', "bad_reporter"),
}
HOWS = {
    "JSON": {},
    "documents": {"documents": parse},
    "changes": {"documents": ChangeEvents(["c"])},
}


@pytest.mark.parametrize("n", [1, 100])  # one by one, and by the compiled decoder
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("what", TEMPLATES)
def test_a_cut_name_is_rejected(what, how, n) -> None:
    """U+FFFD for each half would make one id of two, and a label would join the wrong record."""
    template, reason = TEMPLATES[what]
    event = b'{"op":"c","after":%s}' if how == "changes" else b"%s"
    good, cut, char = (event % (template % x) for x in (b"", HALF, "\ufffd".encode()))
    beside = char.replace(b"}", rb',"note":"\ude00"}', 1)
    is_label = b'"label"' in template
    codec = (
        JsonLabels(reporter="by", **HOWS[how])
        if is_label
        else JsonObservations(SCHEMA, "id", "y", **HOWS[how])
    )

    found = codec.decode([b"key"] * (n + 3), [good] * n + [cut, char, beside])
    assert {i: error.reason for i, error in found.rejected.items()} == {n: reason}
    assert "cut within a character" in found.rejected[n].detail
    ids = ["a\ufffd"] * 2 if reason == "no_id" else ["a"] * 2
    assert list(found.ids)[n + 1 :] == ids


def test_a_cut_text_in_another_field_costs_no_label() -> None:
    """Only names are compared."""
    found = JsonLabels().decode([None], [rb'{"id":"a","label":"ok","note":"\ud83d"}'])

    assert list(found.ids) == ["a"]
    assert not found.rejected


def test_key_of_a_cut_id_is_no_other_id() -> None:
    """A file with such an id is read; the client raises an error."""
    (sent,) = timed([{"id": "a\ud83d"}], "obs", start=0)
    found = JsonObservations(Schema(()), "id", None).decode([sent.key], [sent.value])

    assert sent.key is None
    assert found.rejected[0].reason == "no_id"
    with pytest.raises(RecordError, match="cut within one"):
        list(prepare_observations([{"x": 1}], ["a\ud83d"], None, "id"))


def test_a_list_over_http_with_a_cut_text_is_a_list() -> None:
    """One cut text must not cost the other records of a request."""
    items = [rb'{"id": "\ud83d", "x":[1, {}]}', rb'{"id": "b"}', rb'{"id": "\ud83d", "x":[1, {}]}']
    body = b" [" + b" ,\n".join(items) + b"\r\n] "

    assert records_of(body, "application/json", 3).values == items
