"""What a standby asks of the log: nothing that grows with the cluster, little while it is quiet."""

from __future__ import annotations

from collections import Counter

import pytest

from consumers import standby
from consumers.standby import Standby
from tests.consumers.feeds import fill, phishing
from tests.waiting import until


class Counting:
    """A log that counts its calls and what they are about."""

    def __init__(self, log) -> None:
        self._log, self.calls, self.asked = log, Counter(), set()

    def __getattr__(self, name: str):
        call = getattr(self._log, name)

        def counted(*args, **kwargs):
            self.calls[name] += 1
            if name == "describe":
                self.asked |= set(args[0])
            return call(*args, **kwargs)

        return counted

    def close(self) -> None:
        """The test closes it."""


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_quiet_standby_asks_where_its_journal_ends_and_nothing_else(
    make_service, monkeypatch, kind
) -> None:
    """A cluster with thousands of topics costs it nothing; what is committed it still follows."""
    monkeypatch.setattr(standby, "LOOK_SECONDS", 0.005)
    service = make_service(kind)
    for n in range(40):
        service.log.create_topic(f"of-others-{n}", 3)
    fill(service.log, phishing(100))
    service.run()
    log = Counting(service.log)
    follower = Standby(service.config(), lambda: log, 0)
    try:
        until(lambda: follower.seq is not None)
        reached, before = follower.seq, Counter(log.calls)
        until(lambda: log.calls["end_offsets"] > before["end_offsets"] + 20)
        quiet = log.calls - before
        fill(service.log, phishing(50))
        service.run()
        until(lambda: (follower.seq or 0) > reached)
    finally:
        follower.close()

    assert quiet.keys() == {"end_offsets"}
    assert log.calls["topics"] == 0
    assert log.asked <= set(service.config().topics.values())
