"""[decision]: losses and the reject option, checked by what will use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self, cast

from pydantic import Field, model_validator

from consumers.config.sections import Section
from stream.data.schema import Label
from stream.decision import BayesDecision

__all__ = ["Decision"]


class Decision(Section):
    """What to do about a prediction, by what each mistake costs. Off while it is empty."""

    losses: dict[str, dict[str, float]] | None = Field(
        default=None,
        description="Action to a table from label to what the action costs where that label is the "
        "truth: `losses.lend = {pays = 0, defaults = 10}`. Every action says so for every label "
        "that any of them names, but for the label it is itself called by, which costs 0. No "
        "choice hangs on a label that none names; the service warns of it. None: with `reject`, "
        "the labels are the actions and every mistake costs 1, for only you know what they cost.",
    )
    reject: float | None = Field(
        default=None,
        description="What it costs to abstain; done where that is less than every action's risk. "
        "Less than any loss is refused: nothing would ever be decided. Off by default: somebody "
        "must take the cases that are left.",
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        _ = self.rule  # its message says which loss is wrong
        if self.reject is not None and self.reject < self._least:
            raise ValueError(
                f"reject = {self.reject:g} is less than any action can cost ({self._least:g}), so "
                "every record would be rejected; raise it"
            )
        return self

    @property
    def _least(self) -> float:
        """The least an action can cost; one called by a label costs 0 there, if nothing is said."""
        rows = self.losses or {}
        called = {label for row in rows.values() for label in row} & rows.keys()
        silent = [0.0 for action in called if action not in rows[action]]
        return min([loss for row in rows.values() for loss in row.values()] + silent, default=0.0)

    @property
    def named(self) -> frozenset[str] | None:
        """Every label that `losses` says something of; None where it need not."""
        if self.losses is None:
            return None
        return frozenset(self.losses).union(*self.losses.values())

    @property
    def rule(self) -> BayesDecision | None:
        """What decides; None where nothing is configured."""
        if self.losses is None and self.reject is None:
            return None
        losses = cast("Mapping[Label, Mapping[Label, float]] | None", self.losses)
        return BayesDecision(losses, self.reject)
