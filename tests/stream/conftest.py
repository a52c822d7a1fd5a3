"""What the tests of the core share: every learner, the textbook's Iris, and large arrays."""

from __future__ import annotations

import pytest

from stream import Learner
from stream.checks.__main__ import shipped
from stream.data import memory


@pytest.fixture(params=shipped(), ids=lambda learner: type(learner).__name__)
def learner(request: pytest.FixtureRequest) -> Learner:
    """Each shipped learner, fresh."""
    return request.param.clone()


@pytest.fixture
def maps(monkeypatch) -> list[int]:
    """The bytes of each mapping that is made."""
    made, plain = [], memory._map

    def noted(size: int):
        made.append(size)
        return plain(size)

    monkeypatch.setattr(memory, "_map", noted)
    return made


@pytest.fixture
def iris(shared_csv):
    """Sepals as the book has them: setosa is c1, the others are c2; UCI's row 38, width 3.1."""
    rows = shared_csv("iris/iris.csv.gz")
    rows[37]["sepal_width"] = "3.1"
    xs = [{"length": float(r["sepal_length"]), "width": float(r["sepal_width"])} for r in rows]
    return xs, ["c1" if r["species"] == "setosa" else "c2" for r in rows]
