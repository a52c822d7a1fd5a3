"""Who runs which shard: this process runs those its group gives it and follows the others.

The group may be late or wrong for a moment, never the fence: an owner that was replaced commits
nothing more. So a shard that was taken away is let go of at once, one that was given is taken, and
one that was fenced while it still is ours is taken again only after the group had time to say
otherwise.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from prometheus_client.registry import CollectorRegistry

from consumers.base.errors import FencedError
from consumers.base.health import Health
from consumers.cluster.fleet import UnionCollector, worst
from consumers.cluster.standby import Follower, Standby
from consumers.config import Config
from consumers.service.inputs import Decision
from consumers.service.runner import Runner
from consumers.transports.protocol import Log, Member
from consumers.web.status_feed import StatusFeed

__all__ = ["ShardGroup"]

log = logging.getLogger("headwater")

LOOK_SECONDS = 0.1
DECISION_SECONDS = 60.0  # by then the shards of whoever died before this start are given to others
GRACE_SECONDS = 8.0  # a silent member is dead after 6: by then the group knows who owns what


class _Run:
    """A shard that this process runs, in a thread with a log of its own."""

    def __init__(
        self,
        config: Config,
        opened: Callable[[], Log],
        shard: int,
        standby: Standby,
        new_journal: bool,
        decision: Decision | None,
    ) -> None:
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self._standby, self._log = standby, opened()
        # Waited for in the shard's own thread, behind its fence: what it replays holds nobody up.
        self.runner = Runner(
            config,
            self._log,
            self.stop,
            shard=shard,
            warm=standby.release,
            new_journal=new_journal,
            decision=decision,
        )
        self.thread = threading.Thread(target=self._run, name=f"shard-{shard}")
        self.thread.start()

    def _run(self) -> None:
        try:
            self.runner.run()
        except BaseException as error:  # told by whoever looks after the threads
            self.error = error
        finally:
            self._standby.close()  # it follows still where nobody came to ask it
            self._log.close()


class ShardGroup:
    """Runs the shards of a service that its group gives to this process.

    Parameters
    ----------
    config
        The whole configuration.
    opened
        Opens the log; each shard it runs has one of its own, and the follower two.
    member
        This process in the group; closed at the end.
    stop
        Set it to end after the commits in hand.
    new_journal
        See `Runner`; once a shard, and like `decision` only where the shard is given to this
        process within `DECISION_SECONDS` of `run`.
    decision
        What an operator says of inputs that are not what was consumed; for a shard's first run.
    """

    def __init__(
        self,
        config: Config,
        opened: Callable[[], Log],
        member: Member,
        stop: threading.Event,
        *,
        new_journal: bool = False,
        decision: Decision | None = None,
    ) -> None:
        self._new_journal, self._decision = new_journal, decision
        asked = new_journal or decision is not None
        self._undecided = set(range(config.scale.shards)) if asked else set[int]()
        self._decided_until = 0.0
        self._config, self._opened, self._member, self._stop = config, opened, member, stop
        self._follower = Follower(config, opened)
        self._standbys = {n: self._follower.follow(n) for n in range(config.scale.shards)}
        self._runs: dict[int, _Run] = {}
        self._not_before: dict[int, float] = {}
        self._last: Health | None = None
        self.registry = CollectorRegistry()
        self.registry.register(
            UnionCollector(lambda: [r.runner.registry for r in [*self._runs.values()]])
        )

    def health(self) -> Health:
        """The worst of the shards it runs; where it runs none, how far it follows them."""
        runs = dict(self._runs)
        if runs:
            return worst({n: run.runner.health() for n, run in runs.items()})
        if self._last is not None:
            return self._last
        followed = {n: s.seq for n, s in dict(self._standbys).items()}
        told = ", ".join(f"shard {n} at entry {seq}" for n, seq in followed.items())
        ready = all(seq is not None for seq in followed.values())
        return Health("standby" if ready else "starting", told)

    def status_feeds(self) -> Mapping[int, StatusFeed]:
        """What the page shows of each shard it runs."""
        return {shard: run.runner.status_feed for shard, run in dict(self._runs).items()}

    def run(self) -> None:
        """Run until stopped.

        Raises
        ------
        TransportError, ConfigError
            The first a shard ended with, but for being fenced.
        """
        self._decided_until = time.monotonic() + DECISION_SECONDS
        try:
            while not self._stop.is_set():
                self._forget_decision()
                given = self._member.shards()
                for shard, run in list(self._runs.items()):
                    if not run.thread.is_alive():
                        self._ended(shard, run)
                    elif shard not in given and not run.stop.is_set():
                        log.info("shard %d was given to another process", shard)
                        run.stop.set()
                for shard in given - self._runs.keys():
                    self._take(shard)
                self._stop.wait(LOOK_SECONDS)
        finally:
            self._close()

    def _take(self, shard: int) -> None:
        if time.monotonic() < self._not_before.get(shard, 0.0):
            return
        standby = self._standbys.pop(shard)
        followed = "from the start" if standby.seq is None else f"behind entry {standby.seq}"
        log.info("shard %d is ours, taken over %s", shard, followed)
        asked = shard in self._undecided
        self._undecided.discard(shard)
        begin, decision = asked and self._new_journal, self._decision if asked else None
        self._runs[shard] = _Run(self._config, self._opened, shard, standby, begin, decision)

    def _forget_decision(self) -> None:
        """What was asked of one start is not done weeks later, where another process fails."""
        if self._undecided and time.monotonic() >= self._decided_until:
            log.warning(
                "%s is no longer in force for shards %s: they were not given to this process "
                "within %g s of its start; if one ends for want of it, give it to a process again",
                self._options(),
                ", ".join(map(str, sorted(self._undecided))),
                DECISION_SECONDS,
            )
            self._undecided.clear()

    def _options(self) -> str:
        """What was asked, as it was written."""
        of_inputs = {"new": "--accept-new-topic", "same": "--same-topic", None: ""}[self._decision]
        options = ["--new-journal" if self._new_journal else "", of_inputs]
        return " ".join(option for option in options if option)

    def _ended(self, shard: int, run: _Run) -> None:
        """A run is over: because it was told so, because it was fenced, or by a fault."""
        del self._runs[shard]
        self._standbys[shard] = self._follower.follow(shard)
        if isinstance(run.error, FencedError):
            log.warning("shard %d: %s", shard, run.error)
            self._not_before[shard] = time.monotonic() + GRACE_SECONDS
        elif run.error is not None:
            self._last = Health("dead", str(run.error))
            raise run.error

    def _close(self) -> None:
        """Finish the commits in hand first: then the group has nothing to wait for."""
        runs = list(self._runs.values())
        for run in runs:
            run.stop.set()
        for run in runs:
            run.thread.join()
        self._member.close()
        self._follower.close()
        self._last = self._last or Health("stopped")
        failed = [r.error for r in runs if r.error and not isinstance(r.error, FencedError)]
        if failed and self._stop.is_set():
            raise failed[0]
