"""Reports the health of the service to systemd: ready, status, watchdog, stopping.

The protocol (sd_notify) is one datagram of lines to the socket named by $NOTIFY_SOCKET. Without it
nothing happens. Rule: a report never delays or ends the service.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from consumers.base.health import Health

__all__ = ["notifying"]

LOOK_SECONDS = 0.5  # between two looks at the health
EXTEND_SECONDS = 60.0  # a replay may take hours: each report gives the start this much time


@contextmanager
def notifying(
    health: Callable[[], Health],
    environment: Mapping[str, str] = os.environ,
    *,
    look_seconds: float = LOOK_SECONDS,
) -> Iterator[None]:
    """Report the health while the block runs.

    Parameters
    ----------
    health
        The present health.
    environment
        $NOTIFY_SOCKET, and $WATCHDOG_USEC if systemd restarts a process without reports.
    """
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        yield
        return
    notifier = _Notifier(address, health, _watchdog(environment), look_seconds)
    notifier.start()
    try:
        yield
    finally:
        notifier.stop()


def _watchdog(environment: Mapping[str, str]) -> float | None:
    """Seconds between two reports of life, half of what systemd waits; None without a watchdog."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    with suppress(ValueError):
        seconds = int(environment.get("WATCHDOG_USEC", "")) / 2e6
        return seconds if seconds > 0 else None
    return None


class _Notifier(threading.Thread):
    """Looks at the health, and reports what changed."""

    def __init__(
        self,
        address: str,
        health: Callable[[], Health],
        watchdog: float | None,
        look_seconds: float,
    ) -> None:
        super().__init__(name="systemd", daemon=True)
        self._address = "\0" + address[1:] if address[0] == "@" else address
        self._health, self._watchdog = health, watchdog
        self._look_seconds = min(look_seconds, watchdog or look_seconds)
        self._ended = threading.Event()
        self._status, self._ready = "", False
        self._extended = self._alive = float("-inf")

    def run(self) -> None:
        while True:
            self._report(self._health(), time.monotonic())
            if self._ended.wait(self._look_seconds):
                return

    def stop(self) -> None:
        """Report that the service stops."""
        self._ended.set()
        self.join()
        self._send(["STOPPING=1"])

    def _report(self, now: Health, clock: float) -> None:
        lines = []
        status = " ".join(str(now).split())  # a line break would begin another field
        if status != self._status:
            lines.append(f"STATUS={status}")
            self._status = status
        if not self._ready and (now.ready or now.state == "degraded"):
            lines.append("READY=1")
            self._ready = True
        if not self._ready and now.alive and clock - self._extended > EXTEND_SECONDS / 4:
            lines.append(f"EXTEND_TIMEOUT_USEC={EXTEND_SECONDS * 1e6:.0f}")
            self._extended = clock
        if self._watchdog and now.alive and clock - self._alive >= self._watchdog:
            lines.append("WATCHDOG=1")
            self._alive = clock
        if lines:
            self._send(lines)

    def _send(self, lines: list[str]) -> None:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)  # a full queue of systemd must not stop the service
            out.sendto("\n".join(lines).encode(), self._address)
