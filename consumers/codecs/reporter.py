"""The name of a reporter in a label record."""

from __future__ import annotations

from consumers.base.errors import RecordError
from stream.join.reporters import LONGEST_REPORTER

__all__ = ["reporter_name"]


def reporter_name(value: object) -> str | None:
    """The name of a reporter; an integer is one too, as text. RecordError for any other value."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) and 0 < len(value) <= LONGEST_REPORTER:
        return value
    raise RecordError(
        "bad_reporter",
        f"expected a reporter (text of 1 to {LONGEST_REPORTER} characters, an integer, or null)",
    )
