"""Quality: the compiled scores are those of an obvious count, and survive saving."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from river import metrics

from stream.base import Predictions
from stream.block import PREDICT_THEN_LEARN
from stream.evaluate.quality import FADING_FACTOR, LAST, WINDOWS, Quality
from tests import oracles

CLASSES = ["a", "b", "c", "d"]


def generated(n: int, seed: int = 0):
    """True codes, said codes (-1: none) and probabilities of n scored predictions."""
    rng = np.random.default_rng(seed)
    true = rng.integers(4, size=n)
    said = rng.integers(-1, 4, size=(n, 3))
    p_true = rng.choice([0.0, 1e-30, 0.25, 0.9, 1.0], size=n)
    return true, said, p_true


def quality_of(true, said, p_true, cuts=()) -> Quality:
    """A Quality that scored everything, in blocks that end at `cuts`."""
    quality = Quality()
    nothing = np.empty(0, dtype=np.int64)
    edges = [0, *cuts, len(true)]
    for start, stop in pairwise(edges):
        quality.baselines(np.empty(0, np.int8), np.empty(0, np.int32), nothing, len(CLASSES), 0)
        part = slice(start, stop)
        quality.score(true[part], said[part], p_true[part])
    return quality


@pytest.mark.parametrize("n", [0, 1, 30, LAST, LAST + 500])
def test_scores_are_those_of_an_obvious_count(n) -> None:
    """Every window, the model and both baselines, before and after the ring is full."""
    true, said, p_true = generated(n)
    twin = oracles.ScoreTwin(FADING_FACTOR, LAST)
    for t, s, p in zip(true.tolist(), said.tolist(), p_true.tolist(), strict=True):
        twin.score(t, tuple(s), p)
    view = quality_of(true, said, p_true).view(CLASSES)

    assert view.unscored == twin.unscored
    counts = {(int(i), int(j)): int(view.confusion[i, j]) for i, j in np.argwhere(view.confusion)}
    assert counts == twin.confusion()
    for window in WINDOWS:
        scored, loss, hits, majority, no_change = twin.sums(window)
        got = view.scores[window]
        assert got.scored == pytest.approx(scored, rel=1e-12)
        if not scored:
            assert (got.accuracy, got.log_loss) == (None, None)
            continue
        assert got.accuracy == pytest.approx(hits / scored, rel=1e-12)
        assert got.log_loss == pytest.approx(loss / scored, rel=1e-12)
        assert got.baselines["majority"] == pytest.approx(majority / scored, rel=1e-12)
        assert got.baselines["no_change"] == pytest.approx(no_change / scored, rel=1e-12)


def test_any_split_gives_the_same_scores_to_the_last_bit() -> None:
    """Scores do not depend on how many were scored together (I1)."""
    drawn = generated(LAST + 700, seed=1)
    whole = quality_of(*drawn)
    cut = quality_of(*drawn, cuts=[1, 2, 3, 250, 250, 999, 1000, 1001, 1650])
    single = quality_of(*drawn, cuts=list(range(1, LAST + 700)))

    assert whole.to_state() == cut.to_state() == single.to_state()
    assert whole.view(CLASSES).scores == cut.view(CLASSES).scores


def test_restored_scores_go_on_bit_for_bit() -> None:
    """Saved, loaded and continued is the same as never saved."""
    true, said, p_true = generated(1500, seed=2)
    first = quality_of(true[:700], said[:700], p_true[:700])
    restored = Quality()
    restored.load_state(first.to_state())
    for quality in (first, restored):
        quality.score(true[700:], said[700:], p_true[700:])

    assert restored.to_state() == first.to_state()
    assert restored.to_state() == quality_of(true, said, p_true).to_state()


def test_looking_at_scores_changes_nothing() -> None:
    """A view is a copy: it stays as it was."""
    true, said, p_true = generated(50)
    quality = quality_of(true, said, p_true)
    before = quality.to_state()
    view = quality.view(CLASSES)
    confusion = view.confusion.copy()
    quality.score(true, said, p_true)

    assert np.array_equal(view.confusion, confusion)
    assert quality_of(true, said, p_true).to_state() == before


@pytest.mark.parametrize("p", [0.0, 2.0**-60])
def test_impossible_truth_costs_52_bits(p) -> None:
    """-log 2**-52: neither nothing nor infinity (I9)."""
    quality = quality_of(np.array([1]), np.array([[0, 0, 0]]), np.array([p]))

    assert quality.view(CLASSES).scores["all"].log_loss == pytest.approx(52 * math.log(2))


def test_prediction_of_nothing_is_counted_beside_the_score() -> None:
    """Where no class was known there was nothing to be right or wrong about (I9)."""
    quality = quality_of(
        np.array([0, 1]), np.array([[-1, -1, -1], [1, 0, 0]]), np.array([0.0, 0.5])
    )
    view = quality.view(CLASSES)

    assert (view.unscored, view.scores["all"].scored, view.scores["all"].accuracy) == (1, 1, 1.0)


def test_baselines_say_what_was_known_before_each_step() -> None:
    """Majority (first to reach its count) and last label, in any split of the steps."""
    rng = np.random.default_rng(3)
    op = rng.integers(3, size=200).astype(np.int8)
    y = np.where(op == 0, -1, rng.integers(4, size=200)).astype(np.int32)
    events = []
    for o, c in zip(op.tolist(), y.tolist(), strict=True):
        events += [("ask", None)] if o != 1 else []
        events += [("learn", c)] if o != 0 else []
    expected = [[-1 if v is None else v for v in pair] for pair in oracles.baselines(events)]
    label = np.arange(4)
    for cuts in ([], [1, 50, 50, 120], list(range(1, 200))):
        quality, got = Quality(), []
        edges = [0, *cuts, 200]
        for start, stop in pairwise(edges):
            part = slice(start, stop)
            asked = int(np.count_nonzero(op[part] != 1))
            got += quality.baselines(op[part], y[part], label, 4, asked).tolist()

        assert got == expected


@pytest.mark.parametrize("cuts", [[], [1, 3, 3, 700], list(range(1, 1500))], ids=len)
def test_scores_at_once_are_those_of_two_calls_to_the_last_bit(cuts) -> None:
    """Classes that come late, ties, records before any class was known."""
    rng = np.random.default_rng(5)
    known = np.concatenate(([0, 0], np.sort(rng.integers(1, 5, size=1498))))
    proba = np.where(np.arange(4) < known[:, None], rng.integers(3, size=(1500, 4)) / 4, 0.0)
    y = rng.integers(4, size=1500).astype(np.int32)
    op, label = np.full(1500, PREDICT_THEN_LEARN, dtype=np.int8), np.array([2, 0, 3, 1])
    once, twice = Quality(), Quality()
    for start, stop in pairwise([0, *cuts, 1500]):
        part = slice(start, stop)
        said = Predictions(CLASSES, proba[part], known[part])
        once.score_at_once(y[part], label, said)
        both = twice.baselines(op[part], y[part], label, 4, stop - start)
        true = label[y[part]]
        p_true = said.proba[np.arange(stop - start), true]
        twice.score(true, np.column_stack((said.best(), both)), p_true)

    assert once.to_state() == twice.to_state()
    assert once.unscored == 2


def test_rivers_metrics_read_the_confusion_counts() -> None:
    """A river metric made from the counts equals one that was updated record by record."""
    true, said, p_true = generated(300, seed=4)
    named = said[:, 0] >= 0
    cm = quality_of(true, said, p_true).view(CLASSES).confusion_matrix()
    for kind in (metrics.Accuracy, metrics.MacroF1, metrics.CohenKappa, metrics.MCC):
        slow = kind()
        for t, s in zip(true[named].tolist(), said[named, 0].tolist(), strict=True):
            slow.update(CLASSES[t], CLASSES[s])

        assert kind(cm=cm).get() == pytest.approx(slow.get(), rel=1e-12)
