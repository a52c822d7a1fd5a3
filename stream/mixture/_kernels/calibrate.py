"""Kernels that correct probabilities by slopes and a bias for each class, learned by gradients, and
weigh them against the probabilities before the correction."""

from __future__ import annotations

from math import exp, inf, log, sqrt
from typing import Any, NamedTuple

from numpy import bool_, empty, float64, zeros
from numpy.typing import NDArray

from stream.kernel import kernel
from stream.mixture._kernels.weigh import floored, mix, shares_of, weigh

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


@kernel
def most_probable(p: Any, known: int) -> int:
    """The first class with the largest of p float64 (C,)."""
    best = 0
    for c in range(1, known):
        if p[c] > p[best]:
            best = c
    return best


@kernel
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


@kernel
def correct(z: Any, known: int, s: Any, out: Any) -> None:
    """out float64 (C,): the softmax of slope · z + bias."""
    top, total = -inf, 0.0
    for c in range(known):
        out[c] = s.bias[c]
        for k in range(z.shape[0]):
            out[c] += s.slope[k] * z[k, c]
        top = max(top, out[c])
    for c in range(known):
        out[c] = exp(out[c] - top)
        total += out[c]
    for c in range(known):
        out[c] /= total


@kernel
def step(gradient: float, squares: float, rate: float) -> float:
    """An AdaGrad step; `squares` include this gradient."""
    return rate * gradient / sqrt(DAMPING + squares)


@kernel
def learn(y: int, w: float, z: Any, q: Any, known: int, rate: float, s: Any) -> None:
    """One gradient step of the log loss. q float64 (C,): the corrected probabilities."""
    for k in range(z.shape[0]):
        g = 0.0
        for c in range(known):
            g += w * (q[c] - (1.0 if c == y else 0.0)) * z[k, c]
        s.slope_squares[k] += g * g
        s.slope[k] = min(max(s.slope[k] - step(g, s.slope_squares[k], rate), 0.0), STEEPEST)
    for c in range(known):
        g = w * (q[c] - (1.0 if c == y else 0.0))
        s.bias_squares[c] += g * g
        moved = s.bias[c] - step(g, s.bias_squares[c], rate)
        s.bias[c] = min(max(moved, -FARTHEST), FARTHEST)


@kernel
def count(y: int, w: float, p: Any, known: int, bins: Any) -> None:
    """Count a prediction p float64 (C,) in bins float64 (B, 3). More than 1, from a damaged state,
    is in the last bin."""
    best = most_probable(p, known)
    if not p[best] >= 0.0:
        return
    b = min(int(min(p[best], 1.0) * bins.shape[0]), bins.shape[0] - 1)
    bins[b, 0] += w
    bins[b, 1] += w * p[best]
    bins[b, 2] += w if best == y else 0.0


@kernel
def note(memo: Any, known: int, both: Any, out: Any, by_rate: Any) -> None:
    """Note a prediction in the memo float64 (1 + C, 2 or 3 + K) of its row: the number of classes;
    and for each, the probability before the correction, the predicted one and, if both are weighed,
    the corrected one and those of the K share rates."""
    memo[0, 0] = known
    for c in range(known):
        memo[1 + c, 0], memo[1 + c, 1] = both[0, 0, c], out[c]
        if by_rate.shape[0] > 0:
            memo[1 + c, 2] = both[1, 0, c]
        for k in range(by_rate.shape[0]):
            memo[1 + c, 3 + k] = by_rate[k, c]


@kernel
def recall(memo: Any, known: int, both: Any, out: Any, by_rate: Any) -> None:
    """The inverse of `note`."""
    for c in range(known):
        both[0, 0, c], out[c] = memo[1 + c, 0], memo[1 + c, 1]
        if by_rate.shape[0] > 0:
            both[1, 0, c] = memo[1 + c, 2]
        for k in range(by_rate.shape[0]):
            by_rate[k, c] = memo[1 + c, 3 + k]


@kernel
def believe(y: int, w: float, known: int, both: Any, by_rate: Any, rates: Any, belief: Any) -> None:
    """Weigh both distributions, float64 (2, 1, C), by the probability that they gave the label."""
    likelihood, of_rates, rested = empty(2), empty(rates.shape[0]), zeros(2, bool_)
    for e in range(2):
        likelihood[e] = floored(both[e, 0, y], known, FLOOR)
    for k in range(rates.shape[0]):
        p = by_rate[k, y]
        of_rates[k] = p if p > FLOOR / known else FLOOR / known  # less in a damaged state
    weigh(likelihood, rested, of_rates, w, rates, belief)


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
    classes, m = proba.shape[1], rates.shape[0]
    both, out, now = empty((2, 1, classes)), empty(classes), empty(classes)
    raw, corrected, z = both[0, 0], both[1, 0], zeros((len(MIXED_IN) + 1, classes))
    by_rate, bank, of_both = empty((m, classes)), empty(m), empty((m, 2))
    shares_of(belief, bank, of_both)
    predicted = 0
    for i in range(op.shape[0]):
        at, memo, count_of = ran.at[i], ran.memo[row[i]], known
        if at >= 0:
            for c in range(known):
                raw[c] = ran.proba[0, at, c]
            features_of(raw, known, z)
            correct(z, known, s, corrected)
            if m > 0:
                mix(both, 0, known, FLOOR, bank, of_both, by_rate, out)
            else:
                out[:known] = corrected[:known]
        else:
            count_of = min(int(memo[0, 0]), memo.shape[0] - 1, classes)
            recall(memo, count_of, both, out, by_rate)
        if op[i] != 1:
            proba[predicted, :known] = out[:known]
            seen[predicted] = known
            predicted += 1
        if op[i] == 0:
            note(memo, known, both, out, by_rate)
            continue
        if y[i] < count_of:
            count(y[i], w[i], raw, count_of, s.bins[0])
            count(y[i], w[i], out, count_of, s.bins[1])
            features_of(raw, count_of, z)
            correct(z, count_of, s, now)
            learn(y[i], w[i], z, now, count_of, rate, s)
            if m > 0:
                believe(y[i], w[i], count_of, both, by_rate, rates, belief)
                shares_of(belief, bank, of_both)
        known = max(known, y[i] + 1)
