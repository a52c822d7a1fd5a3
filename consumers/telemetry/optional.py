"""The metrics of what may be off: challengers, drift, budget, reporters, keys and mix.

Metrics of drift describe [model], because drift is watched there, whichever model is champion. A
reporter or a key is never a label of a metric, because such names come from outside and have no
bound; the live page names the worst keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from consumers.shard.views import MIX_REFUSALS, ChallengerView, MixView, MonitorView, ShardView
from consumers.telemetry.process import age
from consumers.telemetry.spec import (
    MetricSpec,
    Read,
    Sample,
    ScrapeView,
    by_key,
    class_names,
    of_shard,
)
from stream.contest.compare import ComparisonView
from stream.data.schema import Label
from stream.decision import BudgetView
from stream.decision.risk import named
from stream.drift.rule import CHANGES
from stream.evaluate.key_scores import FEWEST, KeyScoresView
from stream.join.label_delay import REPORTED
from stream.keyed import KeysView

__all__ = [
    "BUDGET_METRICS",
    "CHALLENGER_METRICS",
    "DRIFT_METRICS",
    "KEY_METRICS",
    "MIX_AGE",
    "MIX_METRICS",
    "REPORTER_METRICS",
    "budget_sentence",
    "label_outcomes",
]


def _champion(look: ScrapeView) -> Iterator[Sample]:
    yield look.champion, 1
    yield from (((*look.shard, challenger.name), 0) for challenger in look.view.challengers)


def _of_each(of: Callable[[ChallengerView], Iterable[Sample]]) -> Read:
    """Samples of each challenger, with its labels in addition to shard and model."""
    return lambda look: (
        ((*look.shard, challenger.name, *labels), value)
        for challenger in look.view.challengers
        for labels, value in of(challenger)
    )


def _difference(found: ComparisonView) -> list[Sample]:
    bounds = {"lower": found.lower, "mean": found.difference, "upper": found.upper}
    return [((bound,), value) for bound, value in bounds.items()]


def _discordant(found: ComparisonView) -> list[Sample]:
    return [(("challenger",), found.won), (("champion",), found.lost)]


CHALLENGER_METRICS = (
    MetricSpec(
        "headwater_champion",
        "gauge",
        ("shard", "model"),
        "1 for the model whose predictions are written, 0 for its challengers.",
        _champion,
    ),
    MetricSpec(
        "headwater_promotions_total",
        "counter",
        ("shard",),
        "Promotions by the rule of [promotion].",
        of_shard(lambda view: view.promotions),
    ),
    MetricSpec(
        "headwater_challenger_e_value",
        "gauge",
        ("shard", "model"),
        "Evidence that a challenger is right more often than the champion; 1: no evidence, or "
        "undecided.",
        _of_each(lambda one: [((), one.comparison.e_value)]),
    ),
    MetricSpec(
        "headwater_challenger_undecided",
        "gauge",
        ("shard", "model"),
        "1 while the records so far cannot show whether a challenger is better, else 0.",
        _of_each(lambda one: [((), int(bool(one.comparison.undecided)))]),
    ),
    MetricSpec(
        "headwater_challenger_brier_difference",
        "gauge",
        ("shard", "model", "bound"),
        "Mean of the champion's Brier score minus the challenger's, and its 95 % interval.",
        _of_each(lambda one: _difference(one.comparison)),
    ),
    MetricSpec(
        "headwater_challenger_discordant_total",
        "counter",
        ("shard", "model", "right"),
        "Records on which only one of challenger and champion was right, since the last change.",
        _of_each(lambda one: _discordant(one.comparison)),
    ),
    MetricSpec(
        "headwater_challenger_skipped_total",
        "counter",
        ("shard", "model", "what"),
        "Records that a challenger could not process, and corrections that it could not apply.",
        _of_each(lambda one: [((what,), n) for what, n in one.skipped.items()]),
    ),
)


def _of_monitors(value: Callable[[MonitorView], int]) -> Read:
    """A number of each detector."""

    def read(look: ScrapeView) -> Iterator[Sample]:
        drift = look.view.drift
        if drift is not None:
            watched = list(dict.fromkeys(monitor.on for monitor in drift.monitors))
            on = dict(zip(watched, class_names(watched, len(watched)), strict=True))
            for monitor in drift.monitors:
                at = (*look.shard, drift.model, monitor.detector, on[monitor.on])
                yield at, value(monitor)

    return read


def _actions(look: ScrapeView) -> Iterator[Sample]:
    drift = look.view.drift
    if drift is not None:
        for action, times in (dict.fromkeys(CHANGES, 0) | dict(drift.actions)).items():
            yield (*look.shard, drift.model, action), times


DRIFT_METRICS = (
    MetricSpec(
        "headwater_drift_alarms_total",
        "counter",
        ("shard", "model", "detector", "on"),
        "Drift alarms, by detector and watched value.",
        _of_monitors(lambda monitor: monitor.alarms),
    ),
    MetricSpec(
        "headwater_drift_detected",
        "gauge",
        ("shard", "model", "detector", "on"),
        "1 during the 1,000 values after an alarm of the detector, else 0.",
        _of_monitors(lambda monitor: int(monitor.detected)),
    ),
    MetricSpec(
        "headwater_drift_actions_total",
        "counter",
        ("shard", "model", "action"),
        "Restarts of the model and changes of the champion by drift alarms, by action.",
        _actions,
    ),
)


SHOWN = 5  # labels in a sentence


def budget_sentence(budget: BudgetView, classes: Sequence[Label]) -> str:
    """Since which evidence what is flagged, or how much evidence is missing.

    `classes` are those that were learned: there is no evidence before the flagged one is.
    """
    label, others = repr(budget.rule.label), f"{budget.others:,} labelled records of other labels"
    if not budget.ready:
        (mine, rest), least = budget.learned, budget.rule.min_learned
        return (
            f"every record is unsure until {least:,} labels of {label} and {least:,} of others are "
            f"learned: {mine:,} and {rest:,} so far"
        )
    if not budget.others and budget.rule.label not in map(named, classes):
        known = ", ".join(repr(named(each)) for each in classes[:SHOWN])
        more = ", …" if len(classes) > SHOWN else ""
        learned = f"the labels so far are {known}{more}" if classes else "no label was learned"
        return f"nothing is flagged as {label} yet: this label has not been learned; {learned}"
    unsure = f", {budget.unsure:,} unsure" if budget.unsure else ""
    if budget.threshold is None:
        missing = f"at least {budget.missing:,} more are needed"
        return f"nothing is flagged as {label} yet: {others}, {missing}{unsure}"
    withheld = f", {budget.withheld:,} withheld{unsure}" if budget.withheld else unsure
    return (
        f"flagged as {label} from a probability of {budget.threshold:.6g}: {budget.flagged:,}"
        f"{withheld}; {budget.false_positives:,} of {others} were flagged"
    )


def _of_budget(value: Callable[[BudgetView], float | None]) -> Read:
    """A number of the budget; absent without one."""
    return of_shard(lambda view: None if view.budget is None else value(view.budget))


BUDGET_METRICS = (
    MetricSpec(
        "headwater_budget_rate_ratio",
        "gauge",
        ("shard",),
        "The budget: the share of records of other labels that may be flagged at most.",
        _of_budget(lambda budget: float(budget.rule.rate)),
    ),
    MetricSpec(
        "headwater_budget_threshold",
        "gauge",
        ("shard",),
        "Probability from which a record is flagged; absent while nothing is flagged.",
        _of_budget(lambda budget: budget.threshold),
    ),
    MetricSpec(
        "headwater_budget_missing_labels",
        "gauge",
        ("shard",),
        "Labelled records of other labels that are needed at least before anything is flagged.",
        _of_budget(lambda budget: budget.missing),
    ),
    MetricSpec(
        "headwater_budget_others_total",
        "counter",
        ("shard",),
        "Labelled records of other labels than the flagged one: the evidence. A correction may "
        "take one back.",
        _of_budget(lambda budget: budget.others),
    ),
    MetricSpec(
        "headwater_budget_false_positives_total",
        "counter",
        ("shard",),
        "Of these, how many were flagged.",
        _of_budget(lambda budget: budget.false_positives),
    ),
    MetricSpec(
        "headwater_budget_flagged_total",
        "counter",
        ("shard",),
        "Records that were flagged, labelled or not.",
        _of_budget(lambda budget: budget.flagged),
    ),
    MetricSpec(
        "headwater_budget_withheld_total",
        "counter",
        ("shard",),
        "Records above the threshold that were not flagged, because the budget was spent.",
        _of_budget(lambda budget: budget.withheld),
    ),
    MetricSpec(
        "headwater_budget_unsure_total",
        "counter",
        ("shard",),
        "Records without an action: probable enough for `unsure`, or before `min_learned`.",
        _of_budget(lambda budget: budget.unsure),
    ),
)


def label_outcomes(view: ShardView) -> Mapping[str, int]:
    """Label outcomes; with reporters all of theirs, from the first view."""
    if view.reporters is None:
        return view.labels
    return {**dict.fromkeys(REPORTED, 0), **view.labels}


REPORTER_METRICS = (
    MetricSpec(
        "headwater_reporters",
        "gauge",
        ("shard",),
        "Reporters that are remembered; only with `[labels] reporter`.",
        of_shard(lambda view: None if view.reporters is None else view.reporters.known),
    ),
    MetricSpec(
        "headwater_reporter_verdicts_total",
        "counter",
        ("shard", "verdict"),
        "Labels that a later reporter of the same observation confirmed (`agreed`) or contradicted "
        "(`disagreed`); only with `[labels] reporter`.",
        by_key(
            lambda view: (
                {}
                if view.reporters is None
                else {"agreed": view.reporters.agreed, "disagreed": view.reporters.disagreed}
            )
        ),
    ),
)


ENOUGH = f"with at least {FEWEST} scored records"


def _of_keys(value: Callable[[KeyScoresView], int]) -> Read:
    """A number of keys of the champion; absent without `[model] per`."""

    def read(look: ScrapeView) -> list[Sample] | None:
        keys = look.view.keys
        return None if keys is None else [(look.champion, value(keys.view))]

    return read


def _accuracies(look: ScrapeView) -> Iterator[Sample]:
    if look.view.keys is not None:
        for quantile, accuracy in look.view.keys.view.accuracies.items():
            yield (*look.champion, f"{quantile:g}"), accuracy


def _on_disk(value: Callable[[KeysView], float]) -> Read:
    """A number of the keys; absent unless they are on disk."""
    return of_shard(lambda v: None if v.keys_on_disk is None else value(v.keys_on_disk))


KEY_METRICS = (
    MetricSpec(
        "headwater_scored_keys",
        "gauge",
        ("shard", "model"),
        f"Keys {ENOUGH}, without quiet ones; only with `[model] per`.",
        _of_keys(lambda keys: keys.compared),
    ),
    MetricSpec(
        "headwater_keys_worse_than_guessing",
        "gauge",
        ("shard", "model"),
        "Of these, keys for which their usual label would be right more often than the model, "
        "beyond chance; only with `[model] per`. The live page names the worst keys.",
        _of_keys(lambda keys: keys.worse),
    ),
    MetricSpec(
        "headwater_key_accuracy_ratio",
        "gauge",
        ("shard", "model", "share"),
        "Accuracy that this share of these keys does not exceed, each over about its last 500 "
        "records; only with `[model] per`.",
        _accuracies,
    ),
    MetricSpec(
        "headwater_keys",
        "gauge",
        ("shard",),
        "Keys with a model; absent without `[model] keys_on_disk`, as are the others of keys.",
        _on_disk(lambda keys: keys.known),
    ),
    MetricSpec(
        "headwater_keys_in_memory",
        "gauge",
        ("shard",),
        "Keys whose model is in memory.",
        _on_disk(lambda keys: keys.in_memory),
    ),
    MetricSpec(
        "headwater_keys_loaded_total",
        "counter",
        ("shard",),
        "Models of keys that were read from disk. If it grows nearly as fast as the records, a "
        "larger `[model] max_state_bytes` saves time.",
        _on_disk(lambda keys: keys.loads),
    ),
    MetricSpec(
        "headwater_keys_evicted_total",
        "counter",
        ("shard",),
        "Models of keys that left memory, because the least recently used ones make room.",
        _on_disk(lambda keys: keys.evictions),
    ),
    MetricSpec(
        "headwater_keys_disk_bytes",
        "gauge",
        ("shard",),
        "Size of the file of keys beside the snapshots.",
        _on_disk(lambda keys: keys.size),
    ),
)


MIX_AGE = "headwater_mix_age_seconds"


def _of_mix(value: Callable[[MixView], float]) -> Read:
    """A number of the mix; absent for a model that does not mix."""

    def read(look: ScrapeView) -> list[Sample] | None:
        mix = look.view.mix
        return None if mix is None else [(look.shard, value(mix))]

    return read


def _refused(look: ScrapeView) -> list[Sample] | None:
    mix = look.view.mix
    if mix is None:
        return None
    return [((*look.shard, reason), mix.refused.get(reason, 0)) for reason in MIX_REFUSALS]


MIX_METRICS = (
    MetricSpec(
        "headwater_mix_peers",
        "gauge",
        ("shard",),
        "Other shards whose statistics the shard predicts with; absent without `[scale] mix`.",
        _of_mix(lambda mix: len(mix.peers)),
    ),
    MetricSpec(
        "headwater_mix_peer_labels",
        "gauge",
        ("shard",),
        "Labels that the other shards had learned when they published.",
        _of_mix(lambda mix: mix.learned),
    ),
    MetricSpec(
        MIX_AGE,
        "gauge",
        ("shard",),
        "Time since the statistics were published that are the oldest of the other shards. It "
        "grows while that shard learns nothing, or is away; what it had learned stays.",
        process=age,
    ),
    MetricSpec(
        "headwater_mix_refused_total",
        "counter",
        ("shard", "reason"),
        "Statistics of other shards that were not taken over, by reason: of another `model`; "
        "labels of another kind (`label_kind`); more classes than allowed (`max_classes`); fields "
        "of another kind (`merge`).",
        _refused,
    ),
)
