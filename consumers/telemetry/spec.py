"""What a metric is called, and what it means."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Spec"]


class Spec(NamedTuple):
    """One metric as `docs/metrics.md` shows it."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
