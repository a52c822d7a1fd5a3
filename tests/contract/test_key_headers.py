"""A log can return a header as the key of the records of some topics."""

from __future__ import annotations

import pytest

from consumers.base.records import Outgoing, Partition
from consumers.transports import open_log
from tests.waiting import PATIENCE, until


@pytest.fixture
def keyed(log_url: str, make_topic):
    """The log, opened with the header `ce_id` as key of the first of two topics; and the topics."""
    topics = make_topic("in"), make_topic("other")
    log = open_log(log_url, key_headers={topics[0]: "ce_id"})
    yield log, *topics
    log.close()


def test_keys_come_from_the_header(keyed, own, read_all) -> None:
    """By `read` and by `poll`; without header or value, and in other topics, the key stays."""
    log, topic, other = keyed
    named = (("ce_type", b"visit"), ("ce_id", b"e-1"), ("ce_id", b"second"))
    records = [
        Outgoing(topic, b"k", b"1", 10, named, 0),
        Outgoing(topic, b"k", b"2", 10, (("ce_type", b"visit"),), 0),
        Outgoing(topic, None, b"3", 10, (("ce_id", "é".encode()),), 0),
        Outgoing(topic, b"k", None, 10, named, 0),
        Outgoing(topic, None, b"5", 10, (), 0),
    ]
    log.append([*records, records[0]._replace(topic=other)])
    parts = [Partition(topic, 0), Partition(other, 0)]
    expected = {parts[0]: [b"e-1", b"k", "é".encode(), b"k", None], parts[1]: [b"k"]}

    def together(chunks) -> dict[Partition, list[bytes | None]]:
        found: dict[Partition, list[bytes | None]] = {part: [] for part in parts}
        for chunk in chunks:
            found[chunk.partition] += chunk.keys
        return found

    until(lambda: together(read_all(log, parts)) == expected)
    owner, polled = own(*parts, log=log), []
    until(
        lambda: (
            polled.extend(owner.poll(max_records=2, timeout=PATIENCE / 100))
            or sum(map(len, polled)) == 6
        )
    )
    assert together(polled) == expected
