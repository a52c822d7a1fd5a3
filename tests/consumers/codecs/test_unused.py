"""Fields of a record that are not used: every one is named, and no other one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.base.errors import RecordError
from consumers.codecs.arrow.messages import ArrowMessages, message_of
from consumers.codecs.json import JsonObservations
from consumers.codecs.unused import MOST_NOTES, BadValue, Note, UnknownFields, bounded
from stream.data.schema import Field, Schema
from tests.consumers.codecs.test_codecs import DOTTED, NAMED, SETTINGS, VALUES

LEAVES = VALUES | st.dictionaries(
    st.sampled_from(["b", "c", "id", "e", "b.c"]),
    VALUES | st.dictionaries(NAMED, VALUES, max_size=2),
)
KEYS = st.sampled_from(["a", "a.b", "a.c", "n", "t", "id", "a.id", "y", "N", "nn", "", "x.y"])
DOORS = ("json", "documents", "arrow")

Path = tuple[str, ...]


def leaves(value: Any, above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value of a document that is no object, with its path."""
    for name, each in value.items():
        if isinstance(each, dict):
            yield from leaves(each, (*above, name))
        else:
            yield (*above, name), each


def broken(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """The document with a list, which no field takes, in place of a value."""
    out = deepcopy(document)
    inside = out
    for name in path[:-1]:
        inside = inside[name]
    inside[path[-1]] = []
    return out


class Door:
    """Decodes a document as its bytes in one format, and names what is not used of it."""

    def __init__(self, door: str, *names: Any) -> None:
        how = {} if door == "json" else {"documents": json.loads}
        if door == "arrow":
            how = {"documents": lambda document: document}
        self._codec, self._json = JsonObservations(*names, keep=True, **how), names
        self._messages = ArrowMessages(self._codec) if door == "arrow" else None

    def decoded(self, document: dict[str, Any]) -> Any:
        """All that is made of a document: its values, id, label and bad values; or why it is
        rejected."""
        if self._messages is None:
            found = self._codec.decode([b"key"], [json.dumps(document).encode()])
        else:
            try:
                (found,) = self._messages.read(message_of([document]), 1).decoded
            except RecordError as error:
                return error.reason
            if not len(found.ids):
                return "no row"
        if found.rejected:
            return found.rejected[0].reason
        return found.rows.dicts()[0], found.ids[0], repr(found.labels[0]), found.bad

    def notes(self, document: dict[str, Any], bad: Sequence[BadValue]) -> list[Note]:
        """What is not used of it."""
        if self._messages is None:
            return self._codec.notes(json.dumps(document).encode(), bad)
        row = self._messages.read(message_of([document]), 1).as_json(0)
        return JsonObservations(*self._json, keep=True).notes(row, bad)


def as_written(kind: str, value: Any) -> Any:
    """The value of a field for a value of JSON, by the rules of docs/records.md."""
    if kind in ("numeric", "binary"):
        return float(value)
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return str(value)


@pytest.mark.parametrize("door", DOORS)
@given(SETTINGS, st.dictionaries(KEYS, LEAVES, max_size=6))
def test_value_is_used_as_written_or_it_is_named(door, settings, document) -> None:
    """A value is used if another one in its place changes what the record is."""
    missing, id_field, label, _ = settings
    schema = Schema(tuple(f for f in DOTTED.fields if f.name != label))
    kinds = {f.name: f.kind for f in schema.fields}
    codec = Door(door, schema, id_field, label, missing)
    before = codec.decoded(document)
    if isinstance(before, str):
        return
    notes = codec.notes(document, before[3].get(0, ()))

    unused = set()
    named = {note.field for note in notes}
    bad = {note.field for note in notes if note.what == "bad"}
    for path, value in leaves(document):
        name = ".".join(path)
        text = isinstance(value, str) and kinds.get(name) in ("numeric", "binary")
        absent = value is None or value != value or (text and value.strip() in missing)
        if codec.decoded(broken(document, path))[:3] == before[:3]:
            unused |= {".".join(path[:n]) for n in range(1, len(path) + 1)}
            said = any(".".join(path[:n]) in named for n in range(1, len(path) + 1))
            assert said or absent
        elif name in kinds and name not in bad:
            written = None if absent else as_written(kinds[name], value)
            assert before[0].get(name) == written
    empty = {name for name, value in document.items() if value == {}}
    assert named - bad <= unused | empty | {n for n in named if n.partition(".")[0] in document}


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
