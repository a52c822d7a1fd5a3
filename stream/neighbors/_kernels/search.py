"""Kernels that measure distances, find the nearest records and count their votes.

Records are contiguous in columns, oldest
first. The lanes of a loop over a column's records are independent, so the compiler uses vector
instructions without changing a bit. Votes are added oldest first.
"""

from __future__ import annotations

from math import floor, inf, isnan, sqrt
from typing import Any, NamedTuple

from numpy import float64, int64
from numpy.typing import NDArray

from stream.kernel import kernel

Floats = NDArray[float64]
Ints = NDArray[int64]

EUCLIDEAN, MANHATTAN, CHEBYSHEV, MINKOWSKI, COSINE, HAMMING = range(6)
NEVER, ALWAYS, IF_NOMINAL = range(3)

CHUNK = 2048  # records measured at once; their distances fit the L1 cache
GROUP = 64  # records checked together, one per lane
FEW_LANES = 16  # so many are looked through one by one
FAR = 1e150  # upper bound of a scaled difference, with a finite square
DIGITS = 2.0**48  # the precision of a cosine
STEEP = 1e49  # with a smaller inverse no scaled difference reaches FAR
# Squares below FAINT have lost digits. If they decide, differences are MAGNIFIED, exactly.
NEAR, FAINT, MAGNIFIED = 2.0**-200, 1e-280, 2.0**600
STEEPEST = 1e120  # with a larger inverse no difference is that small


class Rule(NamedTuple):
    """Metric and votes as the constants above; k neighbours; p of Minkowski.

    strict: when an attribute that x does not have adds 1 instead of being left out.
    """

    metric: int
    strict: int
    p: float
    k: int
    by_distance: int


class Query(NamedTuple):
    """One query: x float64 (D,). For each attribute: held int64 (D,), its number of values in the
    window; inverse and gap float64 (D,), the factor of a difference and the distance of a gap;
    nominal int64 (D,)."""

    x: Floats
    held: Ints
    inverse: Floats
    gap: Floats
    nominal: Ints


class Scratch(NamedTuple):
    """Scratch buffers for R records. t, total (CHUNK,), lane, which (GROUP,). acc (R,): distances.

    near int64 (R + 1,), found (R + 1,): candidates and their distances. best (k,): the smallest.
    """

    t: Floats
    total: Floats
    lane: Floats
    which: Ints
    acc: Floats
    near: Ints
    found: Floats
    best: Floats


@kernel
def differences(column: Any, j: int, equal: bool, q: Any, t: Any) -> None:
    """t (m,): scaled difference of q.x and the column of attribute j; for categories 0 or the gap,
    1.

    equal: only equality matters.
    """
    v, inverse, gap = q.x[j], q.inverse[j], q.gap[j]
    if equal or q.nominal[j] == 1:
        other = 1.0 if equal else gap
        for i in range(t.shape[0]):
            t[i] = 0.0 if column[i] == v else other
        return
    for i in range(t.shape[0]):
        d = abs(column[i] - v) * inverse
        d = FAR if d > FAR else d
        t[i] = gap if isnan(d) else d


@kernel
def add_one(a: Any, u: float, f: float, x: float, acc: Any) -> None:
    """acc += ((a - u) · f)², or x² if a is missing."""
    for i in range(acc.shape[0]):
        d = (a[i] - u) * f
        d = x if isnan(d) else d
        acc[i] += d * d


@kernel
def add_two(
    a: Any, u: float, f: float, x: float, b: Any, v: float, g: float, y: float, acc: Any
) -> None:
    """acc += ((a - u) · f)², then ((b - v) · g)²; x, y if missing. One pass for two columns."""
    for i in range(acc.shape[0]):
        d = (a[i] - u) * f
        e = (b[i] - v) * g
        d = x if isnan(d) else d
        e = y if isnan(e) else e
        acc[i] = (acc[i] + d * d) + e * e


@kernel
def never_nan(u: float, f: float, v: float, g: float) -> bool:
    """Whether (a - u) · f and (b - v) · g are numbers for all a and b that are not missing."""
    return abs(u) < inf and abs(v) < inf and f > 0.0 and g > 0.0


@kernel
def add_two_full(a: Any, u: float, f: float, b: Any, v: float, g: float, acc: Any) -> None:
    """`add_two` of columns without a missing value. u, v finite; f, g positive."""
    for i in range(acc.shape[0]):
        d = (a[i] - u) * f
        e = (b[i] - v) * g
        acc[i] = (acc[i] + d * d) + e * e


@kernel
def euclidean(q: Any, strict: bool, cells: Any, start: int, n: int, t: Any, acc: Any) -> None:
    """acc (m,): squared distance of q.x to m records, those from column `start` on. n: the records
    of the window."""
    # Read once, because each read from a tuple changes a reference count.
    x, held, inverse, gap, nominal = q.x, q.held, q.inverse, q.gap, q.nominal
    stop, size = start + acc.shape[0], held.shape[0]
    acc[:] = 0.0
    w = -1  # a column that waits for a second one, so that both are added in one loop
    for j in range(size + 1):
        plain = j < size and held[j] > 0 and nominal[j] == 0 and inverse[j] < STEEP
        if plain and not isnan(x[j]):
            if w < 0:
                w = j
                continue
            a, b = cells[w, start:stop], cells[j, start:stop]
            if held[w] == held[j] == n and never_nan(x[w], inverse[w], x[j], inverse[j]):
                add_two_full(a, x[w], inverse[w], b, x[j], inverse[j], acc)
            else:
                add_two(a, x[w], inverse[w], gap[w], b, x[j], inverse[j], gap[j], acc)
            w = -1
            continue
        if w >= 0:
            add_one(cells[w, start:stop], x[w], inverse[w], gap[w], acc)
            w = -1
        if j == size or held[j] == 0:
            continue
        if not isnan(x[j]):
            differences(cells[j, start:stop], j, False, q, t)
            for i in range(acc.shape[0]):
                acc[i] += t[i] * t[i]
        elif strict:
            for i in range(acc.shape[0]):
                acc[i] += 1.0


@kernel
def sums(q: Any, metric: int, cells: Any, start: int, t: Any, acc: Any) -> None:
    """acc (m,): sum, maximum or share of the differences of the attributes."""
    acc[:] = 0.0
    used = 0
    for j in range(q.held.shape[0]):
        if q.held[j] == 0 or isnan(q.x[j]):
            continue
        used += 1
        differences(cells[j, start : start + acc.shape[0]], j, metric == HAMMING, q, t)
        if metric == CHEBYSHEV:
            for i in range(acc.shape[0]):
                acc[i] = t[i] if t[i] > acc[i] else acc[i]
        else:
            for i in range(acc.shape[0]):
                acc[i] += t[i]
    if metric == HAMMING and used > 0:
        for i in range(acc.shape[0]):
            acc[i] /= used


@kernel
def minkowski(q: Any, p: float, cells: Any, start: int, t: Any, total: Any, acc: Any) -> None:
    """acc (m,): (Σ dᵖ)^(1/p), in units of the largest d so that no power overflows."""
    sums(q, CHEBYSHEV, cells, start, t, acc)
    total[:] = 0.0
    for j in range(q.held.shape[0]):
        if q.held[j] > 0 and not isnan(q.x[j]):
            differences(cells[j, start : start + acc.shape[0]], j, False, q, t)
            for i in range(acc.shape[0]):
                if t[i] > 0.0:
                    total[i] += (t[i] / acc[i]) ** float(p)
    for i in range(acc.shape[0]):
        acc[i] *= total[i] ** (1.0 / p)


@kernel
def coordinate(v: float, inverse: float, nominal: int) -> float:
    """A value in the unit of its attribute, within ±FAR: 0 if missing, 1 for a category."""
    if isnan(v):
        return 0.0
    return 1.0 if nominal == 1 else min(max(v * inverse, -FAR), FAR)


@kernel
def faint_angle(q: Any, column: int, by: float, cells: Any) -> float:
    """`cosine` of q.x times `by` and one magnified record: the sums of their products."""
    product, square = 0.0, 0.0
    own = 0.0
    for j in range(q.held.shape[0]):
        if q.held[j] == 0:
            continue
        v = coordinate(q.x[j], q.inverse[j], q.nominal[j]) * by
        u = coordinate(cells[j, column], q.inverse[j], q.nominal[j]) * MAGNIFIED
        own, square = own + v * v, square + u * u
        if q.nominal[j] == 0 or cells[j, column] == q.x[j]:
            product += u * v
    if own == 0.0 or square == 0.0:
        return 0.0
    return float(product / (sqrt(own) * sqrt(square)))


@kernel
def cosine(q: Any, cells: Any, start: int, t: Any, acc: Any) -> None:
    """acc (m,): 1 - cosine of the angle; categories are one-hot vectors."""
    acc[:] = 0.0
    t[:] = 0.0
    own, largest = 0.0, 0.0
    for j in range(q.held.shape[0]):
        if q.held[j] > 0:
            largest = max(largest, abs(coordinate(q.x[j], q.inverse[j], q.nominal[j])))
    by = MAGNIFIED if largest < NEAR else 1.0
    for j in range(q.held.shape[0]):
        if q.held[j] == 0:
            continue
        x, inverse, nominal = q.x[j], q.inverse[j], q.nominal[j]
        v = coordinate(x, inverse, nominal) * by
        own += v * v
        column = cells[j, start : start + acc.shape[0]]
        for i in range(acc.shape[0]):
            u = coordinate(column[i], inverse, nominal)
            t[i] += u * u
            if nominal == 0 or column[i] == x:
                acc[i] += u * v
    for i in range(acc.shape[0]):
        if own == 0.0:
            acc[i] = 1.0
            continue
        if t[i] < FAINT:
            d = 1.0 - faint_angle(q, start + i, by, cells)
        else:
            d = 1.0 - acc[i] / (sqrt(own) * sqrt(t[i]))
        # Rounded to the exact digits, so that parallel vectors tie and have distance 0.
        acc[i] = min(max(floor(d * DIGITS + 0.5) / DIGITS, 0.0), 2.0)


@kernel
def measure(rule: Any, q: Any, cells: Any, start: int, n: int, k: Any, acc: Any) -> None:
    """acc (m,): distance of q.x to m of n records, squared if Euclidean."""
    t = k.t[: acc.shape[0]]
    if rule.metric == EUCLIDEAN:
        strict = rule.strict == ALWAYS
        if rule.strict == IF_NOMINAL:
            for j in range(q.held.shape[0]):
                strict = strict or (q.nominal[j] == 1 and q.held[j] > 0)
        euclidean(q, strict, cells, start, n, t, acc)
    elif rule.metric == MINKOWSKI:
        minkowski(q, rule.p, cells, start, t, k.total[: acc.shape[0]], acc)
    elif rule.metric == COSINE:
        cosine(q, cells, start, t, acc)
    else:
        sums(q, rule.metric, cells, start, t, acc)


@kernel
def smallest(values: Any, best: Any) -> int:
    """Write the k smallest values to best (k,), rising. Returns their number."""
    filled = 0
    for i in range(values.shape[0]):
        if filled < best.shape[0]:
            filled += 1
        elif values[i] >= best[filled - 1]:
            continue
        at = filled - 1
        while at > 0 and best[at - 1] > values[i]:
            best[at] = best[at - 1]
            at -= 1
        best[at] = values[i]
    return filled


@kernel
def fold(acc: Any, lane: Any) -> None:
    """lane (GROUP,): the minimum of itself and every GROUP-th distance."""
    for g in range(0, acc.shape[0], GROUP):
        group = acc[g : g + GROUP]
        for i in range(group.shape[0]):
            lane[i] = group[i] if group[i] < lane[i] else lane[i]


@kernel
def collect(acc: Any, bound: float, near: Any, found: Any) -> int:
    """Write index and distance of records within `bound` to near and found. Returns their number.

    It has no branch that depends on a distance, because such branches cost more than the distances.
    """
    count = 0
    for g in range(0, acc.shape[0], GROUP):
        group = acc[g : g + GROUP]
        hits = 0
        for i in range(group.shape[0]):
            hits += group[i] <= bound
        if hits > 0:
            for i in range(group.shape[0]):
                near[count], found[count] = g + i, group[i]
                count += group[i] <= bound
    return count


@kernel
def collect_by_lane(acc: Any, lane: Any, bound: float, which: Any, near: Any, found: Any) -> int:
    """`collect` if only a few lanes have a minimum within `bound`: it looks at no other records."""
    few, count, n = 0, 0, acc.shape[0]
    for i in range(GROUP):
        which[few] = i
        few += lane[i] <= bound
        if few > FEW_LANES:
            return int(collect(acc, bound, near, found))
    for g in range(0, n, GROUP):
        for h in range(few):
            i = g + which[h]
            if i < n:
                near[count], found[count] = i, acc[i]
                count += acc[i] <= bound
    return count


@kernel
def hidden(q: Any, start: int, count: int, cells: Any, k: Any) -> bool:
    """Whether a candidate differs from q.x by so little that the square underflows."""
    for i in range(count):
        column = start + k.near[i]
        for j in range(q.held.shape[0]):
            if q.held[j] > 0 and q.nominal[j] == 0 and not isnan(q.x[j]):
                d = (cells[j, column] - q.x[j]) * q.inverse[j]
                if (q.gap[j] if isnan(d) else d) != 0.0:
                    return True
    return False


@kernel
def search(rule: Any, q: Any, start: int, stop: int, cells: Any, k: Any) -> Any:
    """Find the candidates for the ball of the k nearest to q.x. Returns their number and the unit.

    near (counted from `start`) and found have the candidates, oldest first, including all records
    of the ball. best has the k smallest distances; the last one is the radius. unit: the factor of
    distances.
    """
    count = ball(rule, q, start, stop, cells, k)
    radius = k.best[rule.k - 1]
    steepest = 0.0
    for j in range(q.held.shape[0]):
        steepest = max(steepest, q.inverse[j])
    faint = rule.metric == EUCLIDEAN and radius < FAINT and steepest < STEEPEST
    if faint and hidden(q, start, count, cells, k):
        nearer = Query(q.x, q.held, q.inverse * MAGNIFIED, q.gap * MAGNIFIED, q.nominal)
        return ball(rule, nearer, start, stop, cells, k), MAGNIFIED
    return count, 1.0


@kernel
def ball(rule: Any, q: Any, start: int, stop: int, cells: Any, k: Any) -> Any:
    """`search` in one unit."""
    lane, acc, found, best = k.lane, k.acc, k.found, k.best
    n = stop - start
    lane[:] = inf
    for b in range(0, n, CHUNK):
        part = acc[b : min(b + CHUNK, n)]
        measure(rule, q, cells, start + b, n, k, part)
        fold(part, lane)
    # The k-th smallest of some distances is at least that of all.
    bound = inf
    if rule.k <= GROUP:
        smallest(lane, best)
        bound = best[rule.k - 1]
    count = collect_by_lane(acc[:n], lane, bound, k.which, k.near, found)
    filled = smallest(found[:count], best)
    best[rule.k - 1] = best[max(filled, 1) - 1]
    return count


@kernel
def ballot(rule: Any, d: float, nearest: float, w: float) -> float:
    """The vote of a neighbour with weight w at distance d. nearest: the smallest distance."""
    if rule.by_distance == 0:
        return w
    if nearest == 0.0:
        return w if d == 0.0 else 0.0
    return w * (sqrt(nearest) / sqrt(d)) if rule.metric == EUCLIDEAN else w * (nearest / d)


@kernel
def posterior(rule: Any, known: int, count: int, label: Any, weight: Any, k: Any, out: Any) -> None:
    """out (C,): the shares of the votes in the ball; equal for all classes if there are no votes.

    label int64, weight float64 (n,): of the records.
    """
    near, found, nearest, bound = k.near, k.found, k.best[0], k.best[rule.k - 1]
    out[:] = 0.0
    total = 0.0
    for i in range(count):
        if found[i] <= bound:
            vote = ballot(rule, found[i], nearest, weight[near[i]])
            out[label[near[i]]] += vote
            total += vote
    for c in range(known):
        out[c] = out[c] / total if count > 0 else 1.0 / known


@kernel
def answer_one(
    rule: Any,
    q: Any,
    span: Any,
    known: int,
    cells: Any,
    label: Any,
    weight: Any,
    k: Any,
    out: Any,
) -> None:
    """out (C,): posterior of q; 0 for classes beyond the `known` ones.

    It uses the records span[0] … span[1]-1 of cells float64 (D, R), label int64 and weight
    float64 (R,).
    """
    start, stop = span[0], span[1]
    count, _ = search(rule, q, start, stop, cells, k)
    posterior(rule, known, count, label[start:stop], weight[start:stop], k, out)


@kernel
def answer(
    rule: Any,
    queries: Any,
    span: Any,
    known: Any,
    cells: Any,
    label: Any,
    weight: Any,
    k: Any,
    proba: Any,
) -> None:
    """proba (q, C): `answer_one` of each of q queries; span int64 (q, 2), known int64 (q,).

    queries: a Query with one row for each query, except nominal.
    """
    x, held, inverse, gap, nominal = queries
    for i in range(known.shape[0]):
        if known[i] > 0:
            q = Query(x[i], held[i], inverse[i], gap[i], nominal)
            answer_one(rule, q, span[i], known[i], cells, label, weight, k, proba[i])


@kernel
def neighbours(
    rule: Any, q: Any, start: int, stop: int, cells: Any, weight: Any, k: Any, vote: Any
) -> int:
    """The ball of the k records nearest to q.x: returns their number; near, found (distances), vote
    (n,)."""
    count, unit = search(rule, q, start, stop, cells, k)
    near, found, nearest, bound = k.near, k.found, k.best[0], k.best[rule.k - 1]
    inside = 0
    for i in range(count):
        d = found[i]
        if d <= bound:
            near[inside] = near[i]
            found[inside] = sqrt(d) / unit if rule.metric == EUCLIDEAN else d
            vote[inside] = ballot(rule, d, nearest, weight[start + near[i]])
            inside += 1
    return inside
