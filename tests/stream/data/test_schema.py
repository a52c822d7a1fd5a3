"""Fields, labels and dictionaries: what is taken, what is missing, what is refused."""

from __future__ import annotations

import pickle
from math import copysign, inf, isnan, nan

import numpy as np
import pytest

from stream import Field, InvalidRecordError, Schema, SchemaError
from stream.data.schema import LARGEST, Dictionary, binary, category, number, plain_label, text
from stream.errors import REASONS


def reason_of(convert, value) -> str:
    """Why `convert` refuses a value of field x."""
    with pytest.raises(InvalidRecordError) as caught:
        convert("x", value)
    assert "\n" not in str(caught.value)
    return caught.value.reason


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.float32(3), np.uint8(3)])
def test_any_real_number_is_a_float(value) -> None:
    """Python's and numpy's numbers become one and the same float."""
    assert number("x", value) == 3.0
    assert type(number("x", value)) is float


@pytest.mark.parametrize("value", [None, nan, np.float32("nan")])
@pytest.mark.parametrize("convert", [number, binary])
def test_missing_number_is_nan(convert, value) -> None:
    """None and NaN are missing."""
    assert isnan(convert("x", value))


@pytest.mark.parametrize("value", [None, nan])
@pytest.mark.parametrize("convert", [category, text])
def test_missing_text_is_none(convert, value) -> None:
    """None and NaN are missing, for texts too."""
    assert convert("x", value) is None


def test_minus_zero_becomes_zero() -> None:
    """Equal numbers have equal bits."""
    assert copysign(1.0, number("x", -0.0)) == 1.0


@pytest.mark.parametrize("value", [inf, -inf, np.float32("inf")])
@pytest.mark.parametrize("convert", [number, binary, category])
def test_infinity_is_refused_as_infinite(convert, value) -> None:
    """An infinity is never missing and never a value."""
    assert reason_of(convert, value) == "infinite"


@pytest.mark.parametrize("value", [LARGEST * 1.0001, -1e200, 10**400])
def test_number_whose_square_would_overflow_is_out_of_range(value) -> None:
    """Beyond ±1e100 is refused; the bound itself is taken."""
    assert reason_of(number, value) == "out_of_range"
    assert number("x", LARGEST) == LARGEST
    assert number("x", -LARGEST) == -LARGEST


@pytest.mark.parametrize("value", ["3", b"3", [3], (3,), {"a": 3}, True, 3j, object()])
def test_other_kinds_are_no_number(value) -> None:
    """Text that looks like a number is text."""
    assert reason_of(number, value) == "wrong_kind"


def test_numpys_complex_number_is_no_number() -> None:
    """Half of it would be dropped in silence."""
    assert reason_of(number, np.complex128(1 + 2j)) == "wrong_kind"


@pytest.mark.parametrize("value", [True, 1, 1.0, np.True_, np.int8(1)])
def test_true_and_one_are_binary_one(value) -> None:
    """Truth may come as a truth value or as 0 and 1."""
    assert binary("x", value) == 1.0


@pytest.mark.parametrize("value", [2, 0.5, "true", [], b"1"])
def test_other_values_are_not_binary(value) -> None:
    """No third value is guessed to be true."""
    assert reason_of(binary, value) == "wrong_kind"


@pytest.mark.parametrize(
    ("value", "name"),
    [("", ""), ("red", "red"), (3, "3"), (3.0, "3"), (-0.0, "0"), (0.1, "0.1"), (False, "false")],
)
def test_category_is_named_by_its_text(value, name) -> None:
    """3 and 3.0 are the same category; the empty text is one."""
    assert category("x", value) == name


@pytest.mark.parametrize("value", [[], {}, b"red", ("red",)])
def test_containers_and_bytes_are_no_category_and_no_text(value) -> None:
    """Only scalars name a category, only text is text."""
    assert reason_of(category, value) == "wrong_kind"
    assert reason_of(text, value) == "wrong_kind"


def test_number_is_no_text() -> None:
    """A declared text field refuses numbers."""
    assert reason_of(text, 3) == "wrong_kind"


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("a", "a"),
        (3, 3),
        (True, True),
        (np.bool_(True), True),
        (np.int64(3), 3),
        (np.str_("a"), "a"),
    ],
)
def test_label_is_pythons_own(value, label) -> None:
    """numpy's scalars become Python's, so that labels of one kind have one type."""
    assert plain_label(value) == label
    assert type(plain_label(value)) is type(label)


@pytest.mark.parametrize("value", [None, 1.0, nan, b"a", [], {}, (), np.float64(1)])
def test_measurements_and_containers_are_no_label(value) -> None:
    """A float is a measurement, not a name."""
    with pytest.raises(InvalidRecordError) as caught:
        plain_label(value)

    assert caught.value.reason == "label_kind"


def test_reasons_are_a_fixed_list() -> None:
    """Dead letters are counted by these names."""
    assert REASONS == (
        "wrong_kind",
        "infinite",
        "out_of_range",
        "negative_count",
        "label_kind",
        "max_classes",
        "reporter_rate",
        "correction_rate",
    )


def test_schema_keeps_the_declared_order_within_each_kind() -> None:
    """Columns stand as declared; binary fields are columns of floats."""
    schema = Schema.of(z="numeric", t="text", c="categorical", a="binary", b="categorical")

    assert (schema.numeric, schema.categorical, schema.text) == (("z", "a"), ("c", "b"), ("t",))


def test_unknown_kind_is_refused_by_name() -> None:
    """The message names the field, the kinds and what came."""
    with pytest.raises(SchemaError, match=r"'x'.*numeric.*'float'"):
        Field("x", "float")


def test_field_declared_twice_is_refused() -> None:
    """Two fields of one name could not be told apart."""
    with pytest.raises(SchemaError, match="declared twice: x"):
        Schema((Field("x", "numeric"), Field("x", "text")))


def test_full_dictionary_refuses_and_counts() -> None:
    """What is known stays known; what is new is counted, not kept."""
    dictionary = Dictionary(2, ["a", "b"])

    assert [dictionary.add(v) for v in "bcac"] == [1, -1, 0, -1]
    assert (list(dictionary), dictionary.overflow) == (["a", "b"], 2)


def test_refusal_passes_between_processes() -> None:
    """A pool of multiprocessing waits for ever for an answer that it cannot read."""
    refused = InvalidRecordError("infinite", "field 'x' has inf")
    found = pickle.loads(pickle.dumps(refused))

    assert (found.reason, found.detail, str(found)) == ("infinite", refused.detail, str(refused))
