"""Finds declared fields that the first observations do not have: usually a misspelt name.

Rule: it reads what the shard found when it decoded a commit, and decodes nothing itself. An absent
value is allowed, so an absent field is reported and never rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from consumers.shard.views import Committed, ShardView
from stream.data.schema import Schema

__all__ = ["LOOKED_AT", "AbsentFields"]

LOOKED_AT = 1000  # a field in fewer than 0.1 % of the records adds almost nothing


class AbsentFields:
    """The fields of the schema that none of the first 1,000 good observations since the start has.

    Parameters
    ----------
    schema
        The declared fields.
    report
        Called once with the names, when the thousand are full and any field is missing.

    Notes
    -----
    An observation that is rejected does not count, because it may have the field with a wrong
    value.
    """

    def __init__(self, schema: Schema, report: Callable[[Sequence[str]], None]) -> None:
        self._missing = [field.name for field in schema.fields]
        self._report = report
        self._left = LOOKED_AT

    @property
    def left(self) -> int:
        """How many observations of the next commit to check; 0 once every field was found."""
        return self._left if self._missing else 0

    def committed(self, event: Committed, _: ShardView) -> None:
        """Check one more commit."""
        if not self.left or event.fields is None:
            return
        self._left -= event.fields.observations
        self._missing = [name for name in self._missing if name not in event.fields.present]
        if self._missing and not self._left:
            self._report(self._missing)
