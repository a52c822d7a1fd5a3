"""GaussianNB beside scikit-learn and numpy."""

from __future__ import annotations

import numpy as np
import pytest
from river import datasets
from sklearn.naive_bayes import GaussianNB as ScikitGaussianNB

from stream import (
    Block,
    GaussianNB,
    Rows,
)
from stream.data.block import PREDICT_THEN_LEARN


def table(dataset):
    """Features, labels and names of a dataset of records without gaps."""
    xs, ys = zip(*dataset, strict=True)
    names = sorted(xs[0])
    return np.array([[float(x[name]) for name in names] for x in xs]), np.array(ys), names


def first_spread(values, at) -> int:
    """The first of the records `at` after which they vary in every feature."""
    part = values[at]
    varied = (np.maximum.accumulate(part) > np.minimum.accumulate(part)).all(axis=1)
    assert varied.any()
    return int(at[np.argmax(varied)])


def assert_agrees_with_scikit_learn(values, labels, names, every: int) -> None:
    """Posteriors to 1e-9 at each `every`-th record from the first that scikit-learn can do."""
    learner = GaussianNB(var_smoothing=0)
    rows = Rows.from_dicts([dict(zip(names, row, strict=True)) for row in values.tolist()])
    said = learner.progressive_many(Block.of(rows, PREDICT_THEN_LEARN, labels.tolist()))
    kinds = np.unique(labels)
    first = 1 + max(first_spread(values, np.flatnonzero(labels == kind)) for kind in kinds)
    checked = 0
    column = [learner.classes.index(kind.item()) for kind in kinds]
    for i in range(first, len(values), every):
        scikit = ScikitGaussianNB(var_smoothing=0).fit(values[:i], labels[:i])
        expected = scikit.predict_proba(values[i : i + 1])[0]
        np.testing.assert_allclose(said.proba[i, column], expected, rtol=0, atol=1e-9)
        checked += 1
    assert checked > 50


@pytest.mark.parametrize(
    ("dataset", "every"),
    [(datasets.Phishing(), 1), (datasets.Bananas(), 7), (datasets.ImageSegments(), 3)],
    ids=["Phishing", "Bananas", "ImageSegments"],
)
def test_posteriors_are_scikit_learns(dataset, every) -> None:
    """From the first record where each class has positive variance on each feature."""
    assert_agrees_with_scikit_learn(*table(dataset), every)


def test_posteriors_on_iris_are_scikit_learns(shared_csv) -> None:
    """Three classes, shuffled by a fixed seed."""
    rows = shared_csv("iris/iris.csv.gz")
    order = np.random.default_rng(0).permutation(len(rows))
    data = [(dict(rows[i]), rows[i]["species"]) for i in order]
    for x, _ in data:
        del x["species"]

    assert_agrees_with_scikit_learn(*table(data), every=1)


@pytest.mark.parametrize(("variance", "ddof"), [("ml", 0), ("sample", 1)])
def test_variance_is_numpys(variance, ddof) -> None:
    """`ml` divides by n, `sample` by n - 1."""
    values = np.random.default_rng(6).normal(3, 2, size=50)
    model = GaussianNB(variance=variance)
    model.learn_many([{"x": v} for v in values.tolist()], ["c"] * 50)

    assert model.variances["c"]["x"] == pytest.approx(values.var(ddof=ddof), rel=1e-12)
    assert model.means["c"]["x"] == pytest.approx(values.mean(), rel=1e-12)
