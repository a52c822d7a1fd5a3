"""Every metric there is: name, type, labels, meaning, and how it is read.

Rule: one entry per metric. A metric of the view needs nothing but its entry. A metric of the
process needs its entry and the line that counts it (`ProcessFacts`). `docs/metrics.md` is `page()`;
a test checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from consumers.base.errors import DEAD_LETTER_REASONS, SELDOM_REASONS
from consumers.shard.views import LabelView, RiskView
from consumers.telemetry.advice import only_one_class
from consumers.telemetry.fields import FIELD_METRICS
from consumers.telemetry.optional import (
    BUDGET_METRICS,
    CHALLENGER_METRICS,
    DRIFT_METRICS,
    KEY_METRICS,
    MIX_METRICS,
    REPORTER_METRICS,
    label_outcomes,
)
from consumers.telemetry.process import age, counted, kept_back, lag, named, newest, observed
from consumers.telemetry.scores import RISK_METRICS, SCORE_METRICS
from consumers.telemetry.spec import (
    MAX_CLASSES,
    OTHER,
    BucketCounts,
    MetricSpec,
    Read,
    Sample,
    ScrapeView,
    by_key,
    class_names,
    of_shard,
)
from stream.join.label_delay import DELAY_BOUNDS_MS, OUTCOMES, SELDOM

__all__ = ["BUCKETS", "EXEMPLARS_OF", "EXEMPLAR_TOPIC", "METRICS", "REFUSALS", "page"]

EXEMPLARS_OF = "headwater_dead_letters_total"  # by the last label, the reason
EXEMPLAR_TOPIC = 79  # characters: OpenMetrics allows 128 in all, names and numbers included
# Reasons of rejected requests: too many pages, connections, questions to the model or logins to
# check; a head that is too long; a Host that is not allowed; a page of another site; a missing or
# wrong password or token.
REFUSALS = (
    *("pages", "connections", "questions", "logins", "head", "host", "origin", "password"),
    *("token", "slow", "requests"),
)
BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _of_labels(value: Callable[[LabelView], float | BucketCounts | None]) -> Read:
    """A number of predictions and their labels."""

    def read(look: ScrapeView) -> list[Sample] | None:
        labels = look.view.labelling
        return None if labels is None else [(look.shard, value(labels))]

    return read


def _delays(labels: LabelView) -> BucketCounts:
    bounds = [bound / 1000 for bound in DELAY_BOUNDS_MS]
    return BucketCounts(bounds, labels.delays, labels.delay_ms / 1000)


def _estimate(look: ScrapeView) -> list[Sample] | None:
    labels = look.view.labelling
    return None if labels is None else [(look.champion, labels.estimate.accuracy)]


def _estimate_errors(look: ScrapeView) -> list[Sample] | None:
    labels = look.view.labelling
    if labels is None:
        return None
    return [((*look.champion, window), error) for window, error in labels.estimate.errors.items()]


def _offsets(look: ScrapeView) -> Iterator[Sample]:
    for partition, offset in look.view.positions.items():
        yield (*look.shard, partition.topic, str(partition.number)), offset


def _unscored(look: ScrapeView) -> Iterator[Sample]:
    return ((model, quality.unscored) for model, quality in look.models())


def _confusion(look: ScrapeView) -> Iterator[Sample]:
    """Of the champion, and of challengers if configured."""
    for model, quality in look.models():
        if model != look.champion and not look.confusions:
            continue
        names = class_names(quality.classes, look.max_classes)
        if len(quality.classes) > len(names):
            names.append(OTHER)
        counts = _fold(quality.confusion, len(names)).tolist()
        for t, true in enumerate(names):
            for p, predicted in enumerate(names):
                yield (*model, true, predicted), counts[t][p]


def _fold(confusion: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The counts as (size, size): the last row and column have the sums of all other classes.

    The confusion can be smaller than the classes, because a learned class may not be scored yet.
    """
    folded = np.zeros((size, size), dtype=np.int64)
    if size:
        to = np.minimum(np.arange(len(confusion)), size - 1)
        np.add.at(folded, (to[:, None], to[None, :]), confusion)
    return folded


def _counted(value: Callable[[RiskView], int]) -> Read:
    """A count of decisions; absent without decisions."""

    def read(look: ScrapeView) -> list[Sample] | None:
        risk = look.view.risk
        return None if risk is None else [(look.champion, value(risk))]

    return read


METRICS = (
    MetricSpec(
        "headwater_records_total",
        "counter",
        ("shard",),
        "Records consumed: observations and labels, dead letters among them.",
        of_shard(lambda view: view.records),
    ),
    MetricSpec(
        "headwater_observations_total",
        "counter",
        ("shard",),
        "Observations consumed.",
        of_shard(lambda view: view.observations),
    ),
    MetricSpec(
        "headwater_labels_total",
        "counter",
        ("shard", "outcome"),
        "Outcomes of labels, and of observations that waited for a label.",
        by_key(label_outcomes, [o for o in OUTCOMES if o not in SELDOM]),
    ),
    MetricSpec(
        "headwater_only_one_class",
        "gauge",
        ("shard",),
        "1 while all labels learned so far, at least 100, are of one class.",
        of_shard(lambda view: int(only_one_class(view) is not None)),
    ),
    MetricSpec(
        "headwater_predictions_total",
        "counter",
        ("shard",),
        "Predictions published.",
        of_shard(lambda view: view.predictions),
    ),
    MetricSpec(
        "headwater_learned_total",
        "counter",
        ("shard",),
        "Records the model learned from.",
        of_shard(lambda view: view.learned),
    ),
    MetricSpec(
        "headwater_dead_letters_total",
        "counter",
        ("shard", "reason"),
        "Records that were rejected and written to the dead-letter topic, by reason.",
        # Most services have neither schemas nor reporters nor corrections, so those reasons have no
        # series before the first record.
        by_key(
            lambda view: view.dead_letters,
            [r for r in DEAD_LETTER_REASONS if r not in SELDOM_REASONS],
        ),
    ),
    *FIELD_METRICS,
    MetricSpec(
        "headwater_cut_texts_total",
        "counter",
        ("shard",),
        "JSON observations with a text that a program cut within a character (half of a surrogate "
        "pair, as of an emoji), which was read with U+FFFD there.",
        of_shard(lambda view: view.read_otherwise.get("cut", 0)),
    ),
    MetricSpec(
        "headwater_numbers_as_text_total",
        "counter",
        ("shard",),
        "Texts that were read as numbers, in the fields of `[input] numbers_as_text`.",
        of_shard(lambda view: view.read_otherwise.get("converted", 0)),
    ),
    MetricSpec(
        "headwater_ignored_records_total",
        "counter",
        ("shard",),
        "Records that the configuration leaves out, and that are no dead letters: tombstones and "
        "change events of other operations.",
        of_shard(lambda view: view.read_otherwise.get("ignored", 0)),
    ),
    MetricSpec(
        "headwater_mail_faults_total",
        "counter",
        ("shard", "fault"),
        "Mails that are broken or beyond a bound, and were read as far as possible, by fault (see "
        "records.md); only if the records are mails.",
        by_key(lambda view: view.mail_faults),
    ),
    MetricSpec(
        "headwater_overflow_total",
        "counter",
        ("shard", "bound"),
        "Values that were refused or dropped because a bound was reached, by bound.",
        by_key(lambda view: view.overflows),
    ),
    MetricSpec(
        "headwater_pending_labels",
        "gauge",
        ("shard",),
        "Observations that were predicted and wait for their label.",
        of_shard(lambda view: view.pending),
    ),
    MetricSpec(
        "headwater_pending_oldest_seconds",
        "gauge",
        ("shard",),
        "Age of the oldest observation that waits for a label, in stream time; absent without one.",
        _of_labels(lambda labels: _seconds(labels.waited_ms)),
    ),
    MetricSpec(
        "headwater_label_coverage_ratio",
        "gauge",
        ("shard",),
        "Share of labelled predictions among those that no longer wait for a label.",
        _of_labels(lambda labels: labels.coverage),
    ),
    MetricSpec(
        "headwater_label_delay_seconds",
        "histogram",
        ("shard",),
        "Stream time from an observation to its label; 0 if the label arrived first. Counts "
        "predictions whose label arrived in time.",
        _of_labels(_delays),
    ),
    MetricSpec(
        "headwater_pending_accuracy_estimate_ratio",
        "gauge",
        ("shard", "model"),
        "ESTIMATE, not a measurement: mean probability of the predicted class over predictions "
        "that wait for a label. It is their accuracy if the model is calibrated.",
        _estimate,
    ),
    MetricSpec(
        "headwater_pending_accuracy_estimate_error_ratio",
        "gauge",
        ("shard", "model", "window"),
        "The estimate for predictions that have been labelled since, minus their true accuracy; "
        "near 0 if the estimate can be trusted.",
        _estimate_errors,
    ),
    MetricSpec(
        "headwater_breaker_open",
        "gauge",
        ("shard",),
        "1 while learning is stopped because too many of the last 1,000 records were dead letters.",
        of_shard(lambda view: int(view.held_back)),
    ),
    MetricSpec(
        "headwater_recent_dead_letters",
        "gauge",
        ("shard",),
        "Dead letters among the last 1,000 observations and labels.",
        of_shard(lambda view: view.recent_dead_letters),
    ),
    MetricSpec(
        "headwater_early_labels",
        "gauge",
        ("shard",),
        "Labels that arrived before their observation and wait for it.",
        of_shard(lambda view: view.early),
    ),
    MetricSpec(
        "headwater_last_record_timestamp_seconds",
        "gauge",
        ("shard",),
        "Timestamp of the newest record consumed (stream time), in seconds since the epoch.",
        of_shard(lambda view: _seconds(view.stream_time)),
    ),
    MetricSpec(
        "headwater_committed_offset",
        "gauge",
        ("shard", "topic", "partition"),
        "Offset of the next record to consume, as committed.",
        _offsets,
    ),
    MetricSpec(
        "headwater_input_lag_records",
        "gauge",
        ("shard", "topic", "partition"),
        "Records between the committed offset and the newest known end of an input, which is the "
        "last stable offset on Kafka.",
        process=lag,
    ),
    MetricSpec(
        "headwater_input_uncommitted_records",
        "gauge",
        ("shard", "topic", "partition"),
        "Records of an input that cannot be read yet because a producer's transaction is open: "
        "from the last stable offset to the high watermark. Add `headwater_input_lag_records` for "
        "the lag behind the high watermark.",
        process=kept_back(lambda found: found.records),
    ),
    MetricSpec(
        "headwater_input_uncommitted_seconds",
        "gauge",
        ("shard", "topic", "partition"),
        "How long the oldest of these open transactions has been observed; 0 without one.",
        process=kept_back(lambda found: found.seconds),
    ),
    MetricSpec(
        "headwater_unread_partitions",
        "gauge",
        ("shard",),
        "Added input partitions that are not read because `[scale] shards` does not allow it.",
        process=newest,
    ),
    MetricSpec(
        "headwater_unscored_total",
        "counter",
        ("shard", "model"),
        "Labelled predictions without a class, because no class was known; they are in no score.",
        _unscored,
    ),
    MetricSpec(
        "headwater_confusion_total",
        "counter",
        ("shard", "model", "true", "predicted"),
        "Scored predictions, by the true class and the predicted one.",
        _confusion,
    ),
    *SCORE_METRICS,
    *RISK_METRICS,
    *KEY_METRICS,
    MetricSpec(
        "headwater_decision_scored_total",
        "counter",
        ("shard", "model"),
        "Decisions whose true class is known; the risk is their mean loss.",
        _counted(lambda risk: risk.scored),
    ),
    MetricSpec(
        "headwater_decision_rejected_total",
        "counter",
        ("shard", "model"),
        "Observations that were rejected because every action would have cost more.",
        _counted(lambda risk: risk.rejected),
    ),
    *BUDGET_METRICS,
    *REPORTER_METRICS,
    *MIX_METRICS,
    *CHALLENGER_METRICS,
    MetricSpec(
        "headwater_expert_weight",
        "gauge",
        ("shard", "expert"),
        "The weight of each learner of a mixture, such as `auto`. The weights sum to 1.",
        by_key(lambda view: view.experts),
    ),
    *DRIFT_METRICS,
    MetricSpec(
        "headwater_commit_seconds",
        "histogram",
        ("shard",),
        "Time from the end of a poll to its acknowledged commit.",
        process=observed(BUCKETS),
    ),
    MetricSpec(
        "headwater_poll_age_seconds",
        "gauge",
        ("shard",),
        "Time since the loop last polled its inputs; it polls at least once a second.",
        process=age,
    ),
    MetricSpec(
        "headwater_commit_age_seconds",
        "gauge",
        ("shard",),
        "Time since the last commit; absent before the first commit of the process.",
        process=age,
    ),
    MetricSpec(
        "headwater_label_age_seconds",
        "gauge",
        ("shard",),
        "Time since the last commit with a label in it, whatever its outcome; absent before the "
        "first such commit of the process.",
        process=age,
    ),
    MetricSpec(
        "headwater_snapshot_age_seconds",
        "gauge",
        ("shard",),
        "Time since the newest snapshot was written; absent without a snapshot.",
        process=age,
    ),
    MetricSpec(
        "headwater_future_timestamps_total",
        "counter",
        ("shard",),
        "Predictions and dead letters written with the clock of their commit, because the "
        "timestamp of their record is later.",
        process=counted(),
    ),
    MetricSpec(
        "headwater_snapshot_failures_total",
        "counter",
        ("shard", "place"),
        "Snapshots, or copies of them, that could not be written.",
        process=counted("local", "copy"),
    ),
    MetricSpec(
        "headwater_replay_remaining_records",
        "gauge",
        ("shard",),
        "Journaled records to replay before the service is live; 0 when it is live.",
        process=newest,
    ),
    MetricSpec(
        "headwater_kernels_waiting",
        "gauge",
        (),
        "Kernels that run as Python until their machine code is compiled; 0 when all are machine "
        "code.",
        server=newest,
    ),
    MetricSpec(
        "headwater_http_open_pages",
        "gauge",
        (),
        "Open live pages; at most 128 are served.",
        server=newest,
    ),
    MetricSpec(
        "headwater_http_refused_total",
        "counter",
        ("reason",),
        "Rejected requests, and connections closed in favour of others, by reason.",
        server=counted(*REFUSALS),
    ),
    MetricSpec(
        "headwater_log_lines_left_out_total",
        "counter",
        (),
        "Log lines left out because there were too many like them.",
        server=newest,
    ),
    MetricSpec(
        "headwater_build_info",
        "gauge",
        ("version",),
        "Always 1; the label is the version.",
        process=named,
    ),
)


def page() -> str:
    """The text of `docs/metrics.md`.

    Examples
    --------
    >>> page().startswith("# Metrics")
    True
    """
    rows = (
        f"| `{s.name}` | {s.type} | {', '.join(f'`{name}`' for name in s.labels)} | {s.help} |"
        for s in METRICS
    )
    return _PAGE.format(
        rows="\n".join(rows),
        outcomes=", ".join(f"`{o}`" for o in OUTCOMES),
        reasons=", ".join(f"`{r}`" for r in DEAD_LETTER_REASONS),
        max_classes=MAX_CLASSES,
        topic=EXEMPLAR_TOPIC,
        buckets=", ".join(f"{b:g}" for b in BUCKETS),
        delays=", ".join(f"{b / 1000:g}" for b in DELAY_BOUNDS_MS),
    )


_PAGE = """\
# Metrics

`/metrics` serves these metrics as Prometheus text or OpenMetrics, by the scraper's choice. All
formats together use at most 1 % of a processor, because a response that took 6 ms to compute is
reused for 0.6 s. A scraper that accepts no supported version of OpenMetrics gets text 0.0.4. This
page is generated from `consumers/telemetry/metrics.py`.

| name | type | labels | meaning |
|---|---|---|---|
{rows}

- `outcome` is one of {outcomes}.
- `reason` is one of {reasons}.
- `window` is `all`, `last_1000` (the last 1,000 scored predictions; `[telemetry] window` sets the
  number) or `fading` (each prediction has 0.1 % less weight than the next one). Scores that
  need every single prediction, and some baselines, have `last_1000` only. `baseline` is `majority`,
  `no_change` or `prior`; `average` is `macro`. [quality.md](quality.md) explains each score and
  its limits.
- `place` is `local` or `copy` (`[snapshots] copy_to`).
- `true` and `predicted` are classes. The first {max_classes} classes learned (`[telemetry]
  max_classes`) keep their names; all others are `__other__`. A class named `__other__` appears as
  `___other__`. Names are truncated to 100 characters.
- Drift series exist only with `[drift]`, and restart at 0 when it changes. `on` is `error`,
  `log_loss`, `score` or `feature:NAME` (truncated to 100 characters); `action` is `forget`, `reset`
  or `challenger`. When a model restarts, its overflow counters restart at 0.
- `share` is 0.01, 0.05, 0.25 or 0.5 of the keys. No series has the name of a key: the live page and
  `/status` have the ten worst keys. See
  [howto/keys.md](howto/keys.md#for-which-keys-is-the-model-bad).
- Budget series exist only with `[decision] max_false_positive_rate`, and restart when it changes.
- Decision series exist only with `[decision]` `losses` or `reject`. When the losses change,
  risk and scored decisions restart.
- The buckets of `headwater_commit_seconds` end at {buckets} seconds, those of
  `headwater_label_delay_seconds` at {delays}.
- Every prediction is labelled (`headwater_label_delay_seconds_count`), pending, `expired`,
  `evicted` or a `duplicate_observation`. The last three will never get a label. The coverage means
  little until the first predictions could expire, because the longest delays are not counted yet.
- The error of `headwater_pending_accuracy_estimate_ratio` has the windows `all` and `last_1000`
  (the last 1,000 predictions that waited and were labelled). Subtract it from the estimate for a
  better one. Neither notices a change in how classes depend on features.
- `reason` of `headwater_http_refused_total` is `pages`, `questions` (explanations for the page),
  `connections` (closed for newer ones), `head` (too long, or two lengths of a body), `host` (not
  allowed), `origin` (a page of another site), `password` and `token` (missing or wrong,
  [routes.md](routes.md)), `logins` (too many waiting), `requests` (429 of the API) or `slow` (a
  body that did not arrive in 8 s, 408).
- `model` is the name in predictions: the service's name for `[model]`, or a challenger's name.
  `bound` is `lower`, `mean` or `upper`; `right` is `challenger` or `champion`; `what` is `refused`
  or `uncorrected`. Challengers have a confusion matrix only with `[telemetry]
  challenger_confusion`. The evidence restarts with every champion. See
  [challengers.md](challengers.md).

Totals and scores come from the committed state. They continue after a restart or a crash, and they
appear only when the service knows them. `headwater_commit_seconds`,
`headwater_future_timestamps_total` and `headwater_snapshot_failures_total` count from the start of
the process. A score without data has no series; it is never NaN. When another process takes over a
shard, the series end in this process and continue in the other. HTTP series count all shards of the
process.

In OpenMetrics, each series of `headwater_dead_letters_total` has the newest dead letter of its
reason as an exemplar: `topic` (its first {topic} characters), `partition` and `offset`.

The accuracy of the model now, and how much better it is than the best baseline:

```promql
headwater_accuracy_ratio{{window="last_1000"}}

headwater_accuracy_ratio{{window="last_1000"}}
  - max without (baseline) (headwater_baseline_accuracy_ratio{{window="last_1000"}})
```

The accuracy of the champion, and the challengers that are better:

```promql
headwater_accuracy_ratio{{window="last_1000"}}
  * on (instance, shard, model) group_left () (headwater_champion == 1)

headwater_challenger_e_value >= 20
```

Records per second, lag in records, and dead letters in the last hour:

```promql
rate(headwater_observations_total[5m])
sum by (topic) (headwater_input_lag_records)
increase(headwater_dead_letters_total[1h]) > 0
```
"""
