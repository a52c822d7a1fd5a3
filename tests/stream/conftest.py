"""What the tests of the core share: every learner that is shipped, and the shared data sets."""

from __future__ import annotations

import csv
import gzip
import inspect
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import stream
from stream import Learner

ROOT = Path(__file__).parents[2]


def learners() -> list[Learner]:
    """One of each learner `stream` exports that needs no parameter."""
    out = []
    for name in stream.__all__:
        kind = getattr(stream, name)
        if not (inspect.isclass(kind) and issubclass(kind, Learner)) or inspect.isabstract(kind):
            continue
        parameters = inspect.signature(kind).parameters.values()
        if all(p.default is not p.empty for p in parameters):
            out.append(kind())
    return out


@pytest.fixture(params=learners(), ids=lambda learner: type(learner).__name__)
def learner(request: pytest.FixtureRequest) -> Learner:
    """Each shipped learner, fresh."""
    return request.param.clone()


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
