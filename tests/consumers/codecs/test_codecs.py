"""JSON to columns: the fast way is the slow way, and no bytes are an exception."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.base.errors import DEAD_LETTER_REASONS, RecordError
from consumers.base.fields import MISSING
from consumers.codecs.blocks import FEWEST
from consumers.codecs.json import JsonLabels, JsonObservations
from consumers.codecs.json_document import DEEPEST, LARGEST_RECORD
from consumers.codecs.predictions import PredictionEncoder
from stream import Field, Schema
from tests.consumers.hostile import nested, observations

SCHEMA = Schema.of(price="numeric", urgent="binary", colour="categorical", text="text")
CORPUS = list(observations(seed=11, count=4000))


def decoder(schema: Schema = SCHEMA, label: str | None = "label") -> JsonObservations:
    """A decoder with `id` and a label inside."""
    return JsonObservations(schema, "id", label)


def slowly(codec, key: bytes | None, value: bytes | None):
    """What the slow way makes of a record: ("ok", …) or its reason."""
    try:
        return "ok", codec.slow(key, value)
    except RecordError as error:
        return error.reason, None


def bits(number: float) -> bytes:
    """Equal numbers with equal bits; every NaN alike."""
    return b"nan" if math.isnan(number) else np.float64(number).tobytes()


def cells(rows, i: int) -> list[Any]:
    """One row, by column."""
    return [*map(bits, rows.numeric[i].tolist()), *rows.categorical[i], *rows.text[i]]


def one(value: Any, *, key: bytes | None = None, schema: Schema = SCHEMA):
    """One record, a text or an object, decoded."""
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return decoder(schema).decode([key], [raw])


@pytest.mark.parametrize("batch", [1, 97, len(CORPUS)])
def test_fast_way_is_the_slow_way_on_hostile_observations(batch) -> None:
    """A row or a reason of the list, the same both ways, alone or in a batch."""
    codec = decoder()
    accepted = 0
    for start in range(0, len(CORPUS), batch):
        part = CORPUS[start : start + batch]
        found = codec.decode([k for k, _ in part], [v for _, v in part])
        for i, (key, value) in enumerate(part):
            reason, slow = slowly(codec, key, value)
            told = found.rejected[i].reason if i in found.rejected else "ok"
            assert told == reason, value and value[:200]
            assert told == "ok" or told in DEAD_LETTER_REASONS
            if slow is None:
                continue
            accepted += 1
            (price, urgent, colour, text), id_, label, _ = slow
            expected = [bits(price), bits(urgent), colour, text]
            assert cells(found.rows, i) == expected, value and value[:200]
            assert (found.ids[i], found.labels[i]) == (id_, label)
            assert type(found.labels[i]) is type(label)

    assert 0.2 < accepted / len(CORPUS) < 0.8


def test_hostile_observations_leave_only_finite_numbers_or_missing() -> None:
    """Nothing that could poison a model passes (I4)."""
    found = decoder().decode([k for k, _ in CORPUS], [v for _, v in CORPUS])
    numeric = found.rows.numeric

    assert not np.isinf(numeric).any()
    assert np.nanmax(np.abs(numeric)) <= 1e100
    assert not np.signbit(numeric[numeric == 0]).any()
    reasons = {error.reason for error in found.rejected.values()}
    bad = {"wrong_kind", "infinite", "out_of_range", "label_kind"}
    assert reasons == {"unparsable", "oversize", "no_id", *bad}


@pytest.mark.parametrize("reporter", [None, "text", "a.price", "urgent"])
def test_fast_way_is_the_slow_way_on_hostile_labels(reporter) -> None:
    """Label records: ids, labels, weights and reporters agree, or the reasons do."""
    codec = JsonLabels(reporter=reporter)
    corpus = [(k, v and v.replace(b'"price"', b'"w"', 1)) for k, v in CORPUS]
    found = codec.decode([k for k, _ in corpus], [v for _, v in corpus])
    reasons = set()
    for i, (key, value) in enumerate(corpus):
        reason, slow = slowly(codec, key, value)
        told = found.rejected[i].reason if i in found.rejected else "ok"
        assert told == reason, value and value[:200]
        reasons.add(reason)
        if slow is not None:
            who = None if found.reporters is None else found.reporters[i]
            assert (found.ids[i], found.labels[i], found.weights[i], who) == slow, value
            assert type(found.labels[i]) is type(slow[1])
            assert 0 < found.weights[i] <= 2.0**53

    named = {"bad_reporter"} & reasons
    named |= {"ok", "no_label", "bad_weight", "label_kind"}  # a label cut within a character
    assert reasons == {"unparsable", "oversize", "no_id", *named}


REPORTERS: list[tuple[str, str | None]] = [
    ('"ann"', "ann"),
    ("7", "7"),
    ("null", None),
    ('"%s"' % ("é" * 256), "é" * 256),
]


@pytest.mark.parametrize("path", ["by", "by.user", 'b"y', "by.user.id"])
def test_reporters_are_texts_or_integers(path) -> None:
    """An absent one and null are nobody, and a nested one is found by its path."""
    head, *inner = path.split(".")
    for value, name in REPORTERS:
        nested = value
        for part in reversed(inner):
            nested = f'{{"{part}":{nested}}}'
        record = f'{{"id":1,"label":"x",{json.dumps(head)}:{nested}}}'.encode()
        found = JsonLabels(reporter=path).decode([None] * 2, [record, b'{"id":1,"label":"x"}'])
        assert (found.reporters, found.rejected) == ([name, None], {})
    literal = json.dumps({"id": 1, "label": "x", path: "ann"}).encode()
    assert JsonLabels(reporter=path).decode([None], [literal]).reporters == ["ann"]
    assert JsonLabels().decode([None], [literal]).reporters is None


@pytest.mark.parametrize("path", ["by", "by.user"])
def test_reporters_of_other_formats_are_those_of_their_documents(path) -> None:
    """A document takes the same ways as JSON."""
    values = [f'{{"id":1,"label":"x","by":{by}}}'.encode() for by in ('"ann"', '{"user":7}')]
    codec = JsonLabels(documents=json.loads, reporter=path)
    found = codec.decode([None] * 2, values)
    reasons = {i: error.reason for i, error in found.rejected.items()}

    expected = (["ann", None], {1: "bad_reporter"}) if path == "by" else ([None, "7"], {})
    assert (found.reporters, reasons) == expected


@pytest.mark.parametrize("value", ['""', "true", "1.5", "[]", "{}", '"%s"' % ("x" * 257)])
@pytest.mark.parametrize("path", ["by", "by.user"])
def test_reporter_that_is_no_name_is_rejected(path, value) -> None:
    """A label of nobody knows whom is not one of nobody."""
    nested = value if path == "by" else f'{{"user":{value}}}'
    found = JsonLabels(reporter=path).decode(
        [None], [f'{{"id":1,"label":0,"by":{nested}}}'.encode()]
    )

    assert found.rejected[0].reason == "bad_reporter"


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ('"price":1e999', "infinite"),
        ('"price":-Infinity', "infinite"),
        ('"price":"1"', "wrong_kind"),
        ('"price":true', "wrong_kind"),
        ('"price":[1]', "wrong_kind"),
        ('"price":1e101', "out_of_range"),
        (f'"price":{"9" * 310}', "out_of_range"),
        (f'"price":{"9" * 5000}', "infinite"),
        ('"urgent":2', "wrong_kind"),
        ('"colour":{}', "wrong_kind"),
        (f'"colour":{"9" * 200}', "out_of_range"),
        ('"text":5', "wrong_kind"),
    ],
)
def test_value_that_no_field_can_hold_is_rejected_with_its_reason(cell, reason) -> None:
    """One bad cell, in a record that is good otherwise."""
    found = one(f'{{"id":"a",{cell}}}'.encode())

    assert found.rejected[0].reason == reason


@pytest.mark.parametrize("cell", ["", '"price":null,', '"price":NaN,'])
def test_absent_null_and_nan_are_missing(cell) -> None:
    """No evidence, and no dead letter (I4)."""
    found = one(f'{{{cell}"id":"a"}}'.encode())

    assert found.rejected == {}
    assert np.isnan(found.rows.numeric).all()


@pytest.mark.parametrize(
    ("field", "key", "id_"),
    [
        ('"id":"a"', b"k", "a"),
        ('"id":7', b"k", "7"),
        ('"id":-0', None, "0"),
        ('"id":null', b"k", "k"),
        ('"x":1', "é".encode(), "é"),
    ],
)
def test_id_is_the_field_or_else_the_key(field, key, id_) -> None:
    """As text: 7 and "7" are one id."""
    assert one(f"{{{field}}}".encode(), key=key).ids == [id_]


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ('"x":1', None),
        ('"x":1', b""),
        ('"x":1', b"\xff"),
        ('"id":""', b"k"),
        ('"id":true', b"k"),
        ('"id":1.5', b"k"),
        ('"id":["a"]', b"k"),
        (f'"id":"{"x" * 513}"', b"k"),
        (f'"id":{"9" * 513}', b"k"),
        ('"x":1', b"k" * 513),
    ],
)
def test_observation_without_a_usable_id_is_rejected(field, key) -> None:
    """Neither the field nor the key is text or an integer of at most 512 characters."""
    assert one(f"{{{field}}}".encode(), key=key).rejected[0].reason == "no_id"


def test_dotted_field_is_a_path_into_nested_objects() -> None:
    """Features, id and label alike; a path that leads nowhere is missing."""
    schema = Schema((Field("shop.price", "numeric"), Field("shop.city", "categorical")))
    codec = JsonObservations(schema, "meta.id", "meta.label")
    value = {"shop": {"price": 3}, "meta": {"id": 5, "label": "x"}, "shop.city": "Bonn"}
    found = codec.decode([None, b"k"], [json.dumps(value).encode(), b'{"shop":7}'])

    assert (found.ids, found.labels, found.rejected) == (["5", "k"], ["x", None], {})
    assert found.rows.numeric[0].tolist() == [3.0]
    assert found.rows.categorical.tolist() == [["Bonn"], [None]]


def test_field_with_a_dot_in_its_name_comes_before_the_path() -> None:
    """A column of a CSV keeps its name."""
    schema = Schema((Field("shop.city", "categorical"),))
    values = [
        b'{"id":1,"shop.city":"Bonn","shop":{"city":"Kiel"}}',
        b'{"id":2,"shop.city":null,"shop":{"city":"Kiel"}}',
        b'{"id":3,"shop":{"city":"Kiel"}}',
    ]
    found = JsonObservations(schema, "id", None).decode([None] * 3, values)

    assert found.rows.categorical[:, 0].tolist() == ["Bonn", None, "Kiel"]


@pytest.mark.parametrize("text", ["NA", "N/A", "NaN", "null", "None", "?", "-", "", " ", " NA\t"])
@pytest.mark.parametrize("name", ["price", "urgent"])
def test_text_for_missing_is_missing_in_a_number(text, name) -> None:
    """The other fields are kept."""
    record = json.dumps({"id": 1, "price": 2, "urgent": True, "colour": "red"} | {name: text})
    found = one(record.encode())

    assert found.rejected == {}
    assert np.isnan(found.rows.numeric[0]).tolist() == [name == "price", name == "urgent"]
    assert found.rows.categorical[0, 0] == "red"


def test_text_for_missing_is_a_category_and_a_text_like_any_other() -> None:
    """JSON has null; Namibia and the word `None` must not vanish."""
    found = one({"id": 1, "colour": "NA", "text": "None"})

    assert (found.rows.categorical[0, 0], found.rows.text[0, 0]) == ("NA", "None")


def test_own_texts_for_missing_replace_the_default() -> None:
    """Then `NA` is a value of the wrong kind again."""
    codec = JsonObservations(SCHEMA, "id", None, missing=["-999"])
    values = [b'{"id":1,"price":"-999"}', b'{"id":2,"price":"NA"}', b'{"id":3,"price":-999}']
    found = codec.decode([None] * 3, values)

    assert {i: error.reason for i, error in found.rejected.items()} == {1: "wrong_kind"}
    assert found.rows.numeric[2, 0] == -999.0


def test_bad_value_can_be_missing_instead_of_a_dead_letter() -> None:
    """The fields that can be used are kept; a record without any is rejected for its first one."""
    codec = JsonObservations(SCHEMA, "id", None, keep=True)
    values = [
        b'{"id":1,"price":"dear","urgent":7,"colour":"red","text":[]}',
        b'{"id":2,"price":1e300,"urgent":true}',
        b'{"id":3,"price":"dear","urgent":null,"colour":{}}',
        b'{"id":[],"price":"dear","urgent":1}',
        b'{"id":5,"price":4}',
        b'{"id":6}',
    ]
    found = codec.decode([None] * 6, values)

    names = {i: [each.field for each in bad] for i, bad in found.bad.items()}
    assert names == {0: ["price", "urgent", "text"], 1: ["price"]}
    assert found.bad[1][0].value == 1e300
    reasons = {i: error.reason for i, error in found.rejected.items()}
    assert reasons == {2: "wrong_kind", 3: "no_id"}
    assert "price" in found.rejected[2].detail
    assert found.rows.dicts()[0] == {"colour": "red"}
    assert found.rows.dicts()[1] == {"urgent": 1.0}


DOTTED = Schema(
    (
        Field("a", "numeric"),
        Field("a.b", "binary"),
        Field("a.c", "categorical"),
        Field("n", "numeric"),
        Field("t", "text"),
    )
)
VALUES = st.sampled_from(
    [
        *(None, 0, 1, 2, -0.0, 1.5, 1e300, float("nan"), float("inf"), True),
        *("NA", " ? ", "", "1", "red", "-9"),
        *([1], {"b": 1}, {"b": "NA", "c": 3}, {"id": "deep", "c": None}),
    ]
)
NAMED = st.sampled_from(["a", "a.b", "a.c", "n", "t", "id", "a.id", "y"])
SETTINGS = st.tuples(
    st.sampled_from([MISSING, (), ("NA", "-9")]),
    st.sampled_from(["id", "a.id"]),
    st.sampled_from([None, "y", "a.b"]),
    st.booleans(),
)


@given(SETTINGS, st.lists(st.dictionaries(NAMED, VALUES, max_size=6), max_size=6))
def test_fast_way_is_the_slow_way_on_drawn_records(settings, records) -> None:
    """Texts for missing, bad values, names with dots, paths, under all lists."""
    missing, id_field, label, keep = settings
    schema = Schema(tuple(f for f in DOTTED.fields if f.name != label))
    codec = JsonObservations(schema, id_field, label, missing, keep=keep)
    raw = [json.dumps(record).encode() for record in records]
    found = codec.decode([b"key"] * len(raw), raw)

    order = [f.name for f in schema.fields]
    columns = [*schema.numeric, *schema.categorical, *schema.text]
    for i, value in enumerate(raw):
        reason, slow = slowly(codec, b"key", value)
        assert (found.rejected[i].reason if i in found.rejected else "ok") == reason, value
        if slow is None:
            continue
        features, id_, given_label, bad = slow
        assert found.bad.get(i, ()) == bad
        assert keep or not bad
        row = [features[order.index(name)] for name in columns]
        numbers = len(schema.numeric)
        assert cells(found.rows, i) == [*map(bits, row[:numbers]), *row[numbers:]], value
        assert found.ids[i] == id_
        assert repr(found.labels[i]) == repr(given_label)


@pytest.mark.parametrize("name", ['a"b', "a\\b", "tab\there", "é", "f0", "a b", "class", "日本"])
def test_field_of_any_name_is_found(name) -> None:
    """Quotes, backslashes and other scripts are names like any other."""
    schema = Schema((Field(name, "numeric"), Field("plain", "numeric")))
    found = one({"id": 1, name: 2.5, "plain": 1}, schema=schema)

    assert found.rejected == {}
    assert found.rows.numeric.tolist() == [[2.5, 1.0]]


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32-be"])
def test_only_utf_8_is_read(codec) -> None:
    """A mark before it is passed over."""
    text = '{"id":"é","price":2}'
    (refused,) = one(text.encode(codec)).rejected.values()

    assert refused.reason == "unparsable"
    assert "expected JSON in UTF-8, got UTF-" in refused.detail
    framed = JsonLabels().decode([None], [b'\0\0\0\0\7{"id":1,"label":"a"}']).rejected[0]
    assert "set [registry] url" in framed.detail
    assert one(text.encode("utf-8-sig")).ids == ["é"]
    assert JsonLabels().decode([None], ['{"id":1,"label":"a"}'.encode(codec)]).rejected


@given(st.integers(-(10**20), 10**20) | st.sampled_from([2**53 + d for d in range(-3, 4)]))
def test_integers_are_categories_of_their_own(value) -> None:
    """Exactly, however large."""
    schema = Schema.of(c="categorical")
    values = [json.dumps({"id": 1, "c": v}).encode() for v in (value, value + 1, str(value))]
    found = JsonObservations(schema, "id", None).decode([None] * 3, values)

    assert found.rows.categorical[:, 0].tolist() == [str(value), str(value + 1), str(value)]


@pytest.mark.parametrize(
    "value", [None, b"", b"x", b"[]", b"null", b"\xff", b'{"id":1,"other":"\xff"}', b'{"id":1}x']
)
def test_value_that_is_no_json_object_is_unparsable(value) -> None:
    """A tombstone, nothing, a list, half an object, bytes that are no text."""
    assert decoder().decode([b"k"], [value]).rejected[0].reason == "unparsable"


def test_largest_record_is_accepted_and_a_byte_more_is_oversize() -> None:
    """1 MiB, before anything is parsed."""
    value = b'{"id":1,"other":"' + b"x" * (LARGEST_RECORD - 19) + b'"}'
    assert len(value) == LARGEST_RECORD

    found = decoder().decode([None, None], [value, value + b" "])

    assert {i: e.reason for i, e in found.rejected.items()} == {1: "oversize"}


def test_nesting_is_refused_by_its_depth_and_not_by_the_depth_of_the_caller() -> None:
    """A live run and its replay stand at different depths, and must decide alike (I2)."""

    def from_below(frames: int, value: bytes):
        if frames:
            return from_below(frames - 1, value)
        return [e.reason for e in one(value).rejected.values()]

    for frames in (0, 300, 600):
        assert from_below(frames, nested(DEEPEST, "other")) == []
        assert from_below(frames, nested(DEEPEST + 1, "other")) == ["unparsable"]
        assert from_below(frames, nested(900, "other")) == ["unparsable"]
    assert one({"id": 1, "other": "[{" * 100_000}).rejected == {}


def test_weights_are_the_senders_and_1_without() -> None:
    """Finite, above 0, at most 2**53."""
    values = [b'{"id":1,"label":"x"}', b'{"id":2,"label":"x","w":2}', b'{"id":3,"label":0,"w":0.5}']
    found = JsonLabels().decode([None] * 3, values)

    assert (found.weights, found.labels, found.rejected) == ([1.0, 2.0, 0.5], ["x", "x", 0], {})


@pytest.mark.parametrize(
    "w", ["0", "-1", "NaN", "Infinity", "1e999", '"1"', "true", "null", "1e17"]
)
def test_weight_that_is_no_weight_is_rejected(w) -> None:
    """A label with an invalid weight is not learned at all."""
    found = JsonLabels().decode([None], [f'{{"id":1,"label":"x","w":{w}}}'.encode()])

    assert found.rejected[0].reason == "bad_weight"


@pytest.mark.parametrize("n", [1, FEWEST])
def test_label_heavier_than_the_bound_is_rejected_by_its_weight(n) -> None:
    """One by one and by the compiled decoder, with the key to change."""
    values = [b'{"id":1,"label":"x","w":250}', b'{"id":2,"label":"x","w":250.5}'] * n
    found = JsonLabels(heaviest=250).decode([None] * len(values), values)

    assert [*found.weights[:1], *sorted(found.rejected)] == [250.0, *range(1, 2 * n, 2)]
    assert {(e.reason, e.detail) for e in found.rejected.values()} == {
        ("bad_weight", '"w" expects a number above 0 and at most 250 ([labels] max_weight)')
    }


def test_prediction_has_the_fields_of_the_wire_and_no_other() -> None:
    """Labels keep their kind and the order they come in."""
    ranked = [(1, 0.3), (2, 0.3), (3, 0.2)]
    value = PredictionEncoder("svc", "GaussianNB").encode("é", 1, ranked, 17, ("topic", 2, 5), 99)

    assert json.loads(value) == {
        "id": "é",
        "prediction": 1,
        "probabilities": [[1, 0.3], [2, 0.3], [3, 0.2]],
        "model": {"name": "svc", "type": "GaussianNB", "learned": 17},
        "position": {"topic": "topic", "partition": 2, "offset": 5},
        "ts": 99,
    }


def test_prediction_before_any_label_is_null() -> None:
    """Nothing is known, and nothing is made up."""
    value = PredictionEncoder("svc", "m").encode("a", None, [], 0, ("t", 0, 0), 1)

    assert (json.loads(value)["prediction"], json.loads(value)["probabilities"]) == (None, [])
