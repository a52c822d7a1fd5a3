"""The fast parts of a search equal the plain ones, for ties, gaps and windows of any size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.neighbors._kernels.search import (
    FEW_LANES,
    GROUP,
    add_two,
    add_two_full,
    collect,
    collect_by_lane,
    fold,
    never_nan,
)

SIZES = st.integers(1, 5 * GROUP)
VALUES = st.sampled_from([0.0, -0.0, 1.0, -2.5, 1e-300, 1e300, -1e308])


@given(n=SIZES, kinds=st.sampled_from([1, 2, 7, 100, 10**6]), share=st.floats(0, 1), seed=SIZES)
def test_candidates_of_a_few_lanes_are_those_of_all(n, kinds, share, seed) -> None:
    """Also where so many distances are equal that most lanes have a candidate."""
    acc = np.random.default_rng(seed).integers(0, kinds, n).astype(np.float64)
    acc[acc > kinds * 0.9] = np.inf
    bound = float(np.quantile(acc, share, method="lower"))
    lane = np.full(GROUP, np.inf)
    fold(acc, lane)
    near, found = np.zeros((2, n + 1), dtype=np.int64), np.zeros((2, n + 1))
    which = np.empty(GROUP, dtype=np.int64)
    expected = collect(acc, bound, near[0], found[0])
    count = collect_by_lane(acc, lane, bound, which, near[1], found[1])

    assert count == expected == (acc <= bound).sum()
    assert (
        near[0, :count].tolist()
        == near[1, :count].tolist()
        == np.flatnonzero(acc <= bound).tolist()
    )
    assert found[0, :count].tolist() == found[1, :count].tolist()


@pytest.mark.parametrize("lanes", [FEW_LANES, FEW_LANES + 1])
def test_number_of_lanes_at_the_limit_changes_nothing(lanes) -> None:
    """One lane more goes the plain way."""
    acc = np.ones(3 * GROUP + 5)
    acc[:lanes] = acc[GROUP] = 0.0
    lane, which = np.full(GROUP, np.inf), np.empty(GROUP, dtype=np.int64)
    fold(acc, lane)
    near, found = np.zeros(acc.size + 1, dtype=np.int64), np.zeros(acc.size + 1)

    assert collect_by_lane(acc, lane, 0.5, which, near, found) == lanes + 1
    assert near[: lanes + 1].tolist() == [*range(lanes), GROUP]


@given(
    u=VALUES,
    v=VALUES,
    f=st.sampled_from([1e-300, 0.5, 1e40]),
    g=st.sampled_from([1e-9, 3.0]),
    cells=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=20),
)
def test_columns_without_missing_values_are_added_alike(u, v, f, g, cells) -> None:
    """To the bit, also where a difference overflows."""
    a, b = np.array(cells).T.copy()
    plain, full = np.zeros((2, a.size))
    add_two(a, u, f, 9.0, b, v, g, 9.0, plain)
    add_two_full(a, u, f, b, v, g, full)

    assert never_nan(u, f, v, g)
    assert plain.tobytes() == full.tobytes()


@pytest.mark.parametrize(
    "query",
    [(np.inf, 1.0, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0), (0.0, 1.0, -np.inf, 1.0), (0.0, 1.0, 1.0, 0.0)],
)
def test_query_whose_differences_may_be_no_numbers_is_found(query) -> None:
    """Infinity less infinity, and infinity times 0."""
    assert not never_nan(*query)
