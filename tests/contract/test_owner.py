"""What the one owner of a shard may do, and what it may no longer do when there is another."""

from __future__ import annotations

import random
import threading
import time
from itertools import pairwise

import pytest

from consumers.base.errors import FencedError, TransportError
from consumers.base.records import Outgoing, Partition
from consumers.transports.registry import transport_of
from tests.waiting import PATIENCE

BASE = int(time.time() * 1000) - 3_600_000


@pytest.fixture
def source(make_topic):
    """An input of one partition."""
    return Partition(make_topic("in"), 0)


@pytest.fixture
def out(make_topic):
    """An output topic."""
    return make_topic("out")


@pytest.fixture
def journal(make_topic):
    """The journal's topic."""
    return make_topic("journal")


def entry(journal: str, value: bytes = b"entry") -> Outgoing:
    """A journal record."""
    return Outgoing(journal, None, value, partition=0)


def test_poll_yields_each_record_once_in_order(log, own, source, numbered, polled):
    """Over many polls."""
    owner = own(source)
    log.append(numbered(source.topic, 250))

    assert polled(owner, 250) == {source: [b"%d" % number for number in range(250)]}
    assert owner.poll(max_records=10, timeout=0.05) == []


def test_offsets_rise_over_polls_and_address_the_records(log, own, source, numbered):
    """What was polled can be read again by its offset."""
    log.append(numbered(source.topic, 20))
    owner = own(source)
    found = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < 20 and time.monotonic() < deadline:
        for chunk in owner.poll(max_records=3, timeout=0.2):
            found.extend(zip(chunk.offsets, chunk.values, strict=True))

    some = found[::5]
    again = [next(log.read({source: at}, {source: at + 1})).values[0] for at, _ in some]

    assert all(before < after for (before, _), (after, _) in pairwise(found))
    assert again == [value for _, value in some]


@pytest.mark.parametrize("most", [1, 7])
def test_poll_yields_no_more_than_asked(log, own, make_topic, numbered, most):
    """All partitions together."""
    topic = make_topic("in", 3)
    inputs = [Partition(topic, number) for number in range(3)]
    for number in range(3):
        log.append(numbered(topic, 10, partition=number))
    owner = own(*inputs)
    sizes = []
    deadline = time.monotonic() + PATIENCE
    while sum(sizes) < 30 and time.monotonic() < deadline:
        sizes.append(sum(map(len, owner.poll(max_records=most, timeout=0.2))))

    assert sum(sizes) == 30
    assert max(sizes) <= most


def test_poll_starts_at_the_position(log, own, source, numbered, read_all, polled):
    """Records before it are left out."""
    log.append(numbered(source.topic, 5))
    offsets = [offset for chunk in read_all(log, [source]) for offset in chunk.offsets]
    owner = own(source, seek=False)
    owner.seek({source: offsets[3]})

    assert polled(owner, 2) == {source: [b"3", b"4"]}


def test_poll_without_news_is_empty(own, source):
    """After its timeout, not for ever."""
    owner = own(source)

    assert owner.poll(max_records=10, timeout=0.05) == []


def test_poll_sees_what_another_log_writes_while_it_waits(connect, own, source, numbered):
    """One call that waits is woken by the record, long before its timeout."""
    owner = own(source)
    writer = threading.Timer(0.1, connect().append, [numbered(source.topic, 1)])
    writer.start()

    fetched = owner.poll(max_records=10, timeout=PATIENCE)
    writer.join()

    assert [chunk.values for chunk in fetched] == [[b"0"]]


def test_poll_serves_every_input(log, own, make_topic, numbered, polled):
    """Several topics and partitions, each in its own order."""
    observations, labels = make_topic("observations", 2), make_topic("labels")
    inputs = [Partition(observations, 0), Partition(observations, 1), Partition(labels, 0)]
    for partition in inputs:
        log.append(numbered(partition.topic, 40, partition=partition.number))

    found = polled(own(*inputs), 120)

    assert found == {partition: [b"%d" % i for i in range(40)] for partition in inputs}


def test_skipped_input_waits_and_loses_nothing(log, own, make_topic, numbered, polled):
    """Its records come, all of them and once, when it is no longer skipped."""
    topic = make_topic("in", 2)
    full, wanted = Partition(topic, 0), Partition(topic, 1)
    for partition in (full, wanted):
        log.append(numbered(topic, 40, partition=partition.number))
    owner = own(full, wanted)
    found = polled(owner, 10, most=10)
    meanwhile = polled(owner, 40 - len(found.get(wanted, [])), skip=[full])
    quiet = owner.poll(max_records=10, timeout=0.05, skip=[full])
    rest = polled(owner, 40 - len(found.get(full, [])))

    numbers = [b"%d" % number for number in range(40)]
    assert list(meanwhile) == [wanted]
    assert found.get(wanted, []) + meanwhile[wanted] == numbers
    assert quiet == []
    assert found.get(full, []) + rest[full] == numbers


def test_polled_records_keep_key_and_timestamp(log, own, source):
    """And a record without key or value has none."""
    rows = [(b"k", b"v", BASE + 5), (None, None, BASE)]
    log.append([Outgoing(source.topic, *row) for row in rows])
    owner = own(source)
    found = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < 2 and time.monotonic() < deadline:
        for chunk in owner.poll(max_records=10, timeout=0.2):
            found.extend(zip(chunk.keys, chunk.values, chunk.timestamps, strict=True))

    assert found == rows


def test_ends_tell_how_far_each_input_reaches(log, own, make_topic, numbered, polled, eventually):
    """After polling, the ends are the log's."""
    topic = make_topic("in", 2)
    inputs = [Partition(topic, 0), Partition(topic, 1)]
    log.append(numbered(topic, 5))
    log.append(numbered(topic, 3, partition=1))
    owner = own(*inputs)
    polled(owner, 8)

    def ends():
        owner.poll(max_records=1, timeout=0.01)
        return owner.ends()

    expected = log.end_offsets(inputs)
    assert eventually(ends, expected) == expected


def test_commit_shows_outputs_journal_and_positions(
    connect, own, source, out, journal, numbered, values, eventually
):
    """All three are there for another log once it has returned."""
    owner = own(source)
    owner.commit(numbered(out, 3), entry(journal), {source: 42})
    other = connect()

    assert eventually(lambda: values(other, out), [b"0", b"1", b"2"]) == [b"0", b"1", b"2"]
    assert eventually(lambda: values(other, journal), [b"entry"]) == [b"entry"]
    assert other.committed(owner._name, [source]) == {source: 42}


def test_anybody_may_ask_what_a_service_has_committed(connect, own, source, journal, make_topic):
    """Without owning anything, and so without fencing anybody; nothing where nothing is."""
    owner, beside = own(source), Partition(make_topic("in", 1), 0)
    before = connect().committed(owner._name, [source, beside])
    owner.commit([], entry(journal), {source: 42})

    assert before == {}
    assert connect().committed(owner._name, [source, beside]) == {source: 42}
    assert connect().committed("nobody", [source]) == {}
    owner.commit([], entry(journal), {source: 43})


def test_commit_returns_the_offset_of_the_journal_entry(
    log, own, source, out, journal, numbered, values, eventually
):
    """Where the entry can be read; it rises from commit to commit."""
    owner = own(source)
    entries = [b"first", b"second", b"third"]
    offsets = [
        owner.commit(numbered(out, 2), entry(journal, value), {source: 1}) for value in entries
    ]
    eventually(lambda: values(log, journal), entries)
    partition = Partition(journal, 0)

    found = [list(log.read({partition: at}, {partition: at + 1})) for at in offsets]

    assert [chunk.values for (chunk,) in found] == [[value] for value in entries]
    assert all(before < after for before, after in pairwise(offsets))


def test_commit_without_outputs_writes_the_journal(log, own, source, journal, values, eventually):
    """A batch of labels has no prediction."""
    own(source).commit([], entry(journal), {source: 1})

    assert eventually(lambda: values(log, journal), [b"entry"]) == [b"entry"]


def test_committed_records_are_whole(log, own, source, out, journal, eventually, read_all):
    """Key, timestamp and partition as given."""
    own(source).commit([Outgoing(out, b"k", b"v", BASE, (("h", b"1"),))], entry(journal), {})
    partition = Partition(out, 0)
    eventually(lambda: len(read_all(log, [partition])), 1)

    record = next(log.follow(log.beginning_offsets([partition]), poll_seconds=0.01))

    assert record == (out, 0, record.offset, BASE, b"k", b"v", (("h", b"1"),))


def test_reader_never_sees_half_a_commit(connect, own, source, out, journal, numbered, values):
    """While commits of three records go on, the count of records is a multiple of three."""
    owner = own(source)
    reader = connect()
    batches = [numbered(out, 3) for _ in range(20)]

    def work() -> None:
        for number, batch in enumerate(batches):
            owner.commit(batch, entry(journal), {source: number})

    writer = threading.Thread(target=work)
    writer.start()
    counts = [0]
    deadline = time.monotonic() + PATIENCE
    while counts[-1] < 60 and time.monotonic() < deadline:
        counts.append(len(values(reader, out)))
    writer.join()

    assert counts[-1] == 60
    assert {count % 3 for count in counts} == {0}


def test_failed_commit_writes_nothing(
    log, own, unique, source, out, journal, numbered, values, eventually
):
    """An unknown topic in the middle: no output, no entry, no position."""
    owner = own(source)
    owner.commit(numbered(out, 1), entry(journal, b"before"), {source: 1})
    missing = Outgoing(f"{unique}.missing", None, b"x")

    with pytest.raises(TransportError, match="missing"):
        owner.commit([*numbered(out, 3), missing], entry(journal, b"failed"), {source: 2})
    owner.close()
    successor = own(source)
    positions = successor.committed()
    successor.commit(numbered(out, 1, first=9), entry(journal, b"after"), {source: 3})

    assert eventually(lambda: values(log, journal), [b"before", b"after"]) == [b"before", b"after"]
    assert eventually(lambda: values(log, out), [b"0", b"9"]) == [b"0", b"9"]
    assert positions == {source: 1}


def test_owner_that_was_taken_over_commits_nothing_more(
    connect, own, source, out, journal, numbered, values, eventually
):
    """`FencedError`, and neither output nor entry nor position of it is ever seen."""
    old = own(source)
    old.commit(numbered(out, 1), entry(journal, b"old"), {source: 1})
    other = connect()
    new = own(source, log=other)

    with pytest.raises(FencedError) as caught:
        old.commit(numbered(out, 3), entry(journal, b"fenced"), {source: 2})
    positions = new.committed()
    new.commit(numbered(out, 1, first=9), entry(journal, b"new"), {source: 3})

    assert "\n" not in str(caught.value)
    assert positions == {source: 1}
    assert eventually(lambda: values(other, journal), [b"old", b"new"]) == [b"old", b"new"]
    assert eventually(lambda: values(other, out), [b"0", b"9"]) == [b"0", b"9"]


def test_owner_that_never_committed_is_fenced_too(connect, own, source, out, journal, numbered):
    """The new owner need not have committed either."""
    old = own(source)
    own(source, log=connect())

    with pytest.raises(FencedError):
        old.commit(numbered(out, 1), entry(journal), {source: 1})


def test_group_is_what_the_registry_says(log, log_url, unique, journal):
    """`headwater run` shares shards among processes only where the log has groups."""
    member = log.member(unique, journal, 1)
    if member is not None:
        member.close()

    assert (member is not None) == transport_of(log_url).groups


def test_owner_of_another_shard_fences_nobody(
    log, own, make_topic, out, journal, numbered, values, eventually
):
    """Each shard has its own owner."""
    topic = make_topic("in", 2)
    inputs = [Partition(topic, 0), Partition(topic, 1)]
    owners = [own(partition, shard=shard) for shard, partition in enumerate(inputs)]
    for shard, owner in enumerate(owners):
        owner.commit(numbered(out, 1, first=shard), entry(journal), {inputs[shard]: 7 + shard})

    assert eventually(lambda: values(log, out), [b"0", b"1"]) == [b"0", b"1"]
    assert owners[0].committed() == {inputs[0]: 7}


def test_owner_of_another_name_fences_nobody(log, own, unique, source, out, journal, numbered):
    """Nor does it share positions."""
    owner = own(source)
    other = log.owner(f"{unique}-other", 0, [source])
    owner.commit(numbered(out, 1), entry(journal), {source: 1})

    positions = other.committed()
    other.close()

    assert owner.committed() == {source: 1}
    assert positions == {}


def test_new_name_has_no_committed_positions(own, source):
    """Nothing committed is nothing, not zero."""
    assert own(source).committed() == {}


def test_positions_that_did_not_move_are_kept(own, make_topic, journal):
    """A commit says only what moved."""
    topic = make_topic("in", 2)
    first, second = Partition(topic, 0), Partition(topic, 1)
    owner = own(first, second)
    owner.commit([], entry(journal), {first: 1, second: 2})
    owner.commit([], entry(journal), {first: 5})

    assert owner.committed() == {first: 5, second: 2}


def test_successor_goes_on_where_the_predecessor_committed(
    log, own, source, out, journal, numbered, read_all, polled
):
    """Seeking to the committed position yields exactly the rest."""
    log.append(numbered(source.topic, 10))
    offsets = [offset for chunk in read_all(log, [source]) for offset in chunk.offsets]
    predecessor = own(source)
    predecessor.commit(numbered(out, 6), entry(journal), {source: offsets[6]})
    predecessor.close()

    successor = own(source, seek=False)
    successor.seek(successor.committed())

    assert polled(successor, 4) == {source: [b"6", b"7", b"8", b"9"]}


def test_owner_confirms_that_it_owns(log, own, source, journal, numbered):
    """An idle owner may ask, and nothing is moved by it."""
    log.append(numbered(source.topic, 3))
    owner = own(source)
    owner.commit([], entry(journal), {source: 2})

    owner.confirm({source: 2})

    assert owner.committed() == {source: 2}
    assert owner.commit([], entry(journal), {source: 3}) > 0


def test_idle_owner_learns_that_it_was_taken_over(connect, own, source, journal, numbered):
    """Without a record to commit."""
    first = own(source)
    first.commit([], entry(journal), {source: 0})
    own(source)

    with pytest.raises(FencedError):
        first.confirm({source: 0})


def test_failed_owner_learns_whether_it_was_overtaken(connect, own, source, journal):
    """So that it does not take the shard back from whoever went on in its place."""
    first = own(source)
    first.commit([], entry(journal), {source: 0})
    first.close()
    before = first.overtaken()
    second = own(source, log=connect())

    assert (before, first.overtaken(), second.overtaken()) == (False, True, False)
    second.commit([], entry(journal), {source: 1})


def test_log_lets_go_of_owners_that_have_ended(log, own, source) -> None:
    """Each recovery takes a new one: what they hold would grow for ever."""
    for _ in range(3):
        own(source).close()
    own(source)

    assert len(getattr(log, "_owners", [])) <= 1


@pytest.mark.parametrize("most", [1, 700, 5_000])
def test_poll_yields_no_more_bytes_than_asked(log, own, make_topic, most) -> None:
    """Of all inputs together, but for the last record; and none is lost."""
    topic = make_topic("in", 2)
    rng = random.Random(most)
    sizes = [rng.choice([0, 10, 300, 3_000, 40_000]) for _ in range(120)]
    records = [
        Outgoing(topic, b"%d" % i, b"x" * size, partition=i % 2) for i, size in enumerate(sizes)
    ]
    log.append(records)
    owner = own(Partition(topic, 0), Partition(topic, 1))
    found = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < len(records) and time.monotonic() < deadline:
        chunks = owner.poll(max_records=50, timeout=0.2, max_bytes=most)
        if chunks:
            assert sum(chunk.nbytes for chunk in chunks) - chunks[-1].sizes()[-1] < most
        found += [int(key) for chunk in chunks for key in chunk.keys]

    assert sorted(found) == list(range(len(records)))
    for parity in (0, 1):
        assert [i for i in found if i % 2 == parity] == list(range(parity, len(records), 2))


def test_check_of_the_right_to_write_writes_nothing_and_fences_nobody(
    log, connect, own, source, out, journal, values, unique, eventually
):
    """It is asked while a service runs."""
    owner = own(source)
    for _ in range(2):
        connect().check_writable(unique)
    owner.commit([Outgoing(out, None, b"p")], entry(journal), {source: 0})

    assert eventually(lambda: values(log, out), [b"p"]) == [b"p"]
    assert values(log, source.topic) == []


def test_rules_of_transactions_are_those_of_a_broker(log):
    """A log that writes a transaction in one call has none."""
    rules = log.transaction_rules()

    assert rules is None or (rules.version in range(3) and rules.verified >= (rules.version == 2))


def test_settings_of_topics_say_how_long_records_are_kept(log, source):
    """Topics that headwater creates keep their records; a log without retention has no settings."""
    settings = log.topic_settings([source.topic, "nobody-made-this"])

    assert set(settings) <= {source.topic}
    for about in settings.values():
        assert (about.retention_ms, about.retention_bytes, about.compacted) == (-1, -1, False)
        assert about.replicas >= 1
