"""What is told of a posterior: the most probable classes first, as an obvious sort has them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream.learner.predictions import Predictions

rows = st.integers(0, 6).flatmap(
    lambda classes: st.lists(
        st.tuples(
            st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5]), min_size=classes, max_size=classes),
            st.integers(0, classes),
        ),
        min_size=1,
        max_size=5,
    )
)


@given(rows, st.integers(1, 7))
def test_ranked_is_a_stable_sort_of_what_was_known(rows, top) -> None:
    """Equals stand as they were learned, a known class of probability 0 is told, others are not."""
    classes = [f"c{j}" for j in range(len(rows[0][0]))]
    known = np.array([k for _, k in rows])
    proba = np.array([row for row, _ in rows]).reshape(len(rows), len(classes))
    proba[np.arange(len(classes)) >= known[:, None]] = 0.0
    made = Predictions(classes, proba, known)  # type: ignore[arg-type]

    assert made.ranked(top) == [
        sorted(zip(classes[:k], row, strict=False), key=lambda pair: -pair[1])[:top]
        for k, row in zip(known.tolist(), proba.tolist(), strict=True)
    ]
