"""`[input] numbers_as_text`: a text that is a number is read as it, by every path alike."""

from __future__ import annotations

import json
import random
from decimal import Decimal, InvalidOperation
from pathlib import Path

import numpy as np
import pytest

from consumers.base.errors import ConfigError
from consumers.codecs.json import JsonObservations
from consumers.commands.init import init
from consumers.config import load, parse
from stream.data.schema import Schema

SCHEMA = Schema.of(**{"amount": "numeric", "pay.total": "numeric", "note": "categorical"})
TEXTS = ["12.50", " 7 ", "-0.00", "+3", ".5", "5.", "1e3", "NA", "", "12,50", "x", "0x1", "nan"]
TEXTS += ["inf", "1e999", "1e101", "٣", "1_000", "9" * 30, "1" * 500]


def oracle(cell: object) -> float | str | None:
    """What a cell means: a number, missing (None), or why it cannot be used."""
    if isinstance(cell, str):
        if cell.strip() in ("", "NA", "nan"):
            return None
        try:
            number = float(Decimal(cell.strip(" ")))
        except InvalidOperation:
            return "bad"
        allowed = set("0123456789.+-eE ")
        if not set(cell) <= allowed or len(cell) > 400:
            return "bad"
        cell = number
    if cell is None:
        return None
    return float(cell) + 0.0 if abs(float(cell)) <= 1e100 else "bad"  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_texts_are_the_numbers_that_decimal_reads(seed: int) -> None:
    """Flat and nested, among numbers, in blocks and alone; the rest counts as missing."""
    rng = random.Random(seed)
    cells = [(rng.choice([*TEXTS, 1.5, 7, None]), rng.choice([*TEXTS, 2])) for _ in range(100)]
    values = [
        json.dumps({"id": str(i), "amount": a, "pay": {"total": b}, "note": "7.5"}).encode()
        for i, (a, b) in enumerate(cells)
    ]
    codec = JsonObservations(
        SCHEMA, "id", None, {"NA", "", "nan"}, keep=True, as_text=["amount", "pay.total"]
    )

    block = codec.decode([None] * len(values), values)
    alone = [codec.decode([None], [value]) for value in values]
    wanted = [tuple(map(oracle, pair)) for pair in cells]
    numbers = [[np.nan if w in (None, "bad") else w for w in pair] for pair in wanted]
    np.testing.assert_array_equal(block.rows.numeric, numbers)
    np.testing.assert_array_equal(np.vstack([each.rows.numeric for each in alone]), numbers)
    assert block.rows.categorical[:, 0].tolist() == ["7.5"] * len(values)
    names = ("amount", "pay.total")
    bad = {
        i: tuple(n for n, w in zip(names, pair, strict=True) if w == "bad")
        for i, pair in enumerate(wanted)
    }
    found = {i: tuple(value.field for value in values) for i, values in block.bad.items()}
    assert found == {i: fields for i, fields in bad.items() if fields}
    assert block.converted == sum(each.converted for each in alone)


def test_without_the_key_a_text_does_not_fit() -> None:
    """Learners take no text for a number, whatever it looks like."""
    found = JsonObservations(SCHEMA, "id", None).decode([None], [b'{"id":"a","amount":"12.50"}'])

    assert found.rejected[0].reason == "wrong_kind"


def test_the_key_names_numeric_fields() -> None:
    """Else it would have no effect."""
    text = (
        'name = "s"\n[input]\ntransport = "memory:x"\nobservations = "o"\n'
        'numbers_as_text = ["amount"]\n[features]\namount = "categorical"\n'
    )
    with pytest.raises(ConfigError, match="'amount' is not numeric in \\[features\\]"):
        parse(text)


def test_init_proposes_the_key_for_decimals_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not for codes with leading zeros, nor for whole numbers, which may be codes too."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": i, "amount": f"{i}.50", "zip": f"0{i % 9}.1", "code": str(1000 + i), "y": i % 2 == 0}
        for i in range(100)
    ]
    Path("s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    init("s.jsonl", label="y", no_look=True)

    config = load(Path("s.toml"))
    assert config.input.numbers_as_text == ("amount",)
    assert config.features == {"amount": "numeric", "zip": "categorical"}
    assert "written as text: [input] numbers_as_text reads them" in capsys.readouterr().out
