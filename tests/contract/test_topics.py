"""What a log says of its topics: partitions, and an id that no topic of the same name has again."""

from __future__ import annotations

import pytest

from consumers.base.errors import TransportError
from consumers.base.records import Partition
from tests.topics import cut, delete, remake, widen


def test_topic_keeps_its_id_and_another_has_another(log, connect, make_topic, numbered):
    """For every connection, and whatever is written."""
    one, two = make_topic("one"), make_topic("two", 3)
    before = log.describe([one, two, "nobody-made-this"])
    log.append(numbered(one, 5))
    log.create_topic(one, 1)  # it is there: nothing happens
    after = connect().describe([one, two])

    assert before == after
    assert {topic: told.partitions for topic, told in after.items()} == {one: 1, two: 3}
    assert all(told.id for told in after.values())
    assert after[one].id != after[two].id


def test_topic_that_is_made_again_has_another_id(log, connect, make_topic, numbered, values):
    """And nothing of what was in it before."""
    topic = make_topic("again")
    log.append(numbered(topic, 5))
    other = connect()
    before = other.describe([topic])[topic]
    remake(log, topic)
    after = other.describe([topic])[topic]
    log.append(numbered(topic, 2, first=7))

    assert after.id
    assert after.id != before.id
    assert values(connect(), topic) == [b"7", b"8"]


def test_topic_that_was_deleted_is_left_out(log, make_topic):
    """It is no error to ask."""
    topic = make_topic("gone")
    delete(log, topic)

    assert log.describe([topic]) == {}


def test_added_partitions_are_seen_by_whoever_knew_fewer(log, connect, make_topic, numbered):
    """The id stays; they can be written and read by a connection that was there before."""
    topic = make_topic("wider")
    other = connect()
    before = other.describe([topic])[topic]
    widen(log, topic, 3)
    after = other.describe([topic])[topic]
    other.append(numbered(topic, 4, partition=2))
    added = Partition(topic, 2)
    found = [
        v for chunk in other.read({added: 0}, other.end_offsets([added])) for v in chunk.values
    ]

    assert (before.partitions, after.partitions) == (1, 3)
    assert after.id == before.id
    assert found == [b"0", b"1", b"2", b"3"]


# A broker that does as it should never cuts a log: tests/long/elections.py makes one do it.
@pytest.mark.parametrize("log_url", ["memory", "sqlite"], indirect=True)
def test_owner_of_a_topic_that_lost_records_does_not_wait_for_them(log, own, make_topic, numbered):
    """Its position lies beyond the end: it says so, or polls what has grown since."""
    source = Partition(make_topic("in"), 0)
    log.append(numbered(source.topic, 10))
    owner = own(source)
    assert sum(map(len, owner.poll(max_records=10, timeout=5))) == 10
    cut(log, source, 5)

    assert log.end_offsets([source]) == {source: 5}
    assert owner.poll(max_records=10, timeout=0.05) == []
    with pytest.raises(TransportError):
        list(log.read({source: 0}, {source: 10}))
