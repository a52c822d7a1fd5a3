"""GaussianBayes against its dense twin, scikit-learn, scipy and hand-made cases."""

from __future__ import annotations

import random
from itertools import product
from math import exp, inf

import numpy as np
import pytest
from river import checks, datasets
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)

from stream import Block, GaussianNB, NotSupportedError, Rows, SchemaError
from stream.bayes.covariance import MAX_JOINT_FEATURES
from stream.bayes.gaussian_bayes import GaussianBayes
from stream.checks import check_laws
from stream.data.block import PREDICT_THEN_LEARN
from tests.oracles.covariance import CovarianceTwin

KINDS = ("full", "pooled", "diagonal", "pooled_diagonal")
NAMES = ["a", "b", "c", "d"]


def stream_of(n: int, seed: int, gaps: float = 0.15):
    """Correlated records of three classes far from 0; gaps once every class is known well."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(3, 4, 4))
    for i in range(n):
        c = i % 3 if i < 60 else int(rng.integers(3))
        v = 1e4 + c + mixing[c] @ rng.normal(size=4)
        gone = {name for name in NAMES if i >= 60 and rng.random() < gaps}
        x = {k: float(f) for k, f in zip(NAMES, v, strict=True) if k not in gone}
        yield x, "uvw"[c], float(rng.choice([1, 2, 0.5]))


@pytest.mark.parametrize(
    ("parameters", "twin"),
    [
        ({"ridge": 0.0}, {}),
        ({"ridge": 0.0, "covariance": "pooled"}, {"pooled": True}),
        ({"ridge": 0.0, "variance": "sample"}, {"ddof": 1.0}),
        (
            {"ridge": 0.0, "variance": "sample", "covariance": "pooled"},
            {"pooled": True, "ddof": 1.0},
        ),
        ({"ridge": 0.0, "shrinkage": 0.4}, {"shrinkage": 0.4}),
        ({"ridge": 1e-9}, {"ridge": 1e-9}),
    ],
    ids=["full", "pooled", "sample", "pooled sample", "shrunk", "ridge"],
)
def test_learner_equals_its_dense_twin(parameters, twin) -> None:
    """Gaps in learning and in predicting, weights, an offset: to 1e-7 of a log likelihood."""
    model, oracle = GaussianBayes(**parameters), CovarianceTwin(NAMES, **twin)
    for i, (x, y, w) in enumerate(stream_of(200, seed=1)):
        if i >= 60:
            assert model.joint_log_likelihood_one(x) == pytest.approx(oracle.joint(x), rel=1e-7)
        model.learn_one(x, y, w)
        oracle.learn(x, y, w)

    for y in "uvw":
        got = np.array([[model.covariances[y][f][g] for g in NAMES] for f in NAMES])
        np.testing.assert_allclose(got, oracle.covariance(y, oracle.ddof), rtol=1e-7, atol=1e-9)
        means = [model.means[y][f] for f in NAMES]
        np.testing.assert_allclose(means, oracle.mean[y], rtol=1e-12)


def test_a_large_ridge_on_two_features_is_the_dense_matrixs() -> None:
    """Covariance and ridge together, to rounding, however large the ridge."""
    names = ["a", "b"]
    model, oracle = GaussianBayes(ridge=0.3), CovarianceTwin(names, ridge=0.3)
    for x, y, w in stream_of(60, seed=2):
        pair = {k: x[k] for k in names}
        model.learn_one(pair, y, w)
        oracle.learn(pair, y, w)
    x = {"a": 1e4 + 1.0, "b": 1e4 - 0.5}

    assert model.joint_log_likelihood_one(x) == pytest.approx(oracle.joint(x), rel=1e-10)


OTHERS = [
    {"ridge": 0.0},
    {"missing": "complete"},
    {"variance": "sample", "shrinkage": 0.3},
    {"half_life": 20},
    {"priors": {"first": 0.5, "second": 0.5}},
]


@pytest.mark.parametrize(
    ("covariance", "parameters"), [*product(KINDS, OTHERS), *product(KINDS[1:], [{}])], ids=repr
)
def test_every_kind_satisfies_every_law(covariance, parameters) -> None:
    """The laws of `stream.checks`, with other parameters than the defaults."""
    check_laws(GaussianBayes(covariance, **parameters))


@pytest.mark.parametrize("covariance", KINDS[1:])
def test_every_kind_passes_rivers_checks(covariance) -> None:
    """As the default does in `tests/stream/learner`."""
    random.seed(0)  # the checks draw features from the global generator
    model = GaussianBayes(covariance)
    passed = 0
    for check in checks.yield_checks(model):
        check(model.clone())
        passed += 1

    assert passed > 10


@pytest.mark.parametrize("variance", ["ml", "sample"])
@pytest.mark.parametrize("ridge", [0.0, 1e-9, 0.1])
def test_the_diagonal_kind_is_naive_bayes(variance, ridge) -> None:
    """GaussianNB's likelihoods, gaps and all, to rounding."""
    model = GaussianBayes("diagonal", ridge=ridge, variance=variance)
    naive = GaussianNB(variance, var_smoothing=ridge)
    for x, y, w in stream_of(150, seed=3):
        assert model.joint_log_likelihood_one(x) == pytest.approx(
            naive.joint_log_likelihood_one(x), rel=1e-9
        )
        model.learn_one(x, y, w)
        naive.learn_one(x, y, w)

    assert model.means == naive.means


def table(dataset, names=None):
    """Features and labels of a dataset of records without gaps, and the names."""
    xs, ys = zip(*dataset, strict=True)
    names = names or sorted(xs[0])
    return np.array([[float(x[name]) for name in names] for x in xs]), np.array(ys), names


def assert_agrees(model, scikit, values, labels, names, start: int) -> None:
    """Posteriors to 1e-9 at each 100th record from `start` on."""
    rows = Rows.from_dicts([dict(zip(names, row, strict=True)) for row in values.tolist()])
    said = model.progressive_many(Block.of(rows, PREDICT_THEN_LEARN, labels.tolist()))
    column = [model.classes.index(kind.item()) for kind in np.unique(labels)]
    asked = range(start, len(values), 100)
    for i in asked:
        expected = scikit().fit(values[:i], labels[:i]).predict_proba(values[i : i + 1])[0]
        np.testing.assert_allclose(said.proba[i, column], expected, rtol=0, atol=1e-9)
    assert len(asked) >= 9


IMAGE = ["hue-mean", "saturation-mean", "value-mean", "vedge-mean"]
STREAMS = pytest.mark.parametrize(
    ("dataset", "names", "start"),
    [
        (datasets.Bananas(), None, 100),
        (datasets.Phishing(), None, 250),
        (datasets.ImageSegments(), IMAGE, 300),
    ],
    ids=["Bananas", "Phishing", "ImageSegments"],
)


@STREAMS
def test_posteriors_are_scikit_learns_quadratic_ones(dataset, names, start) -> None:
    """Without a ridge, and by n or n - 1, which differs between its versions."""
    values = np.array([[0.0], [1.0], [5.0], [7.0]])
    probe = QuadraticDiscriminantAnalysis(store_covariance=True).fit(values, [0, 0, 1, 1])
    by_n = float(probe.covariance_[1][0, 0]) == pytest.approx(1.0)
    model = GaussianBayes(ridge=0.0, variance="ml" if by_n else "sample")

    assert_agrees(model, QuadraticDiscriminantAnalysis, *table(dataset, names), start)


@STREAMS
def test_posteriors_are_scikit_learns_linear_ones(dataset, names, start) -> None:
    """Pooled, by n, as its solver "lsqr" defines them."""
    model = GaussianBayes("pooled", ridge=0.0)

    def scikit():
        return LinearDiscriminantAnalysis(solver="lsqr")

    assert_agrees(model, scikit, *table(dataset, names), start)


def test_likelihoods_are_scipys() -> None:
    """The density of all features, and the marginal one where some are missing."""
    rng = np.random.default_rng(4)
    values = rng.normal(size=(60, 4)) @ (np.eye(4) + rng.uniform(size=(4, 4))) + 3
    model = GaussianBayes(ridge=0.0)
    model.learn_many([dict(zip(NAMES, row, strict=True)) for row in values.tolist()], ["y"] * 60)
    mean, sigma = values.mean(axis=0), np.cov(values.T, ddof=0)
    for kept in ([0, 1, 2, 3], [1, 3], [0, 2, 3], [2]):
        x = {NAMES[j]: float(values[7, j]) + 0.3 for j in kept}
        expected = multivariate_normal.logpdf(
            list(x.values()), mean[kept], sigma[np.ix_(kept, kept)]
        )

        assert model.joint_log_likelihood_one(x)["y"] == pytest.approx(expected, rel=1e-11)


def test_a_singular_class_is_certain_off_its_support_and_dense_on_it() -> None:
    """Without a ridge: two features that are one, so one direction, and its density."""
    model = GaussianBayes(ridge=0.0)
    for v in (1.0, 2.0, 4.0, 7.0):
        model.learn_one({"a": v, "b": 2 * v + 0.1}, "line")
        model.learn_one({"a": v, "b": -v * v}, "plane")
    on, off = {"a": 3.0, "b": 6.1}, {"a": 3.0, "b": 6.2}
    sigma = np.cov([[1.0, 2.0, 4.0, 7.0], [2.1, 4.1, 8.1, 14.1]], ddof=0)
    alone = multivariate_normal([3.5, 7.1], sigma, allow_singular=True).logpdf([3.0, 6.1])

    assert model.joint_log_likelihood_one(on)["line"] == pytest.approx(np.log(0.5) + alone)
    assert model.joint_log_likelihood_one(off)["line"] == -inf
    assert model.predict_one(off) == "plane"


def test_with_fewer_records_than_features_the_ridge_decides() -> None:
    """Three records a class in ten dimensions: near a class's records is the class."""
    rng = np.random.default_rng(5)
    model = GaussianBayes(ridge=0.1)
    middle = {"a": rng.normal(size=10), "b": rng.normal(size=10)}
    for y in "ababab":
        v = middle[y] + 0.1 * rng.normal(size=10)
        model.learn_one({f"f{j}": float(f) for j, f in enumerate(v)}, y)

    for y, v in middle.items():
        assert model.predict_one({f"f{j}": float(f) for j, f in enumerate(v)}) == y


@pytest.mark.parametrize("covariance", KINDS)
def test_answers_do_not_depend_on_units(covariance) -> None:
    """Features in units a million million million times apart, with the default ridge."""
    plain, scaled = GaussianBayes(covariance), GaussianBayes(covariance)
    units = dict(zip(NAMES, (2.0**40, 2.0**-40, 1.0, 2.0**20), strict=True))
    for x, y, w in stream_of(120, seed=6):
        foreign = {k: v * units[k] for k, v in x.items()}
        assert plain.predict_proba_one(x) == pytest.approx(scaled.predict_proba_one(foreign))
        plain.learn_one(x, y, w)
        scaled.learn_one(foreign, y, w)

    assert len(plain.classes) == 3


@pytest.mark.parametrize("covariance", ["pooled", "pooled_diagonal"])
@pytest.mark.parametrize("shrinkage", [0.0, 0.5])
def test_the_line_gives_the_posterior(covariance, shrinkage) -> None:
    """logistic(bias + weights · x) is the posterior of one class among the two."""
    model = GaussianBayes(covariance, shrinkage=shrinkage, priors={"u": 0.2, "v": 0.8})
    records = [(x, y) for x, y, _ in stream_of(90, seed=7, gaps=0.0) if y != "w"]
    model.learn_many(*zip(*records, strict=True))
    view = model.linear_view("v", "u")
    for x, _ in records[:20]:
        odds = view.bias + sum(view.weights[f] * v for f, v in x.items())

        assert 1 / (1 + exp(-odds)) == pytest.approx(model.predict_proba_one(x)["v"], rel=1e-6)


def test_what_is_no_line_has_no_linear_view() -> None:
    """A matrix a class; a feature only one class has seen; a singular matrix."""
    full, late, flat = GaussianBayes(), GaussianBayes("pooled"), GaussianBayes("pooled", ridge=0)
    for model in (full, late, flat):
        model.learn_many([{"a": 1.0}, {"a": 2.0}], "uv")
    late.learn_one({"b": 1.0}, "u")

    for model in (full, late, flat):
        with pytest.raises(NotSupportedError, match="line"):
            model.linear_view("u", "v")


def test_contributions_follow_the_chain_rule() -> None:
    """Each feature's share is the density of its value given those before it."""
    model = GaussianBayes(ridge=0.0)
    for x, y, _ in stream_of(60, seed=8):
        model.learn_one(x, y)
    x = {"a": 1e4 + 1, "b": 1e4 + 2, "d": 1e4 - 1}
    why = model.explain_one(x, "u", "v")
    starts = [{k: x[k] for k in NAMES[:n] if k in x} for n in range(5)]
    joint = [model.joint_log_likelihood_one(start) for start in starts]
    steps = [after["u"] - after["v"] for after in joint]

    assert list(why.contributions) == ["(prior)", "a", "b", "d"]
    assert why.contributions["b"] == pytest.approx(steps[2] - steps[1], rel=1e-9)
    assert why.contributions["d"] == pytest.approx(steps[4] - steps[3], rel=1e-9)
    assert why.log_odds == sum(why.contributions.values())


def test_parameters_are_those_of_the_books() -> None:
    """d means a class, and a matrix a class or one."""
    expected = {"full": 3 * 14, "pooled": 3 * 4 + 10, "diagonal": 3 * 8, "pooled_diagonal": 16}
    for covariance, count in expected.items():
        model = GaussianBayes(covariance)
        model.learn_many([dict.fromkeys(NAMES, 1.0)] * 3, "uvw")

        assert model.n_parameters == count


def test_features_beyond_the_bound_are_left_out_and_counted() -> None:
    """512 features make two mebibytes a class; the next one is not learned."""
    model = GaussianBayes("pooled")
    model.learn_one({f"f{j:03d}": float(j) for j in range(MAX_JOINT_FEATURES + 1)}, "y")

    assert len(model.features) == MAX_JOINT_FEATURES
    assert model.overflows["features"] == 1


@pytest.mark.parametrize(
    ("means", "covariances"),
    [
        ({}, {}),
        ({"a": (1, 2)}, {"b": [[1, 0], [0, 1]]}),
        ({"a": (1, 2)}, {"a": [[1, 2], [2, 1]]}),
        ({"a": (1, 2)}, {"a": [[1, 0.5], [0, 1]]}),
        ({"a": (1, 2)}, {"a": [[1]]}),
        ({"a": (1, 2), "b": (1,)}, {"a": [[1, 0], [0, 1]], "b": [[1]]}),
        ({"a": (1, None)}, {"a": [[1, 0], [0, 1]]}),
    ],
    ids=["none", "other classes", "indefinite", "asymmetric", "small", "other features", "a gap"],
)
def test_parameters_that_are_no_distribution_are_refused(means, covariances) -> None:
    """Before any is taken over."""
    with pytest.raises(SchemaError):
        GaussianBayes.from_parameters(means, covariances)


@pytest.mark.parametrize("covariance", KINDS)
@pytest.mark.parametrize("variance", ["ml", "sample"])
def test_given_parameters_are_those_it_has(covariance, variance) -> None:
    """Means and covariances come out as they went in; features by name, in any order."""
    matrix = {"p": {"p": 4.0, "q": 1.0}, "q": {"p": 1.0, "q": 9.0}}
    model = GaussianBayes.from_parameters(
        {"a": {"q": 2.0, "p": 1.0}, "b": {"p": 5.0, "q": 7.0}},
        {"a": matrix, "b": matrix},
        covariance=covariance,
        variance=variance,
    )

    assert model.means == {"a": {"p": 1.0, "q": 2.0}, "b": {"p": 5.0, "q": 7.0}}
    for label in "ab":
        for f, row in model.covariances[label].items():
            assert row == pytest.approx({g: matrix[f][g] for g in row}, rel=1e-14)
