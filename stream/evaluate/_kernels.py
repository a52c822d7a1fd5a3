"""Kernels of progressive scores.

A ring has the last N scored predictions. A prediction is a column of `codes` int32 (4, N): the true
class and the classes predicted by the model, majority and no-change (-1: none). It is also a column
of `measures` float64 (5, N): log loss, confidence, Brier score, and log loss and Brier score of the
prior. And it is a row of `posterior` float64 (N, R): the model's probabilities of the first R
classes. The next prediction is written at index `at`.

Sums come in pairs: over all time, and fading. Old predictions are not scaled down; instead each new
one has a larger weight. If weights grow too large, all sums are scaled by a power of two, which is
exact. `confusion` float64 (C, C, 2) is by [true, predicted]; `baselines` float64 (2, C + 1, 2, 2)
by [majority or no-change, 1 + predicted, right]; `calibration` float64 (B, 2, 2, 2) by [bin of
confidence, right, count or sum of confidences]; `sums` float64 (6, 2) has count, log loss, Brier
score, log loss and Brier score of the prior, and the weight of the last prediction.

`counts` int64 (C,) is the number of learned labels of each class. `memory` float64 (4,) has the
most frequent class and the last class (-1 for none), the number of labels, and the sum of the
squares of `counts`.

For speed: indices are unsigned, so the compiler omits the wrap-around of negative ones; choices
that depend on a record are made by arithmetic, not by branches; divisions follow numpy's rules; the
places of many weights are computed before any weight is added.

Areas under curves, at the end of the file: posteriors are in 0 … 1, where floats have the same
order as their bits. So they are sorted as whole numbers, digit by digit (LSD radix sort; Knuth, The
Art of Computer Programming 3, 5.2.5). No branch can be mispredicted, so it takes less than half the
time of a comparison sort. Results are whole numbers.
"""

from __future__ import annotations

from math import log
from typing import Any

from numpy import empty, int32, int64, true_divide, uint64, zeros

from stream.kernel import intrinsic, kernel, machine
from stream.kernel._kernels import take_logs, whole_power

SMALLEST = 2.0**-52  # an unseen true class costs -log of this, never 0 and never infinity
LARGEST, SCALE = 2.0**64, 2.0**-64
MOST_VOTES = 100  # of the guess of a key: after as many other labels the guess is another one
HALVINGS = 40  # of an interval of at most 1
ZERO, ONE, TWO = uint64(0), uint64(1), int32(2)


@kernel
def losses(p: Any) -> Any:
    """-log of each probability, float64 (n,)."""
    out = p.copy()
    _lose(out)
    return out


@kernel
def _lose(p: Any) -> None:
    """Replace each probability, float64 (n,), by its -log."""
    for i in range(p.size):
        p[i] = max(p[i], SMALLEST)
    take_logs(p)
    for i in range(p.size):
        p[i] = 0.0 - p[i]  # never -0.0


@kernel
def baselines(
    op: Any, y: Any, label: Any, counts: Any, memory: Any, predicted: Any, prior: Any, squares: Any
) -> None:
    """The predictions of majority, no-change and prior at each predicting step.

    op int8, y int32 (m,): the steps; their labels are counted. label int64 (L,): block label to
    class code. Outputs: predicted int64 (n_predictions, 2); prior float64 (n_predictions, C), the
    share of each class in the labels; squares float64 (n_predictions,), the sum of the squares of
    the shares.
    """
    k = 0
    for i in range(op.shape[0]):
        if op[i] != 1:
            predicted[k, 0], predicted[k, 1] = int64(memory[0]), int64(memory[1])
            share = true_divide(1.0, max(memory[2], 1.0))
            for c in range(counts.shape[0]):
                prior[k, c] = float(counts[c]) * share
            squares[k] = memory[3] * share * share
            k += 1
        if op[i] != 0:
            c = label[y[i]]
            memory[2] += 1.0
            memory[3] += 2.0 * counts[c] + 1.0
            counts[c] += 1
            memory[1] = c
            majority = int64(memory[0])
            if majority < 0 or counts[c] > counts[majority]:
                memory[0] = c


@kernel
def score(
    true: Any,
    predicted: Any,
    proba: Any,
    prior: Any,
    squares: Any,
    at: int,
    codes: Any,
    measures: Any,
    posterior: Any,
    confusion: Any,
    baselines: Any,
    calibration: Any,
    sums: Any,
    factor: float,
) -> int:
    """Write scored predictions to the ring and add them to the sums, in order. Returns the next
    `at`.

    true int64 (k,); predicted int64 (k, 3): class codes of model, majority and no-change; -1 for
    none, except for the model; proba float64 (k, C): posteriors; prior, squares: as `baselines`
    wrote them.
    """
    for i in range(true.shape[0]):
        t = true[i]
        codes[0, at] = t
        codes[1, at], codes[2, at], codes[3, at] = predicted[i, 0], predicted[i, 1], predicted[i, 2]
        total = 0.0
        for k in range(proba.shape[1]):
            total += proba[i, k] * proba[i, k]
        measures[0, at] = proba[i, t]
        measures[1, at] = proba[i, predicted[i, 0]]
        measures[2, at] = (1.0 - 2.0 * proba[i, t]) + total
        measures[3, at] = prior[i, t]
        measures[4, at] = (1.0 - 2.0 * prior[i, t]) + squares[i]
        for k in range(min(proba.shape[1], posterior.shape[1])):
            posterior[at, k] = proba[i, k]
        at += 1
        if at == posterior.shape[0] or i + 1 == true.shape[0]:
            begin = max(at - i - 1, 0)
            _add(begin, at, codes, measures, confusion, baselines, calibration, sums, factor)
            at %= posterior.shape[0]
    return at


@kernel
def score_at_once(
    y: Any,
    label: Any,
    proba: Any,
    known: Any,
    counts: Any,
    memory: Any,
    at: int,
    codes: Any,
    measures: Any,
    posterior: Any,
    confusion: Any,
    baselines: Any,
    calibration: Any,
    sums: Any,
    factor: float,
) -> int:
    """`baselines` and `score` for steps that each predict and then learn.

    proba float64 (n, C), contiguous, known int64 (n,): the posteriors; the other arguments as for
    those two. Returns -1 and changes nothing if a prediction has no class.
    """
    unnamed, begin = 0, 0
    for i in range(known.shape[0]):
        unnamed += known[i] == 0
    if unnamed:
        return -1
    while begin < y.shape[0]:
        n = min(y.shape[0] - begin, posterior.shape[0] - at)
        end = at + n
        mine = proba[begin : begin + n]
        _write(y[begin : begin + n], label, mine, counts, memory, codes, measures, at)
        _keep(mine, posterior[at:end])
        _add(at, end, codes, measures, confusion, baselines, calibration, sums, factor)
        begin, at = begin + n, end % posterior.shape[0]
    return at


@kernel
def _write(
    y: Any, label: Any, proba: Any, counts: Any, memory: Any, codes: Any, measures: Any, at: int
) -> None:
    """Write predictions to the ring and learn their labels, one by one."""
    end = at + y.shape[0]
    true, model = codes[0][at:end], codes[1][at:end]
    by_majority, by_last = codes[2][at:end], codes[3][at:end]
    loss, sure, brier = measures[0][at:end], measures[1][at:end], measures[2][at:end]
    prior, prior_brier = measures[3][at:end], measures[4][at:end]
    majority, last, squares = int64(memory[0]), int64(memory[1]), memory[3]
    most = counts[majority] if majority >= 0 else 0
    for i in range(uint64(y.shape[0])):
        t = uint64(label[uint64(y[i])])
        best: Any = ZERO
        top = proba[i, ZERO]
        total = top * top
        for k in range(ONE, uint64(proba.shape[1])):
            p = proba[i, k]
            total += p * p
            best, top = (k if p > top else best), (p if p > top else top)
        true[i], model[i], by_majority[i], by_last[i] = t, best, majority, last
        n = counts[t]
        loss[i], sure[i], brier[i] = proba[i, t], top, total
        prior[i], prior_brier[i] = float(n), squares
        squares += 2.0 * n + 1.0
        n += 1
        counts[t] = n
        last = int64(t)
        majority, most = (last if n > most else majority), (n if n > most else most)
    for i in range(y.shape[0]):
        share = true_divide(1.0, max(memory[2] + i, 1.0))
        p = prior[i] * share
        prior[i], prior_brier[i] = p, (1.0 - 2.0 * p) + prior_brier[i] * share * share
        brier[i] = (1.0 - 2.0 * loss[i]) + brier[i]
    memory[0], memory[1], memory[2], memory[3] = majority, last, memory[2] + y.shape[0], squares


@kernel
def _keep(proba: Any, out: Any) -> None:
    """Copy the posteriors of the first classes; usually of all, so that rows are contiguous."""
    if proba.shape[1] == out.shape[1]:
        here, there = proba.reshape(proba.size), out.reshape(out.size)
        for i in range(proba.size):
            there[i] = here[i]
        return
    for i in range(proba.shape[0]):
        for k in range(min(proba.shape[1], out.shape[1])):
            out[i, k] = proba[i, k]


@kernel
def _add(
    at: int,
    end: int,
    codes: Any,
    measures: Any,
    confusion: Any,
    baselines: Any,
    calibration: Any,
    sums: Any,
    factor: float,
) -> None:
    """Add the predictions at … end - 1 to the sums. Their losses are still probabilities."""
    places = empty(4 * (end - at), int32)
    _lose(measures[0][at:end])
    _lose(measures[3][at:end])
    _place(codes, measures[1][at:end], at, confusion.shape[0], calibration.shape[0], places)
    predicted, base = confusion.reshape(confusion.size), baselines.reshape(baselines.size)
    bins = calibration.reshape(calibration.size)
    # Far from overflow, with any rounding.
    if sums[5, 1] * whole_power(factor, end - at) < 0.5 * LARGEST:
        _count(at, 0, end - at, measures, places, predicted, base, bins, sums, factor)
        return
    for i in range(end - at):
        if sums[5, 1] * factor >= LARGEST:
            for pairs in (predicted, base, bins, sums.reshape(sums.size)):
                for k in range(1, pairs.size, 2):
                    pairs[k] *= SCALE
        _count(at, i, i + 1, measures, places, predicted, base, bins, sums, factor)


def _add_pair(pairs: Any, at: int, one: float, other: float) -> None:
    """The twin of `add_pair`."""
    if not 0 <= at < pairs.size - 1:
        raise IndexError(f"expected a pair at {at}, got an array of {pairs.size}")
    pairs[at] += one
    pairs[at + 1] += other


@intrinsic(_add_pair)
def add_pair(typing: Any, pairs: Any, at: Any, one: Any, other: Any) -> Any:
    """Add to pairs[at] and pairs[at + 1] in one instruction; pairs float64 (n,), contiguous; at
    int32.

    The compiler does not vectorise this by itself, because only one of the weights changes.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        both = machine.ir.VectorType(machine.ir.DoubleType(), 2)
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        place = builder.bitcast(builder.gep(data, [args[1]]), both.as_pointer())
        new = machine.ir.Constant(both, machine.ir.Undefined)
        for lane in (0, 1):
            new = builder.insert_element(
                new, args[2 + lane], machine.ir.Constant(machine.ir.IntType(32), lane)
            )
        builder.store(builder.fadd(builder.load(place, align=8), new), place, align=8)
        return context.get_dummy_value()

    return machine.types.void(pairs, at, one, other), code


@kernel
def _count(
    at: int,
    begin: int,
    end: int,
    measures: Any,
    places: Any,
    predicted: Any,
    base: Any,
    bins: Any,
    sums: Any,
    factor: float,
) -> None:
    """Add the predictions at + begin … at + end - 1 at their `places`."""
    m = places.size // 4
    by_predicted, by_majority = places[begin:end], places[m + begin : m + end]
    by_last, by_sure = places[2 * m + begin : 2 * m + end], places[3 * m + begin : 3 * m + end]
    begin, end = at + begin, at + end
    sure, loss, brier = measures[1][begin:end], measures[0][begin:end], measures[2][begin:end]
    prior_loss, prior_brier = measures[3][begin:end], measures[4][begin:end]
    n, a, b, c, d = sums[0, 0], sums[1, 0], sums[2, 0], sums[3, 0], sums[4, 0]
    n_, a_, b_ = sums[0, 1], sums[1, 1], sums[2, 1]
    c_, d_, w = sums[3, 1], sums[4, 1], sums[5, 1]
    for i in range(uint64(end - begin)):
        w *= factor
        add_pair(predicted, by_predicted[i], 1.0, w)
        add_pair(base, by_majority[i], 1.0, w)
        add_pair(base, by_last[i], 1.0, w)
        add_pair(bins, by_sure[i], 1.0, w)
        add_pair(bins, by_sure[i] + TWO, sure[i], w * sure[i])
        n, n_ = n + 1.0, n_ + w
        a, a_ = a + loss[i], a_ + w * loss[i]
        b, b_ = b + brier[i], b_ + w * brier[i]
        c, c_ = c + prior_loss[i], c_ + w * prior_loss[i]
        d, d_ = d + prior_brier[i], d_ + w * prior_brier[i]
    sums[0, 0], sums[1, 0], sums[2, 0], sums[3, 0], sums[4, 0] = n, a, b, c, d
    sums[0, 1], sums[1, 1], sums[2, 1], sums[3, 1], sums[4, 1] = n_, a_, b_, c_, d_
    sums[5, 1] = w


@kernel
def _place(codes: Any, sure: Any, at: int, classes: int, bins: int, out: Any) -> None:
    """Write the index of each prediction's pair in `confusion`, `baselines` (twice) and
    `calibration`."""
    end = at + sure.size
    true, predicted = codes[0][at:end], codes[1][at:end]
    majority, last = codes[2][at:end], codes[3][at:end]
    by_predicted, by_majority, by_last, by_sure = _quarters(out)
    one, two, four, n_classes, most = int32(1), int32(2), int32(4), int32(classes), int32(bins - 1)
    of_last = two * (two * n_classes + two)
    for i in range(sure.size):
        by_predicted[i] = two * (n_classes * true[i] + predicted[i])
    for i in range(sure.size):
        by_majority[i] = two * (two * (majority[i] + one) + int32(majority[i] == true[i]))
    for i in range(sure.size):
        by_last[i] = of_last + two * (two * (last[i] + one) + int32(last[i] == true[i]))
    for i in range(sure.size):
        k = min(int32(sure[i] * float(bins)), most)
        by_sure[i] = four * (two * k + int32(predicted[i] == true[i]))


@kernel
def _quarters(whole: Any) -> Any:
    """Views of the four consecutive quarters of an array."""
    n = whole.size // 4
    return whole[:n], whole[n : 2 * n], whole[2 * n : 3 * n], whole[3 * n :]


@kernel
def add_by_key(
    slot: Any, true: Any, predicted: Any, loss: Any, sums: Any, counts: Any, fading: float, at: int
) -> int:
    """Add scored predictions to the scores of their keys, in order. Returns `at` after them.

    slot int64 (k,): the row of the key, -1 for none; true, predicted int64 (k,): class codes; loss
    float64 (k,). sums, counts: as in `KeyScores`. at: how many were added before.
    """
    for i in range(slot.shape[0]):
        s = slot[i]
        if s < 0:
            continue
        at += 1
        wrong, guess = predicted[i] != true[i], (counts[s, 2] if counts[s, 0] > 0 else -1)
        missed = guess >= 0 and guess != true[i]
        for k in range(sums.shape[1]):
            sums[s, k] *= fading
        sums[s, 0] += 1.0
        sums[s, 1] += 1.0 if wrong else 0.0
        sums[s, 2] += loss[i]
        if guess >= 0:
            sums[s, 3] += 1.0 if missed and not wrong else 0.0
            sums[s, 4] += 1.0 if wrong and not missed else 0.0
        counts[s, 0] += 1
        counts[s, 1] = at
        if counts[s, 3] == 0:
            counts[s, 2], counts[s, 3] = true[i], 1
        elif missed:
            counts[s, 3] -= 1
        else:
            counts[s, 3] = min(counts[s, 3] + 1, MOST_VOTES)
    return at


@kernel
def evidence_above(part: float, whole: float, share: float) -> float:
    """Chernoff's evidence that part of whole is more than this share, in nats; 0 if it is not.

    That a true share of at most `share` gives so large a part has a probability of at most
    exp(-evidence). It is whole · KL(part / whole, share).
    """
    found = 0.0
    if part > share * whole > 0.0:  # the product of tiny ones is 0 too
        found = part * log(part / (share * whole))
        rest = whole - part
        if rest > 0.0:
            found += rest * log(rest / ((1.0 - share) * whole))
    return found


@kernel
def least_share(part: float, whole: float, evidence: float) -> float:
    """The largest share that `part` of `whole` is above with this evidence: a lower bound."""
    low, high = 0.0, min(part / whole, 1.0)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if evidence_above(part, whole, middle) > evidence:
            low = middle
        else:
            high = middle
    return low


@kernel
def worst_keys(sums: Any, evidence: float, order: Any, least: Any) -> int:
    """The keys whose error rate has the highest lower bounds, the highest first.

    sums float64 (n, any): weights and errors of keys. Outputs: order int64 (k,), their numbers;
    least float64 (k,), their bounds, above 0. Returns how many there are; of equal ones the first
    come first.
    """
    found = 0
    for s in range(sums.shape[0]):
        full = found == order.shape[0]
        most = least[found - 1] if full else 0.0
        # One look shows that most keys are not among them.
        if sums[s, 1] <= 0.0 or (full and evidence_above(sums[s, 1], sums[s, 0], most) <= evidence):
            continue
        bound = least_share(sums[s, 1], sums[s, 0], evidence)
        if bound <= most:
            continue
        place = found - 1 if full else found
        while place > 0 and least[place - 1] < bound:
            order[place], least[place] = order[place - 1], least[place - 1]
            place -= 1
        order[place], least[place] = s, bound
        found = min(found + 1, order.shape[0])
    return found


@kernel
def worse_than_guess(sums: Any, evidence: float, out: Any) -> None:
    """Whether each key is predicted worse than by its guess: sums as in `KeyScores`; out bool."""
    for s in range(sums.shape[0]):
        out[s] = evidence_above(sums[s, 4], sums[s, 3] + sums[s, 4], 0.5) > evidence


DIGIT = 11  # bits: the counts of a digit fit the L1 cache, and a key has six digits
DIGITS = 6
MASK = uint64((1 << DIGIT) - 1)


@kernel
def rank(true: Any, bits: Any) -> Any:
    """The ranks of the records of each class among the rest, by the posterior of that class.

    true int64 (n,): classes; bits uint64 (n, R): the bits of the posteriors. Returns for each class
    `members` int64 (R,), the number of its records, and `in_order` int64 (R,), twice the number of
    pairs of one of its records and one of the rest that are in order, equal ones counting half. For
    each record of a class, class by class, it returns `mine` and `rest` int64: how many records of
    the class, and of the rest, have at least its posterior. A class that has all records or none
    has no such part.
    """
    n, classes = bits.shape
    members, in_order = zeros(classes, int64), zeros(classes, int64)
    mine, rest = empty(n, int64), empty(n, int64)
    keys, spare = empty(n, uint64), empty(n, uint64)
    counts = empty((DIGITS, 1 << DIGIT), int64)
    end = 0
    for c in range(classes):
        for i in range(n):
            of = true[i] == c
            members[c] += of
            keys[i] = (bits[i, c] << ONE) | uint64(of)  # drops the sign: -0.0 is 0.0
        m = members[c]
        if 0 < m < n:
            ordered = _sorted(keys, spare, counts)
            in_order[c] = _places(ordered, mine[end : end + m], rest[end : end + m])
            end += m
    return members, in_order, mine[:end], rest[:end]


@kernel
def _places(ordered: Any, mine: Any, rest: Any) -> int:
    """Write `mine` and `rest` of a class from its sorted keys. Returns twice the pairs in order."""
    n, m = ordered.size, mine.size
    in_order = below = done = begin = 0
    while begin < n:
        score, end, ours = ordered[begin] >> ONE, begin, 0
        while end < n and ordered[end] >> ONE == score:
            if ordered[end] & ONE:
                ours += 1
            end += 1
        theirs = end - begin - ours
        in_order += ours * (2 * below + theirs)
        mine[done : done + ours] = m - done
        rest[done : done + ours] = n - m - below
        below, done, begin = below + theirs, done + ours, end
    return in_order


@kernel
def _sorted(keys: Any, spare: Any, counts: Any) -> Any:
    """Sort the keys. The result is one of the two arrays uint64 (n,); counts int64 (DIGITS,
    2^DIGIT)."""
    counts[:] = 0
    for key in keys:
        left = key
        for d in range(DIGITS):
            counts[d, left & MASK] += 1
            left >>= uint64(DIGIT)
    for d in range(DIGITS):
        shift, places = uint64(DIGIT * d), counts[d]
        if places[(keys[0] >> shift) & MASK] == keys.size:
            continue  # all keys have the same digit
        at = 0
        for digit in range(places.size):
            places[digit], at = at, at + places[digit]
        for key in keys:
            digit = (key >> shift) & MASK
            spare[places[digit]] = key
            places[digit] += 1
        keys, spare = spare, keys
    return keys
