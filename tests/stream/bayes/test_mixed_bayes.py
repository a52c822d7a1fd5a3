"""MixedBayes: the joint table times the Gaussian, of the class or of the cell; the chapter's Q1."""

from __future__ import annotations

from math import exp, inf, log

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from stream import CategoricalBayes, GaussianBayes, MixedBayes, SchemaError
from stream.bayes.mixed import MAX_CELLS

AGES, CARS, CLASSES = [25, 20, 25, 45, 20, 25], "sports vintage sports suv sports suv", "LHLHHH"
DOMAIN = {"car": ["sports", "vintage", "suv", "truck"]}


def q1():
    """Chapter 18, table 18.3."""
    xs = [{"age": float(a), "car": c} for a, c in zip(AGES, CARS.split(), strict=True)]
    return xs, list(CLASSES)


def stream_of(n: int, seed: int):
    """Two categories and two correlated numbers whose relation depends on class and cell."""
    rng = np.random.default_rng(seed)
    xs, ys = [], []
    for _ in range(n):
        y = "pq"[int(rng.integers(2))]
        c, d = str(rng.choice(["u", "v"])), str(rng.choice(["s", "t"]))
        a = float(rng.normal(0.0 if c == "u" else 3.0, 1.0))
        slope = 1.0 if (y == "p") == (d == "s") else -1.0
        xs.append({"a": a, "b": slope * a + float(rng.normal(0, 0.2)), "c": c, "d": d})
        ys.append(y)
    return xs, ys


@pytest.mark.parametrize("conditional", [False, True])
def test_chapter_18_q1_full_goes_to_h(conditional) -> None:
    """Without a ridge L, whose two ages are both 25, is impossible at 23; H wins.

    H: 4/6 · P(truck | H) · f(23) = 4/6 · 1/8 · 0.0352 = 0.00293, for with one category and one
    number the full model is the naive one.
    """
    one, block = (MixedBayes(conditional, ridge=0, domains=DOMAIN) for _ in range(2))
    xs, ys = q1()
    for x, y in zip(xs, ys, strict=True):
        one.learn_one(x, y)
    block.learn_many(xs, ys)
    joint = one.joint_log_likelihood_one({"age": 23.0, "car": "truck"})

    assert one.fingerprint() == block.fingerprint()
    assert joint["L"] == -inf
    assert f"{exp(joint['H']):.5f}" == "0.00293"
    assert one.predict_proba_one({"age": 23.0, "car": "truck"}) == {"L": 0.0, "H": 1.0}


def test_likelihood_is_the_table_times_the_gaussian() -> None:
    """Of CategoricalBayes and of GaussianBayes on their own attributes."""
    xs, ys = stream_of(200, seed=1)
    mixed, table, numbers = MixedBayes(), CategoricalBayes(), GaussianBayes()
    mixed.learn_many(xs, ys)
    table.learn_many([{k: x[k] for k in "cd"} for x in xs], ys)
    numbers.learn_many([{k: x[k] for k in "ab"} for x in xs], ys)
    x = xs[7]
    cells = table.joint_log_likelihood_one({k: x[k] for k in "cd"})
    density = numbers.joint_log_likelihood_one({k: x[k] for k in "ab"})
    prior = {y: log(ys.count(y) / len(ys)) for y in "pq"}

    expected = {y: cells[y] + density[y] - prior[y] for y in cells}
    assert mixed.joint_log_likelihood_one(x) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "estimate",
    [{"m": 2}, {"m": 2, "p": 0.1}, {"m": 2, "p": {"c": {"u": 0.9, "v": 0.1}}}, {"smooth": "zeros"}],
    ids=["m", "p", "of_values", "zeros"],
)
def test_table_is_smoothed_as_in_categorical_bayes(estimate) -> None:
    """The joint of the categories alone is that of CategoricalBayes, bit for bit."""
    xs, ys = stream_of(12, seed=1)
    mixed, table = MixedBayes(**estimate), CategoricalBayes(**estimate)
    mixed.learn_many(xs, ys)
    table.learn_many([{k: x[k] for k in "cd"} for x in xs], ys)

    for x in ({"c": "u", "d": "s"}, {"c": "v", "d": "t"}, {"c": "v"}, {"d": "s"}):
        assert mixed.joint_log_likelihood_one(x) == table.joint_log_likelihood_one(x)


def test_conditional_density_is_that_of_the_class_in_the_cell() -> None:
    """By scipy, from the cell's own records."""
    xs, ys = stream_of(400, seed=2)
    model, table = MixedBayes(conditional=True, ridge=0), CategoricalBayes()
    model.learn_many(xs, ys)
    table.learn_many([{k: x[k] for k in "cd"} for x in xs], ys)
    probe = {"a": 0.5, "b": 0.4, "c": "u", "d": "s"}
    joint = model.joint_log_likelihood_one(probe)
    cells = table.joint_log_likelihood_one({k: probe[k] for k in "cd"})

    for y in "pq":
        inside = [
            (x["a"], x["b"])
            for x, label in zip(xs, ys, strict=True)
            if label == y and (x["c"], x["d"]) == ("u", "s")
        ]
        of_cell = multivariate_normal(np.mean(inside, axis=0), np.cov(inside, rowvar=False, ddof=0))
        assert joint[y] == pytest.approx(cells[y] + of_cell.logpdf([0.5, 0.4]), rel=1e-9)


def test_what_depends_on_the_cell_is_learned_only_conditionally() -> None:
    """The slope's sign is class and cell together: the class alone knows nothing of it."""
    xs, ys = stream_of(800, seed=3)
    hits = {}
    for conditional in (False, True):
        model = MixedBayes(conditional)
        model.learn_many(xs[:600], ys[:600])
        said = [model.predict_one(x) for x in xs[600:]]
        hits[conditional] = sum(s == y for s, y in zip(said, ys[600:], strict=True)) / 200

    assert hits[False] < 0.65
    assert hits[True] > 0.85


def test_thin_cell_is_answered_by_the_class() -> None:
    """Until the cell has had enough records of the class both forms say the same."""
    xs, ys = stream_of(60, seed=4)
    plain, conditional = MixedBayes(), MixedBayes(conditional=True, thin=1000)
    plain.learn_many(xs, ys)
    conditional.learn_many(xs, ys)

    for x in xs:
        expected = pytest.approx(plain.predict_proba_one(x), rel=1e-12)
        assert conditional.predict_proba_one(x) == expected


def test_number_constant_in_a_cell_is_answered_by_the_class() -> None:
    """Else one class would be scored on fewer numbers than another."""
    xs = [{"a": float(i % 5), "b": float(i % 3), "c": "u"} for i in range(30)]
    xs += [{"a": float(i % 5), "b": 1.0, "c": "v"} for i in range(30)]
    ys = ["p", "q"] * 30
    plain, conditional = MixedBayes(), MixedBayes(conditional=True)
    for model in (plain, conditional):
        model.learn_many(xs, ys)
    x = {"a": 2.0, "b": 1.0, "c": "v"}

    expected = pytest.approx(plain.predict_proba_one(x), rel=1e-12)
    assert conditional.predict_proba_one(x) == expected


def test_cells_beyond_the_bound_are_counted() -> None:
    """They are learned in the class, not in a Gaussian of their own."""
    model = MixedBayes(conditional=True)
    model.learn_many([{"a": float(i), "c": f"c{i}"} for i in range(MAX_CELLS + 5)], ["p"] * 261)

    assert model.overflows["gaussians"] == 5


@pytest.mark.parametrize(
    "parameters",
    [{"covariance": "pooled"}, {"half_life": 9, "conditional": True}],
    ids=repr,
)
def test_parameter_out_of_range_is_refused(parameters) -> None:
    """One line that names the parameter."""
    with pytest.raises(SchemaError, match=next(iter(parameters))):
        MixedBayes(**parameters)
