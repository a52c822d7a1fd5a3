"""The API against its own OpenAPI document: generated requests, seeded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import given
from schemathesis.specs.openapi.checks import positive_data_acceptance

from consumers.api.operations import LABEL, OPERATIONS, Operation
from tests.api.generated import generated
from tests.waiting import until
from tests.web.living import living


@pytest.fixture(scope="module")
def described(tmp_path_factory) -> Iterator[Any]:
    """The document of a service that runs."""
    more = '[serve]\ntimeout = "20s"'
    with living(tmp_path_factory.mktemp("fuzzed"), more=more) as service:
        service.send(20)
        until(lambda: service.status_feed.copies.newest is not None)
        yield schemathesis.openapi.from_url(f"{service.url}/openapi.json")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: f"{o.method} {o.path}")
def test_answers_keep_to_the_document(described, operation: Operation) -> None:
    """Status, type and body are declared, whatever is asked; nothing is a server error."""

    @generated(0.1)
    @given(case=described[operation.path][operation.method].as_strategy())
    def ask(case: Any) -> None:
        # The document is older than the first label, which fixes the kind of all labels; and it
        # cannot say that fields which no model has are rejected with `strict` alone.
        more = operation.accepts == LABEL or "strict" in (case.query or {})
        case.call_and_validate(excluded_checks=[positive_data_acceptance] if more else [])

    ask()
