"""Printed figures of the categorical classifiers: Zaki and Meira chapter 18, and the lectures.

Each is learned one record at a time and again in one block, with identical bits.
"""

from __future__ import annotations

from math import exp

import pytest

from stream import CategoricalBayes, CategoricalNB
from stream.data.schema import Label

LENGTHS = [(5.2, "Very Short"), (6.1, "Short"), (7.0, "Long"), (7.9, "Very Long")]
WIDTHS = [(2.8, "Short"), (3.6, "Medium"), (4.4, "Long")]
DOMAINS = {"length": [name for _, name in LENGTHS], "width": [name for _, name in WIDTHS]}
PRIORS = {"c1": 0.33, "c2": 0.67}  # as the book rounds them

# Home owner, marital status and defaulted borrower; the income is numeric and left out.
BORROWERS = [
    ("Yes", "Single", "No"),
    ("No", "Married", "No"),
    ("No", "Single", "No"),
    ("Yes", "Married", "No"),
    ("No", "Divorced", "Yes"),
    ("No", "Married", "No"),
    ("Yes", "Divorced", "No"),
    ("No", "Single", "Yes"),
    ("No", "Married", "No"),
    ("No", "Single", "Yes"),
]


def learned(model, xs, ys):
    """The model after the records, one by one; in one block it has the same bits."""
    block = model.clone()
    block.learn_many(xs, ys)
    for x, y in zip(xs, ys, strict=True):
        model.learn_one(x, y)
    assert block.fingerprint() == model.fingerprint()
    return model


def joint(model, x) -> dict[Label, float]:
    """P(x | class) · P(class) of each class."""
    return {y: exp(v) for y, v in model.joint_log_likelihood_one(x).items()}


def binned(length: float, width: float) -> dict[str, str]:
    """Table 18.1: intervals are closed above."""
    return {
        "length": next(name for top, name in LENGTHS if length <= top),
        "width": next(name for top, name in WIDTHS if width <= top),
    }


@pytest.fixture
def iris(shared_csv):
    """Sepals in bins, as the book has them: UCI's row 38 has the width 3.1."""
    rows = shared_csv("iris/iris.csv.gz")
    rows[37]["sepal_width"] = "3.1"
    xs = [binned(float(r["sepal_length"]), float(r["sepal_width"])) for r in rows]
    return xs, ["c1" if r["species"] == "setosa" else "c2" for r in rows]


def test_table_18_2_joint(iris) -> None:
    """The empirical joint PMF of both classes, every cell."""
    model = learned(CategoricalBayes(alpha=0), *iris)
    printed = {
        "c1": [[1, 33, 5], [0, 3, 8], [0, 0, 0], [0, 0, 0]],
        "c2": [[6, 0, 0], [24, 15, 0], [13, 30, 0], [3, 7, 2]],
    }
    cells = model.joint

    for y, n in (("c1", 50), ("c2", 100)):
        got = [
            [round(n * cells[y].get((a, b), 0.0), 9) for b in DOMAINS["width"]]
            for a in DOMAINS["length"]
        ]
        assert got == printed[y]


def test_table_18_2_marginals(iris) -> None:
    """Row and column sums, by the full and by the naive classifier.

    The book prints 13/50 for the short of c1, whose cells (0, 3 and 8) sum to 11/50, as the data.
    """
    full = learned(CategoricalBayes(alpha=0), *iris).marginal
    naive = learned(CategoricalNB(alpha=0), *iris).pmf
    printed = {
        "c1": {"length": [39, 11, 0, 0], "width": [1, 36, 13]},
        "c2": {"length": [6, 39, 43, 12], "width": [46, 52, 2]},
    }

    for pmf in (full, naive):
        for y, n in (("c1", 50), ("c2", 100)):
            for name, counts in printed[y].items():
                got = [round(n * pmf[y][name][v], 9) for v in DOMAINS[name]]
                assert got == counts


def test_example_18_2_short_medium(iris) -> None:
    """(5.3, 3.0): 0.06 · 0.33 = 0.0198 against 0.15 · 0.67 = 0.1005."""
    model = learned(CategoricalBayes(alpha=0, priors=PRIORS), *iris)
    x = binned(5.3, 3.0)

    assert x == {"length": "Short", "width": "Medium"}
    assert {y: round(p, 4) for y, p in joint(model, x).items()} == {"c1": 0.0198, "c2": 0.1005}
    assert model.predict_one(x) == "c2"


def test_example_18_2_long_long(iris) -> None:
    """(6.75, 4.25), which no record is: 5.32e-3 against 5.98e-3, by a pseudo-count of 1.

    The domains are learned: all 4 · 3 values came. Exact thirds as priors give 5.38e-3 and
    5.95e-3.
    """
    model = learned(CategoricalBayes(priors=PRIORS), *iris)
    thirds = learned(CategoricalBayes(domains=DOMAINS), *iris)
    x = binned(6.75, 4.25)

    assert x == {"length": "Long", "width": "Long"}
    assert {y: f"{p:.2e}" for y, p in joint(model, x).items()} == {
        "c1": "5.32e-03",
        "c2": "5.98e-03",
    }
    assert {y: f"{p:.2e}" for y, p in joint(thirds, x).items()} == {
        "c1": "5.38e-03",
        "c2": "5.95e-03",
    }
    assert model.predict_one(x) == thirds.predict_one(x) == "c2"


def test_example_18_2_smooths_the_zero_only(iris) -> None:
    """One model answers both points as printed: 3/50 and 15/100 unsmoothed, 1/62 and 1/112."""
    model = learned(CategoricalBayes(smooth="zeros", priors=PRIORS), *iris)
    short_medium, long_long = joint(model, binned(5.3, 3.0)), joint(model, binned(6.75, 4.25))

    assert {y: round(p, 4) for y, p in short_medium.items()} == {"c1": 0.0198, "c2": 0.1005}
    assert {y: f"{p:.2e}" for y, p in long_long.items()} == {"c1": "5.32e-03", "c2": "5.98e-03"}


def test_example_18_4_smooths_the_zero_only(iris) -> None:
    """(0 + 1)/(50 + 4) · 13/50 · 0.33 = 1.59e-3 against 43/100 · 2/100 · 0.67 = 5.76e-3."""
    model = learned(CategoricalNB(smooth="zeros", priors=PRIORS), *iris)
    x = binned(6.75, 4.25)

    assert {y: f"{p:.2e}" for y, p in joint(model, x).items()} == {
        "c1": "1.59e-03",
        "c2": "5.76e-03",
    }
    assert model.predict_one(x) == "c2"


def test_example_18_4_with_every_count_smoothed(iris) -> None:
    """Uniform smoothing: 1/54 · 14/53 · 0.33 = 1.61e-3 against 44/104 · 3/103 · 0.67 = 8.26e-3."""
    model = learned(CategoricalNB(priors=PRIORS), *iris)
    x = binned(6.75, 4.25)

    assert {y: f"{p:.2e}" for y, p in joint(model, x).items()} == {
        "c1": "1.61e-03",
        "c2": "8.26e-03",
    }


@pytest.fixture
def weather(shared_csv):
    """The weather data, temperature and humidity in the lecture's words."""
    rows = shared_csv("play/weather_numeric.csv")
    for row in rows:
        degrees, damp = float(row["temperature"]), float(row["humidity"])
        row["temperature"] = "hot" if degrees >= 80 else "mild" if degrees > 69.5 else "cool"
        row["humidity"] = "high" if damp > 80 else "normal"
    return [{k: r[k] for k in r if k != "play"} for r in rows], [r["play"] for r in rows]


def test_weather_likelihoods_are_those_printed(weather) -> None:
    """Sunny, cool, high, windy: 0.0053 for yes, 0.0206 for no."""
    model = learned(CategoricalNB(alpha=0), *weather)
    x = {"outlook": "sunny", "temperature": "cool", "humidity": "high", "windy": "true"}

    assert {y: f"{p:.4f}" for y, p in joint(model, x).items()} == {"no": "0.0206", "yes": "0.0053"}
    assert model.predict_one(x) == "no"


def test_weather_table_is_the_one_printed(weather) -> None:
    """Each count of the slide: its share of 9 days of play and 5 without."""
    pmf = learned(CategoricalNB(alpha=0), *weather).pmf
    printed = {
        "outlook": {"sunny": (2, 3), "overcast": (4, 0), "rainy": (3, 2)},
        "temperature": {"hot": (2, 2), "mild": (4, 2), "cool": (3, 1)},
        "humidity": {"high": (3, 4), "normal": (6, 1)},
        "windy": {"false": (6, 2), "true": (3, 3)},
    }

    for name, values in printed.items():
        for value, (yes, no) in values.items():
            assert round(9 * pmf["yes"][name][value], 9) == yes
            assert round(5 * pmf["no"][name][value], 9) == no


@pytest.fixture
def borrowers():
    """Ten borrowers, without their income."""
    return [{"owner": o, "status": s} for o, s, _ in BORROWERS], [y for _, _, y in BORROWERS]


def test_borrowers_shares_are_those_printed(borrowers) -> None:
    """P(owner | No) = 3/7, P(single | Yes) = 2/3, and the prior 0.3."""
    model = learned(CategoricalNB(alpha=0), *borrowers)

    assert model.pmf["No"]["owner"]["Yes"] == pytest.approx(3 / 7, rel=1e-15)
    assert model.pmf["Yes"]["status"]["Single"] == pytest.approx(2 / 3, rel=1e-15)
    assert joint(model, {}) == pytest.approx({"No": 0.7, "Yes": 0.3}, rel=1e-15)


def test_borrowers_unsmoothed_zero_decides_alone(borrowers) -> None:
    """No married borrower defaulted: 4/7 · 4/7 · 0.7 against 1 · 0 · 0.3, certainty."""
    model = learned(CategoricalNB(alpha=0), *borrowers)
    x = {"owner": "No", "status": "Married"}

    assert joint(model, x) == pytest.approx({"No": 4 / 7 * 4 / 7 * 0.7, "Yes": 0.0}, rel=1e-14)
    assert model.predict_proba_one(x) == {"No": 1.0, "Yes": 0.0}


def test_m_estimate_of_the_zero(borrowers) -> None:
    """(n_v + m·p)/(n + m): 0 of 3 with m = 3 and p = 1/3 is 1/6, and one pseudo-count the same."""
    estimate = learned(CategoricalNB(m=3, p=1 / 3), *borrowers)
    pseudo = learned(CategoricalNB(), *borrowers)

    assert estimate.pmf["Yes"]["status"]["Married"] == pytest.approx(1 / 6, rel=1e-14)
    assert pseudo.pmf["Yes"]["status"]["Married"] == pytest.approx(1 / 6, rel=1e-14)


def test_m_estimate_without_a_record_is_p() -> None:
    """n = 0: the likelihood is p, or 1 / m_j where p is not given."""
    for p, expected in ((0.1, 0.1), (None, 0.5)):
        model = CategoricalNB(m=2, p=p)
        model.learn_many([{"a": "x"}, {"a": "y"}, {}], ["p", "p", "q"])
        assert model.pmf["q"]["a"]["x"] == pytest.approx(expected, rel=1e-15)


STATUS = {"Single": 0.5, "Married": 0.25, "Divorced": 0.25}


def test_m_estimate_with_a_prior_of_each_value(borrowers) -> None:
    """Of 3 defaulters 2 are single, 1 divorced: (2 + 2/2)/5, (0 + 2/4)/5 and (1 + 2/4)/5."""
    model = learned(CategoricalNB(m=2, p={"status": STATUS}), *borrowers)
    expected = {"Single": 3 / 5, "Married": 0.5 / 5, "Divorced": 1.5 / 5}

    assert model.pmf["Yes"]["status"] == pytest.approx(expected, rel=1e-14)
    # The owner, whose values p does not name, has 1/2 for each: (0 + 2/2)/5.
    assert model.pmf["Yes"]["owner"]["Yes"] == pytest.approx(1 / 5, rel=1e-14)


def test_m_estimate_of_the_joint_table(borrowers) -> None:
    """No defaulter is a married owner: (0 + 2 · 1/2 · 1/4)/(3 + 2), of uniform tuples (2/6)/5."""
    of_values = learned(CategoricalBayes(m=2, p={"status": STATUS}), *borrowers)
    uniform = learned(CategoricalBayes(m=2), *borrowers)
    of_tuples = learned(CategoricalBayes(m=2, p=0.1), *borrowers)
    x = ("Yes", "Married")

    assert of_values.features == ["owner", "status"]
    assert of_values.joint["Yes"][x] == pytest.approx(0.25 / 5, rel=1e-14)
    assert uniform.joint["Yes"][x] == pytest.approx(2 / 6 / 5, rel=1e-14)
    assert of_tuples.joint["Yes"][x] == pytest.approx(0.2 / 5, rel=1e-14)
    # Married alone: the sum over both owners, 0 + 2 · 1/4 of 3 + 2.
    assert of_values.marginal["Yes"]["status"]["Married"] == pytest.approx(0.5 / 5, rel=1e-14)
    assert of_tuples.marginal["Yes"]["status"]["Married"] == pytest.approx(0.4 / 5, rel=1e-14)


def test_priors_of_values_are_the_domain() -> None:
    """A value that p names counts before it came; one that it does not name is refused."""
    model = CategoricalNB(m=1, p={"status": STATUS})
    model.learn_one({"status": "Single"}, "Yes")
    model.learn_one({"status": "Widowed"}, "Yes")

    assert model.pmf["Yes"]["status"]["Divorced"] == pytest.approx(0.25 / 2, rel=1e-14)
    assert model.overflows["values"] == 1


@pytest.mark.parametrize("kind", [CategoricalNB, CategoricalBayes])
def test_missing_values_are_ignored_in_building_and_in_classifying(kind, borrowers) -> None:
    """A record without a value counts as one that never had the attribute, in every form."""
    xs, ys = borrowers
    xs[0] = {"owner": "Yes", "status": None}
    xs[1] = {"owner": float("nan"), "status": "Married"}
    model = learned(kind(alpha=0), xs, ys)
    pmf = model.pmf if kind is CategoricalNB else model.marginal

    assert pmf["No"]["owner"]["Yes"] == pytest.approx(3 / 6, rel=1e-14)
    assert pmf["No"]["status"]["Single"] == pytest.approx(1 / 6, rel=1e-14)
    without = model.predict_proba_one({"owner": "No"})
    assert model.predict_proba_one({"owner": "No", "status": None}) == without
    assert without["No"] == pytest.approx(3 / 6 * 0.7 / (3 / 6 * 0.7 + 0.3), rel=1e-14)


def test_maximum_likelihood_is_c_of_b(borrowers) -> None:
    """P(y | x) = |C| / |B|: of the records equal to x, those of class y."""
    model = learned(CategoricalBayes(alpha=0), *borrowers)

    for x in borrowers[0]:
        same = [y for of, y in zip(*borrowers, strict=True) if of == x]
        expected = {y: same.count(y) / len(same) for y in ("No", "Yes")}
        assert model.predict_proba_one(x) == pytest.approx(expected, rel=1e-14, abs=1e-300)


def test_laplace_smoothing_adds_one_to_each_of_k_values(weather) -> None:
    """(n_v + l) / (n + l·K): 1 for Laplace; l = 0 is the share itself."""
    for smoothing in (0.0, 1.0, 2.5):
        pmf = learned(CategoricalNB(alpha=smoothing), *weather).pmf
        assert pmf["no"]["outlook"]["overcast"] == pytest.approx(
            smoothing / (5 + 3 * smoothing), rel=1e-14
        )
        assert sum(pmf["no"]["outlook"].values()) == pytest.approx(1.0, rel=1e-14)


@pytest.mark.parametrize("n", [1, 3, 8])
def test_parameters_of_full_and_naive(n) -> None:
    """Of n binary attributes and a boolean class: 2(2ⁿ - 1) against 2n."""
    full, naive = CategoricalBayes(), CategoricalNB()
    for model in (full, naive):
        model.learn_one({str(k): False for k in range(n)}, False)
        model.learn_one({str(k): True for k in range(n)}, True)

    assert full.n_parameters == 2 * (2**n - 1)
    assert naive.n_parameters == 2 * n
