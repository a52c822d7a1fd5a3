"""Pitfalls of labelled data: each is found, and chance is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from consumers.config.sample import InferredField
from consumers.offline.pitfalls import MOST_WARNINGS, Pitfalls, _right, pitfalls
from stream.data.schema import Kind
from tests.seed import seeds

N = 1000


def one(values: list[Any], labels: list[Any], kind: Kind = "categorical") -> Pitfalls:
    """What is found in records of one field."""
    records = [{} if value is None else {"x": value} for value in values]
    return pitfalls([InferredField("x", kind, "")], records, labels, "fraud")


def drawn(seed: int, share: float = 0.5, n: int = N) -> list[bool]:
    """Labels in random order."""
    return (np.random.default_rng(seed).random(n) < share).tolist()


@seeds(0.1)
def test_majority_of_the_others_is_that_of_an_obvious_count(seed: int) -> None:
    """Record by record, each left out of the count."""
    rng = np.random.default_rng(seed)
    codes, y = rng.integers(40, size=200), rng.integers(3, size=200)

    right = 0
    for i in range(200):
        others = [y[k] for k in range(200) if k != i and codes[k] == codes[i]]
        counts = np.bincount(others, minlength=3).tolist()
        right += counts.count(max(counts)) == 1 and counts.index(max(counts)) == y[i]

    assert _right(codes, y) == right


def test_field_that_is_filled_in_only_for_one_class_is_found() -> None:
    """As with a field that somebody fills in when the fraud is known."""
    labels = drawn(1, 0.1)
    values = ["refunded" if y and i % 3 else None for i, y in enumerate(labels)]
    n = sum(value is not None for value in values)

    assert one(values, labels).fields == {
        "x": f"is filled in only where fraud is true ({n} of {n} records): is it known before the "
        "label? if not, remove it"
    }


def test_field_that_is_missing_only_for_one_class_is_found() -> None:
    """Of two kinds of records, only one has it; a few exceptions change nothing."""
    labels = drawn(2, 0.3)
    values = [None if y and i % 2 else float(i % 97) for i, y in enumerate(labels)]
    values[labels.index(False)] = None

    found = one(values, labels, "numeric").fields["x"]

    assert found.startswith("is missing nearly only where fraud is true (")


def test_texts_for_missing_values_are_no_values() -> None:
    """A number that is NA except for one class is filled in for one class only."""
    labels = drawn(14, 0.1)
    values = [i / 7 if y else "NA" for i, y in enumerate(labels)]
    records = [{"x": value} for value in values]
    kinds = [InferredField("x", "numeric", "")]

    found = one(values, labels, "numeric").fields["x"]
    other = pitfalls(kinds, records, labels, "fraud", missing={"none"}).fields

    assert found.startswith("is filled in only where fraud is true (")
    assert other == {}


def fields(**columns: list[Any]) -> dict[str, str]:
    """The warnings of several fields, with the label in `y`."""
    labels = columns.pop("y")
    kinds = [
        InferredField(name, "categorical" if isinstance(values[0], str) else "numeric", "")
        for name, values in columns.items()
    ]
    rows = zip(*columns.values(), strict=True)
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    return dict(pitfalls(kinds, records, labels, "fraud").fields)


def test_two_fields_that_are_one_in_two_codings_are_found() -> None:
    """The second one is named; values that are all different, or nearly the same, are not."""
    rng = np.random.default_rng(5)
    pclass, x = rng.integers(1, 4, N).tolist(), rng.normal(size=N).tolist()
    named = [("First", "Second", "Third")[n - 1] for n in pclass]
    other = [*named[:-1], "First" if named[-1] != "First" else "Third"]

    found = fields(pclass=pclass, named=named, other=other, x=x, cube=[v**3 for v in x], y=drawn(6))

    assert list(found) == ["named"]
    assert found["named"].startswith("is pclass in another coding: each value of one belongs to")


def numbers(**columns: Any) -> dict[str, str]:
    """What is found in fields of numbers, with labels in random order."""
    records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    records = [{k: v for k, v in record.items() if v == v} for record in records]
    kinds = [InferredField(name, "numeric", "") for name in columns]
    return dict(pitfalls(kinds, records, drawn(4), "fraud").fields)


@pytest.mark.parametrize("outlier", [None, 1e9])
def test_field_on_another_scale_is_found(outlier: float | None) -> None:
    """Scaled, shifted, turned around, or copied; also with missing values and an outlier."""
    b = np.random.default_rng(3).normal(20.0, 5.0, N)
    b[7] = b[7] if outlier is None else outlier
    b[::9] = np.nan
    fields = {"b": b, "f": 1.8 * b + 32.0, "minus": 5.0 - b, "copy": b.copy()}

    found = numbers(**{name: column.tolist() for name, column in fields.items()})

    assert sorted(found) == ["copy", "f", "minus"]
    assert found["f"].startswith("is b on another scale (1.8 * b + 32); remove one of them")
    assert found["minus"].startswith("is b on another scale (-1 * b + 5)")
    assert found["copy"].startswith("is a copy of b; remove one")


def test_fields_that_are_only_close_are_not_on_another_scale() -> None:
    """High correlation, a common outlier, other missing values, another curve, few values."""
    rng = np.random.default_rng(6)
    b = rng.normal(20.0, 5.0, N)
    sent, received = rng.exponential(1.0, (2, N))
    sent[5], received[5] = 1e9, 3e9
    gaps = 2.0 * b
    gaps[3] = np.nan
    fields = {
        "b": b,
        "noisy": 2.0 * b + rng.normal(0.0, 0.01, N) * b,
        "gaps": gaps,
        "square": b**2,
        "sent": sent,
        "received": received,
        "steps": rng.integers(3, size=N) * 1.0,
        "more": rng.integers(3, size=N) * 2.0,
        "still": np.where(np.arange(N) < N - 5, 1.0, b),
    }

    assert numbers(**{name: column.tolist() for name, column in fields.items()}) == {}


def test_label_in_another_coding_is_found() -> None:
    """Also with one of few records that differ: then it alone predicts nearly all."""
    labels = drawn(7)
    code = ["J" if y else "N" for y in labels]

    assert one(code, labels).fields["x"].startswith("is the label in another coding: each of its")
    assert (
        one(["N" if code[0] == "J" else "J", *code[1:]], labels)
        .fields["x"]
        .startswith("alone predicts 99.9% of the labels")
    )


@pytest.mark.parametrize(
    ("of_class", "of_others", "found"),
    [(0.9, 0.0, True), (0.9, 0.001, True), (0.3, 0.0, False), (0.9, 0.2, False)],
)
def test_number_that_is_not_0_only_for_one_class_is_found(of_class, of_others, found) -> None:
    """As a tip that only cards have; not if most of the class, or others too, have 0."""
    rng, labels = np.random.default_rng(8), drawn(9, 0.5, 4000)
    there = [rng.random() < (of_class if y else of_others) for y in labels]
    tips = [round(rng.uniform(1, 9), 2) if given else 0.0 for given in there]

    why = one(tips, labels, "numeric").fields.get("x", "")
    assert why.startswith("is not 0 ") is found
    if found:
        assert "only where fraud is true (" in why
        assert "% of that class)" in why


def test_field_whose_values_are_the_label_is_found() -> None:
    """Also with noise in one of a hundred records, and beside values that are missing."""
    labels = drawn(3, 0.4)
    values = [f"code {y != (i % 100 == 0)}" if i % 10 else None for i, y in enumerate(labels)]
    noisy = one(values, labels).fields
    exact = one([f"code {y}" for y in labels], labels).fields

    assert exact["x"].startswith("is the label in another coding")
    assert noisy == {}  # a tenth is missing, so it avoids 90 % of the mistakes


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e12])
def test_number_that_separates_the_classes_is_found(scale: float) -> None:
    """At any scale, by an interval: neither end is the class."""
    rng = np.random.default_rng(4)
    x = rng.random(5 * N)
    labels = ((x > 0.3) & (x < 0.6)).tolist()

    found = one((x * scale).tolist(), labels, "numeric").fields["x"]

    assert found.startswith("alone predicts 99.")


def test_id_is_found() -> None:
    """Row numbers in any order, and names that hardly repeat. Those of merchants do."""
    labels = drawn(5)
    rows = np.random.default_rng(5).permutation(N).tolist()
    sessions = [f"s{i if i % 50 else 0}" for i in range(N)]
    merchants = [f"m{i % 700}" for i in range(N)]

    assert one(rows, labels, "numeric").fields["x"] == (
        "looks like an id or a row number: all 1,000 values are distinct; remove it"
    )
    assert one(sessions, labels).fields["x"] == (
        "looks like an id: 981 of 1,000 values are distinct; remove it"
    )
    assert "x" not in one(merchants, labels).fields


@seeds(0.075)
def test_chance_is_no_pitfall(seed: int) -> None:
    """Fields without any relation to the label, rare classes and missing values among them."""
    rng = np.random.default_rng(seed)
    labels = drawn(seed + 100, rng.choice([0.03, 0.5, 0.9]))
    columns: dict[Kind, list[Any]] = {
        "numeric": [None if rng.random() < 0.2 else float(v) for v in rng.normal(size=N)],
        "binary": (rng.random(N) < 0.01).tolist(),
        "categorical": [
            f"v{v}" if rng.random() < 0.01 else None for v in rng.integers(200, size=N)
        ],
        "text": [f"words {i} of {i * i} records" for i in range(N)],
    }

    for kind, values in columns.items():
        assert one(values, labels, kind).lines() == [], kind


def test_strong_field_is_no_pitfall() -> None:
    """Right in nine of ten, as a good field is."""
    labels = drawn(6)
    rng = np.random.default_rng(6)

    assert one([y + rng.normal() * 0.39 for y in labels], labels, "numeric").lines() == []


def test_prices_are_no_row_numbers() -> None:
    """Whole numbers that differ, but far apart."""
    rng = np.random.default_rng(7)
    prices = rng.choice(100_000, size=N, replace=False).tolist()

    assert one(prices, drawn(7), "numeric").lines() == []


def test_sorted_labels_are_found() -> None:
    """By class, but not labels that come in natural runs."""
    labels = sorted(drawn(8, 0.3))
    runs = [y for y in drawn(9, n=100) for _ in range(10)]

    [line] = one([i % 7 for i in range(N)], labels).lines()

    assert line.startswith("the labels look sorted: fraud changes 1 time in 1,000 records, in ")
    assert one([i % 7 for i in range(N)], runs).lines() == []


def test_labels_in_a_few_long_runs_are_found() -> None:
    """As of a table that is sorted by other fields, and then by the label."""
    labels = [y for y in (0, 1) * 8 for _ in range(60)]

    found = one([i % 7 for i in range(len(labels))], labels)

    [line] = found.lines()
    assert line.startswith("the labels come in long runs: fraud changes 15 times in 960 records")
    assert line.endswith("if the records are not in the order of their time, shuffle them")
    assert not found.in_order


def test_labels_that_never_repeat_are_found() -> None:
    """Some do, but most are an id's."""
    labels = [f"case {i}" if i % 4 else "none" for i in range(100)]

    assert one([i % 7 for i in range(100)], labels).labels == [
        "75 of 100 labels never repeat: fraud looks like an id or a measurement; name a field that "
        "holds classes"
    ]


def test_records_without_a_label_are_not_used() -> None:
    """They say nothing of the field."""
    labels: list[Any] = drawn(10, 0.3)
    values = [f"code {y}" for y in labels]
    few = [y if i < 99 else [None, float("nan")][i % 2] for i, y in enumerate(labels)]

    assert one(values, few).lines() == []
    assert one(values, labels).lines() != []
    assert one([], []).lines() == []


def test_hostile_values_are_no_error() -> None:
    """Integers beyond every float, infinity, lists and objects, 1 beside true, a nested field."""
    values: list[Any] = [10**400, float("inf"), float("nan"), "x", [1], {"a": 1}, True, 1, -0.0]
    column = [values[i % len(values)] if i % 2 else i / 3 for i in range(N)]
    labels = drawn(11)

    for kind in ("numeric", "binary", "categorical"):
        assert one(column, labels, kind).labels == []
    nested = [{"shop": {"city": str(y)}} for y in labels]
    kinds = [InferredField("shop.city", "categorical", ""), InferredField("gone", None, "")]
    assert list(pitfalls(kinds, nested, labels, "y").fields) == ["shop.city"]


def test_lines_are_bounded_and_progress_is_reported() -> None:
    """With a thousand copies of the label, ten lines and a count."""
    labels = drawn(12)
    names = [f"f{i}" for i in range(MOST_WARNINGS + 5)]
    records = [dict.fromkeys(names, str(y)) for y in labels]
    kinds = [InferredField(name, "categorical", "") for name in names]
    done = []

    found = pitfalls(kinds, records, labels, "y", lambda n, total: done.append((n, total)))

    assert len(found.fields) == len(names)
    assert len(found.lines()) == MOST_WARNINGS + 1
    assert found.lines()[-1] == "5 more fields of this sort"
    assert done[-1] == (len(names), len(names))
