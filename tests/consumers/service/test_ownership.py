"""A process that nothing arrives for is ready only while the log says that it owns its shard."""

from __future__ import annotations

import threading

from consumers.base.errors import FencedError
from consumers.service import pace
from consumers.service.runner import Runner
from consumers.transports.memory.log import MemoryOwner
from tests.consumers.feeds import fill, phishing
from tests.waiting import PATIENCE, until


def consumed(service) -> int:
    """Observations and labels, by the journal."""
    return sum(r.count for entry in service.entries() for r in entry.ranges)


def test_idle_process_is_not_ready_while_the_log_does_not_say_that_it_owns_the_shard(
    make_service, monkeypatch
) -> None:
    """Another one has taken over, and the broker answers late: both would get requests."""
    monkeypatch.setattr(pace, "CONFIRM_SECONDS", 0.0)
    monkeypatch.setattr(pace, "DOUBT_SECONDS", 0.1)
    service, stop, errors = make_service(), threading.Event(), []
    fill(service.log, phishing(40))
    answered, asked, confirm = threading.Event(), threading.Event(), MemoryOwner.confirm

    def late(owner: MemoryOwner, positions) -> None:
        if "successor" in owners:
            asked.set()
            answered.wait(PATIENCE)
        confirm(owner, positions)

    owners: dict[str, MemoryOwner] = {}
    monkeypatch.setattr(MemoryOwner, "confirm", late)
    runner = Runner(service.config(), service.log, stop)

    def run() -> None:
        try:
            runner.run()
        except FencedError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: consumed(service) == 80 and runner.health().ready)
    owners["successor"] = service.log.owner("svc", 0, [])
    asked.wait(PATIENCE)
    until(lambda: not runner.health().ready)
    health = runner.health()
    answered.set()
    thread.join(PATIENCE)

    assert (health.state, health.alive) == ("starting", True)
    assert "has not confirmed" in health.detail
    assert len(errors) == 1
    assert runner.health().state == "dead"


def test_commit_that_takes_long_is_no_reason_for_doubt() -> None:
    """Records are there, so the process does its work."""
    now = 0.0
    own = pace.Ownership(lambda: now)
    now = 100.0

    assert own.due
    assert own.doubt == ""
    own.idle = True
    assert own.doubt != ""
    own.proven()
    assert (own.due, own.doubt) == (False, "")
