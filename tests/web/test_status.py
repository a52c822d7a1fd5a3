"""The document of the page against what it is made of, computed the slow, obvious way."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from sklearn import metrics

from consumers.base.health import Health
from consumers.base.records import Outgoing, Partition
from consumers.codecs.account import FieldsView
from consumers.shard.views import (
    ChallengerView,
    DriftAlarm,
    DriftView,
    LabelView,
    MonitorView,
    PublishedPrediction,
    RiskView,
)
from consumers.telemetry.advice import sentence
from consumers.web.document import MixStatus, ReportersStatus, ReporterStatus, Status
from consumers.web.status import CLASSES, FIELDS, INPUTS, LONGEST, status, without_records
from consumers.web.status_feed import SecondOfLoad, StatusFeed
from stream.contest.compare import ComparisonView
from stream.decision import RiskScores
from stream.decision.overall import RISK_SCORES
from stream.evaluate.estimate import EstimateView
from stream.evaluate.guessing import BetterGuess
from stream.evaluate.key_scores import FrozenKeyScores
from stream.evaluate.quality import QualityView
from stream.evaluate.scores import Scores, Tally
from stream.join.reporters import ReportersView, ReporterView
from tests.seed import seeds
from tests.telemetry.views import KEYS, quality, view
from tests.web.test_page import PREDICTION


def status_feed(**changed: Any) -> StatusFeed:
    posted = StatusFeed(lambda: 1000.0, lambda: Health("live"))
    posted.recovered(view(**changed))
    return posted


def document(posted: StatusFeed, now: float = 1000.0) -> Status:
    return status("mail", "1", ("live", "live"), {0: posted}, 0, now)


def test_document_says_that_the_model_is_worse_than_guessing() -> None:
    """In the sentence of the log; nothing where it is not worse."""
    posted = status_feed()
    assert document(posted).shard.worse_than_guessing is None

    posted.recovered(replace(view(), guesses={"mail": [BetterGuess("majority", "all", 0.5, 0.9)]}))

    assert document(posted).shard.worse_than_guessing == sentence(posted.view)


def test_document_says_where_an_imported_model_comes_from() -> None:
    """Because the scores do not cover what it did before."""
    posted = status_feed()
    assert document(posted).shard.imported is None

    posted.recovered(replace(view(), imported="svc of the service svc"))

    assert document(posted).shard.imported == "svc of the service svc"


def counts(classes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 50, (classes, classes))


def scored(names, confusion) -> QualityView:
    """What was counted, and every score of it, the same in each window."""
    counts = np.array(confusion, dtype=np.int64)
    n = float(counts.sum())
    baselines = np.zeros((2, len(names) + 1, 2))
    baselines[:, 1, 0], baselines[:, 1, 1] = (
        n - counts[0].sum(),
        counts[0].sum(),
    )  # always the first
    calibration = np.zeros((10, 2, 2))
    right = counts.diagonal().sum()
    calibration[9] = [[n - right, 0.95 * (n - right)], [right, 0.95 * right]]
    sums = (n, 0.5 * n, 0.4 * n, 1.5 * n, 0.9 * n)
    scores = Scores.of(Tally(sums, counts.astype(float), baselines, calibration), tuple(names))
    windows = ("all", "last_500", "fading")
    return QualityView(tuple(names), counts, dict.fromkeys(windows, scores), 0)


def said(**changed: Any) -> PublishedPrediction:
    return PublishedPrediction(None, b"{}", json.dumps({**PREDICTION, **changed}).encode())


def test_nothing_is_shown_before_anything_is_known() -> None:
    """A shard that starts has a state and no more; a standby has no shard."""
    fresh = StatusFeed(lambda: 0.0, lambda: Health("starting"))

    assert document(fresh).shard is None
    assert document(fresh).shards[0].state == "starting"
    assert status("mail", "1", ("standby", "standby"), {}, 0, 0.0).shards == []


@pytest.mark.parametrize("classes", [0, 1, 2, CLASSES, CLASSES + 1, 40])
def test_confusion_shows_the_most_frequent_classes_and_loses_no_count(classes: int) -> None:
    """The others are one row and one column, which hold all that was counted there."""
    confusion = counts(classes, 1)
    names = [f"c{i}" for i in range(classes)]
    shown = document(status_feed(quality=quality(names, confusion))).shard.confusion
    if not classes:
        assert shown is None
        return
    order = sorted(names, key=lambda n: -confusion[names.index(n)].sum())[:CLASSES]
    for i, true in enumerate(order):
        for k, label in enumerate(order):
            assert shown.counts[i][k] == confusion[names.index(true), names.index(label)]

    assert shown.classes == order
    assert shown.others == classes - len(order)
    assert sum(map(sum, shown.counts)) == confusion.sum()


def expanded(confusion: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """True and predicted codes that would be counted so."""
    codes = np.indices(confusion.shape).reshape(2, -1)
    true, predicted = np.repeat(codes, confusion.ravel(), axis=1)
    return true, predicted


@seeds(0.1)
def test_scores_are_scikit_learns(seed: int) -> None:
    """The row of each name is that score, of the model and of the baselines."""
    confusion = counts(4, seed)
    true, predicted = expanded(confusion)
    first = np.zeros_like(true)
    shown = {
        s.name: s for s in document(status_feed(quality=scored("abcd", confusion))).shard.scores
    }
    oracles = {
        "accuracy": metrics.accuracy_score,
        "balanced accuracy": metrics.balanced_accuracy_score,
        "macro F1": partial(metrics.f1_score, average="macro", zero_division=0),
        "Cohen's kappa": metrics.cohen_kappa_score,
        "Matthews' correlation": metrics.matthews_corrcoef,
    }

    for name, oracle in oracles.items():
        assert shown[name].last == pytest.approx(oracle(true, predicted), abs=5.001e-6)
        assert shown[name].last == shown[name].all == shown[name].fading
        assert shown[name].majority == pytest.approx(oracle(true, first), abs=5.001e-6)
        assert shown[name].majority == shown[name].no_change
    assert (shown["log loss"].last, shown["log loss"].prior) == (0.5, 1.5)
    assert (shown["Brier score"].last, shown["Brier score"].prior) == (0.4, 0.9)
    error = abs(metrics.accuracy_score(true, predicted) - 0.95)
    assert shown["calibration error"].last == pytest.approx(error, abs=5.001e-6)
    assert "ROC AUC" not in shown, "where no posteriors are kept"


@seeds(0.1)
def test_scores_of_classes_are_scikit_learns(seed: int) -> None:
    """Precision, recall and F1 from the counts, to the digits that are shown."""
    confusion = counts(4, seed)
    by_class = zip(*metrics.precision_recall_fscore_support(*expanded(confusion)), strict=True)
    expected = dict(zip("abcd", by_class, strict=True))

    for shown in document(status_feed(quality=scored("abcd", confusion))).shard.classes:
        precision, recall, f1, support = expected[shown.name]
        assert (shown.precision, shown.recall, shown.f1) == pytest.approx(
            (precision, recall, f1), abs=5.001e-5
        )
        assert shown.support == support


def test_calibration_has_a_bin_a_tenth_and_the_window_its_size() -> None:
    """An empty one has no mean; the page says over how many predictions."""
    shown = document(status_feed(quality=scored("ab", [[6, 2], [2, 10]]))).shard

    assert shown.window == 500
    assert [b.weight for b in shown.calibration] == [0] * 9 + [20]
    assert (shown.calibration[9].confidence, shown.calibration[9].accuracy) == (0.95, 0.8)
    assert shown.calibration[0].confidence is None


def test_throughput_is_zero_in_a_second_without_a_commit() -> None:
    """Each second of the clock up to the one that runs; a restart does not count as a burst."""
    posted = status_feed()
    posted.seconds = (
        SecondOfLoad(990, 100, 5),
        SecondOfLoad(991, 150, 4),
        SecondOfLoad(994, 180, 0),
    )
    shown = document(posted, now=996.5).shard.throughput
    posted.seconds = (SecondOfLoad(990, 100, 5),)
    idle = document(posted, now=993.0).shard.throughput

    assert (idle.at, idle.rate) == ([991, 992], [0, 0])
    assert shown.at == [991, 992, 993, 994, 995]
    assert shown.rate == [50, 0, 0, 30, 0]
    assert shown.lag == [4, 4, 4, 0, 0]


def test_labels_are_text_that_json_and_a_screen_can_hold() -> None:
    """Truth values as they are configured, numbers whole, long text cut, none at all empty."""
    posted = status_feed()
    labels = [True, 2**60, "x" * 1000, "<script>alert(1)</script>", None]
    posted.latest = tuple(said(prediction=label, id=str(label)) for label in labels)
    shown = [p.predicted for p in reversed(document(posted).shard.latest)]

    assert shown[:2] == ["true", str(2**60)]
    assert shown[2] == "x" * LONGEST
    assert shown[3:] == ["<script>alert(1)</script>", ""]
    assert msgspec.json.encode(document(posted))


def test_dead_letter_is_told_with_place_reason_and_a_beginning() -> None:
    """Bytes that are no text are shown as escapes."""
    posted = status_feed()
    names = ("reason", "detail", "topic", "partition", "offset", "version")
    values = (b"unparsable", b"not JSON", b"obs", b"3", b"17", b"1.0")
    headers = tuple(zip(names, values, strict=True))
    posted.dead = (Outgoing("dead", None, b"\xff<b>" + b"y" * 1000, 5, headers, 0),)
    (shown,) = document(posted).shard.dead

    assert (shown.place, shown.reason, shown.detail) == ("obs:3:17", "unparsable", "not JSON")
    assert shown.value == ("\\xff<b>" + "y" * 1000)[:LONGEST]


def test_time_that_no_calendar_holds_is_told_as_unknown() -> None:
    """A producer that counts nanoseconds must not stop the page: its dates are then an error."""
    posted = status_feed()
    names = ("reason", "detail", "topic", "partition", "offset")
    headers = tuple((name, b"0") for name in names)
    times = (1_700_000_000_000, 8_640_000_000_000_000, 1_700_000_000_000_000_000, -(2**63))
    posted.latest = tuple(said(ts=at) for at in reversed(times))
    posted.dead = tuple(Outgoing("dead", None, b"", at, headers, 0) for at in reversed(times))
    shown = document(posted).shard

    expected = [*times[:2], None, None]
    assert [p.at for p in shown.latest] == expected
    assert [d.at for d in shown.dead] == expected


def test_label_delays_stand_beside_their_bounds_and_the_estimate_beside_its_error() -> None:
    """In seconds; the last bucket has no bound."""
    delays = [0] * 13
    delays[2], delays[12] = 3, 1
    estimate = EstimateView(0.9, 40, {"all": 0.01, "last_1000": 0.05})
    shown = document(
        status_feed(labelling=LabelView(delays, 8000, 0.8, 1500, estimate))
    ).shard.labelling

    assert [(d.upto, d.labels) for d in shown.delays if d.labels] == [(10.0, 3), (None, 1)]
    assert (shown.mean, shown.coverage, shown.waited) == (2.0, 0.8, 1.5)
    assert (shown.estimate, shown.waiting, shown.error) == (0.9, 40, 0.05)
    nothing = LabelView([0] * 13, 0, None, None, EstimateView())
    assert document(status_feed(labelling=nothing)).shard.labelling is None


def test_challengers_stand_beside_the_champion() -> None:
    """It first, without a comparison; nobody where it has none."""
    compared = ComparisonView(100, 9, 4, "", float("inf"), 0.012, -0.001, 0.02)
    joint = ChallengerView("joint", "GaussianBayes", 50, {}, quality(), compared)
    champion, other = document(status_feed(challengers=(joint,))).shard.contenders

    assert (champion.name, champion.type, champion.champion) == ("mail", "GaussianNB", True)
    assert champion.e_value is None
    assert (other.name, other.type, other.learned) == ("joint", "GaussianBayes", 50)
    assert (other.won, other.lost, other.difference) == (9, 4, 0.012)
    assert other.e_value < float("inf"), "which JSON does not know"
    assert document(status_feed()).shard.contenders == []


def test_learners_of_a_mixture_stand_beside_their_weights() -> None:
    """In the order of the mixture; nothing for another learner."""
    assert document(status_feed()).shard.experts == [
        ("ClassShares", 0.25),
        ("Calibrated(MixedNB)", 0.75),
    ]
    assert document(status_feed(experts={})).shard.experts == []


def test_drift_alarms_are_the_newest_first_beside_what_watches() -> None:
    """With the record behind which each was raised, and its place on the curve."""
    at = Partition("obs", 2)
    alarms = [
        DriftAlarm("ADWIN", "error", "alert", 0.1, 0.30004, 1_700_000_000_000 + n, 500 + n, at, n)
        for n in range(2)
    ]
    monitors = [MonitorView("ADWIN", "error", 2, True)]
    shown = document(status_feed(drift=DriftView("mail", monitors, {}, alarms, 1000))).shard.drift

    assert [a.place for a in shown.alarms] == ["obs:2:1", "obs:2:0"]
    assert (shown.alarms[0].before, shown.alarms[0].after) == (0.1, 0.3)
    assert [a.scored for a in shown.alarms] == [501, 500]
    assert [(m.detector, m.on, m.alarms, m.detected) for m in shown.monitors] == [
        ("ADWIN", "error", 2, True)
    ]
    assert document(status_feed(drift=None)).shard.drift is None


def test_inputs_are_those_furthest_behind() -> None:
    """Few enough for a screen, whatever the number of partitions."""
    positions = {Partition("obs", n): 10 for n in range(100)}
    posted = status_feed(positions=positions)
    posted.reached({p: 10 + p.number for p in positions})
    shown = document(posted).shard.inputs

    assert len(shown) == INPUTS
    assert [i.lag for i in shown] == list(range(99, 99 - INPUTS, -1))


def test_failing_snapshots_are_told_until_a_newer_one_is_written() -> None:
    """How often and why, without logins, cut; an old one that a start finds mends nothing."""
    clock = iter([100.0, 200.0])
    posted = StatusFeed(lambda: next(clock), lambda: Health("live"))
    posted.view = view()
    fresh = document(posted).shard
    posted.snapshot_not_written("cannot write a")
    posted.snapshot_not_written("cannot write s3://me:hunter2@bucket/b " + "on and " * LONGEST)
    posted.snapshot_written(150.0)
    failing = document(posted).shard
    posted.snapshot_written(200.0)
    mended = document(posted).shard

    assert (fresh.snapshot_failures, fresh.snapshot_error) == (0, None)
    assert failing.snapshot_failures == 2
    assert failing.snapshot_error.startswith("cannot write s3://me:***@bucket/b on and on")
    assert len(failing.snapshot_error) == LONGEST
    assert (mended.snapshot_failures, mended.snapshot_error) == (2, None)


def test_risk_and_coverage_are_told_for_each_window() -> None:
    """Among the scores, where decisions are made; none where none is, or none is scored yet."""
    all_, last, fading = (RiskScores(n, n / 10, 1 - n / 10, None) for n in (1, 2, 3))
    by_window = {"all": all_, "last_1000": last, "fading": fading}
    nothing = dict.fromkeys(by_window, RiskScores(0.0, None, None, None))

    def told(risk: RiskView | None) -> dict[str, tuple[float | None, ...]]:
        scores = document(status_feed(risk=risk)).shard.scores
        return {s.name: (s.all, s.last, s.fading) for s in scores if "decisions" in s.name}

    assert told(RiskView(0.1, 1, 0, windows=by_window)) == {
        "risk of decisions": (0.1, 0.2, 0.3),
        "coverage of decisions": (0.9, 0.8, 0.7),
    }
    assert told(RiskView(None, 0, 0, windows=nothing)) == told(None) == {}


def test_an_entry_of_their_table_is_all_that_a_score_of_decisions_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It follows the others, in every window."""
    title = "selective risk of decisions"
    more = replace(RISK_SCORES[0], title=title, value=lambda scores: scores.selective_risk)
    monkeypatch.setattr("consumers.web.status.RISK_SCORES", (*RISK_SCORES, more))
    over = {w: RiskScores(2.0, 0.5, 0.5, n) for n, w in enumerate(["all", "last_1000", "fading"])}

    scores = document(status_feed(risk=RiskView(0.5, 2, 1, windows=over))).shard.scores

    found = [(s.name, s.all, s.last, s.fading) for s in scores if "decisions" in s.name]
    assert [name for name, *_ in found] == [score.title for score in (*RISK_SCORES, more)]
    assert found[-1] == (title, 0, 1, 2)


def test_document_shows_what_was_taken_over_from_other_shards() -> None:
    """Absent without a mix."""
    assert document(status_feed()).shard.mix == MixStatus(1, 12, 1_700_000_000_000, [("model", 1)])
    assert document(status_feed(mix=None)).shard.mix is None


def test_budget_tells_how_far_it_is() -> None:
    """In the sentence of the log, and as numbers; absent without one."""
    shown = document(status_feed(risk=None)).shard.budget

    assert shown.text.startswith("flagged as 'spam' from a probability of 0.75: 5, 2 withheld")
    assert (shown.missing, shown.others, shown.false_positives) == (0, 40, 1)
    assert document(status_feed(budget=None)).shard.budget is None


def test_decisions_stand_beside_the_best_constant_one() -> None:
    """Sections without facts are absent."""
    risk = RiskView(0.25, 12, 3, {"keep": 40, "call": 2}, (True, 0.5))
    shown = document(status_feed(risk=risk)).shard.decisions

    assert (shown.risk, shown.always, shown.always_risk) == (0.25, "true", 0.5)
    assert shown.actions == [("keep", 40), ("call", 2)]
    assert document(status_feed(risk=None)).shard.decisions is None


def test_reporters_are_shown_with_their_trust_and_not_to_strangers() -> None:
    """Names are bounded; where anybody can read the page there are none."""
    bob = ReporterView("b" * 256, 4, 0, 9, 0.31417, quarantined=True)
    posted = status_feed(reporters=ReportersView(70, 0, 9, (bob,)))
    found = document(posted).shard.reporters

    assert found == ReportersStatus(
        70, [ReporterStatus("b" * LONGEST, 4, 0, 9, 0.3142, quarantined=True)]
    )
    assert without_records(document(posted), predictions=True).shard.reporters is None
    for nobody in (None, ReportersView(0, 0, 0, ())):
        assert document(status_feed(reporters=nobody)).shard.reporters is None


def test_worst_keys_are_shown_beside_the_service_and_not_to_strangers() -> None:
    """Names are bounded; where anybody can read the page only the numbers are left."""
    fair = KEYS.worst[0]._replace(key="fair", least=0.1, worse=False)
    long = KEYS.worst[0]._replace(key="<b>" * 100)
    keys = FrozenKeyScores.of(KEYS._replace(worst=(long, fair)))
    shown = document(status_feed(keys=keys)).shard.keys

    assert (shown.per, shown.compared, shown.worse_than_guessing) == ("tenant", 30, 1)
    assert (shown.accuracy, shown.log_loss) == (0.8, 0.8)
    assert [(k.key, k.worse_than_guessing, k.above_service) for k in shown.worst] == [
        (("<b>" * 100)[:LONGEST], True, True),
        ("fair", False, False),
    ]
    hidden = without_records(document(status_feed(keys=keys)), predictions=True).shard.keys
    assert (hidden.worst, hidden.compared) == ([], 30)
    assert document(status_feed(keys=None)).shard.keys is None


def test_fields_are_shown_with_what_became_of_them_and_their_values_not_to_strangers() -> None:
    """Those that are used least first; a name that a sender chose is data of a record too."""
    shown = document(status_feed()).shard.fields

    assert [(f.name, f.used, f.missing, f.bad) for f in shown.fields] == [
        ("b", 40, 57, 0),
        ("a", 90, 4, 3),
    ]
    assert (shown.fields[1].reason, shown.fields[1].example) == ("wrong_kind", '"dear"')
    assert [(f.name, f.found, f.example) for f in shown.unknown] == [("bb", 8, "1")]
    assert shown.labels_looked == 30
    assert [(f.name, f.found, f.example) for f in shown.unknown_of_labels] == [("weihgt", 6, "3")]
    hidden = without_records(document(status_feed()), predictions=True).shard.fields
    assert [f.example for f in hidden.fields] == ["", ""]
    assert (hidden.unknown, hidden.unknown_of_labels, hidden.fields[1].bad) == ([], [], 3)
    names = tuple(f"f{i}" for i in range(100))
    many = FieldsView(names, 9, dict.fromkeys(names, 1), {}, 0, {}, 0)
    shown = document(status_feed(fields=many)).shard.fields
    assert (len(shown.fields), shown.others) == (FIELDS, 100 - FIELDS)
    assert document(status_feed(fields=None)).shard.fields is None


def test_document_is_small_however_much_there_is() -> None:
    """It is sent once a second to each open page: 300 classes, long labels, full rings."""
    names = [f"{i}" + "é" * 300 for i in range(300)]
    posted = status_feed(
        quality=quality(names, counts(300, 2)),
        positions={Partition("t" * 249, n): n for n in range(1000)},
    )
    for scored in range(1000):
        posted._extend(quality(names))
        posted.seconds = (*posted.seconds, SecondOfLoad(scored, 10**9 + scored, 10**6))[-300:]
    top = [[name, 0.01] for name in names]
    posted.latest = (said(prediction=names[0], probabilities=top),) * 20

    assert len(msgspec.json.encode(document(posted))) < 150_000
