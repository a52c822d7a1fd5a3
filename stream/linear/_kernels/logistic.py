"""Kernels of online multinomial logistic regression."""

from __future__ import annotations

from math import isnan, log, nan, sqrt
from typing import Any, NamedTuple

from numpy import empty, float64, int32, int64
from numpy.typing import NDArray

from stream.kernel import inlined, kernel
from stream.kernel._kernels import LARGEST_UNIT, advance, normalise_row, scale_down

Floats = NDArray[float64]

FARTHEST = 3.0  # standard deviations: a number that is farther from the mean counts as this far
DAMPING = 0.01  # added to each sum of squared gradients: small first gradients make small steps
PSEUDO = 0.5  # added to the weight of each class in its prior
SEEN, UNSEEN = 0.1, 0.2  # added to a count of a class, and to the weight of the class
NAIVE = 0.5  # the share of the naive-Bayes log-odds at which a weight starts


class Linear(NamedTuple):
    """State of C classes, D numbers and d indicators (categories and tokens).

    All float64 unless noted. Tables may have spare rows and columns, which are 0.
    shares, bias, bias_squares (C,): the weight learned of each class, its bias, and the sum of
    squared gradients of the bias. n, mean, m2 (D,): moments of each number over all classes.
    number, number_squares (D, C): weights of standardised numbers, and their sums of squared
    gradients. indicator, indicator_squares (d, C): the same of indicators. slot int32 (buckets,) or
    (0,): 1 + the row of a bucket; 0 if never learned. size, cut, refused, records int64 (1,): d,
    truncated learned texts, indicators beyond the bound, learned records. unit (1,): the present
    value of a weight of 1 learned last.
    number_n, number_mean (D, C) and counts (d, C): weight and mean of a number in each class, and
    weight of the records with an indicator. They are empty unless weights start at naive Bayes.
    """

    shares: Floats
    bias: Floats
    bias_squares: Floats
    n: Floats
    mean: Floats
    m2: Floats
    number: Floats
    number_squares: Floats
    indicator: Floats
    indicator_squares: Floats
    slot: NDArray[int32]
    size: NDArray[int64]
    cut: NDArray[int64]
    refused: NDArray[int64]
    records: NDArray[int64]
    unit: Floats
    number_n: Floats
    number_mean: Floats
    counts: Floats


# A call counts references to its arrays, and to every array in a tuple, which costs more than a
# weight does. So what runs for each record is inlined.


class LinearRule(NamedTuple):
    """How to learn: learning rate, L2 penalty, growth of the unit, whether to start at naive
    Bayes."""

    rate: float
    l2: float
    growth: float
    naive: bool


@inlined
def standardise(
    x: Any, source: Any, column: Any, n: Any, mean: Any, m2: Any, z: Any, spread: Any
) -> int:
    """z float64 (q,): x[source[k]] in standard deviations from the mean; NaN if it is missing.

    x float64 (p,); source, column int64 (q,): x[source[k]] belongs to state column column[k].
    n, mean, m2 float64 (D,): moments. spread float64 (q,): the standard deviations. Returns how
    many are present.
    """
    present = 0
    for k in range(source.shape[0]):
        value, j = x[source[k]], column[k]
        z[k] = value
        if isnan(value) or n[j] <= 0.0:
            z[k] = nan
            continue
        present += 1
        spread[k] = sqrt(m2[j] / n[j])
        apart = value - mean[j]
        if abs(apart) >= FARTHEST * spread[k]:
            z[k] = 0.0 if spread[k] == 0.0 else (FARTHEST if apart > 0.0 else -FARTHEST)
        else:
            z[k] = apart / spread[k]
    return present


@inlined
def find_rows(bucket: Any, slot: Any, rows: Any) -> None:
    """rows int64 (k,): the rows of bucket int64 (k,); -1 if not learned, or a truncated text."""
    for k in range(bucket.shape[0]):
        rows[k] = int(slot[bucket[k]]) - 1 if bucket[k] >= 0 else -1


@kernel
def scale_of(present: int) -> float:
    """What each of `present` features is multiplied by, so that their length is about 1."""
    return float(1.0 / sqrt(max(present, 1)))


@inlined
def log_shares(known: int, shares: Any, unit: float, bias: Any, out: Any) -> None:
    """out float64 (C,): bias, and log of the share of each class with PSEUDO records of each."""
    total = 0.0
    for c in range(known):
        total += shares[c]
    whole = log(total + PSEUDO * unit * known)
    for c in range(known):
        out[c] = log(shares[c] + PSEUDO * unit) - whole + bias[c]


@inlined
def add_numbers(
    z: Any,
    spread: Any,
    column: Any,
    scale: float,
    unit: float,
    naive: bool,
    mean: Any,
    number: Any,
    n: Any,
    means: Any,
    out: Any,
) -> None:
    """Add the parts of the numbers z float64 (q,), scaled, to out float64 (C,).

    spread float64, column int64 (q,): of `standardise`. mean … means: of the state.
    """
    for k in range(z.shape[0]):
        if isnan(z[k]):
            continue
        j, value = column[k], z[k] * scale
        for c in range(out.shape[0]):
            weight = number[j, c]
            if naive and n[j, c] > 0.0 and spread[k] > 0.0:
                share = n[j, c] / (n[j, c] + unit)
                weight += NAIVE * share * ((means[j, c] - mean[j]) / spread[k])
            out[c] += weight * value


@inlined
def add_indicators(
    rows: Any,
    scale: float,
    unit: float,
    naive: bool,
    shares: Any,
    indicator: Any,
    counts: Any,
    whole: Any,
    out: Any,
) -> None:
    """Add the parts of the indicators in `rows` int64 (k,) to out float64 (C,).

    shares, indicator, counts: of the state. whole float64 (C,): scratch.
    """
    if naive and rows.shape[0] > 0:
        for c in range(out.shape[0]):
            whole[c] = log(shares[c] + UNSEEN * unit)
    for k in range(rows.shape[0]):
        at = rows[k]
        for c in range(out.shape[0] if at >= 0 else 0):
            weight = indicator[at, c]
            if naive:
                weight += NAIVE * (log(counts[at, c] + SEEN * unit) - whole[c])
            out[c] += weight * scale


@kernel
def terms(x: Any, source: Any, column: Any, bucket: Any, naive: bool, s: Any, out: Any) -> None:
    """The parts of the scores, in rows of out float64 (1 + q + k, C), which are 0 before.

    The prior with the bias; the q numbers, as in `standardise`; the indicators bucket int64 (k,).
    """
    known, unit, q = out.shape[1], s.unit[0], source.shape[0]
    z, spread, rows, whole = empty(q), empty(q), empty(bucket.shape[0], int64), empty(known)
    find_rows(bucket, s.slot, rows)
    present = standardise(x, source, column, s.n, s.mean, s.m2, z, spread)
    scale = scale_of(present + bucket.shape[0])
    log_shares(known, s.shares, unit, s.bias, out[0])
    mean, weights, n, means = s.mean, s.number, s.number_n, s.number_mean
    for k in range(q):
        zk, sk, ck, part = z[k : k + 1], spread[k : k + 1], column[k : k + 1], out[1 + k]
        add_numbers(zk, sk, ck, scale, unit, naive, mean, weights, n, means, part)
    shares, weights, counts = s.shares, s.indicator, s.counts
    for k in range(rows.shape[0]):
        own, part = rows[k : k + 1], out[1 + q + k]
        add_indicators(own, scale, unit, naive, shares, weights, counts, whole, part)


@kernel
def fade(s: Any, growth: float) -> None:
    """Advance the unit by one record: new weights count `growth` times as much as the last one."""
    if advance(s.unit, growth):
        for a in (s.shares, s.bias_squares, s.n, s.m2):
            for i in range(a.shape[0]):
                a[i] /= LARGEST_UNIT
        for table in (s.number_squares, s.indicator_squares, s.number_n, s.counts):
            scale_down(table)


@inlined
def admit(bucket: Any, most: int, slot: Any, size: Any, cut: Any, refused: Any) -> None:
    """Give each of bucket int64 (k,) a row, at most `most` in total. slot … refused: the state."""
    for k in range(bucket.shape[0]):
        if bucket[k] < 0:
            cut[0] += 1
        elif slot[bucket[k]] == 0:
            if size[0] >= most:
                refused[0] += 1
            else:
                size[0] += 1
                slot[bucket[k]] = size[0]


@kernel
def step(gradient: float, rate: float, squares: float) -> float:
    """One AdaGrad step up the gradient of the log likelihood, which is in the sum of squares."""
    return rate * gradient / sqrt(squares + DAMPING)


@inlined
def learn_weights(
    rows: Any, z: Any, scale: float, unit: float, rule: Any, error: Any, weights: Any, squares: Any
) -> None:
    """Move the weights of features: the row of each, int64 (k,), -1 for none, and its value.

    z float64 (k,): the values before they are scaled; NaN if missing, and a weight of 0 stays. (0,)
    means that all are 1. error float64 (C,): the gradients of the scores.
    """
    for k in range(rows.shape[0]):
        at, value = rows[k], z[k] if z.shape[0] > 0 else 1.0
        if at < 0 or isnan(value) or value == 0.0:
            continue
        for c in range(error.shape[0]):
            gradient = error[c] * value * scale - rule.l2 * weights[at, c]
            squares[at, c] += gradient * gradient * unit
            weights[at, c] += step(gradient, rule.rate, squares[at, c] / unit)


@inlined
def learn_moments(
    x: Any,
    source: Any,
    column: Any,
    y: int,
    w: float,
    naive: bool,
    n: Any,
    mean: Any,
    m2: Any,
    of_class: Any,
    means: Any,
) -> None:
    """Learn the moments of x, float64 (p,), also those of class y if naive. w: in units."""
    for k in range(source.shape[0]):
        value, j = x[source[k]], column[k]
        if isnan(value):
            continue
        n[j] += w
        apart = value - mean[j]
        mean[j] += apart * (w / n[j])
        m2[j] += max(w * apart * (value - mean[j]), 0.0)  # the new mean may be rounded past x
        if naive:
            of_class[j, y] += w
            means[j, y] += (value - means[j, y]) * (w / of_class[j, y])


@inlined
def predict(
    z: Any, spread: Any, column: Any, rows: Any, scale: float, naive: bool, s: Any, p: Any
) -> None:
    """p float64 (2, C): the posterior in row 0; row 1 is scratch."""
    known, unit, out = p.shape[1], s.unit[0], p[0]
    log_shares(known, s.shares, unit, s.bias, out)
    mean, weights, n, means = s.mean, s.number, s.number_n, s.number_mean
    add_numbers(z, spread, column, scale, unit, naive, mean, weights, n, means, out)
    add_indicators(rows, scale, unit, naive, s.shares, s.indicator, s.counts, p[1], out)
    normalise_row(p, p, 0, known)


@inlined
def learn(
    z: Any, column: Any, rows: Any, scale: float, y: int, w: float, rule: Any, s: Any, error: Any
) -> None:
    """Move all weights; error float64 (C,): the posterior before, then the gradients of the scores.

    y: the code of the label; w: the weight of the record.
    """
    unit, ones = s.unit[0], empty(0)
    for c in range(error.shape[0]):
        error[c] = w * ((1.0 if c == y else 0.0) - error[c])
        s.bias_squares[c] += error[c] * error[c] * unit
        s.bias[c] += step(error[c], rule.rate, s.bias_squares[c] / unit)
    learn_weights(column, z, scale, unit, rule, error, s.number, s.number_squares)
    learn_weights(rows, ones, scale, unit, rule, error, s.indicator, s.indicator_squares)
    s.shares[y] += w * unit
    for k in range(rows.shape[0] if rule.naive else 0):
        if rows[k] >= 0:
            s.counts[rows[k], y] += w * unit


@kernel
def progressive(
    op: Any,
    row: Any,
    y: Any,
    w: Any,
    known: int,
    x: Any,
    source: Any,
    column: Any,
    start: Any,
    bag: Any,
    bucket: Any,
    most: int,
    rule: Any,
    s: Any,
    proba: Any,
    seen: Any,
) -> None:
    """Run the steps: write posteriors to proba float64 (n_predictions, C), and learn.

    op int8, row, y int64, w float64 (m,): as in `Block`, with class codes. known: classes before
    the block. x float64 (n, p), source, column int64 (q,): as in `standardise`. The indicators of
    step i are bucket[start[bag[i]]] … bucket[start[bag[i] + 1] - 1], all int64. most: the largest
    number of indicators. seen int64 (n_predictions,): number of known classes.
    """
    z, spread = empty(source.shape[0]), empty(source.shape[0])
    p, place = empty((2, proba.shape[1])), empty(bucket.shape[0], int64)
    predicted = 0
    for i in range(op.shape[0]):
        xi, own = x[row[i]], bucket[start[bag[i]] : start[bag[i] + 1]]
        rows = place[: own.shape[0]]
        find_rows(own, s.slot, rows)
        present = standardise(xi, source, column, s.n, s.mean, s.m2, z, spread)
        scale = scale_of(present + own.shape[0])
        asked = op[i] != 1
        if not asked:
            known = max(known, y[i] + 1)
        while True:  # a second time for a new class; one call, because it is inlined
            predict(z, spread, column, rows, scale, rule.naive, s, p[:, :known])
            if asked:
                proba[predicted, :known] = p[0, :known]
                seen[predicted] = known
                predicted, asked = predicted + 1, False
            if op[i] == 0 or y[i] < known:
                break
            known = y[i] + 1
        if op[i] == 0:
            continue
        if rule.growth != 1.0:
            fade(s, rule.growth)
        s.records[0] += 1
        admit(own, most, s.slot, s.size, s.cut, s.refused)
        find_rows(own, s.slot, rows)
        learn(z, column, rows, scale, y[i], w[i], rule, s, p[0, :known])
        weight, n, means = w[i] * s.unit[0], s.number_n, s.number_mean
        learn_moments(xi, source, column, y[i], weight, rule.naive, s.n, s.mean, s.m2, n, means)
