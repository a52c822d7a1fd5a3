"""[decision]: losses and the reject option, checked by the code that uses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self, cast

from pydantic import Field, model_validator

from consumers.config.sections import Section
from stream.data.schema import Label
from stream.decision import BayesDecision

__all__ = ["DecisionConfig"]


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

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        _ = self.rule  # raises an error that names the wrong loss
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
