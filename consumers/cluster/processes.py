"""Shards of a service in processes that this one starts, with one page, one `/metrics`, one health.

Each child runs its shards as `--shards` does, with connections and an interpreter of its own
(`child.py`). What it posts is copied to a `StatusFeed` here, so page and requests see no difference
to shards of this process. A child that dies is started again after a pause, and its shards are
`starting` meanwhile. An error that a restart does not help ends all.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from operator import itemgetter
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from consumers.base.errors import HeadwaterError, TransportError
from consumers.base.health import Health
from consumers.base.units import duration_ms
from consumers.cluster.child import (
    AskLoop,
    AskMetrics,
    ChildReply,
    Ended,
    NoCopies,
    Orders,
    ShardNews,
    Stop,
    run_child,
)
from consumers.cluster.fleet import worst
from consumers.cluster.orphans import PARENT, RunFile
from consumers.config import Config
from consumers.service.differences import Decision
from consumers.telemetry.spec import united
from consumers.web.questions import WAITING, Questions
from consumers.web.status_feed import StatusFeed

__all__ = ["ProcessFleet", "processors", "spread"]

log = logging.getLogger("headwater")

COLLECT_SECONDS = 2.0  # for the metrics of a child; without them its series are absent
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before a dead child is started again
LIVED_SECONDS = 60.0  # after which the next pause is the first one again
LOOK_SECONDS = 0.2


def spread(shards: Sequence[int], processes: int) -> list[list[int]]:
    """The shards of each process.

    Examples
    --------
    >>> spread([0, 1, 2, 3, 4], 2)
    [[0, 2, 4], [1, 3]]
    """
    return [list(shards[first::processes]) for first in range(processes)]


class ProcessFleet:
    """Runs shards of a service in several processes.

    Parameters
    ----------
    config
        The whole configuration.
    stop
        Set it to end after the current commits.
    shards
        The shards of each process.
    drain, new_journal, decision
        See `Fleet`. The last two apply to the first start of a process.
    """

    def __init__(
        self,
        config: Config,
        stop: threading.Event,
        shards: Sequence[Sequence[int]],
        *,
        drain: bool = False,
        new_journal: bool = False,
        decision: Decision | None = None,
    ) -> None:
        self._stop = stop
        self._error: HeadwaterError | None = None
        of, cores = (drain, new_journal, decision), _cores(len(shards))
        self._file = RunFile(config)
        self._children = [
            _Child(
                Orders(config, its, core, gc.get_threshold(), *of, self._file.path, place),
                stop,
                self._failed,
            )
            for place, (its, core) in enumerate(zip(shards, cores, strict=True), PARENT + 1)
        ]
        self.registry = CollectorRegistry()
        self.registry.register(_ChildrenCollector(self._children))

    def health(self) -> Health:
        """The worst health of the shards, and which shards have it."""
        return worst(
            {n: health for child in self._children for n, health in child.health().items()}
        )

    def status_feeds(self) -> Mapping[int, StatusFeed]:
        """The page content of each shard."""
        found = (each for child in self._children for each in child.feeds.items())
        return dict(sorted(found, key=itemgetter(0)))

    def run(self) -> None:
        """Run until stopped or drained.

        Raises
        ------
        FencedError, ConfigError, InputChangedError, JournalLostError
            The first error that a restart does not help.
        """
        for child in self._children:
            child.thread.start()
        while any(child.thread.is_alive() for child in self._children):
            if self._stop.wait(LOOK_SECONDS):
                break
        for child in self._children:
            child.end()
        for child in self._children:
            child.thread.join()
        self._file.remove()
        if self._error is not None:
            raise self._error

    def _failed(self, error: HeadwaterError) -> None:
        self._error = self._error or error
        self._stop.set()


def processors() -> list[int | None]:
    """The numbers of the processors that this process may use; None if one cannot be chosen."""
    if hasattr(os, "sched_getaffinity"):
        return [*sorted(os.sched_getaffinity(0))]
    return [None] * (os.cpu_count() or 1)


def _cores(processes: int) -> list[int | None]:
    """The processor of each process; none if there are more processes than processors."""
    ours = processors()
    return ours[:processes] if processes <= len(ours) else [None] * processes


class _Child:
    """One process, the thread that starts it and listens to it, and copies of its status feeds.

    Parameters
    ----------
    orders
        What it runs.
    stop
        Whether the service ends.
    failed
        Called with an error that a restart does not help.
    """

    def __init__(
        self, orders: Orders, stop: threading.Event, failed: Callable[[HeadwaterError], None]
    ) -> None:
        self._orders, self._stop, self._failed = orders, stop, failed
        self._lock = threading.Lock()  # two threads must not write into the pipe at once
        self._pipe: Connection | None = None
        self._waiting: dict[int, Future[Any]] = {}
        self._collected: Future[list[Metric]] | None = None
        self._numbers = 0
        self._heard = 0.0
        self._why = "its process starts"
        self._healths: dict[int, Health] = {}
        config = orders.config
        self._silence = duration_ms(config.http.max_idle) / 1000
        self.feeds: dict[int, StatusFeed] = {}
        for shard in orders.shards:
            feed = StatusFeed(time.time, partial(self._health_of, shard))
            feed.questions = _RemoteQuestions(self, shard)
            self.feeds[shard] = feed
        self.thread = threading.Thread(target=self._supervise, name=f"process-{orders.shards[0]}")

    def health(self) -> dict[int, Health]:
        """The health of each shard."""
        silent = time.monotonic() - self._heard
        if self._pipe is not None and self._healths and silent > self._silence:
            why = f"its process has been silent for {silent:.0f} s, longer than [http] max_idle"
            return {shard: Health("stalled", why) for shard in self._orders.shards}
        starting = Health("starting", self._why)
        return {shard: self._healths.get(shard, starting) for shard in self._orders.shards}

    def _health_of(self, shard: int) -> Health:
        return self.health()[shard]

    def end(self) -> None:
        """Ask the process to end after its commits."""
        self._tell(Stop())

    def ask(self, order: Callable[[int], AskLoop | AskMetrics]) -> Future[Any]:
        """Ask the process; the answer is an error if it ends first."""
        answer: Future[Any] = Future()
        with self._lock:
            self._numbers += 1
            number = self._numbers
            self._waiting[number] = answer
        if not self._tell(order(number)):
            self._answer(ChildReply(number, None, "its process does not run"))
        return answer

    def collect(self) -> tuple[Future[list[Metric]], bool]:
        """Ask for its metrics, unless it still owes them; the answer and whether it was asked."""
        owes = self._collected is not None and not self._collected.done()
        if self._collected is None or not owes:
            self._collected = self.ask(AskMetrics)
        return self._collected, not owes

    @property
    def waiting(self) -> int:
        """The number of answers that have not come."""
        return len(self._waiting)

    def _tell(self, message: AskLoop | AskMetrics | NoCopies | Stop) -> bool:
        with self._lock:
            if self._pipe is None:
                return False
            try:
                self._pipe.send(message)
            except OSError:  # it has ended, which its thread notices
                return False
            return True

    # The thread.

    def _supervise(self) -> None:
        pause, orders = FIRST_PAUSE, self._orders
        while not self._stop.is_set():
            began = time.monotonic()
            error, code = self._run(orders)
            if error is not None and error.exit_code != TransportError.exit_code:
                self._failed(error)
            if self._stop.is_set() or (error is None and code == 0):
                return
            if time.monotonic() - began > LIVED_SECONDS:
                pause = FIRST_PAUSE
            why = f"{error}" if error is not None else _ended_by(code)
            named = f"shard{'s' * (len(orders.shards) > 1)} {', '.join(map(str, orders.shards))}"
            line = "the process of %s ended (%s); it is started again in %.0f s"
            log.warning(line, named, why, pause)
            self._why = f"its process ended ({why}) and is started again"
            self._stop.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            orders = orders._replace(new_journal=False, decision=None)

    def _run(self, orders: Orders) -> tuple[HeadwaterError | None, int]:
        """Run the process once; its last error and its exit code."""
        context = get_context("spawn")
        mine, its = context.Pipe()
        name = f"headwater-shards-{'-'.join(map(str, orders.shards))}"[:60]
        process: BaseProcess = context.Process(
            target=run_child, args=(its, orders), name=name, daemon=True
        )
        try:
            process.start()
        except OSError as failed:  # no memory, or too many processes
            return TransportError(f"it cannot be started: {failed}"), 1
        its.close()
        with self._lock:
            self._pipe = mine
        if self._stop.is_set():  # `end` came before there was a pipe
            self.end()
        error = None
        with suppress(EOFError, OSError):
            while not isinstance(message := mine.recv(), Ended):
                self._take(message)
            error = message.error
        with self._lock:
            self._pipe = None
            mine.close()
            left = list(self._waiting)
        for number in left:
            self._answer(ChildReply(number, None, "its process has ended"))
        process.join()
        if not (orders.drain or self._stop.is_set()):
            self._healths = {}
        return error, process.exitcode or 0

    def _take(self, message: ShardNews | ChildReply) -> None:
        self._heard = time.monotonic()
        if isinstance(message, ChildReply):
            self._answer(message)
            return
        feed = self.feeds[message.shard]
        if not feed.copies.enabled and message.copy is not None:
            self._tell(NoCopies(message.shard))
        feed.copies.newest = message.copy or feed.copies.newest
        feed.copies.current, feed.copies.slow = message.current, message.slow
        self._healths[message.shard] = message.health
        if message.posted is not None:
            feed.take(message.posted)

    def _answer(self, reply: ChildReply) -> None:
        with self._lock:
            answer = self._waiting.pop(reply.number, None)
        if answer is None or not answer.set_running_or_notify_cancel():
            return
        if reply.error:
            answer.set_exception(RuntimeError(reply.error))
        else:
            answer.set_result(reply.value)


def _ended_by(code: int) -> str:
    """What ended a process without a last message.

    Examples
    --------
    >>> _ended_by(-9), _ended_by(1)
    ('killed by SIGKILL', 'exit code 1')
    """
    if code < 0:
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


class _RemoteQuestions(Questions):
    """Questions to a shard of another process, at most `WAITING` at once."""

    def __init__(self, child: _Child, shard: int) -> None:
        super().__init__()
        self._child, self._shard = child, shard

    def put(self, asked: Callable[[Any], Any]) -> Future[Any] | None:
        """See `Questions`."""
        if self._child.waiting >= WAITING:
            return None
        return self._child.ask(lambda number: AskLoop(number, self._shard, asked))


class _ChildrenCollector(Collector):
    """The metrics of all processes; those of a process that does not answer are absent."""

    def __init__(self, children: Sequence[_Child]) -> None:
        self._children = children

    def describe(self) -> list[Metric]:
        """Nothing. The processes describe their metrics themselves."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One family per metric."""
        asked = [child.collect() for child in self._children]
        until = time.monotonic() + COLLECT_SECONDS
        found: list[Metric] = []
        for answer, now in asked:  # a process that still owes an answer is not waited for
            with suppress(RuntimeError, TimeoutError):
                found += answer.result(max(0.0, until - time.monotonic()) if now else 0.0)
        return united(found)
