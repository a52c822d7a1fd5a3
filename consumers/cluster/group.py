"""Run the shards that the group assigns to this process, and follow those that it may take over.

The group's assignment may be late or wrong for a moment, but fencing is exact: a replaced owner
commits nothing more. So a shard that was taken away is released at once, and an assigned shard is
taken over at once. A shard that was fenced while still assigned is taken over again only after the
group had time to correct the assignment.

The group also names the shards to follow (docs/decisions/groups.md#who-follows-a-shard). A shard
that is assigned without being followed is recovered as at any start.
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
from consumers.service.differences import Decision
from consumers.service.runner import Runner
from consumers.transports.protocol import Assigned, Log, Member
from consumers.web.status_feed import StatusFeed

__all__ = ["ShardGroup"]

log = logging.getLogger("headwater")

LOOK_SECONDS = 0.1
DECISION_SECONDS = 60.0  # by then the shards of a process that died earlier are reassigned
GRACE_SECONDS = 8.0  # a silent member counts as dead after 6 s; then the assignment is correct


class _Run:
    """A shard that this process runs, in a thread with its own log."""

    def __init__(
        self,
        config: Config,
        opened: Callable[[], Log],
        shard: int,
        standby: Standby | None,
        new_journal: bool,
        decision: Decision | None,
    ) -> None:
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self._standby, self._log = standby, opened()
        # Released in the shard's own thread, after fencing, so that a replay delays no other shard.
        self.runner = Runner(
            config,
            self._log,
            self.stop,
            shard=shard,
            warm=None if standby is None else standby.release,
            new_journal=new_journal,
            decision=decision,
        )
        self.thread = threading.Thread(target=self._run, name=f"shard-{shard}")
        self.thread.start()

    def _run(self) -> None:
        try:
            self.runner.run()
        except BaseException as error:  # raised by `ShardGroup.run`
            self.error = error
        finally:
            if self._standby is not None:
                self._standby.close()  # it may still follow, if the runner did not release it
            self._log.close()


class ShardGroup:
    """Runs the shards that the group assigns to this process.

    Parameters
    ----------
    config
        The whole configuration.
    opened
        Opens a log. Each running shard has its own, and the follower has two.
    member
        This process in the group. It is closed at the end.
    stop
        Set it to end after the current commits.
    new_journal
        See `Runner`. It applies to the first run of a shard. Like `decision` it applies only to
        shards that are assigned within `DECISION_SECONDS` after the start of `run`.
    decision
        The operator's decision about inputs that differ from the consumed ones, for the first run
        of a shard.
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
        self._standbys: dict[int, Standby] = {}
        self._runs: dict[int, _Run] = {}
        self._not_before: dict[int, float] = {}
        self._last: Health | None = None
        self.registry = CollectorRegistry()
        self.registry.register(
            UnionCollector(lambda: [r.runner.registry for r in [*self._runs.values()]])
        )

    def health(self) -> Health:
        """The worst health of the running shards. Without any, how far others are followed."""
        runs = dict(self._runs)
        if runs:
            return worst({n: run.runner.health() for n, run in runs.items()})
        if self._last is not None:
            return self._last
        assigned = self._member.assigned()
        if assigned is None:
            return Health("starting", "waiting for the group")
        followed = {n: s.seq for n, s in sorted(dict(self._standbys).items())}
        shown = ", ".join(f"shard {n} at record {seq}" for n, seq in followed.items())
        left = (assigned.runs | self._wanted(assigned)) - followed.keys()  # from the next look on
        ready = not left and all(seq is not None for seq in followed.values())
        return Health("standby" if ready else "starting", shown or "no shard is followed here")

    def status_feeds(self) -> Mapping[int, StatusFeed]:
        """The page content of each running shard."""
        return {shard: run.runner.status_feed for shard, run in dict(self._runs).items()}

    def followed_feeds(self) -> Mapping[int, StatusFeed]:
        """The models of the shards that this process follows."""
        return {shard: standby.feed for shard, standby in dict(self._standbys).items()}

    def run(self) -> None:
        """Run until stopped.

        Raises
        ------
        TransportError, ConfigError
            The first error of a shard, except fencing. Or a followed shard was moved to another
            number of shards.
        """
        self._decided_until = time.monotonic() + DECISION_SECONDS
        try:
            while not self._stop.is_set():
                self._forget_decision()
                if (assigned := self._member.assigned()) is not None:
                    self._apply(assigned)
                self._stop.wait(LOOK_SECONDS)
        finally:
            self._close()

    def _apply(self, assigned: Assigned) -> None:
        """Begin and end what the assignment changes."""
        for shard, run in list(self._runs.items()):
            if not run.thread.is_alive():
                self._ended(shard, run)
            elif shard not in assigned.runs and not run.stop.is_set():
                log.info("shard %d was assigned to another process", shard)
                run.stop.set()
        for shard in self._not_before.keys() - assigned.runs:
            del self._not_before[shard]  # the group has corrected the assignment
        for shard in assigned.runs - self._runs.keys():
            self._take(shard)
        wanted = self._wanted(assigned)
        for shard in self._standbys.keys() - wanted:
            self._standbys.pop(shard).close()
        for shard in wanted - self._standbys.keys():
            self._standbys[shard] = self._follower.follow(shard)
        warm = frozenset(n for n, standby in self._standbys.items() if standby.seq is not None)
        self._member.caught_up(warm)
        for moved in filter(None, (standby.moved for standby in self._standbys.values())):
            # Else a process that only follows would stay in the group of the new shards.
            self._last = Health("dead", str(moved))
            raise moved

    def _wanted(self, assigned: Assigned) -> set[int]:
        """The shards to follow: also those that run here only after `GRACE_SECONDS`."""
        there = (assigned.follows | assigned.runs) & set(range(self._config.scale.shards))
        return set(there - self._runs.keys())

    def _take(self, shard: int) -> None:
        if time.monotonic() < self._not_before.get(shard, 0.0):
            return
        standby = self._standbys.pop(shard, None)
        seq = None if standby is None else standby.seq
        start = "is loaded" if seq is None else f"continues after journal record {seq}"
        log.info("shard %d was assigned to this process; it %s", shard, start)
        asked = shard in self._undecided
        self._undecided.discard(shard)
        begin, decision = asked and self._new_journal, self._decision if asked else None
        self._runs[shard] = _Run(self._config, self._opened, shard, standby, begin, decision)

    def _forget_decision(self) -> None:
        """Drop the decision after a while, so that it does not apply to a failure weeks later."""
        if self._undecided and time.monotonic() >= self._decided_until:
            log.warning(
                "%s no longer applies to shards %s: they were not assigned to this process within "
                "%g s of its start; if a shard fails for this reason, start a process with it",
                self._options(),
                ", ".join(map(str, sorted(self._undecided))),
                DECISION_SECONDS,
            )
            self._undecided.clear()

    def _options(self) -> str:
        """The options as given on the command line."""
        of_inputs = {"new": "--accept-new-topic", "same": "--same-topic", None: ""}[self._decision]
        options = ["--new-journal" if self._new_journal else "", of_inputs]
        return " ".join(option for option in options if option)

    def _ended(self, shard: int, run: _Run) -> None:
        """Handle the end of a run: a requested stop, fencing, or an error."""
        del self._runs[shard]
        if isinstance(run.error, FencedError):
            log.warning("shard %d: %s", shard, run.error)
            self._not_before[shard] = time.monotonic() + GRACE_SECONDS
        elif run.error is not None:
            self._last = Health("dead", str(run.error))
            raise run.error

    def _close(self) -> None:
        """Finish the current commits first, so that the group has nothing to wait for."""
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
