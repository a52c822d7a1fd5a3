"""From the journal to a live shard: the same bits, or one line that says why not."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from consumers.base.errors import ConfigError, JournalLostError, TransportError
from consumers.base.records import Outgoing, Partition, Record
from consumers.journal import reader
from consumers.journal import records as journal
from consumers.journal.records import CommitRecord
from consumers.service import recovery
from consumers.service.recovery import recover, sources
from consumers.snapshots.format import from_bytes, to_bytes
from consumers.snapshots.store import SnapshotStore
from tests.consumers.conftest import FEATURES
from tests.consumers.feeds import NOW, feed, fill, phishing
from tests.stores import the_store
from tests.topics import stay

TOPICS = ("obs", "ans", "svc-predictions", "svc-dead-letters", "svc-journal")


def copied(make_service, of, change=lambda record: record, into=None):
    """The same log once more, ids too, each record passed through `change`; None leaves it out."""
    service = into or make_service()
    for topic in TOPICS:
        service.log.create_topic(topic, of.log.topics()[topic])
        stay(of.log, service.log, topic)
        for record in of.records(topic):
            new = change(record)
            if new is not None:
                _, number, _, ts, key, value, headers = new
                service.log.append([Outgoing(topic, key, value, ts, headers, number)])
    return service


def store_of(service) -> SnapshotStore:
    return the_store(service.directory / "headwater-state", "svc")


def base_of(service) -> SnapshotStore:
    return SnapshotStore(service.directory / "headwater-state" / "svc" / "shard-0")


def recovered(service, store: SnapshotStore | None = None, **changes):
    """The shard by way of a new owner, as a start does."""
    config = service.config(**changes)
    found = sources(config, service.log)
    owner = service.log.owner("svc", 0, found.inputs)
    return recover(config, service.log, owner, found, store or base_of(service), now=NOW)


def test_rebuilt_from_the_journal_is_what_ran(ran) -> None:
    """The last snapshot's state, from entry 0 on, bit for bit (I2)."""
    about, state = next(store_of(ran).newest(lambda _: None))
    live = ran.rebuilt()

    assert live.shard.fingerprint() == state.fingerprint() == about.fingerprint
    assert (live.seq, live.position, live.now) == (about.seq, about.position, about.now)
    assert live.replayed == 600


@pytest.mark.parametrize("index", [0, 1, -1])
def test_every_kept_snapshot_leads_to_the_same_state(ran, index, tmp_path) -> None:
    """However much is replayed after it."""
    data = ran.snapshots()[index].read_bytes()
    store = SnapshotStore(tmp_path / "one")
    store.of(from_bytes(data)[0].identity).write(*from_bytes(data))
    live = recovered(ran, store)

    assert live.shard.fingerprint() == ran.fingerprint()
    assert live.refused == ()
    assert (
        live.replayed
        == 600
        - from_bytes(data)[1].nested("shard").header["positions"][0][2]
        - (from_bytes(data)[1].nested("shard").header["positions"][1][2])
    )


def test_journal_up_to_any_entry_rebuilds_that_moment(ran) -> None:
    """A prefix of the journal is a run that ended there."""
    entries = [journal.decode(r.value) for r in ran.records("svc-journal")]
    for end in (1, 2, 5):
        live = ran.rebuilt(end)
        consumed = sum(r.count for e in entries[1:end] for r in e.ranges)

        assert (live.seq, live.replayed) == (end - 1, consumed)
        assert live.shard.view().predictions == sum(e.predictions for e in entries[1:end])


def test_replay_sees_the_clock_of_each_entry_and_not_its_own(make_service) -> None:
    """Timestamps ahead of the journaled clock are not believed, by a replay neither (I2)."""
    service = make_service()
    fill(service.log, [])
    ahead = [r._replace(timestamp=4 * 10**12 + i) for i, r in enumerate(feed(phishing(40), 5))]
    service.log.append(ahead)
    service.run(max_records=7)
    _, state = next(store_of(service).newest(lambda _: None))

    assert service.fingerprint() == state.fingerprint()


@pytest.mark.parametrize("warm", [False, True])
def test_a_start_reads_the_journal_ahead_once(ran, warm, monkeypatch) -> None:
    """To judge a snapshot by what lies behind it, and to know how much there is to replay."""
    config, original, asked = ran.config(), reader.course, []

    def course(*where):
        asked.append(where)
        return original(*where)

    found = sources(config, ran.log)
    followed = ran.rebuilt(4) if warm else None
    owner = ran.log.owner("svc", 0, found.inputs)
    for room in (reader, recovery):
        monkeypatch.setattr(room, "course", course)
    recover(config, ran.log, owner, found, base_of(ran), now=0, warm=followed)

    assert len(asked) == 1


def test_replay_writes_nothing(ran) -> None:
    """Output is muted: predictions were made once."""
    before = {topic: ran.ends(topic) for topic in TOPICS}
    recovered(ran, SnapshotStore(ran.directory / "none"))

    assert {topic: ran.ends(topic) for topic in TOPICS} == before


def test_snapshot_ahead_of_the_journal_is_refused(ran, make_service) -> None:
    """The log lost its end: a start says so, and what rebuilds the rest does not load it."""
    end = ran.ends("svc-journal")[0]
    shorter = copied(
        make_service, ran, lambda r: None if r.topic == "svc-journal" and r.offset >= 4 else r
    )
    with pytest.raises(ConfigError, match=f"a snapshot contains its records up to position {end}"):
        recovered(shorter, base_of(ran))
    config = shorter.config()
    found = sources(config, shorter.log)
    live = recovery.rebuild(config, shorter.log, found, base_of(ran), end=4)

    assert (live.position, live.seq) == (4, 3)
    assert f"snap-{end:020d}.hws: ahead of the journal, which ends at 4" in live.refused
    assert live.shard.fingerprint() == ran.rebuilt(4).shard.fingerprint()


def test_snapshot_of_another_identity_is_refused(ran) -> None:
    """Same place, other service: passed over, rebuilt from the journal."""
    store = store_of(ran)
    about, state = next(store.newest(lambda _: None))
    store.keep = 1
    store.write(type(about)(**{**asdict(about), "identity": "other"}), state)
    live = recovered(ran)

    assert live.replayed == 600
    assert live.refused == (f"{store.paths()[0].name}: of another service or configuration",)
    assert live.shard.fingerprint() == state.fingerprint()


def asdict(about) -> dict[str, object]:
    return {name: getattr(about, name) for name in about.__struct_fields__}


def test_snapshot_that_does_not_fit_the_model_is_refused(ran) -> None:
    """A whole snapshot of a state that cannot be loaded: the journal has it all."""
    store = store_of(ran)
    about, state = next(store.newest(lambda _: None))
    store.keep = 1
    header = dict(state.header)
    header["machine"] = {**header["machine"], "learner": {"learner": "OtherNB"}}
    store.write(about, replace(state, header=header))
    live = recovered(ran)

    assert (live.replayed, len(live.refused)) == (600, 1)
    assert live.shard.fingerprint() == state.fingerprint()


def test_damaged_snapshots_cost_time_and_nothing_else(ran) -> None:
    """All of them cut short: every record is replayed."""
    for path in ran.snapshots():
        path.write_bytes(path.read_bytes()[:1000])
    live = recovered(ran)

    assert (live.replayed, len(live.refused)) == (600, len(ran.snapshots()))
    assert live.shard.fingerprint() == ran.fingerprint()


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"features": FEATURES[:-1]}, FEATURES[-1]),
        ({"more": "[labels]\nhorizon = '1d'"}, "labels.horizon"),
        ({"more": "[model.parameters]\nvar_smoothing = 0.1"}, "model.parameters.var_smoothing"),
        ({"more": "[scale]\nshards = 1\n[labels]\nmax_pending = 5"}, "labels.max_pending"),
    ],
)
def test_changed_identity_is_one_line_that_names_the_key(ran, changes, key) -> None:
    """What is learned may not change under the same name."""
    with pytest.raises(ConfigError, match="change it back, or give this one a new name") as caught:
        recovered(ran, **changes)
    assert key in str(caught.value)
    assert "\n" not in str(caught.value)


def test_anything_but_the_identity_may_change(ran) -> None:
    """Commits, snapshots, outputs: the state goes on."""
    more = "[output]\ntop = 1\n[telemetry]\nmax_classes = 3"
    live = recovered(ran, max_records=7, every_records=9, more=more)

    assert live.shard.fingerprint() == ran.fingerprint()


def test_missing_topics_are_one_line_with_what_to_do(make_service) -> None:
    """All of them at once."""
    service = make_service()
    service.log.create_topic("obs", 1)

    with pytest.raises(ConfigError, match=r"no topic ans, svc-predictions, .* --create") as caught:
        service.run()
    assert "\n" not in str(caught.value)


def edited(make_service, ran, topic: str, offset: int, **fields):
    """The log of `ran` with one record changed."""

    def change(record: Record) -> Record:
        here = (record.topic, record.offset) == (topic, offset)
        return record._replace(**fields) if here else record

    return copied(make_service, ran, change)


@pytest.mark.parametrize(
    "fields", [{"value": b"{}"}, {"value": None}, {"key": b"other"}, {"timestamp": NOW - 1}]
)
def test_input_that_has_changed_since_stops_the_replay(ran, make_service, fields) -> None:
    """A model that cannot be rebuilt is not guessed."""
    service = edited(make_service, ran, "obs", 17, **fields)

    with pytest.raises(TransportError, match=r"obs\[0\] .* have changed or expired"):
        recovered(service)


def test_journal_with_a_missing_entry_is_refused(ran, make_service) -> None:
    """Somebody trimmed it in the middle."""
    service = copied(
        make_service, ran, lambda r: None if (r.topic, r.offset) == ("svc-journal", 3) else r
    )

    with pytest.raises(JournalLostError, match="after record 2 it jumps to record 4 at position 3"):
        recovered(service)


def test_journal_without_its_identity_is_refused(ran, make_service) -> None:
    """Its beginning is gone, or it is not a journal of ours."""
    service = copied(
        make_service, ran, lambda r: None if (r.topic, r.offset) == ("svc-journal", 0) else r
    )

    with pytest.raises(TransportError, match="does not start with the identity of svc"):
        recovered(service)


def test_journal_of_another_name_is_refused(ran, make_service) -> None:
    """Two services must not share a journal topic."""
    entry = journal.decode(ran.records("svc-journal")[0].value)
    other = msgspec.structs.replace(entry, name="else", born="born")
    service = edited(make_service, ran, "svc-journal", 0, value=journal.encode(other))

    with pytest.raises(ConfigError, match="name: was else, now svc"):
        recovered(service)


def test_partition_added_since_is_consumed_from_its_beginning(ran, make_service) -> None:
    """An operator may grow a topic; the journal goes on."""
    service = make_service()
    service.log.create_topic("obs", 2)
    copied(make_service, ran, into=service)
    value = ran.records("obs")[0].value
    service.log.append([Outgoing("obs", b"k", value, NOW, (), 1)])
    before = recovered(service)
    view = service.run()

    assert before.shard.positions[Partition("obs", 1)] == 0
    assert (before.replayed, view.observations) == (600, 301)
    assert service.rebuilt().shard.positions[Partition("obs", 1)] == 1


def test_partition_that_is_gone_is_one_line(ran, make_service) -> None:
    """A topic deleted and made again smaller: what was learned from it cannot be rebuilt."""
    entry = journal.decode(ran.records("svc-journal")[0].value)
    starts = [*entry.starts, ("obs", 1, 0)]
    wider = msgspec.structs.replace(entry, starts=starts, born="born")
    service = edited(make_service, ran, "svc-journal", 0, value=journal.encode(wider))

    with pytest.raises(TransportError, match=r"obs\[1\] was consumed and no longer exists"):
        recovered(service)


@pytest.mark.parametrize("value", [b'{"hello": 1}', b'{"kind": "identity", "name": "\xff"}'])
def test_foreign_record_in_the_journal_is_refused(ran, make_service, value) -> None:
    """Another program writes to the topic."""
    service = edited(make_service, ran, "svc-journal", 2, value=value)

    with pytest.raises(TransportError, match="expected a journal record"):
        recovered(service)


def test_entries_hold_ranges_and_counts_and_stay_small(ran) -> None:
    """One a commit, its number rising, whatever was in the batch."""
    records = ran.records("svc-journal")
    entries = [journal.decode(r.value) for r in records]

    assert [e.seq for e in entries[1:] if isinstance(e, CommitRecord)] == list(
        range(1, len(entries))
    )
    assert sum(e.predictions for e in entries[1:]) == 300
    # The first names the shape of the outputs, and what the inputs are known by.
    first, *others = zip(entries[1:], (len(r.value) for r in records[1:]), strict=True)
    assert first[1] < 500
    # A fingerprint has 64 digits.
    assert all(size < 300 + 100 * len(e.snapshots) for e, size in others)


def test_snapshot_bytes_hold_the_whole_state(ran) -> None:
    """Written again they are the same: nothing lives beside them."""
    for path in ran.snapshots():
        assert to_bytes(*from_bytes(path.read_bytes())) == path.read_bytes()


def test_snapshot_of_another_journal_of_the_same_name_is_never_taken(make_service) -> None:
    """A log deleted and begun again, or a test run beside production: the journal decides."""
    first = make_service()
    fill(first.log, phishing(300))
    first.run(max_records=50)
    second = make_service()
    fill(second.log, phishing(200))
    second.run(max_records=20, stop_after=3)
    live = recovered(second, base_of(first))

    assert (live.seq, live.snapshot) == (3, None)
    assert live.shard.fingerprint() == second.fingerprint()


def test_replay_that_says_something_else_is_refused(ran, make_service) -> None:
    """One other bit in an entry's chain: the program, its libraries or the processor changed."""
    entry = journal.decode(ran.records("svc-journal")[2].value)
    assert isinstance(entry, CommitRecord)
    wrong = msgspec.structs.replace(entry, chain=f"{int(entry.chain, 16) ^ 1:016x}")
    service = edited(make_service, ran, "svc-journal", 2, value=journal.encode(wrong))

    with pytest.raises(TransportError, match="diverged from the recorded hash at journal record 2"):
        service.rebuilt()
    assert service.rebuilt(2).seq == 1


def test_chain_goes_on_through_a_snapshot(ran) -> None:
    """It is the same from the beginning and from a snapshot: each entry vouches for all before."""
    whole = ran.rebuilt()
    last = journal.decode(ran.records("svc-journal")[-1].value)

    assert isinstance(last, CommitRecord)
    assert whole.chain == last.chain
    assert recovered(ran).chain == last.chain
