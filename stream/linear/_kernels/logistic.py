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
SMALL, LARGE = 1e-100, 1e100  # of a product of counts, which are below LARGE
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


# A call counts references to its arrays and to every array in a tuple. So do a slice, and taking an
# array out of a tuple. Each of these costs more than a weight does. So what runs for each record is
# inlined and takes whole arrays, of which it uses a part, and a block unpacks the state once.


class LinearRule(NamedTuple):
    """How to learn: learning rate, L2 penalty, growth of the unit, whether to start at naive
    Bayes."""

    rate: float
    l2: float
    growth: float
    naive: bool


@inlined
def standardise(
    x: Any, r: int, source: Any, column: Any, n: Any, mean: Any, m2: Any, z: Any, spread: Any
) -> int:
    """z float64 (q,): x[r, source[k]] in standard deviations from the mean; NaN if it is missing.

    x float64 (rows, p); source, column int64 (q,): x[r, source[k]] belongs to state column
    column[k]. n, mean, m2 float64 (D,): moments. spread float64 (q,): the standard deviations.
    Returns how many are present.
    """
    present = 0
    for k in range(source.shape[0]):
        value, j = x[r, source[k]], column[k]
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
def find_rows(bucket: Any, begin: int, count: int, slot: Any, rows: Any) -> None:
    """rows int64: the rows of `count` buckets, from bucket[begin] on; -1 if not learned, or a
    truncated text."""
    for k in range(count):
        b = bucket[begin + k]
        rows[k] = int(slot[b]) - 1 if b >= 0 else -1


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
    known: int,
    out: Any,
) -> None:
    """Add the parts of the numbers z float64 (q,), scaled, to out float64 (C,) of known classes.

    spread float64, column int64 (q,): of `standardise`. mean … means: of the state.
    """
    for k in range(z.shape[0]):
        if isnan(z[k]):
            continue
        j, value = column[k], z[k] * scale
        for c in range(known):
            weight = number[j, c]
            if naive and n[j, c] > 0.0 and spread[k] > 0.0:
                share = n[j, c] / (n[j, c] + unit)
                weight += NAIVE * share * ((means[j, c] - mean[j]) / spread[k])
            out[c] += weight * value


@inlined
def add_indicators(
    rows: Any,
    count: int,
    scale: float,
    unit: float,
    naive: bool,
    shares: Any,
    indicator: Any,
    counts: Any,
    known: int,
    out: Any,
) -> None:
    """Add the parts of the first `count` indicators in `rows` int64 to out float64 (C,).

    shares, indicator, counts: of the state. Counts are multiplied before their logarithm is taken.
    """
    for c in range(known):
        weights, logs, product, found = 0.0, 0.0, 1.0, 0
        for k in range(count):
            at = rows[k]
            if at < 0:
                continue
            weights += indicator[at, c]
            if naive:
                found += 1
                product *= counts[at, c] + SEEN * unit
                if not SMALL < product < LARGE:
                    logs, product = logs + log(product), 1.0
        if found > 0:
            weights += NAIVE * (logs + log(product) - found * log(shares[c] + UNSEEN * unit))
        out[c] += weights * scale


@kernel
def terms(x: Any, source: Any, column: Any, bucket: Any, naive: bool, s: Any, out: Any) -> None:
    """The parts of the scores, in rows of out float64 (1 + q + k, C), which are 0 before.

    The prior with the bias; the q numbers, as in `standardise`; the indicators bucket int64 (k,).
    """
    known, unit, q = out.shape[1], s.unit[0], source.shape[0]
    z, spread, rows = empty(q), empty(q), empty(bucket.shape[0], int64)
    find_rows(bucket, 0, bucket.shape[0], s.slot, rows)
    present = standardise(x, 0, source, column, s.n, s.mean, s.m2, z, spread)
    scale = scale_of(present + bucket.shape[0])
    log_shares(known, s.shares, unit, s.bias, out[0])
    mean, weights, n, means = s.mean, s.number, s.number_n, s.number_mean
    for k in range(q):
        zk, sk, ck, part = z[k : k + 1], spread[k : k + 1], column[k : k + 1], out[1 + k]
        add_numbers(zk, sk, ck, scale, unit, naive, mean, weights, n, means, known, part)
    shares, weights, counts = s.shares, s.indicator, s.counts
    for k in range(rows.shape[0]):
        own, part = rows[k : k + 1], out[1 + q + k]
        add_indicators(own, 1, scale, unit, naive, shares, weights, counts, known, part)


@kernel
def fade(s: Any) -> None:
    """Divide what fades by LARGEST_UNIT, as the unit was."""
    for a in (s.shares, s.bias_squares, s.n, s.m2):
        for i in range(a.shape[0]):
            a[i] /= LARGEST_UNIT
    for table in (s.number_squares, s.indicator_squares, s.number_n, s.counts):
        scale_down(table)


@kernel
def count_new(bucket: Any, start: Any, learned: Any, slot: Any) -> int:
    """How many buckets without a row are in the bags `learned` int64: bucket[start[bag]] …

    `slot` is as before afterwards."""
    found = 0
    for bag in learned:
        for k in range(start[bag], start[bag + 1]):
            if bucket[k] >= 0 and slot[bucket[k]] == 0:
                slot[bucket[k]] = -1  # counted
                found += 1
    left = found
    for bag in learned:
        if left == 0:
            break
        for k in range(start[bag], start[bag + 1]):
            if bucket[k] >= 0 and slot[bucket[k]] == -1:
                slot[bucket[k]] = 0
                left -= 1
    return found


@inlined
def admit(
    bucket: Any,
    begin: int,
    count: int,
    most: int,
    slot: Any,
    size: Any,
    cut: Any,
    refused: Any,
    rows: Any,
) -> None:
    """Give those of `count` buckets a row that have none in rows int64, as `find_rows` left them.

    There are at most `most` rows in total. slot … refused: the state."""
    for k in range(count):
        if rows[k] >= 0:
            continue
        b = bucket[begin + k]
        if b < 0:
            cut[0] += 1
        elif slot[b] > 0:  # the same bucket again
            rows[k] = slot[b] - 1
        elif size[0] >= most:
            refused[0] += 1
        else:
            rows[k] = size[0]
            size[0] += 1
            slot[b] = size[0]


@kernel
def step(gradient: float, rate: float, squares: float) -> float:
    """One AdaGrad step up the gradient of the log likelihood, which is in the sum of squares."""
    return rate * gradient / sqrt(squares + DAMPING)


@inlined
def learn_bias(
    y: int,
    w: float,
    unit: float,
    part: float,
    rate: float,
    known: int,
    error: Any,
    bias: Any,
    squares: Any,
) -> None:
    """Turn error float64 (C,), the posterior, into the gradients of the scores; move the biases.

    part: what is kept of a squared gradient. Of a weight w above 1 it is unit / w, so that w
    squared gradients are kept, as of w records, and not w². Else no later step could undo what one
    heavy record has moved."""
    for c in range(known):
        error[c] = w * ((1.0 if c == y else 0.0) - error[c])
        bias[c] += step(error[c], rate, (squares[c] + error[c] * error[c] * unit) / unit)
        squares[c] += error[c] * error[c] * part


@inlined
def learn_weights(
    rows: Any,
    count: int,
    z: Any,
    scale: float,
    unit: float,
    part: float,
    rate: float,
    l2: float,
    known: int,
    error: Any,
    weights: Any,
    squares: Any,
) -> None:
    """Move the weights of `count` features: the row of each, int64, -1 for none, and its value.

    z float64 (k,): the values before they are scaled; NaN if missing, and a weight of 0 stays. (0,)
    means that all are 1. error float64 (C,): the gradients of the scores of `known` classes. part:
    as in `learn_bias`.
    """
    for k in range(count):
        at, value = rows[k], z[k] if z.shape[0] > 0 else 1.0
        if at < 0 or isnan(value) or value == 0.0:
            continue
        for c in range(known):
            gradient = error[c] * value * scale - l2 * weights[at, c]
            total = squares[at, c] + gradient * gradient * unit
            squares[at, c] += gradient * gradient * part
            total = total if unit == 1.0 else total / unit  # divisions are slow
            weights[at, c] += step(gradient, rate, total)


@inlined
def count_indicators(rows: Any, count: int, y: int, w: float, counts: Any) -> None:
    """Count the first `count` indicators in `rows` for class y. w: in units."""
    for k in range(count):
        if rows[k] >= 0:
            counts[rows[k], y] += w


@inlined
def learn_moments(
    x: Any,
    r: int,
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
    """Learn the moments of row r of x, also those of class y if naive. w: in units."""
    for k in range(source.shape[0]):
        value, j = x[r, source[k]], column[k]
        if isnan(value):
            continue
        n[j] += w
        apart = value - mean[j]
        mean[j] += apart * (w / n[j])
        m2[j] += max(w * apart * (value - mean[j]), 0.0)  # the new mean may be rounded past x
        if naive:
            of_class[j, y] += w
            means[j, y] += (value - means[j, y]) * (w / of_class[j, y])


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
    the block. x, source, column: as in `standardise`. The indicators of step i are
    bucket[start[bag[i]]] … bucket[start[bag[i] + 1] - 1], all int64; at most `most` in total.
    seen int64 (n_predictions,): number of known classes.
    """
    shares, bias, bias_squares, n, mean, m2, number, number_squares = s[:8]
    weights, squares, slot, size, cut, refused, records, unit = s[8:16]
    of_class, means, counts = s[16:]
    rate, l2, growth, naive = rule
    q, z, spread = column.shape[0], empty(source.shape[0]), empty(source.shape[0])
    p, ones = empty((1, proba.shape[1])), empty(0)
    rows, out, predicted = empty(bucket.shape[0], int64), p[0], 0
    for i in range(op.shape[0]):
        begin, count = start[bag[i]], start[bag[i] + 1] - start[bag[i]]
        find_rows(bucket, begin, count, slot, rows)
        present = standardise(x, row[i], source, column, n, mean, m2, z, spread)
        scale = scale_of(present + count)
        asked = op[i] != 1
        known = known if asked else max(known, y[i] + 1)
        while True:  # a second time for a new class; one call, because it is inlined
            u = unit[0]
            log_shares(known, shares, u, bias, out)
            add_numbers(
                z, spread, column, scale, u, naive, mean, number, of_class, means, known, out
            )
            add_indicators(rows, count, scale, u, naive, shares, weights, counts, known, out)
            normalise_row(p, p, 0, known)
            if asked:
                for c in range(known):
                    proba[predicted, c] = out[c]
                seen[predicted] = known
                predicted, asked = predicted + 1, False
            if op[i] == 0 or y[i] < known:
                break
            known = y[i] + 1
        if op[i] == 0:
            continue
        if growth != 1.0 and advance(unit, growth):
            fade(s)
        records[0] += 1
        admit(bucket, begin, count, most, slot, size, cut, refused, rows)
        u, yi, part = unit[0], y[i], unit[0] / max(w[i], 1.0)
        learn_bias(yi, w[i], u, part, rate, known, out, bias, bias_squares)
        learn_weights(column, q, z, scale, u, part, rate, l2, known, out, number, number_squares)
        learn_weights(rows, count, ones, scale, u, part, rate, l2, known, out, weights, squares)
        add = w[i] * u
        shares[yi] += add
        if naive:
            count_indicators(rows, count, yi, add, counts)
        learn_moments(x, row[i], source, column, yi, add, naive, n, mean, m2, of_class, means)
