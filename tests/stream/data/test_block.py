"""Rows and blocks: how records become columns and steps."""

from __future__ import annotations

import numpy as np
import pytest

from stream import Block, InvalidRecordError, Rows, Schema, SchemaError
from stream.data.block import LEARN, PREDICT, PREDICT_THEN_LEARN, learning
from stream.data.schema import binary, category, number, text

SCHEMA = Schema.of(n="numeric", b="binary", c="categorical", t="text")


def encoded(*xs) -> Rows:
    """Rows of `SCHEMA`."""
    rows = Rows.empty(SCHEMA, len(xs))
    for i, x in enumerate(xs):
        rows.numeric[i] = number("n", x.get("n")), binary("b", x.get("b"))
        rows.categorical[i, 0] = category("c", x.get("c"))
        rows.text[i, 0] = text("t", x.get("t"))
    return rows


def test_undeclared_columns_are_sorted_by_name() -> None:
    """Columns do not depend on which record came first."""
    rows = Rows.from_dicts([{"b": 1, "s": "x"}, {"a": 2, "C": True, "r": "y"}])

    assert rows.numeric_names == ("C", "a", "b")
    assert rows.categorical_names == ("r", "s")
    np.testing.assert_array_equal(rows.numeric, [[np.nan, np.nan, 1], [1, 2, np.nan]])


def test_names_that_are_not_text_are_taken_by_their_text() -> None:
    """river's streams may have integers as feature names."""
    assert Rows.from_dicts([{1: 2.0, "0": 3.0}]).numeric_names == ("0", "1")


def test_strings_are_text_where_told_so() -> None:
    """A learner of texts sees strings as texts, others as categories."""
    rows = Rows.from_dicts([{"s": "x"}], strings="text")

    assert (rows.text_names, rows.categorical_names) == (("s",), ())


@pytest.mark.parametrize("bad", [float("inf"), 1e200, [1], {"a": 1}, b"1"])
def test_undeclared_value_no_field_can_hold_is_refused(bad) -> None:
    """One bad value refuses the rows."""
    with pytest.raises(InvalidRecordError):
        Rows.from_dicts([{"a": 1.0}, {"a": bad}])


def test_dicts_give_back_what_is_present() -> None:
    """Rows to dicts leaves the missing values out."""
    xs = [{"n": 1.5, "b": True, "c": "red", "t": "a b"}, {"n": None, "c": 3}, {}]

    assert encoded(*xs).dicts() == [{"n": 1.5, "b": 1.0, "c": "red", "t": "a b"}, {"c": "3"}, {}]


def test_truth_values_become_categories_where_told_so() -> None:
    """From dicts and from a schema, with the same words."""
    rows = encoded({"b": True, "n": 2.0}, {"b": 0}, {})
    undeclared = [{"b": True, "n": 2}, {"b": False}, {}]

    recast = rows.recast(truths="categorical")
    assert recast.numeric_names == ("n",)
    assert [x.get("b") for x in recast.dicts()] == ["true", "false", None]
    told = Rows.from_dicts(undeclared, truths="categorical")
    assert [x.get("b") for x in told.dicts()] == ["true", "false", None]


def test_declared_texts_are_texts_among_categories() -> None:
    """A string of a declared text is one, any other a category."""
    rows = Rows.from_dicts([{"s": "a b", "c": "red"}], texts=("s",))

    assert (rows.text_names, rows.categorical_names) == (("s",), ("c",))


def test_take_put_and_concat_move_whole_rows() -> None:
    """Rows wait and come back with every kind of column."""
    rows = encoded({"n": 1.0, "c": "x", "t": "one"}, {"n": 2.0, "b": 0})
    store = Rows.empty(SCHEMA).grown(3)
    store.put(np.array([2, 0]), rows)

    assert store.dicts() == [{"n": 2.0, "b": 0.0}, {}, {"n": 1.0, "c": "x", "t": "one"}]
    assert store.take(np.array([2])).concat(rows.take(np.array([1]))).dicts() == rows.dicts()


def test_taken_rows_are_copies() -> None:
    """A row that waits does not change with the block it came from."""
    rows = encoded({"n": 1.0})
    kept = rows.take(np.array([0]))
    rows.numeric[:] = 9.0

    assert kept.dicts() == [{"n": 1.0}]


def test_labels_of_a_block_are_coded_once_each_in_order() -> None:
    """1 and True are two labels, not one."""
    block = Block.of(Rows.from_dicts([{}] * 5), LEARN, ["b", "a", "b", 1, True])

    assert block.labels == ["b", "a", 1, True]
    assert [type(label) for label in block.labels] == [str, str, int, bool]
    assert block.y.tolist() == [0, 1, 0, 2, 3]


def test_slice_keeps_rows_and_labels() -> None:
    """A part of a block is a block over the same rows."""
    rows = Rows.from_dicts([{"a": float(i)} for i in range(4)])
    block = Block.of(rows, PREDICT_THEN_LEARN, "abab", [1, 2, 3, 4])
    block.op[1] = PREDICT
    part = block.slice(1, 3)

    assert (len(part), part.n_predictions, learning(part).tolist()) == (2, 2, [1])
    assert (part.row.tolist(), part.w.tolist(), part.labels) == ([1, 2], [2, 3], ["a", "b"])
    assert part.rows is rows


@pytest.mark.parametrize("w", [0.0, -1.0, float("nan"), float("inf"), [1.0, 0.0]])
def test_weight_that_is_not_finite_and_positive_is_refused(w) -> None:
    """A weight says how often the record came."""
    with pytest.raises(ValueError, match="greater than 0 and at most"):
        Block.of(Rows.from_dicts([{}, {}]), LEARN, "ab", w)


@pytest.mark.parametrize("ys", [{"a", "b"}, frozenset("ab"), {"a": 1, "b": 2}])
def test_labels_without_an_order_are_refused(ys) -> None:
    """Those of a set would be of any row; the values of a dict are in its order."""
    rows = Rows.from_dicts([{}, {}])
    with pytest.raises(SchemaError, match="labels must be a list in the order of the rows"):
        Block.of(rows, LEARN, ys)
    assert Block.of(rows, LEARN, {1: "a", 2: "b"}.values()).labels == ["a", "b"]
    assert Block.of(rows, LEARN, {"a": 1, "b": 2}.keys()).labels == ["a", "b"]


def test_number_of_labels_must_be_that_of_rows() -> None:
    """The message says both numbers."""
    with pytest.raises(ValueError, match="2 rows need 2 labels, got 1"):
        Block.of(Rows.from_dicts([{}, {}]), LEARN, ["a"])
