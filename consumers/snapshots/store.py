"""Where snapshots lie: one directory a shard, one file a journal position.

Writing is: temporary file, fsync, read again and verify, rename, fsync the directory. The names
sort by journal position. One writer thread; the loop waits for nothing but the copy it hands over.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from consumers.errors import SnapshotError
from consumers.snapshots.format import About, from_bytes, to_bytes
from stream.state import State

__all__ = ["SnapshotStore", "SnapshotWriter"]

NAME = re.compile(r"snap-(\d{20})\.hws")


class SnapshotStore:
    """The snapshots of one shard.

    Parameters
    ----------
    directory
        Made when missing, readable by its owner only.
    keep
        How many of the newest stay.
    """

    def __init__(self, directory: Path, keep: int = 3) -> None:
        self.directory = directory
        self.keep = keep
        self.refused: list[str] = []  # what `newest` passed over, and why

    def of(self, identity: str) -> SnapshotStore:
        """The part that belongs to one journal: names and positions recur, identities do not."""
        return SnapshotStore(self.directory / identity[:16], self.keep)

    def write(self, about: About, state: State) -> Path:
        """Store one snapshot, verified.

        Raises
        ------
        SnapshotError
            It could not be written or does not read back; older ones are untouched.
        """
        about = msgspec.structs.replace(about, fingerprint=state.fingerprint())
        path = self.directory / f"snap-{about.position:020d}.hws"
        temporary = path.with_suffix(".tmp")
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(to_bytes(about, state))
                file.flush()
                os.fsync(file.fileno())
            if from_bytes(temporary.read_bytes())[0] != about:
                raise SnapshotError("it did not read back as it was written")
            os.replace(temporary, path)
            _sync(self.directory)
        except OSError as error:
            raise SnapshotError(f"cannot write {path}: {error.strerror or error}") from None
        self._collect(path.stem)
        return path

    def newest(self, accepts: Callable[[About], str | None]) -> Iterator[tuple[About, State]]:
        """Good snapshots, the newest first.

        Parameters
        ----------
        accepts
            Why a snapshot cannot be used, or None.

        Notes
        -----
        One that is damaged or not accepted is left where it is and told by `refused`.
        """
        self.refused = []
        for path in reversed(self.paths()):
            try:
                about, state = from_bytes(path.read_bytes())
                objection = accepts(about)
                if objection:
                    raise SnapshotError(objection)
            except (OSError, SnapshotError) as error:
                self.refused.append(f"{path.name}: {error}")
                continue
            yield about, state

    def paths(self) -> list[Path]:
        """Files, the oldest first."""
        try:
            entries = list(self.directory.iterdir())
        except FileNotFoundError:
            return []
        return sorted(p for p in entries if NAME.fullmatch(p.name))

    def _collect(self, newest: str) -> None:
        """Remove what is too old, and what a killed process left half-written."""
        left = [p for p in self.directory.glob(f"snap-{'[0-9]' * 20}.tmp") if p.stem < newest]
        for path in [*self.paths()[: -self.keep], *left]:
            with contextlib.suppress(OSError):
                path.unlink()


class SnapshotWriter:
    """Writes the newest state handed over, in a thread of its own.

    Parameters
    ----------
    store
        Where to.
    done
        Called with the journal position and the seconds since 1970 after each one written.
    failed
        Called with the error of each one that was not: the service goes on, replay grows longer.
    """

    def __init__(
        self,
        store: SnapshotStore,
        done: Callable[[int, float], None],
        failed: Callable[[SnapshotError], None],
    ) -> None:
        self._store, self._done, self._failed = store, done, failed
        self._next: tuple[About, State] | None = None
        self._ready = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
        self._thread.start()

    def submit(self, about: About, state: State) -> None:
        """Hand over a copy of the state; an older one not yet begun is dropped for it."""
        with self._ready:
            self._next = (about, state)
            self._ready.notify()

    def close(self) -> None:
        """Finish what was submitted."""
        with self._ready:
            self._closing = True
            self._ready.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._ready:
                self._ready.wait_for(lambda: self._next is not None or self._closing)
                if self._next is None:
                    return
                (about, state), self._next = self._next, None
            try:
                self._store.write(about, state)
                self._done(about.position, time.time())
            except Exception as error:  # a thread that died would never tell
                self._failed(
                    error
                    if isinstance(error, SnapshotError)
                    else SnapshotError(f"cannot write a snapshot: {type(error).__name__}: {error}")
                )


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
