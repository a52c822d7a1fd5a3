"""Kernels that weigh experts by Bayes' rule and stack them: a logistic regression over the
logarithms of their probabilities, its correction by bins, and weights of these three.

Rule: logarithms of what a block brings are taken for the whole block, and logarithms and
exponentials of weights for all weights of a step, because such loops are vectorised.
"""

from __future__ import annotations

from math import inf, isnan, log, nan, sqrt
from typing import Any, NamedTuple

from numpy import array, empty, float64, int64, ones, true_divide, zeros
from numpy.typing import NDArray

from stream.kernel import inlined, kernel
from stream.kernel._kernels import exps_of, logs_of
from stream.mixture._kernels.calibrate import (
    DAMPING,
    FARTHEST,
    HEAVIEST,
    STEEPEST,
    bin_of,
    correct_by_bin,
    count_bin,
)
from stream.mixture._kernels.weigh import floored, only_awake

Floats = NDArray[float64]

RATE = 0.02  # the length of the first step of a slope or bias
FLOOR = 1e-3  # the share of the uniform distribution in that of each expert
LITTLE = 1e-6  # and in each of the three distributions
THREE = 3  # the mixture, the stack, and the stack corrected by bins
# A smaller weight counts as 0: beside weights that sum to 1 it would not change a bit. A product
# below 2.2e-308, the least normal number, takes a processor some hundred cycles.
NEGLIGIBLE = 1e-290


class Stacked(NamedTuple):
    """What the stack has learned, float64. slope, slope_squares (N + 1,): of the N experts and,
    last, of their mixture; bias, bias_squares (C,); each with its sum of squared gradients. right
    (len(ENDS) + 1, 2): by the bin of the largest probability of the stack, the weight and the
    weight that was right."""

    slope: Floats
    slope_squares: Floats
    bias: Floats
    bias_squares: Floats
    right: Floats


# What runs for each record takes whole arrays, and no tuples or parts of them, because counting
# references to these costs more than what is computed, see `linear/_kernels/logistic.py`. A loop
# with a plain division is not vectorised, because it checks for 0.


@inlined
def read(proba: Any, a: int, known: int, p: Any, z: Any) -> None:
    """p[a], z[a], of float64 (q + 1, C, N + 1): the probabilities of each expert at prediction a,
    floored; 1 for a class that is not known."""
    n, least = proba.shape[0], FLOOR / max(known, 1)
    for c in range(p.shape[1]):
        for e in range(n):
            p[a, c, e] = floored(proba[e, a, c], FLOOR, least) if c < known else 1.0
            z[a, c, e] = p[a, c, e]
        p[a, c, n], z[a, c, n] = 1.0, 1.0


@kernel
def read_block(op: Any, y: Any, known: int, proba: Any, asked: Any, p: Any, z: Any) -> None:
    """As `read`, of each prediction of a block, with logarithms in z. The last p, z are 1 and 0."""
    for i in range(op.shape[0]):
        if asked[i] >= 0:
            read(proba, asked[i], known, p, z)
        if op[i] != 0:
            known = max(known, y[i] + 1)
    read(proba, proba.shape[1], 0, p, z)
    flat = z.reshape(z.size)
    logs_of(flat, flat.view(int64), empty(flat.size))


@inlined
def note(
    memo: Any, r: int, known: int, proba: Any, a: int, awake: Any, each: Any, rates: Any, own: Any
) -> None:
    """Note a prediction in row r: the number of classes; and for each the probabilities of the N
    experts, NaN for those that rest, of the three distributions, and of the mixtures of the share
    rates of both: rates float64 (K, C), own (L, C)."""
    n, m = awake.shape[0], rates.shape[0]
    memo[r, 0, 0] = known
    for c in range(known):
        for e in range(n):
            memo[r, 1 + c, e] = proba[e, a, c] if awake[e] else nan
        for e in range(THREE):
            memo[r, 1 + c, n + e] = each[e, c]
        for k in range(m):
            memo[r, 1 + c, n + THREE + k] = rates[k, c]
        for k in range(own.shape[0]):
            memo[r, 1 + c, n + THREE + m + k] = own[k, c]


@kernel
def recall(
    memo: Any, r: int, known: int, p: Any, z: Any, rested: Any, each: Any, rates: Any, own: Any
) -> None:
    """The inverse of `note`, with the last of p, z as in `read_block`. rested bool (N,): which
    experts rested."""
    n, m, a, least = rested.shape[0], rates.shape[0], p.shape[0] - 1, FLOOR / max(known, 1)
    found = empty(n)
    bits, power = found.view(int64), empty(n)
    for e in range(n):
        rested[e] = known > 0 and isnan(memo[r, 1, e])
    for c in range(known):
        for e in range(n):
            p[a, c, e] = found[e] = floored(memo[r, 1 + c, e], FLOOR, least)
        logs_of(found, bits, power)
        for e in range(n):
            z[a, c, e] = found[e]
        for e in range(THREE):
            each[e, c] = memo[r, 1 + c, n + e]
        for k in range(m):
            rates[k, c] = memo[r, 1 + c, n + THREE + k]
        for k in range(own.shape[0]):
            own[k, c] = memo[r, 1 + c, n + THREE + m + k]


@inlined
def mix_experts(p: Any, a: int, known: int, total: Any, awake: Any, rested: Any, out: Any) -> None:
    """out float64 (3, C): in its first row the probabilities p[a], weighed by total float64
    (N,). rested: who is not awake."""
    whole = 0.0
    for c in range(known):
        mixed = 0.0
        for e in range(total.shape[0]):
            mixed += total[e] * p[a, c, e]
        out[0, c] = mixed
        whole += mixed
    part = true_divide(1.0, whole)
    for c in range(known):
        out[0, c] *= part
    for e in range(awake.shape[0]):
        rested[e] = not awake[e]


@inlined
def put(p: Any, known: int, out: Any, at: int) -> None:
    """out[at], of float64 (n, C), becomes p float64 (C,) of the known classes."""
    for c in range(known):
        out[at, c] = p[c]


@kernel
def without_negligible(belief: Any) -> Any:
    """A `Belief` with copies of its weights, with 0 for those that are too small to count."""
    log_bank, bank, log_bayes, shares = belief
    return log_bank, counting(bank), log_bayes, counting(shares)


@kernel
def counting(weights: Any) -> Any:
    """A copy of weights float64 (K, N), with 0 for those that are too small to count."""
    kept = weights.copy()
    for k in range(kept.shape[0]):
        for e in range(kept.shape[1]):
            kept[k, e] = kept[k, e] if kept[k, e] > NEGLIGIBLE else 0.0
    return kept


@inlined
def add_weights(bank: Any, shares: Any, sums: Any) -> None:
    """Add to sums float64 (N,) or (0,) the weights of the experts over all share rates."""
    for e in range(sums.shape[0]):
        for k in range(shares.shape[0]):
            sums[e] += bank[0, k] * shares[k, e]


@inlined
def mix_three(each: Any, known: int, total: Any, out: Any) -> None:
    """out float64 (C,): the three distributions, floored, weighed by total float64 (3,)."""
    whole, little = 0.0, LITTLE / max(known, 1)
    for c in range(known):
        mixed = 0.0
        for e in range(THREE):
            mixed += total[e] * floored(each[e, c], LITTLE, little)
        out[c] = mixed
        whole += mixed
    part = true_divide(1.0, whole)
    for c in range(known):
        out[c] *= part


@kernel
def mix_by_rate(
    c: int,
    known: int,
    p: Any,
    a: int,
    shares: Any,
    each: Any,
    own_shares: Any,
    rates: Any,
    own: Any,
) -> None:
    """rates, own float64 (K, C): at class c, the probability of the mixture of each share rate, of
    the experts by their `shares`, and of the three by theirs."""
    little = LITTLE / known
    for k in range(shares.shape[0]):
        mixed = 0.0
        for e in range(shares.shape[1]):
            mixed += shares[k, e] * p[a, c, e]
        rates[k, c] = mixed
    for k in range(own_shares.shape[0]):
        mixed = 0.0
        for e in range(THREE):
            mixed += own_shares[k, e] * floored(each[e, c], LITTLE, little)
        own[k, c] = mixed


@kernel
def mix_all(
    known: int, p: Any, a: int, shares: Any, each: Any, own_shares: Any, rates: Any, own: Any
) -> None:
    """`mix_by_rate` at each class."""
    for c in range(known):
        mix_by_rate(c, known, p, a, shares, each, own_shares, rates, own)


@inlined
def over_rates(bank: Any, shares: Any, out: Any) -> None:
    """out float64 (N,): the weights of experts over all share rates."""
    for e in range(out.shape[0]):
        out[e] = 0.0
    for k in range(shares.shape[0]):
        for e in range(out.shape[0]):
            out[e] += bank[0, k] * shares[k, e]


@kernel
def over_awake(
    logs: Any, log_bayes: Any, bank: Any, shares: Any, awake: Any, used: Any, total: Any
) -> None:
    """used float64 (K, N): the shares of the experts that are awake; total (N,): their weights over
    all share rates. log_bayes: becomes the first row of logs."""
    n, count = shares.shape[1], 0
    for e in range(n):
        log_bayes[e] = logs[0, e]
        count += awake[e]
    if count < n:
        only_awake(log_bayes, shares, awake, used)
    else:
        for k in range(shares.shape[0]):
            for e in range(n):
                used[k, e] = shares[k, e]
    over_rates(bank, used, total)


@inlined
def add_mixture(
    each: Any, known: int, rested: Any, z: Any, a: int, line: Any, bits: Any, power: Any
) -> None:
    """z[a, c, N] becomes log(each[0, c]), and so does z[a, c, e] of an expert that rested: it
    counts as if it had predicted what the others did. line float64 (C,), its bits, power:
    scratch."""
    n, least = rested.shape[0], FLOOR / max(known, 1)
    for c in range(line.shape[0]):
        line[c] = max(each[0, c], least) if c < known else 1.0  # less in a damaged state
    logs_of(line, bits, power)
    for c in range(known):
        z[a, c, n] = line[c]
        for e in range(n):
            if rested[e]:
                z[a, c, e] = line[c]


@inlined
def stack(
    z: Any,
    a: int,
    known: int,
    slope: Any,
    bias: Any,
    bits: Any,
    power: Any,
    powers: Any,
    out: Any,
) -> None:
    """out float64 (C,), with its bits: the softmax of slope · z[a] + bias. power, powers:
    scratch."""
    top, total = -inf, 0.0
    for c in range(known):
        score = bias[c]
        for e in range(slope.shape[0]):
            score += slope[e] * z[a, c, e]
        out[c] = score
        top = max(top, score)
    for c in range(out.shape[0]):
        out[c] = out[c] - top if c < known else 0.0
    exps_of(out, bits, power, powers)
    for c in range(known):
        total += out[c]
    part = true_divide(1.0, total)
    for c in range(known):
        out[c] *= part


@inlined
def best_of(each: Any, known: int) -> int:
    """The most probable class of the stack, the first one of equal ones."""
    best = 0
    for c in range(1, known):
        if each[1, c] > each[1, best]:
            best = c
    return best


@kernel
def learn_stack(
    y: int,
    w: float,
    z: Any,
    a: int,
    p: Any,
    known: int,
    rested: Any,
    gradient: Any,
    slope: Any,
    slope_squares: Any,
    bias: Any,
    bias_squares: Any,
) -> None:
    """One gradient step of the log loss, as in `calibrate.step`. p float64 (C,): the probabilities
    of the stack. gradient float64 (N + 1,): scratch. The slope of an expert that rested stays."""
    w = min(w, HEAVIEST)
    for e in range(gradient.shape[0]):
        gradient[e] = 0.0
    for c in range(known):
        g = p[c] - (1.0 if c == y else 0.0)
        bias_squares[c] += w * g * g
        step = true_divide(RATE * (w * g), sqrt(DAMPING + bias_squares[c]))
        moved = bias[c] - min(max(step, -RATE), RATE)
        bias[c] = min(max(moved, -FARTHEST), FARTHEST)
        for e in range(gradient.shape[0]):
            gradient[e] += g * z[a, c, e]
    for e in range(rested.shape[0]):
        gradient[e] = 0.0 if rested[e] else gradient[e]
    for e in range(gradient.shape[0]):
        g = gradient[e]
        slope_squares[e] += w * g * g
        step = true_divide(RATE * (w * g), sqrt(DAMPING + slope_squares[e]))
        moved = slope[e] - min(max(step, -RATE), RATE)
        slope[e] = min(max(moved, 0.0), STEEPEST)


# The weights that a label changes are in four rows of arrays float64 (4, W): those of the experts,
# of their share rates, of the three distributions, and of their share rates. What is beyond a row's
# length is not used. A flat view of such an array is `flat`.


@kernel
def likelihoods(
    y: int, known: int, p: Any, a: int, each: Any, rates: Any, own: Any, out: Any
) -> None:
    """out float64 (4, W): the probability of the label by each expert, by the mixture of each share
    rate, by each of the three distributions, and by the mixture of each of their share rates."""
    least, little = FLOOR / known, LITTLE / known
    for e in range(p.shape[2] - 1):
        out[0, e] = p[a, y, e]
    for e in range(THREE):
        out[2, e] = floored(each[e, y], LITTLE, little)
    for k in range(rates.shape[0]):  # less in a damaged state
        out[1, k] = max(rates[k, y], least)
    for k in range(own.shape[0]):
        out[3, k] = max(own[k, y], little)


@kernel
def scale_logs(w: float, known: int, length: Any, learned: Any) -> None:
    """learned float64 (4, W): log p becomes the log of `weigh.to_the_power`, by mixture."""
    for g in range(0, learned.shape[0], 2):
        top, least = -inf, log((FLOOR if g == 0 else LITTLE) / known)
        for h in range(2):
            for i in range(length[g + h]):
                top = max(top, learned[g + h, i])
        for h in range(2):
            for i in range(length[g + h]):
                learned[g + h, i] = max(w * (learned[g + h, i] - top), least)


@kernel
def learn_logs(
    w: float,
    known: int,
    rested: Any,
    length: Any,
    likelihood: Any,
    learned: Any,
    flat: Any,
    bits: Any,
    power: Any,
    powers: Any,
    logs: Any,
) -> None:
    """Learn the logarithms of weights, logs float64 (4, W); likelihood becomes that to the power w.
    learned, with its flat view and bits: scratch. length int64 (4,): of the rows."""
    for g in range(learned.shape[0]):
        for i in range(learned.shape[1]):
            learned[g, i] = likelihood[g, i]
    logs_of(flat, bits, power)
    if w != 1.0:
        scale_logs(w, known, length, learned)
    for g in range(logs.shape[0]):
        for i in range(length[g]):
            logs[g, i] += learned[1, 0] if g == 0 and rested[i] else learned[g, i]
    if w != 1.0:
        exps_of(flat, bits, power, powers)
        for g in range(logs.shape[0]):
            for i in range(length[g]):
                likelihood[g, i] = learned[g, i]


@kernel
def take_weights(
    length: Any,
    logs: Any,
    raw: Any,
    flat: Any,
    bits: Any,
    power: Any,
    powers: Any,
    part: Any,
    weight: Any,
) -> None:
    """weight float64 (4, W): the weights, which sum to 1 in each row, without the negligible ones.

    All of them are raw float64 (4, W), with its flat view and bits, times part float64 (4,). Their
    sum is subtracted from the logarithms too."""
    for g in range(logs.shape[0]):
        top = -inf
        for i in range(length[g]):
            top = max(top, logs[g, i])
        for i in range(length[g]):
            logs[g, i] -= top  # first, because a sum with a far top would be rounded
            raw[g, i] = logs[g, i]
    exps_of(flat, bits, power, powers)
    for g in range(logs.shape[0]):
        total = 0.0
        for i in range(length[g]):
            total += raw[g, i]
        log_total, part[g] = log(total), true_divide(1.0, total)
        for i in range(length[g]):
            logs[g, i] -= log_total
            weight[g, i] = (raw[g, i] if raw[g, i] > NEGLIGIBLE else 0.0) * part[g]


@kernel
def share(
    g: int, likelihood: Any, rested: Any, rates: Any, weight: Any, bank: Any, shares: Any
) -> None:
    """The weights after a label: weight[g] of the experts under the rate 0, weight[g + 1] of the
    rates. Under the other rates the experts learn, and each gives a share of its weight to all
    alike (Herbster and Warmuth 1998), so that no weight is below rate / N. An expert that rested
    counts as the mixture of the rate. likelihood, weight float64 (4, W)."""
    n = shares.shape[1]
    for i in range(n):
        shares[0, i] = weight[g, i]
    bank[0, 0] = weight[g + 1, 0]
    for k in range(1, rates.shape[0]):
        bank[0, k] = weight[g + 1, k]
        others, total = likelihood[g + 1, k], 0.0
        for i in range(n):
            shares[k, i] *= others if g == 0 and rested[i] else likelihood[g, i]
            total += shares[k, i]
        kept, given = true_divide(1.0 - rates[k], total), rates[k] / n
        for i in range(n):
            shares[k, i] = kept * shares[k, i] + given


@kernel
def store(g: int, raw: Any, part: Any, used: Any, belief: Any) -> None:
    """belief: a `Belief` gets the weights after the last label, if one was learned, with those that
    `take_weights` left out."""
    if part[g] == 0.0:
        return
    _, bank, _, shares = belief
    for i in range(shares.shape[1]):
        shares[0, i] = raw[g, i] * part[g]
    for k in range(shares.shape[0]):
        bank[0, k] = raw[g + 1, k] * part[g + 1]
        for i in range(shares.shape[1] if k > 0 else 0):
            shares[k, i] = used[k, i]


@kernel
def collect(one: Any, two: Any, three: Any, four: Any, rows: Any, back: bool) -> None:
    """Copy four arrays float64 into the rows of float64 (4, W) or, if `back`, out of them."""
    for g, part in enumerate((one, two, three, four)):
        for i in range(part.shape[0]):
            if back:
                part[i] = rows[g, i]
            else:
                rows[g, i] = part[i]


@kernel
def room(classes: int, n: int, m: int, own: int) -> Any:
    """Scratch of n experts and so many share rates of theirs and of the three: the lengths of the
    rows of weights, arrays of weights, flat views of some and their bits, lines of classes with
    their bits and one of experts, and distributions."""
    length, shape = array([n, m, THREE, own]), (4, max(n, m, THREE, own))
    logs, weight, raw, part = zeros(shape), zeros(shape), zeros(shape), zeros(4)
    likelihood, learned = ones(shape), ones(shape)
    now, line, mixed, more = empty(classes), empty(classes), empty(classes), empty(classes)
    by_rate, own_rate, each = empty((m, classes)), empty((own, classes)), empty((THREE, classes))
    weights = length, logs, weight, raw, part, likelihood, learned
    flat_w, flat, power = raw.reshape(raw.size), learned.reshape(raw.size), empty(raw.size)
    flats = flat_w, flat_w.view(int64), flat, flat.view(int64), power, power.view(int64)
    lines = now, now.view(int64), line, line.view(int64), mixed, more, more.view(int64)
    return weights, flats, (*lines, empty(n + 1)), (by_rate, own_rate, each)


@kernel
def progressive(
    steps: Any, known: int, ran: Any, state: Any, both: Any, awake: Any, sums: Any, out: Any
) -> None:
    """Run the steps: write posteriors, and learn.

    steps: op, row, y, w, and known, awake, sums: as in `weigh.progressive`. ran: `PartPredictions`,
    with a memo as in `note`. state: `Belief` of the experts, `Stacked`, `Belief` of the three.
    both: the share rates of both, float64 (K,) and (L,). out: posteriors float64 (n_predictions, C)
    and the number of known classes int64 (n_predictions,).
    """
    (op, row, y, w), (proba, asked, memo) = steps, ran
    of_experts, s, of_three = state
    log_bank, bank, log_bayes, shares = without_negligible(of_experts)
    log_own, own_bank, log_three, own_shares = without_negligible(of_three)
    (slope, slope_squares, bias, bias_squares, right), (rates, own_rates), predicted = s, both, 0
    (found, seen), n, q, classes = out, proba.shape[0], proba.shape[1], out[0].shape[1]
    p, z = empty((q + 1, classes, n + 1)), empty((q + 1, classes, n + 1))
    read_block(op, y, known, proba, asked, p, z)
    weights, flats, lines, distributions = room(classes, n, rates.shape[0], own_rates.shape[0])
    length, logs, weight, raw, part, likelihood, learned = weights
    (flat_w, bits_w, flat, bits, power, powers), (by_rate, own_rate, each) = flats, distributions
    now, bits_now, line, bits_line, mixed, more, mores, gradient = lines
    collect(log_bayes, log_bank, log_three, log_own, logs, False)
    rested, used, total, own_total = ~awake, empty(shares.shape), empty(n), empty(THREE)
    over_awake(logs, log_bayes, bank, shares, awake, used, total)
    over_rates(own_bank, own_shares, own_total)
    for i in range(op.shape[0]):
        at_once, a, r, count, yi, wi = asked[i] >= 0, asked[i], row[i], known, y[i], w[i]
        if at_once:
            mix_experts(p, a, count, total, awake, rested, each)
        else:
            a, count = q, min(int(memo[r, 0, 0]), memo.shape[1] - 1, classes)
            recall(memo, r, count, p, z, rested, each, by_rate, own_rate)
        add_mixture(each, count, rested, z, a, line, bits_line, more)
        stack(z, a, count, slope, bias, bits_now, more, mores, now)
        if at_once:
            put(now, count, each, 1)
        best = best_of(each, count)
        j = bin_of(each[1, best]) if count > 0 else 0
        if at_once:
            correct_by_bin(now, count, best, j, right, each[2])
            mix_three(each, count, own_total, mixed)
        if op[i] != 1:
            put(mixed, count, found, predicted)
            seen[predicted], predicted = known, predicted + 1
        if op[i] == 0:
            mix_all(count, p, a, used, each, own_shares, by_rate, own_rate)
            note(memo, r, known, proba, a, awake, each, by_rate, own_rate)
            continue
        if yi < count:
            if at_once:
                mix_by_rate(yi, count, p, a, used, each, own_shares, by_rate, own_rate)
            learn_stack(
                yi, wi, z, a, now, count, rested, gradient, slope, slope_squares, bias, bias_squares
            )
            count_bin(j, wi, best == yi, right)
            likelihoods(yi, count, p, a, each, by_rate, own_rate, likelihood)
            learn_logs(
                wi, count, rested, length, likelihood, learned, flat, bits, power, powers, logs
            )
            take_weights(length, logs, raw, flat_w, bits_w, power, powers, part, weight)
            share(0, likelihood, rested, rates, weight, bank, shares)
            share(2, likelihood, rested, own_rates, weight, own_bank, own_shares)
            over_awake(logs, log_bayes, bank, shares, awake, used, total)
            over_rates(own_bank, own_shares, own_total)
        add_weights(bank, shares, sums)
        known = max(known, yi + 1)
    collect(log_bayes, log_bank, log_three, log_own, logs, True)
    store(0, raw, part, shares, of_experts)
    store(2, raw, part, own_shares, of_three)
