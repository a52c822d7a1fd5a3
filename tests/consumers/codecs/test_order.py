"""Observations and labels in their order, compared with a loop over the records."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from consumers.codecs.columns import in_order
from consumers.codecs.json import DecodedLabels, DecodedObservations
from stream.data.block import Rows
from stream.data.schema import Schema
from stream.data.sequences import CodedColumn, TextColumn

KINDS = st.sampled_from(
    ["observation", "label", "rejected observation", "rejected label", "passed"]
)


def one_by_one(kinds: list[str], *, reporters: bool) -> list[tuple[Any, ...]]:
    """Place, id, row, label, weight, reporter and dead letters before it of each usable record."""
    out: list[tuple[Any, ...]] = []
    rows = heard = dead = 0
    for i, kind in enumerate(kinds):
        observation, usable = kind.endswith("observation"), kind in ("observation", "label")
        if usable and observation:
            out.append((i, f"o{rows}", rows, ["in", rows], 1.0, None, dead))
        elif usable:
            who = f"r{heard}" if reporters else None
            out.append((i, f"l{heard}", -1, heard, heard + 0.5, who, dead))
        dead = 0 if usable else dead + 1
        rows += observation
        heard += kind.endswith("label")
    return [*out, (dead,)]


@given(st.lists(KINDS), st.booleans(), st.booleans())
def test_order_is_that_of_the_records(kinds, reporters, arrays) -> None:
    seen = np.array([i for i, k in enumerate(kinds) if k.endswith("observation")], dtype=np.int64)
    heard = np.array([i for i, k in enumerate(kinds) if k.endswith("label")], dtype=np.int64)
    rejected = {i for i, k in enumerate(kinds) if k not in ("observation", "label")}
    empty, m, n = Rows.empty(Schema.of(x="numeric")), seen.size, heard.size
    x = DecodedObservations(empty, [f"o{k}" for k in range(m)], [["in", k] for k in range(m)], {})
    names: list[str | None] | None = [f"r{k}" for k in range(n)] if reporters else None
    weights = [k + 0.5 for k in range(n)]
    y = DecodedLabels([f"l{k}" for k in range(n)], list(range(n)), weights, {}, names)
    times = np.arange(len(kinds)) * 10
    if arrays:
        for each in (x, y):
            each.ids = TextColumn.of(each.ids)
            each.labels = CodedColumn(each.labels, np.arange(len(each.labels)))

    events, at = in_order(times, (seen, x), (heard, y), rejected)

    *expected, (last,) = one_by_one(kinds, reporters=reporters)
    columns = [at, events.ids, events.row, events.labels, events.weights]
    found = [tuple(c[k] for c in columns) for k in range(len(at))]
    assert found == [row[:5] for row in expected]
    assert events.times.tolist() == [10 * row[0] for row in expected]
    assert list(events.reporters or [None] * len(at)) == [row[5] for row in expected]
    before = [row[6] for row in expected]
    assert events.dead == [*before, last] if rejected else events.dead is None
