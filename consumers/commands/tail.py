"""`headwater tail`: print the records of a topic, one per line.

Rule: stdout has records and nothing else, so that it can be piped; Ctrl-C and a closed pipe are
the usual ways to end it, not errors.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.commands.envelopes import enveloped, text
from consumers.commands.transport import ConfigOption, TransportOption, open_chosen
from consumers.transports.positions import Positions, initial_positions

if TYPE_CHECKING:
    from consumers.base.records import Partition, Record
    from consumers.transports.protocol import Log

__all__ = ["tail", "up_to_now"]

POLL_SECONDS = 0.1  # shorter delays are not visible


def tail(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    transport: TransportOption = None,
    config: ConfigOption = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start at the oldest record, not the end.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for new records. The default.")
    ] = False,
    drain: Annotated[bool, typer.Option("--drain", help="Stop at the present end.")] = False,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="FILE", help="Continue at the positions in FILE."),
    ] = None,
    advance: Annotated[
        bool,
        typer.Option(
            "--advance/--no-advance",
            help="Store positions in FILE after each flush, or leave that to `produce --resume`.",
        ),
    ] = True,
    as_envelope: Annotated[
        bool,
        typer.Option("--envelope", help="Add topic, partition, offset, timestamp, key, headers."),
    ] = False,
    most: Annotated[
        int | None, typer.Option("--max", "-n", metavar="N", min=1, help="Stop after N records.")
    ] = None,
) -> None:
    """Print the values of a topic, one per line, as they arrive.

    With CONFIG, records with schemas are printed as JSON, or as they are if they cannot be decoded,
    and each row of an Arrow message is a line; with --envelope its value is the list of rows.
    Bytes that are not UTF-8, and codes that control a terminal, are shown as \\xNN. With --envelope
    every line is a JSON object. Ctrl-C ends it.

    With --resume, positions are stored only after the lines were flushed, at most once a second. So
    a restart repeats lines and skips none. The first start creates FILE; --from-beginning has no
    effect later.

    \b
    Examples:
      headwater tail visits-predictions --config visits.toml
      headwater tail visits --transport sqlite:feed.db --from-beginning --drain | wc -l
      headwater tail visits --config visits.toml --resume visits.pos >> visits.jsonl
    """
    _check_options(follow=follow, drain=drain, resume=resume, advance=advance)
    url, log = open_chosen(transport, config, existing=True)
    line_of = _lines(config if transport is None else None, as_envelope=as_envelope)
    try:
        _check_topic(log, url, topic)
        kept = None
        if resume is not None:
            kept = Positions.of_topic(resume, log, url, topic, from_beginning=from_beginning)
        starts = kept.next if kept else _starts(log, topic, from_beginning=from_beginning)
        sink = _Sink(kept if advance else None, _awaited(log, topic, starts, resumed=bool(resume)))
        if drain:
            records = up_to_now(log, starts, headers=as_envelope)
        else:
            records = log.follow(starts, poll_seconds=POLL_SECONDS, idle=sink.idle)
        try:
            for record in islice(records, most):
                sink.write(line_of(record), record, flush=not drain)
        finally:
            sink.store()
    except KeyboardInterrupt:
        pass
    finally:
        log.close()


def _lines(config: Path | None, *, as_envelope: bool) -> Callable[[Record], str]:
    """How a record is printed."""
    translator = None
    if config is not None:
        from consumers.commands.wire import translator_of
        from consumers.config import load

        translator = translator_of(load(config))

    def line(record: Record) -> str:
        if translator is not None and record.value is not None:
            rows = None if as_envelope else translator.rows(record.value)
            if rows is not None:
                return "\n".join(map(text, rows))
            record = record._replace(value=translator.as_json(record.value))
        return enveloped(record) if as_envelope else text(record.value)

    return line


class _Sink:
    """Writes lines to stdout. The positions that it keeps are never ahead of what was flushed."""

    def __init__(self, kept: Positions | None, awaited: str) -> None:
        self._kept = kept
        self._pipe = _pipe()
        self._awaited = awaited

    def write(self, line: str, record: Record, *, flush: bool) -> None:
        sys.stdout.write(line + "\n")
        if flush:
            sys.stdout.flush()
        if self._kept is not None:
            self._kept.advance(record.partition, record.offset)
            if self._kept.due:
                self.store()

    def store(self) -> None:
        """Flush, then store the positions."""
        sys.stdout.flush()
        if self._kept is not None:
            self._kept.store()

    def idle(self) -> None:
        """Store; end if the reader of the pipe is gone, which the next write would notice late."""
        self.store()
        if self._awaited:
            print(self._awaited, file=sys.stderr, flush=True)  # noqa: T201
            self._awaited = ""
        if self._pipe is not None and self._pipe.poll(0):
            raise BrokenPipeError


def _pipe() -> select.poll | None:
    """A poll of stdout that finds only its end; None if stdout is no file."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):
        return None
    found = select.poll()
    found.register(number, 0)  # errors only
    return found


def _check_options(*, follow: bool, drain: bool, resume: Path | None, advance: bool) -> None:
    from consumers.base.errors import ConfigError

    if follow and drain:
        raise ConfigError("--follow waits for new records, --drain stops at the end; give one")
    if resume is None and not advance:
        raise ConfigError("expected --resume FILE with --no-advance; add it")
    if sys.__stdout__ is None:  # closed before the start: nobody reads, so no position may advance
        raise BrokenPipeError


def _check_topic(log: Log, url: str, topic: str) -> None:
    from consumers.base.errors import ConfigError

    topics = log.topics()
    if topic not in topics:
        shown = ", ".join(sorted(topics)[:20]) or "none yet"
        raise ConfigError(f"{url} has no topic {topic!r}; topics are {shown}")


def _starts(log: Log, topic: str, *, from_beginning: bool) -> dict[Partition, int]:
    """Where to start in each partition."""
    from consumers.base.records import Partition

    partitions = [Partition(topic, number) for number in range(log.topics()[topic])]
    return initial_positions(log, partitions, from_beginning=from_beginning)


def _awaited(log: Log, topic: str, starts: Mapping[Partition, int], *, resumed: bool) -> str:
    """What a wait is for: a terminal without lines looks like a command that hangs. Else ""."""
    if not sys.stderr.isatty():
        return ""
    first = log.beginning_offsets(list(starts))
    before = 0 if resumed else sum(max(at - first[part], 0) for part, at in starts.items())
    some = f", after {before:,} that --from-beginning prints" if before else ""
    return f"waiting for new records in {topic}{some}; Ctrl-C ends"


def up_to_now(log: Log, starts: Mapping[Partition, int], *, headers: bool) -> Iterator[Record]:
    """The records up to the present end.

    A first pass finds the last record of each partition, because ends also count transaction
    markers. The second pass follows the topic, which gives headers but has no end.
    """
    from consumers.base.records import Partition, Record

    last: dict[Partition, int] = {}
    for part in log.read(starts, log.end_offsets(list(starts))):
        last[part.partition] = part.offsets[-1]
        if not headers:
            columns = zip(part.offsets, part.timestamps, part.keys, part.values, strict=True)
            for offset, timestamp, key, value in columns:
                yield Record(*part.partition, offset, timestamp, key, value)
    if not headers or not last:
        return
    for record in log.follow({p: starts[p] for p in last}, poll_seconds=POLL_SECONDS):
        partition = Partition(record.topic, record.partition)
        end = last.get(partition, -1)
        if record.offset <= end:
            yield record
        if record.offset >= end:
            last.pop(partition, None)
            if not last:
                return
