"""Follow the shards that other processes run, so that this process can take over warm. Reads only.

One follower per process, for any number of shards
(docs/decisions/groups.md#one-follower-for-each-process). One request asks for the ends of all
followed journals. Two threads, each with its own log, share the replays in slices. A shard applies
each journal record as it appears, without writing outputs, and so has the owner's model. It
publishes copies of the model for requests, as the owner does, each with its age. If a shard cannot
be followed (inputs are missing, a rollback removed its position), only the warm start is lost:
recovery then starts as on any start.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from consumers.base.errors import ConfigError, DivergedError, HeadwaterError
from consumers.base.health import Health
from consumers.base.records import Partition
from consumers.base.units import duration_ms
from consumers.config import Config
from consumers.journal.reader import Course, course
from consumers.service.journal_end import moved_away
from consumers.service.live import LiveShard, Sources
from consumers.service.recovery import DIVERGED, load, sources
from consumers.service.replay import replay
from consumers.snapshots.store import open_store
from consumers.transports.protocol import Log
from consumers.web.status_feed import StatusFeed

__all__ = ["Follower", "Standby"]

log = logging.getLogger("headwater")

LANES = 2  # if the log of one shard does not answer, the other shards still have a thread
LOOK_SECONDS = 0.25
PAUSE_SECONDS = 5.0  # after a failure to follow
SLICE_SECONDS = 0.5  # of a shard's replay, while other shards wait
SLICE_OFFSETS = 1_000  # of its journal, which each slice reads again
LEVEL_SECONDS = 2.0  # a copy that is not further behind its owner has reached the end
COPIES_SHARE = 0.1  # of the time of a thread; no commit waits for it

Connect = Callable[[], Log]


class _Stretch(NamedTuple):
    """A part of a journal to replay in slices: its sources, its summary, its end."""

    origin: int  # the journal record of the loaded snapshot; 0: none was loaded
    found: Sources
    ahead: Course
    end: int
    asked: float  # when that was the end of the journal


@dataclass(eq=False, slots=True)
class _Followed:
    """A shard that is followed. Only the thread that serves it changes its model."""

    shard: int
    journal: Partition
    feed: StatusFeed
    live: LiveShard | None = None  # at a journal record; None before it is loaded
    reached: int | None = None  # the journal record at which it last reached the journal's end
    end: int = 0  # of its journal, when last asked for
    asked: float = 0.0  # when that was, by the monotonic clock
    empty: int = 0  # an end before which there are only markers of aborted commits
    stretch: _Stretch | None = None  # being replayed, or replayed last
    before: int | None = None  # the journal record of a snapshot whose replay failed
    turn: int = 0  # when it was last served
    due: float = 0.0  # it is not served before this time
    apart: bool = False  # the common request failed, so its journal's end is requested separately
    failed: bool = False  # since it last reached the end
    serving: bool = False
    leaving: bool = False
    over: bool = False  # an error of this program: it is no longer followed
    logged: str = ""
    moved: ConfigError | None = None  # why the service does not continue in this journal

    @property
    def slow(self) -> bool:
        """Whether serving it may take long: it loads a snapshot, or its log does not answer."""
        return self.failed or self.live is None

    @property
    def behind(self) -> bool:
        """Whether there are journal records to apply."""
        if self.live is None:
            return self.end not in (0, self.empty)
        return self.end > self.live.position

    @property
    def unpublished(self) -> bool:
        """Whether it is at the end of its journal, and its model should be copied."""
        live = self.live
        return live is not None and not self.behind and self.feed.copies.lacks(live.position)


class Follower:
    """Follows shards, with the same number of threads and logs for any number of shards.

    Parameters
    ----------
    config
        The whole configuration.
    opened
        Opens a log. Each thread has its own.
    share
        The share of the time of a thread that copies of a model for requests may take.

    Notes
    -----
    A takeover waits only for its own shard: for the current journal record, or for the snapshot
    being loaded. A replay pauses between two journal records when other shards wait, so a long
    replay delays them by one slice. Shards that must be loaded, and shards that failed since they
    reached the end, are served one at a time; the other thread serves the rest. Each thread reads
    ahead at most `[commit] max_bytes`, as in any replay.
    """

    def __init__(self, config: Config, opened: Connect, share: float = COPIES_SHARE) -> None:
        self._config, self._opened, self._share = config, opened, share
        self._publishes = config.serve.enabled and config.http.enabled
        self._changed = threading.Condition()  # held to read or change the attributes below
        self._followed: dict[int, _Followed] = {}
        self._closing = self._looking = False
        self._slow: _Followed | None = None  # the slow one being served
        self._look_at = 0.0
        self._turns = 0
        self._threads = [
            threading.Thread(target=self._lane, name=f"standby-{n}", daemon=True)
            for n in range(LANES)
        ]
        for thread in self._threads:
            thread.start()

    def follow(self, shard: int) -> Standby:
        """Start to follow a shard."""
        max_age = duration_ms(self._config.serve.max_age) / 1000
        feed = StatusFeed(time.time, lambda: Health("standby"), max_age, self._share)
        followed = _Followed(shard, Partition(self._config.journal_topic, shard), feed)
        with self._changed:
            self._followed[shard] = followed
            self._look_at = 0.0
            self._changed.notify_all()
        return Standby(self, followed)

    def release(self, followed: _Followed) -> LiveShard | None:
        """Stop following a shard; see `Standby.release`."""
        self.drop(followed)
        with self._changed:
            self._changed.wait_for(lambda: not followed.serving)
            live, followed.live = followed.live, None
            return live

    def drop(self, followed: _Followed) -> None:
        """Stop following a shard; see `Standby.close`."""
        with self._changed:
            followed.leaving = True
            if self._followed.get(followed.shard) is followed:
                del self._followed[followed.shard]
            self._changed.notify_all()

    def close(self) -> None:
        """Stop following all shards, each between two journal records, and close the logs."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _lane(self) -> None:
        """One thread: do what is due. Its log is open while there are shards."""
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
        """The next job; None at the end."""
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
                    followed.turn, followed.serving = self._turns, True
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
        """Whether to serve a shard. A slow shard must leave a thread for the others."""
        if followed.serving or followed.leaving or followed.over or now < followed.due:
            return False
        if followed.slow and self._slow is not None:
            return False
        if followed.apart or followed.behind:
            return True
        return self._publishes and followed.unpublished

    def _look(self, connect: Connect) -> None:
        """Request the ends of all journals at once. Without commits this is the only request."""
        with self._changed:
            asked = [f for f in self._followed.values() if not f.apart]
        ends, now = None, time.monotonic()
        try:
            ends = connect().end_offsets([f.journal for f in asked])
        except Exception:  # one journal may be the cause, so each is requested separately
            log.debug("the ends of the journals cannot be requested together", exc_info=True)
        with self._changed:
            for followed in asked:
                if ends is None:
                    followed.apart = True
                else:
                    followed.end, followed.asked = ends[followed.journal], now
                    self._confirm(followed)
            self._looking = False
            self._changed.notify_all()

    def _confirm(self, followed: _Followed) -> None:
        """Note that a followed model is still the newest one, if it is; without its thread."""
        live, copies = followed.live, followed.feed.copies
        if live is None or followed.serving or followed.behind or copies.newest is None:
            return
        if copies.newest.position == live.position:
            copies.current = followed.asked

    def _publish(self, followed: _Followed, live: LiveShard) -> None:
        """Publish a model at the end of its journal. For the thread that serves it."""
        if not self._publishes:
            return
        at = followed.journal, live.position
        followed.feed.copies.offer(*at, partial(live.shard.copied, *at), followed.asked)
        copy = followed.feed.copies.newest
        if copy is not None and copy.position == live.position:
            followed.feed.recovered(live.shard.view())

    def _serve(self, followed: _Followed, connect: Connect) -> None:
        """Replay one slice of a shard. An error affects this shard only."""
        began, error, over = time.monotonic(), "", False
        try:
            self._advance(followed, connect())
        except HeadwaterError as failed:
            error = str(failed)
        except Exception as fault:  # the owner continues, and so must its possible successor
            error, over = f"{type(fault).__name__}: {fault}", True
        with self._changed:
            if error:
                now = time.monotonic()
                followed.reached = None
                followed.due = now + max(PAUSE_SECONDS, now - began)
                followed.over = over
            followed.failed = bool(error) or (followed.failed and followed.reached is None)
            followed.serving = False
            if self._slow is followed:
                self._slow = None
            self._changed.notify_all()
        if error not in ("", followed.logged) and not self._closing:
            log.warning("shard %d cannot be followed: %s", followed.shard, error)
            followed.logged = error

    def _advance(self, followed: _Followed, transport: Log) -> None:
        journal, end, asked = followed.journal, followed.end, followed.asked
        if followed.apart:
            followed.asked = time.monotonic()
            followed.end = transport.end_offsets([journal])[journal]
            followed.apart = False
            if followed.live is not None and not followed.behind:
                followed.reached = followed.live.seq
            return
        if followed.live is not None and not followed.behind:
            self._publish(followed, followed.live)
            return
        live, followed.live = followed.live, None  # a partly applied record makes it unusable
        if live is None:
            followed.reached = None
            if end <= transport.beginning_offsets([journal])[journal]:
                followed.empty = end
                return
            live, stretch = self._load(followed, transport, end, asked)
        else:
            following = self._stretch(followed, transport, live, end, asked)
            if following is None:
                followed.reached = None
                return  # a rollback removed its position, or it was re-learned: it is loaded next
            stretch = following
            self._replay(followed, transport, live, stretch)
        followed.live, followed.stretch = live, stretch
        if live.moved is not None:
            followed.moved = moved_away(journal, live.moved)
        if live.position >= stretch.end:
            # A load may take long, and the owner commits meanwhile. Then it is not warm yet.
            level = not followed.behind or time.monotonic() - stretch.asked < LEVEL_SECONDS
            if level or followed.reached is not None:
                followed.reached = live.seq
            self._publish(followed, live)

    def _load(
        self, followed: _Followed, transport: Log, end: int, asked: float
    ) -> tuple[LiveShard, _Stretch]:
        """The shard from its newest snapshot, or from the start, and the stretch after it."""
        found = sources(self._config, transport, followed.shard)
        store, before = open_store(self._config, followed.shard), followed.before
        followed.before = None
        live, ahead = load(self._config, transport, found, store, end=end, before=before)
        return live, _Stretch(live.seq, found, ahead, end, asked)

    def _stretch(
        self, followed: _Followed, transport: Log, live: LiveShard, end: int, asked: float
    ) -> _Stretch | None:
        """The rest of the current stretch, or the next one; None if it must be loaded again."""
        stretch = followed.stretch
        if stretch is None or stretch.end > live.position:
            return stretch
        ahead = course(transport, followed.journal, live.position, end)
        if ahead.without(live.seq) is not None or ahead.relearned is not None:
            return None
        # Topics are described at a load only: the journal names partitions that are added later.
        return stretch._replace(ahead=ahead, end=end, asked=asked)

    def _replay(
        self, followed: _Followed, transport: Log, live: LiveShard, stretch: _Stretch
    ) -> None:
        """Replay a slice: at least one journal record, unless the shard is released or all end."""
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
            # The journal is the truth: an older snapshot, or all records, may agree with it.
            followed.before = stretch.origin
            raise DivergedError(
                f"the replay from the snapshot at journal record {stretch.origin} fails "
                f"({type(error).__name__}: {error}); an older snapshot is tried"
            ) from error

    def _others_wait(self, now: float) -> bool:
        """Whether there is work that no thread does yet, other than the shard being served."""
        with self._changed:
            every = self._followed.values()
            return self._look_due(now) or any(self._ready(f, now) for f in every)


class Standby:
    """A followed shard, created by `Follower.follow`."""

    def __init__(self, follower: Follower, followed: _Followed) -> None:
        self._follower, self._followed = follower, followed

    @property
    def seq(self) -> int | None:
        """The journal record it has reached; None before it has reached the journal's end."""
        return self._followed.reached

    @property
    def moved(self) -> ConfigError | None:
        """The error of a start, if the service was moved to another number of shards."""
        return self._followed.moved

    @property
    def feed(self) -> StatusFeed:
        """The copies of its model for requests; its health is that of a standby."""
        return self._followed.feed

    def release(self) -> LiveShard | None:
        """Stop following. Returns the shard as far as it was followed.

        It waits for the current journal record or the snapshot being loaded of this shard, and for
        no other shard. The caller replays the rest.
        """
        return self._follower.release(self._followed)

    def close(self) -> None:
        """Stop following, without a wait for the journal record or the snapshot under way."""
        self._follower.drop(self._followed)
