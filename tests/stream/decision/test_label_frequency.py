"""Label frequency: the correction by hand, its bounds, and a stream whose share is known."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream import CategoricalNB
from stream.data.block import Rows
from stream.decision import BayesDecision
from stream.decision.risk import of_classes
from stream.evaluate.progressive import Events, Progressive
from stream.join.join import LabelJoin
from stream.join.label_delay import Silence

# A probability of spam for each cell; the model knows nothing but the cell.
CELLS = {"a": 0.02, "b": 0.1, "c": 0.25, "d": 0.5, "e": 0.9}
SHARE = 0.3
AWAY = BayesDecision({"keep": {"spam": 1.0, "ham": 0.0}, "away": {"spam": 0.0, "ham": 20.0}})


def by_hand(p: list[Fraction], silent: int, c: Fraction) -> list[Fraction]:
    """As in the paper, clipped: other classes at most 1 together."""
    others = [Fraction(0) if i == silent else value / c for i, value in enumerate(p)]
    total = sum(others)
    if total > 1:
        others = [value / total for value in others]
    others[silent] = max(Fraction(1) - total, Fraction(0))
    return others


@given(
    st.lists(st.integers(0, 1000), min_size=2, max_size=12).filter(any),
    st.integers(0, 11),
    st.integers(1, 1000),
)
def test_each_row_is_that_of_the_paper_clipped(weights, silent, c) -> None:
    """In fractions."""
    silent %= len(weights)
    exact = [Fraction(w, sum(weights)) for w in weights]
    found = of_classes(np.array([[float(p) for p in exact]]), silent, c / 1000)[0]

    expected = [float(p) for p in by_hand(exact, silent, Fraction(c, 1000))]
    assert found.tolist() == pytest.approx(expected, abs=1e-12)
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0, abs=1e-12)


def test_nothing_predicted_stays_nothing_and_certainty_stays_certain() -> None:
    """Also at the smallest frequency."""
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 5e-324]])

    assert of_classes(rows, 0, 0.001)[:3].tolist() == rows[:3].tolist()
    assert of_classes(rows, 0, 0.001)[3].tolist() == pytest.approx([1.0, 0.0])


def test_frequency_of_one_changes_no_bit() -> None:
    """Of what is below one half; the rest is rounded once."""
    rng = np.random.default_rng(0)
    p = rng.random((1000, 1)) / 2

    assert (of_classes(np.hstack([1.0 - p, p]), 0, 1.0)[:, 1] == p[:, 0]).all()


def simulated(frequency: float, seed: int) -> dict[str, float]:
    """Users flag 30 % of the spam that was not put away. The last probability of each cell."""
    rng = Random(seed)
    silence = Silence("ham", 200, frequency=frequency)
    join = LabelJoin(max_pending=2000, horizon=1000, corrections=True, silence=silence)
    machine = Progressive(CategoricalNB(), join, Rows.from_dicts([{"cell": "a"}]), rule=AWAY)
    time, flags, last = 0, [], {}
    for chunk in range(400):
        cells = [rng.choice("abcde") for _ in range(50)]
        ids, rows, labels, times = [], [], [], []
        for id_ in flags:
            ids.append(id_)
            rows.append(-1)
            labels.append("spam")
            times.append(time)
        for row in range(50):
            time += 1
            ids.append(f"{chunk} {row}")
            rows.append(row)
            labels.append(None)
            times.append(time)
        made = Rows.from_dicts([{"cell": cell} for cell in cells])
        found = machine.process(made, Events(ids, rows, labels, [1.0] * len(ids), times))
        flags = []
        for row, (cell, shares) in enumerate(zip(cells, found.predictions.dicts(), strict=True)):
            put_away = shares.get("spam", 0.0) > 20 * shares.get("ham", 1.0)
            spam, reports = rng.random() < CELLS[cell], rng.random() < SHARE
            if spam and reports and not put_away:
                flags.append(f"{chunk} {row}")
            last[cell] = shares.get("spam", 0.0)
    return last


@pytest.mark.parametrize("seed", range(3))  # always these: the bounds leave room for chance
def test_known_share_gives_the_probability_of_the_class(seed) -> None:
    """Without the correction it is that of a flag: three times too small."""
    flag, spam = simulated(1.0, seed), simulated(SHARE, seed)

    for cell in "abcd":
        assert spam[cell] == pytest.approx(CELLS[cell], abs=0.08), cell
        assert flag[cell] == pytest.approx(SHARE * CELLS[cell], abs=0.03), cell
    assert spam["e"] > 0.8
    assert flag["e"] < 0.4
