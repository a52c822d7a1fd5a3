"""Find the identity of a journal, and check which of its snapshots it continues.

A journal starts with its identity. A trimmed journal does not. Then a snapshot gives the identity,
if the remaining records continue where the snapshot ends. A snapshot belongs to the journal only if
its last record is one of the journal: a log that lost its end and grew again has other records at
the same positions.

The programs and the processor that made a snapshot. The last bits of a replay depend on them.

A state is exact wherever it is loaded. What is learned after it runs in compiled kernels, and
another compiler or processor may round a sum differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from itertools import islice
from operator import attrgetter

from consumers.base.errors import ConfigError, TransportError
from consumers.base.records import Partition
from consumers.config import Config, identity_difference, relearnable
from consumers.journal.reader import entries
from consumers.journal.records import (
    CommitRecord,
    IdentityRecord,
    JournalRecord,
    RelearnRecord,
    mark_of,
)
from consumers.snapshots.format import SnapshotInfo
from consumers.snapshots.store import SnapshotStore
from consumers.transports.protocol import Log
from consumers.transports.registry import transport_of

__all__ = [
    "JournalOrigin",
    "RemainingJournal",
    "cpu",
    "difference",
    "expired",
    "locate",
    "origin_of",
    "versions",
]

_PROGRAMS = ("headwater", "numpy", "numba", "llvmlite", "river")


@cache
def versions() -> dict[str, str]:
    """The programs that affect what a record changes in a state."""
    return {name: version(name) for name in _PROGRAMS}


@cache
def cpu() -> dict[str, str]:
    """The processor for which kernels are compiled: the host's, or NUMBA_CPU_NAME."""
    from llvmlite import binding
    from numba.core import config as numba_config

    # If a CPU name is set, numba takes the features from NUMBA_CPU_FEATURES only.
    if numba_config.CPU_NAME:
        named, features = numba_config.CPU_NAME, numba_config.CPU_FEATURES or ""
    else:
        named = binding.get_host_cpu_name()
        features = numba_config.CPU_FEATURES or binding.get_host_cpu_features().flatten()
    on = sorted(part for part in features.split(",") if part.startswith("+"))
    return {"name": named, "features": ",".join(on)}


def difference(about: SnapshotInfo) -> str | None:
    """Versions and processor that differ from those here, in one line; None if none differ.

    Examples
    --------
    >>> from consumers.journal.records import IdentityRecord
    >>> entry = IdentityRecord("shop", 0, {}, [], [], "", {}, {})
    >>> about = SnapshotInfo("shop", 0, 9, 8, 0, "", versions(), entry, cpu=cpu())
    >>> difference(about) is None
    True
    >>> import msgspec
    >>> difference(msgspec.structs.replace(about, versions={**versions(), "numba": "0.1"}))[:12]
    'numba 0.1 (n'
    """
    here = versions()
    lines = [
        f"{name} {was} (now {here.get(name, 'unknown')})"
        for name, was in sorted(about.versions.items())
        if here.get(name) != was
    ]
    if about.cpu and about.cpu != cpu():
        was, now = about.cpu.get("name", "unknown"), cpu()["name"]
        same = " with other features" if was == now else ""
        lines.append(f"a processor {was}{same} (now {now})")
    return ", ".join(lines) or None


def newer(about: SnapshotInfo) -> str | None:
    """Why a newer version of this program made the snapshot; None if none did.

    A newer version may save more, of which this one would take a part for the whole.

    Examples
    --------
    >>> from consumers.journal.records import IdentityRecord
    >>> entry = IdentityRecord("shop", 0, {}, [], [], "", {}, {})
    >>> about = SnapshotInfo("shop", 0, 9, 8, 0, "", {"headwater": "99.1.0"}, entry)
    >>> newer(about)[:31]
    'of a newer version: headwater 9'
    >>> import msgspec
    >>> newer(msgspec.structs.replace(about, versions=versions())) is None
    True
    """
    was, here = about.versions.get("headwater", ""), versions()["headwater"]
    if _release(was) <= _release(here):
        return None
    return f"of a newer version: headwater {was} (now {here})"


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a version, as far as they go."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


_NEAR = 64  # the last record is this near before a snapshot's position, unless commits aborted


@dataclass(frozen=True, slots=True)
class RemainingJournal:
    """The remaining part of a journal: its records from `first` up to `end`.

    `slack` is how many offsets after a record hold no record: on Kafka the marker that ends its
    transaction.
    """

    log: Log
    partition: Partition
    first: int
    end: int
    slack: int

    def objection(self, about: SnapshotInfo) -> str | None:
        """Why the journal does not continue a snapshot; None if it does."""
        if about.position > self.end:
            return f"ahead of the journal, which ends at {self.end}"
        last = self.last(about.position)
        if last is not None:
            chain = "" if isinstance(last, IdentityRecord) else last.chain
            if (last.seq, last.now) == (about.seq, about.now):
                if about.chain == chain:
                    return None
                return (
                    f"not of this journal: its record {last.seq} has the hash {chain}, that of "
                    f"the snapshot is {about.chain}"
                )
            return (
                f"of a history that this journal does not have: record {last.seq} ends there, at "
                f"clock {last.now}"
            )
        # Its last record was trimmed. Then the remaining journal must continue right after it.
        following = next((entry for _, entry in self.entries(self.first, self.end)), None)
        if (
            following is not None
            and not isinstance(following, IdentityRecord)
            and following.seq == about.seq + 1
        ):
            return None
        if following is None and about.position + self.slack >= self.first:
            return None
        return f"older than the remaining journal, which starts at offset {self.first}"

    def lost(self, what: str, refused: Sequence[str]) -> TransportError:
        """The error if no snapshot reaches the remaining journal, with what to do."""
        trimmed = f"; the journal was trimmed before offset {self.first}" if self.first else ""
        why = f" (not used: {'; '.join(refused[:3])})" if refused else ""
        return TransportError(
            f"{what}{trimmed}, and no snapshot reaches the rest{why}; restore one to "
            "[snapshots] directory, or give the service a new name: it then starts from the "
            "beginning of its inputs"
        )

    def entries(self, start: int, end: int) -> Iterator[tuple[int, JournalRecord]]:
        """The journal records from `start` up to `end`."""
        return entries(self.log, self.partition, start, end)

    def last(self, position: int) -> JournalRecord | None:
        """The last journal record before a position; None if it was deleted."""
        found = self._last(position)
        return None if found is None else found[1]

    def settings(self) -> int | None:
        """Offset of the `RelearnRecord` whose settings apply at the end: 0 for record 0, None if
        there is no record."""
        found = self._last(self.end)
        if found is None:
            return None
        at, last = found
        return at if isinstance(last, RelearnRecord) else last.settings

    def _last(self, position: int) -> tuple[int, JournalRecord] | None:
        for start in (max(self.first, position - _NEAR), self.first):
            found = None
            for found in self.entries(start, position):  # noqa: B007
                pass
            if found is not None:
                return found
        return None


@dataclass(frozen=True, slots=True)
class JournalOrigin:
    """The identity of a journal, with the settings that apply at its end. `whole` is whether record
    0 itself still exists."""

    identity: IdentityRecord
    left: RemainingJournal
    whole: bool

    def objection(self, about: SnapshotInfo) -> str | None:
        """Why the journal does not continue a snapshot; None if it does."""
        if about.identity != mark_of(self.identity):
            return "of another service or configuration"
        return newer(about) or self.left.objection(about)


def locate(
    config: Config,
    log: Log,
    partition: Partition,
    store: SnapshotStore | None = None,
    end: int | None = None,
) -> JournalOrigin | None:
    """The identity of a journal, if the journal matches `config`; None for an empty journal.

    Parameters
    ----------
    store
        The snapshots of the shard, which identify a trimmed journal.
    end
        The position up to which it is read; None: its present end.

    Raises
    ------
    ConfigError
        It is the journal of another configuration.
    TransportError
        It does not start with record 0, and no snapshot reaches the rest of it.
    """
    origin = origin_of(config, log, partition, store, end)
    if origin is None:
        return None
    # The configuration is that of today, and `end` may be before a change of settings.
    end = origin.left.end
    now = replace(origin.left, end=max(end, log.end_offsets([partition])[partition]))
    moved = now.end > end and now.settings() != origin.identity.settings
    latest = origin_of(config, log, partition, store, now.end) if moved else origin
    if latest is not None:
        _same(config, latest.identity, partition)
    return origin


def origin_of(
    config: Config,
    log: Log,
    partition: Partition,
    store: SnapshotStore | None = None,
    end: int | None = None,
) -> JournalOrigin | None:
    """The identity of a journal, of whatever configuration it is. See `locate`."""
    if end is None:
        end = log.end_offsets([partition])[partition]
    first = log.beginning_offsets([partition])[partition]
    entry = next((found for _, found in entries(log, partition, first, end)), None)
    if entry is None and first == 0:
        return None
    slack = transport_of(config.input.transport).offsets_after_commit
    left = RemainingJournal(log, partition, first, end, slack)
    whole = isinstance(entry, IdentityRecord)
    identity = entry if isinstance(entry, IdentityRecord) else _remembered(config, left, store)
    return JournalOrigin(_with_settings(identity, left), left, whole)


def _with_settings(identity: IdentityRecord, left: RemainingJournal) -> IdentityRecord:
    """The identity with the settings that apply at the end of the journal."""
    settings = left.settings()
    if settings is None or settings == identity.settings:
        return identity
    record = next((entry for _, entry in left.entries(settings, settings + 1)), None)
    if not isinstance(record, RelearnRecord):
        raise TransportError(
            f"the journal {left.partition} has no record of new settings at offset {settings}, "
            "where its last record expects one: restore the journal topic"
        )
    return identity.under(record.identity, (record.seq, settings))


def expired(
    log: Log,
    positions: Mapping[Partition, int],
    left: Iterable[CommitRecord],
) -> str | None:
    """Which input lost records that the commits `left` still need; None if no input did."""
    begins = log.beginning_offsets(list(positions))
    gone = {p for p, begin in begins.items() if positions[p] < begin}
    if not gone:
        return None
    for entry in left:
        for r in entry.ranges:
            p = Partition(r.topic, r.partition)
            if p in gone and r.first < begins[p]:
                return f"{p} has lost its records {positions[p]} to {begins[p] - 1}"
    return None


def _remembered(
    config: Config, left: RemainingJournal, store: SnapshotStore | None
) -> IdentityRecord:
    """The identity of a trimmed journal, from the newest snapshot that reaches its rest."""
    refused: list[str] = []
    settings = left.settings()
    trimmed = settings is not None and (settings == 0 or settings < left.first)

    def objection(about: SnapshotInfo) -> str | None:
        if mark_of(about.entry) != about.identity:
            return "contains another identity"
        if (why := newer(about)) is not None:
            return why
        if trimmed and about.entry.settings != settings:
            return "has other settings than the journal's last record"
        return left.objection(about)

    reached = list[SnapshotInfo]()
    for part in [] if store is None else store.parts():
        reached += [about for about, _ in islice(part.newest(objection), 1)]
        refused += part.refused
    if reached:
        # A journal that --new-journal replaced may have ended at the same position.
        newest = max(reached, key=attrgetter("now"))
        if newest.entry is not None:
            return newest.entry
    raise left.lost(
        f"the journal {left.partition.topic} does not start with the identity of {config.name}: it "
        "was trimmed, or belongs to another program",
        refused,
    )


def _same(config: Config, identity: IdentityRecord, partition: Partition) -> None:
    different = identity_difference(identity.identity, config.identity())
    if identity.name != config.name:
        different = [f"name: was {identity.name}, now {config.name}"]
    if different:
        again = "change it back, or give this one a new name"
        if relearnable(different):
            again = "learn its records again with `headwater relearn CONFIG`, " + again
            if config.scale.shards > 1:
                again += "; if relearn was interrupted, only some shards changed: run it again"
        elif [line.partition(":")[0] for line in different] == ["scale.shards"]:
            again = "change it back and move the records with `headwater reshard`; if that was "
            again += "done, set [journal] topic too, as it has printed; or give this one a new name"
        journal = partition if config.scale.shards > 1 else partition.topic
        raise ConfigError(
            f"the journal {journal} belongs to another configuration "
            f"({'; '.join(different)}); {again}"
        )
