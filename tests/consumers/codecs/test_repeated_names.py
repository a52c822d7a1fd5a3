"""A name that comes twice in a JSON object, with different values."""

from __future__ import annotations

import json

import pytest

from consumers.base.errors import ConfigError
from consumers.codecs.blocks import FEWEST
from consumers.codecs.json import JsonLabels, JsonObservations
from consumers.codecs.raw import ChangeEvents
from consumers.files.source import read_records
from stream.data.schema import Schema

FLAT = Schema.of(amount="numeric", urgent="binary", colour="categorical", text="text")
NESTED = Schema.of(**{"shop.amount": "numeric", "shop.colour": "categorical", "colour": "text"})
ROW = '{"id":"a","amount":1,"urgent":true,"colour":"red","text":"hi:ho"%s}'
INSIDE = '{"id":"a","shop":{"amount":1,"colour":"red"},"colour":"x"%s}'
REPEATED = [  # schema, template, what comes after the other fields, the field that is bad
    (FLAT, ROW, ',"amount":900', "amount"),
    (FLAT, ROW, r',"amo\u0075nt":900', "amount"),
    (FLAT, ROW, ',"urgent" : false', "urgent"),
    (FLAT, ROW, ',"colour":"blue"', "colour"),
    (FLAT, ROW, ',"at":"10:00","colour" :\t"blue"', "colour"),
    (FLAT, ROW, ',"text":null', "text"),
    (NESTED, INSIDE, ',"shop":{"amount":900,"colour":"red"}', "shop.amount"),
    (NESTED, INSIDE, ',"shop":{}', "shop.colour"),
    (NESTED, INSIDE, ',"colour":"y"', "colour"),
]


def decoders(schema: Schema) -> dict[str, JsonObservations]:
    """Decoders of JSON, with and without a document in between."""
    rows = ChangeEvents(["c"])
    return {
        "json": JsonObservations(schema, "id", "label", keep=True),
        "as text": JsonObservations(
            schema, "id", "label", keep=True, as_text=[schema.fields[0].name]
        ),
        "changes": JsonObservations(schema, "id", "label", keep=True, documents=rows),
    }


def wrapped(name: str, value: str) -> bytes:
    """The bytes of a record of this decoder."""
    return (f'{{"op":"c","after":{value}}}' if name == "changes" else value).encode()


@pytest.mark.parametrize("before", [0, FEWEST], ids=["one by one", "compiled"])
@pytest.mark.parametrize(("schema", "template", "again", "field"), REPEATED)
def test_a_repeated_name_is_a_bad_value_in_all_decoders(
    schema, template, again, field, before
) -> None:
    """Else a record shows one value here and another one to the next system."""
    for name, decoder in decoders(schema).items():
        values = [wrapped(name, template % "")] * before + [wrapped(name, template % again)]
        found = decoder.decode([None] * len(values), values)
        others = {each.field for each in found.bad[before]}

        assert list(found.bad) == [before]
        assert not found.rejected
        assert field in others
        notes = {note.field: note.detail for note in decoder.notes(values[-1], found.bad[before])}
        assert "comes 2 times, with different values" in notes[field]


def test_equal_values_and_equal_names_of_other_objects_are_used() -> None:
    """They say one thing."""
    decoder = decoders(FLAT)["json"]
    for again in (',"amount":1', ',"items":[{"amount":5},{"amount":6}]', ',"s":"\\"amount\\":7"'):
        found = decoder.decode([None], [(ROW % again).encode()])
        assert not found.bad
        assert not found.rejected
        assert found.rows.numeric[0, 0] == 1.0


@pytest.mark.parametrize("before", [0, FEWEST], ids=["one by one", "compiled"])
def test_a_repeated_id_label_weight_or_reporter_rejects_the_record(before) -> None:
    """It is joined by them."""
    good = '{"id":"a","label":"x","w":2,"who":"ann"}'
    labels = JsonLabels(reporter="who")
    bad = {
        '{"label":"x","label":"y"}': "label_kind",
        '{"id":"a","id":"b","label":"x"}': "no_id",
        '{"id":"a","label":"x","w":1,"w":50}': "bad_weight",
        '{"id":"a","label":"x","who":"ann","who":"bob"}': "bad_reporter",
    }
    values = [good.encode()] * before + [value.encode() for value in bad]
    found = labels.decode([b"k"] * len(values), values)

    assert [found.rejected[before + k].reason for k in range(len(bad))] == list(bad.values())
    assert all("comes 2 times" in error.detail for error in found.rejected.values())
    for again, reason in ((',"id":"b"', "no_id"), (',"label":1,"label":2', "label_kind")):
        values = [(ROW % "").encode()] * before + [(ROW % again).encode()]
        rejected = decoders(FLAT)["json"].decode([None] * len(values), values).rejected
        assert [(k, error.reason) for k, error in rejected.items()] == [(before, reason)]


@pytest.mark.parametrize("name", ["x.jsonl", "x.json"])
def test_a_repeated_name_in_a_file_names_its_line(tmp_path, name) -> None:
    """The records of a file are written to a topic again, so nobody could see it there."""
    path = tmp_path / name
    lines = ['{"id":1,"shop":{"a":1,"a":1}}', '{"id":2,"shop":{"a":1,"a":2}}']
    path.write_text("\n".join(lines) if name == "x.jsonl" else "[" + ",\n".join(lines) + "]")

    with pytest.raises(ConfigError, match="line 2: field 'a' comes 2 times, with different values"):
        list(read_records(path))
    path.write_text(lines[0])
    assert list(read_records(path)) == [json.loads(lines[0])]
