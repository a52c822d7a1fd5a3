"""Covariances against two-pass sums in extended precision, on data made to lose digits."""

from __future__ import annotations

from math import log, pi

import numpy as np
import pytest

from stream import Block, Rows
from stream.bayes.gaussian_bayes import GaussianBayes
from stream.data.block import LEARN
from tests.oracles.covariance import exact_determinant, two_pass

RNG = np.random.default_rng(11)
NOISE = RNG.normal(size=(2000, 3)) @ RNG.normal(size=(3, 3))
CASES = {
    "a billion and noise": NOISE + np.array([1e9, -1e9, 3e9]),
    "scales of 1e-12 and 1e12": NOISE * np.array([1e-12, 1.0, 1e12]),
    "scales far from zero": (NOISE + 1e3) * np.array([1e-12, 1.0, 1e12]),
    "a constant": np.column_stack((NOISE, np.full(2000, 7.1))),
    "duplicates": np.column_stack((NOISE, NOISE[:, 0], NOISE[:, 1])),
    "nearly collinear": np.column_stack((NOISE, NOISE[:, 0] + 1e-7 * NOISE[:, 1])),
    "outliers": np.where(RNG.random((2000, 3)) < 0.01, 1e8, 1.0) * NOISE,
    "sorted": np.sort(NOISE, axis=0),
}


def rows_of(values) -> Rows:
    """Columns f0, f1, … ."""
    n, d = values.shape
    none = np.empty((n, 0), dtype=object)
    return Rows(tuple(f"f{j}" for j in range(d)), np.ascontiguousarray(values), (), none, (), none)


def fitted(values, ws=1.0, **parameters) -> GaussianBayes:
    """One class that has learned the rows."""
    model = GaussianBayes(ridge=0.0, **parameters)
    model.progressive_many(Block.of(rows_of(values), LEARN, ["y"] * len(values), ws))
    return model


def matrix(model: GaussianBayes, label: str = "y"):
    """The covariances of a class, as rows."""
    table = model.covariances[label]
    return np.array([[table[f][g] for g in table] for f in table])


def worst(got, expected) -> float:
    """The largest error, in units of the two standard deviations."""
    root = np.sqrt(np.diag(expected))
    root[root == 0] = 1
    return float(np.max(np.abs(got - expected) / np.outer(root, root)))


@pytest.mark.parametrize("covariance", ["full", "pooled"])
@pytest.mark.parametrize("name", CASES)
def test_covariances_are_exact_to_ten_digits(name, covariance) -> None:
    """Relative to the standard deviations, whatever the data."""
    values = CASES[name]

    assert worst(matrix(fitted(values, covariance=covariance)), two_pass(values)) < 1e-10


def test_weighted_covariances_are_exact_to_ten_digits() -> None:
    """Weights from a millionth to a million."""
    values, ws = CASES["a billion and noise"], 10.0 ** RNG.uniform(-6, 6, size=2000)

    assert worst(matrix(fitted(values, ws)), two_pass(values, ws)) < 1e-10


def test_a_million_records_lose_no_digits() -> None:
    """Rounding of a million rotations stays below 1e-10."""
    n = 1_000_000
    values = np.random.default_rng(12).normal(size=(n, 3)) @ RNG.normal(size=(3, 3)) + 1e5

    assert worst(matrix(fitted(values)), two_pass(values)) < 1e-10


def test_a_nearly_collinear_column_keeps_its_conditional_variance() -> None:
    """One part in 1e14 of the variance: sums of products in doubles would leave no digit of it."""
    values = CASES["nearly collinear"][:300, [0, 3]]
    model = fitted(values)
    said = model.joint_log_likelihood_one(dict(model.means["y"]))["y"]
    determinant = float(exact_determinant(values.tolist()))

    # The mean itself is rounded, so its residual is not 0 but small.
    assert said == pytest.approx(-log(2 * pi) - 0.5 * log(determinant), abs=1e-6)


def test_scales_of_one_row_do_not_mix() -> None:
    """1e-12 and 1e12 side by side: each answer is that of the features in units of their own."""
    scale = np.array([1e-12, 1.0, 1e12])
    plain, scaled = fitted(NOISE), fitted(NOISE * scale)
    x = NOISE[5] + 0.1
    one = plain.joint_log_likelihood_one({f"f{j}": float(v) for j, v in enumerate(x)})["y"]
    there = {f"f{j}": float(v) for j, v in enumerate(x * scale)}

    assert scaled.joint_log_likelihood_one(there)["y"] == pytest.approx(one, rel=1e-9)


def test_duplicated_columns_do_not_count_twice() -> None:
    """Without a ridge a copy only stretches its direction, by the root of 2: distances stay."""
    plain, doubled = fitted(NOISE), fitted(CASES["duplicates"])
    x = {f"f{j}": float(v) for j, v in enumerate(NOISE[9] + 0.2)}
    copied = x | {"f3": x["f0"], "f4": x["f1"]}

    # Two copies, so the support has twice the volume.
    expected = plain.joint_log_likelihood_one(x)["y"] - np.log(2.0)
    assert doubled.joint_log_likelihood_one(copied)["y"] == pytest.approx(expected, rel=1e-9)
