"""The kinds of fields each learner says it learns from are those it learns from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stream
from consumers.config.learner import OWN_MODELS
from stream.data.block import LEARN, PREDICT, Block, Rows
from stream.data.schema import KINDS, Field, Kind, Schema

LEARNERS = sorted(set(OWN_MODELS) - {"auto"})
# Of two classes, in the fields f and g: values that tell them apart however a learner reads them.
VALUES: dict[Kind, tuple[tuple[Any, Any], tuple[Any, Any]]] = {
    "numeric": ((0.0, 5.0), (5.0, 0.0)),
    "binary": ((0.0, 1.0), (1.0, 0.0)),
    "categorical": (("a", "c"), ("b", "d")),
    "text": (("free money", "now"), ("see you", "at noon")),
}


def rows_of(kind: Kind) -> Rows:
    """Forty records of two fields of a kind, the classes in turn."""
    rows = Rows.empty(Schema((Field("f", kind), Field("g", kind))), 40)
    columns = {"categorical": rows.categorical, "text": rows.text}.get(kind, rows.numeric)
    for i in range(40):
        columns[i] = VALUES[kind][i % 2]
    if kind == "numeric":
        columns += np.arange(40)[:, None] / 400
    return rows


def difference(name: str, kind: Kind) -> float:
    """By how much the posterior of a class depends on the fields."""
    learner = getattr(stream, name)()
    rows = learner.prepare(rows_of(kind))
    learner.progressive_many(Block.of(rows, LEARN, ["x", "y"] * 20, 1.0))
    posterior = learner.progressive_many(Block.of(rows, PREDICT)).proba
    return float(np.ptp(posterior[:, 0]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LEARNERS)
def test_learner_uses_exactly_the_kinds_it_names(name: str, kind: Kind) -> None:
    """Fields of the others may hold what they will."""
    used = kind in getattr(stream, name).kinds

    assert difference(name, kind) > 0.1 if used else difference(name, kind) == 0.0


def test_documented_table_of_kinds_is_that_of_the_learners() -> None:
    """docs/learners.md: a word that begins with "ignored" is a kind the learner does not name."""
    page = (Path(__file__).parents[2] / "docs/learners.md").read_text()
    table = page.split("| learner | numeric | binary | categorical | text |\n")[1].split("\n\n")[0]
    told = {}
    for row in table.splitlines()[1:]:
        name, *cells = (cell.strip(" `") for cell in row.removesuffix("|")[1:].split("|"))
        used = {kind for kind, cell in zip(KINDS, cells, strict=True) if "ignored" not in cell}
        told[name.split("`")[0]] = used

    assert told.pop("river:MODULE.CLASS") == set(KINDS)
    assert told == {name: set(getattr(stream, name).kinds) for name in LEARNERS}
