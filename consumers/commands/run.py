"""`headwater run`: the service."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from consumers.config import Config
    from consumers.runner import Runner
    from consumers.transports.protocol import Log

__all__ = ["make_own_topics", "run", "served", "stopping"]

log = logging.getLogger("headwater")


def run(
    config: Annotated[Path, typer.Argument(help="The configuration, a TOML file.")],
    drain: Annotated[
        bool, typer.Option("--drain", help="Stop at the present end of the inputs.")
    ] = False,
) -> None:
    """Run the service: predict, learn when labels arrive, commit, publish metrics.

    Ctrl-C or SIGTERM finishes the commit in hand, takes a snapshot and ends with 0.

    Example:

        headwater run phishing.toml
    """
    stop = threading.Event()
    with stopping(stop):
        _serve(config, drain, stop)


def _serve(file: Path, drain: bool, stop: threading.Event) -> None:
    from consumers.config import load
    from consumers.runner import Runner, compile_kernels
    from consumers.telemetry.log import configure
    from consumers.transports import open_log

    config = load(file)
    configure(config.telemetry.log, config.telemetry.level)
    compile_kernels(config, log.info)
    transport = open_log(config.input.transport, kafka=config.kafka)
    try:
        make_own_topics(config, transport)
        _check_journal(config, transport)
        runner = Runner(config, transport, stop, drain=drain)
        with served(config, runner) as address:
            if address:
                log.info("metrics on http://%s/metrics", address)
            runner.run()
    finally:
        transport.close()


def _check_journal(config: Config, transport: Log) -> None:
    """ConfigError for another configuration's journal, before a port says that it is served."""
    from consumers.recovery import identity_in, sources

    journal = sources(config, transport).journal
    identity_in(config, transport, journal, transport.end_offsets([journal])[journal])


@contextmanager
def stopping(stop: threading.Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM set `stop`; a second one ends the process at once."""

    def handler(number: int, _: object) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()

    before = {s: signal.signal(s, handler) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def make_own_topics(config: Config, transport: Log) -> None:
    """Make the topics this service writes, on the embedded log; on Kafka an operator does."""
    if config.input.transport.startswith("kafka:"):
        return
    have = transport.topics()
    inputs = have.get(config.input.observations, 1)
    for topic, partitions in (
        (config.predictions_topic, inputs),
        (config.dead_letters_topic, 1),
        (config.journal_topic, 1),
    ):
        if topic not in have:
            transport.create_topic(topic, partitions)


@contextmanager
def served(config: Config, runner: Runner) -> Iterator[str | None]:
    """The HTTP server beside the loop; yields its address, None where it is switched off."""
    from consumers.web.app import Server, application

    if not config.http.enabled:
        yield None
        return
    app = application(runner.registry, runner.health, name=config.name)
    server = Server(app, config.http.host, config.http.port)
    host, port = server.start()
    try:
        yield f"{host}:{port}"
    finally:
        server.stop()
