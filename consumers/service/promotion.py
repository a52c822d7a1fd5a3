"""Changes of who challenges and who is champion: each is an entry of the journal.

Rule: a shard's line-up is what its journal says, at the very record where it says so. What the
configuration says is journaled when a service starts; a command journals what people decide.
"""

from __future__ import annotations

from consumers.base.errors import ConfigError
from consumers.config import Config
from consumers.journal import records as journal
from consumers.journal.records import ChallengersRecord
from consumers.service.live import LiveShard, Sources
from consumers.shard.challengers import ChallengerSet, configured
from consumers.transports.protocol import Owner

__all__ = ["adopt", "named", "promote"]


def adopt(config: Config, owner: Owner, found: Sources, live: LiveShard, now: int) -> None:
    """Have the challengers of the configuration, where the journal ends; `live.news` says so.

    Raises
    ------
    ConfigError
        The champion is not among them, or one cannot be built.
    FencedError, TransportError
        From the owner.
    """
    wanted, shard = configured(config), live.shard
    if shard.given_up:
        # Said first, or a replay of the journal would go on with what is gone here.
        news = [f"challenger {n} is given up: trust_pickle is off" for n in shard.given_up]
        _write(owner, found, live, shard.challenger_set, None, now, "no pickle is trusted")
        live.news += tuple(news)
    if wanted.same(shard.challenger_set):
        return
    gone = shard.challenger_set.gone(wanted)
    if shard.champion in gone:
        raise ConfigError(
            f"{shard.champion} is the champion, and its [[challenger]] is gone or another one; put "
            f"it back as it was, or promote another one first: headwater promote CONFIG "
            f"{config.name} --yes"
        )
    before = shard.challenger_set
    entry = _write(owner, found, live, wanted, None, now, "configured")
    news = [f"challenger {name} is gone" for name in gone if name not in wanted.challengers]
    news += [
        f"challenger {name} starts empty at journal entry {entry.seq}"
        for name in wanted.challengers
        if name in gone or name not in before.challengers
    ]
    if wanted.threshold != before.threshold:
        needed = (wanted.threshold or 0.0) * len(
            wanted.challengers
        )  # as `ChallengersRecord.threshold` says
        when = "never" if wanted.threshold is None else f"at an e-value of {needed:g}"
        news.append(f"a challenger is promoted {when}")
    live.news += tuple(news)


def promote(
    config: Config,
    owner: Owner,
    found: Sources,
    live: LiveShard,
    name: str,
    *,
    now: int,
    reason: str,
) -> ChallengersRecord:
    """Journal that another one is champion from here on; `live` is at the journal's end.

    Raises
    ------
    ConfigError
        There is no such one, or it is champion already.
    FencedError, TransportError
        From the owner; whether it was written shows in the journal.
    """
    champion = named(config, live, name)
    return _write(owner, found, live, live.shard.challenger_set, champion, now, reason)


def named(config: Config, live: LiveShard, name: str) -> str:
    """The challenger of that name; "" for the service's own, which is that of [model].

    Raises
    ------
    ConfigError
        There is none, or it is champion already.
    """
    shard = live.shard
    champion = "" if name == config.name else name
    others = [
        c or config.name for c in ("", *shard.challenger_set.challengers) if c != shard.champion
    ]
    if champion == shard.champion:
        also = f"; promote {' or '.join(others)}" if others else ""
        raise ConfigError(f"{name} is the champion already{also}")
    if champion and champion not in shard.challenger_set.challengers:
        raise ConfigError(
            f"no challenger {name}: expected {' or '.join(others) or 'none, for there are none'}; "
            "a [[challenger]] is one from the service's next start on"
        )
    return champion


def _write(
    owner: Owner,
    found: Sources,
    live: LiveShard,
    challenger_set: ChallengerSet,
    champion: str | None,
    now: int,
    reason: str,
) -> ChallengersRecord:
    """Change the shard, then commit the entry that says so: what fails is not journaled."""
    live.shard.set_challengers(challenger_set, champion)
    entry = ChallengersRecord(
        live.seq + 1,
        max(now, live.now),
        {name: dict(block) for name, block in challenger_set.challengers.items()},
        live.chain,
        challenger_set.threshold,
        champion,
        reason,
    )
    record = journal.written(entry, found.journal, entry.now)
    at = owner.commit([], record, live.shard.positions)
    live.stand_after(entry, at)
    return entry
