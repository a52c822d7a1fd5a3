"""Fields of a record that are not used: every one is named, and no other one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.codecs.json import JsonObservations
from consumers.codecs.unused import MOST_NOTES, Note, UnknownFields, bounded
from stream.data.schema import Field, Schema
from tests.consumers.codecs.doors import DOORS, broken, empty_objects, leaves
from tests.consumers.codecs.test_codecs import DOTTED, NAMED, SETTINGS, VALUES

WRITTEN = st.sampled_from(
    [
        *(2**62 + 1, -7, 0.1, 1e100, -2.5e-300, False),
        *("1.50", "007", "12 %", "$3", "1,234.5", "true", " 7 ", "é ", "+5", "x" * 300),
    ]
)
LEAVES = (
    VALUES
    | WRITTEN
    | st.dictionaries(
        st.sampled_from(["b", "c", "id", "e", "b.c"]),
        VALUES | WRITTEN | st.dictionaries(NAMED, VALUES, max_size=2),
    )
)
KEYS = st.sampled_from(["a", "a.b", "a.c", "n", "t", "id", "a.id", "y", "N", "nn", "", "x.y"])


@pytest.mark.parametrize("name", DOORS)
@given(SETTINGS, st.dictionaries(KEYS, LEAVES, max_size=6))
def test_value_is_used_as_written_or_it_is_named(name, settings, document) -> None:
    """A value is used if another one in its place changes what the record is."""
    missing, id_field, label, _ = settings
    schema = Schema(tuple(f for f in DOTTED.fields if f.name != label))
    kinds = {f.name: f.kind for f in schema.fields}
    door = DOORS[name](schema, id_field, label, missing)
    document = door.possible(document)
    before = door.decoded(document)
    if isinstance(before, str):
        return
    notes = door.notes(document, before[3].get(0, ()))

    unused = set()
    named = {note.field for note in notes}
    bad = {note.field for note in notes if note.what == "bad"}
    for path, value in leaves(document):
        name = ".".join(path)
        absent = door.is_absent(name, kinds.get(name), value)
        if door.decoded(broken(document, path, door.broken))[:3] == before[:3]:
            unused |= {".".join(path[:n]) for n in range(1, len(path) + 1)}
            said = any(".".join(path[:n]) in named for n in range(1, len(path) + 1))
            assert said or absent
        elif name in kinds and name not in bad:
            written = [None if absent else door.as_written(kinds[name], value)]
            if absent:  # an empty cell of Arrow leaves its place to a nested value of that name
                others = [v for p, v in leaves(document) if p != path and ".".join(p) == name]
                written += [door.as_written(kinds[name], v) for v in others]
            assert before[0].get(name) in written
    assert named - bad <= unused | {".".join(path) for path in empty_objects(document)}


def test_unknown_field_is_named_with_the_one_that_it_may_mean() -> None:
    """A letter more, less or another one, case and signs; not a field that has a value."""
    unknown = UnknownFields(["amount", "card_country", "shop.city", "x1"], ["id"])
    document = {
        "id": "7",
        "amuont": 1,
        "CardCountry": "de",
        "shop": {"citty": "Bonn", "zip": 5},
        "x2": 1,
        "amounts": 2,
    }
    found = {note.field: note.detail.partition("; ")[2] for note in unknown.notes(document)}

    assert found == {
        "amuont": "did you mean 'amount'?",
        "CardCountry": "did you mean 'card_country'?",
        "shop.citty": "did you mean 'shop.city'?",
        "shop.zip": "",
        "x2": "",
        "amounts": "did you mean 'amount'?",
    }
    assert unknown.notes({**document, "amount": 3})[0].detail == "no field of the model"
    assert str(unknown.notes({"": 3})[0]) == "the name is empty: no field of the model"


def test_notes_of_a_record_are_bounded() -> None:
    """Also if it has a hundred thousand fields, whose names are long."""
    unknown = UnknownFields([f"field{i}" for i in range(2_000)])
    notes = bounded(unknown.notes({f"{'n' * 300}{i}": i for i in range(100_000)}))

    assert len(notes) == MOST_NOTES
    assert max(len(note.field) for note in notes) == 100
    assert notes[-1] == Note("", "unknown", "99,981 more fields were not used")
    assert bounded([Note("a", "bad", "x" * 10**6)])[0].detail == "x" * 200


def test_bad_value_is_named_with_its_reason() -> None:
    """Where it is taken as missing."""
    schema = Schema((Field("a", "numeric"), Field("b", "binary")))
    codec = JsonObservations(schema, "id", None, keep=True)
    raw = b'{"id": 1, "a": 1.0, "b": 7}'
    found = codec.decode([None], [raw])

    assert [bad.field for bad in found.bad[0]] == ["b"]
    assert list(map(str, codec.notes(raw, found.bad[0]))) == [
        "field 'b' expects true, false, 0 or 1, got 7"
    ]
