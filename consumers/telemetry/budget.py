"""The budget of false positives: its metrics, and its state in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from consumers.telemetry.spec import MetricSpec, Read, of_shard
from stream.data.schema import Label
from stream.decision import BudgetView
from stream.decision.risk import named

__all__ = ["BUDGET_METRICS", "budget_sentence"]

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


def _of(value: Callable[[BudgetView], float | None]) -> Read:
    """A number of the budget; absent without one."""
    return of_shard(lambda view: None if view.budget is None else value(view.budget))


BUDGET_METRICS = (
    MetricSpec(
        "headwater_budget_rate_ratio",
        "gauge",
        ("shard",),
        "The budget: the share of records of other labels that may be flagged at most.",
        _of(lambda budget: float(budget.rule.rate)),
    ),
    MetricSpec(
        "headwater_budget_threshold",
        "gauge",
        ("shard",),
        "Probability from which a record is flagged; absent while nothing is flagged.",
        _of(lambda budget: budget.threshold),
    ),
    MetricSpec(
        "headwater_budget_missing_labels",
        "gauge",
        ("shard",),
        "Labelled records of other labels that are needed at least before anything is flagged.",
        _of(lambda budget: budget.missing),
    ),
    MetricSpec(
        "headwater_budget_others_total",
        "counter",
        ("shard",),
        "Labelled records of other labels than the flagged one: the evidence. A correction may "
        "take one back.",
        _of(lambda budget: budget.others),
    ),
    MetricSpec(
        "headwater_budget_false_positives_total",
        "counter",
        ("shard",),
        "Of these, how many were flagged.",
        _of(lambda budget: budget.false_positives),
    ),
    MetricSpec(
        "headwater_budget_flagged_total",
        "counter",
        ("shard",),
        "Records that were flagged, labelled or not.",
        _of(lambda budget: budget.flagged),
    ),
    MetricSpec(
        "headwater_budget_withheld_total",
        "counter",
        ("shard",),
        "Records above the threshold that were not flagged, because the budget was spent.",
        _of(lambda budget: budget.withheld),
    ),
    MetricSpec(
        "headwater_budget_unsure_total",
        "counter",
        ("shard",),
        "Records without an action: probable enough for `unsure`, or before `min_learned`.",
        _of(lambda budget: budget.unsure),
    ),
)
