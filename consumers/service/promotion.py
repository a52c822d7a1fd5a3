"""Changes of the challengers and of the champion: each is a journal record.

Rule: the journal alone decides the challengers of a shard, from exactly the record that sets them.
A start journals what the configuration sets, and a command journals what an operator decides.
"""

from __future__ import annotations

from consumers.base.errors import ConfigError
from consumers.config import Config
from consumers.journal.records import ChallengersRecord
from consumers.service.commit import amend
from consumers.service.live import LiveShard, Sources
from consumers.shard.challengers import ChallengerSet, configured
from consumers.transports.protocol import Owner

__all__ = ["adopt", "named", "promote"]


def adopt(config: Config, owner: Owner, found: Sources, live: LiveShard, now: int) -> None:
    """Journal the challengers of the configuration. `live.news` describes the change.

    Raises
    ------
    ConfigError
        The champion is not one of them, or a challenger cannot be built.
    FencedError, TransportError
        From the owner.
    """
    wanted, shard = configured(config), live.shard
    if shard.given_up:
        # Journaled first, or a replay of the journal would continue with a missing challenger.
        news = [f"challenger {n} is dropped: it is not trusted" for n in shard.given_up]
        _write(owner, found, live, shard.challenger_set, None, now, "not trusted")
        live.news += tuple(news)
    if wanted.same(shard.challenger_set):
        return
    gone = shard.challenger_set.gone(wanted)
    if shard.champion in gone:
        raise ConfigError(
            f"{shard.champion} is the champion, and its [[challenger]] was removed or changed; "
            f"restore it, or promote another one first: headwater promote CONFIG "
            f"{config.name} --yes"
        )
    before = shard.challenger_set
    entry = _write(owner, found, live, wanted, None, now, "configured")
    news = [f"challenger {name} was removed" for name in gone if name not in wanted.challengers]
    news += [
        f"challenger {name} starts empty at journal record {entry.seq}"
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
    """Journal another champion from here on. `live` must be at the journal's end.

    Raises
    ------
    ConfigError
        There is no such challenger, or it is the champion already.
    FencedError, TransportError
        From the owner. The journal shows whether the record was written.
    """
    champion = named(config, live, name)
    return _write(owner, found, live, live.shard.challenger_set, champion, now, reason)


def named(config: Config, live: LiveShard, name: str) -> str:
    """The challenger of that name. The empty name selects the model of [model].

    Raises
    ------
    ConfigError
        There is no such challenger, or it is the champion already.
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
            f"no challenger {name}: expected {' or '.join(others) or 'none'}; "
            "a new [[challenger]] exists from the next start of the service"
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
    """Change the shard, then commit the journal record. A failed change is not journaled."""
    live.shard.set_challengers(challenger_set, champion)
    entry = ChallengersRecord(
        **live.heading(now),
        challengers={name: dict(block) for name, block in challenger_set.challengers.items()},
        threshold=challenger_set.threshold,
        champion=champion,
        reason=reason,
    )
    amend(owner, live, found.journal, entry)
    return entry
