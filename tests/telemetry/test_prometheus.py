"""What a scrape shows of a view, of commits, and of nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.registry import CollectorRegistry

from consumers.base.errors import DEAD_LETTER_REASONS, SELDOM_REASONS
from consumers.base.health import Health
from consumers.base.records import Partition
from consumers.shard.views import Committed, RiskView, ShardView
from consumers.telemetry.metrics import METRICS
from consumers.telemetry.prometheus import Telemetry
from consumers.web.page import Page, PageCollector
from stream.contest.compare import ComparisonView
from stream.decision import RiskScores
from stream.evaluate.estimate import EstimateView
from stream.evaluate.key_scores import FrozenKeyScores
from stream.evaluate.quality import WINDOWS, BaselinePredictions, Quality, QualityView
from stream.join.label_delay import OUTCOMES, SELDOM
from tests.telemetry.views import KEYS, POSITIONS, RISK, challenger, labelling, quality, view

SHARD = {"shard": "0"}
OF = SHARD | {"model": "mail"}


def telemetry(
    of: ShardView | Callable[[], ShardView | None] | None, **arguments: Any
) -> tuple[Telemetry, CollectorRegistry]:
    """Telemetry whose clock stands at 1,000 s, and its registry."""
    registry = CollectorRegistry()
    read = of if callable(of) else lambda: of
    given = {"clock": lambda: 1000.0, "version": "1.2.3"} | arguments
    return Telemetry(registry, read, **given), registry


def commit(
    seconds: float = 0.1, newest: dict[str, tuple[Partition, int]] | None = None
) -> Committed:
    """A commit that took so long."""
    return Committed(10, 10, 5, {"joined": 5}, {}, seconds, 1, {}, newest or {})


def samples(registry: CollectorRegistry) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Series to value; a series that comes twice fails."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in registry.collect():
        for sample in family.samples:
            series = (sample.name, frozenset(sample.labels.items()))
            assert series not in found, series
            found[series] = sample.value
    return found


def series(registry: CollectorRegistry, name: str) -> list[dict[str, str]]:
    """Labels of each series of a name."""
    return [dict(labels) for found, labels in samples(registry) if found == name]


def ranked_by(roc_auc: float) -> QualityView:
    """Scores whose last predictions have that ROC AUC, a whole number of a hundred pairs."""
    rest, pairs = np.arange(10) + 0.5, round(100 * roc_auc)
    mine = np.array([pairs // 10 + (i < pairs % 10) for i in range(10)])
    p = np.concatenate((mine, rest)) / 20
    scores = quality().scores["all"]
    assert scores.tally is not None
    posterior, losses = np.column_stack((1 - p, p)), np.zeros((2, 20))
    true = np.repeat([1, 0], 10)
    tally = replace(scores.tally, true=true, posterior=posterior, losses=losses)
    return replace(quality(), scores=dict.fromkeys(WINDOWS, replace(scores, count=lambda: tally)))


def full() -> CollectorRegistry:
    """A registry in which every metric has a value."""
    told, registry = telemetry(view(challengers=[challenger()]))
    told.polled()
    told.committed(commit(0.3), view())
    told.snapshot_written(990.0)
    told.mixed(980_000)
    told.ends(dict.fromkeys(POSITIONS, 75))
    told.replay_remaining(0)
    told.unread(2)
    registry.register(PageCollector(Page("mail", lambda: Health("live"), dict)))
    return registry


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("headwater_records_total", {}, 118),
        ("headwater_observations_total", {}, 100),
        ("headwater_predictions_total", {}, 99),
        ("headwater_learned_total", {}, 15),
        ("headwater_labels_total", {"outcome": "late"}, 2),
        ("headwater_dead_letters_total", {"reason": "wrong_kind"}, 1),
        ("headwater_overflow_total", {"bound": "max_pending"}, 4),
        ("headwater_scored_keys", {"model": "mail"}, 30),
        ("headwater_keys_worse_than_guessing", {"model": "mail"}, 1),
        ("headwater_key_accuracy_ratio", {"model": "mail", "share": "0.01"}, 0.6),
        ("headwater_key_accuracy_ratio", {"model": "mail", "share": "0.5"}, 0.95),
        ("headwater_reporters", {}, 2),
        ("headwater_reporter_verdicts_total", {"verdict": "agreed"}, 7),
        ("headwater_reporter_verdicts_total", {"verdict": "disagreed"}, 3),
        ("headwater_labels_total", {"outcome": "quarantined"}, 0),
        ("headwater_pending_labels", {}, 7),
        ("headwater_pending_oldest_seconds", {}, 2.5),
        ("headwater_label_coverage_ratio", {}, 0.75),
        ("headwater_label_delay_seconds_bucket", {"le": "0.1"}, 4),
        ("headwater_label_delay_seconds_bucket", {"le": "60.0"}, 10),
        ("headwater_label_delay_seconds_bucket", {"le": "+Inf"}, 15),
        ("headwater_label_delay_seconds_count", {}, 15),
        ("headwater_label_delay_seconds_sum", {}, 90.5),
        ("headwater_last_record_timestamp_seconds", {}, 1_700_000_000.5),
        ("headwater_committed_offset", {"topic": "observations", "partition": "1"}, 30),
        ("headwater_input_lag_records", {"topic": "observations", "partition": "0"}, 5),
        ("headwater_snapshot_age_seconds", {}, 10),
        ("headwater_keys", {}, 1000),
        ("headwater_keys_in_memory", {}, 100),
        ("headwater_keys_loaded_total", {}, 7),
        ("headwater_keys_evicted_total", {}, 5),
        ("headwater_keys_disk_bytes", {}, 4096),
        ("headwater_replay_remaining_records", {}, 0),
        ("headwater_unread_partitions", {}, 2),
        ("headwater_commit_seconds_count", {}, 1),
        ("headwater_commit_seconds_sum", {}, 0.3),
    ],
)
def test_each_fact_of_the_shard_has_its_series(
    name: str, labels: dict[str, str], expected: float
) -> None:
    """A number of the view, or one that was told, is found under its name and labels."""
    registry = full()

    assert registry.get_sample_value(name, SHARD | labels) == expected


def test_every_score_of_the_view_has_its_series() -> None:
    """Read from the same `Scores` that a notebook reads; areas are of the last ones only."""
    registry, scores = full(), quality().scores["last_1000"]
    found, beside = scores.agreement, scores.beside["majority"]
    assert found is not None
    assert beside is not None
    expected = {
        "balanced_accuracy_ratio": found.balanced_accuracy,
        "cohen_kappa": found.kappa,
        "majority_kappa": scores.kappa_m,
        "no_change_kappa": scores.kappa_t,
        "matthews_correlation": found.mcc,
        "brier_score": scores.brier,
        "calibration_error_ratio": scores.calibration_error,
        "balanced_log_loss": scores.balanced_log_loss,
        "roc_auc_ratio": scores.roc_auc,
        "pr_auc_ratio": scores.pr_auc,
    }
    more = {
        ("f1_ratio", "average", "macro"): found.f1["macro"],
        ("baseline_log_loss", "baseline", "prior"): scores.prior_log_loss,
        ("baseline_brier_score", "baseline", "prior"): scores.prior_brier,
        ("baseline_balanced_log_loss", "baseline", "prior"): scores.prior_balanced_log_loss,
        ("baseline_balanced_accuracy_ratio", "baseline", "majority"): beside.balanced_accuracy,
        ("baseline_f1_ratio", "baseline", "majority"): beside.f1["macro"],
    }
    at = OF | {"window": "last_1000"}

    for name, value in expected.items():
        assert value is not None
        assert registry.get_sample_value(f"headwater_{name}", at) == value, name
    for (name, label, one), value in more.items():
        assert registry.get_sample_value(f"headwater_{name}", at | {label: one}) == value, name
    assert registry.get_sample_value("headwater_roc_auc_ratio", OF | {"window": "all"}) is None


def test_areas_under_curves_are_computed_once_a_second() -> None:
    """They sort the whole window: an eager scraper must not pay for that, or have others pay."""
    now = [100.0]
    views = [view(quality=ranked_by(0.7)), view(quality=ranked_by(0.6))]
    _, registry = telemetry(lambda: views[0], clock=lambda: now[0])

    def shown() -> float | None:
        at = OF | {"window": "last_1000"}
        return registry.get_sample_value("headwater_roc_auc_ratio", at)

    first = shown()
    views.reverse()
    now[0] += 0.9
    soon = shown()
    now[0] += 0.2
    later = shown()

    assert (first, soon, later) == (0.7, 0.7, 0.6)


@pytest.mark.parametrize("window", ["all", "last_1000", "fading"])
def test_scores_name_model_and_window(window: str) -> None:
    """Every window has the model's accuracy and log loss, and each baseline's accuracy."""
    registry = full()

    at = OF | {"window": window}
    assert registry.get_sample_value("headwater_accuracy_ratio", at) == 0.8
    assert registry.get_sample_value("headwater_log_loss", at) == 0.8
    for baseline in ("majority", "no_change"):
        of = at | {"baseline": baseline}
        assert registry.get_sample_value("headwater_baseline_accuracy_ratio", of) == 0.8


def test_confusion_counts_true_class_by_row() -> None:
    """The row of the confusion is the true class, the column the predicted one."""
    registry = full()

    at = OF | {"true": "ham", "predicted": "spam"}
    assert registry.get_sample_value("headwater_confusion_total", at) == 1
    at = OF | {"true": "spam", "predicted": "ham"}
    assert registry.get_sample_value("headwater_confusion_total", at) == 2


def test_scores_of_the_kernel_reach_the_scrape() -> None:
    """What `Quality` scored is what the scrape says, not a copy that drifted."""
    scored = Quality()
    labels = np.array([0, 1, 1], dtype=np.int64)
    scored.baselines(
        np.zeros(0, dtype=np.int8), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64), 2, 0
    )
    halves = np.full((3, 2), 0.5)
    beside = BaselinePredictions(np.zeros((3, 2), dtype=np.int64), halves, np.full(3, 0.5))
    scored.score(labels, np.array([0, 1, 0]), halves, beside)
    _, registry = telemetry(view(quality=scored.view(["a", "b"])))

    at = OF | {"window": "all"}
    assert registry.get_sample_value("headwater_accuracy_ratio", at) == 2 / 3
    assert registry.get_sample_value("headwater_log_loss", at) == pytest.approx(math.log(2))


def test_every_reason_and_outcome_is_there_from_the_first_view() -> None:
    """A counter that starts at 0 lets `rate()` see its first event; few services read schemas."""
    _, registry = telemetry(view(dead_letters={}, labels={}))

    reasons = {s["reason"] for s in series(registry, "headwater_dead_letters_total")}
    outcomes = {s["outcome"] for s in series(registry, "headwater_labels_total")}
    assert reasons == set(DEAD_LETTER_REASONS) - SELDOM_REASONS
    assert outcomes == set(OUTCOMES) - {"correction_over_rate"}
    _, registry = telemetry(view(labels={}, reporters=None))
    outcomes = {s["outcome"] for s in series(registry, "headwater_labels_total")}
    assert outcomes == set(OUTCOMES) - set(SELDOM)
    assert (
        registry.get_sample_value("headwater_dead_letters_total", SHARD | {"reason": "oversize"})
        == 0
    )


def test_risk_coverage_and_rejections_are_shown_where_decisions_are_made() -> None:
    """Read from the view; risk and coverage have no series before the first labelled decision."""
    names = ("risk", "coverage_ratio", "scored_total", "rejected_total")

    def shown(risk: RiskView | None) -> list[float | None]:
        _, registry = telemetry(view(risk=risk))
        window = {"window": "fading"}
        at = [OF | window, OF | window, OF, OF]
        return [
            registry.get_sample_value(f"headwater_decision_{name}", labels)
            for name, labels in zip(names, at, strict=True)
        ]

    nothing = dict.fromkeys(WINDOWS, RiskScores(0.0, None, None, None))
    assert shown(RiskView(0.3, 12, 3, windows=dict.fromkeys(WINDOWS, RISK))) == [0.25, 0.75, 12, 3]
    assert shown(RiskView(None, 0, 2, windows=nothing)) == [None, None, 0, 2]
    assert shown(None) == [None, None, None, None]


def test_drift_is_shown_by_detector_and_by_what_it_watches() -> None:
    """Alarms are counted from the first view on; without [drift] there is no series."""
    registry = full()
    error = OF | {"detector": "DDM", "on": "error"}
    feature = OF | {"detector": "KSWIN", "on": "feature:a"}
    _, without = telemetry(view(drift=None))

    for at, alarms, detected in ((error, 3, 1), (feature, 0, 0)):
        assert registry.get_sample_value("headwater_drift_alarms_total", at) == alarms
        assert registry.get_sample_value("headwater_drift_detected", at) == detected
    for action, n in (("reset", 2), ("forget", 0)):
        at = OF | {"action": action}
        assert registry.get_sample_value("headwater_drift_actions_total", at) == n
    assert not series(without, "headwater_drift_alarms_total")


def test_accuracy_of_what_is_not_labelled_is_called_an_estimate_and_shows_its_error() -> None:
    """In its name and its HELP, so that nobody takes it for a score."""
    registry = full()
    name = "headwater_pending_accuracy_estimate_ratio"
    error = "headwater_pending_accuracy_estimate_error_ratio"

    assert registry.get_sample_value(name, OF) == 0.9
    assert registry.get_sample_value(error, OF | {"window": "all"}) == 0.05
    assert registry.get_sample_value(error, OF | {"window": "last_1000"}) == -0.1
    assert next(s.help for s in METRICS if s.name == name).startswith("ESTIMATE")


def test_challenger_has_its_scores_and_how_it_stands_against_the_champion() -> None:
    """Under its own name; its confusion only where that is asked for."""
    of = SHARD | {"model": "tree"}
    _, registry = telemetry(view(challengers=[challenger()], promotions=2))
    _, asked = telemetry(view(challengers=[challenger()]), confusions=True)

    def shown(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"headwater_{name}", of | labels)

    assert shown("accuracy_ratio", window="all") == 0.9
    assert (shown("champion"), registry.get_sample_value("headwater_champion", OF)) == (0, 1)
    assert shown("challenger_e_value") == 1.6
    assert shown("challenger_undecided") == 0
    bounds = [shown("challenger_brier_difference", bound=b) for b in ("lower", "mean", "upper")]
    assert bounds == [-0.3, 0.02, 0.34]
    assert shown("challenger_discordant_total", right="challenger") == 3
    assert shown("challenger_skipped_total", what="refused") == 1
    assert registry.get_sample_value("headwater_promotions_total", SHARD) == 2
    assert {s["model"] for s in series(registry, "headwater_confusion_total")} == {"mail"}
    assert {s["model"] for s in series(asked, "headwater_confusion_total")} == {
        "mail",
        "tree",
    }


def test_challenger_without_a_comparison_yet_has_no_series_of_it() -> None:
    """Nothing is known of the difference before the first record."""
    fresh = ComparisonView(0, 0, 0, "", 1.0, None, None, None)
    _, registry = telemetry(view(challengers=[challenger(comparison=fresh)]))

    assert series(registry, "headwater_challenger_brier_difference") == []
    assert len(series(registry, "headwater_challenger_e_value")) == 1


def test_nothing_of_the_shard_is_shown_before_its_first_view() -> None:
    """A total that began at 0 and jumped to the recovered one would look like a burst."""
    told, registry = telemetry(None)
    told.ends(POSITIONS)

    names = {name for name, _ in samples(registry)}
    assert names == {
        "headwater_build_info",
        "headwater_commit_seconds_bucket",
        "headwater_commit_seconds_count",
        "headwater_commit_seconds_sum",
        "headwater_future_timestamps_total",
        "headwater_snapshot_failures_total",
    }


def test_a_scrape_shows_the_newest_view() -> None:
    """The view is asked for at each scrape."""
    views = [view(observations=1)]
    _, registry = telemetry(lambda: views[-1])
    before = registry.get_sample_value("headwater_observations_total", SHARD)
    views.append(view(observations=2))

    after = registry.get_sample_value("headwater_observations_total", SHARD)
    assert (before, after) == (1, 2)


@pytest.mark.parametrize("unknown", [None, math.nan])
def test_a_score_that_does_not_exist_yet_has_no_series(unknown: float | None) -> None:
    """Before anything was scored there is no accuracy, and NaN is never shown."""
    empty = quality(classes=(), confusion=(), accuracy=unknown)
    none = labelling(coverage=None, waited_ms=None, estimate=EstimateView())
    keys = FrozenKeyScores.of(KEYS._replace(compared=0, accuracies={}, worst=()))
    _, registry = telemetry(view(quality=empty, stream_time=None, labelling=none, keys=keys))

    found = samples(registry)
    assert not any(math.isnan(value) for value in found.values())
    names = {name for name, _ in found} - {"headwater_future_timestamps_total"}  # of outputs
    unknown_yet = ("accuracy", "loss", "timestamp", "label_coverage", "oldest")
    assert not [n for n in names if any(part in n for part in unknown_yet)]
    assert "nan" not in generate_latest(registry).decode().lower()


def test_dead_letter_is_an_exemplar_of_its_reason() -> None:
    """The newest, with topic, partition and offset; only where OpenMetrics is asked for."""
    told, registry = telemetry(view(dead_letters={"no_id": 2, "infinite": 1}))
    told.committed(commit(newest={"no_id": (Partition("visits", 3), 17)}), view())
    told.committed(commit(newest={"no_id": (Partition("x" * 249, 2**31 - 1), 2**63 - 1)}), view())

    families = parse_openmetrics(generate_openmetrics(registry).decode())  # raises beyond 128
    found = {
        s.labels["reason"]: s.exemplar
        for family in families
        for s in family.samples
        if s.name == "headwater_dead_letters_total" and s.exemplar
    }
    assert list(found) == ["no_id"]
    assert found["no_id"].labels == {
        "topic": "x" * 79,
        "partition": "2147483647",
        "offset": "9223372036854775807",
    }
    assert (found["no_id"].value, float(found["no_id"].timestamp)) == (1.0, 1000.0)
    assert "#" not in "".join(
        line for line in generate_latest(registry).decode().splitlines() if line[:1] != "#"
    )
