"""Arrow messages as columns are the rows decoded one by one, and hostile bytes are dead letters."""

from __future__ import annotations

import json
import struct
from random import Random
from typing import Any

import numpy as np
import pytest

from consumers.base.errors import RecordError
from consumers.base.fields import MISSING
from consumers.codecs.arrow import sizes
from consumers.codecs.arrow.messages import ArrowMessages, documents, message_of
from consumers.codecs.arrow.sizes import MOST_UNPACKED, size_of
from consumers.codecs.json import LARGEST_RECORD, DecodedObservations, JsonObservations
from consumers.codecs.rows import joined
from stream import Schema
from tests.consumers.arrow_tables import KINDS, table, written
from tests.seed import seeds

pa = pytest.importorskip("pyarrow")

MOST = 1_000
PLAIN = Schema.of(a="numeric", c="categorical", t="text")


def reader(schema: Schema = PLAIN, label: str | None = "y", **how: Any) -> ArrowMessages:
    """A reader of messages."""
    return ArrowMessages(JsonObservations(schema, "id", label, documents=lambda x: x, **how))


def bits(x: DecodedObservations) -> list[Any]:
    """All that was decoded, for comparison."""
    errors = {k: (e.reason, e.detail) for k, e in x.rejected.items()}
    good = [k for k in range(len(x.ids)) if k not in errors]
    rows = x.rows.take(np.array(good, dtype=np.int64))
    texts = rows.categorical.tolist(), rows.text.tolist()
    ids, labels = ([column[k] for k in good] for column in (x.ids, x.labels))
    return [rows.numeric.tobytes(), texts, ids, list(map(repr, labels)), errors, x.bad]


def rejected(value: bytes | None, most: int = MOST, schema: Schema = PLAIN) -> tuple[str, str]:
    """Why no row of a message can be used."""
    with pytest.raises(RecordError) as error:
        reader(schema).read(value, most)
    return error.value.reason, error.value.detail


@seeds(0.5)
def test_columns_are_the_rows_decoded_one_by_one(seed: int) -> None:
    """However the table is cut, packed and typed; and the rows as JSON records say the same."""
    random, n = Random(seed), Random(seed).choice([0, 1, 2, 30])
    names = random.sample(["f0", "f1", "in.x", "in.y", "f4"], random.randint(1, 4))
    kinds = {name: random.choice(KINDS) for name in names}
    how = {"keep": random.random() < 0.5, "missing": random.choice([MISSING, (), ("x",)])}
    made, schema = table(random, n, kinds), Schema.of(**kinds)
    value = written(
        made,
        codec=random.choice([None, "zstd", "lz4"]),
        file=random.random() < 0.3,
        rows=random.choice([None, 1, 7]),
    )

    messages = reader(schema, **how)
    got = messages.read(value, MOST)
    whole = documents(value, MOST)
    slow = JsonObservations(schema, "id", "y", documents=lambda x: x, **how)
    twin = slow.decode([None] * n, whole)
    assert got.count == n
    assert bits(joined(got.decoded, schema)) == bits(twin)
    if n and random.random() < 0.5:
        at = random.randrange(n)
        alone = reader(schema, **how).read(got.encode(at), 1)
        assert bits(joined(alone.decoded, schema)) == bits(slow.decode([None], [whole[at]]))
    if "binary" not in str(made.schema):  # JSON has no bytes
        text = JsonObservations(schema, "id", "y", **how)
        values = [json.dumps(x).encode() for x in whole]
        assert bits(text.decode([None] * n, values))[:-2] == bits(twin)[:-2]


@pytest.mark.parametrize("kind", [pa.list_(pa.null()), pa.list_(pa.null(), 1), pa.null()], ids=str)
def test_row_whose_nested_column_has_only_nulls_is_written_alone(kind: Any) -> None:
    """pyarrow casts nulls within a slice to nulls of another length, which cannot be written."""
    cell = None if kind == pa.null() else [None]
    inside = pa.array([{"y": cell}] * 3, pa.struct([("y", kind)]))
    table = pa.table({"id": pa.array(["1", "2", "3"]), "in": inside})
    got = reader(Schema.of(**{"in.y": "numeric"})).read(written(table), MOST)

    assert [documents(got.encode(at), 1) for at in range(3)] == [
        [{"id": str(at), "in": {"y": cell}}] for at in (1, 2, 3)
    ]


def test_most_tables_take_the_columns(monkeypatch) -> None:
    """Or the test above would compare the slow way with itself."""
    slow: list[int] = []
    monkeypatch.setattr(ArrowMessages, "slow", lambda self, batch: slow.append(len(batch)))
    words = pa.array(["a", "b"] * 50)
    for column in (
        words,
        words.dictionary_encode(),
        words.cast(pa.string_view()),
        words.cast("large_string"),
    ):
        columns = {"id": words, "a": pa.array([1.0, None] * 50), "c": column, "t": column}
        for ids in (words, pa.array(range(100)), pa.array(range(100), pa.uint64())):
            table = pa.table({**columns, "id": ids, "other": [[1]] * 100})
            reader().read(written(table), MOST)
    assert not slow


def test_cut_or_changed_bytes_are_one_dead_letter() -> None:
    """Or still a message; never another error, and never rows beyond the limit."""
    random = Random(5)
    texts = pa.array([None, "é", "x" * 30] * 9)
    columns = {"id": [str(i) for i in range(27)], "a": [0.5] * 27, "c": texts.dictionary_encode()}
    whole = [
        written(pa.table({**columns, "t": texts}), codec=codec, rows=9) for codec in (None, "zstd")
    ]
    for _ in range(1_500):
        value = bytearray(random.choice(whole))
        for _ in range(random.choice([0, 1, 1, 4])):
            value[random.randrange(len(value))] = random.choice([0, 1, 255, random.randrange(256)])
        if random.random() < 0.3:
            del value[random.randrange(len(value)) :]
        reason = ""
        try:
            assert reader().read(bytes(value), 27).count <= 27
        except RecordError as error:
            reason = error.reason
        assert reason in ("", "unparsable", "oversize", "no_id")


def test_time_that_is_no_date_is_bad_in_its_row_only() -> None:
    """Such as `infinity` in PostgreSQL, which is the last microsecond of 64 bits."""
    times = pa.array([0, 2**63 - 1, 10**15]).view(pa.timestamp("us"))
    value = written(pa.table({"id": ["1", "2", "3"], "c": times}))

    [decoded] = reader().read(value, MOST).decoded

    assert list(decoded.rejected) == [1]
    assert decoded.rejected[1].reason == "wrong_kind"


def test_message_that_cannot_be_used_says_why() -> None:
    """Each in one line."""
    one = {"id": ["1"], "a": [1.0]}
    two = pa.table([pa.array(["1"]), pa.array([1.0]), pa.array([2.0])], names=["id", "a", "a"])
    union = pa.UnionArray.from_sparse(pa.array([0], "int8"), [pa.array([1.0])])
    stream = written(pa.table(one))

    assert rejected(None)[0] == rejected(b"")[0] == rejected(b'{"id": "1"}')[0] == "unparsable"
    assert rejected(b"\xff\xff\xff\xff") == (
        "unparsable",
        "not an Arrow IPC stream: a header is damaged",
    )
    assert rejected(stream[:-100])[0] == "unparsable"
    assert rejected(written(two)) == ("unparsable", "two columns are named 'a'")
    assert "has the type sparse_union" in rejected(written(pa.table({**one, "c": union})))[1]
    assert rejected(written(pa.table({"a": [1.0]})))[0] == "no_id"
    assert rejected(written(pa.table({"id": ["1"] * 9})), 8)[1].startswith("9 rows, at most 8")
    assert rejected(stream + bytes(LARGEST_RECORD))[0] == "oversize"
    assert reader().read(written(pa.table({**one, "other": union})), 1).count == 1


@pytest.mark.parametrize("kind", ["packed", "dictionary", "views", "nulls", "map"])
def test_little_that_unpacks_to_much_is_refused(kind: str) -> None:
    """Before it is unpacked."""
    n, long = 1_000, "x" * 100_000
    columns: dict[str, Any] = {"id": [str(i) for i in range(n)]}
    if kind == "packed":
        columns["t"] = ["y" * 40_000] * n
    elif kind == "dictionary":
        columns["t"] = pa.DictionaryArray.from_arrays(pa.array([0] * n, "int8"), [long])
    elif kind == "views":
        columns["t"] = shared_view(long, n)
    elif kind == "nulls":
        columns["a"] = pa.FixedSizeListArray.from_arrays(pa.nulls(n * 100_000), 100_000)
    else:
        columns["c"] = pa.MapArray.from_arrays(
            [0, 400, *[400] * (n - 1)], ["k"] * 400, [long] * 400
        )
    value = written(pa.table(columns), codec="zstd")
    assert len(value) < LARGEST_RECORD
    reason, detail = rejected(value)
    assert (reason, f"{MOST_UNPACKED:,}" in detail) == ("oversize", True)


@pytest.mark.parametrize(
    ("of", "text"), [(sizes._FIELDS, sizes._NAME), (sizes._OF_SCHEMA, 1)], ids=["fields", "pairs"]
)
def test_header_that_names_one_text_many_times_is_refused(of: int, text: int) -> None:
    """pyarrow would copy it each time: a megabyte could describe 60 GB."""
    n, long = 1_000, "x" * 100_000
    table = pa.table({f"c{i}": ["1"] for i in range(n)} | {long: ["1"]})
    pairs = {f"k{i}": "v" for i in range(n)} | {"k": long}
    value = bytearray(written(table.replace_schema_metadata(pairs)))
    (length,) = struct.unpack_from("<i", value, 4)
    header = memoryview(value)[8 : 8 + length]
    schema = sizes._inner(sizes._table(header, 0), sizes._HEADER)
    tables = list(sizes._tables(schema, of))
    longest = max(tables, key=lambda each: sizes._text(each, text))
    vector = sizes._field(schema, of)
    vector += struct.unpack_from("<I", header, vector)[0]
    for i in range(len(tables)):
        place = vector + 4 + 4 * i
        struct.pack_into("<I", header, place, longest.at - place)

    reason, detail = rejected(bytes(value))

    assert (reason, f"{MOST_UNPACKED:,}" in detail) == ("oversize", True)


def shared_view(text: str, n: int) -> Any:
    """A column of views of the same bytes."""
    view = struct.pack("<i4sii", len(text), text[:4].encode(), 0, 0)
    buffers = [None, pa.py_buffer(view * n), pa.py_buffer(text.encode())]
    return pa.Array.from_buffers(pa.string_view(), n, buffers)


def test_size_is_that_of_pyarrow() -> None:
    """Rows of all batches, and the bytes of all buffers unpacked."""
    random = Random(3)
    for _ in range(30):
        made = table(random, n := random.randint(0, 50), {"f": random.choice(KINDS)})
        cut = random.choice([None, 7])
        sizes = {
            size_of(written(made, codec=codec, file=file, rows=cut))
            for codec in (None, "lz4", "zstd")
            for file in (False, True)
        }
        assert {size.rows for size in sizes} == {n}
        assert len({size.unpacked for size in sizes}) == 1


def test_messages_of_documents() -> None:
    """What JSON says survives; what Arrow has no common type for is refused."""
    rows = [{"id": 2**62, "a": 1, "c": {"d": ["x"]}}, {"id": 3, "a": 2.5, "t": None}]
    assert documents(message_of(rows), 9) == [
        {"id": 2**62, "a": 1.0, "c": {"d": ["x"]}},
        {"id": 3, "a": 2.5},
    ]
    with pytest.raises(ValueError, match="has values in 'a' that have no common type in Arrow"):
        message_of([{"a": 1}, {"a": "x"}])
    with pytest.raises(ValueError, match="'a'"):
        message_of([{"a": 2**70}])
