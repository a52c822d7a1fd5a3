"""Several shards in one process: a thread and a log each, one health and one page of metrics.

The shards share nothing. When one fails or is fenced all are stopped, each after its commit in
hand, and the first error is what the service ends with.
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
from consumers.service.inputs import Decision
from consumers.service.runner import Runner
from consumers.telemetry.families import united
from consumers.transports.protocol import Log
from consumers.web.status_feed import StatusFeed

__all__ = ["Fleet", "Serving", "StartingFleet", "UnionCollector", "worst"]

# The worst first: what one shard is, the service is.
STATES = ("dead", "stalled", "starting", "replaying", "degraded", "stopped", "standby", "live")


class Serving(Protocol):
    """What the HTTP server needs of what runs the shards."""

    registry: CollectorRegistry

    def health(self) -> Health:
        """Where it is in its life."""

    def status_feeds(self) -> Mapping[int, StatusFeed]:
        """What the page shows of each shard it runs."""


class Fleet:
    """Runs shards of a service.

    Parameters
    ----------
    config
        The whole configuration.
    opened
        Opens the log; each shard has one of its own.
    stop
        Set it to end after the commits in hand.
    shards
        Their numbers.
    drain
        Whether to end at the present end of the inputs.
    new_journal
        See `Runner`.
    decision
        What an operator says of inputs that are not what was consumed.
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
        """The worst of the shards', and which they are in."""
        return worst({number: runner.health() for number, runner in self._runners.items()})

    def status_feeds(self) -> Mapping[int, StatusFeed]:
        """What the page shows of each shard."""
        return {number: runner.status_feed for number, runner in self._runners.items()}

    def run(self) -> None:
        """Run until stopped or drained.

        Raises
        ------
        FencedError, TransportError, ConfigError
            The first a shard ended with.
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
        except BaseException as error:  # told by whoever waits for the threads
            self._error = self._error or error
            self._stop.set()


def worst(every: Mapping[int, Health]) -> Health:
    """The worst of the shards' healths, and which of them are in it."""
    state = min((health.state for health in every.values()), key=STATES.index)
    of = {n: health for n, health in every.items() if health.state == state}
    if len(every) == 1:
        return next(iter(of.values()))
    return Health(state, "; ".join(f"shard {n} {health}" for n, health in of.items()))


class UnionCollector(Collector):
    """The metrics of several registries as one: a family of all shards' samples."""

    def __init__(self, registries: Callable[[], Sequence[CollectorRegistry]]) -> None:
        self._registries = registries

    def describe(self) -> list[Metric]:
        """Nothing: the names are those of the parts."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One family a metric."""
        return united(metric for r in self._registries() for metric in r.collect())


class StartingFleet:
    """What the web is told before there is a fleet, and the fleet's own word from then on.

    Nothing turns yet, so that `[http] max_idle` has nothing to measure: a process that compiles is
    alive, and not ready.

    Attributes
    ----------
    detail
        What the start is at, in a few words.
    registry
        The fleet's metrics; none before.

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
        self.registry = CollectorRegistry()
        self.registry.register(UnionCollector(self._registries))

    def begin(self, fleet: Serving) -> None:
        """Hand over to what runs the shards."""
        self._fleet = fleet

    def health(self) -> Health:
        """Where the start, or the fleet, is in its life."""
        fleet = self._fleet
        return Health("starting", self.detail) if fleet is None else fleet.health()

    def status_feeds(self) -> Mapping[int, StatusFeed]:
        """What the page shows of each shard."""
        return {} if self._fleet is None else self._fleet.status_feeds()

    def _registries(self) -> list[CollectorRegistry]:
        return [] if self._fleet is None else [self._fleet.registry]
