"""Whether the state is the journal's: from the last snapshot, from each of them, and from 0.

The only file here that loads the code under test, because only it can rebuild a state.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path

from consumers.config import load
from consumers.service.recovery import rebuild, sources
from consumers.snapshots.format import from_bytes
from consumers.snapshots.store import SnapshotStore
from consumers.transports import open_log
from tests.acceptance.service import headwater

__all__ = ["differences"]


Cuts = Sequence[Collection[int]]


def differences(config: Path, snapshots: list[Path], cuts: Cuts = ((),)) -> list[str]:
    """Every state that is not bit for bit the one that the journal alone comes to.

    Parameters
    ----------
    config
        The configuration of a service that has ended after a drain.
    snapshots
        All that it keeps, the oldest of a shard first; its newest is the live state at the end.
    cuts
        Of each of its shards, the entries that rollbacks cut out: no snapshot behind one of them
        may be used.
    """
    told = []
    if len(cuts) == 1:  # also by the command, in a process of its own
        replayed = headwater("replay", config, "--journal", "--json", seconds=300)
        if replayed.returncode:
            return [f"state: replay --journal ended with {replayed.returncode}: {replayed.stderr}"]
        expected = json.loads(replayed.stdout)["fingerprint"]
        return _differences(config, snapshots, 0, cuts[0], expected)
    for shard, cut in enumerate(cuts):
        mine = [path for path in snapshots if f"shard-{shard}" in path.parts]
        told += _differences(config, mine, shard, cut)
    return told


def _differences(
    config: Path,
    snapshots: list[Path],
    shard: int,
    cut: Collection[int],
    expected: str | None = None,
) -> list[str]:
    """The same of one shard; `expected` is its state from nothing, by another way."""
    if not snapshots:
        return [f"state: the service left no snapshot of shard {shard}"]
    told = []
    settings = load(config)
    with closing(open_log(settings.input.transport, kafka=settings.kafka)) as log:
        found = sources(settings, log, shard)
        end = log.end_offsets([found.journal])[found.journal]
        if expected is None:
            expected = rebuild(settings, log, found, None, end=end).shard.fingerprint()
        about, _ = from_bytes(snapshots[-1].read_bytes())
        if about.fingerprint != expected:
            told.append(f"state: the live one at {about.position} is not that of the journal")
        for path in snapshots:
            with tempfile.TemporaryDirectory() as alone:
                kept = Path(alone) / path.parent.name
                kept.mkdir()
                shutil.copy(path, kept)
                live = rebuild(settings, log, found, SnapshotStore(Path(alone)), end=end)
            if from_bytes(path.read_bytes())[0].seq in cut:
                if live.snapshot is not None:
                    told.append(f"state: {path.name} was used, it holds what was cut out")
            elif live.snapshot is None:
                told.append(f"state: {path.name} could not be used: {'; '.join(live.refused)}")
            elif live.shard.fingerprint() != expected:
                told.append(f"state: from {path.name} it is not that of the journal")
    return told
