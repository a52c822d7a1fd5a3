"""How requests are generated from a document: seeded, and without shrinking or a database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings

__all__ = ["generated"]


def generated(examples: int) -> Callable[[Any], Any]:
    """Decorates a test with `given`."""
    chosen = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: seed(1)(chosen(test))
