"""Fixtures of all tests: the real broker, started when a test first asks for it; shared data."""

from __future__ import annotations

import csv
import gc
import gzip
import logging
import os
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from consumers.base import secrets
from consumers.telemetry.log import REPEATS
from consumers.telemetry.pipe import LinesHandler
from consumers.transports.kafka.options import close_abandoned_sockets
from stream.kernel.tiers import VARIABLE
from tests import seed
from tests.suite.plugin import Selection, add_options, check_options

ROOT = Path(__file__).parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--all` and the rest of what `tests/run` knows."""
    add_options(parser)


@pytest.hookimpl(tryfirst=True)  # before the plugin of hypothesis, which takes its seed
def pytest_configure(config: pytest.Config) -> None:
    """Have signals, sockets and hypothesis as the tests expect them."""
    check_options(config)
    everything = config.getoption("--all")
    seed.load_profile("all" if everything else "day")
    if config.option.hypothesis_seed is not None:
        os.environ[seed.VARIABLE] = config.option.hypothesis_seed
    try:
        config.option.hypothesis_seed = str(seed.choose(fresh=everything))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    config.pluginmanager.register(Selection(config))
    os.environ.setdefault(VARIABLE, "compiled")  # in processes of tests too
    # A shell lets what it runs in the background ignore Ctrl-C, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    close_abandoned_sockets()  # or the collector's warning fails whichever test is running


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without the collector of garbage, and have it leave them alone afterwards.

    All that is made here stays: looking through it again and again takes a third of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """Remove the handler that a command leaves: it writes to the output of this test.

    A test may log a line that twenty tests of this process logged before.
    """
    REPEATS._kinds.clear()
    yield
    root = logging.getLogger()
    for handler in [h for h in root.handlers if isinstance(h, LinesHandler)]:
        root.removeHandler(handler)


@pytest.fixture(autouse=True)
def _own_secrets() -> Iterator[None]:
    """Forget the secrets that a test has read: they would be masked in the texts of others."""
    before = set(secrets._known)
    yield
    secrets._known.intersection_update(before)


@pytest.fixture(scope="session")
def kafka_bootstrap() -> Iterator[str]:
    """HOST:PORT of a real Kafka broker; a machine that cannot have one fails, it does not skip."""
    from tests.kafka.broker import BrokerUnavailableError, running_broker

    try:
        with running_broker() as bootstrap:
            yield bootstrap
            return
    except BrokerUnavailableError as error:
        lacking = str(error)
    pytest.fail(lacking, pytrace=False)  # outside, so that the one line stands alone


@pytest.fixture(scope="session")
def shared_csv() -> Callable[[str], list[dict[str, str]]]:
    """A function that reads a CSV of the shared data sets, or skips where they are absent."""

    def read(name: str) -> list[dict[str, str]]:
        folder = Path(os.environ.get("HEADWATER_SHARED", ROOT.parent / "shared"))
        path = folder / "data" / name
        if not path.exists():
            pytest.skip(f"{name} is not there; set HEADWATER_SHARED to the shared data")
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", newline="") as lines:
            return list(csv.DictReader(lines))

    return read
