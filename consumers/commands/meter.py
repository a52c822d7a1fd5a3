"""Progress of long work, on stderr: a bar on a terminal, plain lines elsewhere.

Rule: work that takes less than a second shows nothing. The time that is left is by the rate since
the first record, whose start may have taken long, and is shown after two seconds of it.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Meter", "metered"]

SILENT_SECONDS = 1.0
UNKNOWN_SECONDS = 2.0  # of a rate that says how long the rest takes
SECONDS_A_LINE = 5.0  # per line of a log file; often enough to see progress


class Meter:
    """Counts what is done and shows it; a context manager.

    Parameters
    ----------
    what
        What is counted, for example "records read"; the first word is a plural.
    total
        The expected number, if known.
    clock
        Seconds from any start.
    """

    def __init__(
        self, what: str, total: int | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what = what
        self._total = total
        self._clock = clock
        self._done = 0
        self._first = 0  # done when the rate begins
        self._rated = clock()
        self._next = self._rated + SILENT_SECONDS
        self._bar: Progress | None = None

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int) -> None:
        """Count `count` more as done."""
        if not self._done:
            self._first, self._rated = count, self._clock()
        self._done += count
        if self._bar is not None:
            described = f"{self._what}, {self._rate:,.0f}/s"
            task = self._bar.task_ids[0]
            self._bar.update(task, completed=self._done, description=described)
        elif self._clock() >= self._next:
            self._show()

    def _show(self) -> None:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._bar.add_task(self._what, total=self._total, completed=self._done)
            self._bar.start()
            return
        rate = self._rate
        of, left = "", ""
        if self._total is not None:
            of = f" of {self._total:,}"
            if rate and self._clock() - self._rated >= UNKNOWN_SECONDS:
                left = f", {max(self._total - self._done, 0) / rate:,.0f} s left"
        speed = f" ({rate:,.0f}/s{left})" if rate else ""
        one = self._done == 1 and self._total is None
        what = re.sub(r"^(\w+)s\b", r"\1", self._what) if one else self._what
        line = f"{self._done:,}{of} {what}{speed}"
        print(line, file=sys.stderr, flush=True)  # noqa: T201
        self._next = self._clock() + SECONDS_A_LINE

    @property
    def _rate(self) -> float:
        """How many are done in a second."""
        seconds = self._clock() - self._rated
        return (self._done - self._first) / seconds if seconds > 0 else 0.0


@contextmanager
def metered(what: str) -> Iterator[Callable[[int, int], None]]:
    """A meter for work that reports how much is done, and of how much."""
    meter: Meter | None = None
    done = 0
    with ExitStack() as stack:

        def progress(now: int, total: int) -> None:
            nonlocal meter, done
            if meter is None:
                meter = stack.enter_context(Meter(what, total))
            meter.advance(now - done)
            done = now

        yield progress
