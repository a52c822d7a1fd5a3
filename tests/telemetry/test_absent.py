"""Declared fields that no observation has."""

from __future__ import annotations

from consumers.telemetry.absent import LOOKED_AT, AbsentFields
from stream.data.schema import Schema
from tests.consumers.feeds import batch, seen, spec, told

FEW = 200


def look(absent: AbsentFields, n: int, **fields) -> list[str]:
    """What a commit of n observations and as many labels tells."""
    records = [seen(str(i), i, **fields) for i in range(n)]
    return absent.look(batch(records + [told(str(i), "p", i) for i in range(n)]))


def test_field_of_no_observation_is_told_once_a_thousand_were_seen() -> None:
    """By its name and not before; then never again. Labels are no observations."""
    absent = AbsentFields(spec(schema=Schema.of(a="numeric", colur="categorical", note="text")))
    said = [look(absent, FEW, a=1.0, colour="red") for _ in range(LOOKED_AT // FEW + 3)]

    assert said[: LOOKED_AT // FEW - 1] == [[]] * (LOOKED_AT // FEW - 1)
    assert said[LOOKED_AT // FEW - 1 :] == [["colur", "note"], [], [], []]


def test_field_of_one_observation_is_there() -> None:
    """Null is no value; one record with a value is enough."""
    absent = AbsentFields(spec(schema=Schema.of(a="numeric", b="numeric")))
    first = look(absent, LOOKED_AT - 1, a=None, b=2.0)

    assert [first, look(absent, 1, a=0.0)] == [[], []]


def test_large_commit_is_looked_at_in_its_first_thousand_only() -> None:
    """What comes later came too late to be called there from the beginning."""
    absent = AbsentFields(spec(schema=Schema.of(a="numeric")))
    records = [seen(str(i), i, **({"a": 1.0} if i >= LOOKED_AT else {})) for i in range(1500)]

    assert absent.look(batch(records)) == ["a"]


def test_a_refused_observation_says_nothing_about_its_fields() -> None:
    """A field with a value of the wrong kind is there: it is no misspelt name."""
    absent = AbsentFields(spec(schema=Schema.of(a="numeric", b="numeric")))

    assert look(absent, LOOKED_AT, a="1,5") == []
    assert look(absent, LOOKED_AT, a=1.5) == ["b"]
