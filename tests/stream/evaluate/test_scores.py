"""Every score of every window is the oracle's on the same predictions, on real streams."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import fsum
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from river import datasets, metrics, utils
from sklearn import metrics as sklearn
from sklearn.utils.class_weight import compute_sample_weight

from stream import GaussianNB
from stream.evaluate.progressive import progressive
from stream.evaluate.quality import FADING_FACTOR, WINDOWS, Quality, QualityView
from stream.evaluate.ranking import ranking
from stream.evaluate.scores import BINS, PredictionTable, Scores, Tally, agreement
from tests.oracles.scores import LAST_ONLY, TABLE, Twin, curve, difference, watched
from tests.seed import seeds

STREAMS: dict[str, tuple[Callable[[], Any], int]] = {
    "Phishing": (datasets.Phishing, 0),
    "Bananas": (datasets.Bananas, 60),
    "ImageSegments": (datasets.ImageSegments, 0),
}


@cache
def scored(name: str) -> tuple[QualityView, Twin]:
    """Our scores of a stream, and every prediction of it made one by one."""
    dataset, delay = STREAMS[name]
    *_, view = progressive(dataset(), GaussianNB(), delay=delay, block_size=211)
    return view, watched(dataset(), GaussianNB(), delay=delay or None)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("stream", STREAMS)
def test_scores_are_those_of_the_oracle(stream, window) -> None:
    """All of them, overall, per class and of the baselines, to 1e-9."""
    view, twin = scored(stream)
    of, w = twin.window(window, 1000, FADING_FACTOR)
    scores = view.scores[window]
    found = {
        name: difference(ours(scores), oracle(of, w)) for name, (ours, oracle, _) in TABLE.items()
    }

    assert view.unscored == twin.unscored
    assert {name: d for name, d in found.items() if not d < 1e-9} == {}


@pytest.mark.parametrize("stream", STREAMS)
def test_scores_of_single_predictions_are_those_of_scikit_learn(stream) -> None:
    """Exact over the last 1,000, of saturated posteriors too; the other windows have none."""
    view, twin = scored(stream)
    of, w = twin.window("last_1000", 1000, 1.0)
    scores = view.scores["last_1000"]

    for name, (ours, oracle, _) in LAST_ONLY.items():
        assert difference(ours(scores), oracle(of, w)) < 1e-9, name
    assert view.scores["all"].roc_auc is view.scores["fading"].pr_auc is None
    assert view.scores["all"].balanced_log_loss is None
    assert view.scores["fading"].prior_balanced_log_loss is None


@pytest.mark.parametrize("window", ["all", "last_1000"])
@pytest.mark.parametrize("stream", ["Phishing", "Bananas"])
def test_calibration_plot_is_that_of_scikit_learn(stream, window) -> None:
    """Its bins differ on their bounds alone, where no confidence of these streams lies but 1."""
    view, twin = scored(stream)
    of, _ = twin.window(window, 1000, 1.0)
    accuracy, confidence = curve(of)
    bins = [b for b in view.scores[window].calibration if b.weight]

    assert [b.accuracy for b in bins] == pytest.approx(accuracy.tolist(), rel=1e-12)
    assert [b.confidence for b in bins] == pytest.approx(confidence.tolist(), rel=1e-12)


def rivers(kind: Any, twin: Twin, window: str, **arguments: Any) -> float:
    """A river metric updated record by record over a window."""
    if window == "last_1000":
        metric = utils.Rolling(kind, window_size=1000, **arguments)
        for t, s in zip(twin.true, twin.said, strict=True):
            metric.update(t, s[0])
        return metric.get()
    metric = kind(**arguments)
    of, w = twin.window(window, 1000, FADING_FACTOR)
    for t, s, weight in zip(of.true.tolist(), of.said[:, 0].tolist(), w.tolist(), strict=True):
        metric.update(t, s, w=weight)
    return metric.get()


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("stream", STREAMS)
def test_agreement_is_that_of_rivers_metrics_updated_one_by_one(stream, window) -> None:
    """Reading river's metrics from margins changes none of them."""
    view, twin = scored(stream)
    found = view.scores[window].agreement
    one_by_one = {
        "BalancedAccuracy": found.balanced_accuracy,
        "CohenKappa": found.kappa,
        **{f"{a.title()}F1": found.f1[a] for a in found.f1},
        **{f"{a.title()}Precision": found.precision[a] for a in found.precision},
        **{f"{a.title()}Recall": found.recall[a] for a in found.recall},
    }

    for name, ours in one_by_one.items():
        theirs = rivers(getattr(metrics, name), twin, window)
        assert ours == pytest.approx(theirs, abs=1e-9), name


@pytest.mark.parametrize("stream", ["Phishing", "Bananas"])
def test_areas_of_two_classes_are_rivers_exact_ones(stream) -> None:
    """river's RollingROCAUC; its RollingPRAUC joins the points by lines, which is too good."""
    view, twin = scored(stream)
    roc, pr = metrics.RollingROCAUC(1000, pos_val=1), metrics.RollingPRAUC(1000, pos_val=1)
    of, _ = twin.window("last_1000", 1000, 1.0)
    for t, p in zip(of.true.tolist(), of.proba[:, 1].tolist(), strict=True):
        roc.update(t, p)
        pr.update(t, p)
    ours = view.scores["last_1000"].per_class[1]

    assert ours.roc_auc == pytest.approx(roc.get(), abs=1e-9)
    assert ours.pr_auc == pytest.approx(pr.get(), abs=0.02)


def test_correlation_of_two_classes_is_rivers() -> None:
    """Of more than two, river's takes one class for the positive one: not a correlation of all."""
    view, twin = scored("Phishing")
    several, many = scored("ImageSegments")
    binary = rivers(metrics.MCC, twin, "all", pos_val=1)
    theirs = rivers(metrics.MCC, many, "all", pos_val=1)
    of, _ = many.window("all", 0, 1.0)
    truth = sklearn.matthews_corrcoef(of.true, of.said[:, 0])

    assert view.scores["all"].agreement.mcc == pytest.approx(binary, abs=1e-9)
    assert several.scores["all"].agreement.mcc == pytest.approx(truth, abs=1e-9)
    assert abs(theirs - truth) > 0.01


def test_rivers_cross_entropy_rewards_a_class_it_never_saw() -> None:
    """0, as for a perfect answer; scikit-learn and we ask 52 bits for it."""
    theirs = metrics.CrossEntropy()
    theirs.update("c", {"a": 0.7, "b": 0.3})
    truth = sklearn.log_loss([2], np.array([[0.7, 0.3, 0.0]]), labels=[0, 1, 2])
    data = [({"x": 0.0}, "a"), ({"x": 1.0}, "b"), ({"x": 0.5}, "c")]
    *_, view = progressive(data, GaussianNB())

    assert theirs.get() == 0.0
    unseen = view.scores["all"].log_loss  # of "b" and of "c", both never seen
    assert unseen == pytest.approx(truth) == pytest.approx(36.04, abs=0.01)


def test_rivers_binned_roc_auc_is_wrong_on_saturated_scores() -> None:
    """Ten thresholds see nothing of what lies between them."""
    rng = np.random.default_rng(7)
    true = rng.random(1000) < 0.5
    score = 1e-4 * (rng.random(1000) + 0.3 * true)
    theirs = metrics.ROCAUC()
    for t, p in zip(true.tolist(), score.tolist(), strict=True):
        theirs.update(t, p)
    truth = sklearn.roc_auc_score(true, score)
    rank = ranking(true.astype(np.int64), np.column_stack((1 - score, score)))[1]

    assert rank is not None
    assert rank.roc_auc == pytest.approx(truth, abs=1e-12)
    assert abs(theirs.get() - truth) > 0.1


def test_ties_count_half_and_steps_do_not_interpolate() -> None:
    """Scores of which many are equal, as of a tree or of nearest neighbours."""
    rng = np.random.default_rng(2)
    true = rng.integers(3, size=500)
    proba = rng.integers(4, size=(500, 3)) / 4
    for c, rank in enumerate(ranking(true, proba)):
        assert rank is not None
        assert rank.roc_auc == pytest.approx(sklearn.roc_auc_score(true == c, proba[:, c]))
        expected = sklearn.average_precision_score(true == c, proba[:, c])
        assert rank.pr_auc == pytest.approx(expected)


def kinds_of_posteriors() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """True classes and posteriors of the sorts that a sort may get wrong."""
    rng = np.random.default_rng(11)
    true = rng.integers(20, size=600)
    z = rng.normal(size=(600, 20)) + 2.0 * (true[:, None] == np.arange(20))
    softmax = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    close = np.nextafter(1.0, 0.0) ** rng.integers(50, size=(600, 20))  # apart by their last bits
    tiny = np.where(rng.random((600, 20)) < 0.5, 5e-324 * rng.integers(3, size=(600, 20)), softmax)
    signed = np.where(rng.random((600, 20)) < 0.5, -0.0, np.round(softmax, 1))
    kinds = {"softmax": softmax, "close": close, "tiny": tiny, "signed zeros": signed}
    return {name: (true, proba) for name, proba in kinds.items()}


@pytest.mark.parametrize("kind", kinds_of_posteriors())
def test_areas_are_those_of_all_pairs_looked_at_one_by_one(kind: str) -> None:
    """Bit for bit the slow twin's, of posteriors however close; and scikit-learn's."""
    true, proba = kinds_of_posteriors()[kind]

    for c, rank in enumerate(ranking(true, proba)):
        mine, rest = proba[true == c, c], proba[true != c, c]
        pairs = 2 * (mine[:, None] > rest).sum() + (mine[:, None] == rest).sum()
        right = (mine[:, None] <= mine).sum(axis=1)
        precision = right / (right + (mine[:, None] <= rest).sum(axis=1))
        assert rank is not None
        assert rank.roc_auc == int(pairs) / (2 * mine.size * rest.size)
        assert rank.pr_auc == fsum(precision.tolist()) / mine.size
        assert abs(rank.roc_auc - sklearn.roc_auc_score(true == c, proba[:, c])) < 1e-9
        oracle = sklearn.average_precision_score(true == c, proba[:, c])
        assert abs(rank.pr_auc - oracle) < 1e-9


def test_class_that_is_missing_or_alone_has_no_area() -> None:
    """There is no pair to rank, and its 0 or 1 must not move the mean."""
    absent = ranking(np.array([0, 1, 1]), np.array([[0.9, 0.1, 0], [0.2, 0.8, 0], [0.3, 0.7, 0]]))
    alone = ranking(np.array([0, 0]), np.array([[0.9, 0.1], [0.8, 0.2]]))

    assert [rank is None for rank in absent] == [False, False, True]
    assert alone == (None, None)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1),
    st.booleans(),
)
def test_agreement_of_margins_is_that_of_rivers_metrics(counts, missing) -> None:
    """Of any margins; `missing`: some records were true without a prediction."""
    right = [r for r, _, _ in counts]
    true = [r + t for r, t, _ in counts]
    said = [r + (0 if missing else p) for r, _, p in counts]
    assume(any(true))
    cm = metrics.ConfusionMatrix()
    for c, (r, t, p) in enumerate(zip(right, true, said, strict=True)):
        cm.data[c][c], cm.sum_row[c], cm.sum_col[c] = r, t, p
    cm.total_weight, cm._total_true_positives = sum(true), sum(right)

    found = agreement(right, true, said)

    assert found.balanced_accuracy == pytest.approx(metrics.BalancedAccuracy(cm=cm).get())
    assert found.kappa == pytest.approx(metrics.CohenKappa(cm=cm).get())
    for average in ("macro", "micro", "weighted"):
        for name in ("precision", "recall", "f1"):
            theirs = getattr(metrics, f"{average.title()}{name.title()}")(cm=cm).get()
            assert getattr(found, name)[average] == pytest.approx(theirs), (average, name)
    for c in range(len(true)):
        f1 = metrics.F1(cm=cm, pos_val=c)
        theirs = f1.precision.get(), f1.recall.get(), f1.get()
        assert (found.precisions[c], found.recalls[c], found.f1s[c]) == pytest.approx(theirs)


@pytest.mark.parametrize(
    ("right", "true", "said"),
    [([3], [3], [3]), ([0, 0], [2, 0], [0, 2]), ([4, 0], [4, 1], [5, 0]), ([0, 0], [2, 1], [0, 0])],
    ids=["one class", "always wrong", "one answer", "no answer"],
)
def test_agreement_of_degenerate_counts_is_finite(right, true, said) -> None:
    """0 where a score does not exist, as river has it; never NaN."""
    found = agreement(right, true, said)

    assert found is not None
    values = [found.balanced_accuracy, found.kappa, found.mcc, *found.f1.values(), *found.f1s]
    assert np.isfinite(values).all()
    assert agreement([0, 0], [0, 0], [0, 0]) is None


def test_share_of_right_predictions_is_one_at_most() -> None:
    """Fading weights are summed a class and in all: their last bits differ."""
    classes, weights = "abc", np.zeros(3)
    total, shares = 0.0, []
    for i in range(300):
        weights[i * i % 7 % 3] += FADING_FACTOR**-i
        total += FADING_FACTOR**-i
        said = np.zeros((2, 4, 2))
        said[:, 1:, 1] = weights
        tally = Tally((total, *[0.0] * 4), np.diag(weights), said, np.zeros((BINS, 2, 2)))
        scores = Scores.of(tally, tuple(classes))
        shares += [scores.accuracy, *scores.baselines.values()]

    assert max(shares) == 1.0
    assert min(shares) > 1.0 - 1e-12


def test_lead_over_a_baseline_does_not_blur_as_its_last_mistake_fades() -> None:
    """After 40,000 records without one a mistake weighs 1e-17 of all, and still is the only one."""
    said = np.zeros((2, 3, 2))
    said[:, 1] = [[1e-13, 1_000.0]] * 2
    confusion = np.array([[1_000.0, 0.0], [2.5e-14, 0.0]])
    tally = Tally((1_000.0, *[0.0] * 4), confusion, said, np.zeros((BINS, 2, 2)))
    scores = Scores.of(tally, ("a", "b"))

    assert scores.kappa_m == scores.kappa_t == 0.75


def test_baseline_that_is_never_wrong_leaves_no_room_above() -> None:
    """Kappa-M and kappa-Temporal do not exist: MOA divides by 0 there."""
    *_, view = progressive([({"x": float(i)}, "a") for i in range(9)], GaussianNB())
    scores = view.scores["all"]

    assert scores.accuracy == 1.0
    assert (scores.kappa_m, scores.kappa_t) == (None, None)


def rows_of(true: list[int], proba: list[list[float]]) -> PredictionTable:
    """Predictions with these posteriors, beside a prior that gives every class the same."""
    p = np.array(proba)
    codes = np.array([true, p.argmax(axis=1).tolist(), [0] * len(true), [0] * len(true)], np.int32)
    told = np.zeros((5, len(true)))
    told[0] = -np.log(np.maximum(p[np.arange(len(true)), true], 2.0**-52))
    told[3] = np.log(p.shape[1])
    return PredictionTable(codes, told, p, p.shape[1])


@seeds(0.25)
def test_balanced_log_loss_has_the_same_bits_in_any_order(seed) -> None:
    """The ring of the last predictions begins anywhere."""
    rng = np.random.default_rng(seed)
    true, proba = rng.integers(0, 4, 50).tolist(), rng.dirichlet([0.3] * 4, 50).tolist()
    order = rng.permutation(50).tolist()
    one = rows_of(true, proba).scores(tuple("abcd"))
    other = rows_of([true[i] for i in order], [proba[i] for i in order]).scores(tuple("abcd"))

    assert one.balanced_log_loss == other.balanced_log_loss
    truth = sklearn.log_loss(
        true, proba, labels=range(4), sample_weight=compute_sample_weight("balanced", true)
    )
    assert one.balanced_log_loss == pytest.approx(truth, rel=1e-12)
    assert one.prior_balanced_log_loss == pytest.approx(np.log(4))


def test_balanced_log_loss_of_equally_frequent_classes_is_the_log_loss() -> None:
    """A repeated class changes the one and not the other."""
    proba = [[0.9, 0.1], [0.3, 0.7]]
    even = rows_of([0, 1], proba).scores(("a", "b"))
    uneven = rows_of([0, 0, 0, 1], [proba[0]] * 3 + [proba[1]]).scores(("a", "b"))

    assert even.balanced_log_loss == pytest.approx(even.log_loss)
    assert uneven.balanced_log_loss == pytest.approx(even.log_loss)
    assert uneven.log_loss != pytest.approx(even.log_loss)


def test_class_the_model_had_not_learned_costs_36_nats_divided_by_the_classes() -> None:
    """A class that comes late is in the mean with its first record; one that is absent is not."""
    known = [0.5, 0.5, 0.0, 0.0]
    scores = rows_of([0] * 98 + [1, 2], [known] * 100).scores(tuple("abcd"))

    expected = (2 * np.log(2) + 52 * np.log(2)) / 3
    assert scores.balanced_log_loss == pytest.approx(expected)
    assert scores.balanced_log_loss > 10 * scores.log_loss


def test_balanced_log_loss_is_at_most_52_bits() -> None:
    """Whatever the probabilities are."""
    scores = rows_of([0, 1, 1], [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]).scores(("a", "b"))

    assert scores.balanced_log_loss == pytest.approx(52 * np.log(2))


def test_state_saved_before_the_score_existed_has_it_at_once() -> None:
    """It is computed from what was saved always: the state has no array more than before."""
    quality = Quality(300)
    rng = np.random.default_rng(1)
    true, proba = rng.integers(0, 3, 200), rng.dirichlet([1.0] * 3, 200)
    op, y = np.full(200, 2, np.int8), true.astype(np.int32)
    beside = quality.baselines(op, y, np.arange(3), 3, 200)
    quality.score(true, proba.argmax(axis=1), proba, beside)
    state = quality.to_state()
    restored = Quality(300)
    restored.load_state(state)
    found = restored.view(list("abc")).scores["last_300"].balanced_log_loss

    before = "counts memory confusion baselines calibration sums codes told posterior"
    assert list(state.arrays) == before.split()
    assert found == quality.view(list("abc")).scores["last_300"].balanced_log_loss
    w = compute_sample_weight("balanced", true)
    assert found == pytest.approx(sklearn.log_loss(true, proba, sample_weight=w), rel=1e-12)
    assert restored.to_state() == state
