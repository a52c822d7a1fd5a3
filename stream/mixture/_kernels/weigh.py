"""Kernels that weigh experts by Bayes' rule with a bank of share rates."""

from __future__ import annotations

from math import exp, inf, isnan, log, nan
from typing import Any, NamedTuple

from numpy import empty, float64
from numpy.typing import NDArray

from stream.kernel import inlined, kernel

Floats = NDArray[float64]


class Belief(NamedTuple):
    """Weights under a bank of K share rates, the first of which is 0; float64.

    bank (K,): logarithms of the weights of the rates. bayes (N,): logarithms of the weights of the
    experts under the rate 0, which may be too small for a number. shares (K, N): the weights of the
    experts under each rate, the first row from `bayes`. As weights, each sums to 1.
    """

    bank: Floats
    bayes: Floats
    shares: Floats


@inlined
def normalise(logs: Any, out: Any, k: int) -> None:
    """Subtract from logs float64 (n,) the log of their sum as weights. out[k]: the weights."""
    top, total = -inf, 0.0
    for i in range(logs.shape[0]):
        top = max(top, logs[i])
    for i in range(logs.shape[0]):
        out[k, i] = exp(logs[i] - top)
        total += out[k, i]
    log_total, part = log(total), 1.0 / total
    for i in range(logs.shape[0]):
        logs[i] = (logs[i] - top) - log_total  # a sum with a far top would be rounded
        out[k, i] *= part


@kernel
def weights(s: Any, out: Any) -> None:
    """out float64 (N,): the weight of each expert, over all share rates."""
    whole = 0.0
    for i in range(out.shape[0]):
        out[i] = 0.0
        for k in range(s.bank.shape[0]):
            out[i] += exp(s.bank[k]) * s.shares[k, i]
        whole += out[i]
    for i in range(out.shape[0]):
        out[i] /= whole


@inlined
def floored(p: float, floor: float, least: float) -> float:
    """A probability of an expert, mixed with the share `floor` of the uniform distribution.

    least: floor / number of classes. NaN, from a damaged state, is 0."""
    return (1.0 - floor) * (p if p > 0.0 else 0.0) + least


@inlined
def weigh_and_share(
    likelihood: Any, rested: Any, others: float, w: float, rate: float, k: int, shares: Any
) -> None:
    """Learn which experts were right; then each gives the share `rate` of its weight to all alike.

    So no weight is below rate / N, and logarithms are not needed. Row k of `shares` is learned.
    others: the likelihood of the label by the mixture, for the experts that rested."""
    n, top, total = shares.shape[1], 0.0, 0.0
    for i in range(n):
        top = max(top, others if rested[i] else likelihood[i])
    for i in range(n):
        p = others if rested[i] else likelihood[i]
        shares[k, i] *= p if w == 1.0 else (p / top) ** w
        total += shares[k, i]
    kept, given = (1.0 - rate) / total, rate / n
    for i in range(n):
        shares[k, i] = kept * shares[k, i] + given


@inlined
def weigh(
    likelihood: Any,
    rested: Any,
    of_rates: Any,
    w: float,
    rates: Any,
    logs: Any,
    bank: Any,
    bayes: Any,
    shares: Any,
) -> None:
    """Learn which experts were right: likelihood float64 (N,) of the label, to the power w.

    of_rates float64 (K,): the likelihood of the label by the mixture of each share rate. rested
    bool (N,): which experts rested at the prediction. They count as if they had predicted what
    these mixtures did. logs, bayes, shares: of `Belief`. bank float64 (1, K): the weights of the
    rates.
    Herbster and Warmuth 1998, fixed share: after each label every expert gives the share rates[k],
    float64 (K,), of its weight to all experts alike.
    """
    for i in range(bayes.shape[0]):
        bayes[i] += w * log(of_rates[0] if rested[i] else likelihood[i])
    normalise(bayes, shares, 0)
    for k in range(1, rates.shape[0]):
        weigh_and_share(likelihood, rested, of_rates[k], w, rates[k], k, shares)
    for k in range(rates.shape[0]):
        logs[k] += w * log(of_rates[k])
    normalise(logs, bank, 0)
    for k in range(rates.shape[0]):
        bank[0, k] = exp(logs[k])  # as at the start of a block


@inlined
def only_awake(bayes: Any, shares: Any, awake: Any, out: Any) -> None:
    """out float64 (K, N): the shares of the awake experts, divided by their sum; the rest 0."""
    top = -inf
    for i in range(bayes.shape[0]):
        if awake[i]:
            top = max(top, bayes[i])
    for k in range(shares.shape[0]):
        total = 0.0
        for i in range(shares.shape[1]):
            out[k, i] = 0.0
            if awake[i]:
                out[k, i] = exp(bayes[i] - top) if k == 0 else shares[k, i]
            total += out[k, i]
        part = 1.0 / total
        for i in range(shares.shape[1]):
            out[k, i] *= part


@inlined
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

    proba: of `PartPredictions`. floor: of `floored`. bank float64 (1, K), experts float64 (K, N):
    the weights of the rates and of the experts. by_rate float64 (K, C): the probabilities of the
    mixture of each share rate.
    """
    whole, least = 0.0, floor / known if known > 0 else 0.0
    for c in range(known):
        out[c] = 0.0
        for k in range(bank.shape[1]):
            by_rate[k, c] = 0.0
        for e in range(experts.shape[1]):
            p = floored(proba[e, at, c], floor, least)
            for k in range(bank.shape[1]):
                by_rate[k, c] += experts[k, e] * p
        for k in range(bank.shape[1]):
            out[c] += bank[0, k] * by_rate[k, c]
        whole += out[c]
    for c in range(known):
        out[c] /= whole


@inlined
def note(memo: Any, r: int, known: int, proba: Any, at: int, awake: Any, by_rate: Any) -> None:
    """Note a prediction in row r: the number of classes; for each the probabilities of the N
    experts, NaN for those that rest, and then those of the mixtures of the K share rates."""
    n = awake.shape[0]
    memo[r, 0, 0] = known
    for c in range(known):
        for e in range(n):
            memo[r, 1 + c, e] = proba[e, at, c] if awake[e] else nan
        for k in range(by_rate.shape[0]):
            memo[r, 1 + c, n + k] = by_rate[k, c]


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
    out: Any,
    seen: Any,
) -> None:
    """Run the steps: write posteriors to out float64 (n_predictions, C), and weigh the experts.

    op, row, y, w: as in `Block`, with class codes. known: classes before the block. seen int64
    (n_predictions,): number of known classes. ran: `PartPredictions`, with a memo as in `note`.
    awake bool (N,): which experts do not rest. sums float64 (N,) or (0,): their weight after each
    label is added.
    """
    proba, asked, memo = ran
    logs, bayes, shares = s
    n, m = proba.shape[0], rates.shape[0]
    rested, all_awake = ~awake, awake.all()
    likelihood, of_rates, bank = empty(n), empty(m), empty((1, m))
    by_rate, mixed, experts = empty((m, out.shape[1])), empty(out.shape[1]), shares
    for k in range(m):
        bank[0, k] = exp(logs[k])
    if not all_awake:
        experts = empty((m, n))
        only_awake(bayes, shares, awake, experts)
    predicted = 0
    for i in range(op.shape[0]):
        at, r = asked[i], row[i]
        if at >= 0:
            mix(proba, at, known, floor, bank, experts, by_rate, mixed)
        if op[i] != 1:
            for c in range(known):
                out[predicted, c] = mixed[c]
            seen[predicted] = known
            predicted += 1
        if op[i] == 0:
            note(memo, r, known, proba, at, awake, by_rate)
            continue
        then = known if at >= 0 else min(int(memo[r, 0, 0]), memo.shape[1] - 1)
        if y[i] < then:
            least = floor / then
            for e in range(n):
                p = proba[e, at, y[i]] if at >= 0 else memo[r, 1 + y[i], e]
                likelihood[e] = floored(p, floor, least)
                rested[e] = not awake[e] if at >= 0 else isnan(p)
            for k in range(m):
                p = by_rate[k, y[i]] if at >= 0 else memo[r, 1 + y[i], n + k]
                of_rates[k] = p if p > least else least  # less in a damaged state
            weigh(likelihood, rested, of_rates, w[i], rates, logs, bank, bayes, shares)
            if not all_awake:
                only_awake(bayes, shares, awake, experts)
        for e in range(sums.shape[0]):
            for k in range(m):
                sums[e] += bank[0, k] * shares[k, e]
        known = max(known, y[i] + 1)
