"""A shard whose model keeps its keys on disk: `[model] keys_on_disk`.

Rule: only the process that owns a shard has keys on disk. All others read the rows of a snapshot,
and have all keys in memory, which changes no result.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from consumers.shard.shard import Shard
from consumers.snapshots.key_files import KeyFiles, KeyReader
from stream.data.state import State
from stream.keyed import PerKeyNB

__all__ = ["give_keys", "keyed_learner", "saved_state", "stored_point"]


def keyed_learner(shard: Shard) -> PerKeyNB | None:
    """The learner of [model], if its keys are on disk or may be."""
    learner = shard.learner
    return learner if isinstance(learner, PerKeyNB) and learner.keys_on_disk else None


def give_keys(shard: Shard, keys: KeyFiles | None, directory: Path | None) -> None:
    """Let a shard keep its keys in files, if this process owns it, or read those of snapshots.

    Parameters
    ----------
    keys
        The files of the owner; None for others.
    directory
        Where the snapshots are; None: none is read.
    """
    learner = keyed_learner(shard)
    if learner is None:
        return
    if keys is not None:
        learner.keep_in(keys)
    elif directory is not None:
        learner.read_from(KeyReader(directory))


def saved_state(shard: Shard) -> State:
    """The state of a shard for a snapshot. Keys on disk are committed, and stay there.

    Raises
    ------
    TransportError
        The file of keys cannot be written.
    """
    learner = keyed_learner(shard)
    if learner is None:
        return shard.to_state()
    with learner.rows_in_store():
        return shard.to_state()


def stored_point(state: State) -> dict[str, Any] | None:
    """The file of keys and the version that the state of a shard names; None: it has all keys."""
    found: Any = state.header
    for part in ("machine", "learner", "inner", "keys", "stored", "point"):
        found = found.get(part) if isinstance(found, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else None
