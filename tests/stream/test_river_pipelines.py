"""Learners in pipelines of river, in its wrappers, and under scikit-learn, by tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from river import compat, compose, feature_extraction, multiclass, naive_bayes, preprocessing
from sklearn import pipeline
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB as TheirGaussianNB
from sklearn.preprocessing import StandardScaler

from stream import (
    Calibrated,
    CategoricalNB,
    GaussianNB,
    LogisticRegression,
    MixedNB,
    Mixture,
    MultinomialNB,
    RiverClassifier,
)
from stream.preprocessing import Discretized, Discretizer

RNG = np.random.default_rng(17)
X = RNG.normal(size=(80, 3))
Y = np.where(X[:, 0] + 0.5 * RNG.normal(size=80) > 0, "up", "down")
INDEX = [f"row {i}" for i in range(80)]
FRAME = pd.DataFrame(X, columns=list("abc"), index=INDEX)
TABLES: dict[str, tuple[Any, Any]] = {
    "pandas": (FRAME, pd.Series(Y, index=INDEX)),
    "polars": (pl.DataFrame(X, schema=list("abc")), pl.Series(Y.tolist())),
    "arrow": (pa.table(dict(zip("abc", X.T, strict=True))), pa.chunked_array([Y.tolist()])),
}
LEARNERS = {
    "GaussianNB": GaussianNB(),
    "Mixture": Mixture(["GaussianNB", "LogisticRegression", "CategoricalNB"]),
    "Calibrated": Calibrated("MixedNB"),
    "Discretized": Discretized(Discretizer(), CategoricalNB()),
    "RiverClassifier": RiverClassifier(naive_bayes.GaussianNB()),
}


def dicts(table: Any) -> list[dict[str, Any]]:
    """The rows of a table as dicts, by its own library."""
    if isinstance(table, pd.DataFrame):
        return table.to_dict("records")
    return table.to_dicts() if isinstance(table, pl.DataFrame) else table.to_pylist()


def labels(answer: Any) -> list[Any]:
    """A column of labels as a list."""
    return answer.to_pylist() if isinstance(answer, pa.ChunkedArray) else answer.to_list()


@pytest.mark.parametrize("library", TABLES)
@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_ends_a_pipeline_of_river(name, library) -> None:
    """`StandardScaler() | learner` by tables: what the learner gets are the scaled rows."""
    (table, ys), single = TABLES[library], LEARNERS[name].clone()
    scaler = preprocessing.StandardScaler()
    scaler.learn_many(table)
    scaled = dicts(scaler.transform_many(table))
    for x, y in zip(scaled, Y.tolist(), strict=True):
        single.learn_one(x, y)
    model = preprocessing.StandardScaler() | LEARNERS[name].clone()

    model.learn_many(table, ys)

    assert type(model.predict_proba_many(table)) is type(table)
    assert labels(model.predict_many(table)) == [single.predict_one(x) for x in scaled]


def test_pandas_keeps_its_index_through_a_pipeline() -> None:
    """Parts of the columns, each scaled or not, and a weight for each row."""
    model = (
        compose.TransformerUnion(
            compose.Select("a") | preprocessing.StandardScaler(), compose.Select("b", "c")
        )
        | LogisticRegression()
    )
    ys = pd.Series(Y, index=INDEX)

    model.learn_many(FRAME, ys, w=np.full(80, 2.0))

    assert list(model.predict_many(FRAME).index) == INDEX
    assert (model.predict_many(FRAME) == ys).mean() > 0.8


@pytest.mark.parametrize("library", TABLES)
def test_one_against_the_rest_of_river_takes_a_learner_of_two_classes(library) -> None:
    """It asks for the column True, or "True" where names are texts."""
    table, ys = TABLES[library]
    model = multiclass.OneVsRestClassifier(GaussianNB())

    model.learn_many(table, ys)

    right = [a == b for a, b in zip(labels(model.predict_many(table)), Y.tolist(), strict=True)]
    assert sum(right) > 60


def test_sparse_counts_of_river_are_learned_as_their_records() -> None:
    """`BagOfWords() | MultinomialNB()`: a column for each word of the texts."""
    texts = pd.Series(["free money free", "see you home", "free home"], index=[4, 5, 6])
    ys = pd.Series(["spam", "ham", "ham"], index=[4, 5, 6])
    model, single = feature_extraction.BagOfWords() | MultinomialNB(), MultinomialNB()
    counts = feature_extraction.BagOfWords().transform_many(texts)
    for x, y in zip(counts.to_dict("records"), ys, strict=True):
        single.learn_one(x, y)

    model.learn_many(texts, ys)

    assert model["MultinomialNB"].fingerprint() == single.fingerprint()
    assert model.predict_many(texts).tolist() == ["spam", "ham", "ham"]


@pytest.mark.parametrize("given", [X, FRAME], ids=["array", "pandas"])
def test_rivers_wrapper_fits_and_predicts_as_the_learner(given) -> None:
    """`convert_river_to_sklearn`: fit, partial_fit, predict, predict_proba, score."""
    ours = GaussianNB()
    ours.learn_many(X, Y)

    whole = compat.convert_river_to_sklearn(GaussianNB()).fit(given, Y)
    parts = compat.convert_river_to_sklearn(GaussianNB())
    parts.partial_fit(given[:30], Y[:30], classes=["down", "up"]).partial_fit(given[30:], Y[30:])

    for model in (whole, parts):
        assert model.predict(given).tolist() == ours.predict_many(X).tolist()
        order = [ours.classes.index(label) for label in model.classes_]
        assert (model.predict_proba(given) == ours.predict_proba_many(X)[:, order]).all()
        assert model.score(given, Y) > 0.8


def test_scikit_learn_clones_pipes_and_validates_the_wrapper() -> None:
    """clone, Pipeline and cross_val_score; a clone has learned nothing."""
    wrapper = compat.convert_river_to_sklearn(MixedNB()).fit(X, Y)
    model = pipeline.make_pipeline(StandardScaler(), clone(wrapper))

    assert not hasattr(clone(wrapper), "instance_")
    assert model.fit(FRAME, Y).score(FRAME, Y) > 0.8
    assert cross_val_score(model, FRAME, Y, cv=4).mean() > 0.7


def test_a_pipeline_of_river_becomes_one_of_scikit_learn() -> None:
    """Each step with its wrapper."""
    model = compat.convert_river_to_sklearn(preprocessing.StandardScaler() | GaussianNB())

    assert isinstance(model, pipeline.Pipeline)
    assert model.fit(FRAME, Y).score(FRAME, Y) > 0.8


def test_a_model_of_scikit_learn_learns_tables_as_a_learner() -> None:
    """By river's wrapper, a model of two classes, which gets truth values for any labels."""
    theirs = compat.convert_sklearn_to_river(TheirGaussianNB(), classes=[False, True])
    model = RiverClassifier(theirs)

    model.learn_many(FRAME, Y)

    assert (model.predict_many(FRAME) == Y).mean() > 0.8
