"""Named points where a test kills, stops, delays or fails this process. For tests only.

`HEADWATER_FAILPOINT="after_check:kill@3"` kills the process with SIGKILL when it reaches that point
for the third time. When the variable is not set, a point costs one look at an empty dictionary.

    NAME:kill[+MS]@N    SIGKILL, at once or after MS while the process continues
    NAME:stop@N         SIGSTOP: the process stops until it receives SIGCONT
    NAME:sleep+MS@N     wait MS
    NAME:raise@N        TransportError, as if the broker had failed

Without `@N` the first time counts. Commas separate several points.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from typing import NamedTuple

from consumers.base.errors import ConfigError, TransportError

__all__ = ["POINTS", "reach"]

VARIABLE = "HEADWATER_FAILPOINT"
# In the order of a run: import, start, commit, snapshot, re-learn, reshard, shutdown.
POINTS = (
    "import_fenced",
    "import_part",
    "import_parts",
    "import_journaled",
    "in_fence",
    "in_locate",
    "mid_replay",
    "before_begin",
    "mid_send",
    "after_flush",
    "after_check",
    "after_offsets",
    "in_commit",
    "after_commit",
    "keys_mid_vacuum",
    "keys_pre_commit",
    "keys_post_commit",
    "snap_mid_write",
    "snap_pre_fsync",
    "snap_pre_rename",
    "snap_post_rename",
    "relearn_fenced",
    "relearn_journaled",
    "reshard_fenced",
    "reshard_closed",
    "reshard_begun",
    "shutdown",
)
_FORM = re.compile(r"(\w+):(kill|stop|sleep|raise)(?:\+(\d+))?(?:@(\d+))?")


class _Fault(NamedTuple):
    action: str
    seconds: float
    times: int  # it acts when the point is reached for this time


def reach(name: str) -> None:
    """Report that the process has reached a point. A fault that is set for the point acts now.

    Raises
    ------
    TransportError
        The fault is `raise`.

    Examples
    --------
    >>> reach("before_begin")  # no fault is set
    """
    if _armed:
        _act(name)


def _act(name: str) -> None:
    fault = _armed.get(name)
    if fault is None:
        return
    with _counting:
        _reached[name] = _reached.get(name, 0) + 1
        if _reached[name] != fault.times:
            return
    os.write(2, f"failpoint {name}\n".encode())  # unbuffered, because the process may end here
    if fault.action == "sleep":
        time.sleep(fault.seconds)
    elif fault.action == "raise":
        raise TransportError(f"failpoint {name}: failed on purpose, {VARIABLE} is set")
    elif fault.seconds:
        threading.Timer(fault.seconds, _signal, [fault.action]).start()
    else:
        _signal(fault.action)


def _signal(action: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL if action == "kill" else signal.SIGSTOP)


def _parsed(text: str) -> dict[str, _Fault]:
    armed = {}
    for part in filter(None, text.split(",")):
        found = _FORM.fullmatch(part)
        if found is None or found[1] not in POINTS:
            raise ConfigError(
                f"{VARIABLE}: expected NAME:kill|stop|sleep|raise[+MS][@N], NAME one of "
                f"{', '.join(POINTS)}, got {part!r}; unset it, because it is for tests only"
            )
        name, action, ms, times = found.groups()
        armed[name] = _Fault(action, int(ms or 0) / 1000, int(times or 1))
    return armed


_reached: dict[str, int] = {}
_counting = threading.Lock()
_armed = _parsed(os.environ.get(VARIABLE, ""))
