"""A broken law raises AssertionError with one sentence, even under `python -O`."""

from __future__ import annotations

from collections.abc import Callable

from stream.learner.base import Learner

__all__ = ["Law", "claim", "refuses"]

Law = Callable[[Learner], None]


def claim(holds: bool, sentence: str) -> None:
    """Raise AssertionError with `sentence` unless it holds."""
    if not holds:
        raise AssertionError(sentence)


def refuses(error: type[Exception], call: Callable[[], object], sentence: str) -> None:
    """Raise AssertionError with `sentence` unless `call` raises `error`."""
    try:
        call()
    except error:
        return
    raise AssertionError(sentence)
