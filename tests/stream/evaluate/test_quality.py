"""Quality: the compiled counts are those of an obvious count, in any split, and survive saving."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from river import metrics

from stream.data.block import PREDICT_THEN_LEARN
from stream.data.state import State
from stream.errors import StateError
from stream.evaluate import _kernels as kernels
from stream.evaluate.quality import FADING_FACTOR, LAST, MOST, BaselinePredictions, Quality, windows
from stream.learner.base import Predictions
from tests.oracles.baselines import baselines
from tests.oracles.scores import TABLE, Twin, bins, difference, unseen_log_loss

CLASSES = ["a", "b", "c", "d"]


def generated(n: int, seed: int = 0) -> tuple:
    """True codes, said codes (-1: none), posteriors and baselines of n predictions.

    Some posteriors give the true class nothing; confidences fall on the bounds of bins.
    """
    rng = np.random.default_rng(seed)
    true = rng.integers(4, size=n)
    proba = rng.choice([0.0, 0.25, 0.5, 1.0, 1e-30, 0.3, 0.9], size=(n, 4))
    said = np.where(rng.random(n) < 0.1, -1, rng.integers(4, size=n))
    counts = rng.integers(1, 9, size=(n, 4))
    prior = counts / counts.sum(axis=1, keepdims=True)
    squares = (prior**2).sum(axis=1)
    return true, said, proba, BaselinePredictions(rng.integers(-1, 4, size=(n, 2)), prior, squares)


def quality_of(true, said, proba, beside, cuts=(), window: int = LAST) -> Quality:
    """A Quality that scored everything, in blocks that end at `cuts`."""
    quality = Quality(window)
    nothing = np.empty(0, dtype=np.int64)
    for start, stop in pairwise([0, *cuts, len(true)]):
        quality.baselines(np.empty(0, np.int8), np.empty(0, np.int32), nothing, len(CLASSES), 0)
        part = np.arange(start, stop)
        quality.score(true[part], said[part], proba[part], beside.take(part))
    return quality


@pytest.mark.parametrize(("n", "window"), [(1, 1), (30, 1000), (1000, 1000), (1500, 1000), (99, 7)])
def test_counts_are_those_of_an_obvious_count(n, window) -> None:
    """Sums, confusion, baselines and bins of every window, before and after the ring is full."""
    true, said, proba, beside = generated(n, seed=window)
    twin = Twin()
    for i in range(n):
        codes = (said[i], *beside.predicted[i])
        twin.score(true[i], codes, proba[i].tolist(), beside.prior[i].tolist())
    view = quality_of(true, said, proba, beside, window=window).view(CLASSES)

    assert view.unscored == twin.unscored
    assert list(view.scores) == list(windows(window))
    for name, scores in view.scores.items():
        f, w = twin.window(name, window, FADING_FACTOR)
        tally = scores.tally
        at = np.arange(len(f.true))
        costs = [
            (1, unseen_log_loss(p[t]), ((p - np.eye(4)[t]) ** 2).sum())
            for t, p in zip(f.true, f.proba, strict=True)
        ]
        assert scores.scored == pytest.approx(w.sum(), rel=1e-12)
        assert tally.sums[:3] == pytest.approx(w @ np.array(costs), rel=1e-12)
        prior = [unseen_log_loss(p) for p in f.prior[at, f.true]]
        assert tally.sums[3] == pytest.approx(w @ np.array(prior), rel=1e-12)
        expected = np.zeros((4, 4))
        np.add.at(expected, (f.true, f.said[:, 0]), w)
        assert tally.confusion == pytest.approx(expected, rel=1e-12)
        for which in (0, 1):
            expected = np.zeros((5, 2))
            codes = f.said[:, 1 + which]
            np.add.at(expected, (1 + codes, (codes == f.true).astype(int)), w)
            assert tally.baselines[which] == pytest.approx(expected, rel=1e-12)
        got = [(c[:, 0].sum(), c[:, 1].sum(), c[1, 0]) for c in tally.calibration]
        assert np.array(got) == pytest.approx(np.array(bins(f, w)), rel=1e-12)


def test_nothing_scored_has_no_scores() -> None:
    """None, not 0, and no plot."""
    for scores in Quality().view([]).scores.values():
        assert (scores.scored, scores.accuracy, scores.log_loss) == (0, None, None)
        assert (scores.brier, scores.prior_brier, scores.calibration_error) == (None,) * 3
        assert (scores.agreement, scores.kappa_m, scores.kappa_t, scores.roc_auc) == (None,) * 4
        assert scores.baselines == {"majority": None, "no_change": None}
        assert (scores.per_class, scores.calibration) == ((), ())


@pytest.mark.parametrize("window", [LAST, 300, 7])
def test_any_split_gives_the_same_scores_to_the_last_bit(window) -> None:
    """Scores do not depend on how many were scored together (I1)."""
    drawn = generated(1700, seed=1)
    whole = quality_of(*drawn, window=window)
    cut = quality_of(*drawn, cuts=[1, 2, 3, 250, 250, 999, 1000, 1001, 1650], window=window)
    single = quality_of(*drawn, cuts=list(range(1, 1700)), window=window)

    assert whole.to_state() == cut.to_state() == single.to_state()
    assert whole.view(CLASSES).scores == cut.view(CLASSES).scores


@pytest.mark.parametrize("window", [LAST, 300])
def test_restored_scores_go_on_bit_for_bit(window) -> None:
    """Saved, loaded and continued is the same as never saved."""
    true, said, proba, beside = generated(1500, seed=2)
    first, rest = np.arange(700), np.arange(700, 1500)
    saved = quality_of(true[first], said[first], proba[first], beside.take(first), window=window)
    restored = Quality(window)
    restored.load_state(saved.to_state())
    again = restored.to_state()
    for quality in (saved, restored):
        quality.score(true[rest], said[rest], proba[rest], beside.take(rest))

    assert (
        again
        == quality_of(
            true[first], said[first], proba[first], beside.take(first), window=window
        ).to_state()
    )
    assert restored.to_state() == saved.to_state()
    assert restored.to_state() == quality_of(true, said, proba, beside, window=window).to_state()


@pytest.mark.parametrize(("before", "after"), [(300, 100), (300, 1000), (100, 300)])
def test_window_may_change_between_two_starts(before, after) -> None:
    """What was saved with another window is all there, as far as both reach."""
    true, said, proba, beside = generated(1500, seed=6)
    first, rest = np.arange(1450), np.arange(1450, 1500)
    saved = quality_of(true[first], said[first], proba[first], beside.take(first), window=before)
    changed = Quality(after)
    changed.load_state(saved.to_state())
    untouched = changed.to_state()
    changed.score(true[rest], said[rest], proba[rest], beside.take(rest))
    scores = changed.view(CLASSES).scores[f"last_{after}"]
    n = int(scores.scored)
    named = np.flatnonzero(said >= 0)[-n:]
    expected = quality_of(true[named], said[named], proba[named], beside.take(named), window=n)

    assert untouched == saved.to_state()
    assert n == min(after, before + np.count_nonzero(said[rest] >= 0))
    assert scores.accuracy == expected.view(CLASSES).scores["all"].accuracy
    assert scores.brier == pytest.approx(expected.view(CLASSES).scores["all"].brier)


def test_looking_at_scores_changes_nothing() -> None:
    """A view is a copy, whenever it is read: scores that come later do not move it."""
    drawn = generated(50)
    quality = quality_of(*drawn, window=40)
    before = quality.to_state()
    read, unread = quality.view(CLASSES), quality.view(CLASSES)
    expected = {name: (s.accuracy, s.brier, s.roc_auc) for name, s in read.scores.items()}
    quality.score(*drawn)
    late = {name: (s.accuracy, s.brier, s.roc_auc) for name, s in unread.scores.items()}

    assert late == expected
    assert quality_of(*drawn, window=40).to_state() == before


@pytest.mark.parametrize("p", [0.0, 2.0**-60])
def test_impossible_truth_costs_52_bits(p) -> None:
    """-log 2**-52: neither nothing nor infinity (I9)."""
    one = BaselinePredictions(np.array([[0, 0]]), np.array([[0.5, p, 0, 0]]), np.array([0.25]))
    quality = quality_of(np.array([1]), np.array([0]), np.array([[1 - p, p, 0, 0]]), one)
    scores = quality.view(CLASSES).scores["all"]

    assert scores.log_loss == pytest.approx(52 * math.log(2))
    assert scores.prior_log_loss == pytest.approx(52 * math.log(2))


def test_prediction_of_nothing_is_counted_beside_the_score() -> None:
    """Where no class was known there was nothing to be right or wrong about (I9)."""
    beside = BaselinePredictions(
        np.array([[-1, -1], [0, 0]]), np.array([[0, 0], [1, 0.0]]), np.array([0, 1.0])
    )
    quality = quality_of(
        np.array([0, 1]), np.array([-1, 1]), np.array([[0, 0], [0.5, 0.5]]), beside
    )
    view = quality.view(CLASSES)

    assert (view.unscored, view.scores["all"].scored, view.scores["all"].accuracy) == (1, 1, 1.0)


def test_baselines_say_what_was_known_before_each_step() -> None:
    """Majority (first to reach its count), last label and shares, in any split of the steps."""
    rng = np.random.default_rng(3)
    op = rng.integers(3, size=200).astype(np.int8)
    y = np.where(op == 0, -1, rng.integers(4, size=200)).astype(np.int32)
    events, shares, counts = [], [], np.zeros(4)
    for o, c in zip(op.tolist(), y.tolist(), strict=True):
        if o != 1:
            events.append(("ask", None))
            shares.append(counts / max(counts.sum(), 1))
        if o != 0:
            events.append(("learn", c))
            counts = counts + np.eye(4)[c]
    expected = [[-1 if v is None else v for v in pair] for pair in baselines(events)]
    label = np.arange(4)
    for cuts in ([], [1, 50, 50, 120], list(range(1, 200))):
        quality, got = Quality(), []
        for start, stop in pairwise([0, *cuts, 200]):
            part = slice(start, stop)
            asked = int(np.count_nonzero(op[part] != 1))
            got.append(quality.baselines(op[part], y[part], label, 4, asked))

        assert np.concatenate([b.predicted for b in got]).tolist() == expected
        assert np.concatenate([b.prior for b in got]) == pytest.approx(np.array(shares), rel=1e-14)
        squares = (np.array(shares) ** 2).sum(axis=1)
        assert np.concatenate([b.squares for b in got]) == pytest.approx(squares, rel=1e-14)


@pytest.mark.parametrize("window", [LAST, 300])
@pytest.mark.parametrize("cuts", [[], [1, 3, 3, 700], list(range(1, 1500))], ids=len)
def test_scores_at_once_are_those_of_two_calls_to_the_last_bit(cuts, window) -> None:
    """Classes that come late, ties, records before any class was known."""
    rng = np.random.default_rng(5)
    known = np.concatenate(([0, 0], np.sort(rng.integers(1, 5, size=1498))))
    proba = np.where(np.arange(4) < known[:, None], rng.integers(3, size=(1500, 4)) / 4, 0.0)
    proba *= rng.random((1500, 1))
    y = rng.integers(4, size=1500).astype(np.int32)
    op, label = np.full(1500, PREDICT_THEN_LEARN, dtype=np.int8), np.array([2, 0, 3, 1])
    once, twice = Quality(window), Quality(window)
    for start, stop in pairwise([0, *cuts, 1500]):
        part = slice(start, stop)
        said = Predictions(CLASSES, proba[part], known[part])
        once.score_at_once(y[part], label, said)
        beside = twice.baselines(op[part], y[part], label, 4, stop - start)
        twice.score(label[y[part]], said.best(), said.proba, beside)

    assert once.to_state() == twice.to_state()
    assert once.unscored == 2


def test_weights_that_grew_too_large_are_scaled_down_and_lose_nothing() -> None:
    """After 100,000 predictions: twice beyond the largest weight."""
    rng = np.random.default_rng(8)
    n = 100_000
    true = rng.integers(2, size=n)
    p = rng.random(n)
    proba = np.column_stack((p, 1 - p))
    said = (p < 0.5).astype(np.int64)
    beside = BaselinePredictions(
        np.zeros((n, 2), dtype=np.int64), np.full((n, 2), 0.5), np.full(n, 0.5)
    )
    quality = quality_of(true, said, proba, beside, cuts=range(997, n, 997))
    scores = quality.view(["a", "b"]).scores["fading"]
    w = FADING_FACTOR ** np.arange(n - 1, -1, -1.0)

    assert 1.0 < quality.to_state().arrays["sums"][5, 1] < kernels.LARGEST
    assert scores.scored == pytest.approx(w.sum(), rel=1e-11)
    assert scores.accuracy == pytest.approx(np.average(said == true, weights=w), rel=1e-11)
    assert sum(b.weight for b in scores.calibration) == pytest.approx(w.sum(), rel=1e-11)
    assert sum(c.support for c in scores.per_class) == pytest.approx(w.sum(), rel=1e-11)
    expected = np.average((proba[np.arange(n), true] - 1) ** 2 * 2, weights=w)
    assert scores.brier == pytest.approx(expected, rel=1e-11)


def test_scores_of_more_classes_than_are_ranked() -> None:
    """Beyond the first 32 classes there is no AUC; every other score is there."""
    rng = np.random.default_rng(9)
    n, c = 400, 40
    true = rng.integers(c, size=n)
    proba = rng.dirichlet(np.ones(c), size=n)
    said = proba.argmax(axis=1)
    prior = np.full((n, c), 1 / c)
    quality = Quality()
    nothing = np.empty(0, dtype=np.int64)
    quality.baselines(np.empty(0, np.int8), np.empty(0, np.int32), nothing, c, 0)
    beside = BaselinePredictions(np.zeros((n, 2), dtype=np.int64), prior, np.full(n, 1 / c))
    quality.score(true, said, proba, beside)
    twin = Twin(true.tolist(), [(s, 0, 0) for s in said], proba.tolist(), prior.tolist())
    scores = quality.view(list(range(c))).scores["last_1000"]

    ranked = [each.roc_auc is not None for each in scores.per_class]
    assert ranked == [True] * 32 + [False] * 8
    for name in ("f1, a class", "Matthews' correlation", "Brier score"):
        ours, theirs, _ = TABLE[name]
        assert difference(ours(scores), theirs(*twin.window("all", 0, 1.0))) < 1e-12


@pytest.mark.parametrize("window", [0, MOST + 1])
def test_window_has_bounds(window) -> None:
    """What is sorted at each scrape must stay small."""
    with pytest.raises(ValueError, match=f"got {window}"):
        Quality(window)


@pytest.mark.parametrize("array", ["confusion", "baselines", "calibration", "codes", "told"])
def test_state_whose_arrays_do_not_fit_together_is_refused(array) -> None:
    """One line that names the array; never scores of half a state."""
    state = quality_of(*generated(50)).to_state()
    cut = state.arrays[array][:-1]

    with pytest.raises(StateError, match=f"'{array}': expected shape"):
        Quality().load_state(State(state.header, {**state.arrays, array: cut}))


def test_rivers_metrics_read_the_confusion_counts() -> None:
    """A river metric made from the counts equals one that was updated record by record."""
    true, said, proba, beside = generated(300, seed=4)
    named = said >= 0
    cm = quality_of(true, said, proba, beside).view(CLASSES).confusion_matrix()
    for kind in (metrics.Accuracy, metrics.MacroF1, metrics.CohenKappa):
        slow = kind()
        for t, s in zip(true[named].tolist(), said[named].tolist(), strict=True):
            slow.update(CLASSES[t], CLASSES[s])

        assert kind(cm=cm).get() == pytest.approx(slow.get(), rel=1e-12)


@pytest.mark.parametrize("before", [1, 6, 7, 8, 20])
@pytest.mark.parametrize("after", [1, 6, 7, 8, 20])
@pytest.mark.parametrize("n", [0, 1, 6, 7, 8, 25])
def test_a_window_of_another_size_goes_on_with_the_last_predictions(before, after, n) -> None:
    """Saved at any fill and loaded into any size: as if the smaller of both had been kept."""
    true, said, proba, beside = generated(60, seed=n)
    first, rest = np.arange(n), np.arange(n, 60)
    parts = [(true[p], said[p], proba[p], beside.take(p)) for p in (first, rest)]
    changed = Quality(after)
    changed.load_state(quality_of(*parts[0], window=before).to_state())
    whole = quality_of(true, said, proba, beside, window=after)

    for row in rest.tolist():
        changed.baselines(np.empty(0, np.int8), np.empty(0, np.int32), np.empty(0, np.int64), 4, 0)
        at = np.array([row])
        changed.score(true[at], said[at], proba[at], beside.take(at))

    one, other = changed.view(CLASSES), whole.view(CLASSES)
    for name in ("all", one.last):
        mine, theirs = one.scores[name], other.scores[name]
        for of in ("scored", "accuracy", "log_loss", "brier", "kappa_m", "calibration_error"):
            assert difference(getattr(mine, of), getattr(theirs, of)) < 1e-12, (name, of)


def test_state_with_a_place_outside_its_ring_is_refused() -> None:
    """It would be written to."""
    state = quality_of(*generated(20), window=30).to_state()

    for at in (-1, 21, 10**9):
        with pytest.raises(StateError, match="at: expected 0 to"):
            Quality(30).load_state(State({**state.header, "at": at}, state.arrays))
