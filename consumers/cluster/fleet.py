"""Several shards in one process: a thread and a log for each, one health and one metrics page.

The shards share nothing. When one fails or is fenced, all stop after their current commit, and the
service ends with the first error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Protocol

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from consumers.base.health import Health
from consumers.config import Config
from consumers.service.differences import Decision
from consumers.service.runner import Runner
from consumers.telemetry.spec import united
from consumers.transports.protocol import Log
from consumers.web.status_feed import StatusFeed

__all__ = ["Fleet", "Serving", "StartingFleet", "UnionCollector", "worst"]

# The worst first: the service has the worst state of its shards.
STATES = ("dead", "stalled", "starting", "replaying", "degraded", "stopped", "standby", "live")


class Serving(Protocol):
    """What the HTTP server needs from the object that runs the shards."""

    registry: CollectorRegistry

    def health(self) -> Health:
        """The status of the service."""

    def status_feeds(self) -> Mapping[int, StatusFeed]:
        """The page content of each shard that it runs."""


class Fleet:
    """Runs shards of a service.

    Parameters
    ----------
    config
        The whole configuration.
    opened
        Opens a log. Each shard has its own.
    stop
        Set it to end after the current commits.
    shards
        Their numbers.
    drain
        Whether to end at the present end of the inputs.
    new_journal
        See `Runner`.
    decision
        The operator's decision about inputs that differ from the consumed ones.
    """

    def __init__(
        self,
        config: Config,
        opened: Callable[[], Log],
        stop: threading.Event,
        shards: Sequence[int],
        *,
        drain: bool = False,
        new_journal: bool = False,
        decision: Decision | None = None,
    ) -> None:
        self._stop = stop
        self._logs = ExitStack()
        self._runners = {}
        for number in shards:
            log = opened()
            self._logs.callback(log.close)
            self._runners[number] = Runner(
                config,
                log,
                stop,
                shard=number,
                drain=drain,
                new_journal=new_journal,
                decision=decision,
            )
        self._error: BaseException | None = None
        self.registry = CollectorRegistry()
        self.registry.register(UnionCollector(lambda: [r.registry for r in self._runners.values()]))

    def health(self) -> Health:
        """The worst health of the shards, and which shards have it."""
        return worst({number: runner.health() for number, runner in self._runners.items()})

    def status_feeds(self) -> Mapping[int, StatusFeed]:
        """The page content of each shard."""
        return {number: runner.status_feed for number, runner in self._runners.items()}

    def run(self) -> None:
        """Run until stopped or drained.

        Raises
        ------
        FencedError, TransportError, ConfigError
            The first error of a shard.
        """
        threads = [
            threading.Thread(target=self._run, args=(runner,), name=f"shard-{number}")
            for number, runner in self._runners.items()
        ]
        with self._logs:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if self._error is not None:
            raise self._error

    def _run(self, runner: Runner) -> None:
        try:
            runner.run()
        except BaseException as error:  # raised by `run`, which waits for the threads
            self._error = self._error or error
            self._stop.set()


def worst(every: Mapping[int, Health]) -> Health:
    """The worst health, and which shards have it."""
    state = min((health.state for health in every.values()), key=STATES.index)
    of = {n: health for n, health in every.items() if health.state == state}
    if len(every) == 1:
        return next(iter(of.values()))
    return Health(state, "; ".join(f"shard {n} {health}" for n, health in of.items()))


class UnionCollector(Collector):
    """The metrics of several registries as one: each family has the samples of all shards."""

    def __init__(self, registries: Callable[[], Sequence[CollectorRegistry]]) -> None:
        self._registries = registries

    def describe(self) -> list[Metric]:
        """Nothing. The registries describe their metrics themselves."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One family per metric."""
        return united(metric for r in self._registries() for metric in r.collect())


class StartingFleet:
    """The health before there is a fleet, and the fleet's health from then on.

    The processing loop does not run yet, so `[http] max_idle` does not apply: a process that
    compiles kernels is alive, and not ready.

    Attributes
    ----------
    detail
        The current step of the start, in a few words.
    registry
        The fleet's metrics; empty before.
    followed_feeds
        Returns the models of the shards that other processes run, for requests.

    Examples
    --------
    >>> starting = StartingFleet()
    >>> starting.detail = "compiling kernels"
    >>> str(starting.health()), starting.health().alive, starting.health().ready
    ('starting: compiling kernels', True, False)
    """

    def __init__(self) -> None:
        self.detail = ""
        self._fleet: Serving | None = None
        self.followed_feeds: Callable[[], Mapping[int, StatusFeed]] = dict
        self.registry = CollectorRegistry()
        self.registry.register(UnionCollector(self._registries))

    def begin(
        self, fleet: Serving, followed_feeds: Callable[[], Mapping[int, StatusFeed]] = dict
    ) -> None:
        """Use this fleet from now on."""
        self._fleet, self.followed_feeds = fleet, followed_feeds

    def health(self) -> Health:
        """The health of the start or of the fleet."""
        fleet = self._fleet
        return Health("starting", self.detail) if fleet is None else fleet.health()

    def status_feeds(self) -> Mapping[int, StatusFeed]:
        """The page content of each shard."""
        return {} if self._fleet is None else self._fleet.status_feeds()

    def _registries(self) -> list[CollectorRegistry]:
        return [] if self._fleet is None else [self._fleet.registry]
