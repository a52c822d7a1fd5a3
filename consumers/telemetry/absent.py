"""Finds declared fields that the first observations do not have: usually a misspelt name.

Rule: it reads committed records and does not keep them. An absent value is allowed, so an absent
field is reported and no record is rejected.
"""

from __future__ import annotations

import numpy as np

from consumers.base.records import Batch
from consumers.codecs.json import JsonObservations
from consumers.shard.shard import ShardSpec
from stream.data.schema import Schema

__all__ = ["LOOKED_AT", "AbsentFields"]

LOOKED_AT = 1000  # a field in fewer than 0.1 % of the records adds almost nothing


class AbsentFields:
    """The fields of the schema that none of the first 1,000 good observations since the start has.

    Parameters
    ----------
    spec
        The specification of the shard.

    Notes
    -----
    It decodes for itself, until every field was there: mostly the first commit, and a thousand
    good records at worst. One that is refused may well have the field, with a wrong value.
    """

    def __init__(self, spec: ShardSpec) -> None:
        self._spec = spec
        self._missing = list(spec.schema.fields)
        self._left = LOOKED_AT

    def look(self, batch: Batch) -> list[str]:
        """Look at one more commit; the names, once, when the thousand are full."""
        if not self._missing or not self._left:
            return []
        labels = self._spec.label_topics
        at = np.array([p.topic not in labels for p in batch.partitions], dtype=bool)[batch.source]
        first = np.flatnonzero(at)[: self._left].tolist()
        decoder = JsonObservations(Schema(tuple(self._missing)), self._spec.id_field, None)
        keys, values = [batch.keys[i] for i in first], [batch.values[i] for i in first]
        decoded = decoder.decode(keys, values)
        self._left -= len(first) - len(decoded.rejected)
        seen = {k for row in decoded.rows.dicts() for k in row}
        self._missing = [field for field in self._missing if field.name not in seen]
        return [] if self._left else [field.name for field in self._missing]
