"""Kernels that weigh experts by Bayes' rule with a bank of share rates."""

from __future__ import annotations

from math import exp, inf, isnan, log, nan
from typing import Any, NamedTuple

from numpy import bool_, empty, float64
from numpy.typing import NDArray

from stream.kernel import inlined, kernel

Floats = NDArray[float64]

TINY = 1e-200  # below it, a sum of weights has lost digits


class Belief(NamedTuple):
    """Weights under a bank of K share rates, the first of which is 0; float64.

    bank (1, K): the weights of the rates; log_bank (K,): their logarithms. shares (K, N): the
    weights of the experts under each rate; log_bayes (N,): the logarithms of the first row, which
    may be too small for a number, as those of `bank` may.
    """

    log_bank: Floats
    bank: Floats
    log_bayes: Floats
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
        for k in range(s.bank.shape[1]):
            out[i] += s.bank[0, k] * s.shares[k, i]
        whole += out[i]
    for i in range(out.shape[0]):
        out[i] /= whole


@inlined
def floored(p: float, floor: float, least: float) -> float:
    """A probability of an expert, mixed with the share `floor` of the uniform distribution.

    least: floor / number of classes. NaN, from a damaged state, is 0."""
    return (1.0 - floor) * (p if p > 0.0 else 0.0) + least


@kernel
def to_the_power(w: float, least: float, likelihood: Any, of_rates: Any) -> None:
    """Replace each p by the power w of p / the largest one, and at least by `least`.

    least: the least p, so a label of any weight moves odds at most as far as one of weight 1 can.
    Not inlined: a power slows down the loop around it."""
    top = max(likelihood.max(), of_rates.max())
    for each in (likelihood, of_rates):
        for i in range(each.shape[0]):
            each[i] = max((each[i] / top) ** float(w), least)


@inlined
def weigh_and_share(
    likelihood: Any, rested: Any, others: float, rate: float, k: int, shares: Any
) -> None:
    """Learn which experts were right; then each gives the share `rate` of its weight to all alike.

    So no weight is below rate / N, and logarithms are not needed. Row k of `shares` is learned.
    others: the likelihood of the label by the mixture, for the experts that rested."""
    n, total = shares.shape[1], 0.0
    for i in range(n):
        shares[k, i] *= others if rested[i] else likelihood[i]
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
    least: float,
    rates: Any,
    log_bank: Any,
    bank: Any,
    log_bayes: Any,
    shares: Any,
) -> None:
    """Learn which experts were right: likelihood float64 (N,) of the label, to the power w as in
    `to_the_power`.

    of_rates float64 (K,): the likelihood of the label by the mixture of each share rate. rested
    bool (N,): which experts rested at the prediction. They count as if they had predicted what
    these mixtures did. likelihood and of_rates are scratch afterwards. log_bank … shares: of
    `Belief`.
    Herbster and Warmuth 1998, fixed share: after each label every expert gives the share rates[k],
    float64 (K,), of its weight to all experts alike.
    """
    if w != 1.0:
        to_the_power(w, least, likelihood, of_rates)
    for i in range(log_bayes.shape[0]):
        log_bayes[i] += log(of_rates[0] if rested[i] else likelihood[i])
    normalise(log_bayes, shares, 0)
    for k in range(rates.shape[0]):
        log_bank[k] += log(of_rates[k])
    normalise(log_bank, bank, 0)
    for k in range(1, rates.shape[0]):
        weigh_and_share(likelihood, rested, of_rates[k], rates[k], k, shares)


@inlined
def only_awake(log_bayes: Any, shares: Any, awake: Any, out: Any) -> None:
    """out float64 (K, N): the shares of the awake experts, divided by their sum; the rest 0."""
    for k in range(shares.shape[0]):
        total = 0.0
        for i in range(shares.shape[1]):
            out[k, i] = shares[k, i] if awake[i] else 0.0
            total += out[k, i]
        if total < TINY:  # of the rate 0; an expert that rests has all the weight
            total, top = 0.0, -inf
            for i in range(shares.shape[1]):
                top = max(top, log_bayes[i] if awake[i] else -inf)
            for i in range(shares.shape[1]):
                out[k, i] = exp(log_bayes[i] - top) if awake[i] else 0.0
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

    proba: of `PartPredictions`. floor: of `floored`. bank, experts: weights, as in `Belief`.
    by_rate float64 (K, C): the probabilities of the mixture of each share rate.
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
    log_bank, bank, log_bayes, shares = s
    n, m = proba.shape[0], rates.shape[0]
    rested, all_awake = ~awake, awake.all()
    likelihood, of_rates = empty(n), empty(m)
    by_rate, mixed, experts = empty((m, out.shape[1])), empty(out.shape[1]), shares
    if not all_awake:
        experts = empty((m, n))
        only_awake(log_bayes, shares, awake, experts)
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
            weigh(
                likelihood, rested, of_rates, w[i], least, rates, log_bank, bank, log_bayes, shares
            )
            if not all_awake:
                only_awake(log_bayes, shares, awake, experts)
        for e in range(sums.shape[0]):
            for k in range(m):
                sums[e] += bank[0, k] * shares[k, e]
        known = max(known, y[i] + 1)


@kernel
def remembered(op: Any, row: Any, memo: Any, out: Any) -> None:
    """out bool (m,): whether a step learns a row that was predicted before, now or earlier.

    op int8, row int64 (m,) as in `Block`; memo float64 (rows, any, any) as in `Rows`.
    """
    seen = empty(memo.shape[0], bool_)
    for r in range(memo.shape[0]):
        seen[r] = memo.shape[1] > 0 and not isnan(memo[r, 0, 0])
    for i in range(op.shape[0]):
        if op[i] == 0:
            seen[row[i]] = True
        out[i] = op[i] == 1 and seen[row[i]]
