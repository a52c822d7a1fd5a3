"""Printed figures: Zaki and Meira example 18.3, and the lectures' weather and borrowers.

Where print and data differ, the docstring says so and the figure of the data stands.
"""

from __future__ import annotations

from math import exp

import pytest

from stream import GaussianNB, MixedNB


def learned(model, xs, ys):
    """The model after the records, one at a time and, with the same bits, in one block."""
    block = model.clone()
    block.learn_many(xs, ys)
    for x, y in zip(xs, ys, strict=True):
        model.learn_one(x, y)
    assert model.fingerprint() == block.fingerprint()
    return model


def density(model: GaussianNB | MixedNB, x, y) -> float:
    """p(x | y): the joint without the prior."""
    prior = model.joint_log_likelihood_one({})[y]
    return exp(model.joint_log_likelihood_one(x)[y] - prior)


def test_iris_moments_are_those_printed(iris) -> None:
    """Example 18.1: means and (maximum likelihood) variances, to the digits printed."""
    model = learned(GaussianNB(var_smoothing=0), *iris)
    means, variances = model.means, model.variances

    assert [round(means["c1"][k], 2) for k in ("length", "width")] == [5.01, 3.42]
    assert [round(means["c2"][k], 2) for k in ("length", "width")] == [6.26, 2.87]
    assert [round(variances["c1"][k], 3) for k in ("length", "width")] == [0.122, 0.142]
    assert [round(variances["c2"][k], 3) for k in ("length", "width")] == [0.435, 0.110]


def test_iris_point_gets_the_printed_densities_and_class(iris) -> None:
    """Example 18.3 at (6.75, 4.25), with its priors rounded to 0.33 and 0.67.

    The book prints 3.99e-7 for what is 3.998e-7: it cuts where it should round.
    """
    model = learned(GaussianNB(var_smoothing=0, priors={"c1": 0.33, "c2": 0.67}), *iris)
    x = {"length": 6.75, "width": 4.25}
    joint = {y: exp(v) for y, v in model.joint_log_likelihood_one(x).items()}

    assert f"{density(model, x, 'c1'):.3e}" == "3.998e-07"
    assert f"{density(model, x, 'c2'):.3e}" == "9.597e-05"
    assert f"{joint['c1']:.2e}" == "1.32e-07"
    assert f"{joint['c2']:.2e}" == "6.43e-05"
    assert model.predict_one(x) == "c2"


def test_iris_with_exact_thirds_as_priors(iris) -> None:
    """Learned priors are 1/3 and 2/3: the figures the data give."""
    model = learned(GaussianNB(var_smoothing=0), *iris)
    joint = model.joint_log_likelihood_one({"length": 6.75, "width": 4.25})

    assert f"{exp(joint['c1']):.3e}" == "1.333e-07"
    assert f"{exp(joint['c2']):.3e}" == "6.398e-05"


@pytest.fixture
def weather(shared_csv):
    """Fourteen days: outlook and wind in words, temperature and humidity in numbers."""
    rows = shared_csv("play/weather_numeric.csv")
    ys = [row.pop("play") for row in rows]
    numbers = ("temperature", "humidity")
    return [{k: float(v) if k in numbers else v for k, v in row.items()} for row in rows], ys


def test_weather_moments_are_those_printed(weather) -> None:
    """Means and standard deviations (n - 1), to one digit."""
    xs, ys = weather
    numbers = [{k: v for k, v in x.items() if isinstance(v, float)} for x in xs]
    model = learned(GaussianNB(variance="sample", var_smoothing=0), numbers, ys)
    figures = {
        (y, k): (round(model.means[y][k], 1), round(model.variances[y][k] ** 0.5, 1))
        for y in ("yes", "no")
        for k in ("temperature", "humidity")
    }

    assert figures == {
        ("yes", "temperature"): (73.0, 6.2),
        ("no", "temperature"): (74.6, 7.9),
        ("yes", "humidity"): (79.1, 10.2),
        ("no", "humidity"): (86.2, 9.7),
    }


def test_weather_likelihoods_are_those_printed(weather) -> None:
    """Sunny, 66 degrees, humidity 90, windy: 0.000036 for yes, 0.000136 for no.

    The lecture prints f(66 | no) = 0.0291; the data give 0.0279, and only that gives the printed
    product.
    """
    model = learned(MixedNB(alpha=0, variance="sample", var_smoothing=0), *weather)
    day = {"outlook": "sunny", "temperature": 66.0, "humidity": 90.0, "windy": "true"}
    joint = {y: exp(v) for y, v in model.joint_log_likelihood_one(day).items()}

    assert f"{density(model, {'temperature': 66.0}, 'yes'):.4f}" == "0.0340"
    assert f"{density(model, {'humidity': 90.0}, 'yes'):.4f}" == "0.0221"
    assert f"{density(model, {'temperature': 66.0}, 'no'):.4f}" == "0.0279"
    assert {y: f"{p:.6f}" for y, p in joint.items()} == {"no": "0.000136", "yes": "0.000036"}


def test_borrowers_income_has_the_printed_density() -> None:
    """Incomes of those who did not default: mean 110, sample variance 2975, 0.0072 at 120."""
    incomes = (125, 100, 70, 120, 60, 220, 75, 95, 85, 90)
    xs, ys = [{"income": income} for income in incomes], ["No"] * 7 + ["Yes"] * 3
    model = learned(GaussianNB(variance="sample", var_smoothing=0), xs, ys)
    at_120 = density(model, {"income": 120.0}, "No")

    assert model.means["No"]["income"] == pytest.approx(110.0, rel=1e-15)
    assert model.variances["No"]["income"] == pytest.approx(2975.0, rel=1e-15)
    assert f"{at_120:.4f}" == "0.0072"
    assert f"{4 / 7 * 4 / 7 * round(at_120, 4):.4f}" == "0.0024"  # printed from the rounded one
    assert model.means["Yes"]["income"] == 90.0
    assert model.variances["Yes"]["income"] == pytest.approx(25.0)
