"""A drain names what open transactions of other producers kept from it."""

from __future__ import annotations

import pytest
from consumers.service.gather import hidden

from consumers.base.records import Partition, Uncommitted
from consumers.telemetry.event_logger import EventLogger

HERE = Partition("orders", 0)


class Ends:
    """A log that knows the ends of committed records."""

    def __init__(self, end: int) -> None:
        self.end, self.asked = end, 0

    def end_offsets(self, partitions):
        """The same for all."""
        self.asked += 1
        return dict.fromkeys(partitions, self.end)


@pytest.mark.parametrize(
    ("position", "end", "until", "stable", "expected"),
    [
        (17, 20, 17, 17, {HERE: Uncommitted(17, 3, 0.0)}),
        (16, 20, 17, 17, {HERE: Uncommitted(17, 3, 0.0)}),  # a marker before the open transaction
        (20, 20, 20, 20, {}),
        (17, 20, 17, 20, {}),  # committed since: no part of the drain
    ],
)
def test_only_records_of_open_transactions_are_hidden(
    position, end, until, stable, expected
) -> None:
    """The end of an input counts them, the end of its committed records does not."""
    log = Ends(stable)

    assert hidden(log, {HERE: position}, {HERE: end}, {HERE: until}) == expected
    assert log.asked == (end > position), "no request where everything was read"


def test_log_names_partition_offset_and_count(caplog) -> None:
    """`drained` alone would say that everything was read."""
    EventLogger(lambda: 0.0).unread({HERE: Uncommitted(17, 3, 0.0)})

    assert caplog.messages == [
        "orders[0] was not read from offset 17 on: 3 records wait in transactions that their "
        "producers have not ended; run again when they have"
    ]
