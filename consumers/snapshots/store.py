"""The snapshots of one shard: one directory a journal, one file a journal position.

What is read is verified before it is believed. After each snapshot those that nothing needs any
more are removed; where `[snapshots] copy_to` is set, a copy is put there too, and is what a host
without good snapshots of its own starts from. One writer thread; the loop waits for nothing but
the state it hands over.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
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
    peek,
    to_bytes,
)
from consumers.snapshots.places import Directory, Place, Remote
from consumers.snapshots.retention import kept
from stream.data.state import State

__all__ = ["CopyError", "SnapshotStore", "SnapshotWriter", "home", "open_store", "read"]

WEEK_MS = 7 * 86_400_000
LARGEST_PEEK = 64 * 2**20  # bytes of a header; a damaged one may claim to have any
CLOSE_SECONDS = 60.0  # for the last snapshot and its copy; supervisors wait 30 s to 90 s


class CopyError(SnapshotError):
    """A snapshot is on this host's disk, its copy is not where it should be."""


class SnapshotStore:
    """The snapshots of one shard.

    Parameters
    ----------
    directory
        Made when missing, readable by its owner only.
    keep
        How many of the newest stay.
    retention_ms
        How long, by the journaled clock, the newest of each day stays.
    copies
        Where copies go.
    key
        What they are signed with; None: they are not.
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
        self.refused: list[str] = []  # what `newest` passed over, and why
        self.copied: str | None = None  # where the one it gave last lies, if not on this host
        self.local = Directory(directory)
        self._copies = copies
        self._key = key
        self._clocks: dict[str, int | None] = {}  # by name: no header is looked at twice

    def of(self, identity: str) -> SnapshotStore:
        """The part that belongs to one journal: names and positions recur, identities do not."""
        return self._part(identity[:16])

    def parts(self) -> list[SnapshotStore]:
        """The parts there are, of this host or copied: one a journal this shard has had."""
        names: set[str] = set()
        for place in self._places():
            with contextlib.suppress(SnapshotError):  # `newest` of the part tells
                names |= set(place.parts())
        return [self._part(name) for name in sorted(names)]

    def _part(self, name: str) -> SnapshotStore:
        copies = self._copies.part(name) if self._copies else None
        return SnapshotStore(self.directory / name, self.keep, self.retention_ms, copies, self._key)

    def _places(self) -> list[Place]:
        return [self.local, *([self._copies] if self._copies else [])]

    def write(self, about: SnapshotInfo, state: State) -> SnapshotInfo:
        """Store one snapshot, verified; what it says of itself, its state's fingerprint with it.

        Raises
        ------
        SnapshotError
            It could not be written or does not read back; older ones are untouched.
        """
        about = msgspec.structs.replace(about, fingerprint=state.fingerprint())
        name = name_of(about)
        self.local.write(name, to_bytes(about, state, self._key))
        self._clocks[name] = about.now
        self.local.tidy()
        self._collect(self.local, name)
        return about

    def copy(self, name: str) -> None:
        """Put a copy of a snapshot where copies go; nothing happens where none do.

        Raises
        ------
        CopyError
            It is not there. The next one is copied all the same.
        """
        if self._copies is None:
            return
        try:
            self._copies.write(name, self.local.read(name))
            self._collect(self._copies, name)
        except SnapshotError as error:
            raise CopyError(str(error)) from None

    def newest(
        self, accepts: Callable[[SnapshotInfo], str | None]
    ) -> Iterator[tuple[SnapshotInfo, State]]:
        """Good snapshots, the newest first; copies when this host has none that is used.

        Parameters
        ----------
        accepts
            Why a snapshot cannot be used, or None.

        Notes
        -----
        One that is damaged or not accepted is left where it is and told by `refused`.
        """
        self.refused = []
        objected: set[str] = set()  # whole and not to be used: its copy is no better
        for place in self._places():
            try:
                names = place.names()
            except SnapshotError as error:
                self.refused.append(str(error))
                continue
            for name in reversed(names):
                if name in objected:
                    continue
                copied = None if place is self.local else f"{place}/{name}"
                try:
                    about, state = read(place, name, self._key)
                    objection = accepts(about)
                except SnapshotError as error:
                    objection = str(error)
                else:
                    objected.add(name)
                    if objection is None:
                        self.copied = copied
                        yield about, state
                        continue
                self.refused.append(f"{copied or name}: {objection}")

    def paths(self) -> list[Path]:
        """Files of this host, the oldest first."""
        return [self.directory / name for name in self.local.names()]

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Be the only writer on this host. SnapshotError where another process is."""
        return self.local.locked()

    def _collect(self, place: Place, newest: str) -> None:
        """Remove what is too old.

        Past the newest there may be some of a history that the journal lost: they are refused when
        they are read, and must not make it look old here.
        """
        names = {int(n[5:25]): n for n in place.names() if n <= newest}
        clocks = {position: self._clock(place, name) for position, name in names.items()}
        for position in names.keys() - kept(clocks, self.keep, self.retention_ms):
            place.remove(names[position])
            self._clocks.pop(names[position], None)

    def _clock(self, place: Place, name: str) -> int | None:
        """The journaled clock a file tells, unverified."""
        if name not in self._clocks:
            about = None
            with contextlib.suppress(SnapshotError):
                size = header_size(place.read(name, START))
                if 0 < size <= LARGEST_PEEK:
                    about = peek(place.read(name, START + size)[START:])
            self._clocks[name] = about.now if about else None
        return self._clocks[name]


def read(place: Place, name: str, key: str | None = None) -> tuple[SnapshotInfo, State]:
    """One snapshot, verified.

    Raises
    ------
    SnapshotError
        It cannot be read, is damaged, or is not what its name says.
    """
    about, state = from_bytes(place.read(name), key)
    if name != name_of(about):
        raise SnapshotError(f"of journal position {about.position}, not what its name says")
    return about, state


def _parts(config: Config, shard: int) -> tuple[str, str]:
    """Where a shard's snapshots lie, below a directory or a URL."""
    return config.name, f"shard-{shard}"


def home(config: Config, shard: int) -> Path:
    """The directory of a shard's snapshots."""
    return config.snapshots.directory.joinpath(*_parts(config, shard))


def open_store(config: Config, shard: int = 0) -> SnapshotStore:
    """The store of a shard as it is configured.

    Raises
    ------
    ConfigError
        Copies are asked for, and what they need is not installed.
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
    """Writes the newest state handed over, in a thread of its own.

    Parameters
    ----------
    store
        Where to.
    done
        Called after each one written, with what it says of itself and the seconds since 1970.
    failed
        Called with the error of each one that was not, and with a `CopyError` where only its copy
        was not: the service goes on, replay grows longer.
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
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
        self._thread.start()

    def submit(self, about: SnapshotInfo, state: State) -> None:
        """Hand over a copy of the state; an older one not yet begun is dropped for it."""
        with self._ready:
            self._next = (about, state)
            self._ready.notify()

    def close(self) -> None:
        """Finish what was submitted, unless where copies go has stopped answering."""
        with self._ready:
            self._closing = True
            self._ready.notify()
        self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            self._failed(CopyError(f"the last snapshot took over {CLOSE_SECONDS:g} s; given up"))

    def _run(self) -> None:
        with contextlib.ExitStack() as held:
            locked = False
            while True:
                with self._ready:
                    self._ready.wait_for(lambda: self._next is not None or self._closing)
                    if self._next is None:
                        return
                    (about, state), self._next = self._next, None
                try:
                    if not locked:  # again each time: the process that has it may be gone by now
                        held.enter_context(self._store.locked())
                        locked = True
                    written = self._store.write(about, state)
                    self._done(written, time.time())
                    self._store.copy(name_of(written))
                except Exception as error:  # a thread that died would never tell
                    self._failed(
                        error
                        if isinstance(error, SnapshotError)
                        else SnapshotError(
                            f"cannot write a snapshot: {type(error).__name__}: {error}"
                        )
                    )
