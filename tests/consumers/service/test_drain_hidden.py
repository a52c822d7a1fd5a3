"""A drain names what open transactions of other producers kept from it."""

from __future__ import annotations

import pytest

from consumers.base.records import Partition, Uncommitted
from consumers.service.pace import hidden
from consumers.telemetry.event_logger import EventLogger

HERE = Partition("orders", 0)


class Ends:
    """A log that knows the ends of committed records, and an owner that knows other ends."""

    def __init__(self, stable: int, end: int, known: dict[Partition, Uncommitted]) -> None:
        self.stable, self.end, self.known, self.asked = stable, end, known, 0

    def end_offsets(self, partitions):
        """The same for all."""
        self.asked += 1
        return dict.fromkeys(partitions, self.stable)

    def ends(self):
        """The newest known one."""
        return {HERE: self.end}

    def uncommitted(self):
        """What the owner found by itself."""
        return self.known


@pytest.mark.parametrize(
    ("position", "end", "stable", "known", "expected"),
    [
        (17, 20, 17, {}, {HERE: Uncommitted(17, 3, 0.0)}),
        (16, 20, 17, {}, {HERE: Uncommitted(17, 3, 0.0)}),  # a marker before the transaction
        (20, 20, 20, {}, {}),
        (17, 20, 20, {}, {}),  # committed since: no part of the drain
        (17, 17, 17, {HERE: Uncommitted(17, 3, 1.5)}, {HERE: Uncommitted(17, 3, 1.5)}),
    ],
)
def test_only_records_of_open_transactions_are_hidden(
    position, end, stable, known, expected
) -> None:
    """The end of an input counts them, the end of its committed records does not."""
    log = Ends(stable, end, known)

    assert hidden(log, log, {HERE: position}) == expected
    assert log.asked == (end > position), "no request where everything was read"


def test_log_names_partition_offset_and_count(caplog) -> None:
    """`drained` alone would say that everything was read."""
    EventLogger(lambda: 0.0).unread({HERE: Uncommitted(17, 3, 0.0)})

    assert caplog.messages == [
        "orders[0] was not read from offset 17 on: 3 records wait in transactions that their "
        "producers have not ended; run again when they have"
    ]
