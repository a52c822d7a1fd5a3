"""Laws of joint likelihoods, explanations and numbers of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, inf, isclose, isfinite, log, nan
from typing import Any

from stream.checks.streams import Law, Records, claim, records, refuses
from stream.errors import NotLearnedError, NotSupportedError
from stream.learner.base import Learner
from stream.learner.predictions import Explanation

__all__ = ["LAWS"]


def _learned(learner: Learner, seed: int) -> tuple[Learner, Records]:
    data = records(learner, seed=seed)
    model = learner.clone()
    model.learn_many(data.xs, data.ys, data.ws)
    return model, data


def the_posterior_is_the_normalised_joint_likelihood(learner: Learner) -> None:
    """exp(joint - log Σ exp joint), if any class is possible."""
    model, data = _learned(learner, 23)
    claim(learner.clone().joint_log_likelihood_one(data.xs[0]) == {}, "a joint before any class")
    for x in data.xs:
        joint, p = model.joint_log_likelihood_one(x), model.predict_proba_one(x)
        claim(list(joint) == list(p), "the joint likelihood has other classes than the posterior")
        top = max(joint.values())
        if top == -inf:
            continue
        total = sum(exp(v - top) for v in joint.values())
        for label, value in joint.items():
            claim(
                isclose(p[label], exp(value - top) / total, rel_tol=1e-9, abs_tol=1e-12),
                f"posterior {p} of the joint log likelihood {joint}",
            )


def the_evidence_normalises_the_joint_likelihood(learner: Learner) -> None:
    """log P(class | x) = joint - log p(x), which is -inf only if every class is impossible."""
    model, data = _learned(learner, 27)
    refuses(
        NotLearnedError,
        lambda: learner.clone().log_evidence_one(data.xs[0]),
        "an evidence before any class",
    )
    for x in data.xs:
        joint, p = model.joint_log_likelihood_one(x), model.predict_proba_one(x)
        evidence = model.log_evidence_one(x)
        claim((evidence == -inf) == (max(joint.values()) == -inf), "an evidence of 0 without cause")
        if evidence == -inf:
            continue
        for label, value in joint.items():
            claim(
                isclose(p[label], exp(value - evidence), rel_tol=1e-9, abs_tol=1e-12),
                f"posterior {p} of the joint {joint} with the evidence {evidence}",
            )


def _log_odds(model: Learner, x: Mapping[str, Any], why: Explanation) -> float:
    """Those of the joint likelihood, or of the posterior if the model has no joint; NaN if the
    posterior has a 0."""
    try:
        joint = model.joint_log_likelihood_one(x)
    except NotSupportedError:
        p = model.predict_proba_one(x)
        joint = {label: log(value) if value > 0.0 else nan for label, value in p.items()}
    return joint[why.label] - joint[why.against]


def contributions_sum_exactly_to_the_log_odds(learner: Learner) -> None:
    """The log-odds are those of the prediction. By default the two most probable classes are
    explained."""
    model, data = _learned(learner, 24)
    for x in data.xs:
        why = model.explain_one(x)
        claim(sum(why.contributions.values()) == why.log_odds, "contributions do not sum exactly")
        p = model.predict_proba_one(x)
        claim(why.label == max(p, key=p.__getitem__), "another class is explained than predicted")
        odds = _log_odds(model, x, why)
        scale = max(1.0, *(abs(v) for v in why.contributions.values()))
        claim(
            not isfinite(odds) or isclose(why.log_odds, odds, rel_tol=1e-9, abs_tol=1e-9 * scale),
            f"log-odds {why.log_odds} of an explanation, {odds} of the prediction",
        )


def an_explanation_of_the_converse_is_the_negative(learner: Learner) -> None:
    """a against b is minus b against a."""
    model, data = _learned(learner, 25)
    a, b, *_ = model.classes
    for x in data.xs[:20]:
        one, other = model.explain_one(x, a, b), model.explain_one(x, b, a)
        claim(one.log_odds == -other.log_odds, "the converse has other odds")


def parameters_are_counted(learner: Learner) -> None:
    """0 before the first record. The number grows with classes and values and never decreases."""
    data = records(learner, seed=26)
    model = learner.clone()
    claim(model.n_parameters == 0, f"{model.n_parameters} parameters before anything was learned")
    last = 0
    for x, y in zip(data.xs, data.ys, strict=True):
        model.learn_one(x, y)
        claim(model.n_parameters >= last, "learning made parameters fewer")
        last = model.n_parameters
    claim(last > 0, "no parameter after learning")


LAWS: tuple[Law, ...] = (
    the_posterior_is_the_normalised_joint_likelihood,
    the_evidence_normalises_the_joint_likelihood,
    contributions_sum_exactly_to_the_log_odds,
    an_explanation_of_the_converse_is_the_negative,
    parameters_are_counted,
)
