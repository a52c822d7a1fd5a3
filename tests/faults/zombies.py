"""Zombies: an owner stopped in mid-commit past its transaction's timeout, replaced, and woken.

The one that was replaced must end with exit code 3 and commit nothing more; the one that took over
goes on, and is the next to be stopped.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.acceptance.service import Service
from tests.faults.lab import Lab, wait_for

__all__ = ["Zombies", "zombie_round"]

TIMEOUT_MS = 3_000  # of a transaction
KAFKA = (
    f"transaction_timeout_ms = {TIMEOUT_MS}\ndelivery_timeout_ms = 2500\nrequest_timeout_ms = 2000"
)
POINTS = (
    "before_begin",
    "mid_send",
    "after_flush",
    "after_check",
    "after_offsets",
    "in_commit",
    "after_commit",
)


@dataclass
class Zombies:
    """What happened, and what was wrong."""

    count: int = 0
    recoveries: list[float] = field(default_factory=list)  # of the replacements
    violations: list[str] = field(default_factory=list)


def zombie_round(
    bootstrap: str,
    directory: Path,
    kind: str,
    seed: int,
    count: int,
    *,
    say: Callable[[str], None] = lambda line: None,
) -> Zombies:
    """One service whose owner is stopped, replaced and woken so often."""
    random, done = Random(seed), Zombies()
    with Lab(bootstrap, directory, kind, seed, rate=60, kafka=KAFKA) as lab:
        old = _armed(lab, random)
        try:
            for _ in range(count):
                old = _replace(lab, old, random, done, say)
                done.count += 1
        finally:
            old.close()  # also when it is stopped
        done.violations += lab.verdict()
    return done


def _armed(lab: Lab, random: Random) -> Service:
    """A service that will stop itself at one of its commits."""
    later = f"+{random.randint(1, 8)}" if random.random() < 0.5 else ""
    point = f"{random.choice(POINTS)}:stop{later}@{random.randint(2, 12)}"
    return lab.start(failpoint=point, max_records=random.choice([20, 100]))


def _replace(
    lab: Lab, old: Service, random: Random, done: Zombies, say: Callable[[str], None]
) -> Service:
    """Wait until `old` has stopped, take over, wake it; the service that took over."""
    assert wait_for(lambda: old.stopped or not old.alive), old.output
    where = re.findall(r"failpoint (\w+)", old.output)[-1:]
    stopped = time.monotonic()
    early = random.random() < 0.5  # replaced before its transaction has timed out, or after
    if not early:
        _until(stopped + 1.2 * TIMEOUT_MS / 1000)
    born = time.monotonic()
    new = _armed(lab, random)
    if wait_for(lambda: "live at journal record" in new.output or not new.alive) and new.alive:
        done.recoveries.append(time.monotonic() - born)
    _until(stopped + 1.2 * TIMEOUT_MS / 1000)
    old.send(signal.SIGCONT)
    ended = wait_for(lambda: not old.alive)
    last = old.output.strip().splitlines()[-1:]
    if not ended or old.code != 3 or "Traceback" in old.output:
        done.violations.append(f"zombie at {where}: ended with {old.code}, expected 3: {last}")
    if new.code is not None:
        done.violations.append(
            f"replacement of {where}: ended with {new.code}: {new.output[-300:]}"
        )
    say(f"{lab.name}: stopped at {where}, woken: {old.code}")
    old.close()
    return new


def _until(moment: float) -> None:
    """The fault lasts so long."""
    while (left := moment - time.monotonic()) > 0:
        time.sleep(left)
