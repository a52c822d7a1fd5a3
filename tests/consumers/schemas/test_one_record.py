"""A record is compared with its JSON Schema within a bound, whatever both are."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from consumers.base.errors import RecordError
from consumers.codecs.formats.json_schema import FORMAT
from consumers.codecs.schemas import StoredSchema

SECONDS = 2.0  # of CPU time; each took 5 s to days, and takes 0.2 s at most
SLOW = r"^(?:(a+)+\1)+"  # exponential
NO = "a" * 60 + "b"  # does not match it
DOUBLED = {
    "$ref": "#/$defs/0",
    "$defs": {
        **{str(i): {"allOf": [{"$ref": f"#/$defs/{i + 1}"}] * 2} for i in range(12)},
        "12": {"items": {"type": "integer"}},
    },
}
NAMES = {f"{NO}{i}": 1 for i in range(200)}

LONG: dict[str, tuple[Any, Any]] = {
    "patterns of one text": ({"anyOf": [{"pattern": f"{SLOW}{i}"} for i in range(300)]}, NO),
    "patterns of names": ({"patternProperties": {f"{SLOW}{i}$": {} for i in range(20)}}, NAMES),
    "look ahead from everywhere": ({"pattern": "(?=.*b)c"}, "a" * 60_000),
    "patterns of a long text": (
        {"anyOf": [{"pattern": f"x.*y.*z.{{{i}}}q"} for i in range(100)]},
        "xyz" * 200_000,
    ),
    "listed values": (
        {"items": {"enum": [{"a": i} for i in range(5000)]}},
        [{"a": 4999}] * 5000,
    ),
    "names that are not there": (
        {"items": {"required": [f"k{i}" for i in range(5000)]}},
        [{f"k{i}": 1 for i in range(1000)}] * 5,
    ),
    "errors of alternatives": ({"oneOf": [{"propertyNames": {"maxLength": 3}}] * 20}, NAMES),
    "checks of many values": (DOUBLED, [[1] * 100] * 1000),
}


def decoded(schema: Any, record: Any) -> str:
    """Why a record is a dead letter; empty if it is none."""
    whole = {"properties": {"x": {"$ref": "#/$defs/x"}}, "$defs": {"x": schema}}
    if "$defs" in schema:
        whole = {"properties": {"x": schema | {"$defs": {}}}, "$defs": schema["$defs"]}
    read = FORMAT.reader(StoredSchema("JSON", json.dumps(whole)), None)
    try:
        read(json.dumps({"x": record}).encode())
    except RecordError as error:
        return error.detail
    return ""


@pytest.mark.parametrize(("schema", "record"), LONG.values(), ids=LONG)
def test_record_takes_a_bounded_time(schema, record) -> None:
    """Each pattern had a bound on each text; the sum over a record had none."""
    begun = time.thread_time()
    decoded(schema, record)

    assert time.thread_time() - begun < SECONDS


def test_pattern_that_looks_around_takes_large_records() -> None:
    """Anchored, it needs few steps, so the bound of a large record leaves it alone."""
    password = {"pattern": r"^(?=.*[a-z])(?=.*\d).{8,}$"}

    assert decoded(password, "a" * 500_000 + "1") == ""
    assert "does not match" in decoded(password, "aaaaaaa")


def test_error_of_a_small_record_names_what_is_wrong() -> None:
    """Only one that would copy a large record many times is not explained."""
    assert "is not of type" in decoded({"items": {"type": "integer"}}, [1, "a"])
    large = [[1] * 1000] * 5
    assert "too large to say where" in decoded({"items": {"type": "integer"}}, large)


def test_bound_says_what_was_too_much() -> None:
    """And how much the schema asks for."""
    assert "5,000 patterns and listed values" in decoded(*LONG["listed values"])
    assert "each of" in decoded(*LONG["checks of many values"])
