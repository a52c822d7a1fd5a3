"""A process that runs some shards for the process that started it.

It sends the status of its shards through a pipe, several times a second, and answers what the
parent asks. It ignores the signals of a terminal or supervisor, because the parent decides; it ends
after the present commit when the pipe ends. Pickles go through this pipe only, between a process
and its parent.
"""

from __future__ import annotations

import gc
import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from consumers.base.errors import HeadwaterError
from consumers.base.health import Health
from consumers.cluster.fleet import Fleet
from consumers.cluster.orphans import StopWithParent, hold
from consumers.config import Config
from consumers.config.load import log_of
from consumers.service.differences import Decision
from consumers.service.warm_up import CompilationStopped, begin_kernels
from consumers.shard.answer import ModelCopy
from consumers.telemetry.log import configure
from consumers.web.status_feed import Posted, StatusFeed

__all__ = [
    "AskLoop",
    "AskMetrics",
    "ChildReply",
    "Ended",
    "NoCopies",
    "Orders",
    "ShardNews",
    "Stop",
    "run_child",
]

log = logging.getLogger("headwater")

BEAT_SECONDS = 0.25  # between two reports


class Orders(NamedTuple):
    """What a child runs: see `Fleet`. `core`: the processor it is pinned to; None: any.
    `collector`: the thresholds of the collector of garbage, as the parent has them. `run`, `place`:
    the file of the run, and the byte of it that the child locks."""

    config: Config
    shards: Sequence[int]
    core: int | None
    collector: tuple[int, int, int]
    drain: bool
    new_journal: bool
    decision: Decision | None
    run: Path
    place: int


# What the parent sends.


class AskLoop(NamedTuple):
    """A question to the loop of a shard (`Questions.put`)."""

    number: int
    shard: int
    question: Any


class AskMetrics(NamedTuple):
    """Asks for the metrics of all shards."""

    number: int


class NoCopies(NamedTuple):
    """Copies of the model of a shard are no longer wanted."""

    shard: int


class Stop(NamedTuple):
    """End after the present commits."""


# What the child sends.


class ShardNews(NamedTuple):
    """The status of a shard; `posted` and `copy` only if they are others than those sent last."""

    shard: int
    health: Health
    current: float
    slow: bool
    posted: Posted | None
    copy: ModelCopy | None


class ChildReply(NamedTuple):
    """The answer to an `AskLoop` or `AskMetrics`, or why it failed."""

    number: int
    value: Any
    error: str = ""


class Ended(NamedTuple):
    """The last message: all shards have ended, by this error or without one."""

    error: HeadwaterError | None


def run_child(pipe: Connection, orders: Orders) -> None:
    """Run the shards; the target of the process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    gc.set_threshold(*orders.collector)
    if orders.core is not None:
        with suppress(OSError):  # the processor was taken away from this process
            os.sched_setaffinity(0, {orders.core})
    config, stop = orders.config, StopWithParent()
    with suppress(OSError):
        hold(orders.run, orders.place)  # before it looks for its parent
    if stop.is_set():
        return
    configure(config.telemetry.log, config.telemetry.level)
    error: HeadwaterError | None = None
    try:
        fleet = Fleet(
            config,
            partial(log_of, config),
            stop,
            orders.shards,
            drain=orders.drain,
            new_journal=orders.new_journal,
            decision=orders.decision,
        )
        with _Reporter(pipe, fleet, stop) as reporter, suppress(CompilationStopped):
            begin_kernels(config, log.debug, stop.is_set)  # the parent says it
            fleet.run()
        reporter.report()  # the last commits
    except HeadwaterError as found:
        error = found
    with suppress(OSError):  # the parent has ended
        pipe.send(Ended(error))


class _Reporter:
    """Two threads: one sends, the other one receives.

    Parameters
    ----------
    pipe
        To the parent.
    fleet
        The shards.
    stop
        Set when the parent says so, or has ended.
    """

    def __init__(self, pipe: Connection, fleet: Fleet, stop: threading.Event) -> None:
        self._pipe, self._fleet, self._stop = pipe, fleet, stop
        self._replies = queue.SimpleQueue[ChildReply | None]()
        self._sent: dict[int, tuple[int, ModelCopy | None]] = {}
        self._sender = threading.Thread(target=self._send, name="headwater-reports", daemon=True)
        self._listener = threading.Thread(target=self._listen, name="headwater-orders", daemon=True)

    def __enter__(self) -> _Reporter:
        self._sender.start()
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._replies.put(None)
        self._sender.join()

    def report(self) -> None:
        """Send the status of each shard."""
        with suppress(OSError):  # the parent has ended; the listener stops the shards
            for shard, feed in self._fleet.status_feeds().items():
                self._pipe.send(self._news(shard, feed))

    def _news(self, shard: int, feed: StatusFeed) -> ShardNews:
        version, copy = feed.version, feed.copies.newest
        sent = self._sent.get(shard, (-1, None))
        self._sent[shard] = version, copy
        posted = feed.posted() if version != sent[0] else None
        fresh = copy if copy is not sent[1] else None
        current, slow = feed.copies.current, feed.copies.slow
        return ShardNews(shard, feed.health(), current, slow, posted, fresh)

    def _send(self) -> None:
        due = 0.0
        while True:
            try:
                reply = self._replies.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                self.report()
                due = time.monotonic() + BEAT_SECONDS
                continue
            if reply is None:
                return
            with suppress(OSError):
                self._pipe.send(reply)

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._take(self._pipe.recv())
        self._stop.set()

    def _take(self, order: AskLoop | AskMetrics | NoCopies | Stop) -> None:
        match order:
            case Stop():
                self._stop.set()
            case NoCopies(shard):
                self._fleet.status_feeds()[shard].copies.enabled = False
            case AskMetrics(number):
                self._replies.put(ChildReply(number, list(self._fleet.registry.collect())))
            case AskLoop(number, shard, question):
                waiting = self._fleet.status_feeds()[shard].questions.put(question)
                if waiting is None:
                    self._replies.put(ChildReply(number, None, "too many questions wait"))
                else:
                    waiting.add_done_callback(partial(self._answered, number))

    def _answered(self, number: int, answer: Future[Any]) -> None:
        error = answer.exception()
        if error is None:
            self._replies.put(ChildReply(number, answer.result()))
        else:
            self._replies.put(ChildReply(number, None, f"{type(error).__name__}: {error}"))
