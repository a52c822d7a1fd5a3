"""`[reporters]`: how much the people who give labels are trusted."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from consumers.config.sections import Section
from stream.join.reporters import ReporterRules

__all__ = ["ReportersConfig"]


class ReportersConfig(Section):
    """How much those who give labels are trusted; needs `[labels] reporter`. Part of the identity.

    [howto/reporters.md](howto/reporters.md) explains the rules.
    """

    max_reporters: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="Reporters that are remembered. Beyond it the least recently used one that "
        "nobody has agreed or disagreed with leaves, and is counted "
        '(`headwater_overflow_total{bound="reporters"}`). Default 10,000: about 3 MB with names of '
        "30 characters.",
    )
    max_labels_per_hour: int = Field(
        default=1_000,
        ge=1,
        le=2**31,
        description="Labels of one reporter that are accepted in an hour of stream time, from full "
        "hour to full hour (UTC). One above it is a dead letter with the reason `reporter_rate`. "
        "Default 1,000: more than a person gives by hand, and less than a script can do harm with. "
        "The anonymous reporter has the same cap.",
    )
    min_trust: float = Field(
        default=0.6,
        strict=False,
        gt=0.5,
        lt=1,
        allow_inf_nan=False,
        description="Labels of a reporter with less trust are not learned. They are compared with "
        "the labels of others, so trust can recover. Default 0.6, at which a label has a fifth of "
        "its weight.",
    )
    prior_trust: float = Field(
        default=0.8,
        strict=False,
        gt=0,
        lt=1,
        allow_inf_nan=False,
        description="Trust of a new reporter: the share of labels that you expect to be right. "
        "Default 0.8: labels of a new reporter have 60 % of their weight.",
    )
    prior_labels: float = Field(
        default=5.0,
        strict=False,
        gt=0,
        le=10_000,
        allow_inf_nan=False,
        description="How many verdicts of others `prior_trust` counts as. Default 5: a "
        "new reporter is no longer trusted after two contradictions of trusted reporters, or "
        "three of new ones.",
    )
    without_reporter: Literal["anonymous", "trusted"] = Field(
        default="anonymous",
        description="Who gives a label that names nobody. `anonymous`: one reporter like others. "
        "`trusted`: it has its full weight, no cap, and outvotes all others; for labels of your "
        "own systems. Default `anonymous`, so that leaving out a name is no advantage.",
    )

    @property
    def rules(self) -> ReporterRules:
        """The settings, for the join."""
        return ReporterRules(
            self.max_reporters,
            self.max_labels_per_hour,
            self.min_trust,
            self.prior_trust,
            self.prior_labels,
            self.without_reporter == "trusted",
        )
