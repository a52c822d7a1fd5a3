"""A value of a topic that nests without an end is another program's, not the end of a start."""

from __future__ import annotations

from uuid import uuid4

import pytest

from consumers.base.errors import JournalFormatError, TransportError
from consumers.base.records import Outgoing, Partition, Record
from consumers.journal import model_parts, statistics
from consumers.journal import records as journal
from consumers.timetravel.audit import _place
from consumers.transports import open_log
from consumers.transports.kafka.assignor import _read

DEEP = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
TOPIC = Partition("other", 0)


@pytest.fixture
def log():
    """A log with one such value."""
    opened = open_log(f"memory:{uuid4()}")
    opened.create_topic("other", 1)
    opened.append([Outgoing("other", model_parts.PART_KEY, DEEP)])
    yield opened
    opened.close()


def test_journal_names_what_it_cannot_read() -> None:
    """In one line."""
    entry = journal.CommitRecord(
        seq=1, now=1, ranges=[], predictions=0, dead_letters=0, drift={"x": 1}
    )
    value = journal.encode(entry).replace(b'{"x":1}', DEEP)
    with pytest.raises(JournalFormatError, match="expected a journal record"):
        journal.decode(value)


def test_parts_and_statistics_pass_it_over(log) -> None:
    """As other values that they did not write."""
    file = model_parts.stored(b"a model")

    assert statistics.newest(log, TOPIC, 0, 1) is None
    with pytest.raises(TransportError, match="no longer holds"):
        model_parts.joined_parts(log, TOPIC, file, 0, 1)


def test_audit_and_group_pass_it_over() -> None:
    """A prediction, and what a member of the group says, come from anybody."""
    record = Record("other", 0, 0, 0, None, DEEP)

    assert _place(lambda value: value, record) is None
    assert _read(DEEP) == _read(b"")
