"""A broker that goes away: killed and started again, one of three, or cut off in five ways.

The service goes on by itself, or ends with 1 and one clear line, as an orchestrator would see it,
and is started again. Each fault is over only when new predictions have come after it.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.acceptance.service import Service
from tests.faults.broker import Cluster, OwnBroker
from tests.faults.lab import Lab, wait_for
from tests.faults.proxy import END_TXN, Proxy
from tests.waiting import PATIENCE

__all__ = ["FAULTS", "Outages", "lost_the_broker", "proxy_round", "restart_round", "rolling_round"]

# Short limits, so that each is passed in the seconds a fault lasts.
KAFKA = """
request_timeout_ms = 2000
delivery_timeout_ms = 4000
transaction_timeout_ms = 8000
bootstrap_timeout_ms = 3000
"""
FAULTS = ("drop", "delay", "half-open", "delayed EndTxn", "lost answer to EndTxn")


@dataclass
class Outages:
    """What happened, and what was wrong."""

    faults: Counter[str] = field(default_factory=Counter)
    ended: int = 0  # times the service ended with its one line and was started again
    recoveries: list[float] = field(default_factory=list)  # from the fault's end to a prediction
    violations: list[str] = field(default_factory=list)


class _Supervised:
    """The service, started again whenever it ends as it may."""

    def __init__(self, lab: Lab, random: Random, done: Outages) -> None:
        self._lab, self._random, self._done = lab, random, done
        self.service = self._start()

    def _start(self) -> Service:
        return self._lab.start(
            max_records=self._random.choice([20, 200]), every_records=self._random.choice([50, 300])
        )

    def goes_on(self) -> bool:
        """Whether new predictions come, with starts where they are needed."""
        began, before = time.monotonic(), self._lab.predicted()
        while self._lab.predicted() <= before:
            if time.monotonic() - began > PATIENCE:
                return False
            if not self.service.alive:
                self._look_at_its_end()
                self.service.close()
                self.service = self._start()
            wait_for(lambda: self._lab.predicted() > before or not self.service.alive, 1)
        self._done.recoveries.append(time.monotonic() - began)
        return True

    def _look_at_its_end(self) -> None:
        self._done.ended += 1
        said, code = self.service.output, self.service.code
        if not lost_the_broker(code, said):
            last = said.strip().splitlines()[-1:] or ["nothing"]
            self._done.violations.append(f"the service ended with {code} and said {last[0]}")


def lost_the_broker(code: int | None, said: str) -> bool:
    """Whether a service ended as it may without a broker: with 1 and one clear line."""
    last = said.strip().splitlines()[-1:] or ["nothing"]
    clear = code == 1 and re.match(r"headwater: .*Kafka", last[0]) and "Traceback" not in said
    return bool(clear) and "this is a bug" not in said


def restart_round(
    broker: OwnBroker,
    directory: Path,
    kind: str,
    seed: int,
    count: int,
    *,
    say: Callable[[str], None] = lambda line: None,
) -> Outages:
    """One service; its broker is killed and started again so often."""
    random, done = Random(seed), Outages()
    with Lab(broker.bootstrap, directory, kind, seed, rate=60, kafka=KAFKA) as lab:
        run = _Supervised(lab, random, done)
        try:
            for turn in range(count):
                if not run.goes_on():
                    done.violations.append(f"nothing came before restart {turn}")
                time.sleep(random.uniform(0.0, 0.5))  # the fault may meet any step
                broker.kill()
                time.sleep(random.choice([0.0, 1.0]))
                broker.start()
                done.faults["broker killed and started"] += 1
                if not run.goes_on():
                    done.violations.append(f"nothing came after restart {turn}")
                say(f"{lab.name}: restart {turn}, after {done.recoveries[-1]:.2f} s")
        finally:
            run.service.close()
        done.recoveries = done.recoveries[1::2]
        done.violations += lab.verdict()
    return done


def rolling_round(
    cluster: Cluster,
    directory: Path,
    kind: str,
    seed: int,
    count: int,
    *,
    say: Callable[[str], None] = lambda line: None,
) -> Outages:
    """One service; so often each of three nodes is restarted in turn, by force or in order.

    Predictions must come while a node is away, and before the next one goes.
    """
    random, done = Random(seed), Outages()
    with Lab(cluster.bootstrap, directory, kind, seed, rate=60, kafka=KAFKA) as lab:
        run = _Supervised(lab, random, done)
        try:
            for turn in range(count):
                for n, node in enumerate(cluster.nodes):
                    if not run.goes_on():
                        done.violations.append(f"nothing came before node {n} went, {turn}")
                    hard = random.random() < 0.5
                    time.sleep(random.uniform(0.0, 0.5))
                    (node.kill if hard else node.terminate)()
                    done.faults["killed" if hard else "terminated"] += 1
                    if not run.goes_on():
                        done.violations.append(f"nothing came while node {n} was away, {turn}")
                    node.start()
                    if not cluster.whole():
                        done.violations.append(f"node {n} did not come back in sync, {turn}")
                    say(f"{lab.name}: {turn}, node {n}, after {done.recoveries[-1]:.2f} s")
        finally:
            run.service.close()
        done.recoveries = done.recoveries[1::2]
        done.violations += lab.verdict()
    return done


def proxy_round(
    broker: OwnBroker,
    directory: Path,
    kind: str,
    seed: int,
    count: int,
    *,
    say: Callable[[str], None] = lambda line: None,
) -> Outages:
    """One service behind a proxy that fails so often, each way in turn."""
    random, done = Random(seed), Outages()
    through = f"127.0.0.1:{broker.proxied}"
    with (
        Proxy(broker.proxied, broker.behind) as proxy,
        Lab(broker.bootstrap, directory, kind, seed, rate=60, through=through, kafka=KAFKA) as lab,
    ):
        run = _Supervised(lab, random, done)
        try:
            for turn in range(count):
                if not run.goes_on():
                    done.violations.append(f"nothing came before fault {turn}")
                fault = FAULTS[turn % len(FAULTS)]
                _inflict(proxy, fault, random)
                done.faults[fault] += 1
                if not run.goes_on():
                    done.violations.append(f"nothing came after {fault}")
                say(f"{lab.name}: {fault}, after {done.recoveries[-1]:.2f} s")
        finally:
            run.service.close()
            proxy.heal()
        done.recoveries = done.recoveries[1::2]
        done.violations += lab.verdict()
    return done


def _inflict(proxy: Proxy, fault: str, random: Random) -> None:
    """One fault, to its end."""
    seconds = random.choice([0.1, 0.5, 1.5, 3.0])
    met = proxy.met
    if fault == "drop":
        proxy.refusing = True
        proxy.break_all()
    elif fault == "delay":
        proxy.delay = random.choice([0.05, 0.3, 1.0])
    elif fault == "half-open":
        proxy.silent = True
    elif fault == "delayed EndTxn":
        proxy.hold = {END_TXN: random.choice([0.5, 1.9, 3.0, 6.0])}
        wait_for(lambda: proxy.met > met)
    else:
        proxy.lose = {END_TXN}
        wait_for(lambda: proxy.met > met)
    time.sleep(seconds)
    proxy.heal()
