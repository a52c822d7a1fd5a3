"""Every learner with every combination of its parameters, drawn at random.

A choice is a learner and what its records may hold. The lists are those of the constructors: a
parameter that changes a bit has at least two values here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from stream import (
    BernoulliNB,
    Calibrated,
    CategoricalBayes,
    CategoricalNB,
    ComplementNB,
    DecisionTreeClassifier,
    GaussianBayes,
    GaussianNB,
    KNNClassifier,
    Learner,
    LogisticRegression,
    MixedBayes,
    MixedNB,
    Mixture,
    MultinomialNB,
    SpamScorer,
    TargetEncoded,
)
from stream.preprocessing import Discretized, Discretizer, MDLDiscretizer
from stream.preprocessing.binner import Binner
from tests.programs.records import Width

__all__ = ["FAMILIES", "Choice", "choice"]

HALF_LIVES = (None, None, 1, 3.5, 20)
RIDGES = (1e-9, 1e-9, 0, 0.01, 1.0)
SMOOTHING = (1e-9, 1e-9, 0, 0.01)
PRIORS = (None, None, None, {"a": 0.5, "b": 0.5}, {"a": 1.0}, {"3": 0.3, "-1": 0.7})


@dataclass(frozen=True, slots=True)
class Choice:
    """A learner, untrained, and what it can be given."""

    learner: Learner
    kinds: frozenset[str]
    width: Width = (0, 40)
    signed: bool = True
    texts: tuple[str, ...] = ()


NUMBERS, CATEGORIES = frozenset({"numeric"}), frozenset({"categorical"})


def _gaussian(rng: Random) -> Choice:
    return Choice(
        GaussianNB(
            variance=rng.choice(("ml", "sample")),
            var_smoothing=rng.choice(SMOOTHING),
            priors=rng.choice(PRIORS),
            half_life=rng.choice(HALF_LIVES),
        ),
        NUMBERS,
    )


def _gaussian_bayes(rng: Random) -> Choice:
    return Choice(
        GaussianBayes(
            covariance=rng.choice(("full", "pooled", "diagonal", "pooled_diagonal")),
            ridge=rng.choice(RIDGES),
            shrinkage=rng.choice((0.0, 0.0, 0.3, 1.0)),
            variance=rng.choice(("ml", "sample")),
            missing=rng.choice(("conditional", "complete")),
            priors=rng.choice(PRIORS),
            half_life=rng.choice(HALF_LIVES),
        ),
        NUMBERS,
        rng.choice(((0, 3), (0, 12))),
    )


def _mixed(rng: Random) -> Choice:
    return Choice(
        MixedNB(
            alpha=rng.choice((1.0, 0.3, 0)),
            variance=rng.choice(("ml", "sample")),
            var_smoothing=rng.choice(SMOOTHING),
            priors=rng.choice(PRIORS),
            text=["t1", "t2"],
            half_life=rng.choice(HALF_LIVES),
            token_alpha=rng.choice((0.3, None, 0)),
            **_estimate(rng),
        ),
        frozenset({"numeric", "categorical", "text"}),
        texts=("t1", "t2"),
    )


def _mixed_bayes(rng: Random) -> Choice:
    conditional = rng.random() < 0.4
    return Choice(
        MixedBayes(
            conditional=conditional,
            thin=rng.choice((2, 5)),
            alpha=rng.choice((1.0, 0)),
            covariance=rng.choice(("full", "diagonal")),
            variance=rng.choice(("ml", "sample")),
            ridge=rng.choice(RIDGES),
            missing=rng.choice(("conditional", "complete")),
            priors=rng.choice(PRIORS),
            half_life=None if conditional else rng.choice(HALF_LIVES),
            **_estimate(rng),
        ),
        frozenset({"numeric", "categorical"}),
        (0, 10),
    )


def _estimate(rng: Random) -> dict[str, Any]:
    """How the counts of categories are smoothed, alpha apart."""
    m = rng.choice((None, None, 2.0, 0.0))
    p = None if m is None else rng.choice((None, 0.25, {"c0": {"x": 0.75, "z": 0.25, "w": 0.0}}))
    return {"m": m, "p": p, "smooth": rng.choice(("all", "all", "zeros"))}


def _categorical(rng: Random) -> Choice:
    estimate = _estimate(rng)
    given = [None, None, {"c0": ["x", "y", "z", "w"], "c3": ["other"]}]
    return Choice(
        CategoricalNB(
            alpha=rng.choice((1.0, 0.3, 0)),
            **estimate,
            domains=rng.choice(given),
            priors=rng.choice(PRIORS),
            half_life=rng.choice(HALF_LIVES),
        ),
        CATEGORIES,
    )


def _categorical_bayes(rng: Random) -> Choice:
    return Choice(
        CategoricalBayes(
            alpha=rng.choice((1.0, 0.3, 0)),
            domains=rng.choice((None, None, {"c0": ["x", "y", "z", "w"], "c3": ["other"]})),
            max_cells=rng.choice((2**20, 4)),
            priors=rng.choice(PRIORS),
            half_life=rng.choice(HALF_LIVES),
            **_estimate(rng),
        ),
        CATEGORIES,
        (0, 8),
    )


def _multinomial(rng: Random) -> Choice:
    family = rng.choice((MultinomialNB, ComplementNB))
    exact: dict[str, Any] = {"vocabulary": "exact", "max_tokens": rng.choice((4, 1000))}
    return Choice(
        family(
            alpha=rng.choice((1.0, 0.1, 0 if family is MultinomialNB else 0.3)),
            half_life=rng.choice(HALF_LIVES),
            **({"norm": rng.random() < 0.5} if family is ComplementNB else {}),
            **(exact if rng.random() < 0.5 else {}),
        ),
        frozenset({"numeric", "text"}),
        signed=False,
        texts=("text", "body", "t3"),
    )


def _bernoulli(rng: Random) -> Choice:
    return Choice(
        BernoulliNB(
            alpha=rng.choice((1.0, 0.1, 0)),
            priors=rng.choice(PRIORS),
            half_life=rng.choice(HALF_LIVES),
        ),
        frozenset({"numeric", "text"}),
        texts=("text", "body", "t3"),
    )


def _knn(rng: Random) -> Choice:
    window = rng.choice((5, 30, 200))
    return Choice(
        KNNClassifier(
            n_neighbors=rng.choice((1, 3, 5)),
            window=window,
            metric=rng.choice(
                (
                    "auto",
                    "euclidean",
                    "heom",
                    "manhattan",
                    "chebyshev",
                    "minkowski",
                    "cosine",
                    "hamming",
                )
            ),
            p=rng.choice((2.0, 1.0, 3.0)),
            scale=rng.choice(("range", "std", None)),
            weights=rng.choice(("uniform", "distance")),
        ),
        rng.choice((NUMBERS, frozenset({"numeric", "categorical"}))),
    )


def _tree(rng: Random) -> Choice:
    return Choice(
        DecisionTreeClassifier(
            window=rng.choice((5, 60, 10_000)),
            grace_period=rng.choice((1, 5, 50)),
            max_depth=rng.choice((1, 20)),
            max_nodes=rng.choice((3, 4095)),
        ),
        rng.choice((NUMBERS, frozenset({"numeric", "categorical"}))),
    )


def _logistic(rng: Random) -> Choice:
    return Choice(
        LogisticRegression(
            learning_rate=rng.choice((0.5, 0.5, 0.01, 5.0, 100.0)),
            l2=rng.choice((0.0, 0.0, 1e-3, 1.0)),
            start=rng.choice(("naive_bayes", "zero")),
            text=["t1", "t2"],
            half_life=rng.choice(HALF_LIVES),
            n_bins=rng.choice((None, 2, 5, 64)),
            pairs=rng.random() < 0.5,
        ),
        frozenset({"numeric", "categorical", "text"}),
        texts=("t1", "t2"),
    )


def _spam(rng: Random) -> Choice:
    return Choice(
        SpamScorer(half_life=rng.choice((10_000.0, 100.0))),
        frozenset({"numeric", "categorical", "text"}),
        texts=("t1", "t2"),
    )


def _mixture(rng: Random) -> Choice:
    """One to four of the others, by name, by name and parameters, or made; half of them rest or
    stack."""
    made = [FAMILIES[rng.choice(EXPERTS)](rng).learner for _ in range(rng.randrange(1, 4))]
    by_name = ["KNNClassifier", {"type": "LogisticRegression", "half_life": 3}]
    experts = rng.choice((None, [*made, rng.choice(by_name)], made))
    return Choice(
        Mixture(experts, rest=rng.random() < 0.5, stack=rng.random() < 0.5),
        frozenset({"numeric", "categorical", "text"}),
        (0, 10),
        signed=False,
        texts=("t1", "t2"),
    )


def _calibrated(rng: Random) -> Choice:
    """One of the others, or a mixture of them."""
    within = rng.choice((*EXPERTS, "mixture"))
    inner, rate = FAMILIES[within](rng).learner, rng.choice((0.2, 5.0))
    return replace(_mixture(rng), learner=Calibrated(inner, rate, hedge=rng.random() < 0.5))


def _target_encoded(rng: Random) -> Choice:
    """One of the others, or a mixture of them, with up to all fields encoded."""
    inner = FAMILIES[rng.choice((*EXPERTS, "mixture"))](rng).learner
    fields = [f"{prefix}{k}" for prefix in ("f", "", "Z", "c") for k in range(12)]
    learner = TargetEncoded(fields, inner, rng.choice((1, 2, 4)))
    return replace(_mixture(rng), learner=learner)


def _binned(rng: Random) -> Choice:
    family = rng.choice((CategoricalNB, CategoricalBayes, MixedNB))
    inner = family(half_life=rng.choice(HALF_LIVES))
    edges = {f"f{k}": [-1.0, 0.0, 2.0] for k in range(8)}
    discretizer: Binner = Discretizer(
        edges=rng.choice((None, edges)),
        strategy=rng.choice(("quantile", "uniform")),
        n_bins=rng.choice((2, 8)),
    )
    if rng.random() < 0.4:
        discretizer = MDLDiscretizer(rng.choice((2, 8, 64)))
    return Choice(Discretized(discretizer, inner), frozenset({"numeric", "categorical"}), (0, 8))


FAMILIES: dict[str, Callable[[Random], Choice]] = {
    "gaussian": _gaussian,
    "gaussian_bayes": _gaussian_bayes,
    "mixed": _mixed,
    "mixed_bayes": _mixed_bayes,
    "categorical": _categorical,
    "categorical_bayes": _categorical_bayes,
    "multinomial": _multinomial,
    "bernoulli": _bernoulli,
    "knn": _knn,
    "tree": _tree,
    "binned": _binned,
    "logistic": _logistic,
    "spam": _spam,
    "mixture": _mixture,
    "calibrated": _calibrated,
    "target_encoded": _target_encoded,
}
EXPERTS = (
    "gaussian",
    "gaussian_bayes",
    "mixed",
    "mixed_bayes",
    "categorical",
    "multinomial",
    "bernoulli",
    "knn",
    "logistic",
    "binned",
)


def choice(rng: Random, family: str) -> Choice:
    """A learner of this family with random parameters."""
    return FAMILIES[family](rng)
