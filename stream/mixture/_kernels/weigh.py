"""Kernels that weigh experts by Bayes' rule with a bank of share rates."""

from __future__ import annotations

from math import exp, inf, isnan, log, nan
from typing import Any, NamedTuple

from numpy import empty, float64
from numpy.typing import NDArray

from stream.kernel import kernel

Floats = NDArray[float64]


class Belief(NamedTuple):
    """Logarithms of weights, float64: bank (K,) of the share rates, experts (K, N) of the experts
    under each rate. Each row sums to 1 as weights."""

    bank: Floats
    experts: Floats


@kernel
def normalise(logs: Any) -> None:
    """Subtract from logs float64 (n,) the log of their sum as weights."""
    top = -inf
    for i in range(logs.shape[0]):
        top = max(top, logs[i])
    total = 0.0
    for i in range(logs.shape[0]):
        total += exp(logs[i] - top)
    for i in range(logs.shape[0]):
        logs[i] = (logs[i] - top) - log(total)  # a sum with a far top would be rounded


@kernel
def weights(s: Any, out: Any) -> None:
    """out float64 (N,): the weight of each expert, over all share rates."""
    for i in range(out.shape[0]):
        out[i] = 0.0
    for k in range(s.bank.shape[0]):
        for i in range(out.shape[0]):
            out[i] += exp(s.bank[k] + s.experts[k, i])
    total = 0.0
    for i in range(out.shape[0]):
        total += out[i]
    for i in range(out.shape[0]):
        out[i] /= total


@kernel
def floored(p: float, known: int, floor: float) -> float:
    """A probability of an expert among `known` classes, mixed with the share `floor` of the uniform
    distribution. NaN, from a damaged state, is 0."""
    return (1.0 - floor) * (p if p > 0.0 else 0.0) + floor / known


@kernel
def weigh(likelihood: Any, rested: Any, of_rates: Any, w: float, rates: Any, s: Any) -> None:
    """Learn which experts were right: likelihood float64 (N,) of the label, to the power w.

    of_rates float64 (K,): the likelihood of the label by the mixture of each share rate. rested
    bool (N,): which experts rested at the prediction. They count as if they had predicted what
    these mixtures did.
    Herbster and Warmuth 1998, fixed share: after each label every expert gives the share rates[k],
    float64 (K,), of its weight to all experts alike.
    """
    n = likelihood.shape[0]
    for k in range(rates.shape[0]):
        own, top, total = s.experts[k], -inf, 0.0
        for i in range(n):
            own[i] += w * log(of_rates[k] if rested[i] else likelihood[i])
            top = max(top, own[i])
        for i in range(n):
            total += exp(own[i] - top)
        s.bank[k] += w * log(of_rates[k])
        for i in range(n):
            own[i] = (own[i] - top) - log(total)
            if rates[k] > 0.0:
                own[i] = log((1.0 - rates[k]) * exp(own[i]) + rates[k] / n)
    normalise(s.bank)


@kernel
def shares_of(s: Any, bank: Any, experts: Any) -> None:
    """bank float64 (K,), experts float64 (K, N): the weights of `Belief` as shares."""
    for k in range(bank.shape[0]):
        bank[k] = exp(s.bank[k])
        for i in range(experts.shape[1]):
            experts[k, i] = exp(s.experts[k, i])


@kernel
def only_awake(s: Any, awake: Any, experts: Any) -> None:
    """experts float64 (K, N): the shares of the awake experts, divided by their sum; the rest 0."""
    for k in range(experts.shape[0]):
        top, total = -inf, 0.0
        for i in range(experts.shape[1]):
            if awake[i]:
                top = max(top, s.experts[k, i])
        for i in range(experts.shape[1]):
            experts[k, i] = exp(s.experts[k, i] - top) if awake[i] else 0.0
            total += experts[k, i]
        for i in range(experts.shape[1]):
            experts[k, i] /= total


@kernel
def mix(
    proba: Any,
    at: int,
    known: int,
    floor: float,
    bank: Any,
    experts: Any,
    by_rate: Any,
    out: Any,
) -> None:
    """out float64 (C,): the weighted probabilities of `known` classes at prediction `at`.

    proba: of `PartPredictions`. floor: of `floored`. bank, experts: of `shares_of`. by_rate float64
    (K, C): the probabilities of the mixture of each share rate.
    """
    total = 0.0
    for c in range(known):
        out[c] = 0.0
        for k in range(bank.shape[0]):
            by_rate[k, c] = 0.0
        for i in range(experts.shape[1]):
            p = floored(proba[i, at, c], known, floor)
            for k in range(bank.shape[0]):
                by_rate[k, c] += experts[k, i] * p
        for k in range(bank.shape[0]):
            out[c] += bank[k] * by_rate[k, c]
        total += out[c]
    for c in range(known):
        out[c] /= total


@kernel
def progressive(
    op: Any,
    row: Any,
    y: Any,
    w: Any,
    known: int,
    rates: Any,
    floor: float,
    ran: Any,
    s: Any,
    awake: Any,
    sums: Any,
    proba: Any,
    seen: Any,
) -> None:
    """Run the steps: write posteriors to proba float64 (n_predictions, C), and weigh the experts.

    op, row, y, w: as in `Block`, with class codes. known: classes before the block. seen int64
    (n_predictions,): number of known classes. ran: `PartPredictions`. A row notes the probabilities
    of the N experts, NaN for those that rest, and then those of the mixtures of the K share rates.
    awake bool (N,): which experts do not rest. sums float64 (N,) or (0,): their weight after each
    label is added.
    """
    n, m = ran.proba.shape[0], rates.shape[0]
    rested, all_awake = ~awake, awake.all()
    bank, experts, likelihood, of_rates = empty(m), empty((m, n)), empty(n), empty(m)
    by_rate, mixed = empty((m, proba.shape[1])), empty(proba.shape[1])
    shares_of(s, bank, experts)
    if not all_awake:
        only_awake(s, awake, experts)
    predicted = 0
    for i in range(op.shape[0]):
        at, memo = ran.at[i], ran.memo[row[i]]
        if at >= 0:
            mix(ran.proba, at, known, floor, bank, experts, by_rate, mixed)
        if op[i] != 1:
            for c in range(known):
                proba[predicted, c] = mixed[c]
            seen[predicted] = known
            predicted += 1
        if op[i] == 0:
            memo[0, 0] = known
            for c in range(known):
                for e in range(n):
                    memo[1 + c, e] = ran.proba[e, at, c] if awake[e] else nan
                for k in range(m):
                    memo[1 + c, n + k] = by_rate[k, c]
            continue
        then = known if at >= 0 else min(int(memo[0, 0]), memo.shape[0] - 1)
        if y[i] < then:
            for e in range(n):
                p = ran.proba[e, at, y[i]] if at >= 0 else memo[1 + y[i], e]
                likelihood[e] = floored(p, then, floor)
                rested[e] = not awake[e] if at >= 0 else isnan(p)
            for k in range(m):
                p = by_rate[k, y[i]] if at >= 0 else memo[1 + y[i], n + k]
                of_rates[k] = p if p > floor / then else floor / then  # less in a damaged state
            weigh(likelihood, rested, of_rates, w[i], rates, s)
        shares_of(s, bank, experts)
        for e in range(sums.shape[0]):
            for k in range(m):
                sums[e] += bank[k] * experts[k, e]
        if not all_awake:
            only_awake(s, awake, experts)
        known = max(known, y[i] + 1)
