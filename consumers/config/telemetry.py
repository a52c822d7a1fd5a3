"""The section of what operators scrape and read."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from consumers.config.sections import Section

__all__ = ["Telemetry"]


class Telemetry(Section):
    """What is measured and said."""

    window: int = Field(
        default=1000,
        ge=1,
        le=10_000,
        description="Scored predictions of the window `last_1000`, which is called by it. 1000: an "
        "accuracy within 3 points, and a change is seen soon. Each costs 72 bytes and more in "
        "memory and snapshots. A query that names "
        "`last_1000` is to be changed with it; those of docker/ ask for `last_.+`.",
    )
    max_classes: int = Field(
        default=20,
        ge=1,
        le=256,
        description="Labels with series of their own; the others share `__other__`. 20: a "
        "confusion matrix of 400 series, which Prometheus holds with ease.",
    )
    challenger_confusion: bool = Field(
        default=False,
        description="Whether challengers have series of their confusion matrix too. Off: their "
        "scores are enough to choose by, and each matrix may have 400 series.",
    )
    log: Literal["text", "json"] = Field(
        default="text",
        description="Form of the log on stderr. Text, for people; `json` for collectors.",
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="The least severe message that is logged. `info`: starts, stops and troubles, "
        "nothing a record.",
    )
