"""Kernels of naive Bayes models for many keys, which lean on what all keys have in common.

Slot 0 has the sums of all records, every other slot those of one key. A prediction for a key uses
the sums of its slot, and those of all other keys (slot 0 without its own) as a prior: in each class
of each feature they count as much as `most` records, if there are that many. `most` is a strength:
0 is a model of the key alone, infinity is one model for all keys.

Slots: weight float64 (S, C), the weight of each class. anchor (S, D): the first value learned.
moments (S, D, C, 3): weight, mean and sum of squared deviations of x - anchor. seen (S, E, C): the
weight of the records with feature j. values int64 (E,): how many values of a feature were learned.

Counts of categories are entries, so that a key pays only for the values it has: tag int64 (n,)
names slot, feature and value; counts float64 (n, C); place int32 (2^k,) is a hash table of entries
by tag, 0 where it is free; used int64 (3,): the number of entries, how many were refused, and how
many belong to keys that are not in memory.
"""

from __future__ import annotations

from math import exp, inf, isnan, log
from typing import Any, NamedTuple

from numpy import empty, float64, int32, int64, uint64, zeros
from numpy.typing import NDArray

from stream.bayes._kernels.gaussian import density
from stream.kernel import kernel
from stream.kernel._kernels import normalise_row

Floats = NDArray[float64]
Ints = NDArray[int64]

GRID = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, inf)  # the strengths that are compared
WHOLE = len(GRID) - 1  # one model for all keys
# Each feature with its best strength; and only the class shares with theirs, the features of all.
APART, SHARES = len(GRID), len(GRID) + 1
FORGETS = 0.999  # the share of the evidence that is left after another record
FARTHEST = 10.0  # the most that one record counts for or against a strength of a feature
FIRST, EVERY = 1000, 8  # the first records compare strengths, and every eighth later
ROUNDING = 1e-12  # what a subtraction leaves below this share is a rounding error
LEAST = 2.0**-52  # of a probability, as in the scores
FEATURE_BITS, VALUE_BITS = 16, 12  # of a tag; the slot is above them


class Slots(NamedTuple):
    """The sums of all slots, see the top of this file."""

    weight: Floats
    anchor: Floats
    moments: Floats
    seen: Floats
    values: Ints


class Entries(NamedTuple):
    """The counts of categories, see the top of this file."""

    tag: Ints
    counts: Floats
    place: NDArray[int32]
    used: Ints


class Strengths(NamedTuple):
    """How well each strength predicted.

    evidence float64 (G + 2,): the fading log probability of the labels with one strength for all
    features, and last by APART and SHARES. numbers (D, G), categories (E, G), prior (1, G):
    the log likelihood of the values with each strength, less that of one model for all. records
    int64 (1,): the number of learned records; 0 if the strength is fixed.
    """

    evidence: Floats
    numbers: Floats
    categories: Floats
    prior: Floats
    records: Ints


@kernel
def hashed(tag: int, places: int) -> int:
    """The first place of a tag. The mixing is that of splitmix64."""
    h: Any = uint64(tag) * uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> uint64(27))) * uint64(0x94D049BB133111EB)
    found: Any = int64((h ^ (h >> uint64(31))) & uint64(places - 1))
    return found  # type: ignore[no-any-return]


@kernel
def tag_of(slot: int, feature: int, value: int) -> int:
    """The tag of a value of a feature in a slot."""
    found: Any = int64((((slot << FEATURE_BITS) | feature) << VALUE_BITS) | value)
    return found  # type: ignore[no-any-return]


@kernel
def entry(slot: int, feature: int, value: int, e: Any) -> int:
    """The number of an entry; -1 if the slot has not got it."""
    tag = tag_of(slot, feature, value)
    at = hashed(tag, e.place.shape[0])
    while e.place[at] != 0:
        if e.tag[e.place[at] - 1] == tag:
            return int(e.place[at] - 1)
        at = (at + 1) % e.place.shape[0]
    return -1


@kernel
def placed(number: int, e: Any) -> None:
    """Put an entry with a tag into the hash table, which has room."""
    at = hashed(e.tag[number], e.place.shape[0])
    while e.place[at] != 0:
        at = (at + 1) % e.place.shape[0]
    e.place[at] = number + 1


@kernel
def place_from(first: int, e: Any) -> None:
    """Put the entries from `first` on into the hash table."""
    for number in range(first, e.used[0]):
        placed(number, e)


@kernel
def united(n: float, mean: float, m2: float, n_2: float, mean_2: float, m2_2: float) -> Any:
    """Weight, mean and sum of squares of two sets of records (Chan, Golub and LeVeque 1983)."""
    if n_2 <= 0.0:
        return n, mean, m2
    if n <= 0.0:
        return n_2, mean_2, m2_2
    total, d = n + n_2, mean_2 - mean
    share = n_2 / total
    return total, mean + d * share, m2 + m2_2 + d * d * (n * share)


@kernel
def moments_of(slot: int, j: int, c: int, shift: float, most: float, s: Any) -> Any:
    """The moments by which slot predicts feature j of class c: its own, and the others' as a prior.

    shift: the anchor of all keys less the one to which means are relative.
    """
    n, mean, m2 = 0.0, 0.0, 0.0
    if slot > 0:
        n, mean, m2 = s.moments[slot, j, c, 0], s.moments[slot, j, c, 1], s.moments[slot, j, c, 2]
    all_n, all_m2 = s.moments[0, j, c, 0], s.moments[0, j, c, 2]
    others, other_mean, other_m2 = all_n, s.moments[0, j, c, 1] + shift, all_m2
    if n > 0.0:
        others = all_n - n
        if others <= ROUNDING * all_n:
            return n, mean, m2
        d = other_mean - mean
        other_mean += d * (n / others)
        other_m2 = all_m2 - m2 - d * d * (n * (all_n / others))
        if other_m2 <= ROUNDING * all_m2:
            other_m2 = 0.0
    if others > most:
        other_m2 *= most / others
        others = most
    return united(n, mean, m2, others, other_mean, other_m2)


@kernel
def add_number(
    value: float, slot: int, j: int, known: int, most: float, how: Any, s: Any, out: Any
) -> None:
    """Add the log density of a value of feature j to out float64 (C,), as `term` of GaussianNB."""
    if isnan(value):
        return
    anchor, shift = s.anchor[0, j], 0.0
    if slot > 0:
        held = 0.0
        for c in range(known):
            held += s.moments[slot, j, c, 0]
        if held > 0.0:  # its own anchor is nearer to its values
            anchor, shift = s.anchor[slot, j], s.anchor[0, j] - s.anchor[slot, j]
    n, mean, m2 = 0.0, 0.0, 0.0
    for c in range(known):
        n_c, mean_c, m2_c = moments_of(slot, j, c, shift, most, s)
        n, mean, m2 = united(n, mean, m2, n_c, mean_c, m2_c)
    spread = m2 / n if n > 0.0 else 0.0
    if spread <= 0.0:  # constant so far: no evidence
        return
    v = value - anchor
    for c in range(known):
        n_c, mean_c, m2_c = moments_of(slot, j, c, shift, most, s)
        if n_c > 0.0:
            out[c] += density(v, mean_c, m2_c / n_c + how.smoothing * spread)
        else:  # never seen in this class: use all classes
            out[c] += density(v, mean, spread + how.smoothing * spread)


@kernel
def add_category(
    v: int, slot: int, j: int, known: int, most: float, how: Any, s: Any, e: Any, out: Any
) -> None:
    """Add the log probability of value v of feature j to out, as `add_term` of CategoricalNB."""
    if v < 0 or v >= s.values[j]:
        return  # missing, or never learned
    at = entry(0, j, v, e), entry(slot, j, v, e) if slot > 0 else -1
    found, n, n_v, others, others_v = False, 0.0, 0.0, 0.0, 0.0
    for c in range(known):
        of = counts_of(at, slot, j, c, s, e)
        if of[0] > 0.0 or (most > 0.0 and of[2] > 0.0):
            out[c] += log_share(of, s.values[j], most, how.alpha)
            continue
        if not found:  # never seen in this class: use all classes
            found = True
            for other in range(known):
                one = counts_of(at, slot, j, other, s, e)
                n, n_v = n + one[0], n_v + one[1]
                others, others_v = others + one[2], others_v + one[3]
        if n > 0.0 or (most > 0.0 and others > 0.0):
            out[c] += log_share((n, n_v, others, others_v), s.values[j], most, how.alpha)


@kernel
def counts_of(at: Any, slot: int, j: int, c: int, s: Any, e: Any) -> Any:
    """Weights in class c of feature j and of a value with the entries `at`: the key's own, and
    those of all others."""
    everywhere, own = at
    n, n_v, all_v = 0.0, 0.0, 0.0
    if everywhere >= 0:
        all_v = e.counts[everywhere, c]
    if slot > 0:
        n = s.seen[slot, j, c]
        if own >= 0:
            n_v = e.counts[own, c]
    others = s.seen[0, j, c] - n
    if others <= ROUNDING * s.seen[0, j, c]:  # the key has nearly all of it
        return n, n_v, 0.0, 0.0
    return n, n_v, others, min(max(all_v - n_v, 0.0), others)


@kernel
def log_share(counts: Any, values: int, most: float, alpha: float) -> float:
    """log of the share of a value, with the smoothed share of the others as a prior."""
    n, n_v, others, others_v = counts
    weight, prior = alpha * values, alpha  # of a key alone
    if most > 0.0:
        weight, prior = others + weight, others_v + alpha
        if weight > most:
            weight, prior = most, prior * (most / weight)
    share = n_v + prior
    return float(log(share) - log(n + weight)) if share > 0.0 else -inf


@kernel
def add_prior(slot: int, known: int, most: float, s: Any, out: Any) -> None:
    """Add the log prior of each class to out float64 (C,)."""
    others, total = 0.0, 0.0
    for c in range(known):
        mine = s.weight[slot, c] if slot > 0 else 0.0
        others += max(s.weight[0, c] - mine, 0.0)
        total += mine
    share = most / others if others > most else 1.0
    total += share * others
    for c in range(known):
        mine = s.weight[slot, c] if slot > 0 else 0.0
        n = mine + share * max(s.weight[0, c] - mine, 0.0)
        out[c] += log(n / total) if n > 0.0 else -inf


@kernel
def best(fit: Any) -> int:
    """The strength with the largest sum of fit float64 (G,); of equal ones the strongest."""
    found = WHOLE
    for g in range(WHOLE - 1, -1, -1):
        if fit[g] > fit[found]:
            found = g
    return found


@kernel
def chosen(g: Any) -> int:
    """The strength that predicts: an index into GRID, APART or SHARES."""
    found: int = best(g.evidence)
    for pick in (APART, SHARES):
        if g.evidence[pick] > g.evidence[found]:
            found = pick
    return found


@kernel
def add_terms(
    row: Any, slot: int, known: int, pick: int, how: Any, s: Any, e: Any, g: Any, out: Any
) -> None:
    """Add the terms of a row to out float64 (1 + numbers + categories, C), the prior first.

    row: its numbers float64 (p,), their columns, its codes int64 (q,) and their columns. pick: an
    index into GRID; APART; SHARES; or -1 for the fixed strength of `how`.
    """
    x, numbers, code, categories = row
    most = how.most if pick < 0 else GRID[min(pick, WHOLE)]
    add_prior(slot, known, GRID[best(g.prior[0])] if pick >= APART else most, s, out[0])
    at = 1
    for k in range(numbers.shape[0]):
        j = numbers[k]
        own = GRID[best(g.numbers[j])] if pick == APART else most
        add_number(x[k], slot, j, known, own, how, s, out[at])
        at += 1
    for k in range(categories.shape[0]):
        j = categories[k]
        own = GRID[best(g.categories[j])] if pick == APART else most
        add_category(code[k], slot, j, known, own, how, s, e, out[at])
        at += 1


@kernel
def log_posterior(terms: Any, y: int, known: int, joint: Any) -> float:
    """log P(y) by terms float64 (F, C), at least log LEAST. joint float64 (C,): scratch."""
    top = -inf
    for c in range(known):
        joint[c] = 0.0
        for f in range(terms.shape[0]):
            joint[c] += terms[f, c]
        top = max(top, joint[c])
    if top == -inf:
        return log(LEAST)
    total = 0.0
    for c in range(known):
        total += exp(joint[c] - top)
    return float(log(max(exp(joint[y] - top) / total, LEAST)))


@kernel
def compare(
    row: Any, slot: int, y: int, known: int, how: Any, s: Any, e: Any, g: Any, terms: Any
) -> None:
    """Add the evidence of a labelled row for each strength. terms (G + 2, F, C): scratch."""
    terms[:] = 0.0
    joint = empty(known)
    for pick in range(SHARES + 1):
        add_terms(row, slot, known, pick, how, s, e, g, terms[pick])
        found = log_posterior(terms[pick], y, known, joint)
        g.evidence[pick] = g.evidence[pick] * FORGETS + found
    numbers, categories = row[1], row[3]
    for pick in range(WHOLE):
        g.prior[0, pick] += nearer(terms[pick, 0, y], terms[WHOLE, 0, y])
        for k in range(numbers.shape[0]):
            f = 1 + k
            g.numbers[numbers[k], pick] += nearer(terms[pick, f, y], terms[WHOLE, f, y])
        for k in range(categories.shape[0]):
            f = 1 + numbers.shape[0] + k
            g.categories[categories[k], pick] += nearer(terms[pick, f, y], terms[WHOLE, f, y])


@kernel
def nearer(term: float, whole: float) -> float:
    """How much larger a term is than that of one model for all, bounded."""
    if term == whole:
        return 0.0
    return float(min(max(term - whole, -FARTHEST), FARTHEST))


@kernel
def learn(row: Any, slot: int, c: int, w: float, bound: int, s: Any, e: Any) -> None:
    """Learn a row of class c in one slot: Welford's update, and counts."""
    x, numbers, code, categories = row
    s.weight[slot, c] += w
    for k in range(numbers.shape[0]):
        if isnan(x[k]):
            continue
        j, held = numbers[k], 0.0
        for other in range(s.weight.shape[1]):
            held += s.moments[slot, j, other, 0]
        if held == 0.0:
            s.anchor[slot, j] = x[k]
        m = s.moments[slot, j, c]
        v, n = x[k] - s.anchor[slot, j], m[0]
        share, d = w / (n + w), v - m[1]
        m[0], m[1], m[2] = n + w, m[1] + d * share, m[2] + d * d * (n * share)
    for k in range(categories.shape[0]):
        j, v = categories[k], code[k]
        if v < 0:
            continue
        at = entry(slot, j, v, e)
        if at < 0:
            if slot > 0 and e.used[0] + e.used[2] >= bound:
                e.used[1] += 1
                continue
            at = e.used[0]
            e.used[0] += 1
            e.tag[at] = tag_of(slot, j, v)
            placed(at, e)
        e.counts[at, c] += w
        s.seen[slot, j, c] += w
        if slot == 0:
            s.values[j] = max(s.values[j], v + 1)


@kernel
def progressive(
    steps: Any, key: Any, columns: Any, how: Any, s: Any, e: Any, g: Any, out: Any, seen: Any
) -> None:
    """Run the steps: write the posteriors to out float64 (n_predictions, C), and learn.

    steps: op, row, y, w, known as in `Steps`. key int64 (rows,): the slot of each row, 0 without a
    key. columns: x float64 (rows, p), their features int64 (p,), codes int64 (rows, q), theirs.
    how: alpha, smoothing, most (-1 if strengths are learned), bound of the entries. seen int64
    (n_predictions,): the number of known classes. There is room for everything.
    """
    op, row, y, w, known = steps
    x, numbers, code, categories = columns
    features = 1 + numbers.shape[0] + categories.shape[0]
    terms = zeros((SHARES + 1, features, s.weight.shape[1]))
    prior, at = zeros((1, s.weight.shape[1])), 0
    for m in range(op.shape[0]):
        one = (x[row[m]], numbers, code[row[m]], categories)
        slot = key[row[m]]
        if op[m] != 1:
            pick = chosen(g) if how.most < 0.0 else -1
            terms[0] = 0.0
            add_terms(one, slot, known, pick, how, s, e, g, terms[0])
            for c in range(known):
                prior[0, c] = terms[0, 0, c]
                for f in range(features):
                    out[at, c] += terms[0, f, c]
            normalise_row(out[at : at + 1], prior, 0, known)
            seen[at] = known
            at += 1
        if op[m] != 0:
            if how.most < 0.0:
                due = g.records[0] < FIRST or g.records[0] % EVERY == 0
                if due and y[m] < known:  # nothing could have predicted a new class
                    compare(one, slot, y[m], known, how, s, e, g, terms)
                g.records[0] += 1
            learn(one, 0, y[m], w[m], how.bound, s, e)
            if slot > 0:
                learn(one, slot, y[m], w[m], how.bound, s, e)
            known = max(known, y[m] + 1)


@kernel
def terms_of(
    slot: int, columns: Any, known: int, how: Any, s: Any, e: Any, g: Any, out: Any
) -> None:
    """What `progressive` adds for the first row: out float64 (1 + p + q, C)."""
    x, numbers, code, categories = columns
    pick = chosen(g) if how.most < 0.0 else -1
    add_terms((x[0], numbers, code[0], categories), slot, known, pick, how, s, e, g, out)
