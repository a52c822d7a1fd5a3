"""Subscribers of a runner: each commit once, in order, and what an exception of theirs does."""

from __future__ import annotations

import threading

import pytest

from consumers.base.errors import TransportError
from consumers.service import runner
from consumers.shard.views import Committed, ShardView
from tests.consumers.feeds import fill, phishing


@pytest.fixture
def filled(make_service):
    """A service with 600 records, of which a commit consumes 100 at most."""
    service = make_service()
    fill(service.log, phishing(300))
    return service


def subscribed(service, *subscribers) -> runner.Runner:
    """A runner that drains, with these subscribers."""
    config = service.config(max_records=100)
    return runner.Runner(
        config, service.log, threading.Event(), drain=True, subscribers=subscribers
    )


def journaled(service) -> list[int]:
    """Offset of each journal entry that consumed records."""
    return [r.offset for r in service.records("svc-journal")][1:]


def test_each_subscriber_receives_each_commit_once_and_in_the_order_of_the_list(filled) -> None:
    """A commit reaches every subscriber before the next one reaches any."""
    received: list[tuple[str, int]] = []
    records: list[int] = []

    def first(event: Committed, view: ShardView) -> None:
        received.append(("first", event.position))
        records.append(event.records)
        assert view.records == sum(records)

    def second(event: Committed, view: ShardView) -> None:
        received.append(("second", event.position))

    subscribed(filled, first, second).run()

    positions = journaled(filled)
    assert len(positions) >= 6
    assert sum(records) == 600
    assert received == [(name, at) for at in positions for name in ("first", "second")]


def test_metrics_and_status_page_receive_a_commit_first(filled) -> None:
    """A subscriber sees them as they are after the commit, and the runner's health with them."""
    found: list[tuple[bool, float | None, bool, bool]] = []

    def look(event: Committed, view: ShardView) -> None:
        commits = going.registry.get_sample_value("headwater_commit_seconds_count", {"shard": "0"})
        records = going.registry.get_sample_value("headwater_records_total", {"shard": "0"})
        ready = going.health().ready
        found.append((going.status_feed.view is view, commits, records == view.records, ready))

    going = subscribed(filled, look)
    going.run()

    assert len(found) >= 6
    assert found == [(True, n, True, True) for n in range(1, len(found) + 1)]


def test_an_exception_of_a_subscriber_ends_the_run_after_its_commit(filled) -> None:
    """The commit is in the log; the subscribers after it do not receive it, nor any other."""
    failing: list[int] = []
    received: list[int] = []

    def fail(event: Committed, view: ShardView) -> None:
        failing.append(view.records)
        if len(failing) == 3:
            raise ZeroDivisionError("a fault of the subscriber")

    going = subscribed(filled, fail, lambda event, view: received.append(view.records))
    with pytest.raises(ZeroDivisionError, match="a fault of the subscriber"):
        going.run()

    assert received == failing[:2]
    assert len(journaled(filled)) == 3
    view = going.status_feed.view
    assert view is not None
    assert view.records == failing[2]


def test_a_transport_error_of_a_subscriber_starts_over_and_repeats_no_commit(
    filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subscriber may read the log, whose failures are handled as everywhere in the loop."""
    monkeypatch.setattr(runner, "PAUSE_SECONDS", 0.0)
    before: list[int] = []
    after: list[int] = []

    def failing(event: Committed, view: ShardView) -> None:
        before.append(event.position)
        if len(before) == 3:
            raise TransportError("expected an answer, none came: look at the broker")

    subscribed(filled, failing, lambda event, view: after.append(event.position)).run()

    positions = journaled(filled)
    assert before == positions
    assert after == [p for p in positions if p != positions[2]]
