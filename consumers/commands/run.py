"""`headwater run`: the service."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consumers.commands.past import ConfigArgument

if TYPE_CHECKING:
    from consumers.cluster.fleet import Fleet, Serving
    from consumers.cluster.processes import ProcessFleet
    from consumers.config import Config
    from consumers.service.differences import Decision
    from consumers.transports.protocol import Log
    from consumers.web.status_feed import StatusFeed

__all__ = ["make_own_topics", "prepare_topics", "run", "served", "stopping"]

log = logging.getLogger("headwater")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run(
    config: ConfigArgument,
    drain: Annotated[
        bool, typer.Option("--drain", help="Stop at the present end of the inputs.")
    ] = False,
    shards: Annotated[
        str | None,
        typer.Option(
            "--shards",
            metavar="0,3",
            help="Run only these shards, numbered from 0; default: processes share them on Kafka.",
        ),
    ] = None,
    processes: Annotated[
        str | None,
        typer.Option(
            "--processes",
            metavar="auto|N",
            help="Run the shards in so many processes of their own, each on a processor of its "
            "own; auto: one for each shard, as far as there are processors.",
        ),
    ] = None,
    new_journal: Annotated[
        bool,
        typer.Option(
            "--new-journal",
            help="Start with an empty journal and model although the service has run before; for "
            "one start.",
        ),
    ] = False,
    accept_new_topic: Annotated[
        bool,
        typer.Option(
            "--accept-new-topic",
            help="Read an input topic that was created again from its first record; for one start.",
        ),
    ] = False,
    same_topic: Annotated[
        bool,
        typer.Option(
            "--same-topic",
            help="Continue in an input topic with a new id that holds the same records; for "
            "one start.",
        ),
    ] = False,
) -> None:
    """Run the service: predict, learn when labels arrive, commit, publish metrics.

    Ctrl-C or SIGTERM finishes the current commit, writes a snapshot and ends with 0. A second
    signal ends the process at once, without a snapshot; no record is lost or predicted twice.

    \b
    Examples:
      headwater run phishing.toml
      headwater run visits.toml --shards 0,3
      headwater run visits.toml --processes auto
      headwater run visits.toml --accept-new-topic
    """
    stop = threading.Event()
    with stopping(stop):
        decision = _decision(accept_new_topic, same_topic)
        _serve(config, drain, stop, (shards, processes), new_journal, decision)


def _decision(new: bool, same: bool) -> Decision | None:
    """The options for inputs that differ from the consumed ones."""
    from consumers.base.errors import ConfigError

    if new and same:
        raise ConfigError("--accept-new-topic and --same-topic exclude each other: give one")
    return "new" if new else "same" if same else None


def _serve(
    file: Path,
    drain: bool,
    stop: threading.Event,
    where: tuple[str | None, str | None],
    new_journal: bool,
    decision: Decision | None,
) -> None:
    """`where`: what --shards and --processes say."""
    config = _configured(file)
    if _ends(stop):  # here and below before an import that takes long
        return
    from consumers.config.load import log_of

    numbers = _numbers(where[0], config)
    processes = _processes(where[1], config, len(numbers))
    _check_models(config)
    if _ends(stop):
        return
    from consumers.cluster.fleet import StartingFleet
    from consumers.cluster.group import ShardGroup
    from consumers.cluster.orphans import end_orphans
    from consumers.service.partitioning import check_partitioning
    from consumers.service.warm_up import CompilationStopped, begin_kernels
    from consumers.telemetry.supervisor import notifying

    if _ends(stop):
        return
    opened = partial(log_of, config)

    def compiling(line: str) -> None:
        serving.detail = "compiling kernels"
        log.info("%s", line)

    _check_file(file, config, numbers, new_journal)
    end_orphans(config)
    serving = StartingFleet()
    # Listen before any slow step, so that a probe finds a live process.
    with (
        served(config, serving, lambda: serving.followed_feeds()) as address,
        notifying(serving.health),
        closing(opened()) as transport,
    ):
        _check_topics(file, config, transport, numbers, new_journal)
        make_own_topics(config, transport)
        for number in numbers:
            _check_journal(config, transport, number, new_journal)
        check_partitioning(config, transport)
        if address:
            log.info("live page on %s, metrics on %s/metrics", address, address)
        try:
            begin_kernels(config, compiling, stop.is_set)
            serving.detail = ""
            # Draining ends, so it needs no standby.
            ours = drain or where != (None, None)
            names = config.name, config.journal_topic, config.scale.standbys
            member = None if ours else transport.member(*names)
            first: Any = {"new_journal": new_journal, "decision": decision}
            if member is None:
                fleet = _fleet(config, stop, numbers, processes, drain=drain, **first)
                serving.begin(fleet)
                fleet.run()
            else:
                group = ShardGroup(config, opened, member, stop, **first)
                serving.begin(group, group.followed_feeds)
                group.run()
        except CompilationStopped:
            log.info("stopped while compiling kernels, before anything was consumed")


def _check_models(config: Config) -> None:
    """Report a wrong parameter before anything is opened."""
    from consumers.shard.models import build, build_model

    build_model(config)
    for challenger in config.challenger:
        build(challenger)


def _ends(stop: threading.Event) -> bool:
    """Whether to end before anything was opened, which is reported."""
    if stop.is_set():
        log.info("stopped while starting, before anything was consumed")
    return stop.is_set()


def _configured(file: Path) -> Config:
    """The configuration. From here on the log is as it says."""
    from consumers.config import exposed_secrets, load
    from consumers.telemetry.log import configure

    config = load(file)
    configure(config.telemetry.log, config.telemetry.level)
    for line in exposed_secrets(file):
        log.warning("%s", line)
    return config


def _fleet(
    config: Config, stop: threading.Event, numbers: Sequence[int], processes: int, **options: Any
) -> Fleet | ProcessFleet:
    """What runs these shards: threads, or so many processes if that is not 0."""
    from consumers.cluster.fleet import Fleet
    from consumers.cluster.processes import ProcessFleet, spread
    from consumers.config.load import log_of

    if processes:
        return ProcessFleet(config, stop, spread(numbers, processes), **options)
    return Fleet(config, partial(log_of, config), stop, numbers, **options)


def _numbers(text: str | None, config: Config) -> list[int]:
    """The shards to run: those given, or all."""
    from consumers.base.errors import ConfigError

    every = range(config.scale.shards)
    if text is None:
        return list(every)
    named = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) in every for part in named):
        last = len(every) - 1
        expected = f"numbers from 0 to {last}, such as 0,{last}" if last else "0, the only shard"
        raise ConfigError(f"--shards expects {expected} ([scale] shards), got {text!r}")
    return sorted({int(part) for part in named})


def _processes(text: str | None, config: Config, shards: int) -> int:
    """The number of processes for the shards; 0 without the option."""
    if text is None:
        return 0
    from consumers.base.errors import ConfigError
    from consumers.cluster.processes import processors
    from consumers.transports.registry import transport_of

    kind = transport_of(config.input.transport)
    if kind.private:
        raise ConfigError(
            f"--processes needs a log that several processes can write, and {kind.scheme}: is "
            "for one; use kafka: or sqlite:, or leave --processes out"
        )
    if text == "auto":
        return min(shards, len(processors()))
    if not text.isdecimal() or not 1 <= int(text) <= shards:
        more = "; set [scale] shards for more" if config.scale.shards == 1 else ""
        raise ConfigError(
            f"--processes expects auto, or a number from 1 to {shards}, one for each shard, got "
            f"{text!r}{more}"
        )
    return int(text)


def _check_file(file: Path, config: Config, numbers: Sequence[int], new_journal: bool) -> None:
    """Check that the embedded log exists, because opening it would create an empty one.

    Raises
    ------
    ConfigError
        It does not exist; or the service has run before and its log is missing.
    """
    from consumers.commands.transport import check_topics, has_directory, is_absent

    url = config.input.transport
    if is_absent(url) and has_directory(url):  # else opening it reports the error
        if not new_journal:
            _check_snapshots(config, numbers)
        check_topics(config, file, config.input_topics, ())


def _check_topics(
    file: Path, config: Config, transport: Log, numbers: Sequence[int], new_journal: bool
) -> None:
    """Check that the inputs exist, before anything is created; on Kafka all topics.

    Raises
    ------
    ConfigError
        Some do not exist; or the service has run before and its journal is missing too.
    """
    from consumers.commands.transport import check_topics

    there = transport.describe(config.topics.values())
    if config.journal_topic not in there and not new_journal:
        _check_snapshots(config, numbers)
    check_topics(config, file, _needed_topics(config), there)


def _needed_topics(config: Config) -> Collection[str]:
    """The topics that must exist before: its own ones only where an operator makes them."""
    from consumers.transports.registry import transport_of

    makes = transport_of(config.input.transport).creates_topics
    return config.input_topics if makes else config.topics.values()


def prepare_topics(file: Path, config: Config, log: Log) -> None:
    """Check the topics of a service that has not run, and create its own ones.

    Raises
    ------
    ConfigError
        Some do not exist, or their records are not placed by their keys.
    """
    from consumers.commands.transport import check_topics
    from consumers.service.partitioning import check_partitioning

    check_topics(config, file, _needed_topics(config), log.describe(config.topics.values()))
    make_own_topics(config, log)
    check_partitioning(config, log)


def _check_snapshots(config: Config, numbers: Sequence[int]) -> None:
    from consumers.service.journal_end import check_snapshots
    from consumers.snapshots.store import open_store

    for number in numbers:
        check_snapshots(config, number, open_store(config, number))


def _check_journal(config: Config, transport: Log, shard: int, new_journal: bool) -> None:
    """Check that the journal belongs to this service, and is empty only if it has never run;
    before an owner is fenced.

    Raises
    ------
    ConfigError
        It belongs to another configuration, or is lost, or the service continues in another one.
    """
    from consumers.service.journal_end import check_first_start, check_open
    from consumers.service.recovery import sources
    from consumers.snapshots.locate import locate
    from consumers.snapshots.store import open_store

    found, store = sources(config, transport, shard), open_store(config, shard)
    journal = found.journal
    if journal.number >= transport.describe([journal.topic])[journal.topic].partitions:
        return
    known = locate(config, transport, journal, store) is not None
    if known:
        check_open(transport, journal)
    if known and new_journal:
        log.warning("--new-journal has no effect, because %s already exists; remove it", journal)
    elif not known and not new_journal:
        check_first_start(config, transport, shard, found.inputs, store)


@contextmanager
def stopping(stop: threading.Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM set `stop`; a second one ends the process at once.

    A thread reads the signals from a pipe, where the interpreter writes them at once. A handler in
    Python runs only in the main thread, and may come too late for ever: if the signal arrives just
    before the main thread blocks, or in another thread, nothing wakes the main thread.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    ending: list[int] = []

    def handler(number: int, _: object) -> None:
        if number in ending:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    listener = threading.Thread(
        target=_listen, args=(reading, stop, ending), name="signals", daemon=True
    )
    listener.start()
    other = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
        signal.set_wakeup_fd(other)
        os.close(writing)
        listener.join()
        os.close(reading)


def _listen(reading: int, stop: threading.Event, ending: list[int]) -> None:
    """Read the numbers of signals until the pipe is closed."""
    from consumers.telemetry.log import last_words

    while number := int.from_bytes(os.read(reading, 1)):
        if number not in _SIGNALS:
            continue
        if not stop.is_set():
            stop.set()
            continue
        last_words("second signal: ended at once, without a snapshot; a start replays more")
        ending.append(number)
        for _ in range(20):  # its handler ends the process by the signal
            signal.pthread_kill(threading.main_thread().ident or 0, number)
            time.sleep(0.05)
        os._exit(128 + number)  # the main thread is in a long call


def make_own_topics(config: Config, transport: Log) -> None:
    """Create the output topics, on a transport where no operator does."""
    from consumers.transports.registry import transport_of

    if not transport_of(config.input.transport).creates_topics:
        return
    have = transport.topics()
    inputs = have.get(config.input.observations, 1)
    for topic, partitions in (
        (config.predictions_topic, inputs),
        (config.dead_letters_topic, 1),
        *config.own_topics.items(),
    ):
        if topic not in have:
            transport.create_topic(topic, partitions)


@contextmanager
def served(
    config: Config,
    runner: Serving,
    followed: Callable[[], Mapping[int, StatusFeed]] = dict,
) -> Iterator[str | None]:
    """The HTTP server; yields its URL, or None if it is disabled. `followed` returns the models of
    the shards that other processes run."""
    from consumers.api.api import Api
    from consumers.api.process import ServingProcess
    from consumers.api.published import OwnShard, Published
    from consumers.api.routes import handlers, refusal
    from consumers.config.load import log_of
    from consumers.web.access import access_of
    from consumers.web.app import Server, application
    from consumers.web.refusal import as_text

    http, serve = config.http, config.serve
    if not http.enabled:
        yield None
        return
    access = access_of(config)

    opened = partial(log_of, config)

    def models() -> Mapping[int, StatusFeed]:
        running = runner.status_feeds()  # first: a request without a shard gets the first one
        return {**running, **{n: f for n, f in followed().items() if n not in running}}

    def published() -> Mapping[int, Published]:
        return {n: OwnShard(config.name, n, feed) for n, feed in models().items()}

    api = Api(config, published, opened)
    here = serve.enabled and serve.port is None
    app = application(
        runner.registry,
        runner.health,
        name=config.name,
        status_feeds=runner.status_feeds,
        access=access,
        more=handlers(config, api) if here else {},
        respond=refusal if here else as_text,
    )
    server = Server(app, http.host, http.port)
    host, port = server.start()
    if not access.known:
        log.warning(
            "EVERY CLIENT THAT REACHES %s:%d CAN READ ITS METRICS, AND THE %s ON ITS PAGE: [http] "
            "host is not loopback, and there is no password; set [http] web_config, or host "
            "127.0.0.1",
            host,
            port,
            "IDS, LABELS AND PREDICTIONS" if access.predictions else "SCORES AND LABELS",
        )
    scheme = "http" if access.tls is None else "https"
    with ExitStack() as opened_here:
        opened_here.callback(api.close)
        opened_here.callback(server.stop)
        opened_here.callback(api.stop)
        if serve.enabled and serve.port is not None:
            process = ServingProcess(config, models, app.state.page.refused)
            opened_here.callback(process.close)
            log.info("requests are answered on %s://%s:%d", scheme, host, process.port)
        yield f"{scheme}://{host}:{port}"
