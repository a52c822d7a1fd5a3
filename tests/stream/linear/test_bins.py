"""Bins of LogisticRegression: heavy tails, their error, merging, blocks, damage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stream import Block, LogisticRegression, State, StateError
from stream.data.block import PREDICT_THEN_LEARN
from stream.linear.bins import ENTRIES
from tests.oracles.discretizer import rank_error

DRAWN = {
    "normal": lambda rng, n: rng.normal(size=n),
    "lognormal": lambda rng, n: np.exp(5.0 * rng.normal(size=n)),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "rising": lambda rng, n: np.arange(float(n)),
}


def learned(values: Any, bins: int = 16) -> LogisticRegression:
    """Bins of a number; the labels say nothing."""
    model = LogisticRegression(n_bins=bins)
    model.learn_many([{"a": v} for v in values.tolist()], ["p", "q"] * (len(values) // 2))
    return model


def cuts(model: LogisticRegression) -> list[float]:
    """Where the bins of the one number end."""
    return model._bins.cut[0].tolist()


@pytest.mark.parametrize("sigma", [1.0, 3.0, 5.0])
def test_half_of_a_heavy_tailed_amount_is_told_from_the_other(sigma) -> None:
    """Bins by mean and deviation had all but a few of the amounts in one bin: 52 % were right."""
    rng = np.random.default_rng(1)
    amounts = np.exp(sigma * rng.normal(size=(4000, 2)))
    xs = [{"amount": a, "other": b} for a, b in amounts.tolist()]
    ys = ["high" if a > 1.0 else "low" for a in amounts[:, 0].tolist()]
    model = LogisticRegression(n_bins=16)
    found = model.progressive_many(Block.of(model.rows(xs), PREDICT_THEN_LEARN, ys)).dicts()

    right = [max(p, key=p.__getitem__) == y for p, y in zip(found[1000:], ys[1000:], strict=True)]
    assert np.mean(right) > 0.93


@pytest.mark.parametrize("name", DRAWN)
def test_bins_have_about_equal_weights(name) -> None:
    """Of all values, though most of them were not added to the summary."""
    values = DRAWN[name](np.random.default_rng(2), 6000)

    assert rank_error(values.tolist(), cuts(learned(values))) < 0.12


@pytest.mark.parametrize("name", DRAWN)
def test_merged_bins_have_about_equal_weights(name) -> None:
    """Of the values of both, also where the values of one are all above those of the other."""
    values = DRAWN[name](np.random.default_rng(3), 6000)
    one, other = learned(values[:2000]), learned(values[2000:])
    one.merge(other)

    assert rank_error(values.tolist(), cuts(one)) < 0.15
    assert one._bins.n[0] == 6000.0


def test_value_with_much_weight_has_a_bin_of_its_own() -> None:
    """Of gains that are mostly 0, most bins are for the others; so are those of counts."""
    rng = np.random.default_rng(7)
    gains = np.where(rng.random(6000) < 0.9, 0.0, rng.lognormal(8.0, 1.0, 6000))
    found = cuts(learned(gains))

    assert found[0] == 0.0
    assert rank_error(gains[gains > 0.0].tolist(), found[1:]) < 0.2
    assert cuts(learned(rng.integers(3, size=500) * 7.0, 5)) == [0.0, 7.0, 14.0, 14.0]


def test_few_values_are_all_in_the_summary() -> None:
    """Then the bins are the quantiles, but for the last few."""
    values = np.random.default_rng(4).permutation(64).astype(float)

    assert cuts(learned(values, 4)) == pytest.approx([15.0, 31.0, 47.0], abs=3.0)


def test_newer_values_count_more_with_a_half_life() -> None:
    """The bins move to where the number is now."""
    values = np.concatenate((np.zeros(3000), np.full(3000, 1.0)))
    values += np.random.default_rng(5).uniform(0.0, 0.1, 6000)
    model = LogisticRegression(n_bins=4, half_life=200)
    model.learn_many([{"a": v} for v in values.tolist()], ["p", "q"] * 3000)

    assert min(cuts(model)) > 0.9


def test_restored_bins_learn_as_the_saved_ones_do() -> None:
    """To the last bit, between two values of the summary too."""
    values = DRAWN["cauchy"](np.random.default_rng(6), 1500)
    one, other = learned(values[:1000]), LogisticRegression(n_bins=16)
    other.load_state(one.to_state())
    for model in (one, other):
        model.learn_many([{"a": v} for v in values[1000:].tolist()], ["p", "q"] * 250)

    assert one.to_state() == other.to_state()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", np.array([ENTRIES + 1])),
        ("size", np.array([3])),
        ("size", np.zeros(0, dtype=np.int64)),
        ("weight", np.full(20, -1.0)),
        ("own", np.full(20, 2.0)),
        ("slack", np.full(20, 21.0)),
        ("value", np.full(20, np.nan)),
        ("cut", np.zeros((1, 5))),
        ("n", np.array([np.inf])),
    ],
)
def test_damaged_bins_are_refused(name, value) -> None:
    """A summary that cannot be compressed would be written beyond its end."""
    state = learned(np.arange(20.0)).to_state()
    arrays = {**state.arrays, f"binned_{name}": value}

    with pytest.raises(StateError):
        LogisticRegression(n_bins=16).load_state(State(state.header, arrays))
