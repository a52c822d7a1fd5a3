"""What the worlds of this folder share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.weather import CALM
from tests.simulation.world import SMALL, Told, World


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Each failure warns, and there are thousands."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What an undisturbed service writes in a small world."""
    return World(0, tmp_path_factory.mktemp("undisturbed"), **SMALL, chances=CALM).run()
