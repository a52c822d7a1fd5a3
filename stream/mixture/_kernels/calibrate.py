"""Kernels that correct probabilities by slopes and a bias for each class, learned by gradients, and
weigh them against the probabilities before the correction."""

from __future__ import annotations

from math import exp, inf, log, sqrt
from typing import Any, NamedTuple

from numpy import bool_, empty, float64, zeros
from numpy.typing import NDArray

from stream.kernel import inlined, kernel
from stream.mixture._kernels.weigh import floored, mix, weigh

Floats = NDArray[float64]

MIXED_IN = (0.3, 0.01, 1e-6)  # shares of the uniform distribution in each of the logarithms
DAMPING = 0.01  # added to each sum of squared gradients: small first gradients make small steps
STEEPEST = 100.0  # bounds of the slopes and of the biases
FARTHEST = 50.0
FLOOR = 1e-6  # the share of the uniform distribution in each distribution that is weighed


class SlopesAndBiases(NamedTuple):
    """What is learned, float64: slope, slope_squares (4,), of the rows of z; bias, bias_squares
    (C,); each with its sum of squared gradients. bins (2, B, 3): for the probabilities before and
    after the correction, by the bin of the largest one, the weight, the sum of the largest one and
    the weight that was right."""

    slope: Floats
    slope_squares: Floats
    bias: Floats
    bias_squares: Floats
    bins: Floats


@inlined
def most_probable(p: Any, known: int) -> int:
    """The first class with the largest of p float64 (C,)."""
    best = 0
    for c in range(1, known):
        if p[c] > p[best]:
            best = c
    return best


@inlined
def features_of(p: Any, known: int, z: Any) -> None:
    """z float64 (4, C): logarithms of p float64 (C,), each with another share of the uniform
    distribution; and 1 for the most probable class, else 0. NaN, from a damaged state, is 0."""
    best = most_probable(p, known)
    for c in range(known):
        z[len(MIXED_IN), c] = 1.0 if c == best else 0.0
    for k in range(len(MIXED_IN)):
        for c in range(known):
            q = p[c] if p[c] > 0.0 else 0.0
            z[k, c] = log((1.0 - MIXED_IN[k]) * q + MIXED_IN[k] / known)


@inlined
def correct(z: Any, known: int, slope: Any, bias: Any, out: Any) -> None:
    """out float64 (C,): the softmax of slope · z + bias."""
    top, total = -inf, 0.0
    for c in range(known):
        out[c] = bias[c]
        for k in range(z.shape[0]):
            out[c] += slope[k] * z[k, c]
        top = max(top, out[c])
    for c in range(known):
        out[c] = exp(out[c] - top)
        total += out[c]
    for c in range(known):
        out[c] /= total


@inlined
def step(gradient: float, squares: float, rate: float) -> float:
    """An AdaGrad step; `squares` include this gradient."""
    return rate * gradient / sqrt(DAMPING + squares)


@inlined
def learn(
    y: int,
    w: float,
    z: Any,
    q: Any,
    known: int,
    rate: float,
    slope: Any,
    slope_squares: Any,
    bias: Any,
    bias_squares: Any,
) -> None:
    """One gradient step of the log loss. q float64 (C,): the corrected probabilities.

    slope … bias_squares: of `SlopesAndBiases`."""
    for k in range(z.shape[0]):
        g = 0.0
        for c in range(known):
            g += w * (q[c] - (1.0 if c == y else 0.0)) * z[k, c]
        slope_squares[k] += g * g
        slope[k] = min(max(slope[k] - step(g, slope_squares[k], rate), 0.0), STEEPEST)
    for c in range(known):
        g = w * (q[c] - (1.0 if c == y else 0.0))
        bias_squares[c] += g * g
        moved = bias[c] - step(g, bias_squares[c], rate)
        bias[c] = min(max(moved, -FARTHEST), FARTHEST)


@inlined
def count(y: int, w: float, p: Any, known: int, bins: Any, which: int) -> None:
    """Count a prediction p float64 (C,) in bins[which], float64 (2, B, 3). More than 1, from a
    damaged state, is in the last bin."""
    best = most_probable(p, known)
    if p[best] >= 0.0:
        b = min(int(min(p[best], 1.0) * bins.shape[1]), bins.shape[1] - 1)
        bins[which, b, 0] += w
        bins[which, b, 1] += w * p[best]
        bins[which, b, 2] += w if best == y else 0.0


@inlined
def note(memo: Any, r: int, known: int, both: Any, out: Any, by_rate: Any) -> None:
    """Note a prediction in row r of the memo float64 (rows, 1 + C, 2 or 3 + K): the number of
    classes; and for each, the probability before the correction, the predicted one and, if both are
    weighed, the corrected one and those of the K share rates."""
    memo[r, 0, 0] = known
    for c in range(known):
        memo[r, 1 + c, 0], memo[r, 1 + c, 1] = both[0, 0, c], out[c]
        if by_rate.shape[0] > 0:
            memo[r, 1 + c, 2] = both[1, 0, c]
        for k in range(by_rate.shape[0]):
            memo[r, 1 + c, 3 + k] = by_rate[k, c]


@inlined
def recall(memo: Any, r: int, known: int, both: Any, out: Any, by_rate: Any) -> None:
    """The inverse of `note`."""
    for c in range(known):
        both[0, 0, c], out[c] = memo[r, 1 + c, 0], memo[r, 1 + c, 1]
        if by_rate.shape[0] > 0:
            both[1, 0, c] = memo[r, 1 + c, 2]
        for k in range(by_rate.shape[0]):
            by_rate[k, c] = memo[r, 1 + c, 3 + k]


@inlined
def likelihoods(y: int, known: int, both: Any, by_rate: Any, of_both: Any, of_rates: Any) -> None:
    """of_both float64 (2,), of_rates float64 (K,): the probability that the distributions before
    and after the correction, and their mixtures, gave the label."""
    least = FLOOR / known
    for e in range(2):
        of_both[e] = floored(both[e, 0, y], FLOOR, least)
    for k in range(of_rates.shape[0]):
        p = by_rate[k, y]
        of_rates[k] = p if p > least else least  # less in a damaged state


@kernel
def progressive(
    op: Any,
    row: Any,
    y: Any,
    w: Any,
    known: int,
    rate: float,
    rates: Any,
    ran: Any,
    s: Any,
    belief: Any,
    proba: Any,
    seen: Any,
) -> None:
    """Run the steps: write posteriors to proba float64 (n_predictions, C), and learn.

    op, row, y, w: as in `Block`, with class codes. known: classes before the block. rate: of the
    gradient steps. rates float64 (K,): share rates under which the probabilities before and after
    the correction are weighed; K = 0: those after it are predicted. ran: `PartPredictions` of one
    part. belief: their weights. seen int64 (n_predictions,): number of known classes.
    """
    given, asked, memo = ran
    slope, slope_squares, bias, bias_squares, bins = s
    logs, bayes, shares = belief
    classes, m = proba.shape[1], rates.shape[0]
    both, out, now = empty((2, 1, classes)), empty(classes), empty(classes)
    raw, z, rested = both[0, 0], zeros((len(MIXED_IN) + 1, classes)), zeros(2, bool_)
    by_rate, bank, of_both, of_rates = empty((m, classes)), empty((1, m)), empty(2), empty(m)
    for k in range(m):
        bank[0, k] = exp(logs[k])
    predicted = 0
    for i in range(op.shape[0]):
        at, r, count_of = asked[i], row[i], known
        if at < 0:
            count_of = min(int(memo[r, 0, 0]), memo.shape[1] - 1, classes)
            recall(memo, r, count_of, both, out, by_rate)
        else:
            raw[:known] = given[0, at, :known]
        features_of(raw, count_of, z)
        correct(z, count_of, slope, bias, now)
        if at >= 0 and m > 0:
            both[1, 0, :known] = now[:known]
            mix(both, 0, known, FLOOR, bank, shares, by_rate, out)
        elif at >= 0:
            out[:known] = now[:known]
        if op[i] != 1:
            proba[predicted, :known] = out[:known]
            seen[predicted] = known
            predicted += 1
        if op[i] == 0:
            note(memo, r, known, both, out, by_rate)
            continue
        if y[i] < count_of:
            count(y[i], w[i], raw, count_of, bins, 0)
            count(y[i], w[i], out, count_of, bins, 1)
            learn(y[i], w[i], z, now, count_of, rate, slope, slope_squares, bias, bias_squares)
            if m > 0:
                likelihoods(y[i], count_of, both, by_rate, of_both, of_rates)
                weigh(of_both, rested, of_rates, w[i], rates, logs, bank, bayes, shares)
        known = max(known, y[i] + 1)
