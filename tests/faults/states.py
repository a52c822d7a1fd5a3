"""Whether the state is the journal's: from the last snapshot, from each of them, and from 0.

The only file here that loads the code under test, because only it can rebuild a state.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import closing
from pathlib import Path

from consumers.config import load
from consumers.recovery import rebuild, sources
from consumers.snapshots.format import from_bytes
from consumers.snapshots.store import SnapshotStore
from consumers.transports import open_log
from tests.acceptance.service import headwater

__all__ = ["differences"]


def differences(config: Path, snapshots: list[Path]) -> list[str]:
    """Every state that is not bit for bit the one `headwater replay --journal` comes to.

    Parameters
    ----------
    config
        The configuration of a service that has ended after a drain.
    snapshots
        All that it keeps, the oldest first; the newest is the live state at its end.
    """
    replayed = headwater("replay", config, "--journal", "--json", seconds=300)
    if replayed.returncode:
        return [f"state: replay --journal ended with {replayed.returncode}: {replayed.stderr}"]
    expected = json.loads(replayed.stdout)["fingerprint"]
    if not snapshots:
        return ["state: the service left no snapshot"]
    told = []
    about, _ = from_bytes(snapshots[-1].read_bytes())
    if about.fingerprint != expected:
        told.append(f"state: the live one at {about.position} is not that of the journal")
    settings = load(config)
    with closing(open_log(settings.input.transport, kafka=settings.kafka)) as log:
        found = sources(settings, log)
        end = log.end_offsets([found.journal])[found.journal]
        for path in snapshots:
            with tempfile.TemporaryDirectory() as alone:
                kept = Path(alone) / path.parent.name
                kept.mkdir()
                shutil.copy(path, kept)
                live = rebuild(settings, log, found, SnapshotStore(Path(alone)), end=end)
            if live.snapshot is None:
                told.append(f"state: {path.name} could not be used: {'; '.join(live.refused)}")
            elif live.shard.fingerprint() != expected:
                told.append(f"state: from {path.name} it is not that of the journal")
    return told
