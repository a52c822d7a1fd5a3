"""One rule for values: what is missing, what is a number and what is a truth value, in dicts and in
tables, for every learner."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stream import InvalidRecordError, Learner, Schema
from stream.data.schema import KINDS, Field, Kind
from stream.learner.registry import learners

MISSING = [
    *(None, float("nan"), np.float64("nan"), np.float32("nan"), Decimal("NaN"), Decimal("sNaN")),
    *(pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT")),
]
NUMBERS = [3, 3.0, np.int8(3), np.float32(3), np.uint64(3), Decimal(3), Decimal("3.0")]
TRUTHS = [True, np.True_]
NAMES = sorted(learners())


def made(name: str, kind: Kind | None) -> Learner:
    """A learner that reads the field as declared; None: as it likes."""
    given = {"PerKeyNB": {"per": "key"}}.get(name, {})
    learner = learners()[name](**given)
    return learner if kind is None else learner.declare(Schema((Field("a", kind),)))


def doors(learner: Learner, value: Any) -> list[list[dict[str, Any]]]:
    """The rows of a record, of the same one in a list of many, and in a table of objects."""
    many = [{"a": value}] * 20
    frame = pd.DataFrame({"a": pd.Series([value] * 20, dtype=object)})
    return [learner.columns(given).dicts() for given in ([{"a": value}], many, frame)]


def refused(learner: Learner, value: Any) -> list[str | None]:
    """Why each of the doors refuses it."""
    reasons: list[str | None] = []
    many = [{"a": value}] * 20
    for given in ([{"a": value}], many, pd.DataFrame({"a": pd.Series([value] * 20, dtype=object)})):
        try:
            learner.columns(given)
            reasons.append(None)
        except InvalidRecordError as error:
            reasons.append(error.reason)
    return reasons


@pytest.mark.parametrize("kind", [None, *KINDS])
@pytest.mark.parametrize("name", NAMES)
def test_missing_value_is_missing_by_any_name(name, kind) -> None:
    """pandas' NA and NaT were missing in a table, and refused in a dict."""
    learner = made(name, kind)
    for value in MISSING:
        for rows in doors(learner, value):
            assert not any(rows), value


@pytest.mark.parametrize("name", NAMES)
def test_number_of_any_type_is_the_same_number(name) -> None:
    """Decimals too, in each kind of field that takes numbers."""
    for kind, value in (("numeric", 3.0), ("categorical", "3")):
        for number in NUMBERS:
            for rows in doors(made(name, kind), number):
                assert rows == [{"a": value}] * len(rows), number
    for rows in doors(made(name, "binary"), Decimal(1)):
        assert rows == [{"a": 1.0}] * len(rows)


@pytest.mark.parametrize("name", NAMES)
def test_truth_value_is_one_thing_in_a_field(name) -> None:
    """Refused where a number is declared, 1 or "true" where a truth value or a category is; and in
    a field without a kind what the learner reads."""
    free = {str(rows[0]) for truth in TRUTHS for rows in doors(made(name, None), truth)}

    assert free in ({"{'a': 1.0}"}, {"{'a': 'true'}"})
    for truth in TRUTHS:
        assert refused(made(name, "numeric"), truth) == ["wrong_kind"] * 3
        assert refused(made(name, "text"), truth) == ["wrong_kind"] * 3
        for kind, value in (("binary", 1.0), ("categorical", "true")):
            assert all(rows[0] == {"a": value} for rows in doors(made(name, kind), truth))


@pytest.mark.parametrize("name", NAMES)
def test_text_of_a_number_is_no_number(name) -> None:
    """Only a decoder of records converts it. Where a learner reads only numbers, it is refused, and
    else it is a category or a text."""
    learner = made(name, None)
    for text in ("3", "3.5", " 3", "1e3", np.str_("3")):
        for kind in ("numeric", "binary"):
            assert refused(made(name, kind), text) == ["wrong_kind"] * 3
        if learner.strings == "refused":
            assert refused(learner, text) == ["wrong_kind"] * 3
        else:
            assert all(rows[0] == {"a": text} for rows in doors(learner, text))
