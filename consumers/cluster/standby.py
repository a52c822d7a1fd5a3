"""The shards that other processes run, followed: this process takes them over warm. Reads only.

One follower a process, however many shards (docs/decisions/0047): one request asks for the ends of
all followed journals, and two threads, each with a log of its own, share the replays in slices. A
shard applies each journal entry as it appears, output muted, and so holds the model the owner has.
What cannot be followed (inputs that are gone, a rollback behind it) costs the shard its warmth, no
more: recovery then begins as for any start.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from consumers.base.errors import DivergedError, HeadwaterError
from consumers.base.records import Partition
from consumers.config import Config
from consumers.journal.reader import Course, course
from consumers.service.live import LiveShard, Sources
from consumers.service.recovery import DIVERGED, load, sources
from consumers.service.replay import replay
from consumers.snapshots.store import open_store
from consumers.transports.protocol import Log

__all__ = ["Follower", "Standby"]

log = logging.getLogger("headwater")

LANES = 2  # one shard whose log does not answer leaves the others a thread
LOOK_SECONDS = 0.25
PAUSE_SECONDS = 5.0  # after what cannot be followed
SLICE_SECONDS = 0.5  # of a shard's replay, while others wait
SLICE_OFFSETS = 1_000  # of its journal, read again for each slice

Connect = Callable[[], Log]


class _Stretch(NamedTuple):
    """A part of a journal to replay, in slices: what it needs, what it holds, where it ends."""

    origin: int  # the entry of the snapshot that was loaded; 0: none was
    found: Sources
    ahead: Course
    end: int


@dataclass(eq=False, slots=True)
class _Followed:
    """A shard that is followed. Only the thread that has it in hand changes its model."""

    shard: int
    journal: Partition
    live: LiveShard | None = None  # at an entry of the journal; None before it is loaded
    reached: int | None = None  # the entry where it was level with its journal last
    end: int = 0  # of its journal, as of the last look
    empty: int = 0  # an end before which there is no entry: markers of aborted commits only
    stretch: _Stretch | None = None  # being replayed, or replayed last
    before: int | None = None  # the entry of a snapshot whose replay failed
    turn: int = 0  # when it was served last
    due: float = 0.0  # it is left alone until then
    apart: bool = False  # the common look failed: its journal is asked for by itself
    failed: bool = False  # since it was level last
    in_hand: bool = False
    leaving: bool = False
    over: bool = False  # a fault of this program: it is not followed any more
    told: str = ""

    @property
    def slow(self) -> bool:
        """Whether its turn may take long: a snapshot to be loaded, a log that does not answer."""
        return self.failed or self.live is None

    @property
    def behind(self) -> bool:
        """Whether there is something to apply."""
        if self.live is None:
            return self.end not in (0, self.empty)
        return self.end > self.live.position


class Follower:
    """Follows shards, in as many threads and with as many logs for eight shards as for one.

    Parameters
    ----------
    config
        The whole configuration.
    opened
        Opens a log; each thread has one of its own.

    Notes
    -----
    A takeover waits for its own shard only: for the entry under way, or for the snapshot being
    loaded. A replay is cut between two entries once others wait, so a long one delays them by a
    slice. Shards to be loaded, and shards that failed since they were level, come one at a time:
    the other thread is there for the rest. What is read ahead is bounded as in any replay
    (`[commit] max_bytes`), once a thread.
    """

    def __init__(self, config: Config, opened: Connect) -> None:
        self._config, self._opened = config, opened
        self._changed = threading.Condition()  # held to read or change what is below
        self._followed: dict[int, _Followed] = {}
        self._closing = self._looking = False
        self._slow: _Followed | None = None  # the one in hand
        self._look_at = 0.0
        self._turns = 0
        self._threads = [
            threading.Thread(target=self._lane, name=f"standby-{n}", daemon=True)
            for n in range(LANES)
        ]
        for thread in self._threads:
            thread.start()

    def follow(self, shard: int) -> Standby:
        """Begin to follow a shard."""
        followed = _Followed(shard, Partition(self._config.journal_topic, shard))
        with self._changed:
            self._followed[shard] = followed
            self._look_at = 0.0
            self._changed.notify_all()
        return Standby(self, followed)

    def release(self, followed: _Followed) -> LiveShard | None:
        """Stop following a shard; see `Standby.release`."""
        with self._changed:
            followed.leaving = True
            self._changed.wait_for(lambda: not followed.in_hand)
            if self._followed.get(followed.shard) is followed:
                del self._followed[followed.shard]
            self._changed.notify_all()
            live, followed.live = followed.live, None
            return live

    def close(self) -> None:
        """Stop following all shards, each between two entries, and close the logs."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _lane(self) -> None:
        """A thread: do what there is to do, with a log that is open while there are shards."""
        logs: list[Log] = []

        def connect() -> Log:
            if not logs:
                logs.append(self._opened())
            return logs[0]

        try:
            while (job := self._job(bool(logs))) is not None:
                job(connect)
                if not self._followed and logs:
                    logs.pop().close()
        finally:
            for opened in logs:
                opened.close()

    def _job(self, connected: bool) -> Callable[[Connect], None] | None:
        """What is to be done next; None at the end."""
        with self._changed:
            while not self._closing:
                if connected and not self._followed:
                    return lambda connect: None
                now = time.monotonic()
                if self._look_due(now):
                    self._looking, self._look_at = True, now + LOOK_SECONDS
                    return self._look
                ready = [f for f in self._followed.values() if self._ready(f, now)]
                if ready:
                    followed = min(ready, key=lambda f: f.turn)
                    self._turns += 1
                    followed.turn, followed.in_hand = self._turns, True
                    self._slow = self._slow or (followed if followed.slow else None)
                    return partial(self._serve, followed)
                left = self._look_at - now
                wait = left if 0 < left < LOOK_SECONDS else LOOK_SECONDS
                self._changed.wait(wait if self._followed else None)
        return None

    def _look_due(self, now: float) -> bool:
        together = any(not f.apart for f in self._followed.values())
        return together and not self._looking and now >= self._look_at

    def _ready(self, followed: _Followed, now: float) -> bool:
        """Whether a shard is to be served. One that is slow leaves a thread to the others."""
        if followed.in_hand or followed.leaving or followed.over or now < followed.due:
            return False
        if followed.slow and self._slow is not None:
            return False
        return followed.apart or followed.behind

    def _look(self, connect: Connect) -> None:
        """Ask where all journals end, at once; while nothing is committed, nothing else is."""
        with self._changed:
            asked = [f for f in self._followed.values() if not f.apart]
        ends = None
        try:
            ends = connect().end_offsets([f.journal for f in asked])
        except Exception:  # one may be why: each is asked for by itself, and says so
            log.debug("the journals' ends cannot be found together", exc_info=True)
        with self._changed:
            for followed in asked:
                if ends is None:
                    followed.apart = True
                else:
                    followed.end = ends[followed.journal]
            self._looking = False
            self._changed.notify_all()

    def _serve(self, followed: _Followed, connect: Connect) -> None:
        """Bring a shard on by a slice; whatever goes wrong is this shard's alone."""
        began, error, over = time.monotonic(), "", False
        try:
            self._advance(followed, connect())
        except HeadwaterError as failed:
            error = str(failed)
        except Exception as fault:  # the owner goes on; so must what would take over from it
            error, over = f"{type(fault).__name__}: {fault}", True
        with self._changed:
            if error:
                now = time.monotonic()
                followed.reached = None
                followed.due = now + max(PAUSE_SECONDS, now - began)
                followed.over = over
            followed.failed = bool(error) or (followed.failed and followed.reached is None)
            followed.in_hand = False
            if self._slow is followed:
                self._slow = None
            self._changed.notify_all()
        if error not in ("", followed.told) and not self._closing:
            log.warning("shard %d cannot be followed: %s", followed.shard, error)
            followed.told = error

    def _advance(self, followed: _Followed, transport: Log) -> None:
        journal, end = followed.journal, followed.end
        if followed.apart:
            followed.end = transport.end_offsets([journal])[journal]
            followed.apart = False
            if followed.live is not None and not followed.behind:
                followed.reached = followed.live.seq
            return
        live, followed.live = followed.live, None  # half applied it is worth nothing
        if live is None:
            followed.reached = None
            if end <= transport.beginning_offsets([journal])[journal]:
                followed.empty = end
                return
            live, stretch = self._load(followed, transport, end)
        else:
            going_on = self._stretch(followed, transport, live, end)
            if going_on is None:
                followed.reached = None
                return  # rolled back behind it: loaded at its next turn
            stretch = going_on
            self._replay(followed, transport, live, stretch)
        followed.live, followed.stretch = live, stretch
        if live.position >= stretch.end:
            followed.reached = live.seq

    def _load(self, followed: _Followed, transport: Log, end: int) -> tuple[LiveShard, _Stretch]:
        """The shard from its newest snapshot, or from nothing, and what lies ahead of it."""
        found = sources(self._config, transport, followed.shard)
        store, before = open_store(self._config, followed.shard), followed.before
        followed.before = None
        live, ahead = load(self._config, transport, found, store, end=end, before=before)
        return live, _Stretch(live.seq, found, ahead, end)

    def _stretch(
        self, followed: _Followed, transport: Log, live: LiveShard, end: int
    ) -> _Stretch | None:
        """What is left of the one under way, or the next one; None where it does not go on."""
        stretch = followed.stretch
        if stretch is not None and stretch.end > live.position:
            return stretch
        found = sources(self._config, transport, followed.shard)
        ahead = course(transport, followed.journal, live.position, end)
        if ahead.without(live.seq) is not None:
            return None
        return _Stretch(0 if stretch is None else stretch.origin, found, ahead, end)

    def _replay(
        self, followed: _Followed, transport: Log, live: LiveShard, stretch: _Stretch
    ) -> None:
        """A slice of it: at least an entry, unless the shard is wanted or all end."""
        start, until = live.position, time.monotonic() + SLICE_SECONDS

        def enough() -> bool:
            if followed.leaving or self._closing:
                return True
            now = time.monotonic()
            return live.position > start and now >= until and self._others_wait(now)

        end = min(stretch.end, start + SLICE_OFFSETS)
        try:
            replay(transport, stretch.found, live, end, stretch.ahead, enough=enough)
        except DIVERGED as error:
            if not stretch.origin:
                raise
            # The journal outranks a snapshot: an older one, or all records, may agree with it.
            followed.before = stretch.origin
            raise DivergedError(
                f"the replay from the snapshot at entry {stretch.origin} fails "
                f"({type(error).__name__}: {error}); an older one is tried"
            ) from error

    def _others_wait(self, now: float) -> bool:
        """Whether there is work that no thread has taken; a shard in hand does not count."""
        with self._changed:
            every = self._followed.values()
            return self._look_due(now) or any(self._ready(f, now) for f in every)


class Standby:
    """A shard that is followed; made by `Follower.follow`."""

    def __init__(self, follower: Follower, followed: _Followed) -> None:
        self._follower, self._followed = follower, followed

    @property
    def seq(self) -> int | None:
        """The journal entry it has reached; None before it was level with its journal."""
        return self._followed.reached

    def release(self) -> LiveShard | None:
        """Stop following; the shard as far as it was followed.

        It waits for the entry under way or the snapshot being loaded of this shard, and for no
        other shard. What is left to replay is for the caller to do.
        """
        return self._follower.release(self._followed)

    def close(self) -> None:
        """Stop following."""
        self.release()
