"""The section of what operators scrape and read."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from consumers.config.sections import Section

__all__ = ["TelemetryConfig"]


class TelemetryConfig(Section):
    """Scores, metrics and the log."""

    window: int = Field(
        default=1000,
        ge=1,
        le=10_000,
        description="Number of scored predictions in the window `last_1000`; the name of "
        "the window follows it. Default 1000: the accuracy is known to within 3 points, and a "
        "change shows soon. Each prediction takes at least 72 bytes of memory and snapshot. "
        "If you change it, change queries that name `last_1000`; those of docker/ use "
        "`last_.+`.",
    )
    max_classes: int = Field(
        default=20,
        ge=1,
        le=256,
        description="Number of labels with their own series; all others share `__other__`. "
        "Default 20: a confusion matrix of 400 series, which Prometheus holds easily.",
    )
    challenger_confusion: bool = Field(
        default=False,
        description="Whether challengers have series of their confusion matrix too. Default "
        "off, because their scores are enough to choose by, and each matrix can have 400 "
        "series.",
    )
    log: Literal["text", "json"] = Field(
        default="text",
        description="Format of the log on stderr: `text` for people, `json` for log "
        "collectors. Default `text`.",
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="The lowest level that is logged. Default `info`: starts, stops and "
        "problems, but no line per record.",
    )
