"""Answer requests in a process of their own, on a port of their own.

The parent sends its newest models through a pipe, and the child answers by them. So requests take
no time of the loop: they do not share its interpreter. Pickles go one way, from the service to the
process that it started; what the child refused comes back as JSON. The child ends with the pipe,
and is started again if it dies.

A model that is too slow to copy is not sent: the child follows the journal of its shard, as a
standby does, and the loop stops making copies.
"""

from __future__ import annotations

import json
import logging
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from consumers.api.api import Api
from consumers.api.published import Beat, OwnShard, ParentShard, Published, status_of
from consumers.api.routes import handlers, refusal
from consumers.base.errors import ConfigError
from consumers.base.units import duration_ms
from consumers.config import Config
from consumers.shard.answer import ModelCopy
from consumers.web.access import access_of
from consumers.web.app import Server, plain_application
from consumers.web.status_feed import StatusFeed

__all__ = ["ServingProcess"]

log = logging.getLogger("headwater")

BEATS = 4  # in the age that a model may have
START_SECONDS = 60.0
STOP_SECONDS = 5.0
PAUSE_SECONDS = 1.0  # before a dead process is started again
FOLLOWER_SHARE = 0.2  # of the time of the child that copies of a followed model may take


class _News(NamedTuple):
    """What the child gets of a shard: a beat, the model if it is another one, and whether to follow
    the journal instead."""

    shard: int
    beat: Beat
    copy: ModelCopy | None
    follow: bool


class ServingProcess:
    """The child process and the thread that feeds it.

    Parameters
    ----------
    config
        The configuration; `[serve] port` is set.
    status_feeds
        What the loops of this process publish, by shard.
    refused
        Counts what the child refuses, by reason.
    """

    def __init__(
        self,
        config: Config,
        status_feeds: Callable[[], Mapping[int, StatusFeed]],
        refused: Counter[str],
    ) -> None:
        self._config, self._feeds, self._refused = config, status_feeds, refused
        self._every = duration_ms(config.serve.max_age) / 1000 / BEATS
        self._stop = threading.Event()
        self._sent: dict[int, ModelCopy] = {}
        self._said = ""  # the last error of sending
        self._port = config.serve.port or 0
        self._pipe, self._child = self._started()
        self._port = self._announced()  # a process that is started again has the same port
        self._thread = threading.Thread(target=self._feed, name="headwater-serving", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it answers on."""
        return self._port

    def close(self) -> None:
        """End the process, also if it does not read its pipe."""
        self._stop.set()
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive():
            self._child.kill()
            self._thread.join()
        self._end()

    def _started(self) -> tuple[Connection, BaseProcess]:
        context = get_context("spawn")
        mine, its = context.Pipe()
        child = context.Process(
            target=_run, args=(its, self._config, self._port), name="headwater-serving", daemon=True
        )
        child.start()
        its.close()
        return mine, child

    def _announced(self) -> int:
        """The port of a started child. ConfigError with its reason if it cannot listen."""
        try:
            found = self._pipe.recv() if self._pipe.poll(START_SECONDS) else "it does not start"
        except (EOFError, OSError):
            found = "it has ended; see the log"
        if isinstance(found, int):
            return found
        self._end()
        raise ConfigError(f"[serve] port: {found}")

    def _end(self) -> None:
        self._pipe.close()
        self._child.join(STOP_SECONDS)
        if self._child.is_alive():
            self._child.kill()
            self._child.join()

    def _feed(self) -> None:
        """Send what is new until stopped."""
        while not self._stop.wait(self._every):
            try:
                for shard, feed in self._feeds().items():
                    self._pipe.send(self._news(shard, feed))
                while self._pipe.poll():
                    self._refused.update(json.loads(self._pipe.recv_bytes()))
            except (OSError, EOFError):
                self._restart()
            except Exception as error:  # a model that cannot be pickled; the older one answers
                if (why := f"{type(error).__name__}: {error}") != self._said:
                    log.error("the model cannot be sent to the process for requests: %s", why)
                self._said = why

    def _news(self, shard: int, feed: StatusFeed) -> _News:
        newest, current = feed.copies.newest, feed.copies.current
        if feed.copies.slow and feed.copies.enabled and newest is not None and newest.repeatable:
            log.info("the model of shard %d is slow to copy; requests follow its journal", shard)
            feed.copies.enabled = False
        fresh = newest if self._sent.get(shard) is not newest else None
        if newest is not None:
            self._sent[shard] = newest
        view = feed.view
        positions = {} if view is None else view.positions
        beat = Beat(current, positions, status_of(self._config.name, shard, feed))
        return _News(shard, beat, fresh, not feed.copies.enabled)

    def _restart(self) -> None:
        self._end()
        if self._stop.is_set():
            return
        log.warning("the process that answers requests has ended; starting it again")
        self._stop.wait(PAUSE_SECONDS)
        self._sent.clear()
        self._pipe, self._child = self._started()
        try:
            self._announced()
        except ConfigError as error:
            log.error("%s; trying again", error)


def _run(pipe: Connection, config: Config, on: int) -> None:
    """The child: listen, announce the port, and take news until the pipe ends."""
    from consumers.cluster.standby import Follower
    from consumers.config.load import log_of

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    remotes: dict[int, ParentShard] = {}
    followed: dict[int, OwnShard] = {}
    follower: Follower | None = None

    def published() -> Mapping[int, Published]:
        return dict(remotes)

    opened = partial(log_of, config)

    try:
        api = Api(config, published, opened)
        app = plain_application(config.name, access_of(config), handlers(config, api), refusal)
        server = Server(app, config.http.host, on)
        _, port = server.start()
    except Exception as error:
        pipe.send(f"{error}")
        return
    pipe.send(port)
    refused, reported = app.state.page.refused, Counter[str]()
    try:
        while True:
            news = pipe.recv()
            remote = remotes.get(news.shard) or ParentShard()
            remote.take(news.beat, news.copy)
            if news.follow and news.shard not in followed:
                follower = follower or Follower(config, opened, FOLLOWER_SHARE)
                feed = follower.follow(news.shard).feed
                followed[news.shard] = OwnShard(config.name, news.shard, feed)
                remote.follow(followed[news.shard])
            remotes[news.shard] = remote
            if refused != reported:
                pipe.send_bytes(json.dumps(refused - reported).encode())
                reported = refused.copy()
    except (EOFError, OSError):
        api.stop()
        server.stop()
        api.close()
        if follower is not None:
            follower.close()
