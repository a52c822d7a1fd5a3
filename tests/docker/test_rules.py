"""Alerts and scores by Prometheus' own rule tests: each alert fires, says what, and is quiet.

Series are written as promtool takes them: `0+10x120` begins at 0 and grows by 10 a minute.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from sklearn import metrics

from tests.docker.prometheus import FOLDER, lacking, promtool
from tests.docker.queries import rules
from tests.seed import seeds

pytestmark = pytest.mark.skipif(lacking() is not None, reason=str(lacking()))

FLOWS = "0+600x180"
STANDS = "700x180"
IN = {"job": "headwater", "instance": "h:8321"}
SHARD = IN | {"shard": "0"}
MODEL = SHARD | {"model": "MixedNB"}


def series(name: str, values: str, of: dict[str, str] = SHARD, **more: str) -> dict[str, str]:
    """An input series."""
    labels = ",".join(f'{key}="{value}"' for key, value in (of | more).items())
    return {"series": f"{name}{{{labels}}}", "values": values}


def confusion(right: str, wrong: str) -> list[dict[str, str]]:
    """Two classes, how often each prediction was right and wrong."""
    pairs = [("a", "a", right), ("b", "b", right), ("a", "b", wrong), ("b", "a", wrong)]
    return [
        series("headwater_confusion_total", values, MODEL, true=true, predicted=predicted)
        for true, predicted, values in pairs
    ]


def worse(values: str) -> dict[str, str]:
    """Whether the model is worse than its last label."""
    return series("headwater_worse_than_guessing", values, MODEL, baseline="no_change")


def labels(**outcomes: str) -> list[dict[str, str]]:
    """Label counters by outcome."""
    return [
        series("headwater_labels_total", values, outcome=outcome)
        for outcome, values in outcomes.items()
    ]


def budget(false_positives: str) -> list[dict[str, str]]:
    """A budget of 1 % after 1,000 labels of other classes."""
    return [
        series("headwater_budget_rate_ratio", "0.01x180"),
        series("headwater_budget_others_total", "1000x180"),
        series("headwater_budget_false_positives_total", false_positives),
    ]


def field(used: str, bad: str) -> list[dict[str, str]]:
    """A field of the observations, with values that are used and values that do not fit."""
    name, of = "headwater_field_values_total", SHARD | {"field": "amount"}
    return [
        PREDICTED,
        series(name, used, of, outcome="used"),
        series(name, bad, of, outcome="bad"),
        series(name, "0x180", of, outcome="missing"),
    ]


def flagged(labels_of_spam: str) -> list[dict[str, str]]:
    """Predictions of 15 hours, ham by silence, and labels of spam."""
    return [
        series("headwater_predictions_total", "0+600x900"),
        series("headwater_budget_flagged_total", "0+60x900"),
        series("headwater_confusion_total", "0+9x900", MODEL, true="ham", predicted="ham"),
        series("headwater_confusion_total", labels_of_spam, MODEL, true="spam", predicted="spam"),
    ]


CONSUMED = series("headwater_records_total", FLOWS)
PREDICTED = series("headwater_predictions_total", FLOWS)
LABELLED = "headwater_label_delay_seconds_count"
FAST, SLOW = "0+100x180", "0x60 0+100x120"

# Alert: series that raise it, series that do not, the labels it has, what it says.
CASES: dict[str, tuple[list[Any], list[Any], dict[str, str], str]] = {
    "HeadwaterDown": (
        [series("up", "0x180", IN)],
        [series("up", "1x180", IN)],
        IN,
        "h:8321 does not answer",
    ),
    "HeadwaterLoopStalled": (
        [
            series("headwater_poll_age_seconds", "90x180"),
            series("headwater_replay_remaining_records", "0x180"),
        ],
        [
            series("headwater_poll_age_seconds", "90x180"),
            series("headwater_replay_remaining_records", "9000-50x180"),
        ],
        SHARD,
        "the loop of shard 0 has not turned for 1m 30s",
    ),
    "HeadwaterFallingBehind": (
        [CONSUMED, series("headwater_input_lag_records", "1200x180", topic="t", partition="0")],
        [CONSUMED, series("headwater_input_lag_records", "300x180", topic="t", partition="0")],
        {"job": "headwater", "shard": "0"},
        "shard 0 is 2m 0s behind its inputs",
    ),
    "HeadwaterUnreadPartitions": (
        [series("headwater_unread_partitions", "2x180")],
        [series("headwater_unread_partitions", "0x180")],
        SHARD,
        "shard 0 does not read 2 partitions that were added to its inputs",
    ),
    "HeadwaterInputHeldBack": (
        [series("headwater_input_uncommitted_seconds", "360x180", topic="t", partition="4")],
        [series("headwater_input_uncommitted_seconds", "0 240 0x180", topic="t", partition="4")],
        SHARD | {"topic": "t", "partition": "4"},
        "t partition 4 is not read (shard 0): a transaction of its producer has been open for "
        "6m 0s",
    ),
    "HeadwaterReplayStuck": (
        [series("headwater_replay_remaining_records", STANDS)],
        [series("headwater_replay_remaining_records", "9000-50x180")],
        SHARD,
        "the replay of shard 0 stands still, 700 records remain",
    ),
    "HeadwaterCommitsSlow": (
        [
            series("headwater_commit_seconds_bucket", "0x180", le="2.0"),
            series("headwater_commit_seconds_bucket", FLOWS, le="5.0"),
            series("headwater_commit_seconds_bucket", FLOWS, le="+Inf"),
        ],
        [
            series("headwater_commit_seconds_bucket", FLOWS, le="2.0"),
            series("headwater_commit_seconds_bucket", FLOWS, le="5.0"),
            series("headwater_commit_seconds_bucket", FLOWS, le="+Inf"),
        ],
        {"job": "headwater", "shard": "0"},
        "one commit in a hundred of shard 0 takes 4.97s",
    ),
    "HeadwaterSnapshotsFail": (
        [series("headwater_snapshot_failures_total", "0x120 1x60", place="copy")],
        [series("headwater_snapshot_failures_total", "3x180", place="copy")],
        SHARD | {"place": "copy"},
        "snapshots of shard 0 are not written (copy)",
    ),
    "HeadwaterSnapshotOld": (
        [CONSUMED, series("headwater_snapshot_age_seconds", "0+60x180")],
        [
            series("headwater_records_total", STANDS),
            series("headwater_snapshot_age_seconds", "0+60x180"),
        ],
        SHARD,
        "the newest snapshot of shard 0 is 2h 30m 0s old",
    ),
    "HeadwaterDeadLetters": (
        [CONSUMED, series("headwater_dead_letters_total", "0+30x180", reason="no_id")],
        [CONSUMED, series("headwater_dead_letters_total", "0+3x180", reason="no_id")],
        {"job": "headwater", "shard": "0"},
        "5% of the records of shard 0 are dead letters",
    ),
    "HeadwaterFieldUnused": (
        field("0+60x120 7200x60", "0x120 0+60x60"),
        field("0+60x180", "0+20x180"),
        {"job": "headwater", "shard": "0", "field": "amount"},
        "only 0% of the observations of shard 0 have a usable value of amount, over 25 points "
        "fewer than the day before",
    ),
    "HeadwaterBreakerOpen": (
        [series("headwater_breaker_open", "1x180")],
        [series("headwater_breaker_open", "0x180")],
        SHARD,
        "shard 0 learns nothing: too many dead letters",
    ),
    "HeadwaterOverflow": (
        [series("headwater_overflow_total", "0+1x180", bound="categories")],
        [series("headwater_overflow_total", "5x180", bound="categories")],
        SHARD | {"bound": "categories"},
        "shard 0 has reached a bound: categories",
    ),
    "HeadwaterNoLabels": (
        [PREDICTED, series(LABELLED, STANDS)],
        [PREDICTED, series(LABELLED, "0x180")],  # there never were any
        SHARD,
        "shard 0 predicts, and for an hour no label has come",
    ),
    "HeadwaterCoverageLow": (
        [series(LABELLED, "0+30x180"), *labels(expired="0+70x180")],
        [series(LABELLED, "0+70x180"), *labels(expired="0+30x180")],
        {"job": "headwater", "window": "1h"},
        "only 30% of the predictions get a label",
    ),
    "HeadwaterLabelsFindNothing": (
        labels(joined="0+40x180", late="0+30x180", early_expired="0+30x180"),
        labels(joined="0+60x180", late="0+20x180", early_expired="0+20x180"),
        {"job": "headwater", "shard": "0"},
        "most labels of shard 0 find no observation that waits for them",
    ),
    "HeadwaterWorseThanBaseline": (
        [worse("1x180"), series("headwater_champion", "1x180", MODEL)],
        [worse("0x180"), series("headwater_champion", "1x180", MODEL)],
        MODEL | {"baseline": "no_change"},
        "MixedNB (shard 0) is worse than guessing (no_change); its log and its page say by how "
        "much, and what to try",
    ),
    "HeadwaterKeysWorseThanGuessing": (
        [series("headwater_keys_worse_than_guessing", "3x180", MODEL)],
        [series("headwater_keys_worse_than_guessing", "0x140 1x40", MODEL)],
        MODEL,
        "MixedNB (shard 0) is worse than guessing for 3 keys; its page names the worst",
    ),
    "HeadwaterDrift": (
        [series("headwater_drift_detected", "1x180", MODEL, detector="ADWIN", on="error")],
        [series("headwater_drift_detected", "0x180", MODEL, detector="ADWIN", on="error")],
        MODEL | {"detector": "ADWIN", "on": "error"},
        "error of MixedNB (shard 0) has changed, says ADWIN",
    ),
    "HeadwaterChallengerBetter": (
        [series("headwater_challenger_e_value", "34.5x180", MODEL)],
        [series("headwater_challenger_e_value", "19.9x180", MODEL)],
        MODEL,
        "challenger MixedNB (shard 0) is right more often than the champion: evidence 34.5",
    ),
    "HeadwaterAccuracyFalls": (
        # As good as it gets for an hour and a half, then a coin toss.
        confusion("0+100x90 9000+50x90", "0x90 0+50x90"),
        confusion("0+90x180", "0+10x180"),
        {"job": "headwater", "model": "MixedNB"},
        "MixedNB of headwater is right in 50% of the last hour, over five points less than of the "
        "last day",
    ),
    "HeadwaterFlaggedShareJumps": (
        [PREDICTED, series("headwater_budget_flagged_total", "0+60x80 4800+300x100")],
        # Less than twice as much.
        [PREDICTED, series("headwater_budget_flagged_total", "0+60x90 5400+110x90")],
        {"job": "headwater", "window": "1h"},
        "headwater has flagged 50% of the records of the last hour, over twice the share of the "
        "day before",
    ),
    "HeadwaterFalsePositivesNearBudget": (
        budget("9x180"),
        budget("8x180"),
        SHARD,
        "shard 0 has used 90% of its budget of false positives",
    ),
    "HeadwaterNobodyFlags": (
        flagged("0+1x120 120x780"),
        flagged("0+1x900"),
        {"job": "headwater", "true": "spam"},
        "nobody has labelled a record of headwater as spam for 12 hours",
    ),
}
AT = {"HeadwaterNobodyFlags": "899m"}  # the other alerts are tested after two and a half hours


def checked(directory: Path, tests: list[dict[str, Any]]) -> str:
    """What promtool objects to; nothing where all is as expected."""
    path = directory / "rules_test.yml"
    files = [str(FOLDER / "recording.yml"), str(FOLDER / "alerts.yml")]
    document = {
        "rule_files": files,
        "evaluation_interval": "5m",
        "group_eval_order": [group for file in files for group in groups(file)],  # else by chance
        "tests": tests,
    }
    path.write_text(yaml.safe_dump(document))
    done = promtool("test", "rules", path)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def groups(file: str) -> list[str]:
    """The names of a file's groups, in order."""
    return [group["name"] for group in yaml.safe_load(Path(file).read_text())["groups"]]


def told(name: str, fed: list[Any], expected: list[dict[str, Any]]) -> dict[str, Any]:
    """A rule test: at its time the alert is these."""
    alert = {"alertname": name, "eval_time": AT.get(name, "150m"), "exp_alerts": expected}
    return {"interval": "1m", "input_series": fed, "alert_rule_test": [alert]}


def firing(name: str) -> dict[str, Any]:
    """The alert as it should be."""
    *_, labels_, summary = CASES[name]
    severity = next(r["labels"]["severity"] for r in rules("alerts.yml") if r["alert"] == name)
    return {
        "exp_labels": {**labels_, "severity": severity},
        "exp_annotations": {"summary": summary},
    }


def test_every_alert_is_tested() -> None:
    """In the order of the file."""
    assert list(CASES) == [rule["alert"] for rule in rules("alerts.yml")]


@pytest.mark.parametrize("name", CASES)
def test_alert_fires_and_says_what_is_wrong(name: str, tmp_path: Path) -> None:
    """With its labels and its sentence, filled in."""
    assert checked(tmp_path, [told(name, CASES[name][0], [firing(name)])]) == ""


def test_challenger_that_is_worse_than_guessing_raises_no_alert(tmp_path: Path) -> None:
    """Only the champion's predictions are used."""
    shadow = [worse("1x180"), series("headwater_champion", "0x180", MODEL)]

    assert checked(tmp_path, [told("HeadwaterWorseThanBaseline", shadow, [])]) == ""


def test_service_without_a_budget_may_have_classes_that_stop(tmp_path: Path) -> None:
    """Only where something is flagged does a person report it."""
    without = [each for each in CASES["HeadwaterNobodyFlags"][0] if "flagged" not in each["series"]]

    assert checked(tmp_path, [told("HeadwaterNobodyFlags", without, [])]) == ""


def test_first_flags_are_no_jump(tmp_path: Path) -> None:
    """Before there is evidence nothing is flagged, so there is no past to compare with."""
    first = [PREDICTED, series("headwater_budget_flagged_total", "0x90 0+300x90")]

    assert checked(tmp_path, [told("HeadwaterFlaggedShareJumps", first, [])]) == ""


@pytest.mark.parametrize("name", CASES)
def test_alert_is_quiet_where_all_is_well(name: str, tmp_path: Path) -> None:
    """Just on the good side."""
    assert checked(tmp_path, [told(name, CASES[name][1], [])]) == ""


def test_alert_that_fires_without_need_would_be_noticed(tmp_path: Path) -> None:
    """The check itself."""
    name = "HeadwaterDown"

    assert "got:" in checked(tmp_path, [told(name, CASES[name][0], [])])
    assert "got:" in checked(tmp_path, [told(name, CASES[name][1], [firing(name)])])


def oracle(counts: np.ndarray) -> dict[str, float]:
    """Scores of a confusion by scikit-learn, by the rule that computes them."""
    pairs = np.argwhere(counts >= 0)
    weight = counts.ravel()
    true, said = pairs.T
    out = {
        "headwater:accuracy:ratio": metrics.accuracy_score(true, said, sample_weight=weight),
        "headwater:cohen_kappa": metrics.cohen_kappa_score(true, said, sample_weight=weight),
        "headwater:balanced_accuracy:ratio": metrics.balanced_accuracy_score(
            true, said, sample_weight=weight
        ),
        "headwater:f1_macro:ratio": metrics.f1_score(
            true, said, sample_weight=weight, average="macro"
        ),
        "headwater:majority_accuracy:ratio": counts.sum(axis=1).max() / counts.sum(),
    }
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        true, said, sample_weight=weight, zero_division=np.nan
    )
    for score, values in (("precision", precision), ("recall", recall), ("f1", f1)):
        for k, value in enumerate(values):
            if not np.isnan(value):
                out[f'headwater:{score}:ratio{{class="c{k}",window="1h"}}'] = value
    return out


@pytest.mark.parametrize("never", [True, False])
@seeds(0.005)
def test_recorded_scores_are_scikit_learns(
    seed: int, never: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Accuracy, kappa, balanced accuracy, precision, recall, F1, from the confusion of an hour,
    over two shards; a class that is never predicted has a recall and no precision."""
    rng = np.random.default_rng(seed)
    shards = rng.integers(0, 50, (2, 4, 4))
    shards[:, :, 3] *= not never
    fed = [
        series(
            "headwater_confusion_total",
            f"7+{shards[s, t, p]}x180",
            MODEL | {"shard": str(s)},
            true=f"c{t}",
            predicted=f"c{p}",
        )
        for s, t, p in np.ndindex(shards.shape)
    ]
    counts = shards.sum(axis=0) * 60
    asked = []
    for rule, value in oracle(counts).items():
        name = rule if "{" in rule else f'{rule}{{window="1h"}}'
        expr = f"count(abs({name} - {float(value)!r}) < 1e-9)"
        one = [{"labels": "{}", "value": 1}]
        asked.append({"expr": expr, "eval_time": "120m", "exp_samples": one})
    if never:
        expr = 'headwater:precision:ratio{class="c3",window="1h"}'
        asked.append({"expr": expr, "eval_time": "120m", "exp_samples": []})
    assert len(asked) == 5 + 3 * 4

    test = {"interval": "1m", "input_series": fed, "promql_expr_test": asked}
    assert checked(tmp_path_factory.mktemp("rules"), [test]) == ""
