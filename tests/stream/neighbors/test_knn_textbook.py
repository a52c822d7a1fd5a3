"""Zaki and Meira, chapter 18.3, example 18.5: the K nearest neighbours of (6.75, 4.25)."""

from __future__ import annotations

from math import pi, sqrt

import pytest

from stream.data.block import LEARN, Block
from stream.neighbors import KNNClassifier

X = {"length": 6.75, "width": 4.25}


def learned(iris, k: int, *, one_by_one: bool = True) -> KNNClassifier:
    """The 150 records, unscaled, as in the book."""
    model = KNNClassifier(k, 150, scale=None)
    xs, ys = iris
    if one_by_one:
        for x, y in zip(xs, ys, strict=True):
            model.learn_one(x, y)
    else:
        model.progressive_many(Block.of(model.rows(xs), LEARN, ys))
    return model


def test_example_18_5_five_neighbours_are_one_and_four(iris) -> None:
    """K₁ = 1, K₂ = 4, so c2; P(c|x) = 1/5 and 4/5."""
    model = learned(iris, 5)

    assert [n.label for n in model.neighbors_one(X)].count("c1") == 1
    assert model.predict_proba_one(X) == {"c1": 0.2, "c2": 0.8}
    assert model.predict_one(X) == "c2"


def test_example_18_5_the_printed_radius_holds_six_records(iris) -> None:
    """The book prints r = √1.025 = 1.012 with K₁ = 1, K₂ = 4: it counts (6.7, 3.3) once, which
    two records have. With records, K = 5 gives r = 0.9823; r = 1.0124 needs K = 6, and K₂ = 5."""
    five, six = learned(iris, 5).neighbors_one(X), learned(iris, 6).neighbors_one(X)

    assert [round(near[-1].distance, 4) for near in (five, six)] == [0.9823, 1.0124]
    assert six[-1].distance == pytest.approx(sqrt(1.025), rel=1e-14)
    assert [n.label for n in six].count("c2") == 5


def test_example_18_5_densities_are_shares_of_the_class_over_the_volume(iris) -> None:
    """K_i / (n_i · V) with V = π r²; times the prior and normalised it is K_i / K."""
    model = learned(iris, 5)
    radius = model.neighbors_one(X)[-1].distance
    volume = pi * radius**2
    density = model.density_one(X)

    assert density == pytest.approx({"c1": 1 / 50 / volume, "c2": 4 / 100 / volume}, rel=1e-12)
    joint = {"c1": density["c1"] * 50 / 150, "c2": density["c2"] * 100 / 150}
    shares = {c: p / sum(joint.values()) for c, p in joint.items()}
    assert shares == pytest.approx(model.predict_proba_one(X), rel=1e-12)


def test_example_18_5_one_block_gives_the_bits_of_one_record_at_a_time(iris) -> None:
    """State and answers."""
    single, block = learned(iris, 5), learned(iris, 5, one_by_one=False)

    assert single.fingerprint() == block.fingerprint()
    assert single.density_one(X) == block.density_one(X)
    assert single.neighbors_one(X) == block.neighbors_one(X)
