"""Re-learn a shard: new settings of [model] and [labels] corrections under the same name.

`learned_again` builds the model with the new settings beside the service and writes nothing. `swap`
writes outputs that may be missing, and one journal record. Before that record the old model is the
model of the service, after it the new one.
"""

from __future__ import annotations

from dataclasses import dataclass

from consumers.base.errors import ConfigError
from consumers.base.failpoints import reach
from consumers.config import Config, identity_difference, relearnable
from consumers.journal import records as journal
from consumers.journal.reader import course
from consumers.journal.records import RelearnRecord, defaults_of, mark_of
from consumers.service.live import LiveShard, Progress, Sources
from consumers.service.recovery import rebuild, relearned, write_again
from consumers.service.replay import replay
from consumers.shard.assembly import with_settings
from consumers.snapshots.locate import JournalOrigin, origin_of
from consumers.snapshots.store import SnapshotStore
from consumers.transports.protocol import Log, Owner

__all__ = ["Relearned", "learned_again", "swap"]


@dataclass(frozen=True, slots=True)
class Relearned:
    """A shard with the old and with the new settings, at the same position of the journal.

    Parameters
    ----------
    before
        The configuration with the old settings.
    old, new
        The shard with the old and with the new settings.
    changes
        The settings that differ, with both values.
    """

    before: Config
    old: LiveShard
    new: LiveShard
    changes: list[str]


def learned_again(
    config: Config,
    log: Log,
    found: Sources,
    store: SnapshotStore,
    progress: Progress = lambda done, total: None,
) -> Relearned:
    """The model of the journal, and the one that `config` gives for the same records.

    Raises
    ------
    ConfigError
        Nothing differs, or something that cannot be re-learned.
    TransportError
        Journal or inputs have lost records, so the new model cannot learn them.
    """
    end = log.end_offsets([found.journal])[found.journal]
    origin = origin_of(config, log, found.journal, end, store)
    if origin is None:
        raise ConfigError(f"the journal {found.journal} is empty: run the service first")
    changes = _changes(config, origin)
    before = with_settings(config, origin.identity.identity, defaults_of(origin.identity))
    old = rebuild(before, log, found, store, end=end, progress=progress)
    _check_champion(config, old)
    new = relearned(config, log, found, origin, progress)
    return Relearned(before, old, new, changes)


def _changes(config: Config, origin: JournalOrigin) -> list[str]:
    """What differs from the journaled settings. ConfigError if it cannot be re-learned."""
    identity = origin.identity
    if config.scale.shards > 1:
        raise ConfigError(
            f"relearn supports one shard, and [scale] shards is {config.scale.shards}: give the "
            "service a new name"
        )
    changes = identity_difference(identity.identity, config.identity())
    if identity.name != config.name:
        changes = [f"name: was {identity.name}, now {config.name}"]
    if not changes:
        raise ConfigError(
            f"the model of {config.name} already has these settings: nothing to re-learn; change "
            "[model] or [labels] corrections first"
        )
    if not relearnable(changes):
        raise ConfigError(
            f"relearn changes [model] and [labels] corrections only ({'; '.join(changes)}): change "
            "the others back, or give the service a new name"
        )
    if config.labels.silence is not None:
        raise ConfigError(
            "relearn does not support [labels] silence: what silence teaches depends on the "
            "predictions that were published; give the service a new name"
        )
    return changes


def _check_champion(config: Config, old: LiveShard) -> None:
    if old.shard.champion:
        raise ConfigError(
            f"the challenger {old.shard.champion} is the champion, and relearn replaces the model "
            f"of [model]: run headwater promote CONFIG {config.name} --yes with the old settings "
            "first"
        )


def swap(
    config: Config,
    log: Log,
    owner: Owner,
    found: Sources,
    both: Relearned,
    *,
    now: int,
    reason: str,
) -> RelearnRecord:
    """Journal that the shard has the new settings from here on, after the records since.

    `owner` has fenced the running service. Afterwards `both.new` is at the journal's end.

    Raises
    ------
    ConfigError
        A rollback, another re-learn or a promotion was journaled since. Nothing was changed.
    FencedError, TransportError
        From the owner. The journal shows whether the record was written.
    """
    old, new = both.old, both.new
    end = log.end_offsets([found.journal])[found.journal]
    ahead = course(log, found.journal, old.position, end)
    if ahead.without(old.seq) is not None or ahead.relearned is not None:
        raise ConfigError(
            "the journal was rolled back or re-learned meanwhile: nothing was changed; run relearn "
            "again"
        )
    replay(log, found, old, end, ahead)
    _check_champion(config, old)
    replay(log, found, new, end, ahead)
    write_again(log, old)  # with the old settings, and before no start would do it
    reach("relearn_fenced")
    entry = RelearnRecord(
        new.seq + 1, max(now, new.now), config.identity(), new.chain, reason=reason
    )
    at = owner.commit([], journal.written(entry, found.journal, entry.now), new.shard.positions)
    reach("relearn_journaled")
    new.entry = new.entry.under(entry.identity, (entry.seq, at))
    new.identity = mark_of(new.entry)
    new.last = ()
    new.advance_past(entry, at)
    return entry
