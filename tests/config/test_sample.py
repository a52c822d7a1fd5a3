"""What fields are taken for, and what is left out."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from consumers.base.errors import ConfigError
from consumers.config import infer, schema_of
from consumers.config.propose import check_labels
from consumers.config.sample import likely_ids

random = Random(7)
N = 200
WORDS = [f"w{i}" for i in range(300)]

SENTENCES = [" ".join(random.choices(WORDS, k=8)) for _ in range(N)]
RARE = [1 if i % 50 == 0 else 0 for i in range(N)]


def kind(values: list[Any], *, name: str = "x", text: bool = True) -> str | None:
    """The kind of a field with these values."""
    [field] = infer([{name: v} for v in values], set(), text=text)
    assert field.why
    assert "\n" not in field.why
    return field.kind


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([i / 7 for i in range(N)], "numeric"),
        ([i % 5 for i in range(N)], "numeric"),
        ([0] * N, "numeric"),
        (RARE, "numeric"),
        ([0, 1] * 5, "numeric"),
        ([i % 2 for i in range(N)], "binary"),
        ([i % 3 == 0 for i in range(N)], "binary"),
        ([True] * N, "binary"),
        ([True, 0, 1, False] * 20, "binary"),
        (["red", "green", None] * 60, "categorical"),
        (["a", 3, "b"] * 60, "categorical"),
        (SENTENCES, "text"),
        ([f"user {i}" for i in range(N)], None),
        (["2024-03-01", "2024-03-02T10:00:00Z"] * 50, None),
        (["31.12.1999", "1/2/2000"] * 50, None),
        (["2012/01/03", "2012/1/4 10:30"] * 50, None),
        (["3/4/24", "03.04.24", "5-Mar-2024", "March 5, 2024", "5 Mar 24"] * 50, None),
        (["1.2.10", "10.2.3", "may 5"] * 50, "categorical"),
        ([[1, 2]] * N, None),
        ([None] * N, None),
        ([float("nan")] * N, None),
    ],
)
def test_majority_of_the_values_decides_the_kind(values: list[Any], expected: str | None) -> None:
    """A rare counter stays numeric, because binary would reject its first 2."""
    assert kind(values) == expected


def test_running_service_never_takes_a_field_for_text() -> None:
    """Text changes the model that is needed: it has to be declared."""
    assert kind(SENTENCES, text=False) is None


def test_numbers_with_some_strings_are_numeric_and_the_rest_is_counted() -> None:
    """The majority decides; the figure says how many would be lost."""
    [field] = infer([{"x": "?!" if i % 10 == 0 else i} for i in range(100)], set(), text=True)

    assert field.kind == "numeric"
    assert field.why == "90 of 100 values are numbers; the other 10 ('?!') count as missing"


@pytest.mark.parametrize("name", ["id", "user_id", "userId", "order.uuid", "ID"])
def test_distinct_values_named_like_an_id_are_left_out(name: str) -> None:
    """A number without meaning is no measurement."""
    records = [{"order": {"uuid": i}} if name == "order.uuid" else {name: i} for i in range(N)]

    [field] = infer(records, set(), text=True)

    assert (field.name, field.kind) == (name, None)


@pytest.mark.parametrize("name", ["ID", "store_id", "storeId"])
@pytest.mark.parametrize(
    ("distinct", "expected", "why"),
    [
        (N // 4, "categorical", "50 of 200 values distinct, and named like an id"),
        (N - 1, None, "199 of 200 values distinct, and named like an id: too many for a category"),
    ],
)
def test_integers_named_like_an_id_are_no_measurements(
    name: str, distinct: int, expected: str | None, why: str
) -> None:
    """Shop 12 is not twice shop 6; a sum of them means nothing."""
    [field] = infer([{name: i % distinct} for i in range(N)], set(), text=True)

    assert (field.kind, field.why) == (expected, why)
    assert kind([i % distinct / 4 for i in range(N)], name=name) == "numeric"


@pytest.mark.parametrize("name", ["paid", "humidity", "grid", "idle"])
def test_name_that_only_contains_id_is_no_id(name: str) -> None:
    """Distinct measurements are common."""
    assert kind(list(range(N)), name=name) == "numeric"


def test_rising_time_is_left_out_and_a_repeating_one_is_kept() -> None:
    """What only grows is outside of everything that was learned."""
    assert kind([1_700_000_000 + i for i in range(N)], name="created_at") is None
    assert kind([i % 24 for i in range(N)], name="time") == "numeric"


def test_nested_objects_get_dotted_names_and_excluded_ones_are_gone() -> None:
    """The path is the name, in [features] as well."""
    records = [
        {"id": str(i), "y": "a", "geo": {"lat": i / 3, "at": {"city": "Bonn"}}} for i in range(N)
    ]

    fields = infer(records, {"id", "y"}, text=True)

    assert [(f.name, f.kind) for f in schema_of(fields).fields] == [
        ("geo.at.city", "categorical"),
        ("geo.lat", "numeric"),
    ]


def test_name_that_holds_a_dot_is_a_name() -> None:
    """As in the header of a CSV; inside an object it could never be found."""
    records = [{"sepal.length": 1.5, "petal": {"max.width": 2, "mean": 1}}] * N
    inner, mean, outer = infer(records, set(), text=True)

    assert (outer.name, outer.kind) == ("sepal.length", "numeric")
    assert (mean.name, mean.kind) == ("petal.mean", "numeric")
    assert (inner.name, inner.kind) == ("petal.max.width", None)
    assert "dot" in inner.why


def test_name_that_holds_a_dot_comes_before_a_path() -> None:
    """As in the codec, so the sample shows the values that the model gets."""
    records = [{"a.b": "red", "a": {"b": 1.5}}] * N

    [field] = infer(records, set(), text=True)

    assert (field.name, field.kind, field.missing) == ("a.b", "categorical", "")


def test_texts_for_missing_are_counted_among_numbers_only() -> None:
    """In a category `NA` is a category; in JSON null would be missing."""
    records = [
        {"x": "NA" if i % 10 == 0 else i / 3, "c": "NA" if i % 10 == 0 else "red"}
        for i in range(100)
    ]

    c, x = infer(records, set(), text=True)
    own = infer(records, set(), text=True, missing=["-999"])[1]

    assert (x.kind, x.about) == (
        "numeric",
        "90 of 90 values are numbers; missing in 10 of 100 records",
    )
    assert (c.kind, c.missing) == ("categorical", "")
    assert own.why == "90 of 100 values are numbers; the other 10 ('NA') count as missing"


def test_numbers_written_as_strings_are_pointed_out() -> None:
    """The sender can correct it; the kind cannot."""
    [field] = infer([{"x": str(i % 7)} for i in range(N)], set(), text=True)

    assert field.kind == "categorical"
    assert "send them as JSON numbers" in field.why


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ([f"0{i % 7}" for i in range(N)], "kept as text because of leading zeros"),
        (["7", "x"] * 100, "kept as text, because only 100 are plain numbers"),
        (["7", "x", "y"] * 100, "3 of 300 values distinct, strings"),
    ],
)
def test_numbers_kept_as_text_in_a_csv_are_not_answered_with_json(
    cells: list[str], why: str
) -> None:
    """Its sender has no JSON; the line fits a terminal."""
    [field] = infer([{"x": cell} for cell in cells], set(), text=True, csv=True)

    assert why in field.why
    assert "JSON" not in field.why
    assert len(field.why) <= 100
    assert ("--types x=numeric" in field.why) == ("leading" in why)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (lambda i: {"x": 1.5, "txn": f"t{i}"}, ["txn"]),
        (lambda i: {"x": 1.5, "order_id": i}, ["order_id"]),
        (lambda i: {"code": f"c{i}", "x": 1.5}, ["code"]),
        (lambda i: {"row": 10 * i, "x": 1.5}, ["row"]),
        (lambda i: {"a_id": i, "b_id": -i}, ["a_id", "b_id"]),
        (lambda i: {"price": i * 7919 % 1009, "x": 1.5}, []),
        (lambda i: {"x": 1.5, "humid": i}, []),
        (lambda i: {"txn": i // 2}, []),
        (lambda i: {"ts": i}, []),
        (lambda i: {"day": f"2024-03-{i:02}"}, []),
        (lambda i: {"y": f"c{i}", "x": 1.5}, []),
    ],
)
def test_field_that_looks_like_an_id_is_found(row: Any, expected: list[str]) -> None:
    """Distinct, and by its name or its place in the first column; no measurement, time, label."""
    assert list(likely_ids([row(i) for i in range(30)], "y")) == expected


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([0.5, 1.25] * 20, "got 0.5 in here; a model predicts classes, no numbers"),
        ([["a"]] * 30, "got ['a']"),
        (list(range(30)), "all 30 values are distinct in here"),
        ([i % 300 for i in range(600)], "300 classes in here, expected at most 256"),
    ],
)
def test_labels_that_cannot_be_learned_are_refused(labels: list[Any], said: str) -> None:
    """One line, before anything is written."""
    with pytest.raises(ConfigError) as caught:
        check_labels("y", labels, "here")

    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_labels_with_a_fraction_of_zero_are_integers() -> None:
    """Programs write 1.0 where other labels are missing; beside 0.5 they are measurements."""
    assert check_labels("y", [1.0, 0.0, None] * 20, "here") == []
    with pytest.raises(ConfigError, match=r"got 1\.0 in here; a model"):
        check_labels("y", [1.0, 0.5] * 20, "here")


def test_numbers_that_lose_digits_are_ids_or_warned_of() -> None:
    """Ids of chats and tweets have 19 digits, and a number has 16."""
    ids = [1234567890123456789 + 7 * i for i in range(N)]

    [left_out] = infer([{"chat": v} for v in ids], set(), text=True)
    assert left_out.kind is None
    assert "of more digits than a number has" in left_out.why
    [warned] = infer([{"chat": v} for v in ids[:90] * 2], set(), text=True)
    assert warned.kind == "numeric"
    assert warned.why.endswith("; 180 lose digits beyond 2^53, as ids would")


def test_doubtful_labels_are_warned_of() -> None:
    """A single class, and a few values that will be dead letters; otherwise silence."""
    assert check_labels("y", ["a"] * 9, "9 records") == [
        "only one class in 9 records; is it sorted by class?"
    ]
    assert check_labels("y", ["a", None] * 9, "18 records") == [
        "only one class in 18 records; 9 of them have no label: if they never get one, [labels] "
        "silence says what they are (docs/operations.md)"
    ]
    assert check_labels("y", ["a", "b", 0.5, float("nan")], "x")[0].startswith(
        "label y: 1 of 3 values is neither"
    )
    assert check_labels("y", [True, 1, 0, False] * 9, "x") == []


def test_integers_that_hardly_repeat_are_a_measurement() -> None:
    """A price is no class; codes that repeat are, and so are texts."""
    prices = [i * 7919 % 100 for i in range(500)]

    [warning] = check_labels("price", prices, "here")
    assert warning.startswith("label price: 100 different integers in here look like a measurement")
    assert check_labels("digit", [i % 26 for i in range(200)], "here") == []
    assert check_labels("code", prices * 10, "here") == []
    assert check_labels("state", [f"s{price}" for price in prices], "here") == []


def test_labels_spelled_alike_are_warned_of() -> None:
    """They would be classes of their own."""
    assert check_labels("y", ["yes", "no", "Yes ", "YES"] * 9, "here") == [
        "label y: 'YES' and 'Yes ' and 'yes' are different classes; if they mean the same, spell "
        "them alike"
    ]
    assert check_labels("y", ["yes", "no", True, False] * 9, "here") == []


def test_field_order_of_the_records_does_not_matter() -> None:
    """The result is sorted by name, so two services infer the same columns."""
    a = infer([{"a": 1.5, "b": "x"}] * N, set(), text=True)
    b = infer([{"b": "x", "a": 1.5}] * N, set(), text=True)

    assert a == b


def test_no_records_have_no_fields() -> None:
    """An empty topic shows nothing."""
    assert infer([], set(), text=True) == []


def test_field_of_one_odd_record_is_left_out() -> None:
    """It would be journaled for good, and cost a column of every record."""
    records = [{"x": i} for i in range(100)] + [{"x": 1, "odd": 3}]
    odd = {f.name: f for f in infer(records, set(), text=False)}["odd"]

    assert odd.kind is None
    assert "1 of 101 records" in odd.why


@pytest.mark.parametrize(
    ("sample", "after", "expected", "why"),
    [
        (
            [0] * 490 + [1] * 10,
            [0] * 990 + [1] * 10,
            "binary",
            "all 1,500 values are 0 or 1, 20 of",
        ),
        ([0] * 490 + [1] * 10, [0] * 991 + [1] * 9, "numeric", "one value is too rare"),
        ([0, 1] * 250, [0, 1, 2], "numeric", "all 500 values are 0 or 1, but a later one is 2"),
        ([1], [2], "numeric", "the first value is 0 or 1, but a later one is 2"),
        ([0.0, 1.0] * 250, [None, "NA", float("nan")], "binary", "all 500 values"),
        ([1] * 500, [1] * 500, "numeric", "one value alone does not rule out other numbers"),
        ([0, 1, 2] * 100, [0, 1], "numeric", "300 of 300 values are numbers"),
        ([True, False] * 100, [7], "binary", "200 of 200 values are true or false"),
    ],
)
def test_zeros_and_ones_are_tried_as_binary(
    sample: list[Any], after: list[Any], expected: str, why: str
) -> None:
    """By all records that are looked at: rare ones are enough, and one 2 is too."""
    [field] = infer([{"x": v} for v in sample], set(), text=True, later=lambda name: after)

    assert field.kind == expected
    assert why in field.why


def test_missing_values_are_counted_per_field() -> None:
    """Absent, null and NaN alike; a field that every record has says nothing."""
    records = [{"full": i, "gaps": i} for i in range(100)]
    for i in range(30):
        records[i]["gaps"] = [None, float("nan")][i % 2]  # type: ignore[assignment]
    for i in range(30, 40):
        del records[i]["gaps"]

    full, gaps = infer(records, set(), text=False)

    assert full.about == "100 of 100 values are numbers"
    assert gaps.about == "60 of 60 values are numbers; missing in 40 of 100 records"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([7], "the only value is a number"),
        ([1], "the only value is 1: there are too few values to rule out other numbers"),
        ([0, 0, 1], "all 3 values are 0 or 1, 1 of them 1: there are too few values to rule out"),
        ([True], "the only value is true or false"),
        ([1.5, 2, "?!"], "2 of 3 values are numbers; the other value ('?!') counts as missing"),
        ([1.5] * 1200, "1,200 of 1,200 values are numbers"),
    ],
)
def test_numbers_of_values_are_plain_english(values: list[Any], why: str) -> None:
    """Singular for one, and separators in large ones."""
    [field] = infer([{"x": value} for value in values], set(), text=True)

    assert field.why.startswith(why)


def test_more_fields_than_anyone_would_mean_are_refused() -> None:
    """One line that says what to declare."""
    records = [{f"f{i}": float(i + j) for i in range(1001)} for j in range(30)]
    with pytest.raises(ConfigError, match=r"declare the ones to learn from in \[features\]"):
        schema_of(infer(records, set(), text=False))


MERCHANTS = [f"shop {random.randrange(2000)}" for _ in range(500)]  # one in eight came before


def test_category_with_many_values_that_come_again_is_kept_for_auto() -> None:
    """It was left out, although merchants and airports say more than most fields."""
    [field] = infer([{"shop": shop} for shop in MERCHANTS], set(), text=True)
    [other] = infer([{"shop": shop} for shop in MERCHANTS], set(), text=True, many=False)

    assert field.kind == "categorical"
    assert field.why == (
        f"{len({*MERCHANTS})} of 500 values distinct, strings; "
        "`auto` learns what the labels of each say"
    )
    assert (other.kind, other.may_be_text) == (None, True)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda i: f"user {i}", None),
        (lambda i: f"user {i if i % 50 else 0}", None),  # one in 50 came before
        (lambda i: f"0{random.randrange(1000):04}", "categorical"),
        (lambda i: f"{random.randrange(2000)}", None),
        (lambda i: f"€{random.randrange(2000)}", None),
    ],
    ids=["ids", "nearly ids", "codes", "numbers", "amounts"],
)
def test_many_values_that_are_ids_or_numbers_are_left_out(make: Any, expected: Any) -> None:
    """An id says nothing of the next record; numbers as strings are learned better as numbers."""
    assert kind([make(i) for i in range(500)]) == expected


def test_integers_named_like_an_id_are_categories_if_they_come_again() -> None:
    """As those of customers."""
    [field] = infer([{"customer_id": int(shop[5:])} for shop in MERCHANTS], set(), text=True)

    assert field.kind == "categorical"
    assert field.why.endswith("named like an id; `auto` learns what the labels of each say")


def test_values_after_the_sample_show_that_they_come_again() -> None:
    """Of 10,000 merchants hardly one comes twice in 500 records."""
    shops = [f"shop {i * 7 % 400}" for i in range(400)]
    records = [{"shop": shop} for shop in shops]
    [sampled] = infer(records, set(), text=True)
    [seen] = infer(records, set(), text=True, later=lambda _: iter(shops))

    assert (sampled.kind, seen.kind) == (None, "categorical")
