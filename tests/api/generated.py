"""How requests are generated from a document: without shrinking, because each one is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings

from tests.seed import share

__all__ = ["generated"]


def generated(of_examples: float) -> Callable[[Any], Any]:
    """Decorates a test with `given`: so much of the examples of this run."""
    return settings(
        max_examples=share(of_examples),
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),  # a schema decides how much is drawn and refused
    )
