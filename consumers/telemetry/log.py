"""The log: one line per event, on stderr, for people or for machines; never a secret.

Code says `logger.info("commit", extra={"records": 500})`; the line is `time level message
records=500`, or one JSON object. Libraries are logged from WARNING on, at every level, because at
DEBUG some of them print whole requests with passwords.

Limits repeated log lines: what happens a thousand times a second is logged a few times.

Rule: lines of one template are one kind, with any arguments. If the template has no words ("%s"),
lines that differ in numbers only are one kind. A few lines of each kind pass; after that one line
per interval, with the number of lines that were left out. The rate of all kinds is bounded too.
"""

from __future__ import annotations

import logging
import os
import re
import select
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import msgspec

from consumers.base.secrets import HIDDEN, redacted, secret_key
from consumers.telemetry.pipe import LinesHandler

__all__ = [
    "REPEATS",
    "JsonLines",
    "Level",
    "Lines",
    "Repeats",
    "Style",
    "configure",
    "ended",
    "last_words",
]

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


Style = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]
Value = str | int | float | bool | None

REPEATS = Repeats()  # for the whole process, with any handler
OURS = ("headwater", "consumers", "stream")

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ATTRIBUTES = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def configure(style: Style = "text", level: Level = "info") -> None:
    """Send the log to stderr. A second call replaces the first.

    Parameters
    ----------
    style
        `text` for people, `json` for machines.
    level
        The lowest level of headwater's own lines to log.
    """
    handler = LinesHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else Lines())
    handler.addFilter(REPEATS)
    root = logging.getLogger()
    for old in root.handlers[:]:
        if isinstance(old.formatter, Lines | JsonLines):
            root.removeHandler(old)
    root.addHandler(handler)
    wanted: int = logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(max(wanted, logging.WARNING))
    for name in OURS:
        logging.getLogger(name).setLevel(wanted)
    # At INFO the client logs every connection, which is useful only in search of a fault.
    kafka = logging.INFO if level == "debug" else max(wanted, logging.WARNING)
    logging.getLogger("kafka").setLevel(kafka)


def ended(line: str, code: int) -> bool:
    """If the log is JSON, log why the process ends, with its exit code; whether it is JSON.

    For people the command prints the line itself, without time and level.
    """
    handlers = logging.getLogger().handlers
    if not any(isinstance(handler.formatter, JsonLines) for handler in handlers):
        return False
    logging.getLogger("headwater").error("%s", line, extra={"exit_code": code})
    return True


def last_words(line: str) -> None:
    """Log a line from a signal handler, before the process ends, if stderr has room for it now.

    It does not take the handler's lock, because the interrupted code may hold it.
    """
    record = logging.makeLogRecord({"msg": line, "levelname": "WARNING", "name": "headwater"})
    formatters = [handler.formatter for handler in logging.getLogger().handlers]
    ours = [each for each in formatters if isinstance(each, Lines | JsonLines)]
    text = (ours[0] if ours else Lines()).format(record)
    with suppress(OSError, ValueError):
        if select.select([], [2], [], 0)[1]:
            os.write(2, f"{text}\n".encode())


class Lines(logging.Formatter):
    """`time level message key=value`, one line per event; only a traceback takes more.

    Examples
    --------
    >>> record = logging.makeLogRecord({"msg": "commit", "levelname": "INFO", "created": 0.0})
    >>> record.records, record.topic = 500, "my topic"
    >>> Lines().format(record)
    '1970-01-01T00:00:00.000Z info commit records=500 topic="my topic"'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = " ".join(f"{key}={_shown(value)}" for key, value in _fields(record).items())
        message = _one_line(_message(record))
        line = f"{_time(record)} {record.levelname.lower()} {message} {fields}".rstrip()
        trace = _traceback(self, record)
        return f"{line}\n{trace}" if trace else line


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, then the fields.

    Examples
    --------
    >>> record = logging.makeLogRecord({"msg": "commit", "levelname": "INFO", "name": "headwater"})
    >>> record.created, record.records = 0.0, 500
    >>> print(JsonLines().format(record))  # doctest: +ELLIPSIS
    {"time":"1970-...Z","level":"info","logger":"headwater","message":"commit","records":500}
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Value] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        trace = _traceback(self, record)
        if trace:
            line["exception"] = trace
        # A field cannot replace a key that every line has.
        return msgspec.json.encode(line | {**_fields(record), **line}).decode()


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _message(record: logging.LogRecord) -> str:
    return redacted(_encodable(record.getMessage()))


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[0] is None:
        return ""
    return redacted(_encodable(formatter.formatException(record.exc_info)))


def _fields(record: logging.LogRecord) -> dict[str, Value]:
    """The `extra` of the caller, as plain values."""
    return {
        _encodable(key): HIDDEN if secret_key(key) else _plain(value)
        for key, value in record.__dict__.items()
        if key not in _ATTRIBUTES
    }


def _plain(value: object) -> Value:
    if value is None or isinstance(value, bool | int | float):
        return value
    return redacted(_encodable(str(value)))


def _shown(value: Value) -> str:
    text = str(value)
    if isinstance(value, str) and (not text or re.search(r'[\s"=]', text)):
        text = msgspec.json.encode(text).decode()
    return _one_line(text)


def _one_line(text: str) -> str:
    """Line ends and control codes made visible: a record cannot forge a line or colour it."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _encodable(text: str) -> str:
    """Text that UTF-8 can encode: JSON can have half a surrogate pair."""
    return text.encode("utf-8", "backslashreplace").decode()
