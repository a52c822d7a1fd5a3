"""kill -9 at every named failpoint and at random times, while observations keep coming.

A round is one service with topics of its own, killed so often; then it drains and is checked.
"""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from consumers.base import failpoints
from tests.faults.lab import Lab, wait_for

__all__ = ["RANDOM", "Round", "kill_round", "plan"]

RANDOM = "random time"
# Of a service. `relearn`, `import` and `reshard` are commands.
POINTS = [
    point for point in failpoints.POINTS if not point.startswith(("relearn", "import", "reshard"))
]
LIFE = 4.0  # seconds after it is live in which a point must be reached; else it is killed anyhow


@dataclass
class Round:
    """What happened, and what was wrong."""

    killed: Counter[str] = field(default_factory=Counter)  # by the point it happened at
    recoveries: list[float] = field(default_factory=list)  # seconds from start to live
    damaged: int = 0  # snapshots
    rollbacks: int = 0
    records: int = 0
    violations: list[str] = field(default_factory=list)


def plan(seed: int, kills: int) -> list[str]:
    """Points for so many kills: each as often as any other, every third at a random time."""
    random = Random(seed)
    points: list[str] = []
    while len(points) < kills:
        turn = [*POINTS, *[RANDOM] * (len(POINTS) // 2)]
        random.shuffle(turn)
        points += turn
    return points[:kills]


def kill_round(
    bootstrap: str,
    directory: Path,
    kind: str,
    seed: int,
    points: Sequence[str],
    *,
    shards: int = 1,
    corrections: bool = False,
    rollbacks: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Round:
    """One service, killed at each of the points, in their order; with rollbacks in between."""
    random, done = Random(seed), Round()
    with Lab(bootstrap, directory, kind, seed, shards=shards, corrections=corrections) as lab:
        for point in points:
            met = _kill(lab, point, random, done)
            done.killed[met] += 1
            say(f"{lab.name}: {met} (meant: {point})")
            if random.random() < 0.1:
                done.damaged += lab.damage(random)
            if rollbacks and random.random() < 0.3:
                _roll_back(lab, random, done, say)
        done.violations = lab.verdict()
        done.records = lab.sent
    return done


def _kill(lab: Lab, point: str, random: Random, done: Round) -> str:
    """One life; where it ended."""
    armed = ""
    if point != RANDOM:
        # In the midst of what follows the point, as often as right at it.
        later = f"+{random.randint(1, 12)}" if random.random() < 0.5 else ""
        times = 1 if point in ("in_fence", "in_locate", "shutdown") else random.randint(1, 4)
        if point == "mid_replay":  # a new host: everything is replayed
            for path in lab.snapshots():
                path.unlink()
        armed = f"{point}:kill{later}@{times}"
    sizes = {
        "max_records": random.choice([3, 17, 60, 250, 2_000]),
        "max_delay_ms": random.choice([0, 10, 60]),
        "every_records": 20 if point.startswith("snap_") else random.choice([20, 90, 300]),
    }
    born = time.monotonic()
    with lab.start(failpoint=armed, **sizes) as service:
        if point == RANDOM and random.random() < 0.3:
            wait_for(lambda: not service.alive, random.uniform(0.3, 1.5))  # also while it starts
        else:
            wait_for(lambda: not service.alive or lab.live(service))
            if lab.live(service):
                done.recoveries.append(time.monotonic() - born)
            life = random.uniform(0.0, 0.8) if point == RANDOM else LIFE
            if point == "shutdown" and service.alive:
                service.send(signal.SIGTERM)
            wait_for(lambda: not service.alive, life)
        service.kill()
    said = service.output
    found = re.search(r"^failpoint (\w+)$", said, re.MULTILINE)
    if service.code not in (-signal.SIGKILL, 0) or "Traceback" in said:
        done.violations.append(f"{point}: it ended with {service.code}: {said[-400:]}")
    return found[1] if found else RANDOM


def _roll_back(lab: Lab, random: Random, done: Round, say: Callable[[str], None]) -> None:
    """Beside a service that runs, which must be fenced by it, or while none does."""
    if random.random() < 0.5:
        told = lab.roll_back(random)
    else:
        with lab.start() as service:
            wait_for(lambda: not service.alive or lab.live(service))
            told = lab.roll_back(random)
            if told.startswith("journaled"):
                wait_for(lambda: not service.alive)
                if service.code != 3:
                    done.violations.append(f"rolled back: it ended with {service.code}, not 3")
    say(f"{lab.name}: {told}")
    done.rollbacks += told.startswith("journaled")
    if told.startswith("failed"):
        done.violations.append(f"a rollback {told}")
