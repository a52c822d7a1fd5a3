"""Re-learn shards: new settings of [model], of what waits for labels, or a new parser of mail.

`learned_again` builds the model with the new settings beside the service and writes nothing. `swap`
writes outputs that may be missing, and one journal record for each shard. Before that record the
old model is the model of the shard, after it the new one.

All shards are ready before the first record is written, so nothing that can be known beforehand
comes between two records. If the process dies there, some shards have the new settings and the
others the old ones. Shards share nothing, so each is whole. A later call finds which shards differ
from the configuration, and re-learns only those.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from consumers.base.errors import ConfigError, FencedError, TransportError
from consumers.base.failpoints import reach
from consumers.config import Config, identity_difference, relearnable
from consumers.journal.reader import course
from consumers.journal.records import RelearnRecord, defaults_of, mark_of
from consumers.service.commit import amend
from consumers.service.journal_end import check_journal
from consumers.service.live import LiveShard, Progress, Sources
from consumers.service.recovery import rebuild, relearned, write_again
from consumers.service.replay import replay
from consumers.shard.assembly import with_settings
from consumers.snapshots.locate import JournalOrigin, origin_of
from consumers.snapshots.store import SnapshotStore
from consumers.transports.protocol import Log, Owner

__all__ = ["Relearned", "changed_settings", "learned_again", "swap"]

_WAITS = re.compile(r"labels\.(horizon|max_pending)")


@dataclass(frozen=True, slots=True)
class Relearned:
    """A shard with the old and with the new settings, at the same position of the journal.

    Parameters
    ----------
    before
        The configuration with the old settings.
    found, store
        The partitions of the shard, and its snapshots.
    old, new
        The shard with the old and with the new settings.
    """

    before: Config
    found: Sources
    store: SnapshotStore
    old: LiveShard
    new: LiveShard


def changed_settings(config: Config, log: Log, found: Sources, store: SnapshotStore) -> list[str]:
    """The settings of a shard that `config` changes, with both values; empty if it has them.

    Raises
    ------
    ConfigError
        Something else differs as well, or the shard has no journal.
    """
    return _changes(config, _origin(config, log, found, store))


def learned_again(
    config: Config,
    log: Log,
    found: Sources,
    store: SnapshotStore,
    progress: Progress = lambda done, total: None,
) -> Relearned:
    """The model of a shard, and the one that `config` gives for the same records.

    Raises
    ------
    ConfigError
        Nothing differs, or something that cannot be re-learned.
    TransportError
        Journal or inputs have lost records, so the new model cannot learn them.
    """
    origin = _origin(config, log, found, store)
    if not _changes(config, origin):
        raise ConfigError(
            f"the model of {config.name} already has these settings: nothing to re-learn; change "
            "[model], [labels] horizon, max_pending or corrections, or [scale] mix first"
        )
    before = with_settings(config, origin.identity.identity, defaults_of(origin.identity))
    old = rebuild(before, log, found, store, end=origin.left.end, progress=progress)
    _check_champion(config, old)
    new = relearned(config, log, found, origin, progress)
    return Relearned(before, found, store, old, new)


def _origin(config: Config, log: Log, found: Sources, store: SnapshotStore) -> JournalOrigin:
    origin = origin_of(config, log, found.journal, store)
    if origin is None:
        raise ConfigError(f"the journal {found.journal} is empty: run the service first")
    return origin


def _changes(config: Config, origin: JournalOrigin) -> list[str]:
    """What differs from the journaled settings. ConfigError if it cannot be re-learned."""
    identity = origin.identity
    changes = identity_difference(identity.identity, config.identity())
    if identity.name != config.name:
        changes = [f"name: was {identity.name}, now {config.name}"]
    if not relearnable(changes):
        raise ConfigError(
            "relearn changes [model], of [labels] how long and how many observations wait and "
            "corrections, whether shards mix, and the versions of the parser only "
            f"({'; '.join(changes)}): change the others back, or give the service a new name"
        )
    if config.labels.silence is not None and any(map(_WAITS.match, changes)):
        raise ConfigError(
            "relearn does not change horizon, max_pending and max_pending_bytes with [labels] "
            "silence, because what silence teaches was journaled for the observations that waited "
            "then; give the service a new name"
        )
    if identity.model is not None:
        raise ConfigError(
            "relearn does not support a service that began with an imported model: the records "
            "that model learned are not in its inputs; give the service a new name"
        )
    return changes


def _check_champion(config: Config, old: LiveShard) -> None:
    if old.shard.champion:
        number = old.shard.spec.number
        raise ConfigError(
            f"the challenger {old.shard.champion} is the champion, and relearn replaces the model "
            f"of [model]: run headwater promote CONFIG {config.name}"
            f"{f' --shard {number}' if number else ''} --yes with the old settings first"
        )


def swap(
    config: Config, log: Log, ready: Sequence[Relearned], *, now: int, reason: str
) -> list[RelearnRecord]:
    """Journal that the shards have the new settings from here on, after the records since.

    The running service is fenced. Afterwards each `new` is at its journal's end.

    Raises
    ------
    ConfigError
        A rollback, another re-learn or a promotion was journaled since. Nothing was changed.
    FencedError, TransportError
        From an owner. The journals show which records were written.
    """
    for both in ready:  # beside the running service, so that it is down for a shorter time
        _follow(config, log, both)
    with ExitStack() as stack:
        owners = []
        for both in ready:
            found = both.found
            check_journal(both.before, log, found.journal, found.inputs, both.store)
            owners.append(log.owner(config.name, found.journal.number, found.inputs))
            stack.callback(owners[-1].close)
        for both in ready:
            _follow(config, log, both)
        for both in ready:
            write_again(log, both.old)  # old settings: no start after the record would write them
        reach("relearn_fenced")
        done: list[RelearnRecord] = []
        for both, owner in zip(ready, owners, strict=True):
            try:
                done.append(_journaled(config, owner, both, now=now, reason=reason))
            except (FencedError, TransportError) as error:
                if not done:
                    raise
                kind = FencedError if isinstance(error, FencedError) else TransportError
                raise kind(f"{error}; {_partly(ready, len(done))}") from error
        return done


def _partly(ready: Sequence[Relearned], done: int) -> str:
    """What is so after an error between two records, and what to do."""
    new = ", ".join(str(both.found.journal.number) for both in ready[:done])
    return (
        f"of the changed shards {new} have the new settings, the others still the old ones: run "
        "headwater relearn CONFIG --yes again before the service is started"
    )


def _follow(config: Config, log: Log, both: Relearned) -> None:
    """Let both models learn what the service has consumed since."""
    found, old = both.found, both.old
    end = log.end_offsets([found.journal])[found.journal]
    ahead = course(log, found.journal, old.position, end)
    if ahead.without(old.seq) is not None or ahead.relearned is not None:
        raise ConfigError(
            f"the journal {found.journal} was rolled back or re-learned meanwhile: nothing was "
            "changed; run relearn again"
        )
    replay(log, found, old, end, ahead)
    _check_champion(config, old)
    replay(log, found, both.new, end, ahead)


def _journaled(
    config: Config, owner: Owner, both: Relearned, *, now: int, reason: str
) -> RelearnRecord:
    """Write the record of one shard. Its `new` is after it."""
    new, found = both.new, both.found
    entry = RelearnRecord(
        new.seq + 1, max(now, new.now), config.identity(), new.chain, reason=reason
    )
    amend(owner, new, found.journal, entry)
    reach("relearn_journaled")
    new.entry = new.entry.under(entry.identity, (entry.seq, new.position - 1))
    new.identity = mark_of(new.entry)
    new.last = ()
    return entry
