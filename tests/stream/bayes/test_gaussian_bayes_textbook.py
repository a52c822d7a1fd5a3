"""Printed figures of Zaki and Meira, chapter 18, by full Bayes; learned by ones and in a block."""

from __future__ import annotations

from math import exp, inf

from stream.bayes.gaussian_bayes import GaussianBayes

POINT = {"length": 6.75, "width": 4.25}


def learned(model: GaussianBayes, xs, ys) -> GaussianBayes:
    """The model after the records, one at a time and, with the same bits, in one block."""
    block = model.clone()
    block.learn_many(xs, ys)
    for x, y in zip(xs, ys, strict=True):
        model.learn_one(x, y)
    assert model.fingerprint() == block.fingerprint()
    return model


def density(model: GaussianBayes, x, y) -> float:
    """p(x | y): the joint without the prior."""
    prior = model.joint_log_likelihood_one({})[y]
    return exp(model.joint_log_likelihood_one(x)[y] - prior)


def test_iris_means_and_covariance_matrices_are_those_printed(iris) -> None:
    """Example 18.1, to all digits."""
    model = learned(GaussianBayes(ridge=0.0), *iris)
    printed = {
        "c1": ("5.01", "3.42", "0.1218", "0.0983", "0.1423"),
        "c2": ("6.26", "2.87", "0.4350", "0.1209", "0.1096"),
    }
    for label, (length, width, *matrix) in printed.items():
        mean, sigma = model.means[label], model.covariances[label]
        got = [sigma["length"]["length"], sigma["length"]["width"], sigma["width"]["width"]]

        assert [f"{mean['length']:.2f}", f"{mean['width']:.2f}"] == [length, width]
        assert [f"{v:.4f}" for v in got] == matrix


def test_iris_point_gets_the_printed_densities_and_class(iris) -> None:
    """Example 18.1 at (6.75, 4.25), with its priors rounded to 0.33 and 0.67."""
    model = learned(GaussianBayes(ridge=0.0, priors={"c1": 0.33, "c2": 0.67}), *iris)
    joint = {y: exp(v) for y, v in model.joint_log_likelihood_one(POINT).items()}

    assert f"{density(model, POINT, 'c1'):.3e}" == "4.914e-07"
    assert f"{density(model, POINT, 'c2'):.3e}" == "2.589e-05"
    assert f"{joint['c1']:.3e}" == "1.622e-07"
    assert f"{joint['c2']:.3e}" == "1.735e-05"
    assert model.predict_one(POINT) == "c2"


def test_iris_with_exact_thirds_as_priors(iris) -> None:
    """Learned priors are 1/3 and 2/3: the figures the data give."""
    model = learned(GaussianBayes(ridge=0.0), *iris)
    joint = {y: exp(v) for y, v in model.joint_log_likelihood_one(POINT).items()}

    assert f"{joint['c1']:.3e}" == "1.638e-07"
    assert f"{joint['c2']:.3e}" == "1.726e-05"


def test_iris_naive_densities_are_the_diagonals(iris) -> None:
    """Example 18.3: 3.998e-7 and 9.597e-5, times the rounded priors 1.32e-7 and 6.43e-5.

    The book prints 3.99e-7 for what is 3.998e-7: it cuts where it should round.
    """
    model = GaussianBayes("diagonal", ridge=0.0, priors={"c1": 0.33, "c2": 0.67})
    learned(model, *iris)
    joint = {y: exp(v) for y, v in model.joint_log_likelihood_one(POINT).items()}

    assert f"{density(model, POINT, 'c1'):.3e}" == "3.998e-07"
    assert f"{density(model, POINT, 'c2'):.3e}" == "9.597e-05"
    assert f"{joint['c1']:.2e}" == "1.32e-07"
    assert f"{joint['c2']:.2e}" == "6.43e-05"


def test_q1_a_class_of_one_age_is_impossible_beside_it() -> None:
    """Q1, its ages: L has 25 and 25, variance 0, so L is log 0 at 23 and H wins.

    The car is the categorical half of the exercise, not this learner's.
    """
    ages = [(25, "L"), (20, "H"), (25, "L"), (45, "H"), (20, "H"), (25, "H")]
    model = GaussianBayes(ridge=0.0)
    learned(model, [{"age": age} for age, _ in ages], [y for _, y in ages])

    assert model.joint_log_likelihood_one({"age": 23})["L"] == -inf
    assert model.predict_proba_one({"age": 23}) == {"L": 0.0, "H": 1.0}
    assert model.predict_one({"age": 25}) == "L"


def test_q3_given_means_and_covariances_decide_for_c1() -> None:
    """Q3 at (3, 4): 0.0483 against 0.0126, priors of a half each left out."""
    model = GaussianBayes.from_parameters(
        means={"c1": (1, 3), "c2": (5, 5)},
        covariances={"c1": [[5, 3], [3, 2]], "c2": [[2, 0], [0, 1]]},
        priors={"c1": 0.5, "c2": 0.5},
    )
    x = {"x1": 3, "x2": 4}
    joint = {y: exp(v) for y, v in model.joint_log_likelihood_one(x).items()}

    assert f"{joint['c1']:.4f}" == "0.0483"
    assert f"{joint['c2']:.4f}" == "0.0126"
    assert model.predict_one(x) == "c1"
