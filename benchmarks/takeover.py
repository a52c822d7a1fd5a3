"""How soon a follower predicts when the owner is killed, or stopped.

    python -m benchmarks.takeover [--takeovers 20] [--rate 200] [--write]

Two processes of one configuration share the shard by the group, with the group's default session of
six seconds. Observations and labels arrive all the time. Every second owner is killed (-9) at a
random moment; the others are stopped by SIGTERM. The standby takes over, and a new standby starts.
The time ends when a reader of committed records has a prediction of an observation written after
the end of the owner. It starts at that end, and when the standby logs that it owns the shard.
`--write` puts the table, with its date, into docs/performance.md.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from benchmarks.flow import Flow
from benchmarks.latency import configured, make
from benchmarks.performance import percentile, show
from tests.acceptance.service import Service
from tests.kafka.broker import running_broker

PATIENCE = 60.0
TARGETS = {("kill -9", "the end"): 9.0, ("kill -9", "assignment"): 3.0}


@dataclass(frozen=True)
class Takeover:
    """Seconds from the owner's end, and from its successor's assignment, to a prediction."""

    how: str
    after_end: float
    after_assignment: float


def standing_by(service: Service) -> bool:
    """Whether it follows the shard."""
    found = re.search(r"live page on (http://[^,]+),", service.output)
    if found is None:
        return False
    try:
        with urlopen(f"{found[1]}/readyz", timeout=5) as answer:  # noqa: S310
            return b"standby" in answer.read()
    except URLError:
        return False


def take_over(flow: Flow, owner: Service, standby: Service, how: str) -> Takeover:
    """End the owner and wait for the standby's first prediction."""
    already = standby.output.count("was assigned to this process")
    ended = time.perf_counter()
    if how == "kill -9":
        owner.kill()
    else:
        owner.terminate()
        ended = time.perf_counter()
    first = len(flow.sent)
    assigned = 0.0
    deadline = ended + PATIENCE
    while time.perf_counter() < deadline:
        now = time.perf_counter()
        if not assigned and standby.output.count("was assigned to this process") > already:
            assigned = now
        if assigned and (read := next((t for t in flow.read[first:] if t), 0.0)):
            return Takeover(how, read - ended, read - assigned)
        time.sleep(0.002)
    raise SystemExit(f"the standby did not predict within {PATIENCE:g} s:\n{standby.output}")


def measure(bootstrap: str, takeovers: int, rate: int, home: Path) -> Iterator[Takeover]:
    """One service handed on so often."""
    name, moment = f"takeover-{uuid.uuid4().hex[:8]}", random.Random(7)  # noqa: S311
    make(bootstrap, name)
    with Flow(bootstrap, name, f"{name}-labels", f"{name}-predictions", rate) as flow:
        time.sleep(1.0)
        owner = Service(configured(bootstrap, name, home / "0"))
        try:
            owner.wait_said("live at journal record", 60)
            for number in range(takeovers):
                standby = Service(configured(bootstrap, name, home / str(number + 1)))
                try:
                    standby.wait_until(lambda: standing_by(standby), 60)  # noqa: B023
                    time.sleep(moment.random())
                    yield take_over(flow, owner, standby, "SIGTERM" if number % 2 else "kill -9")
                except BaseException:
                    standby.close()
                    raise
                owner.close()
                owner = standby
        finally:
            owner.close()
        if flow.doubled:
            raise SystemExit(f"{flow.doubled} predictions were doubled")


def table(found: list[Takeover]) -> Iterator[str]:
    """The takeovers as lines of Markdown."""
    yield "| end of the owner | takeovers | seconds after | p50 | p90 | largest | target |"
    yield "|---|---|---|---|---|---|---|"
    for how in ("kill -9", "SIGTERM"):
        of = [takeover for takeover in found if takeover.how == how]
        for since, seconds in (
            ("the end", [t.after_end for t in of]),
            ("assignment", [t.after_assignment for t in of]),
        ):
            if seconds:
                cells = " | ".join(f"{percentile(seconds, s):.2f}" for s in (0.5, 0.9, 1))
                limit = TARGETS.get((how, since))
                target = "reported" if limit is None else f"≤ {limit:g}"
                yield f"| {how} | {len(of)} | {since} | {cells} | {target} |"


def main() -> None:
    """Print one line a takeover and the table, and keep that where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--takeovers", type=int, default=20)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = []
    with running_broker() as bootstrap, tempfile.TemporaryDirectory() as home:
        for takeover in measure(bootstrap, options.takeovers, options.rate, Path(home)):
            found.append(takeover)
            sys.stdout.write(f"{takeover}\n")
    show("takeover", table(found), write=options.write)


if __name__ == "__main__":
    main()
