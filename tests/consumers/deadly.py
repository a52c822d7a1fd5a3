"""`headwater`, but a river model that the operating system kills at one record.

Run as `python -m tests.consumers.deadly run CONFIG`. It dies like a process out of memory: no
exception, no exit handler, nothing flushed.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from river.naive_bayes import GaussianNB

from consumers.cli import main

DEADLY = 666.0


def fall(model: Any, x: dict[str, Any], y: Any) -> None:
    """Learn, or die."""
    if x.get("a") == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    learn_one(model, x, y)


if __name__ == "__main__":
    learn_one = GaussianNB.learn_one
    GaussianNB.learn_one = fall  # type: ignore[method-assign]
    main()
