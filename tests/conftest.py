"""Fixtures of all tests: the real broker, started when a test first asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


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
