"""The two Grafana dashboards, written beside this file: `python docker/grafana/make_dashboards.py`.

Rule: a panel is a title, a unit and queries; where it stands and how it looks follows from its
kind. A test asserts that the committed files are what this writes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stream.evaluate.table import SCORES, ScoreSpec

__all__ = ["FOLDER", "OPERATIONS", "QUALITY", "dashboards"]

FOLDER = Path(__file__).with_name("dashboards")
SOURCE = {"type": "prometheus", "uid": "${source}"}
OF = 'job=~"$job"'
SHARD = f'{OF}, shard=~"$shard"'
LAST = f'{SHARD}, window=~"last_.+"'  # [telemetry] window says how many, and names it
WINDOW = f'{OF}, window="$window"'

Query = tuple[str, str]
Panel = dict[str, Any]


def panel(kind: str, title: str, unit: str, queries: Sequence[Query], **more: Any) -> Panel:
    """A panel: its queries with their legends, a sentence on what it shows, the options of its
    kind."""
    width, height, about = more.pop("width", 12), more.pop("height", 8), more.pop("about", "")
    instant = kind != "timeseries" and kind != "heatmap"
    defaults: dict[str, Any] = {"unit": unit, **more.pop("defaults", {})}
    return {
        "type": kind,
        "title": title,
        "description": about,
        "datasource": SOURCE,
        "gridPos": {"x": 0, "y": 0, "w": width, "h": height},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": more.pop("options", {}),
        "targets": [
            {
                "refId": chr(ord("A") + i),
                "datasource": SOURCE,
                "expr": expr,
                "legendFormat": legend,
                "instant": instant,
                "range": not instant,
                "format": more.get("format", "time_series"),
            }
            for i, (expr, legend) in enumerate(queries)
        ],
        **{key: value for key, value in more.items() if key != "format"},
    }


def lines(title: str, unit: str, *queries: Query, **more: Any) -> Panel:
    """Values over time."""
    options = {
        "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return panel("timeseries", title, unit, queries, options=options, **more)


def number(title: str, unit: str, *queries: Query, **more: Any) -> Panel:
    """The newest value, large."""
    options = {
        "reduceOptions": {"calcs": ["lastNotNull"], "values": False, "fields": ""},
        "colorMode": "value",
        "graphMode": "none",
    }
    return panel("stat", title, unit, queries, options=options, width=4, height=4, **more)


def table(title: str, unit: str, *queries: Query, keep: Sequence[str], **more: Any) -> Panel:
    """The newest values, a row a series; `keep` are its labels that are shown."""
    organize = {"includeByName": dict.fromkeys(keep, True)}
    merged = [{"id": "merge", "options": {}}, {"id": "organize", "options": organize}]
    changes = more.pop("transformations", merged)
    return panel("table", title, unit, queries, format="table", transformations=changes, **more)


def heatmap(title: str, unit: str, query: str, **more: Any) -> Panel:
    """A histogram over time."""
    options = {"calculate": False, "yAxis": {"unit": unit}, "legend": {"show": True}}
    shown = panel("heatmap", title, unit, [(query, "{{le}}")], options=options, **more)
    shown["targets"][0]["format"] = "heatmap"
    return shown


RATIO: dict[str, Any] = {"min": 0, "max": 1}
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
        "Whether the probabilities can be believed: 0 at best.",
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
    """The queries of a panel of scores: what a baseline has too, the baselines, then the others."""
    here = [score for score in SCORES if score.panel == panel]
    beside = [score for score in here if score.baselines and score.baselines.metric]

    def model(score: ScoreSpec) -> Query:
        return f"{score.metric}{{{LAST}}}", named(score.legend, NAMED)

    return [
        *map(model, beside),
        *(
            (f"max by (baseline, shard) ({b.metric}{{{LAST}}})", named(b.legend, BASELINE))
            for b in (score.baselines for score in beside)
        ),
        *(model(score) for score in here if score not in beside),
    ]


def named(legend: str, series: str) -> str:
    """A legend before what tells its series apart."""
    return f"{legend}, {series}" if legend else series


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
            (f"headwater_label_coverage_ratio{{{SHARD}}}", "shard {{shard}}"),
            about="Of those that wait for one no longer; the scores are of these only.",
        ),
        number(
            "Estimate for what waits",
            "percentunit",
            (f"headwater_pending_accuracy_estimate_ratio{{{SHARD}}}", "shard {{shard}}"),
            about="An ESTIMATE: the model's own mean confidence in predictions without a label.",
        ),
        number(
            "Error of that estimate",
            "percentunit",
            (
                f"headwater_pending_accuracy_estimate_error_ratio{{{LAST}}}",
                "shard {{shard}}",
            ),
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
        lines(
            "Kappa over $window",
            "none",
            (f"headwater:cohen_kappa{{{WINDOW}}}", "{{model}}"),
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
            (
                f"sum by (true, predicted) (headwater:confusion:increase{{{WINDOW}}})",
                "",
            ),
            keep=[],
            about="Rows are true classes, columns predicted ones.",
            defaults={"decimals": 0},
            transformations=[
                {
                    "id": "groupingToMatrix",
                    "options": {
                        "columnField": "predicted",
                        "rowField": "true",
                        "valueField": "Value",
                    },
                }
            ],
        ),
    ],
    "Labels": [
        heatmap(
            "Label delay, in stream time",
            "s",
            "sum by (le) (increase(headwater_label_delay_seconds_bucket"
            f"{{{SHARD}}}[$__rate_interval]))",
        ),
        lines(
            "Label delay, quantiles of an hour",
            "s",
            (f"headwater:label_delay_seconds:quantile{{{OF}}}", "{{quantile}}"),
            (f"headwater_pending_oldest_seconds{{{SHARD}}}", "oldest that waits, shard {{shard}}"),
        ),
        lines(
            "Predictions with a label",
            "percentunit",
            (f"headwater_label_coverage_ratio{{{SHARD}}}", "all, shard {{shard}}"),
            (f"headwater:label_coverage:ratio{{{OF}}}", "settled within an hour"),
            defaults=RATIO,
        ),
        lines(
            "What is not labelled yet: an estimate",
            "percentunit",
            (f"headwater_pending_accuracy_estimate_ratio{{{SHARD}}}", "estimate, shard {{shard}}"),
            (
                f"headwater:pending_accuracy_estimate_corrected:ratio{{{SHARD}}}",
                "less its own error, shard {{shard}}",
            ),
            (
                f"{ACCURACY}{{{LAST}}}",
                "measured on the labelled, " + NAMED,
            ),
            about="Mean confidence of the predictions that wait. Not a measurement: where features "
            "go with classes otherwise than before it does not notice.",
            defaults=RATIO,
        ),
        lines(
            "Labels and observations by what became of them",
            "cps",
            (
                f"sum by (outcome) (rate(headwater_labels_total{{{SHARD}}}[$__rate_interval]))",
                "{{outcome}}",
            ),
        ),
        lines(
            "Waiting",
            "short",
            (f"headwater_pending_labels{{{SHARD}}}", "observations, shard {{shard}}"),
            (f"headwater_early_labels{{{SHARD}}}", "early labels, shard {{shard}}"),
        ),
        lines(
            "Labelled but not scored",
            "cps",
            (
                f"sum by (shard) (rate(headwater_unscored_total{{{SHARD}}}[$__rate_interval]))",
                "shard {{shard}}",
            ),
            about="Predictions that named no class, for none was known yet.",
        ),
    ],
    "Drift": [
        lines(
            "Alarms of drift, in an hour",
            "short",
            (
                f"sum by (detector, on) (increase(headwater_drift_alarms_total{{{SHARD}}}[1h]))",
                "{{detector}} on {{on}}",
            ),
            about="What each detector watches has changed.",
        ),
        lines(
            "Drift, now",
            "short",
            (f"headwater_drift_detected{{{SHARD}}}", "{{detector}} on {{on}}, shard {{shard}}"),
            (
                f"headwater_drift_actions_total{{{SHARD}}}",
                "{{action}}, how often, shard {{shard}}",
            ),
            about="1 for the thousand values after an alarm.",
        ),
    ],
    "Challengers": [
        lines(
            "Evidence that a challenger is right more often",
            "none",
            (f"headwater_challenger_e_value{{{SHARD}}}", NAMED),
            about="1 is none; at 20 it may be believed, however often one has looked.",
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
            (f"headwater_promotions_total{{{SHARD}}}", "promotions, shard {{shard}}"),
            (
                f"sum by (what) (headwater_challenger_skipped_total{{{SHARD}}})",
                "skipped: {{what}}",
            ),
        ),
    ],
    "Decisions": [
        lines(
            "Overall risk",
            "none",
            (f'headwater_decision_risk{{{SHARD}, window="all"}}', "all, shard {{shard}}"),
            (f'headwater_decision_risk{{{SHARD}, window="fading"}}', "fading, shard {{shard}}"),
            about="Mean loss of the decisions whose true class came; where [decision] is set.",
        ),
        lines(
            "Coverage",
            "percentunit",
            (
                f'headwater_decision_coverage_ratio{{{SHARD}, window="fading"}}',
                "fading, shard {{shard}}",
            ),
            about="Share of decisions that were not left to somebody else.",
        ),
        lines(
            "Decisions",
            "cps",
            (
                f"sum by (shard) (rate(headwater_decision_scored_total{{{SHARD}}}"
                "[$__rate_interval]))",
                "scored, shard {{shard}}",
            ),
            (
                f"sum by (shard) (rate(headwater_decision_rejected_total{{{SHARD}}}"
                "[$__rate_interval]))",
                "rejected, shard {{shard}}",
            ),
        ),
    ],
}

OPERATIONS: dict[str, list[Panel]] = {
    "Now": [
        number("Up", "bool_on_off", (f"up{{{OF}}}", "{{instance}}")),
        number(
            "Last turn of the loop",
            "s",
            (f"headwater_poll_age_seconds{{{SHARD}}}", "shard {{shard}}"),
            about="/healthz fails once this is longer than [http] max_idle.",
        ),
        number("Last commit", "s", (f"headwater_commit_age_seconds{{{SHARD}}}", "shard {{shard}}")),
        number("Last label", "s", (f"headwater_label_age_seconds{{{SHARD}}}", "shard {{shard}}")),
        number(
            "Last snapshot", "s", (f"headwater_snapshot_age_seconds{{{SHARD}}}", "shard {{shard}}")
        ),
        number(
            "Replay remaining",
            "short",
            (f"headwater_replay_remaining_records{{{SHARD}}}", "shard {{shard}}"),
        ),
    ],
    "Throughput": [
        lines(
            "Records a second",
            "rps",
            (
                f"sum by (shard) (rate(headwater_records_total{{{SHARD}}}[$__rate_interval]))",
                "records, shard {{shard}}",
            ),
            (
                f"sum by (shard) (rate(headwater_observations_total{{{SHARD}}}[$__rate_interval]))",
                "observations, shard {{shard}}",
            ),
            (
                f"sum by (shard) (rate(headwater_predictions_total{{{SHARD}}}[$__rate_interval]))",
                "predictions, shard {{shard}}",
            ),
            (
                f"sum by (shard) (rate(headwater_learned_total{{{SHARD}}}[$__rate_interval]))",
                "learned, shard {{shard}}",
            ),
        ),
        lines(
            "Behind",
            "short",
            (
                f"sum by (topic) (headwater_input_lag_records{{{SHARD}}})",
                "{{topic}}",
            ),
            (
                f"sum by (topic) (headwater_input_uncommitted_records{{{SHARD}}})",
                "{{topic}}, in open transactions",
            ),
            about="Records between what is committed and the end of the topic; apart from them, "
            "those that wait for the end of a transaction.",
        ),
        lines(
            "Behind, in seconds",
            "s",
            (f"headwater:input_lag:seconds{{{SHARD}}}", "shard {{shard}}"),
            (
                f"time() - headwater_last_record_timestamp_seconds{{{SHARD}}}",
                "age of the newest record, shard {{shard}}",
            ),
            (
                f"max by (topic) (headwater_input_uncommitted_seconds{{{SHARD}}})",
                "open transaction, {{topic}}",
            ),
        ),
        lines(
            "Commit, 99th percentile and mean",
            "s",
            (f"headwater:commit_seconds:p99_5m{{{SHARD}}}", "p99, shard {{shard}}"),
            (
                f"sum by (shard) (rate(headwater_commit_seconds_sum{{{SHARD}}}[$__rate_interval]))"
                " / (sum by (shard) (rate(headwater_commit_seconds_count"
                f"{{{SHARD}}}[$__rate_interval])) > 0)",
                "mean, shard {{shard}}",
            ),
        ),
        heatmap(
            "Commit",
            "s",
            f"sum by (le) (increase(headwater_commit_seconds_bucket{{{SHARD}}}[$__rate_interval]))",
        ),
        lines(
            "Committed offset",
            "short",
            (
                f"headwater_committed_offset{{{SHARD}}}",
                "{{topic}} {{partition}}",
            ),
        ),
    ],
    "Trouble": [
        lines(
            "Dead letters by reason",
            "cps",
            (
                "sum by (reason) (rate(headwater_dead_letters_total"
                f"{{{SHARD}}}[$__rate_interval]))",
                "{{reason}}",
            ),
            about="Exemplars name topic, partition and offset of the newest one.",
        ),
        lines(
            "Dead letters among the last 1,000 records",
            "short",
            (f"headwater_recent_dead_letters{{{SHARD}}}", "shard {{shard}}"),
            (f"1000 * headwater_breaker_open{{{SHARD}}}", "learning is stopped, shard {{shard}}"),
        ),
        lines(
            "Bounds reached",
            "cps",
            (
                f"sum by (bound) (rate(headwater_overflow_total{{{SHARD}}}[$__rate_interval]))",
                "{{bound}}",
            ),
            (f"headwater_unread_partitions{{{SHARD}}}", "unread partitions, shard {{shard}}"),
            (
                f"rate(headwater_future_timestamps_total{{{SHARD}}}[$__rate_interval])",
                "timestamps of the future a second, shard {{shard}}",
            ),
        ),
        lines(
            "Snapshots that failed, in an hour",
            "short",
            (
                f"sum by (place) (increase(headwater_snapshot_failures_total{{{SHARD}}}[1h]))",
                "{{place}}",
            ),
        ),
        lines(
            "The HTTP server and the log",
            "short",
            (f"headwater_http_open_pages{{{OF}}}", "open pages, {{instance}}"),
            (
                f"60 * rate(headwater_http_refused_total{{{OF}}}[$__rate_interval])",
                "{{reason}} refused a minute, {{instance}}",
            ),
            (
                f"60 * rate(headwater_log_lines_left_out_total{{{OF}}}[$__rate_interval])",
                "log lines left out a minute, {{instance}}",
            ),
        ),
        table(
            "Running",
            "short",
            (f"headwater_build_info{{{OF}}}", "{{version}}"),
            keep=["instance", "version"],
        ),
    ],
}


def placed(rows: dict[str, list[Panel]]) -> list[Panel]:
    """The panels from left to right, a titled row each group."""
    out: list[Panel] = []
    y = 0
    for title, panels in rows.items():
        out.append(
            {
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
                "panels": [],
                "id": len(out) + 1,
            }
        )
        x, y, height = 0, y + 1, 0
        for each in panels:
            at = each["gridPos"]
            if x + at["w"] > 24:
                x, y, height = 0, y + height, 0
            out.append({**each, "id": len(out) + 1, "gridPos": {**at, "x": x, "y": y}})
            x, height = x + at["w"], max(height, at["h"])
        y += height
    return out


def variable(name: str, label: str, query: str) -> dict[str, Any]:
    """A choice among the values of a label; all of them at first."""
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
    """The window of the scores that recording rules make."""
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
    source = {
        "type": "datasource",
        "name": "source",
        "label": "Data source",
        "query": "prometheus",
        "current": {"selected": True, "text": "Prometheus", "value": "prometheus"},
    }
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
        "templating": {"list": [source, jobs, shards, *windows]},
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "title": "headwater",
                "tags": ["headwater"],
                "asDropdown": False,
                "includeVars": True,
                "keepTime": True,
                "targetBlank": False,
                "icon": "external link",
                "tooltip": "",
                "url": "",
            }
        ],
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


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, made in dashboards().items():
        (FOLDER / name).write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
