"""One id into a table of ids."""

from __future__ import annotations

import numpy as np

from stream.join.table import IdTable, as_bytes

__all__ = ["insert"]


def insert(ids: IdTable, id_: str, kind: int) -> int:
    """The entry of a new id, the last of its kind; -1 if it is there."""
    data = as_bytes(id_)
    entries = ids.insert_all(data, np.array([data.size]), kind)
    return -1 if entries is None else int(entries[0])
