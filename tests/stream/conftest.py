"""What the tests of the core share: every learner that is shipped."""

from __future__ import annotations

import pytest

from stream import Learner
from stream.checks.__main__ import shipped


@pytest.fixture(params=shipped(), ids=lambda learner: type(learner).__name__)
def learner(request: pytest.FixtureRequest) -> Learner:
    """Each shipped learner, fresh."""
    return request.param.clone()
