"""The settings of outputs, as the journal has them.

Rule: journal and snapshots name them, and so does every command that looks there. So this file
imports no decoder, no join and no learner.
"""

from __future__ import annotations

from importlib.metadata import version

import msgspec

from consumers.config import Config

__all__ = ["OutputShape"]


class OutputShape(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The settings that decide bytes and topic of outputs, except those that the model depends on.

    The configuration may change them at any start, so each change is journaled. `cut` is how many
    bytes of the original record a dead letter keeps at most, `version` the version of the code,
    `losses` and `reject` are those of [decision], `budget` has label and rate of its
    `max_false_positive_rate`, `doubt` its `min_learned` and `unsure` if one is set, `flagged_from`
    its `min_probability`, `schema` is the id of the registered schema of predictions, with `events`
    predictions have the headers of CloudEvents, and with `notes` they name the fields that were not
    used.
    """

    predictions: str
    dead_letters: str
    partitions: int
    top: int
    version: str = ""
    explain: int = 0
    cut: int | None = None
    losses: dict[str, dict[str, float]] | None = None
    reject: float | None = None
    budget: tuple[str, float] | None = None
    schema: int = 0
    events: bool = False
    doubt: tuple[int, float | None] | None = None
    flagged_from: float = 0.0
    notes: bool = False

    @property
    def text(self) -> bytes:
        """The settings in one line, for comparison: the order of losses counts."""
        return msgspec.json.encode(self)

    @classmethod
    def of(
        cls,
        config: Config,
        partitions: int = 1,
        cut: int | None = None,
        schema: int = 0,
    ) -> OutputShape:
        """The configured shape. `partitions` are those of the predictions topic."""
        rule, budget = config.decision.rule, config.decision.budget
        doubt = None if budget is None else (budget.min_learned, budget.unsure)
        return cls(
            config.predictions_topic,
            config.dead_letters_topic,
            partitions,
            config.output.top,
            version("headwater"),
            config.output.explain,
            cut,
            None if rule is None else msgspec.to_builtins(rule.losses, str_keys=True),
            None if rule is None else rule.reject_loss,
            None if budget is None else (budget.label, float(budget.rate)),
            schema,
            config.output.cloudevents,
            None if doubt == (0, None) else doubt,
            0.0 if budget is None else float(budget.min_probability),
            config.output.notes,
        )
