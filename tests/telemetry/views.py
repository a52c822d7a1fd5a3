"""Views as a shard publishes them, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumers.base.records import Partition
from consumers.codecs.account import BadField, FieldsView, UnknownField
from consumers.shard.views import (
    ChallengerView,
    DriftView,
    LabelView,
    MixView,
    MonitorView,
    Peer,
    RiskView,
    ShardView,
)
from stream.contest.compare import ComparisonView
from stream.data.schema import Label
from stream.decision import Budget, BudgetView, RiskScores
from stream.evaluate.estimate import EstimateView
from stream.evaluate.key_scores import FrozenKeyScores, KeyScore, KeyScoresView
from stream.evaluate.quality import BASELINES, WINDOWS, QualityView, Scores
from stream.evaluate.scores import BINS, Tally
from stream.join.reporters import ReportersView, ReporterView
from stream.keyed import KeysView

RISK = RiskScores(12.0, 0.25, 0.75, 0.2)
BAD = KeyScore("bad", 900, 0.6, 0.9, 0.7, 0.3, worse=True)
KEYS = KeyScoresView("tenant", 40, 30, 1, {0.01: 0.6, 0.5: 0.95}, (BAD,))
MOST_SERIES = 620  # of a scrape with one model and 20 classes
POSITIONS = {Partition("observations", 0): 70, Partition("observations", 1): 30}


def quality(
    classes: Sequence[Label] = ("ham", "spam"),
    confusion: Sequence[Sequence[int]] = ((8, 1), (2, 4)),
    accuracy: float | None = 0.8,
) -> QualityView:
    """Scores, the same in every window; those of which nobody says what they are, of the counts."""
    counts = np.array(confusion, dtype=np.int64).reshape(len(confusion), len(confusion))
    scores = Scores(15, accuracy, accuracy, dict.fromkeys(BASELINES, accuracy))
    if counts.any():
        tally = partial(counted, counts.astype(np.float64))
        scores = replace(scores, classes=tuple(classes), count=tally)
    return QualityView(tuple(classes), counts, dict.fromkeys(WINDOWS, scores), 3)


def counted(confusion: NDArray[np.float64]) -> Tally:
    """Counts with this confusion; majority and no-change always said the first class."""
    c = len(confusion)
    baselines, calibration = np.zeros((2, c + 1, 2)), np.zeros((BINS, 2, 2))
    true = confusion.sum(axis=1)
    baselines[:, 1] = true[1:].sum(), true[0]
    right = np.trace(confusion)
    calibration[8] = (15 - right, 0.8 * (15 - right)), (right, 0.8 * right)
    posterior = np.array([[0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
    sums = (15.0, 12.0, 3.0, 15.0, 7.5)
    true, losses = np.array([0, 1, 0]), np.array([[0.2, 0.4, 0.9], [0.7, 0.7, 0.7]])
    return Tally(sums, confusion, baselines, calibration, true, posterior, losses)


def labelling(**changed: Any) -> LabelView:
    """15 labels, the slowest of them after a century; the estimate was 5 % too high so far."""
    given: dict[str, Any] = {
        "delays": (4, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 5),
        "delay_ms": 90_500,
        "coverage": 0.75,
        "waited_ms": 2_500,
        "estimate": EstimateView(0.9, 7, {"all": 0.05, "last_1000": -0.1}),
    }
    return LabelView(**(given | changed))


def challenger(model: str = "tree", **changed: Any) -> ChallengerView:
    """One that is a little better."""
    given: dict[str, Any] = {
        "name": model,
        "type": "river:tree.HoeffdingTreeClassifier",
        "learned": 12,
        "skipped": {"refused": 1, "uncorrected": 0},
        "quality": quality(accuracy=0.9),
        "comparison": ComparisonView(14, 3, 1, "", 1.6, 0.02, -0.3, 0.34),
    }
    return ChallengerView(**(given | changed))


def view(**changed: Any) -> ShardView:
    """A shard that has seen a hundred observations."""
    given: dict[str, Any] = {
        "name": "mail",
        "champion": ("mail", "GaussianNB"),
        "model": "GaussianNB",
        "shard": 0,
        "records": 118,
        "observations": 100,
        "predictions": 99,
        "learned": 15,
        "labels": {"joined": 15, "late": 2},
        "dead_letters": {"wrong_kind": 1},
        "bad_values": {"a": 3, "b": 0},
        "mail_faults": {"cut": 1, "nul": 0},
        "overflows": {"max_pending": 4},
        "pending": 7,
        "early": 2,
        "quality": quality(),
        "positions": POSITIONS,
        "stream_time": 1_700_000_000_500,
        "risk": RiskView(0.25, 12, 3, windows=dict.fromkeys(WINDOWS, RISK)),
        "labelling": labelling(),
        "drift": DriftView(
            "mail",
            (MonitorView("DDM", "error", 3, True), MonitorView("KSWIN", "feature:a", 0, False)),
            {"reset": 2},
            (),
            1000,
        ),
        "budget": BudgetView(Budget("spam", 0.01), 40, 0, 0.75, 5, 1, 2),
        "reporters": ReportersView(
            2, 7, 3, (ReporterView("ann", 12, 7, 1, 0.9, quarantined=False),)
        ),
        "keys": FrozenKeyScores.of(KEYS),
        "mix": MixView({1: Peer(40, 1_700_000_000_000, 12)}, {"model": 1}),
        "keys_on_disk": KeysView(1000, 100, 7, 5, 4096),
        "fields": FieldsView(
            ("a", "b"),
            97,
            {"a": 90, "b": 40},
            {"a": BadField(3, "wrong_kind", '"dear"')},
            9,
            {"bb": UnknownField(8, "1")},
            2,
            FieldsView((), 40, {}, {}, 30, {"weihgt": UnknownField(6, "3")}, 0),
        ),
        "experts": {"ClassShares": 0.25, "Calibrated(MixedNB)": 0.75},
    }
    return ShardView(**(given | changed))
