"""`headwater produce TOPIC -`: write the records of a pipe when they arrive.

Rule: a record is written as soon as no other one is there to be read, and counted when the log has
acknowledged it. Ctrl-C, SIGTERM, an error and the end of the pipe end the reading, never an append.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType
from typing import Any

from consumers.base.errors import ConfigError
from consumers.base.fields import field_of, key_of, time_of
from consumers.base.records import Outgoing
from consumers.commands.envelopes import opened, outgoing
from consumers.commands.wire import Appender, in_format
from consumers.files.pipe import Pipe
from consumers.offline.feed import id_of
from consumers.schemas.translate import Translator
from consumers.transports.positions import Positions
from consumers.transports.protocol import Log

__all__ = ["moments", "pour", "unwrapped"]

Source = tuple[int, int]
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def unwrapped(
    records: Iterable[Mapping[str, object]],
    topic: str,
    id_field: str,
    resumed: Positions | None,
    translator: Translator | None = None,
) -> Iterator[tuple[Outgoing, Source]]:
    """The records in envelopes, with the same timestamps and headers, and where they come from.

    Each record that a topic can hold is written, also one that no service can use, so that a copy
    never stops at it.

    Parameters
    ----------
    topic
        Where they are written.
    id_field
        The field with the id, which is the key of an object; without it, the key stays.
    resumed
        The positions that they advance.
    translator
        Encodes them in the format of their topic; None: JSON.

    Raises
    ------
    ConfigError
        A line is no envelope, or comes from another topic than the positions.

    Examples
    --------
    >>> line = {"topic": "a", "partition": 0, "offset": 7, "timestamp": 5, "value": {"id": 1}}
    >>> [(record, source)] = unwrapped([line], "b", "id", None)
    >>> record.key, record.value, record.timestamp, source
    (b'1', b'{"id":1}', 5, (0, 7))
    """
    for number, record in enumerate(records, 1):
        try:
            found = opened(record)
            out = outgoing(found, topic)
        except ValueError as error:
            raise ConfigError(
                f"standard input: record {number} is no line of `tail --envelope` ({error}); keep "
                "topic, partition, offset, timestamp and value"
            ) from None
        if resumed is not None and found.topic != resumed.topic:
            raise ConfigError(
                f"standard input: record {number} comes from {found.topic!r}, but the positions of "
                f"--resume are those of {resumed.topic!r}; use the same FILE for tail and produce"
            )
        if isinstance(found.value, dict):
            if field_of(found.value, id_field) is not None:
                out = out._replace(key=key_of(id_of(number - 1, found.value, id_field)))
            (out,) = in_format(translator, [out])
        yield out, (found.partition, found.offset)


def moments(time_field: str | None) -> Callable[[int, Mapping[str, object]], int]:
    """The timestamp of each record: the present, never an earlier one; or the time in a field."""
    last = 0

    def moment(index: int, record: Mapping[str, object]) -> int:
        nonlocal last
        if time_field is None:
            last = max(last, time.time_ns() // 1_000_000)
            return last
        try:
            return time_of(record, time_field)
        except ValueError as error:
            where = f"standard input: record {index + 1}, field {time_field!r}"
            raise ConfigError(f"{where}: {error}") from None

    return moment


def pour(
    log: Log,
    pipe: Pipe,
    records: Iterator[tuple[Outgoing, Source | None]],
    wrote: Callable[[list[Outgoing]], None],
    positions: Positions | None = None,
) -> int:
    """Write records when they arrive, up to the end of the pipe.

    Parameters
    ----------
    records
        Those of the pipe.
    wrote
        Called with every acknowledged chunk.
    positions
        Those that the records advance.

    Returns
    -------
    int
        The number of the signal that ended it, 0 at the end of the pipe.
    """
    appender = Appender(log, wrote, positions)
    with _Interruption() as interruption:
        pipe.attach(appender.waiting, interruption.allowed)
        try:
            for record, source in records:
                appender.add(record, source)
                interruption.check()
        except KeyboardInterrupt:
            if interruption.again:
                raise
        except ConfigError:  # of a record: those before it are good
            appender.finish()
            raise
        appender.finish()
    return interruption.number


class _Interruption:
    """Ctrl-C and SIGTERM raise KeyboardInterrupt while the pipe is awaited, or between two records.

    A second one raises it anywhere.
    """

    def __init__(self) -> None:
        self.number = 0
        self.again = False
        self.allowed = _Allowed(self)
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Interruption:
        self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _handle(self, number: int, _: FrameType | None) -> None:
        self.again = bool(self.number)
        self.number = number
        if self.again or self.allowed.inside:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has arrived."""
        if self.number:
            raise KeyboardInterrupt


class _Allowed:
    """Inside, a signal raises KeyboardInterrupt at once."""

    def __init__(self, interruption: _Interruption) -> None:
        self._interruption = interruption
        self.inside = False

    def __enter__(self) -> None:
        self.inside = True
        self._interruption.check()  # after that, so that no signal falls between both

    def __exit__(self, *_: object) -> None:
        self.inside = False
