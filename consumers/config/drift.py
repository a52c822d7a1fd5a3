"""[drift]: what is watched and what an alarm does, checked by what will use it."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from consumers.config.sections import Section
from consumers.config.units import finite
from stream.data.schema import Schema
from stream.drift import DETECTORS, DriftRule, MonitorRule
from stream.drift.rule import LONGEST_KEPT, Action

__all__ = ["Detector", "Drift"]

_ACTIONS = Literal["alert", "forget", "reset", "challenger"]


class Detector(Section):
    """One detector: what it watches, its type, and its parameters beside them."""

    on: str
    type: str
    action: _ACTIONS | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _beside(cls, given: Any) -> Any:
        """Keys that are none of ours are parameters of the detector."""
        if not isinstance(given, dict) or "parameters" in given:
            return given
        own = {k: v for k, v in given.items() if k in cls.model_fields}
        return {**own, "parameters": {k: v for k, v in given.items() if k not in own}}

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        _ = self.rule("alert")  # here, not in [drift] alone: each faulty one is then told
        return self

    def rule(self, action: Action) -> MonitorRule:
        """The rule, `action` where it names none of its own."""
        for name, value in self.parameters.items():
            if not finite(value):
                raise ValueError(f"expected a finite number or text for {name!r}, got {value!r}")
        return MonitorRule(self.on, self.type, self.parameters, self.action or action)


class Drift(Section):
    """What tells that the world has changed, and what is done then. Off while it is empty."""

    detectors: Annotated[tuple[Detector, ...], Field(strict=False)] = Field(
        default=(),
        description='Tables `{on = "error", type = "ADWIN"}`, at most 20. `on`: `"error"` (0 or 1 '
        'a labelled prediction), `"log_loss"`, `"score"` (the largest probability of each '
        'prediction, labelled or not) or `"feature:NAME"` (a numeric one). `type`: '
        f"{', '.join(f'`{name}`' for name in DETECTORS)}; its parameters stand beside it, by "
        "river's names. `action`: one of its own. Empty: which change matters only you know; "
        "docs/drift.md tells how to choose.",
    )
    action: _ACTIONS = Field(
        default="alert",
        description="What an alarm does: `alert` (log, metrics, page), `forget` (the model begins "
        "anew with the last `keep` records it learned), `reset` (it begins anew with none), "
        "`challenger` (of the model and its challengers the one that did best of late speaks). "
        "`alert`: to drop what was learned is a decision.",
    )
    keep: int = Field(
        default=1000,
        ge=1,
        le=LONGEST_KEPT,
        description="How many records `forget` leaves. 1,000: about what a simple model needs to "
        "be good again; they are kept in memory.",
    )
    warm_up: int = Field(
        default=500,
        ge=0,
        lt=2**31,
        description="Values of `error`, `log_loss` and `score` that are passed over at the "
        "beginning and after `forget` and `reset`. 500: a model that has just begun changes by "
        "itself.",
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        _ = self.rule  # its message says what is wrong
        return self

    @property
    def rule(self) -> DriftRule:
        """What watches; nothing where nothing is configured."""
        monitors = tuple(detector.rule(self.action) for detector in self.detectors)
        return DriftRule(monitors, self.keep, self.warm_up) if monitors else DriftRule()

    def of(self, schema: Schema) -> DriftRule:
        """What watches a stream of these features.

        Raises
        ------
        ValueError
            Features that are no numbers of it, all of them.
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
