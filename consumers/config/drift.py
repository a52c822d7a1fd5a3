"""[drift]: what is watched and what an alarm does, checked by the code that uses it."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from consumers.config.sections import Section
from consumers.config.units import finite
from stream.data.schema import Schema
from stream.drift.parameters import DETECTORS
from stream.drift.rule import LONGEST_KEPT, Action, DriftRule, MonitorRule

__all__ = ["DetectorConfig", "DriftConfig"]

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
