"""[decision]: losses and the reject option, checked by what will use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self, cast

from pydantic import Field, model_validator

from consumers.config.sections import Section
from stream.decision import BayesDecision
from stream.schema import Label

__all__ = ["Decision"]


class Decision(Section):
    """What to do about a prediction, by what each mistake costs. Off while it is empty."""

    losses: dict[str, dict[str, float]] | None = Field(
        default=None,
        description="Action to a table from label to what the action costs where that label is the "
        "truth: `losses.lend = {pays = 0, defaults = 10}`. Every action says so for every label "
        "that any of them names. None: with `reject`, the labels are the actions and every mistake "
        "costs 1, for only you know what they cost.",
    )
    reject: float | None = Field(
        default=None,
        description="What it costs to abstain; done where that is less than every action's risk. "
        "Off by default: somebody must take the cases that are left.",
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        _ = self.rule  # its message says which loss is wrong
        return self

    @property
    def rule(self) -> BayesDecision | None:
        """What decides; None where nothing is configured."""
        if self.losses is None and self.reject is None:
            return None
        losses = cast("Mapping[Label, Mapping[Label, float]] | None", self.losses)
        return BayesDecision(losses, self.reject)
