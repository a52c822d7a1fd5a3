"""Kernels that correct probabilities by slopes and a bias for each class, learned by gradients, and
by how often those of about the same size were right; and weigh both against no correction."""

from __future__ import annotations

from math import exp, inf, log, sqrt
from typing import Any, NamedTuple

from numpy import array, bool_, empty, float64, zeros
from numpy.typing import NDArray

from stream.kernel import inlined, kernel
from stream.mixture._kernels.weigh import floored, mix, weigh

Floats = NDArray[float64]

MIXED_IN = (0.3, 0.01, 1e-6)  # shares of the uniform distribution in each of the logarithms
DAMPING = 0.01  # added to each sum of squared gradients: small first gradients make small steps
STEEPEST = 100.0  # bounds of the slopes and of the biases
FARTHEST = 50.0
HEAVIEST = 100.0  # a heavier label counts as this many records where gradients and bins are learned
FLOOR = 1e-6  # the share of the uniform distribution in each distribution that is weighed
# Where the bins of the largest probability end by which it is corrected. In a bin it counts as this
# many records, of which that share was right.
ENDS = array(
    [
        *(0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.84, 0.88, 0.91, 0.94, 0.96),
        *(0.975, 0.985, 0.99, 0.995, 0.999),
    ]
)
PSEUDO = 30.0
NORMAL = 2.0**-1022  # the inverse of a smaller number may be infinite


class SlopesAndBiases(NamedTuple):
    """What is learned, float64: slope, slope_squares (4,), of the rows of z; bias, bias_squares
    (C,); each with its sum of squared gradients. bins (2, B, 3): for the probabilities before and
    after the correction, by the bin of the largest one, the weight, the sum of the largest one and
    the weight that was right. right (len(ENDS) + 1, 2) or (0, 2): by the bin of the largest one
    before the correction, the weight and the weight that was right."""

    slope: Floats
    slope_squares: Floats
    bias: Floats
    bias_squares: Floats
    bins: Floats
    right: Floats


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
def bin_of(top: float) -> int:
    """The bin of a largest probability: from the last one, because most are large."""
    j: int = ENDS.shape[0]
    while j > 0 and not top > ENDS[j - 1]:
        j -= 1
    return j


@inlined
def correct_by_bin(p: Any, known: int, best: int, j: int, right: Any, out: Any) -> None:
    """out float64 (C,): the largest of p float64 (C,) becomes the share that was right in its bin.

    best, j: the class and the bin of the largest. The others keep their proportions; they are alike
    where these are too small to divide by. Numbers beyond 0 and 1, from a damaged state, count as
    these. Before the first label there is no class.
    """
    if known == 0:
        return
    others, top = 0.0, min(max(p[best], 0.0), 1.0)
    share = (right[j, 1] + PSEUDO * top) / (right[j, 0] + PSEUDO)
    for c in range(known):
        out[c] = p[c] if p[c] > 0.0 and c != best else 0.0
        others += out[c]
    for c in range(known):
        if c == best:
            out[c] = share if known > 1 else 1.0
        elif others >= NORMAL:
            out[c] *= (1.0 - share) / others
        else:
            out[c] = (1.0 - share) / (known - 1)


@inlined
def count_bin(j: int, w: float, was_right: bool, right: Any) -> None:
    """Count a prediction of weight w, at most HEAVIEST, in bin j of `right`."""
    right[j, 0] += min(w, HEAVIEST)
    right[j, 1] += min(w, HEAVIEST) if was_right else 0.0


@inlined
def step(gradient: float, squares: float, rate: float) -> float:
    """An AdaGrad step, at most `rate` long; `squares` include this gradient.

    A label of weight w adds w times the square of its gradient, as w labels do. With the square of
    w, later steps would be too short to undo what one heavy label has moved."""
    return min(max(rate * gradient / sqrt(DAMPING + squares), -rate), rate)


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
    """One gradient step of the log loss, with a weight of at most HEAVIEST. q float64 (C,): the
    corrected probabilities. slope … bias_squares: of `SlopesAndBiases`."""
    w = min(w, HEAVIEST)
    for k in range(z.shape[0]):
        g = 0.0
        for c in range(known):
            g += (q[c] - (1.0 if c == y else 0.0)) * z[k, c]
        slope_squares[k] += w * g * g
        slope[k] = min(max(slope[k] - step(w * g, slope_squares[k], rate), 0.0), STEEPEST)
    for c in range(known):
        g = q[c] - (1.0 if c == y else 0.0)
        bias_squares[c] += w * g * g
        moved = bias[c] - step(w * g, bias_squares[c], rate)
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
def note(memo: Any, r: int, known: int, each: Any, out: Any, by_rate: Any) -> None:
    """Note a prediction in row r of the memo float64 (rows, 1 + C, 2 or 4 + K): the number of
    classes; and for each, the probability before the correction, the predicted one and, if they are
    weighed, those after each correction and those of the K share rates."""
    memo[r, 0, 0] = known
    for c in range(known):
        memo[r, 1 + c, 0], memo[r, 1 + c, 1] = each[0, 0, c], out[c]
        if by_rate.shape[0] > 0:
            memo[r, 1 + c, 2], memo[r, 1 + c, 3] = each[1, 0, c], each[2, 0, c]
        for k in range(by_rate.shape[0]):
            memo[r, 1 + c, 4 + k] = by_rate[k, c]


@inlined
def recall(memo: Any, r: int, known: int, each: Any, out: Any, by_rate: Any) -> None:
    """The inverse of `note`."""
    for c in range(known):
        each[0, 0, c], out[c] = memo[r, 1 + c, 0], memo[r, 1 + c, 1]
        if by_rate.shape[0] > 0:
            each[1, 0, c], each[2, 0, c] = memo[r, 1 + c, 2], memo[r, 1 + c, 3]
        for k in range(by_rate.shape[0]):
            by_rate[k, c] = memo[r, 1 + c, 4 + k]


@inlined
def likelihoods(y: int, known: int, each: Any, by_rate: Any, of_each: Any, of_rates: Any) -> None:
    """of_each float64 (3,), of_rates float64 (K,): the probability that the distributions before
    and after each correction, and their mixtures, gave the label."""
    least = FLOOR / known
    for e in range(of_each.shape[0]):
        of_each[e] = floored(each[e, 0, y], FLOOR, least)
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
    both corrections are weighed; K = 0: those after the first one are predicted. ran:
    `PartPredictions` of one part. belief: their weights. seen int64 (n_predictions,): number of
    known classes.
    """
    given, asked, memo = ran
    slope, slope_squares, bias, bias_squares, bins, right = s
    log_bank, bank, log_bayes, shares = belief
    classes, m = proba.shape[1], rates.shape[0]
    each, out, now = empty((3, 1, classes)), empty(classes), empty(classes)
    raw, binned, z = each[0, 0], each[2, 0], zeros((len(MIXED_IN) + 1, classes))
    by_rate, of_each, of_rates = empty((m, classes)), empty(3), empty(m)
    rested = zeros(3, bool_)
    predicted = 0
    for i in range(op.shape[0]):
        at, r, count_of = asked[i], row[i], known
        if at < 0:
            count_of = min(int(memo[r, 0, 0]), memo.shape[1] - 1, classes)
            recall(memo, r, count_of, each, out, by_rate)
        else:
            for c in range(known):
                raw[c] = given[0, at, c]
        best = most_probable(raw, count_of)
        j = bin_of(raw[best]) if count_of > 0 else 0
        features_of(raw, count_of, z)
        correct(z, count_of, slope, bias, now)
        if at >= 0 and m > 0:
            for c in range(known):
                each[1, 0, c] = now[c]
            correct_by_bin(raw, known, best, j, right, binned)
            mix(each, 0, known, FLOOR, bank, shares, by_rate, out)
        elif at >= 0:
            for c in range(known):
                out[c] = now[c]
        if op[i] != 1:
            for c in range(known):
                proba[predicted, c] = out[c]
            seen[predicted], predicted = known, predicted + 1
        if op[i] == 0:
            note(memo, r, known, each, out, by_rate)
            continue
        if y[i] < count_of:
            count(y[i], w[i], raw, count_of, bins, 0)
            count(y[i], w[i], out, count_of, bins, 1)
            learn(y[i], w[i], z, now, count_of, rate, slope, slope_squares, bias, bias_squares)
            if m > 0:
                least = FLOOR / count_of
                count_bin(j, w[i], best == y[i], right)
                likelihoods(y[i], count_of, each, by_rate, of_each, of_rates)
                weigh(
                    of_each, rested, of_rates, w[i], least, rates, log_bank, bank, log_bayes, shares
                )
        known = max(known, y[i] + 1)
