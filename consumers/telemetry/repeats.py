"""Limits repeated log lines: what happens a thousand times a second is logged a few times.

Rule: lines of one template are one kind, with any arguments. If the template has no words ("%s"),
lines that differ in numbers only are one kind. A few lines of each kind pass; after that one line
per interval, with the number of lines that were left out. The rate of all kinds is bounded too.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Repeats"]

AT_ONCE = 20  # lines of one kind that pass, each of which is made up for in
EVERY_SECONDS = 5.0
ALL_AT_ONCE, ALL_A_SECOND = 1000, 50  # lines of all kinds, without DEBUG
KINDS = 256  # that are remembered

_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
_PLACE = re.compile(r"%(?:\(\w*\))?[-#0 +]*[\d*]*(?:\.[\d*]+)?[a-zA-Z%]")
_WORD = re.compile(r"[^\W\d_]{2}")


@dataclass(slots=True)
class _Kind:
    room: float
    at: float
    left_out: int = 0


class Repeats(logging.Filter):
    """Passes a log record, unless too many of its kind were logged recently.

    DEBUG lines always pass.

    Parameters
    ----------
    clock
        Seconds that never go back.

    Attributes
    ----------
    left_out
        Lines that were left out since the process started.

    Examples
    --------
    >>> repeats = Repeats(clock=lambda: 0.0)
    >>> line = logging.makeLogRecord({"msg": "refused %d", "args": (1,), "levelno": 30})
    >>> sum(repeats.filter(line) for _ in range(1000)), repeats.left_out
    (20, 980)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: OrderedDict[tuple[str, int, str], _Kind] = OrderedDict()
        self._room, self._at = float(ALL_AT_ONCE), clock()
        self._lock = threading.Lock()
        self.left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged; if so, it gets the number of lines left out before it."""
        if record.levelno <= logging.DEBUG or hasattr(record, "exit_code"):
            return True  # why the process ends is always logged
        key = record.name, record.levelno, _NUMBER.sub("#", _template(record))[:200]
        with self._lock:
            now = self._clock()
            kind = self._kinds.setdefault(key, _Kind(AT_ONCE, now))
            self._kinds.move_to_end(key)
            while len(self._kinds) > KINDS:
                self._kinds.popitem(last=False)
            kind.room = min(AT_ONCE, kind.room + (now - kind.at) / EVERY_SECONDS)
            self._room = min(ALL_AT_ONCE, self._room + (now - self._at) * ALL_A_SECOND)
            kind.at = self._at = now
            if min(kind.room, self._room) < 1:
                kind.left_out += 1
                self.left_out += 1
                return False
            kind.room -= 1
            self._room -= 1
            missing, kind.left_out = kind.left_out, 0
        if missing:
            record.left_out = missing
        return True


def _template(record: logging.LogRecord) -> str:
    """The key of its kind."""
    template = str(record.msg)
    if not record.args or _WORD.search(_PLACE.sub("", template)):
        return template
    try:
        return record.getMessage()  # else every "%s" is one kind, and a flood of one hides another
    except (TypeError, ValueError):  # wrong arguments: the handler reports them
        return template
