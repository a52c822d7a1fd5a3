"""Where a service keeps its snapshots: one directory a journal below that of its shard."""

from __future__ import annotations

from pathlib import Path

from consumers.snapshots.store import SnapshotStore

__all__ = ["the_store"]


def the_store(state: Path, name: str) -> SnapshotStore:
    """The store of the one journal the service `name` has had; an empty one before any."""
    base = state / name / "shard-0"
    journals = list(base.iterdir()) if base.exists() else []
    assert len(journals) <= 1, f"expected the snapshots of one journal, got {journals}"
    return SnapshotStore(journals[0] if journals else base / "none")
