"""`headwater demo`: real records through the real service, shown while it learns.

Rule: everything is real. The feed is written to the embedded log in small chunks, as by a producer.
The service is that of `headwater run`. The view shows committed data only.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from consumers.base.records import Outgoing
    from consumers.config import Config
    from consumers.demo.data import DemoStream
    from consumers.demo.picture import Picture, PictureListener
    from consumers.service.runner import Runner
    from consumers.shard.views import Committed, ShardView
    from consumers.transports.protocol import Log

__all__ = ["DemoPlan", "demo", "perform", "prepare"]

SECONDS = 20.0  # long enough to see it learn, short enough to see the end
CHUNKS_A_SECOND = 10  # a chunk is one transaction: a smooth view at a low cost
FRAMES_A_SECOND = 8
LINES = 10  # of progress without a terminal
MOST_VERIFIED = 2_500  # observations: river's loop takes up to 4 ms for each
PORT = 8321

Tell = Callable[["Picture"], None]


def demo(
    feed: Annotated[
        str, typer.Option(metavar="phishing|bananas|segments", help="A data set to learn from.")
    ] = "phishing",
    file: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Your own file (CSV, JSON, …) instead."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="FIELD", help="With --from: the field with the label.")
    ] = None,
    delay: Annotated[
        int, typer.Option(metavar="N", min=0, help="Delay of the labels, in records.")
    ] = 50,
    fast: Annotated[bool, typer.Option("--fast", help="Send all at once, not over 20 s.")] = False,
    port: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=65535, help="HTTP port; default 8321, or a free one."),
    ] = None,
    directory: Annotated[
        Path, typer.Option(metavar="DIR", help="Directory to write to; numbered if it exists.")
    ] = Path("headwater-demo"),
    open_page: Annotated[
        bool,
        typer.Option("--open", help="Open the live page in a browser; it stays until Ctrl-C."),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Compare the scores with those of river's own, slow loop."),
    ] = False,
) -> None:
    """Watch a model learn: real records, predicted first, learned when their labels arrive.

    The demo writes a data set to an embedded log, with the labels some records later. The service
    runs on that log and publishes every prediction. No broker is needed. Ctrl-C ends it early.

    \b
    Examples:
      headwater demo --open
      headwater demo --feed segments --fast
      headwater demo --from visits.csv --label bought
    """
    from consumers.base.errors import ConfigError
    from consumers.demo.data import bundled, from_file

    if file is None and label is not None:
        raise ConfigError("--label names a field of --from FILE; give both or neither")
    source = bundled(feed) if file is None else from_file(file, label)
    live = sys.stdout.isatty() and _can_draw()
    plan = prepare(source, str(file or feed), delay, directory, port)
    tell = _nothing if live else _line_by_line(plan.observations)
    watch = perform(
        plan,
        seconds=SECONDS if (live or open_page) and not fast else 0.0,
        live=live,
        tell=tell,
        show=_open if open_page else None,
    )
    if not live:
        _say_last(watch.picture)
    _conclude(plan, watch, live=live)
    if verify:
        _verify(plan, watch.picture)


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """A feed, its service, and the number of records to send."""

    feed: DemoStream
    path: Path
    config: Config
    delay: int
    observations: int
    labels: int
    any_port: bool = False  # if another program has the port, take any free one


def prepare(
    feed: DemoStream, origin: str, delay: int, directory: Path, port: int | None
) -> DemoPlan:
    """Read the feed once, and write the configuration into a fresh directory.

    Raises
    ------
    ConfigError
        The feed cannot be learned, the port is in use, or the directory cannot be created.
    """
    from consumers.commands.source import survey
    from consumers.config import load, parse
    from consumers.demo.data import fresh_directory, settings
    from consumers.offline.feed import LateLabels

    late = LateLabels(f"{feed.name}-labels", feed.label, delay)
    found = survey(feed.records(), origin, late, None)
    text = settings(feed, found.records + found.labels)
    host = parse(text, source=feed.origin).http.host  # checks it before anything is written
    if port:
        _check_port(host, port)
    directory = fresh_directory(directory)
    path = directory / f"{feed.name}.toml"
    path.write_text(text, encoding="utf-8")
    config = load(path)
    config = _on(config, PORT if port is None else port)
    return DemoPlan(feed, path, config, delay, found.records, found.labels, port is None)


def _on(config: Config, port: int) -> Config:
    return config.model_copy(update={"http": config.http.model_copy(update={"port": port})})


def perform(
    plan: DemoPlan,
    *,
    seconds: float,
    live: bool,
    tell: Tell,
    show: Callable[[str], None] | None = None,
) -> PictureListener:
    """Run the service on the feed until all of it is committed, or it is stopped.

    Parameters
    ----------
    seconds
        Duration of the feed; 0 sends everything before the service starts.
    live
        Whether to draw the live view.
    tell
        Called with the newest picture after each commit.
    show
        Called with the address of the live page, which then stays until the service stops.

    Raises
    ------
    HeadwaterError
        The feed or the service failed.
    """
    from consumers.commands.run import make_own_topics, stopping
    from consumers.demo.picture import PictureListener
    from consumers.service.runner import Runner
    from consumers.service.warm_up import CompilationStopped, begin_kernels
    from consumers.transports import open_log

    config, stop = plan.config, threading.Event()
    everything = plan.observations + plan.labels
    with stopping(stop):
        log = open_log(config.input.transport)
        try:
            for topic in config.input_topics:
                log.create_topic(topic, 1)
            make_own_topics(config, log)
            watch = PictureListener(config, log, plan.feed.label, plan.observations, time.monotonic)

            def committed(event: Committed, view: ShardView) -> None:
                watch.committed(event, view)
                tell(watch.picture)
                if show is None and sum(view.positions.values()) >= everything:
                    stop.set()

            runner = Runner(config, log, stop, subscribers=[committed])
            with suppress(CompilationStopped), _served(plan, runner) as address:
                typer.echo(f"live page: {address}/")
                typer.echo(f"metrics: {address}/metrics")
                if show is not None and address is not None:
                    show(f"{address}/")
                _introduce(plan)
                begin_kernels(config, typer.echo, stop.is_set)
                if not seconds:
                    _send_all(plan, log, stop)
                with _drawn(watch, live=live), _feeding(plan, stop, seconds):
                    watch.begin()
                    runner.run()
        finally:
            log.close()
    return watch


def _outgoing(plan: DemoPlan, start: int, step_ms: float) -> Iterator[Outgoing]:
    """Observations and labels in the order of time."""
    from consumers.offline.feed import LateLabels, timed

    late = LateLabels(f"{plan.feed.name}-labels", plan.feed.label, plan.delay)
    records = plan.feed.records()
    return timed(records, plan.feed.name, start=start, step_ms=step_ms, labels=late)


def _send_all(plan: DemoPlan, log: Log, stop: threading.Event) -> None:
    """Write the whole feed at once, with timestamps that end now."""
    from consumers.commands.meter import Meter
    from consumers.commands.wire import send

    start = _now() - plan.observations - plan.delay
    records = takewhile(lambda _: not stop.is_set(), _outgoing(plan, start, 1.0))
    with Meter("records written", plan.observations + plan.labels) as meter:
        send(log, records, wrote=lambda chunk: meter.advance(len(chunk)))


@contextmanager
def _feeding(plan: DemoPlan, stop: threading.Event, seconds: float) -> Iterator[None]:
    """Write the feed in a thread over so many seconds; no thread if it was written before."""
    if not seconds:
        yield
        return
    failures: list[Exception] = []
    thread = threading.Thread(
        target=_send_slowly, args=(plan, stop, seconds, failures), name="headwater-feed"
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]


def _send_slowly(
    plan: DemoPlan, stop: threading.Event, seconds: float, failures: list[Exception]
) -> None:
    """The thread that writes the feed, with its own log, because a log belongs to one thread."""
    from consumers.commands.wire import send
    from consumers.transports import open_log

    # Timestamps are at least 1 ms apart, so those of a long feed start in the past.
    step = max(1.0, 1000 * seconds / plan.observations)
    span = step * plan.observations
    start = _now() + round(1000 * seconds - span)

    def due(timestamp: int) -> float:
        return floor((timestamp - start) / span * seconds * CHUNKS_A_SECOND) / CHUNKS_A_SECOND

    try:
        log = open_log(plan.config.input.transport)
        try:
            records = takewhile(lambda _: not stop.is_set(), _outgoing(plan, start, step))
            send(log, records, pace=due, sleep=stop.wait)
        finally:
            log.close()
    except Exception as error:
        failures.append(error)
        stop.set()


@contextmanager
def _drawn(watch: PictureListener, *, live: bool) -> Iterator[None]:
    """The live view: the newest picture, drawn by its own thread."""
    if not live:
        yield
        return
    from rich.console import Console
    from rich.live import Live

    from consumers.demo.view import frame

    console = Console()
    # One row less than the terminal, because the cursor is below the last one.
    view = Live(
        get_renderable=lambda: frame(watch.picture, console.width, console.height - 1),
        console=console,
        refresh_per_second=FRAMES_A_SECOND,
    )
    with view:
        yield


def _line_by_line(total: int) -> Tell:
    """Prints a line after the first commit, and after each tenth except the last, whose labels have
    not arrived."""
    from consumers.demo.summary import progress

    shown = -1

    def tell(picture: Picture) -> None:
        nonlocal shown
        tenths = LINES * picture.observations // max(total, 1)
        if picture.observations and shown < tenths < LINES:
            shown = tenths
            typer.echo(progress(picture))

    return tell


def _say_last(picture: Picture) -> None:
    """The last line, with the numbers of the table that follows."""
    from consumers.demo.summary import progress

    if picture.view is not None:
        typer.echo(progress(picture))


def _open(address: str) -> None:
    """Open the live page in the default browser."""
    import webbrowser

    if webbrowser.open(address):
        typer.echo("the live page stays until Ctrl-C")
    else:
        typer.echo("no browser was found; open the address above. The page stays until Ctrl-C")


def _nothing(_: Picture) -> None:
    """Does nothing, because the live view draws itself."""


def _introduce(plan: DemoPlan) -> None:
    late = f"{plan.delay:,} records later" if plan.delay > 1 else "at once"
    origin = plan.feed.origin
    if plan.observations == 1:
        origin = origin.replace("records of", "record of", 1)
    typer.echo(f"{plan.observations:,} {origin}; labels arrive {late}")
    for warning in plan.feed.warnings:
        typer.echo(f"warning: {warning}")


def _conclude(plan: DemoPlan, watch: PictureListener, *, live: bool) -> None:
    from consumers.demo.summary import files, outcome

    for line in (
        "",
        *outcome(watch.picture, seen=live),
        "",
        *files(plan.config, plan.path, _program()),
    ):
        typer.echo(line)


def _verify(plan: DemoPlan, picture: Picture) -> None:
    """The last line: river's own loop repeats what the service did, and comes to the same scores.

    Nothing is verified if the demo was stopped early.
    """
    view = picture.view
    if view is None or view.records < plan.observations + plan.labels:
        return
    what, drawn = "river's own loop over the same records: ", sys.stdout.isatty()
    typer.echo()
    if not drawn:
        typer.echo(what, nl=False)  # to see that it works; on a terminal there is a bar
    found, equal = _second_opinion(plan, view)
    typer.echo(what + found if drawn else found)
    if not equal:
        raise typer.Exit(1)


def _second_opinion(plan: DemoPlan, view: ShardView) -> tuple[str, bool]:
    """The result of river's loop, or why it did not run; and whether nothing differs."""
    from consumers.base.errors import ConfigError

    dead = sum(view.dead_letters.values())
    if dead or plan.observations > MOST_VERIFIED:
        why = f"{dead:,} dead letters" if dead else f"there are more than {MOST_VERIFIED:,}"
        late = f"--label {plan.feed.label} --delay {plan.delay}"
        return f"skipped ({why}); headwater replay {plan.path} FILE {late} --verify", True
    try:
        made = _verified(plan, view)
    except ConfigError as error:
        return f"not possible ({error})", True
    gap = made["largest_difference"]
    shown = "one side lacks a score" if gap is None else f"largest difference {gap:.3g}"
    return f"{made['scored']:,} predictions scored, {shown}", made["equal"]


def _verified(plan: DemoPlan, view: ShardView) -> dict[str, Any]:
    """River's loop over the feed, compared with the scores of the service."""
    from consumers.commands.file_replay import verified
    from consumers.offline.evaluate import file_shard
    from consumers.offline.feed import LateLabels
    from consumers.offline.verify import FileVerifier, check_verifiable

    config, feed = plan.config, plan.feed
    assert config.declared_schema is not None  # noqa: S101  `settings` declares the fields
    late = LateLabels(f"{feed.name}-labels", feed.label, plan.delay)
    shard = file_shard(config, config.declared_schema, late)
    check_verifiable(config)
    verifier = FileVerifier(shard, feed.name, late)
    records, outgoing = feed.records(), _outgoing(plan, 0, 1.0)
    return verified(verifier, records, outgoing, view, plan.observations, sys.stdout.isatty())


def _program() -> str:
    """The command for `headwater`: its name if the shell finds it, else its path."""
    from shlex import quote
    from shutil import which

    started, found = Path(sys.argv[0]), which("headwater")
    if started.name != "headwater" or len(started.parts) == 1:
        return "headwater"
    if found is not None and Path(found).resolve() == started.resolve():
        return "headwater"
    return quote(str(started))


@contextmanager
def _served(plan: DemoPlan, runner: Runner) -> Iterator[str | None]:
    """The server at the port of the plan, or at any free port if allowed."""
    from consumers.base.errors import ConfigError
    from consumers.commands.run import served

    with ExitStack() as stack:
        try:
            address = stack.enter_context(served(plan.config, runner))
        except ConfigError:
            if not plan.any_port:
                raise
            address = stack.enter_context(served(_on(plan.config, 0), runner))
        yield address


def _check_port(host: str, port: int) -> None:
    """Report that a requested port is in use, before anything is written."""
    from consumers.base.errors import ConfigError

    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        raise ConfigError(
            f"--port {port}: cannot listen there ({os.strerror(error.errno or 0)}); give another "
            "one, or 0 for any free one"
        ) from None


def _can_draw() -> bool:
    """Whether the terminal can move its cursor and show the characters of the view."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return os.environ.get("TERM", "dumb") != "dumb" and encoding.startswith("utf")


def _now() -> int:
    return time.time_ns() // 1_000_000
