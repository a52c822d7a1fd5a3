"""Over HTTP: each value of an observation is used as written, or the answer names it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from consumers.base.fields import MISSING
from tests.consumers.codecs.doors import Document, empty_objects, leaves, written
from tests.consumers.codecs.test_codecs import DOTTED
from tests.consumers.codecs.test_unused import KEYS, LEAVES
from tests.waiting import PATIENCE, until
from tests.web.living import living

KINDS = {field.name: field.kind for field in DOTTED.fields}
FEATURES = "\n".join(f'"{name}" = "{kind}"' for name, kind in KINDS.items())
CUT = st.sampled_from(["red \ud83d", "\ude00", "red"])
ABSENT = object()


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> Iterator[httpx.Client]:
    """A client of a service in which each value of each field changes the prediction."""
    path = tmp_path_factory.mktemp("named")
    more = '[values]\non_bad_value = "missing"\n[serve]\nmax_age = "10ms"\ntimeout = "60s"'
    with living(path, model="MixedNB", features=FEATURES, more=more) as service:
        service.teach(examples())
        until(lambda: (c := service.status_feed.copies.newest) is not None and c.learned == 60)
        with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
            yield client


def examples() -> Iterator[tuple[Document, str]]:
    """Observations whose fields depend on the label."""
    for i in range(60):
        c = i % 2
        x = {"a": i % 7 + 3 * c, "n": i % 11 - 5 * c, "a.b": i % 3 > c}
        yield x | {"a.c": ["red", "1", "true"][i % (3 - c)], "t": ["red", "red NA NA"][c]}, "xy"[c]


def found(document: Document, name: str) -> tuple[Any, tuple[str, ...]]:
    """The value of a field, and its path: the field with the whole name comes first."""
    if name in document:
        return document[name], (name,)
    inner: Any = document
    for part in name.split("."):
        if not isinstance(inner, dict) or part not in inner:
            return None, ()
        inner = inner[part]
    return inner, tuple(name.split("."))


def used(kind: str, value: Any) -> Any:
    """What a field of this kind makes of a value; ABSENT for no value, None if it does not fit."""
    if value is None or value != value:
        return ABSENT
    if kind == "text":
        return (
            value.replace("\ud83d", "\ufffd").replace("\ude00", "\ufffd") if _text(value) else None
        )
    if kind == "categorical":
        if _text(value):
            return used("text", value)
        fits = isinstance(value, int | float) and abs(value) <= 1e100
        return written(kind, value) if fits else None
    if _text(value):
        return ABSENT if value.strip() in MISSING else None
    if kind == "binary":
        return bool(value) if isinstance(value, int | float) and value in (0, 1) else None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and abs(value) <= 1e100 else None


def _text(value: Any) -> bool:
    return isinstance(value, str)


def expected(document: Document) -> tuple[Document, set[str], set[tuple[str, ...]]]:
    """The values that are used, by field; the fields whose value does not fit; and the paths that
    are read."""
    values, bad, read = {}, set(), {found(document, "id")[1]}
    for name, kind in KINDS.items():
        value, path = found(document, name)
        read.add(path)
        made = used(kind, value)
        if made is None:
            bad.add(name)
        elif made is not ABSENT:
            values[name] = made
    return values, bad, read


def asked(client: httpx.Client, documents: list[Document], **query: str) -> list[Any]:
    """The answers for some observations, one a line."""
    lines = "".join(json.dumps(each) + "\n" for each in documents)
    headers = {"content-type": "application/x-ndjson", "connection": "close"}
    answer = client.post("/v1/predict", content=lines, headers=headers, params=query)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


@given(document=st.dictionaries(KEYS, LEAVES | CUT, max_size=6))
@example(document={"id": False})
def test_answer_is_that_of_the_values_that_it_does_not_name(client, document) -> None:
    """The same record with nothing but these, as plain as can be, has the same prediction. With
    `strict` a record with a note is rejected, and only such a one."""
    values, bad, read = expected(document)
    [answer, plain] = asked(client, [document, values])
    [strict] = asked(client, [document], strict="true")
    if "reason" in answer:  # no id, or nothing that fits
        id_ = found(document, "id")[0]
        known = isinstance(id_, str | int) and not isinstance(id_, bool) and id_ != ""
        cut = _text(id_) and not id_.isascii()
        assert answer["reason"] == strict["reason"]
        assert (bad and not values) or cut or not known
        return

    notes = {(note["what"], note["field"]) for note in answer.get("notes", [])}
    assert answer["probabilities"] == plain["probabilities"]
    assert "notes" not in plain
    assert {field for what, field in notes if what == "bad"} == bad
    unknown = {field for what, field in notes if what == "unknown"}
    unread = {path: value for path, value in leaves(document) if path not in read}
    above = {".".join(path[:n]) for path in unread for n in range(1, len(path) + 1)}
    assert unknown <= above | {".".join(path) for path in empty_objects(document)}
    for path, value in unread.items():
        said = any(".".join(path[:n]) in unknown | bad for n in range(1, len(path) + 1))
        assert said or value is None
    assert ("reason" in strict) == bool(notes)
    if notes:
        assert strict["reason"] == "not_used"
        assert all(repr(field) in strict["detail"] for _, field in notes if field)
    else:
        assert strict["probabilities"] == answer["probabilities"]


def test_each_value_changes_the_prediction(client) -> None:
    """Else a value that is not used could be one that does not matter."""
    alone: list[Document] = [{}, {"n": 1.0}, {"n": 2.0}, {"a": 1.0}, {"a.b": True}, {"a.b": False}]
    alone += [{"a.c": "red"}, {"a.c": "1"}, {"t": "red"}, {"t": "NA"}]
    found = [answer.get("probabilities", answer) for answer in asked(client, alone)]

    assert len(set(map(json.dumps, found))) == len(alone)
