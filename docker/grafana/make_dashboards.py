"""Writes the two Grafana dashboards next to this file: `python docker/grafana/make_dashboards.py`.

Rule: a panel has a title, a unit and queries; its kind decides its place and style.
`python -m tests.lint generated` compares the committed files with what this script writes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from stream.decision.overall import RISK_SCORES
from stream.evaluate.table import SCORES, ScoreSpec

sys.path.insert(0, str(Path(__file__).parent))
from panels import (
    LAST,
    OF,
    OF_SHARD,
    SHARD,
    SOURCE,
    WINDOW,
    Panel,
    Query,
    a_minute,
    by_topic,
    decision,
    heatmap,
    in_an_hour,
    lines,
    named,
    number,
    of_shard,
    placed,
    rates,
    table,
)

__all__ = ["FOLDER", "OPERATIONS", "QUALITY", "dashboards"]

FOLDER = Path(__file__).with_name("dashboards")
MATRIX = {"columnField": "predicted", "rowField": "true", "valueField": "Value"}
RATIO: dict[str, Any] = {"min": 0, "max": 1}
UNITS = {"share": "percentunit", "number": "none"}  # of scores of decisions
CLASSES = "{{class}}"
NAMED = "{{model}}, shard {{shard}}"
BASELINE = "{{baseline}}, shard {{shard}}"
SCORE = {score.id: score for score in SCORES}
ACCURACY = SCORE["accuracy"].metric
ACCURACY_OF_BASELINES = SCORE["accuracy"].baselines.metric

# The panels that the table of scores names (`ScoreSpec.panel`): title, unit, description, bounds.
PANELS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "accuracy": ("Accuracy and baselines, lately", "percentunit", "", RATIO),
    "log loss": (
        "Log loss, lately",
        "none",
        "Mean of -log(probability of the true class); log 2 is a coin toss.",
        {},
    ),
    "balanced": (
        "Balanced accuracy and F1, lately",
        "percentunit",
        "Each class counts alike, however rare it is.",
        RATIO,
    ),
    "agreement": (
        "Agreement, lately",
        "none",
        "Above chance, above the most frequent class, above the last class; "
        "below 0 the model is worse than that.",
        {},
    ),
    "calibration": (
        "Brier score and calibration error, lately",
        "none",
        "How far the probabilities are from the shares that were right: 0 at best.",
        {},
    ),
    "areas": (
        "Areas under curves, lately",
        "percentunit",
        "How well the probabilities rank, mean over the classes.",
        RATIO,
    ),
}


def scores_of(panel: str) -> list[Query]:
    """The queries of a panel of scores: scores with a baseline, the baselines, then the others."""
    here = [score for score in SCORES if score.panel == panel]
    compared = [score for score in here if score.baselines and score.baselines.metric]

    def model(score: ScoreSpec) -> Query:
        return f"{score.metric}{{{LAST}}}", named(score.legend, NAMED)

    return [
        *map(model, compared),
        *(
            (f"max by (baseline, shard) ({b.metric}{{{LAST}}})", named(b.legend, BASELINE))
            for b in (score.baselines for score in compared)
        ),
        *(model(score) for score in here if score not in compared),
    ]


QUALITY: dict[str, list[Panel]] = {
    "Now": [
        number(
            "Accuracy, lately",
            "percentunit",
            (f"{ACCURACY}{{{LAST}}}", NAMED),
            about=SCORE["accuracy"].help,
        ),
        number(
            "Above the better baseline",
            "percentunit",
            (
                f"{ACCURACY}{{{LAST}}} - ignoring (baseline) "
                "group_left max without (baseline) "
                f"({ACCURACY_OF_BASELINES}{{{LAST}}})",
                NAMED,
            ),
            about="Below 0 the model is worse than always saying the most frequent class, or the "
            "last one.",
        ),
        number(
            "Cohen's kappa",
            "none",
            (f"headwater:cohen_kappa{{{WINDOW}}}", "{{model}}"),
            about="Agreement above chance, over the window chosen above.",
        ),
        number(
            "Predictions with a label",
            "percentunit",
            of_shard("headwater_label_coverage_ratio"),
            about="Of those that wait for one no longer; the scores are of these only.",
        ),
        number(
            "Estimate for what waits",
            "percentunit",
            of_shard("headwater_pending_accuracy_estimate_ratio"),
            about="An ESTIMATE: the model's own mean confidence in predictions without a label.",
        ),
        number(
            "Error of that estimate",
            "percentunit",
            (f"headwater_pending_accuracy_estimate_error_ratio{{{LAST}}}", "shard {{shard}}"),
            about="Estimate minus truth, on predictions that waited and were labelled since.",
        ),
    ],
    "Scores": [
        *(
            lines(title, unit, *scores_of(panel), about=about, defaults=bounds)
            for panel, (title, unit, about, bounds) in PANELS.items()
        ),
        lines(
            "Accuracy over $window",
            "percentunit",
            (f"headwater:accuracy:ratio{{{WINDOW}}}", "{{model}}"),
            (f"headwater:majority_accuracy:ratio{{{WINDOW}}}", "most frequent class"),
            (f"headwater:balanced_accuracy:ratio{{{WINDOW}}}", "balanced"),
            (f"headwater:f1_macro:ratio{{{WINDOW}}}", "F1, mean of classes"),
            about="By recording rules, from headwater_confusion_total.",
            defaults=RATIO,
        ),
        lines("Kappa over $window", "none", (f"headwater:cohen_kappa{{{WINDOW}}}", "{{model}}")),
        lines(
            "Worse than guessing",
            "none",
            (
                f"max by (model, baseline) (headwater_worse_than_guessing{{{SHARD}}})",
                "{{model}} against {{baseline}}",
            ),
            (f"max by (shard) (headwater_only_one_class{{{SHARD}}})", "one class, shard {{shard}}"),
            about="1 while a model is worse than the baseline by more than chance explains, "
            "and while all labels are of one class.",
            defaults=RATIO,
        ),
    ],
    "Classes": [
        lines(
            "F1 by class over $window",
            "percentunit",
            (f"headwater:f1:ratio{{{WINDOW}}}", CLASSES),
            defaults=RATIO,
        ),
        lines(
            "Class mix over $window",
            "short",
            (f"headwater:actual:increase{{{WINDOW}}}", f"{CLASSES}, true"),
            (f"headwater:predicted:increase{{{WINDOW}}}", f"{CLASSES}, predicted"),
            about="How often each class came and was predicted.",
        ),
        table(
            "Precision, recall, F1 over $window",
            "percentunit",
            (f"headwater:precision:ratio{{{WINDOW}}}", "precision"),
            (f"headwater:recall:ratio{{{WINDOW}}}", "recall"),
            (f"headwater:f1:ratio{{{WINDOW}}}", "F1"),
            keep=["class", "Value #A", "Value #B", "Value #C"],
        ),
        table(
            "Confusion over $window",
            "short",
            (f"sum by (true, predicted) (headwater:confusion:increase{{{WINDOW}}})", ""),
            keep=[],
            about="Rows are true classes, columns predicted ones.",
            defaults={"decimals": 0},
            transformations=[{"id": "groupingToMatrix", "options": MATRIX}],
        ),
    ],
    "Labels": [
        heatmap("Label delay, in stream time", "s", "headwater_label_delay_seconds_bucket"),
        lines(
            "Label delay, quantiles of an hour",
            "s",
            (f"headwater:label_delay_seconds:quantile{{{OF}}}", "{{quantile}}"),
            of_shard("headwater_pending_oldest_seconds", "oldest that waits"),
        ),
        lines(
            "Predictions with a label",
            "percentunit",
            of_shard("headwater_label_coverage_ratio", "all"),
            (f"headwater:label_coverage:ratio{{{OF}}}", "settled within an hour"),
            defaults=RATIO,
        ),
        lines(
            "What is not labelled yet: an estimate",
            "percentunit",
            of_shard("headwater_pending_accuracy_estimate_ratio", "estimate"),
            of_shard("headwater:pending_accuracy_estimate_corrected:ratio", "less its own error"),
            (f"{ACCURACY}{{{LAST}}}", "measured on the labelled, " + NAMED),
            about="Mean confidence of the predictions that wait. Not a measurement: where features "
            "go with classes otherwise than before it does not notice.",
            defaults=RATIO,
        ),
        lines(
            "Labels and observations by what became of them",
            "cps",
            rates("headwater_labels_total", "outcome", "{{outcome}}"),
        ),
        lines(
            "Verdicts of later reporters on earlier ones",
            "cps",
            rates("headwater_reporter_verdicts_total", "verdict", "{{verdict}}"),
            about="With [labels] reporter only.",
        ),
        lines(
            "Reporters that are known",
            "short",
            of_shard("headwater_reporters"),
            about="With [labels] reporter only.",
        ),
        lines(
            "Waiting",
            "short",
            of_shard("headwater_pending_labels", "observations"),
            of_shard("headwater_early_labels", "early labels"),
        ),
        lines(
            "Labelled but not scored",
            "cps",
            rates("headwater_unscored_total", "shard", "shard {{shard}}"),
            about="Predictions that named no class, for none was known yet.",
        ),
    ],
    "Keys": [
        lines(
            "Accuracy over keys, quantiles",
            "percentunit",
            of_shard("headwater_key_accuracy_ratio", "{{share}}"),
            about="With [model] per only: the accuracy that this share of the keys does not "
            "exceed. The live page names the worst keys.",
            defaults=RATIO,
        ),
        lines(
            "Keys that are worse than guessing",
            "short",
            of_shard("headwater_keys_worse_than_guessing", "worse than their usual label"),
            of_shard("headwater_scored_keys", "compared"),
            about="With [model] per only.",
        ),
    ],
    "Mix of the shards": [
        lines(
            "Other shards in use",
            "short",
            of_shard("headwater_mix_peers"),
            about="With [scale] mix only: shards whose statistics a shard predicts with.",
        ),
        lines(
            "Labels learned by other shards",
            "short",
            of_shard("headwater_mix_peer_labels"),
            about="With [scale] mix only.",
        ),
        lines(
            "Age of the oldest statistics",
            "s",
            of_shard("headwater_mix_age_seconds"),
            about="With [scale] mix only. It grows while that shard learns nothing.",
        ),
        lines(
            "Statistics refused",
            "cps",
            rates("headwater_mix_refused_total", "reason", "{{reason}}"),
            about="With [scale] mix only.",
        ),
    ],
    "Keys on disk": [
        lines(
            "Keys with a model",
            "short",
            of_shard("headwater_keys", "known"),
            of_shard("headwater_keys_in_memory", "in memory"),
            about="With [model] keys_on_disk only.",
        ),
        lines(
            "Keys read from disk",
            "cps",
            rates("headwater_keys_loaded_total", "shard", "shard {{shard}}"),
            about="With [model] keys_on_disk only. If they are nearly as many as records, a larger "
            "max_state_bytes saves time.",
        ),
        lines(
            "Keys that leave memory",
            "cps",
            rates("headwater_keys_evicted_total", "shard", "shard {{shard}}"),
            about="With [model] keys_on_disk only.",
        ),
        lines(
            "File of keys",
            "bytes",
            of_shard("headwater_keys_disk_bytes"),
            about="With [model] keys_on_disk only.",
        ),
    ],
    "Weights of the learners": [
        lines(
            "Weight of each learner of a mixture",
            "percentunit",
            of_shard("headwater_expert_weight", "{{expert}}"),
            about="By how likely its past predictions were. ClassShares and NoChange are guesses.",
        ),
    ],
    "Drift": [
        lines(
            "Alarms of drift, in an hour",
            "short",
            in_an_hour("headwater_drift_alarms_total", "detector, on", "{{detector}} on {{on}}"),
            about="What each detector watches has changed.",
        ),
        lines(
            "Drift, now",
            "short",
            of_shard("headwater_drift_detected", "{{detector}} on {{on}}"),
            of_shard("headwater_drift_actions_total", "{{action}}, how often"),
            about="1 for the thousand values after an alarm.",
        ),
    ],
    "Challengers": [
        lines(
            "Evidence that a challenger is right more often",
            "none",
            (f"headwater_challenger_e_value{{{SHARD}}}", NAMED),
            (f"headwater_challenger_undecided{{{SHARD}}}", "undecided, " + NAMED),
            about="1 is no evidence; 20 is strong evidence, at whatever record it is read. "
            "Undecided: labels may come in runs that are longer than what was compared.",
            defaults={"custom": {"scaleDistribution": {"type": "log", "log": 10}}},
        ),
        lines(
            "Champion's Brier score less the challenger's",
            "none",
            (f"headwater_challenger_brier_difference{{{SHARD}}}", "{{bound}}, " + NAMED),
            about="Above 0 the challenger is better; the bounds hold together at all times.",
        ),
        lines(
            "Records on which only one was right",
            "short",
            (f"headwater_challenger_discordant_total{{{SHARD}}}", "{{right}}, " + NAMED),
        ),
        lines(
            "Champion and promotions",
            "short",
            (f"headwater_champion{{{SHARD}}}", NAMED),
            of_shard("headwater_promotions_total", "promotions"),
            (f"sum by (what) (headwater_challenger_skipped_total{{{SHARD}}})", "skipped: {{what}}"),
        ),
    ],
    "Decisions": [
        *(
            lines(
                score.panel,
                UNITS[score.unit],
                *(decision(score.metric, window) for window in score.windows),
                about=score.about,
            )
            for score in RISK_SCORES
        ),
        lines(
            "Decisions",
            "cps",
            rates("headwater_decision_scored_total", "shard", "scored, shard {{shard}}"),
            rates("headwater_decision_rejected_total", "shard", "rejected, shard {{shard}}"),
        ),
    ],
    "Flags": [
        lines(
            "Verdicts",
            "cps",
            rates("headwater_budget_flagged_total", "shard", "flagged, shard {{shard}}"),
            rates("headwater_budget_unsure_total", "shard", "unsure, shard {{shard}}"),
            rates("headwater_budget_withheld_total", "shard", "withheld, shard {{shard}}"),
            rates("headwater_predictions_total", "shard", "all predictions, shard {{shard}}"),
            about="With [decision] max_false_positive_rate only, as the whole row.",
        ),
        lines(
            "Share that is flagged",
            "percentunit",
            (f"headwater:flagged:ratio{{{OF}}}", "{{window}}"),
            about="Of the last hour, and of the day before it. An alert compares them.",
            defaults=RATIO,
        ),
        lines(
            "Share of others that are flagged, and the budget",
            "percentunit",
            (
                f"headwater_budget_false_positives_total{{{SHARD}}} "
                f"/ headwater_budget_others_total{{{SHARD}}}",
                named("flagged of labelled others", OF_SHARD),
            ),
            of_shard("headwater_budget_rate_ratio", "budget"),
        ),
        lines(
            "Threshold",
            "percentunit",
            of_shard("headwater_budget_threshold", "threshold"),
            about="The probability from which a record is flagged.",
            defaults=RATIO,
        ),
        lines(
            "Labels that are missing before anything is flagged",
            "short",
            of_shard("headwater_budget_missing_labels"),
        ),
        lines(
            "Labels by class, in an hour",
            "short",
            (
                f"sum by (true) (increase(headwater_confusion_total{{{SHARD}}}[1h]))",
                "{{true}}",
            ),
            about="Whether somebody still flags: labels from silence are of the other class.",
        ),
    ],
}

OPERATIONS: dict[str, list[Panel]] = {
    "Now": [
        number("Up", "bool_on_off", (f"up{{{OF}}}", "{{instance}}")),
        number(
            "Last turn of the loop",
            "s",
            of_shard("headwater_poll_age_seconds"),
            about="/healthz fails once this is longer than [http] max_idle.",
        ),
        number("Last commit", "s", of_shard("headwater_commit_age_seconds")),
        number("Last label", "s", of_shard("headwater_label_age_seconds")),
        number("Last snapshot", "s", of_shard("headwater_snapshot_age_seconds")),
        number("Replay remaining", "short", of_shard("headwater_replay_remaining_records")),
    ],
    "Throughput": [
        lines(
            "Records a second",
            "rps",
            rates("headwater_records_total", "shard", "records, shard {{shard}}"),
            rates("headwater_observations_total", "shard", "observations, shard {{shard}}"),
            rates("headwater_predictions_total", "shard", "predictions, shard {{shard}}"),
            rates("headwater_learned_total", "shard", "learned, shard {{shard}}"),
        ),
        lines(
            "Behind",
            "short",
            by_topic("sum", "headwater_input_lag_records", "{{topic}}"),
            by_topic(
                "sum", "headwater_input_uncommitted_records", "{{topic}}, in open transactions"
            ),
            about="Records between what is committed and the end of the topic; apart from them, "
            "those that wait for the end of a transaction.",
        ),
        lines(
            "Behind, in seconds",
            "s",
            of_shard("headwater:input_lag:seconds"),
            of_shard(
                "time() - headwater_last_record_timestamp_seconds", "age of the newest record"
            ),
            by_topic("max", "headwater_input_uncommitted_seconds", "open transaction, {{topic}}"),
        ),
        lines(
            "Commit, 99th percentile and mean",
            "s",
            of_shard("headwater:commit_seconds:p99_5m", "p99"),
            (
                f"sum by (shard) (rate(headwater_commit_seconds_sum{{{SHARD}}}[$__rate_interval]))"
                " / (sum by (shard) (rate(headwater_commit_seconds_count"
                f"{{{SHARD}}}[$__rate_interval])) > 0)",
                "mean, shard {{shard}}",
            ),
        ),
        heatmap("Commit", "s", "headwater_commit_seconds_bucket"),
        lines(
            "Committed offset",
            "short",
            (f"headwater_committed_offset{{{SHARD}}}", "{{topic}} {{partition}}"),
        ),
    ],
    "Trouble": [
        lines(
            "Dead letters by reason",
            "cps",
            rates("headwater_dead_letters_total", "reason", "{{reason}}"),
            about="Exemplars name topic, partition and offset of the newest one.",
        ),
        lines(
            "Dead letters among the last 1,000 records",
            "short",
            of_shard("headwater_recent_dead_letters"),
            of_shard("1000 * headwater_breaker_open", "learning is stopped"),
        ),
        lines(
            "Bounds reached, and bad values",
            "cps",
            rates("headwater_overflow_total", "bound", "{{bound}}"),
            rates("headwater_bad_values_total", "field", "bad values, {{field}}"),
            rates("headwater_mail_faults_total", "fault", "mails, {{fault}}"),
            of_shard("headwater_unread_partitions", "unread partitions"),
            (
                f"rate(headwater_future_timestamps_total{{{SHARD}}}[$__rate_interval])",
                "timestamps of the future a second, shard {{shard}}",
            ),
        ),
        lines(
            "Read otherwise, or left out",
            "cps",
            rates("headwater_cut_texts_total", "shard", "cut texts, shard {{shard}}"),
            rates("headwater_numbers_as_text_total", "shard", "numbers as text, shard {{shard}}"),
            rates("headwater_ignored_records_total", "shard", "ignored records, shard {{shard}}"),
            about="Texts cut within a character, numbers written as texts, and tombstones and "
            "change events that the configuration leaves out.",
        ),
        lines(
            "Snapshots that failed, in an hour",
            "short",
            in_an_hour("headwater_snapshot_failures_total", "place", "{{place}}"),
        ),
        lines(
            "The HTTP server and the log",
            "short",
            (f"headwater_http_open_pages{{{OF}}}", "open pages, {{instance}}"),
            a_minute("headwater_http_refused_total", "{{reason}} refused"),
            a_minute("headwater_log_lines_left_out_total", "log lines left out"),
            (f"headwater_kernels_waiting{{{OF}}}", "kernels that compile, {{instance}}"),
        ),
        table(
            "Running",
            "short",
            (f"headwater_build_info{{{OF}}}", "{{version}}"),
            keep=["instance", "version"],
        ),
    ],
}


def variable(name: str, label: str, query: str) -> dict[str, Any]:
    """A variable with the values of a label; all by default."""
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": SOURCE,
        "query": {"query": query, "refId": f"variable-{name}"},
        "refresh": 2,
        "sort": 3,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def window() -> dict[str, Any]:
    """The window of the scores from recording rules."""
    choices = ["5m", "1h", "1d"]
    return {
        "type": "custom",
        "name": "window",
        "label": "Window",
        "query": ",".join(choices),
        "current": {"selected": True, "text": "5m", "value": "5m"},
        "options": [{"selected": c == "5m", "text": c, "value": c} for c in choices],
    }


def dashboard(uid: str, title: str, about: str, rows: dict[str, list[Panel]]) -> dict[str, Any]:
    """A whole dashboard."""
    source = {"type": "datasource", "name": "source", "label": "Data source", "query": "prometheus"}
    first = {"selected": True, "text": "Prometheus", "value": "prometheus"}
    link: dict[str, Any] = {"type": "dashboards", "title": "headwater", "tags": ["headwater"]}
    link |= {"asDropdown": False, "includeVars": True, "keepTime": True, "targetBlank": False}
    jobs = variable("job", "Job", "label_values(headwater_build_info, job)")
    shards = variable("shard", "Shard", 'label_values(headwater_records_total{job=~"$job"}, shard)')
    windows = [window()] if rows is QUALITY else []
    return {
        "uid": uid,
        "title": title,
        "description": about,
        "tags": ["headwater"],
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "schemaVersion": 39,
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [{**source, "current": first}, jobs, shards, *windows]},
        "annotations": {"list": []},
        "links": [{**link, "icon": "external link", "tooltip": "", "url": ""}],
        "panels": placed(rows),
    }


def dashboards() -> dict[str, dict[str, Any]]:
    """File name to dashboard."""
    return {
        "quality.json": dashboard(
            "headwater-quality",
            "headwater: model quality",
            "How good the model is, beside what it has to beat.",
            QUALITY,
        ),
        "operations.json": dashboard(
            "headwater-operations",
            "headwater: operations",
            "Whether the service runs, keeps up and loses nothing.",
            OPERATIONS,
        ),
    }


def files() -> dict[Path, str]:
    """Each dashboard's file and its text."""
    return {FOLDER / name: json.dumps(made, indent=2) + "\n" for name, made in dashboards().items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
