"""Numbers that are no measurements, and labels that were renamed: each kind from a generator."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta

import numpy as np
import pytest

from consumers.config.sample import infer
from consumers.offline.pitfalls import pitfalls
from consumers.offline.suspicious import names_or_dates, renamed, stands_for_missing

N = 600


def orders(rng: random.Random) -> list[int]:
    """Rising, with gaps: other shops have the numbers between."""
    at, out = rng.randrange(10**3, 10**8), []
    for _ in range(N):
        at += rng.randrange(1, 50)
        out.append(at)
    return out


def phones(rng: random.Random) -> list[int]:
    """Of one country, some of them several times."""
    known = [rng.randrange(10**9, 10**10) for _ in range(N * 4 // 5)]
    return [rng.choice(known) if rng.random() < 0.3 else known[i % len(known)] for i in range(N)]


def epochs(rng: random.Random) -> list[int]:
    """Times in any unit, not in the order of the records."""
    unit = rng.choice([1, 10**3, 10**6, 10**9])
    return [unit * rng.randrange(1_600_000_000, 1_700_000_000) for _ in range(N)]


def dates(rng: random.Random) -> list[int]:
    """Days as 20240331."""
    days = (date(2020, 1, 1) + timedelta(days=rng.randrange(2000)) for _ in range(N))
    return [int(day.strftime("%Y%m%d")) for day in days]


def accounts(rng: random.Random) -> list[int]:
    """In a random order, each once."""
    return rng.sample(range(10**7, 10**8), N)


GENERATORS = [orders, phones, epochs, dates, accounts]

MEASURED = {
    "money": lambda rng: [round(rng.lognormvariate(4, 1), 2) for _ in range(N)],
    "counts": lambda rng: [rng.randrange(40) for _ in range(N)],
    "population": lambda rng: [int(rng.lognormvariate(12, 2)) for _ in range(N)],
    "salary": lambda rng: [rng.randrange(20_000, 99_000) for _ in range(N)],
    "year": lambda rng: [rng.randrange(1950, 2024) for _ in range(N)],
    "temperature": lambda rng: [round(rng.gauss(15, 9), 1) for _ in range(N)],
    "distance": lambda rng: [rng.expovariate(1e-6) for _ in range(N)],
}


@pytest.mark.parametrize("make", GENERATORS)
@pytest.mark.parametrize("seed", range(5))
def test_numbers_that_name_or_date_something_are_warned_of(make, seed: int) -> None:
    """Whatever their field is called, unless they are left out."""
    rng = random.Random(seed)
    values = make(rng)
    records = [{"q": v, "x": rng.random()} for v in values]
    labels = [rng.choice("ab") for _ in range(N)]
    fields = infer(records, set(), text=True)

    if next(f for f in fields if f.name == "q").kind is not None:
        assert "q" in pitfalls(fields, records, labels, "y").fields


@pytest.mark.parametrize("name", MEASURED)
@pytest.mark.parametrize("seed", range(5))
def test_measurements_are_not_warned_of(name: str, seed: int) -> None:
    """Money, counts, years and so on."""
    assert names_or_dates(name, MEASURED[name](random.Random(seed))) is None


def test_a_duration_that_tells_the_label_is_asked_about() -> None:
    """As in bank marketing: the duration of the call is known after its outcome."""
    rng = random.Random(3)
    labels = ["yes" if rng.random() < 0.12 else "no" for _ in range(N)]
    longer = {"yes": 550, "no": 220}
    records = [
        {"duration": int(rng.expovariate(1 / longer[y])), "age": rng.randrange(18, 90)}
        for y in labels
    ]
    found = pitfalls(infer(records, set(), text=True), records, labels, "y").fields

    assert "is it known before the label?" in found["duration"]
    assert "age" not in found


def test_a_duration_that_tells_nothing_is_a_field_like_others() -> None:
    """Of a trip that is booked, for example."""
    rng = random.Random(3)
    records = [{"duration": rng.randrange(600)} for _ in range(N)]
    labels = [rng.choice("ab") for _ in range(N)]

    assert pitfalls(infer(records, set(), text=True), records, labels, "y").fields == {}


@pytest.mark.parametrize("seed", range(20))
def test_renamed_classes_are_named_with_the_record_where_they_begin(seed: int) -> None:
    """Some or all of the classes, at any record; without a change nothing is said."""
    rng = random.Random(seed)
    names = ["ok", "fraud", "review"][: rng.choice([2, 3])]
    changed = rng.sample(names, rng.choice([0, 1, len(names)]))
    where, shares = rng.randrange(300, 900), {"ok": 0.63, "fraud": 0.28, "review": 0.09}
    labels, begins = [], {}
    for i in range(1200):
        name = rng.choices(names, [shares[n] for n in names])[0]
        if i >= where and name in changed:
            name = f"new {name}"
            begins.setdefault(name, i + 1)
        labels.append(name)
    classes = list(dict.fromkeys(labels))
    y = np.array([classes.index(name) for name in labels])

    said = renamed(y, classes, "y")
    assert len(said) == len(changed)
    for name in changed:
        line = f"'new {name}' begins at labelled record {begins[f'new {name}']:,}, where '{name}'"
        assert any(line in each for each in said)


@pytest.mark.parametrize("number", [-9999, -999.9, 999, 99999, -32768, 2147483647])
def test_a_number_that_means_no_value_is_named(number: float) -> None:
    """Loggers of sensors write it; it was learned as a temperature, and nobody heard of it."""
    rng = random.Random(5)
    records = [
        {"temp": number if rng.random() < 0.06 else round(rng.gauss(60, 8), 1)} for _ in range(N)
    ]
    labels = [rng.choice("ab") for _ in range(N)]
    said = pitfalls(infer(records, set(), text=True), records, labels, "y").fields["temp"]

    times = sum(record["temp"] == number for record in records)
    assert said.startswith(f"is {number} in {times:,} of {N:,} values, far from all others")
    assert f"--missing {number} reads a CSV so" in said


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: min(round(rng.lognormvariate(7, 1.5)), 9999),  # cut at a limit
        lambda rng: rng.choice([9.99, 19.99, 99.99, 5.5]),  # prices
        lambda rng: rng.choice([0, 0, 0, 99]),  # all or nothing
        lambda rng: rng.randrange(18, 100),
        lambda rng: rng.expovariate(1 / 500),
    ],
)
def test_large_numbers_are_measurements(draw: Callable[[random.Random], float]) -> None:
    """Those that come only once, that are near others, and the largest price."""
    rng = random.Random(7)
    assert stands_for_missing([draw(rng) for _ in range(N)]) is None
