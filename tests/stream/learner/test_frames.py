"""Tables are learned and predicted as their records are, and answers have the form of the question.

The obvious twin is the loop over records: `learn_one` and `predict_one` of each row as a dict.
"""

from __future__ import annotations

import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from decimal import Decimal
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import naive_bayes
from scipy import sparse

from stream import (
    CategoricalNB,
    GaussianNB,
    InvalidRecordError,
    Learner,
    MixedNB,
    RiverClassifier,
    Rows,
    Schema,
    SchemaError,
)
from stream.checks.streams import records
from stream.data.frame_rows import rows_of
from stream.data.frames import Table, mini_batch
from stream.preprocessing import Discretized, Discretizer

ROOT = Path(__file__).parents[3]


def columns(xs: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The records by column, None where a record has no value, and no NaN beside truth values."""
    names = dict.fromkeys(name for x in xs for name in x)
    out = {name: [x.get(name) for x in xs] for name in names}
    truths = [name for name, values in out.items() if any(type(v) is bool for v in values)]
    return out | {name: [v if type(v) is bool else None for v in out[name]] for name in truths}


def arrow(xs: list[dict[str, Any]]) -> pa.Table:
    """An Arrow table with its columns in two chunks."""
    half = len(xs) // 2
    whole = pa.table(columns(xs))
    return pa.concat_tables([whole[:half], whole[half:]])


class Stream:
    """Of an unknown library: nothing but the stream of Arrow's PyCapsule interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


FORMS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "dicts": list,
    "pandas": pd.DataFrame,
    "pandas-nullable": lambda xs: pd.DataFrame(xs).convert_dtypes(),
    "pandas-arrow": lambda xs: arrow(xs).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda xs: pl.DataFrame(columns(xs), strict=False),
    "arrow": arrow,
    "arrow-batch": lambda xs: pa.RecordBatch.from_pydict(columns(xs)),
    "arrow-stream": lambda xs: Stream(arrow(xs)),
}


def listed(answer: Any) -> list[Any]:
    """A column of labels as a list."""
    for method in ("to_list", "tolist", "to_pylist"):
        if hasattr(answer, method):
            return getattr(answer, method)()
    return answer


def shares(answer: Any) -> list[list[float]]:
    """The probabilities of each row, in the order of the classes."""
    if isinstance(answer, list):
        return [list(row.values()) for row in answer]
    if isinstance(answer, pa.Table | pl.DataFrame):
        return [list(row) for row in pl.DataFrame(answer).rows()]
    return np.asarray(answer).tolist()


def check_form(learner: Learner, form: str) -> None:
    """Blocks of a table are its records one by one."""
    data, asked = records(learner, 60, seed=6), records(learner, 30, seed=7).xs
    many, single = learner.clone(), learner
    for x, y, w in zip(data.xs, data.ys, data.ws, strict=True):
        single.learn_one(x, y, w)

    many.learn_many(FORMS[form](data.xs), np.array(data.ys), pd.Series(data.ws))

    assert many.fingerprint() == single.fingerprint()
    assert listed(many.predict_many(FORMS[form](asked))) == [single.predict_one(x) for x in asked]
    assert shares(many.predict_proba_many(FORMS[form](asked))) == [
        list(single.predict_proba_one(x).values()) for x in asked
    ]


@pytest.mark.parametrize("form", ["pandas", "pandas-nullable", "polars", "arrow"])
def test_a_table_is_learned_and_predicted_as_its_records(learner, form) -> None:
    """The same bits of state and of predictions; numbers, truths, texts, gaps, weights."""
    check_form(learner, form)


@pytest.mark.parametrize("form", ["dicts", "pandas-arrow", "arrow-batch", "arrow-stream"])
def test_another_form_of_a_table_is_learned_as_its_records(form) -> None:
    """The same for forms that differ only in how their columns are found."""
    check_form(MixedNB(), form)


@pytest.mark.parametrize("form", ["pandas", "polars"])
def test_a_learner_with_bins_learns_a_table_as_its_records(form) -> None:
    """In Discretized too, whose bins are learned from the same numbers."""
    check_form(Discretized(Discretizer(), CategoricalNB()), form)


@pytest.mark.parametrize("form", ["pandas", "polars", "arrow"])
def test_a_model_of_river_learns_a_table_as_its_records(form) -> None:
    """In RiverClassifier too, which learns row by row."""
    many, single = (RiverClassifier(naive_bayes.GaussianNB()) for _ in range(2))
    data = records(GaussianNB(), 40)
    for x, y in zip(data.xs, data.ys, strict=True):
        single.learn_one({k: v for k, v in x.items() if v is not None and v == v}, y)

    many.learn_many(FORMS[form](data.xs), data.ys)

    assert listed(many.predict_many(FORMS[form](data.xs))) == list(map(single.predict_one, data.xs))


cells = st.one_of(
    st.none(),
    st.sampled_from([nan, -0.0, 2**53 + 1, -(2**70), 1e100, 5e-324, "", "nan", "1", True]),
    st.integers(-3, 3),
    st.floats(-10, 10),
)
tables = st.integers(0, 6).flatmap(
    lambda n: st.dictionaries(
        st.sampled_from(["a", "b", "9", "10"]), st.lists(cells, min_size=n, max_size=n)
    )
)


def in_order(rows: Rows) -> str:
    """The values of rows by name, to the sign of zero."""
    return repr([dict(sorted(x.items())) for x in rows.dicts()])


@given(tables, st.sampled_from(["numeric", "categorical"]), st.sampled_from(["numeric", "text"]))
def test_cells_of_a_column_may_have_several_kinds(table, numbers, truths) -> None:
    """A column of Python objects is read cell by cell, in a frame and in many dicts."""
    reading = {"numbers": numbers, "truths": "categorical" if truths == "text" else truths}
    frame = pd.DataFrame({name: pd.Series(v, dtype=object) for name, v in table.items()})
    xs = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    many = [{k: v for k, v in x.items() if v is not None} for x in xs] * 16

    assert in_order(rows_of(mini_batch(frame), **reading)) == in_order(
        Rows.from_dicts(xs, **reading)
    )
    if isinstance(columns := mini_batch(many), Table):
        assert in_order(rows_of(columns, **reading)) == in_order(Rows.from_dicts(many, **reading))


@pytest.mark.parametrize(
    ("xs", "by_column"),
    [
        ([{"a": 1.0, "b": "x"}] * 16, True),
        ([{"a": 1.0}, {"b": 2}] * 8, True),
        ([{"a": 1.0}] * 15, False),
        ([{1: 1.0}] * 16, False),
        ([{f"word {i}": 1} for i in range(16)], False),
        ([{}] * 16, False),
        ([{"a": 1.0}] * 15 + [None], False),
    ],
    ids=["alike", "gaps", "few", "names", "sparse", "empty", "wrong"],
)
def test_many_dicts_with_the_same_names_are_read_by_column(xs, by_column) -> None:
    """Others one by one; a table would have far more cells than there are values."""
    assert isinstance(mini_batch(xs), Table) == by_column


def test_an_error_in_many_dicts_names_the_record() -> None:
    """The first wrong one of a field."""
    xs = [{"a": 1.0}] * 20 + [{"a": 10**400}, {"a": "x"}]

    with pytest.raises(InvalidRecordError, match="out_of_range: row 20: field 'a': beyond"):
        GaussianNB().learn_many(xs, ["y"] * 22)


TYPES = {
    "float32": np.array([1.5, nan, -0.0], dtype=np.float32),
    "int8": np.array([1, -2, 3], dtype=np.int8),
    "uint64": np.array([1, 2**63, 3], dtype=np.uint64),
    "bool": np.array([True, False, True]),
    "swapped": np.array([1.5, nan, -0.0], dtype=">f8"),
    "text": np.array(["x", "y", "x"]),
    "category": pd.Categorical(["x", None, "x"]),
    "category of numbers": pd.Categorical([3, None, 4]),
    "Int64": pd.array([1, None, 2**53 + 1], dtype="Int64"),
    "boolean": pd.array([True, None, False], dtype="boolean"),
    "string": pd.array(["x", None, "y"], dtype="string"),
    "sparse": pd.arrays.SparseArray([0, 0, 1]),
    "missing": np.array([nan, nan, nan]),
    "nothing": np.array([None, None, pd.NA], dtype=object),
}


@pytest.mark.parametrize("make", [MixedNB, CategoricalNB])
@pytest.mark.parametrize("name", TYPES)
def test_a_type_of_column_is_read_as_its_values(name, make) -> None:
    """Narrow and wide numbers, categories, types with their own missing value."""
    column = pd.Series(TYPES[name])
    xs = [{"c": None if value is pd.NA else value} for value in column.tolist()]
    many, single = make(), make()
    for x, y in zip(xs, "pqp", strict=True):
        single.learn_one(x, y)

    many.learn_many(pd.DataFrame({"c": column}), "pqp")

    assert many.fingerprint() == single.fingerprint()


def test_a_column_without_values_leaves_no_trace(learner) -> None:
    """Its kind is still open: a later text or number in it is learned as if it were the first."""
    without = learner.clone()
    without.learn_many(pd.DataFrame({"a": [1.0, 2.0, 3.0]}), "pqp")

    learner.learn_many(pd.DataFrame({"gap": [nan] * 3, "a": [1.0, 2.0, 3.0]}), "pqp")

    assert learner.fingerprint() == without.fingerprint()
    later = {"gap": 1.0 if learner.strings == "refused" else "text"}
    for each in (learner, without):
        each.learn_one(later, "q")
    assert learner.fingerprint() == without.fingerprint()


def test_wide_numbers_of_polars_and_categories_of_arrow_are_read() -> None:
    """What has no type in numpy goes by its values."""
    wide = pl.DataFrame({"n": pl.Series([1, 2, 3], dtype=pl.Int128)})
    coded = pa.table({"c": pa.array(["x", None, "y"]).dictionary_encode(), "gap": pa.nulls(3)})

    assert MixedNB().rows(wide).dicts() == [{"n": 1.0}, {"n": 2.0}, {"n": 3.0}]
    assert MixedNB().rows(coded).dicts() == [{"c": "x"}, {}, {"c": "y"}]


def test_columns_have_declared_kinds() -> None:
    """Declared fields by the schema, the others by their values, as in dicts."""
    schema = Schema.of(zip="categorical", age="numeric", new="binary", note="text", never="numeric")
    xs = [
        {"zip": 8001, "age": 41, "new": 1, "note": "sunny flat", "other": 2.5},
        {"zip": 4051, "age": None, "new": 0, "note": None, "other": None},
    ]
    dicts, frame = MixedNB().declare(schema), MixedNB().declare(schema)
    dicts.learn_many(xs, ["a", "b"])

    frame.learn_many(pl.DataFrame(xs), ["a", "b"])

    assert frame.fingerprint() == dicts.fingerprint()
    with pytest.raises(InvalidRecordError, match="row 1: field 'age' expects a number, got str"):
        frame.learn_many(pd.DataFrame({"age": [1, "old"]}), ["a", "b"])


def test_tuples_in_a_frame_are_categories_where_those_in_dicts_are() -> None:
    """A learner of categories takes them."""
    xs = [{"c": ("a", 1)}, {"c": ("b", 2)}]
    dicts, frame = CategoricalNB(), CategoricalNB()
    dicts.learn_many(xs, "pq")

    frame.learn_many(pd.DataFrame({"c": [x["c"] for x in xs]}), "pq")

    assert frame.fingerprint() == dicts.fingerprint()


# The form of an answer.

MEASURED = pd.DataFrame({"a": [1.0, 2.0, 8.0, 9.0]}, index=["w", "x", "y", "z"])


def fitted(ys: list[Any]) -> GaussianNB:
    """A learner of `MEASURED`."""
    model = GaussianNB()
    model.learn_many(MEASURED, ys)
    return model


@pytest.mark.parametrize("ys", [[0, 0, 1, 1], ["no", "no", "yes", "yes"], [False] * 2 + [True] * 2])
def test_pandas_gets_pandas_with_its_index(ys) -> None:
    """A Series of labels, and a DataFrame with a column for each class, under the label itself."""
    model = fitted(ys)

    labels, proba = model.predict_many(MEASURED), model.predict_proba_many(MEASURED)

    pd.testing.assert_series_equal(labels, pd.Series(ys, index=MEASURED.index))
    assert list(proba.columns) == model.classes
    assert list(proba.index) == list(proba.idxmax(axis="columns").index) == list("wxyz")
    assert proba.idxmax(axis="columns").tolist() == ys


def test_polars_and_arrow_get_their_own_with_texts_as_names() -> None:
    """Polars: Series and DataFrame. Arrow: ChunkedArray and Table."""
    model = fitted([False, False, True, True])
    frame, table = pl.from_pandas(MEASURED), pa.table({"a": MEASURED["a"].tolist()})

    assert model.predict_many(frame).equals(pl.Series([False, False, True, True]))
    assert isinstance(frame_answer := model.predict_proba_many(frame), pl.DataFrame)
    assert model.predict_many(table) == pa.chunked_array([[False, False, True, True]])
    assert isinstance(table_answer := model.predict_proba_many(table), pa.Table)
    assert frame_answer.columns == table_answer.column_names == ["False", "True"]


def test_an_array_gets_arrays_and_dicts_get_lists() -> None:
    """An array of the type of the labels, and float64 (n, classes)."""
    model = GaussianNB()
    model.learn_many(MEASURED.to_numpy(), np.array([7, 7, 3, 3]))
    x = {"0": 1.0}

    labels = model.predict_many(MEASURED.to_numpy())
    assert labels.dtype == np.int64
    assert labels.tolist() == [7, 7, 3, 3]
    assert model.predict_proba_many(MEASURED.to_numpy()).shape == (4, 2)
    assert model.predict_many([x]) == [7]
    assert model.predict_proba_many([x]) == [model.predict_proba_one(x)]


@pytest.mark.parametrize("form", ["dicts", "pandas", "polars", "arrow"])
def test_without_a_class_every_prediction_is_none(form) -> None:
    """As predict_one does; the probabilities have no columns."""
    asked = FORMS[form]([{"a": 1.0}, {"a": 2.0}])

    assert listed(GaussianNB().predict_many(asked)) == [None, None]
    assert shares(GaussianNB().predict_proba_many(asked)) in ([[], []], [])


def test_a_table_without_rows_or_columns_changes_nothing() -> None:
    """No rows: nothing is learned. No columns: the prior is learned and predicted."""
    model = fitted([1, 1, 0, 0])
    before = model.fingerprint()
    model.learn_many(MEASURED[:0], [])

    assert model.fingerprint() == before
    assert model.predict_many(MEASURED[:0]).tolist() == []
    assert model.predict_proba_many(MEASURED[[]]).loc["w"].tolist() == [0.5, 0.5]
    assert model.predict_many(np.zeros((2, 0))).tolist() == [1, 1]


# The memory of a table.


def test_float64_columns_are_read_where_they_are() -> None:
    """A column is a view of the frame, whatever its library; no values are converted."""
    values = np.array([1.0, 2.0, nan])
    frames = {
        "pandas": (pd.DataFrame({"a": values, "n": [1, 2, 3]}), lambda f: f["a"].to_numpy()),
        "polars": (pl.DataFrame({"a": values}), lambda f: f["a"].to_numpy()),
        "arrow": (pa.table({"a": values}), lambda f: f["a"].chunk(0).to_numpy()),
    }
    for name, (frame, of) in frames.items():
        first = next(mini_batch(frame).columns())

        assert np.shares_memory(first.vector, of(frame)), name


@pytest.mark.parametrize("make", [np.asarray, lambda x: pd.DataFrame(x, copy=False)])
def test_a_table_of_float64_with_rows_in_memory_is_not_copied(make) -> None:
    """The kernels run on the memory of the caller, and neither change nor keep it."""
    memory = np.random.default_rng(3).normal(size=(50, 8))
    kept, model = memory.copy(), GaussianNB()

    assert np.shares_memory(model.rows(make(memory)).numeric, memory)
    model.learn_many(make(memory), [0, 1] * 25)
    before = model.fingerprint()
    assert (memory == kept).all()
    memory[:] = 0.0
    assert model.fingerprint() == before


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: x.__setitem__((1, 1), -0.0),
        lambda x: x.__setitem__((1, 1), -np.float64(nan)),
        lambda x: x.setflags(write=False),
    ],
    ids=["negative zero", "negative NaN", "read-only"],
)
def test_memory_with_other_bits_is_copied(spoil) -> None:
    """Equal numbers have equal bits in a state, and kernels are compiled for writable arrays."""
    memory = np.random.default_rng(3).normal(size=(4, 2))
    spoil(memory)
    single, many = GaussianNB(), GaussianNB()
    for row in memory.tolist():
        single.learn_one({"0": row[0], "1": row[1]}, "y")

    numeric = many.rows(memory).numeric
    many.learn_many(memory, "yyyy")

    assert not np.shares_memory(numeric, memory)
    assert not np.signbit(numeric[numeric == 0.0]).any()
    assert many.fingerprint() == single.fingerprint()


def test_no_library_is_imported_but_the_callers() -> None:
    """Dicts and arrays import none; a frame of Polars imports neither pandas nor pyarrow."""
    code = """
import sys
import numpy as np
from stream import GaussianNB
def loaded():
    return {"narwhals", "pandas", "polars", "pyarrow"} & set(sys.modules)
model = GaussianNB()
model.learn_many([{"0": 1.0}, {"0": 2.0}], ["p", "q"])
model.learn_many(np.array([[1.0], [2.0]]), np.array(["p", "q"]))
model.predict_proba_many(np.array([[1.0]]))
assert not loaded(), loaded()
import polars
frame = polars.DataFrame({"0": [1.0, None], "1": [True, None]})
model.learn_many(frame, polars.Series(["p", "q"]))
model.predict_many(frame), model.predict_proba_many(frame)
assert loaded() == {"narwhals", "polars"}, loaded()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


# What is refused.

Point = namedtuple("Point", "x y")
TWO = pd.DataFrame({"a": [1.0, 2.0]})
REFUSED: dict[str, tuple[Any, Any, str]] = {
    "names twice": (
        pd.DataFrame([[1, 2]] * 2, columns=["a", "a"]),
        "pq",
        "the names of columns must be distinct, got 'a' twice",
    ),
    "names twice as text": (
        pd.DataFrame([[1, 2]] * 2, columns=[1, "1"]),
        "pq",
        "the names of columns must be distinct, got '1' twice",
    ),
    "names twice in arrow": (
        pa.Table.from_arrays([pa.array([1, 2])] * 2, names=["a", "a"]),
        "pq",
        "the names of columns must be distinct, got 'a' twice",
    ),
    "levels": (
        pd.DataFrame([[1, 2]] * 2, columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])),
        "pq",
        "the names of columns must be flat, got 2 levels; join them first: "
        'frame.columns = ["_".join(map(str, name)) for name in frame.columns]',
    ),
    "a date": (
        pd.DataFrame({"day": pd.to_datetime(["2026-01-01", None])}),
        "pq",
        "column 'day' has type Datetime; convert it to numbers or text, or drop the column",
    ),
    "dates": (
        np.array([["2026-01-01"]] * 2, dtype="M8[D]"),
        "pq",
        "an array of datetime64[D] has no features; "
        "convert it to numbers or text, or drop the column",
    ),
    "infinite": (
        pl.DataFrame({"a": [1.0, float("inf")]}),
        "pq",
        "infinite: row 1: field 'a' is inf; send null if a value is missing",
    ),
    "too large": (
        np.array([[1.0, 1e101], [np.inf, 1.0]]),
        "pq",
        "out_of_range: row 0: field '1': 1e+101 is beyond ±1e+100",
    ),
    "text": (
        pl.DataFrame({"a": [None, "x"]}),
        "pq",
        "wrong_kind: row 1: field 'a' expects a number, got str",
    ),
    "lazy": (pl.LazyFrame({"a": [1]}), "p", "call .collect() first"),
    "sparse": (sparse.csr_matrix(np.eye(2)), "pq", "call .toarray() first"),
    "one column": (TWO["a"], "pq", "got one column: pandas.Series"),
    "one array": (np.zeros(2), "pq", "got an array of shape (2,)"),
    "masked": (np.ma.masked_less(np.zeros((2, 1)), 1), "pq", "use .filled(numpy.nan)"),
    "tuples": ([Point(1, 2)] * 2, "pq", "a record must map features to values, got Point"),
    "no label": (TWO, ["p", None], "row 1 has no label, got None; drop the rows without labels"),
    "floats": (TWO, pd.Series([1.0, 0.0]), "got float 1.0; .astype(int) makes classes of a column"),
    "fractions": (TWO, np.array([0.5, 1], np.float32), "got float 0.5; .astype(str) makes"),
    "NaN": (TWO, pd.Series([1, None]), "row 1 has no label, got nan"),
    "NA": (TWO, pd.Series([1, None], dtype="Int64"), "row 1 has no label, got None"),
    "NaT label": (TWO, pd.Series([1, pd.NaT], dtype=object), "row 1 has no label, got None"),
    "null in polars": (TWO, pl.Series([1, None]), "row 1 has no label, got None"),
    "null in arrow": (TWO, pa.array([1, None]), "row 1 has no label, got None"),
    "float labels": (TWO, np.array([0.0, 1.0]), "label_kind: row 0: a label must be text of"),
    "too few": (TWO, "p", "2 rows need 2 labels, got 1"),
    "a frame of labels": (TWO, TWO, "y must have one dimension, got shape (2, 1)"),
    "a column of labels": (TWO, np.ones((2, 1)), "got shape (2, 1); use y.ravel()"),
    "one label": (TWO, 5, "labels must be a sequence, got 5"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_learned_is_refused_by_one_line(case) -> None:
    """It names the row or column, what is wrong and what to do; nothing is learned."""
    table, ys, message = REFUSED[case]
    model = GaussianNB()

    with pytest.raises((SchemaError, InvalidRecordError)) as error:
        model.learn_many(table, ys)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert model.fingerprint() == GaussianNB().fingerprint()


@pytest.mark.parametrize("door", ["arrow", "pandas", "polars", "records"])
def test_decimal_numbers_are_numbers(door) -> None:
    """As databases give money; Decimal("NaN") is a missing value."""
    values = [Decimal("1.50"), None, Decimal("2.25"), Decimal("NaN") if door == "records" else None]
    table = {
        "arrow": lambda: pa.table({"x": pa.array(values)}),
        "pandas": lambda: pd.DataFrame({"x": pd.Series(values, dtype=object)}),
        "polars": lambda: pl.DataFrame({"x": values}),
        "records": lambda: [{"x": value} for value in values],
    }[door]()
    model, floats = GaussianNB(), GaussianNB()

    model.learn_many(table, list("abab"))
    floats.learn_many(pd.DataFrame({"x": [1.5, None, 2.25, None]}), list("abab"))

    assert model.fingerprint() == floats.fingerprint()


def test_a_stream_of_arrow_without_pyarrow_says_what_to_install(monkeypatch) -> None:
    """Only such an object needs it."""
    given = Stream(pa.table({"a": [1.0]}))
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(SchemaError, match="pip install pyarrow, or pass a DataFrame"):
        GaussianNB().learn_many(given, "p")


@pytest.mark.parametrize(
    "w", [[1.0, 0.0], [1.0], pd.Series([1.0, None]), pl.Series([1.0, -1.0]), "ab"]
)
def test_weights_must_be_positive_numbers_for_each_row(w) -> None:
    """Missing ones too are refused."""
    with pytest.raises(SchemaError, match=r"weight|w must be"):
        GaussianNB().learn_many(TWO, "pq", w)


@pytest.mark.parametrize("w", [pd.Series, pl.Series, pa.array, np.array, tuple])
def test_weights_may_be_any_column(w) -> None:
    """And count as those of learn_one."""
    single, many = GaussianNB(), GaussianNB()
    single.learn_one({"a": 1.0}, "p", 2.0)
    single.learn_one({"a": 2.0}, "q", 3.0)

    many.learn_many(TWO, "pq", w([2, 3]))

    assert many.fingerprint() == single.fingerprint()


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([3, 3, 1], index=[9, 8, 7]),
        pd.Series([3, 3, 1], dtype="Int64"),
        pd.Categorical([3, 3, 1]),
        pd.Index([3, 3, 1]),
        pl.Series([3, 3, 1], dtype=pl.UInt8),
        pa.array([3, 3, 1]),
        pa.chunked_array([[3], [3, 1]]),
        np.array([3, 3, 1], dtype=np.int8),
        (3, 3, 1),
    ],
    ids=lambda column: f"{type(column).__module__}.{type(column).__name__}",
)
def test_labels_may_be_any_column_and_are_matched_by_position(column) -> None:
    """The index of a Series does not matter."""
    model = GaussianNB()

    model.learn_many(pd.DataFrame({"a": [1.0, 1.5, 5.0]}), column)

    assert model.classes == [3, 1]
    assert model.predict_many([{"a": 1.0}, {"a": 5.0}]) == [3, 1]


@pytest.mark.parametrize(
    "ys",
    [
        np.array([2**40, -(2**40), 2**40]),
        np.array([5, 5, 2**63 - 1], dtype=np.uint64),
        np.array([True, False, True]),
        [np.int64(3), 3, np.int64(4)],
    ],
)
def test_numbers_as_labels_are_coded_as_each_of_them(ys) -> None:
    """Near and far, of numpy and of Python."""
    many, single = GaussianNB(), GaussianNB()
    for y in ys:
        single.learn_one({}, y)

    many.learn_many([{}, {}, {}], ys)

    assert many.classes == single.classes
    assert many.fingerprint() == single.fingerprint()


def test_a_label_beyond_64_bits_in_an_array_is_refused() -> None:
    """As in learn_one."""
    with pytest.raises(InvalidRecordError, match="64-bit"):
        GaussianNB().learn_many([{}], np.array([2**63], dtype=np.uint64))
