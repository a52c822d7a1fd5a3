"""The installed command `headwater`, as a process: what a user starts is what is tested.

Rule: nothing here sleeps without a condition it waits for, and nothing outlives its `with`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.waiting import PATIENCE

__all__ = ["HEADWATER", "Service", "headwater", "processor_seconds"]

HEADWATER = str(Path(sys.executable).with_name("headwater"))  # beside the Python of these tests

Found = TypeVar("Found")


def headwater(
    *arguments: str | Path, seconds: float = PATIENCE, directory: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself; its exit code and what it said."""
    return subprocess.run(
        [HEADWATER, *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=seconds,
        cwd=directory,
        stdin=subprocess.DEVNULL,
    )


def processor_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


class Service:
    """`headwater run CONFIG …` in the background; killed at the end of its `with`, if not before.

    Parameters
    ----------
    config_path
        The configuration. With `[http] port = 0`, `metrics` finds the address by itself.
    arguments
        What follows it, such as "--drain".
    environment
        Variables besides those of the tests.
    prefix
        A command that starts it, such as one that lowers a limit.
    """

    def __init__(
        self,
        config_path: Path,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self._said = tempfile.NamedTemporaryFile(prefix="headwater-said-")  # noqa: SIM115
        self._last_words: str | None = None
        self._process = subprocess.Popen(
            [*prefix, HEADWATER, "run", str(config_path), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.kill()
        if error is not None:
            error.add_note(f"headwater run had said:\n{self.output}")
        self.close()

    def close(self) -> None:
        """Kill it, if it still runs, and keep what it has said."""
        self.kill()
        self._last_words = self.output
        self._said.close()

    @property
    def output(self) -> str:
        """Everything it has said so far, stdout and stderr as they came; also after its `with`."""
        if self._last_words is not None:
            return self._last_words
        return Path(self._said.name).read_text(encoding="utf-8", errors="replace")

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    @property
    def stopped(self) -> bool:
        """Whether it was stopped by SIGSTOP and waits for SIGCONT."""
        try:
            told = Path(f"/proc/{self._process.pid}/stat").read_text()
        except OSError:
            return False
        return told.rpartition(")")[2].split()[0] == "T"

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs, -9 after `kill`."""
        return self._process.poll()

    def wait_until(self, predicate: Callable[[], Found], seconds: float = PATIENCE) -> Found:
        """Ask until the answer is true, and return it.

        An AssertionError when the time is over, or when the service has ended and the answer is
        still not true.
        """
        deadline = time.monotonic() + seconds
        while True:
            alive = self.alive  # before the question: what it did at its end counts
            if found := predicate():
                return found
            if not alive:
                raise AssertionError(f"it ended with {self.code} before what was awaited")
            if time.monotonic() >= deadline:
                raise AssertionError(f"what was awaited did not come within {seconds:g} s")
            time.sleep(0.01)

    def wait_said(self, pattern: str, seconds: float = PATIENCE) -> re.Match[str]:
        """Wait for a line that the pattern finds."""
        return self.wait_until(lambda: re.search(pattern, self.output), seconds)

    def wait(self, seconds: float = PATIENCE) -> int:
        """Wait for its end; the exit code."""
        return self._process.wait(timeout=seconds)

    def kill(self) -> None:
        """kill -9: it gets no chance to finish anything."""
        self._process.kill()
        self._process.wait()

    def send(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def terminate(self, seconds: float = PATIENCE) -> int:
        """SIGTERM, as an orchestrator does; the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def get(self, path: str = "/metrics") -> str:
        """A page of its HTTP server."""
        address = self.wait_said(r"metrics on http://(\S+)/metrics")[1]
        with urlopen(f"http://{address}{path}", timeout=PATIENCE) as answer:  # this machine only
            return answer.read().decode()

    def status(self, path: str) -> tuple[int, str]:
        """Status and body of a page of its HTTP server, be it a refusal."""
        address = self.wait_said(r"metrics on http://(\S+)/metrics")[1]
        try:
            with urlopen(f"http://{address}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def metric(self, series: str) -> float | None:
        """The value of one series of /metrics as it is written there; None where it is absent."""
        for line in self.get().splitlines():
            name, _, value = line.rpartition(" ")
            if name == series:
                return float(value)
        return None
