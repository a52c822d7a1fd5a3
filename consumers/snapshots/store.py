"""The snapshots of one shard: one directory per journal, one file per journal position.

A snapshot is verified when it is read. After each write, snapshots past their retention are
removed: the newest stay, and one per day of the journaled clock. With `[snapshots] copy_to` each
snapshot is also copied there, and a host without valid snapshots of its own starts from a copy. One
thread writes. The processing loop waits only while the state is copied.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from consumers.base.errors import SnapshotError
from consumers.config import Config
from consumers.snapshots.format import (
    START,
    SnapshotInfo,
    from_bytes,
    header_size,
    name_of,
    parts_of,
    peek,
)
from consumers.snapshots.key_files import KeyReader, stored_point
from consumers.snapshots.places import Directory, Place, Remote
from stream.data.state import State
from stream.errors import StateError

__all__ = [
    "CopyError",
    "SnapshotStore",
    "SnapshotWriter",
    "home",
    "kept",
    "open_store",
    "read",
]


_DAY_MS = 86_400_000


def kept(found: Mapping[int, int | None], keep: int, retention_ms: int) -> set[int]:
    """Positions of the snapshots to keep.

    Parameters
    ----------
    found
        Position to journaled clock in ms; None if the file does not contain one.
    keep
        How many of the newest are always kept.
    retention_ms
        The newest of each day is kept while it is at most this much older than the newest of all.

    Examples
    --------
    >>> hour, day = 3_600_000, 86_400_000
    >>> found = {1: 0, 2: hour, 3: day, 4: day + hour, 5: 2 * day, 6: 2 * day + hour}
    >>> sorted(kept(found, 1, 7 * day)), sorted(kept(found, 2, day))
    ([2, 4, 6], [4, 5, 6])
    """
    stay = set(sorted(found)[-keep:])
    clocks = {position: clock for position, clock in found.items() if clock is not None}
    if not clocks:
        return stay
    oldest = clocks[max(clocks)] - retention_ms
    newest_of_day = {clocks[p] // _DAY_MS: p for p in sorted(clocks) if clocks[p] >= oldest}
    return stay | set(newest_of_day.values())


WEEK_MS = 7 * 86_400_000
LARGEST_PEEK = 64 * 2**20  # bytes of a header; a damaged one may claim any size
CLOSE_SECONDS = 60.0  # for the last snapshot and its copy; supervisors wait 30 s to 90 s


class CopyError(SnapshotError):
    """A snapshot was written on this host, but its copy was not."""


class SnapshotStore:
    """The snapshots of one shard.

    Parameters
    ----------
    directory
        Created when missing. Only its owner can read it.
    keep
        How many of the newest are kept.
    retention_ms
        How long, by the journaled clock, the newest of each day is kept.
    copies
        Where copies are stored.
    key
        The key for signatures; None: not signed.
    """

    def __init__(
        self,
        directory: Path,
        keep: int = 3,
        retention_ms: int = WEEK_MS,
        copies: Remote | None = None,
        key: str | None = None,
    ) -> None:
        self.directory = directory
        self.keep = keep
        self.retention_ms = retention_ms
        self.refused: list[str] = []  # snapshots that `newest` skipped, with the reason
        self.copied: str | None = None  # place of the last yielded snapshot, if it is a copy
        self.local = Directory(directory)
        self._copies = copies
        self._key = key
        # By name, so that each header is read once; None for one that cannot be read.
        self._abouts: dict[str, SnapshotInfo | None] = {}

    def of(self, identity: str) -> SnapshotStore:
        """The part of one journal. Names and positions repeat, identities do not."""
        return self._part(identity[:16])

    def parts(self) -> list[SnapshotStore]:
        """The existing parts, local or copied: one for each journal that this shard has had."""
        names: set[str] = set()
        for place in self._places():
            with contextlib.suppress(SnapshotError):  # `newest` of the part reports it
                names |= set(place.parts())
        return [self._part(name) for name in sorted(names)]

    def _part(self, name: str) -> SnapshotStore:
        copies = self._copies.part(name) if self._copies else None
        return SnapshotStore(self.directory / name, self.keep, self.retention_ms, copies, self._key)

    def _places(self) -> list[Place]:
        return [self.local, *([self._copies] if self._copies else [])]

    def write(self, about: SnapshotInfo, state: State) -> SnapshotInfo:
        """Store one verified snapshot. Returns its description, with the state's fingerprint.

        Raises
        ------
        SnapshotError
            It could not be written or read back. Older snapshots are unchanged.
        """
        about = msgspec.structs.replace(about, fingerprint=state.fingerprint())
        if (point := stored_point(state)) is not None:
            about = msgspec.structs.replace(about, keys=(point["file"], point["version"]))
        name = name_of(about)
        self.local.write(name, parts_of(about, state, self._key))
        self._abouts[name] = about
        self.local.tidy()
        self._collect(self.local, name)
        return about

    def copy(self, name: str) -> None:
        """Copy a snapshot to `[snapshots] copy_to`. Without this setting nothing happens.

        Raises
        ------
        CopyError
            The copy failed. The next snapshot is copied nevertheless.
        """
        if self._copies is None:
            return
        try:
            self._copies.write(name, [self.local.read(name)])
            self._collect(self._copies, name)
        except SnapshotError as error:
            raise CopyError(str(error)) from None

    def newest(
        self, accepts: Callable[[SnapshotInfo], str | None]
    ) -> Iterator[tuple[SnapshotInfo, State]]:
        """Valid snapshots, the newest first. Of this host, before a copy at the same position.

        A copy may be newer, if another host has had the shard since.

        Parameters
        ----------
        accepts
            Why a snapshot cannot be used, or None.

        Notes
        -----
        A snapshot that is damaged or not accepted is not removed; `refused` lists it.
        """
        found, self.refused = self._listed()
        objected: set[str] = set()  # valid but not accepted, so a copy would not be either
        for name, place in found:
            if name in objected:
                continue
            copied = None if place is self.local else f"{place}/{name}"
            try:
                about, state = read(place, name, self._key)
                objection = accepts(about) or self._without_keys(state)
            except SnapshotError as error:
                objection = str(error)
            else:
                objected.add(name)
                if objection is None:
                    self.copied = copied
                    yield about, state
                    continue
            self.refused.append(f"{copied or name}: {objection}")

    def _without_keys(self, state: State) -> str | None:
        """Why the keys of a state cannot be read; None if they can, or if it has all of them."""
        point = stored_point(state)
        try:
            if point is not None:
                KeyReader(self.directory).check(point)
        except StateError as error:
            return str(error)
        return None

    def newest_after(self, position: int) -> SnapshotInfo | None:
        """The newest valid snapshot after a journal position, of this host or copied."""
        for name, place in self._listed()[0]:
            if _position(name) <= position:
                break
            with contextlib.suppress(SnapshotError):
                return read(place, name, self._key)[0]
        return None

    def _listed(self) -> tuple[list[tuple[str, Place]], list[str]]:
        """Names of snapshots with their places, in the order of `newest`, and why some places have
        none."""
        found: list[tuple[str, Place]] = []
        errors = []
        for place in self._places():
            try:
                found += [(name, place) for name in place.names()]
            except SnapshotError as error:
                errors.append(str(error))
        return sorted(found, key=lambda each: _position(each[0]), reverse=True), errors

    def paths(self) -> list[Path]:
        """Files of this host, the oldest first."""
        return [self.directory / name for name in self.local.names()]

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Be the only writer on this host. SnapshotError if another process is the writer."""
        return self.local.locked()

    def _collect(self, place: Place, newest: str) -> None:
        """Remove snapshots past their retention.

        Snapshots after the newest may belong to a history that the journal lost. A start refuses
        them. Here they must not make the newest look old.
        """
        names = {_position(n): n for n in place.names() if n <= newest}
        found = {position: self._about(place, name) for position, name in names.items()}
        clocks = {position: about.now if about else None for position, about in found.items()}
        for position in names.keys() - kept(clocks, self.keep, self.retention_ms):
            place.remove(names[position])
            self._abouts.pop(names[position], None)

    def points(self) -> set[tuple[str, int]]:
        """The files of keys, and the versions in them, that the snapshots of this host name."""
        names = self.local.names()
        self._abouts = {name: self._abouts[name] for name in names if name in self._abouts}
        found = (self._about(self.local, name) for name in names)
        return {about.keys for about in found if about is not None and about.keys is not None}

    def _about(self, place: Place, name: str) -> SnapshotInfo | None:
        """The description in a file, not verified."""
        if name not in self._abouts:
            about = None
            with contextlib.suppress(SnapshotError):
                size = header_size(place.read(name, START))
                if 0 < size <= LARGEST_PEEK:
                    about = peek(place.read(name, START + size)[START:])
            self._abouts[name] = about
        return self._abouts[name]


def read(place: Place, name: str, key: str | None = None) -> tuple[SnapshotInfo, State]:
    """One snapshot, verified.

    Raises
    ------
    SnapshotError
        It cannot be read, is damaged, or its position differs from its name.
    """
    about, state = from_bytes(place.read(name), key)
    if name != name_of(about):
        raise SnapshotError(f"its journal position is {about.position}, its name has another one")
    return about, state


def _position(name: str) -> int:
    return int(name[5:25])


def _parts(config: Config, shard: int) -> tuple[str, str]:
    """The folders of a shard's snapshots, below a directory or a URL."""
    return config.name, f"shard-{shard}"


def home(config: Config, shard: int) -> Path:
    """The directory of a shard's snapshots."""
    return config.snapshots.directory.joinpath(*_parts(config, shard))


def open_store(config: Config, shard: int = 0) -> SnapshotStore:
    """The configured store of a shard.

    Raises
    ------
    ConfigError
        `[snapshots] copy_to` is set, and what it needs is not installed.
    """
    copies = None
    if config.snapshots.copy_to is not None:
        copies = Remote.at(config.snapshots.copy_to)
        for name in _parts(config, shard):
            copies = copies.part(name)
    return SnapshotStore(
        home(config, shard),
        config.snapshots.keep,
        config.journal.retention_ms,
        copies,
        config.snapshots.key,
    )


class SnapshotWriter:
    """Writes the newest submitted state, in its own thread.

    Parameters
    ----------
    store
        Where snapshots are written.
    done
        Called after each snapshot, with its description and the seconds since 1970.
    failed
        Called with the error of each failed snapshot, and with a `CopyError` if only the copy
        failed. The service continues, and a replay takes longer.
    """

    def __init__(
        self,
        store: SnapshotStore,
        done: Callable[[SnapshotInfo, float], None],
        failed: Callable[[SnapshotError], None],
    ) -> None:
        self._store, self._done, self._failed = store, done, failed
        self._next: tuple[SnapshotInfo, State] | None = None
        self._ready = threading.Condition()
        self._closing = self._writing = False
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a submitted state is not yet written. Another one would be one more copy."""
        return self._next is not None or self._writing

    def submit(self, about: SnapshotInfo, state: State) -> None:
        """Submit a copy of the state. It replaces an older state that is still waiting."""
        with self._ready:
            self._next = (about, state)
            self._ready.notify()

    def close(self) -> None:
        """Finish the submitted snapshot, for at most `CLOSE_SECONDS`."""
        with self._ready:
            self._closing = True
            self._ready.notify()
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            self._failed(
                CopyError(f"the last snapshot took more than {CLOSE_SECONDS:g} s and was abandoned")
            )

    def _run(self) -> None:
        with contextlib.ExitStack() as held:
            locked = False
            while True:
                with self._ready:
                    self._ready.wait_for(lambda: self._next is not None or self._closing)
                    if self._next is None:
                        return
                    (about, state), self._next, self._writing = self._next, None, True
                try:
                    if not locked:  # each time, because the other writer may have ended
                        held.enter_context(self._store.locked())
                        locked = True
                    written = self._store.write(about, state)
                    self._done(written, time.time())
                    self._store.copy(name_of(written))
                except Exception as error:  # a thread that dies reports nothing
                    self._failed(
                        error
                        if isinstance(error, SnapshotError)
                        else SnapshotError(
                            f"cannot write a snapshot: {type(error).__name__}: {error}"
                        )
                    )
                del state  # it may be large, and the next one may come late
                self._writing = False
