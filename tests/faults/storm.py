"""A rebalance storm: processes of one group come and go, and the shards with them.

They join, leave by SIGTERM, are killed, or sleep until the group has given them up, and wake. In
between it is calm now and then: then every shard must be predicting again.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.acceptance.service import Service
from tests.faults.lab import Lab, wait_for
from tests.faults.outages import lost_the_broker
from tests.waiting import PATIENCE

__all__ = ["Members", "Storm", "storm_round"]

SHARDS, HOSTS = 4, 4
CALM = 10  # changes from one calm to the next
SLEEP = 9.0  # seconds: longer than a member may be silent


@dataclass
class Storm:
    """What happened, and what was wrong."""

    changes: Counter[str] = field(default_factory=Counter)
    taken: int = 0  # shards, by any process
    ended: int = 0  # processes that lost the broker, with their one line
    recoveries: list[float] = field(default_factory=list)  # from the calm to every shard
    violations: list[str] = field(default_factory=list)


def storm_round(
    bootstrap: str,
    directory: Path,
    kind: str,
    seed: int,
    count: int,
    *,
    say: Callable[[str], None] = lambda line: None,
) -> Storm:
    """One service of several shards whose members change so often."""
    random, done = Random(seed), Storm()
    with Lab(bootstrap, directory, kind, seed, rate=60, shards=SHARDS) as lab:
        members = Members(lab, random, done)
        try:
            while (changed := done.changes.total()) < count:
                members.change()
                if changed % CALM == CALM - 1:
                    members.calm(say)
            members.calm(say)
            for host in list(members.there):
                members.leave(host)
        finally:
            members.end()
        done.violations += lab.verdict()
    return done


class Members:
    """The processes by the host they run on.

    Where nodes of the broker are killed too (`lonely`), a process may end as one does that has lost
    the broker, and a calm brings back all hosts.
    """

    def __init__(
        self, lab: Lab, random: Random, done: Storm, *, hosts: int = HOSTS, lonely: bool = False
    ) -> None:
        self._lab, self._random, self._done = lab, random, done
        self._hosts, self._lonely = [f"host-{n}" for n in range(hosts)], lonely
        self._asleep: dict[str, float] = {}  # until when
        self.there: dict[str, Service] = {}

    def change(self) -> None:
        """One joins, or one is gone: by its own will, by force, or for a while."""
        self._look()
        free = [host for host in self._hosts if host not in self.there]
        awake = [host for host in self.there if host not in self._asleep]
        if free and (len(awake) < 2 or self._random.random() < 0.5):
            self.join(self._random.choice(free))
        elif awake:
            host, how = self._random.choice(awake), self._random.random()
            if how < 0.5:
                self.leave(host)
            elif how < 0.85:
                self._gone(host).kill()
                self._done.changes["killed"] += 1
            else:
                self.there[host].send(signal.SIGSTOP)
                self._asleep[host] = time.monotonic() + SLEEP
                self._done.changes["asleep"] += 1
        self.wait(self._random.uniform(0.2, 2.0))

    def join(self, host: str) -> None:
        """A process more."""
        sizes = {"max_records": self._random.choice([20, 200]), "every_records": 100}
        self.there[host] = self._lab.join(host, **sizes)
        self._done.changes["joined"] += 1

    def fill(self) -> None:
        """Every host has its process."""
        for host in self._hosts:
            if host not in self.there:
                self.join(host)

    def leave(self, host: str) -> None:
        """SIGTERM: it finishes what it has in hand."""
        self._wake(host)
        service = self._gone(host)
        early = not service.output  # it has not even loaded what handles the signal
        code = service.terminate(60)
        # It may have ended by itself: after its last line Python handles no signal any more.
        own = 1 if code == -signal.SIGTERM else code
        if self._lonely and lost_the_broker(own, service.output):
            self._done.ended += 1  # its last commit was not answered, and it says so
        elif code and not (early and code == -signal.SIGTERM):
            self._done.violations.append(f"{host} left with {code}: {service.output[-400:]}")
        self._done.changes["left"] += 1

    def calm(self, say: Callable[[str], None]) -> None:
        """Nobody comes or goes until each shard has predicted something new."""
        for host in list(self._asleep):
            self.wait(self._asleep[host] - time.monotonic())
            self._wake(host)
        began, before = time.monotonic(), self._lab.predicted_of_shards()

        def all_go_on() -> bool:
            if self._lonely:
                self._look()
                self.fill()
            now = self._lab.predicted_of_shards()
            return all(a > b for a, b in zip(now, before, strict=True))

        if wait_for(all_go_on, PATIENCE):
            self._done.recoveries.append(time.monotonic() - began)
        else:
            now = self._lab.predicted_of_shards()
            self._done.violations.append(f"a calm of {PATIENCE:g} s: from {before} to {now}")
        self._look()
        changes = self._done.changes.total()
        say(f"{self._lab.name}: {changes} changes, all go on after {self._done.recoveries[-1:]}")

    def end(self) -> None:
        """Whatever has happened, nothing is left."""
        for host in list(self.there):
            self._gone(host).kill()

    def _look(self) -> None:
        """Those whose time has come wake; nobody may have ended unasked."""
        for host, until in list(self._asleep.items()):
            if time.monotonic() >= until:
                self._wake(host)
        for host, service in list(self.there.items()):
            if not service.alive:
                self._gone(host)
                said = service.output
                if self._lonely and lost_the_broker(service.code, said):
                    self._done.ended += 1
                else:
                    self._done.violations.append(f"{host} ended with {service.code}: {said[-400:]}")

    def _wake(self, host: str) -> None:
        if self._asleep.pop(host, None) is not None:
            self.there[host].send(signal.SIGCONT)
            self._done.changes["woken"] += 1

    def _gone(self, host: str) -> Service:
        service = self.there.pop(host)
        self._asleep.pop(host, None)
        said = service.output
        self._done.taken += said.count(" was assigned to this process")
        if "Traceback" in said:
            self._done.violations.append(f"{host}: {said[said.index('Traceback') :][:800]}")
        return service

    def wait(self, seconds: float) -> None:
        """The weather lasts so long; a process that ends shortens it."""
        wait_for(lambda: any(not s.alive for s in self.there.values()), max(seconds, 0.0))
