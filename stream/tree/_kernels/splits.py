"""Kernels that grow a tree: the best test of a leaf, its two new leaves, and the whole tree again.

A leaf has the records of the window that came to it, as a list from the oldest to the newest. Sums
over records run along this list, so no result depends on positions in memory.
"""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

from numpy import argsort, empty, float64, int64, zeros
from numpy.typing import NDArray

from stream.kernel import kernel

Floats = NDArray[float64]
Ints = NDArray[int64]

START, HELD, NODES, LEARNED, DUE, REFUSED, COUNTS = range(7)
MOST_SORTED = 2**22  # positions
FEWEST = 2  # records on each side of a test
SHARE = 0.5  # of the cost of a test: neighbouring cuts are nearly the same test
TRUST = -3.0  # the log-odds of a new test's node against its children: their split was tested


class TreeArrays(NamedTuple):
    """The window and the tree: D attributes, C classes, room for R records and N nodes.

    cells float64 (R, D): numbers, or codes of categories; NaN is missing. label int64, weight
    float64 (R,). leaf int64 (R,): the leaf of a record; after int64 (R,): the next record of the
    leaf. nominal int64 (D,): 1 for categories.

    feature int64 (N,): the attribute that a node tests; -1: it is a leaf. cut float64 (N,): records
    with at most this number, or with this category, go left. left int64 (N,): the left child; the
    right one is the next node. depth int64 (N,). n float64 (N, C): the weight of each class. odds
    float64 (N,): the log-odds that the node itself predicts better than its children. first, last,
    held int64 (N,): the list of a leaf, and how many records it has; tried int64 (N,): how many it
    had when a test was last looked for.

    counts int64 (COUNTS,): the position of the oldest record, the number of records in the window
    and of nodes, of learned records, the number of them at which the tree grows again, and of tests
    that the bound of nodes has refused.
    """

    cells: Floats
    label: Ints
    weight: Floats
    leaf: Ints
    after: Ints
    nominal: Ints
    feature: Ints
    cut: Floats
    left: Ints
    depth: Ints
    n: Floats
    odds: Floats
    first: Ints
    last: Ints
    held: Ints
    tried: Ints
    counts: Ints


class TreeScratch(NamedTuple):
    """Scratch. raw float64, row int64 (R,): values of an attribute and their records, by age; value
    float64, at int64 (R,): the same, sorted by value. low, high float64 (C,); path int64
    (depth + 1,); mixed float64 (depth + 1, C)."""

    raw: Floats
    row: Ints
    value: Floats
    at: Ints
    low: Floats
    high: Floats
    path: Ints
    mixed: Floats


class Bounds(NamedTuple):
    """The largest number of records and of nodes, the largest depth, and how many records a leaf
    gets before a test is looked for."""

    window: int
    nodes: int
    depth: int
    grace: int


@kernel
def entropy(p: float) -> float:
    """p log p."""
    return p * log(p) if p > 0.0 else 0.0


@kernel
def goes_left(v: float, cut: float, nominal: int) -> bool:
    """Whether a present value passes the test."""
    return bool(v == cut if nominal == 1 else v <= cut)


@kernel
def push(k: int, i: int, t: Any) -> None:
    """Append record i to the list of leaf k."""
    t.after[i], t.leaf[i] = -1, k
    if t.held[k] == 0:
        t.first[k] = i
    else:
        t.after[t.last[k]] = i
    t.last[k] = i
    t.held[k] += 1


@kernel
def clear(k: int, depth: int, t: Any) -> None:
    """Make node k a leaf without records."""
    t.feature[k], t.cut[k], t.left[k], t.depth[k], t.odds[k] = -1, 0.0, 0, depth, 0.0
    t.n[k, :] = 0.0
    t.first[k], t.last[k], t.held[k], t.tried[k] = -1, -1, 0, 0


@kernel
def gather(j: int, k: int, t: Any, r: Any) -> int:
    """r.raw, r.row: attribute j of the records of leaf k that have it. Returns their number.
    r.value, r.at: the same, sorted. r.high: their weight by class."""
    n, i = 0, t.first[k]
    r.high[:] = 0.0
    for _ in range(t.held[k]):
        v = t.cells[i, j]
        if v == v:
            r.raw[n], r.row[n] = v, i
            n += 1
        i = t.after[i]
    order = argsort(r.raw[:n], kind="mergesort")  # stable
    for q in range(n):
        r.value[q], r.at[q] = r.raw[order[q]], r.row[order[q]]
    summed = r.row if t.nominal[j] == 1 else r.at  # by age, because codes must not matter
    for q in range(n):
        r.high[t.label[summed[q]]] += t.weight[summed[q]]
    return n


@kernel
def take(j: int, order: Any, t: Any, r: Any) -> int:
    """`gather` for a number whose records are sorted in `order` int64 (n,), the missing ones last;
    without r.raw and r.row."""
    n = 0
    r.high[:] = 0.0
    for q in range(order.shape[0]):
        v = t.cells[order[q], j]
        if v != v:
            break
        r.value[q], r.at[q] = v, order[q]
        r.high[t.label[order[q]]] += t.weight[order[q]]
        n += 1
    return n


@kernel
def purity(low: Any, high: Any) -> float:
    """The sum of both sides' squared class weights by their weight, as Gini's index has it; -1 if a
    side has no weight."""
    left, right, left_squares, right_squares = 0.0, 0.0, 0.0, 0.0
    for c in range(low.shape[0]):
        left += low[c]
        right += high[c]
        left_squares += low[c] * low[c]
        right_squares += high[c] * high[c]
    if left <= 0.0 or right <= 0.0:
        return -1.0
    return left_squares / left + right_squares / right


@kernel
def purity_without(low: Any, every: Any) -> float:
    """`purity` of `low` and the rest of `every`."""
    left, right, left_squares, right_squares = 0.0, 0.0, 0.0, 0.0
    for c in range(low.shape[0]):
        rest = max(every[c] - low[c], 0.0)
        left += low[c]
        right += rest
        left_squares += low[c] * low[c]
        right_squares += rest * rest
    if left <= 0.0 or right <= 0.0:
        return -1.0
    return left_squares / left + right_squares / right


@kernel
def best_number(n: int, t: Any, r: Any) -> Any:
    """The index of the last sorted number on the left of the purest test, or -1; and the number of
    tests."""
    best, found, tests = -1.0, -1, 0
    r.low[:] = 0.0
    for i in range(n - 1):
        c, w = t.label[r.at[i]], t.weight[r.at[i]]
        r.low[c] += w
        r.high[c] = max(r.high[c] - w, 0.0)
        if r.value[i] == r.value[i + 1]:
            continue
        tests += 1
        if FEWEST <= i + 1 <= n - FEWEST:
            here = purity(r.low, r.high)
            if here > best:
                best, found = here, i
    return found, tests


@kernel
def best_category(n: int, t: Any, r: Any) -> Any:
    """`best_number` for categories: the index of the first record with the category on the left. Of
    two that are as good, that with the older record, so that codes do not matter."""
    best, found, tests, i = -1.0, -1, 0, 0
    start, room = t.counts[START], t.label.shape[0]
    while i < n:
        stop = i
        r.low[:] = 0.0
        while stop < n and r.value[stop] == r.value[i]:
            r.low[t.label[r.at[stop]]] += t.weight[r.at[stop]]
            stop += 1
        tests += 1
        if FEWEST <= stop - i <= n - FEWEST:
            here = purity_without(r.low, r.high)
            older = found >= 0 and (r.at[i] - start) % room < (r.at[found] - start) % room
            if here > best or (here == best and older):
                best, found = here, i
        i = stop
    return found, tests - 1 if tests <= 2 else tests


@kernel
def divided(value: Any, at: Any, cut: float, nominal: int, t: Any, r: Any) -> Any:
    """What the test adds to the log likelihood of the classes of the records `at` int64 (n,), whose
    attribute is value float64 (n,); and the number of these classes."""
    r.low[:] = 0.0
    r.high[:] = 0.0
    for i in range(value.shape[0]):
        if goes_left(value[i], cut, nominal):
            r.low[t.label[at[i]]] += t.weight[at[i]]
        else:
            r.high[t.label[at[i]]] += t.weight[at[i]]
    gain, left, right, classes = 0.0, 0.0, 0.0, 0
    for c in range(r.low.shape[0]):
        both = r.low[c] + r.high[c]
        gain += entropy(r.low[c]) + entropy(r.high[c]) - entropy(both)
        left += r.low[c]
        right += r.high[c]
        classes += both > 0.0
    return gain + entropy(left + right) - entropy(left) - entropy(right), classes


@kernel
def best_test(k: int, sorted_from: int, orders: Any, t: Any, r: Any) -> Any:
    """The attribute and the cut of the best test of leaf k; -1 if no test is worth it.

    A test is worth it if it adds more to the log likelihood than SHARE of what it costs to name it:
    log attributes + log cuts + (classes - 1) / 2 · log n. sorted_from: where the records of the
    leaf begin in orders int64 (D, n), which are sorted by each number; -1: they are not there.
    """
    best, feature, cut, used = 0.0, -1, 0.0, 0
    for j in range(t.nominal.shape[0]):
        nominal = t.nominal[j]
        if sorted_from >= 0 and nominal == 0:
            n = take(j, orders[j, sorted_from : sorted_from + t.held[k]], t, r)
        else:
            n = gather(j, k, t, r)
        if n < 2 * FEWEST:
            continue
        at, tests = best_category(n, t, r) if nominal == 1 else best_number(n, t, r)
        used += tests > 0
        if at < 0:
            continue
        here = r.value[at]
        if nominal == 1:
            gain, classes = divided(r.raw[:n], r.row[:n], here, nominal, t, r)  # by age
        else:
            above = r.value[at + 1]
            middle = 0.5 * here + 0.5 * above
            here = middle if here <= middle < above else here
            gain, classes = divided(r.value[:n], r.at[:n], here, nominal, t, r)
        gain -= SHARE * (log(tests) + 0.5 * (classes - 1) * log(n))
        if gain > best:
            best, feature, cut = gain, j, here
    if feature >= 0 and best <= SHARE * log(used):
        feature = -1
    return feature, cut


@kernel
def is_pure(k: int, t: Any) -> bool:
    """Whether all records of leaf k have one class."""
    i = t.first[k]
    for _ in range(t.held[k] - 1):
        if t.label[i] != t.label[t.after[i]]:
            return False
        i = t.after[i]
    return True


@kernel
def weight_of(k: int, t: Any) -> float:
    """The weight of all classes in node k."""
    total = 0.0
    for c in range(t.n.shape[1]):
        total += t.n[k, c]
    return total


@kernel
def heavier(left: int, t: Any) -> int:
    """The child with more weight, to which records go that do not have the attribute."""
    return int(left if weight_of(left, t) >= weight_of(left + 1, t) else left + 1)


@kernel
def split(k: int, feature: int, cut: float, t: Any) -> None:
    """Make leaf k a node with this test. Its two new leaves get its records."""
    left, depth, first, held = t.counts[NODES], t.depth[k] + 1, t.first[k], t.held[k]
    t.counts[NODES] += 2
    clear(left, depth, t)
    clear(left + 1, depth, t)
    nominal, i = t.nominal[feature], first
    for _ in range(held):
        v = t.cells[i, feature]
        if v == v:
            t.n[left if goes_left(v, cut, nominal) else left + 1, t.label[i]] += t.weight[i]
        i = t.after[i]
    home, i = heavier(left, t), first
    for _ in range(held):
        v, following = t.cells[i, feature], t.after[i]
        child = home
        if v == v:
            child = left if goes_left(v, cut, nominal) else left + 1
        else:
            t.n[child, t.label[i]] += t.weight[i]
        push(child, i, t)
        i = following
    t.feature[k], t.cut[k], t.left[k], t.odds[k] = feature, cut, left, TRUST
    t.first[k], t.last[k], t.held[k], t.tried[k] = -1, -1, 0, 0


@kernel
def attempt(k: int, sorted_from: int, orders: Any, bounds: Any, t: Any, r: Any) -> bool:
    """Split leaf k if its records say so and the bounds allow it. Returns whether it did."""
    t.tried[k] = t.held[k]
    if t.depth[k] >= bounds.depth or is_pure(k, t):
        return False
    feature, cut = best_test(k, sorted_from, orders, t, r)
    if feature < 0:
        return False
    if t.counts[NODES] + 2 > bounds.nodes:
        t.counts[REFUSED] += 1
        return False
    split(k, feature, cut, t)
    for child in range(t.left[k], t.left[k] + 2):
        t.tried[child] = t.held[child]
    return True


@kernel
def sort_all(orders: Any, t: Any, r: Any) -> None:
    """orders int64 (D, n): the n records of the window sorted by each number, then those that do
    not have it."""
    n = orders.shape[1]
    for j in range(orders.shape[0]):
        if t.nominal[j] == 1:
            continue
        there = gather(j, 0, t, r)
        orders[j, :there] = r.at[:there]
        i, q = t.first[0], there
        for _ in range(n - there):
            while t.cells[i, j] == t.cells[i, j]:
                i = t.after[i]
            orders[j, q] = i
            q += 1
            i = t.after[i]


@kernel
def divide_orders(k: int, begin: int, held: int, orders: Any, t: Any, r: Any) -> None:
    """Put the records of node k's left child before those of the right one, in orders[:, begin :
    begin + held]."""
    left, spare = t.left[k], r.row
    for j in range(orders.shape[0]):
        if t.nominal[j] == 1:
            continue
        order = orders[j, begin : begin + held]
        to, others = 0, 0
        for q in range(held):
            i = order[q]
            if t.leaf[i] == left:
                order[to] = i
                to += 1
            else:
                spare[others] = i
                others += 1
        for q in range(others):
            order[to + q] = spare[q]


@kernel
def regrow(bounds: Any, t: Any, r: Any) -> None:
    """Grow the tree again from the records of the window, breadth first.

    Each number is sorted once, if that takes at most 32 MiB, and by each node otherwise.
    """
    n, d = t.counts[HELD], t.nominal.shape[0]
    t.counts[NODES] = 1
    clear(0, 0, t)
    for i in range(n):
        row = (t.counts[START] + i) % t.label.shape[0]
        t.n[0, t.label[row]] += t.weight[row]
        push(0, row, t)
    kept = n * d <= MOST_SORTED
    orders = empty((d if kept else 0, n), int64)
    begin = zeros(t.feature.shape[0], int64)
    sort_all(orders, t, r)
    k = 0
    while k < t.counts[NODES]:
        held, start = t.held[k], begin[k] if kept else -1
        if attempt(k, start, orders, bounds, t, r) and kept:
            divide_orders(k, start, held, orders, t, r)
            begin[t.left[k]], begin[t.left[k] + 1] = start, start + t.held[t.left[k]]
        k += 1
