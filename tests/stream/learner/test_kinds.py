"""The kinds of fields each learner says it learns from are those it learns from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stream
from stream.checks.streams import takes
from stream.data.block import LEARN, PREDICT, Block, Rows
from stream.data.schema import KINDS, Field, Kind, Schema
from stream.learner.registry import facts_of, learners, tables

# Of two classes, in the fields f and g: values that tell them apart however a learner reads them.
VALUES: dict[Kind, tuple[tuple[Any, Any], tuple[Any, Any]]] = {
    "numeric": ((0.0, 5.0), (5.0, 0.0)),
    "binary": ((0.0, 1.0), (1.0, 0.0)),
    "categorical": (("a", "c"), ("b", "d")),
    "text": (("free money", "now"), ("see you", "at noon")),
}

RECORDS = 120  # a tree looks for its first test after 100


def rows_of(kind: Kind) -> Rows:
    """Records of two fields of a kind, the classes in turn."""
    rows = Rows.empty(Schema((Field("f", kind), Field("g", kind))), RECORDS)
    columns = {"categorical": rows.categorical, "text": rows.text}.get(kind, rows.numeric)
    for i in range(RECORDS):
        columns[i] = VALUES[kind][i % 2]
    if kind == "numeric":
        columns += np.arange(RECORDS)[:, None] / (10 * RECORDS)
    return rows


def difference(name: str, kind: Kind) -> float:
    """By how much the posterior of a class depends on the fields."""
    learner = learners()[name]()
    rows = rows_of(kind)
    if not takes(learner, 0.5):
        rows.numeric[:] = np.floor(rows.numeric)
    rows = learner.prepare(rows)
    learner.progressive_many(Block.of(rows, LEARN, ["x", "y"] * (RECORDS // 2), 1.0))
    posterior = learner.progressive_many(Block.of(rows, PREDICT)).proba
    return float(np.ptp(posterior[:, 0]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", learners())
def test_learner_uses_exactly_the_kinds_it_names(name: str, kind: Kind) -> None:
    """Fields of the others may hold what they will."""
    used = kind in learners()[name].kinds

    assert difference(name, kind) > 0.1 if used else difference(name, kind) == 0.0


@pytest.mark.parametrize("name", learners())
def test_learner_says_how_it_reads_each_kind_that_it_uses(name: str) -> None:
    """And of no other kind."""
    assert set(facts_of(name).reads) == set(learners()[name].kinds)


def test_tables_of_learners_are_those_of_the_registry() -> None:
    """docs/learners.md; no learner is left out, and river's row stays."""
    page = tables((Path(__file__).parents[3] / "docs/learners.md").read_text())

    assert all(page.count(f"\n| `{name}` | ") >= 2 for name in [*learners(), "river:MODULE.CLASS"])


def test_every_learner_that_is_shipped_can_be_imported_from_the_package() -> None:
    """`from stream import GaussianNB`, whatever room it is in."""
    assert {name: getattr(stream, name) for name in learners()} == learners()
    assert set(learners()) < set(stream.__all__)
