"""[decision]: losses, the reject option and the budget, checked by the code that uses them.
[drift]: what is watched and what an alarm does, checked by the code that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field, field_validator, model_validator

from consumers.base.units import finite
from consumers.config.sections import Section
from stream.data.schema import Label, Schema
from stream.decision.risk import BayesDecision, named
from stream.decision.rule import Budget
from stream.drift.parameters import DETECTORS
from stream.drift.rule import LONGEST_KEPT, Action, DriftRule, MonitorRule

__all__ = ["DecisionConfig", "DetectorConfig", "DriftConfig", "FalsePositiveRateConfig"]


class FalsePositiveRateConfig(Section):
    """The label to flag, and the largest share of all other records that may be flagged."""

    label: str
    rate: float
    min_learned: int = 0
    unsure: float | None = None
    min_probability: float = 0.0

    @field_validator("label", mode="before")
    @classmethod
    def _as_named(cls, label: object) -> object:
        """`label = true` and `label = 1` name the label as `losses` does."""
        return named(label) if isinstance(label, bool | int) else label

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        _ = self.rule
        return self

    @property
    def rule(self) -> Budget:
        """The budget."""
        return Budget(self.label, self.rate, self.min_learned, self.unsure, self.min_probability)


class DecisionConfig(Section):
    """The action to take on a prediction, from the cost of each mistake. Off while empty."""

    losses: dict[str, dict[str, float]] | None = Field(
        default=None,
        description="A table for each action: the cost of the action for each true label, "
        "`losses.lend = {pays = 0, defaults = 10}`. Every action needs a cost for every label "
        "that any action names, except the label with the action's own name, which costs 0. A "
        "label that no action names does not affect the decision; the service warns of it. "
        "Default none: with `reject`, the labels are the actions and every mistake costs 1, "
        "because only you know the real costs.",
    )
    reject: float | None = Field(
        default=None,
        description="Cost of rejecting. The service rejects if that is less than the risk "
        "of every action. A value below the smallest loss is refused, because then every "
        "record would be rejected. Default none, because somebody has to handle the rejected "
        "cases.",
    )
    max_false_positive_rate: FalsePositiveRateConfig | None = Field(
        default=None,
        description="Flags a label at a threshold that keeps the false positive rate within a "
        'budget, `{label = "spam", rate = 0.001}`: of the records of all other labels at most this '
        "share is flagged. Nothing is flagged before there is evidence, about 3 / rate labelled "
        "records of other labels. With `unsure = 0.5` a record that is not flagged, and has at "
        "least this probability of the label, has no action. With `min_learned = 20` no record "
        "has an action before 20 labels of the label and 20 of others. With "
        "`min_probability = 0.5` no record below this probability of the label is flagged. "
        "Excludes `losses`, `reject`, `[labels] silence`, `[[challenger]]` and drift actions "
        "other than `alert`. docs/budget.md has the guarantee and its assumptions. Default none, "
        "because only you know the budget.",
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        _ = self.rule  # raises an error that names the wrong loss
        if self.max_false_positive_rate is not None and self.rule is not None:
            other = "reject" if self.losses is None else "losses"
            raise ValueError(
                f"max_false_positive_rate and {other} exclude each other, because each decides "
                "alone; remove one of them"
            )
        if self.reject is not None and self.reject < self._least:
            raise ValueError(
                f"reject = {self.reject:g} is less than any action can cost ({self._least:g}), so "
                "every record would be rejected; raise it"
            )
        return self

    @property
    def _least(self) -> float:
        """The lowest cost of an action; an action named like a label costs 0 there by default."""
        rows = self.losses or {}
        called = {label for row in rows.values() for label in row} & rows.keys()
        silent = [0.0 for action in called if action not in rows[action]]
        return min([loss for row in rows.values() for loss in row.values()] + silent, default=0.0)

    @property
    def named(self) -> frozenset[str] | None:
        """Every label that `losses` names; None if it need not name any."""
        if self.losses is None:
            return None
        return frozenset(self.losses).union(*self.losses.values())

    @property
    def rule(self) -> BayesDecision | None:
        """The decision rule; None if nothing is configured."""
        if self.losses is None and self.reject is None:
            return None
        losses = cast("Mapping[Label, Mapping[Label, float]] | None", self.losses)
        return BayesDecision(losses, self.reject)

    @property
    def budget(self) -> Budget | None:
        """The budget of false positives; None without one."""
        budget = self.max_false_positive_rate
        return None if budget is None else budget.rule


_ACTIONS = Literal["alert", "forget", "reset", "challenger"]


class DetectorConfig(Section):
    """One detector: what it watches, its type, and its parameters in the same table."""

    on: str
    type: str
    action: _ACTIONS | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _beside(cls, given: Any) -> Any:
        """Keys that this section does not know are parameters of the detector."""
        if not isinstance(given, dict) or "parameters" in given:
            return given
        own = {k: v for k, v in given.items() if k in cls.model_fields}
        return {**own, "parameters": {k: v for k, v in given.items() if k not in own}}

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        _ = self.rule("alert")  # here and in [drift], so that each faulty detector is reported
        return self

    def rule(self, action: Action) -> MonitorRule:
        """The rule, with `action` if the detector names no action."""
        for name, value in self.parameters.items():
            if not finite(value):
                raise ValueError(f"expected a finite number or text for {name!r}, got {value!r}")
        return MonitorRule(self.on, self.type, self.parameters, self.action or action)


class DriftConfig(Section):
    """What is watched for drift, and what an alarm does. Off while it is empty."""

    detectors: Annotated[tuple[DetectorConfig, ...], Field(strict=False)] = Field(
        default=(),
        description='Detectors, at most 20: tables `{on = "error", type = "ADWIN"}`. `on`: '
        '`"error"` (0 or 1 for each labelled prediction), `"log_loss"`, `"score"` (the largest '
        'probability of each prediction, labelled or not) or `"feature:NAME"` (a numeric feature). '
        f"`type`: {', '.join(f'`{name}`' for name in DETECTORS)}; parameters are written beside "
        "it, by river's names. `action`: overrides the section's. Default empty, because only you "
        "know which change matters; docs/drift.md helps to choose.",
    )
    action: _ACTIONS = Field(
        default="alert",
        description="What an alarm does. `alert`: log, metrics, page. `forget`: the model "
        "restarts with the last `keep` records it learned. `reset`: the model restarts empty. "
        "`challenger`: of the model and its challengers, the one with the lowest recent Brier "
        "score becomes champion. Default `alert`, because dropping what was learned is a "
        "decision for you.",
    )
    keep: int = Field(
        default=1000,
        ge=1,
        le=LONGEST_KEPT,
        description="Number of records that `forget` keeps; they are kept in memory. "
        "Default 1,000: about what a simple model needs to be good again.",
    )
    warm_up: int = Field(
        default=500,
        ge=0,
        lt=2**31,
        description="Number of values of `error`, `log_loss` and `score` that are ignored "
        "at the start and after `forget` and `reset`. Default 500, because a new model "
        "changes by itself.",
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        _ = self.rule  # raises an error that names the fault
        return self

    @property
    def rule(self) -> DriftRule:
        """The rules that are watched; empty if nothing is configured."""
        monitors = tuple(detector.rule(self.action) for detector in self.detectors)
        return DriftRule(monitors, self.keep, self.warm_up) if monitors else DriftRule()

    def of(self, schema: Schema) -> DriftRule:
        """The watch over a stream with these features.

        Raises
        ------
        ValueError
            Some watched features are not numeric features of the stream; names all of them.
        """
        wrong = []
        for name in self.rule.features:
            if name not in schema.numeric:
                near = get_close_matches(name, schema.numeric, n=1)
                hint = f"did you mean {near[0]!r}?" if near else "only numbers can be watched"
                wrong.append(f"no numeric feature {name!r}; {hint}")
        if wrong:
            raise ValueError(f"[drift] detectors: {'; '.join(wrong)}")
        return self.rule
