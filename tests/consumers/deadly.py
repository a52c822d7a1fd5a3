"""`headwater`, but a river model that the operating system kills at one record.

Run as `python -m tests.consumers.deadly run CONFIG`. It dies like a process out of memory: no
exception, no exit handler, nothing flushed. `DEADLY_BY` in the environment names another way: a
signal, `hang`, `sleep`, `memory`, `exit` or `raise`; with `crowded` little memory is left. The
processes in which it tries records die alike.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from river.naive_bayes import GaussianNB

from consumers.cli import main
from consumers.service import trial

DEADLY = 666.0
BY = os.environ.get("DEADLY_BY", "SIGKILL")
TRIAL = "--trial"


def fall(model: Any, x: dict[str, Any], y: Any) -> None:
    """Learn, or die."""
    if x.get("a") == DEADLY:
        die()
    learn_one(model, x, y)


def die() -> None:
    """End, or never end, without an exception that anybody could handle."""
    kept = []
    while BY == "memory":
        kept.append(b"x" * (1 << 24))  # touched, not only asked for
    while BY == "hang":
        pass
    if BY == "sleep":
        time.sleep(1e6)
    if BY == "raise":
        raise ValueError("on purpose")
    if BY == "exit":
        os._exit(0)
    os.kill(os.getpid(), signal.Signals[BY])


if __name__ == "__main__":
    learn_one = GaussianNB.learn_one
    GaussianNB.learn_one = fall  # type: ignore[method-assign]
    trial.COMMAND = [sys.executable, "-m", "tests.consumers.deadly", TRIAL]
    if BY in ("memory", "crowded"):
        trial.free_bytes = lambda: (512 if BY == "memory" else 200) << 20
    if sys.argv[1] == TRIAL:
        del sys.argv[1]
        trial.main()
    else:
        main()
