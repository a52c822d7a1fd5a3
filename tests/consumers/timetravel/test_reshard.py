"""Another number of shards under the same name: learned again from the inputs, nothing lost."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pytest

from consumers.base.errors import ConfigError, FencedError, TransportError
from consumers.base.records import Outgoing, Partition
from consumers.codecs.format import framed
from consumers.codecs.schemas import LARGEST_SCHEMA, StoredSchema
from consumers.commands.past import Past, write_snapshot
from consumers.config import Config
from consumers.journal.reader import entries
from consumers.journal.records import (
    CommitRecord,
    IdentityRecord,
    JournalRecord,
    MovedRecord,
    SchemasRecord,
    written,
)
from consumers.service import runner
from consumers.service.journal_end import check_journal
from consumers.service.recovery import rebuild, recover, sources
from consumers.snapshots.store import open_store
from consumers.timetravel import old_shards, reshard
from consumers.timetravel.audit import Audit, audit
from consumers.timetravel.old_shards import load_old_shards
from consumers.timetravel.relearn import learned_again, swap
from consumers.timetravel.reshard import Move
from consumers.timetravel.rollback import roll_back
from consumers.transports.placement import murmur2
from tests.consumers.arrow_tables import written as written_message
from tests.consumers.feeds import MODEL, NOW, phishing
from tests.consumers.snapshots.test_snapshots_trimmed import Trimmed
from tests.consumers.timetravel.moved import MODELS, ON_DISK, PARTITIONS, Service, fresh, keyed
from tests.seed import seeds
from tests.topics import cut, remake, widen


def dying(service: Service, monkeypatch: pytest.MonkeyPatch, point: str, shards: int) -> None:
    """A move that dies at this point."""

    def dies(name: str) -> None:
        if name == point:
            raise TransportError("it dies here")

    with monkeypatch.context() as patch:
        for module in (old_shards, reshard):
            patch.setattr(module, "reach", dies)
        with pytest.raises(TransportError, match="dies here"):
            service.reshard(shards)


def first_record(service: Service) -> IdentityRecord:
    """Record 0 of the first shard's journal."""
    [(_, found)] = entries(service.log, Partition(service.journal, 0), 0, 1)
    assert isinstance(found, IdentityRecord)
    return found


@pytest.mark.parametrize("model", [*MODELS, ON_DISK])
@seeds(0.005)
def test_moved_service_is_one_that_always_had_these_shards(
    tmp_path_factory, seed: int, model: str
) -> None:
    """Same state, and the same bytes of every later prediction; earlier predictions stay."""
    random, tmp_path = Random(seed), tmp_path_factory.mktemp("moved")
    old, new = random.sample((1, 2, 3, 4, 8), 2)
    service = Service(tmp_path / "svc", random.choice(("memory", "sqlite")), old, model)
    for first in range(0, 240, 80):
        service.log.append(keyed(first, first + 80))
        service.run(random.choice((7, 25, 400)))
    before = service.predictions()

    service.reshard(new)
    other = fresh(tmp_path / "fresh", new, model, 240)
    assert service.prints() == other.prints()
    assert service.predictions() == before, "what was published stays, and nothing is added"
    for each in (service, other):
        each.log.append(keyed(240, 340))
        each.run(random.choice((9, 50)))
    later, expected = service.predictions(), other.predictions()
    assert later.keys() == expected.keys()
    for key in later.keys() - before.keys():
        assert later[key] == expected[key]
    assert {key: later[key] for key in before} == before
    assert service.prints() == other.prints()


def test_records_consumed_during_the_move_are_neither_lost_nor_doubled(tmp_path: Path) -> None:
    """The old service runs until it is fenced: the new shards learn what it has consumed."""
    service = Service(tmp_path / "svc", "sqlite", 2)
    service.log.append(keyed(0, 120))
    service.run()

    def more() -> None:
        service.log.append(keyed(120, 180))
        service.run(9)

    service.reshard(4, more)
    assert len(service.predictions()) == 171, "180 observations, of which 9 cannot be decoded"
    service.log.append(keyed(180, 240))
    service.run()
    assert service.prints() == fresh(tmp_path / "fresh", 4, MODEL, 240).prints()
    assert len(service.predictions()) == 228


def test_timestamps_during_a_long_move_are_not_in_the_future(tmp_path: Path) -> None:
    """A move may take longer than the minute by which a timestamp may be ahead of the clock."""
    service = Service(tmp_path / "svc", "memory", 2)
    service.log.append(keyed(0, 120))
    service.run()
    late = [r._replace(timestamp=r.timestamp + 120_000) for r in keyed(120, 180)]

    def more() -> None:
        service.log.append(late)
        service.run(9)

    service.reshard(4, more)
    other = Service(tmp_path / "fresh", "memory", 4)
    other.log.append(keyed(0, 120) + late)
    other.run()
    assert service.prints() == other.prints()


def test_new_shards_know_the_ids_of_the_topics(tmp_path: Path) -> None:
    """Or a topic that was deleted and made again would be read as the old one."""
    service = Service(tmp_path, "sqlite", 2)
    service.log.append(keyed(0, 40))
    service.run()
    before = first_record(service).topics
    assert before

    service.reshard(1)
    assert first_record(service).topics == before


def test_owner_of_an_old_shard_is_fenced(tmp_path: Path) -> None:
    """It commits nothing after its journal was closed."""
    service = Service(tmp_path / "svc", "memory", 2)
    service.log.append(keyed(0, 60))
    service.run()
    found = sources(service.config(), service.log, 0)
    zombie = service.log.owner("svc", 0, found.inputs)

    service.reshard(4)
    late = Outgoing("svc-journal", b"9", b"{}", NOW, (), 0)
    with pytest.raises(FencedError):
        zombie.commit([], late, dict.fromkeys(found.inputs, 10**6))


def test_start_with_the_old_number_is_refused_before_it_fences_anybody(tmp_path: Path) -> None:
    """Else it would fence the new shard of the same number."""
    service = Service(tmp_path / "svc", "memory", 2)
    service.log.append(keyed(0, 60))
    service.run()
    before = service.shards, service.journal
    service.reshard(4)
    after = service.shards, service.journal
    found = sources(service.config(), service.log, 1)
    owner = service.log.owner("svc", 1, found.inputs)

    service.shards, service.journal = before
    with pytest.raises(ConfigError, match=r"moved to 4 shards, whose journal is svc-journal-4"):
        service.run()
    service.shards, service.journal = after
    owner.confirm({})  # FencedError if it was
    owner.close()
    for command in (rolled_back, promoted):
        service.shards, service.journal = before
        with pytest.raises(ConfigError, match="moved to 4 shards"):
            command(service)


def rolled_back(service: Service) -> None:
    """What `rollback` and `promote` check first."""
    config = service.config()
    found, store = sources(config, service.log, 0), open_store(config, 0)
    check_journal(config, service.log, found.journal, found.inputs, store)


def promoted(service: Service) -> None:
    """A second move of the same shards to another number."""
    with pytest.raises(ConfigError, match="run reshard with --shards 4"):
        service.planned(8)
    rolled_back(service)


def test_half_a_journal_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    """The topic of a journal may have lost its end."""
    service = Service(tmp_path / "svc", "memory", 1)
    service.log.append(keyed(0, 120))
    service.run()
    service.reshard(2)
    half = Partition("svc-journal-2", 1)
    cut(service.log, half, service.log.end_offsets([half])[half] - 1)
    service.shards, service.journal = 1, "svc-journal"
    move = service.planned(2)
    assert move.shard(0).begun
    with pytest.raises(ConfigError, match=r"ends before record \d+: the call .* Delete the topic"):
        move.shard(1)


def test_journal_that_was_begun_otherwise_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has started a new shard with --new-journal before the move was whole."""
    service = Service(tmp_path / "svc", "memory", 1)
    service.log.append(keyed(0, 60))
    service.run()

    dying(service, monkeypatch, "reshard_closed", 2)
    service.shards, service.journal = 2, "svc-journal-2"
    stop, options = threading.Event(), {"drain": True, "new_journal": True}
    runner.Runner(service.config(), service.log, stop, shard=1, **options).run()
    service.shards, service.journal = 1, "svc-journal"
    with pytest.raises(ConfigError, match="by a start with --new-journal"):
        service.reshard(2)


def test_of_two_calls_at_once_one_moves_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second has checked that the journal is open, and then the first closes it."""
    service = Service(tmp_path / "svc", "memory", 1)
    service.log.append(keyed(0, 60))
    service.run()
    service.log.create_topic("svc-journal-8", 8)
    move = service.planned(8)
    new = [move.shard(n) for n in range(8)]
    calls = []

    def checked(*of: object) -> None:
        check_journal(*of)
        calls.append(of)
        if len(calls) == 1:
            service.reshard(4)

    monkeypatch.setattr(old_shards, "check_journal", checked)
    with pytest.raises(ConfigError, match=r"another call of headwater reshard has closed"):
        move.swap(new, NOW, "", lambda done, total: None)
    assert [type(e).__name__ for e in service.journals("svc-journal")[0]].count("MovedRecord") == 1
    assert service.journals("svc-journal-8") == [[]] * 8


def test_call_that_is_late_does_not_fence_the_new_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls continue the same move; the service starts before the second one is done."""
    service = Service(tmp_path / "svc", "memory", 1)
    service.log.append(keyed(0, 60))
    service.run()

    dying(service, monkeypatch, "reshard_closed", 2)
    late = service.planned(2)
    new = [late.shard(n) for n in range(2)]
    for shard in new:
        late.learn(shard, NOW, lambda done, total: None)
    service.reshard(2)
    found = sources(service.config(), service.log, 0)
    owner = service.log.owner("svc", 0, found.inputs)
    with pytest.raises(ConfigError, match="another call has begun the journal"):
        late.swap(new, NOW, "", lambda done, total: None)
    owner.confirm({})  # FencedError if it was
    owner.close()


DEATHS = [
    ("reshard_fenced", 1),
    ("reshard_closed", 1),
    ("reshard_closed", 2),
    ("reshard_closed", 3),
    ("reshard_begun", 1),
    ("reshard_begun", 4),
    ("reshard_begun", 8),
]


@pytest.mark.parametrize(("old", "new"), [(3, 8), (8, 3)])
@pytest.mark.parametrize(("point", "times"), DEATHS)
def test_move_that_dies_is_continued_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, times: int, old: int, new: int
) -> None:
    """Nothing is changed before the first journal is closed; after it, only the move goes on. What
    is still open goes on meanwhile."""
    service = Service(tmp_path / "svc", "sqlite", old)
    service.log.append(keyed(0, 160))
    service.run()
    reached = 0

    def dies(name: str) -> None:
        nonlocal reached
        reached += name == point
        if name == point and reached == times:
            raise TransportError("it dies here")

    with monkeypatch.context() as patch:
        for module in (old_shards, reshard):
            patch.setattr(module, "reach", dies)
        if {"reshard_fenced": 1, "reshard_closed": old, "reshard_begun": new}[point] >= times:
            with pytest.raises(TransportError, match="dies here"):
                service.reshard(new)
    closed = [any(isinstance(e, MovedRecord) for e in of) for of in service.journals("svc-journal")]
    service.log.append(keyed(160, 200))
    if service.shards == old:
        for number, moved in enumerate(closed):
            if moved:
                with pytest.raises(ConfigError, match="run it again first"):
                    service.run_one(number)
            else:
                service.run_one(number)
        service.reshard(new)
    service.run()
    other = fresh(tmp_path / "fresh", new, MODEL, 200)
    assert service.predictions().keys() == other.predictions().keys()
    # An open shard went on, so where it is joined with a closed one, later records came first.
    if point != "reshard_closed" or new > old:
        assert service.prints() == other.prints()


def test_new_number_is_refused_until_the_move_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard whose journal is not written yet must not begin with an empty model."""
    service = Service(tmp_path / "svc", "memory", 2)
    service.log.append(keyed(0, 60))
    service.run()

    dying(service, monkeypatch, "reshard_begun", 4)
    service.shards, service.journal = 4, "svc-journal-4"
    service.run_one(0)
    for number in (1, 2, 3):
        with pytest.raises(ConfigError, match="is empty, but the service has run before"):
            service.run_one(number)


def test_skipped_records_stay_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that killed the process is not processed by the new shard either."""
    poison = {(p, 3) for p in range(PARTITIONS)} | {(2, 5)}

    def pieces(batch, *rest):
        places = [batch.place(i) for i in range(len(batch))]
        skips = [
            (*partition, offset, "crash_poison")
            for partition, offset in places
            if partition.topic == "obs" and (partition.number, offset) in poison
        ]
        yield batch, skips

    with monkeypatch.context() as patch:
        patch.setattr(runner, "pieces", pieces)
        service = Service(tmp_path / "svc", "memory", 2)
        service.log.append(keyed(0, 120))
        service.run()
        other = fresh(tmp_path / "fresh", 4, MODEL, 120)
    service.reshard(4)
    assert service.prints() == other.prints()
    skipped = [e.skips for of in service.journals("svc-journal-4") for e in of if commits(e)]
    assert len([s for skips in skipped for s in skips]) == len(poison)


class Messages(Service):
    """Its observations are messages with rows."""

    def text(self, max_records: int = 25) -> str:
        """At most so many rows in a message."""
        rows = 'format = "arrow"\n[features]'
        return super().text(max_records).replace("[features]", rows, 1)


def test_messages_keep_the_limit_of_rows_under_which_they_were_learned(tmp_path: Path) -> None:
    """[commit] max_records was lowered since: they are no dead letters for the new shards."""
    pa = pytest.importorskip("pyarrow")
    service = Messages(tmp_path, "memory", 2)
    key = next(b"%d" % i for i in range(99) if (murmur2(b"%d" % i) & 0x7FFFFFFF) % PARTITIONS == 3)
    rows = [{"id": str(i), **x} for i, (x, _) in enumerate(phishing(40))]
    message = written_message(pa.Table.from_pylist(rows))
    service.log.append([Outgoing("obs", key, message, NOW, (), 3)])
    service.run(40)
    service.reshard(4)
    assert [live.shard.view().observations for live in service.rebuilt()] == [0, 0, 0, 40]


def test_journal_of_small_commits_becomes_one_of_large_commits(tmp_path: Path) -> None:
    """It is one transaction, which must not take long."""
    service = Service(tmp_path / "svc", "memory", 2)
    service.log.append(keyed(0, 120))
    service.run(1)
    move = Move(load_old_shards(service.config(1), service.log, 1, None))
    shard = move.shard(0)
    move.learn(shard, NOW, lambda done, total: None)
    assert [
        sum(r.count for r in e.ranges) for e in shard.entries if isinstance(e, CommitRecord)
    ] == [240]


def test_schemas_are_journaled_in_records_that_fit_their_topic(tmp_path: Path) -> None:
    """The old shards have journaled them over time, in several records."""
    service = Service(tmp_path / "svc", "memory", 2)
    service.log.append(keyed(0, 60))
    many = enumerate((3, 1, 4, 2, 3))
    service.log.append([Outgoing("obs", b"", framed(i, b""), NOW + at, (), 0) for at, i in many])
    service.run()
    large = StoredSchema("AVRO", " " * LARGEST_SCHEMA, (), "of the test")
    for number, live in enumerate(service.rebuilt()):
        found = sources(service.config(), service.log, number)
        owner = service.log.owner("svc", number, found.inputs)
        for seq, ids in enumerate(([number + 1], [3, 4, 5]), start=live.seq + 1):
            entry = SchemasRecord(seq, live.now, live.chain, [(i, large) for i in ids])
            owner.commit([], written(entry, found.journal, NOW), {})
        owner.close()
    service.reshard(1)
    found = [e for e in service.journals("svc-journal-1")[0] if isinstance(e, SchemasRecord)]
    assert [[i for i, _ in e.schemas] for e in found] == [[3], [1], [4], [2]]
    assert len(service.rebuilt()) == 1


def commits(entry: JournalRecord) -> bool:
    """Whether it consumed records."""
    return isinstance(entry, CommitRecord)


def test_partitions_that_were_added_belong_to_the_new_shards(tmp_path: Path) -> None:
    """They begin where the journal says, in any order with the others."""
    service = Service(tmp_path / "svc", "memory", 1)
    service.log.append(keyed(0, 80))
    service.run()
    for topic in ("obs", "ans"):
        widen(service.log, topic, 2 * PARTITIONS)
    service.log.append(keyed(80, 400, 2 * PARTITIONS))
    service.run()
    before = service.predictions()
    service.reshard(4)
    service.log.append(keyed(400, 440, 2 * PARTITIONS))
    service.run()
    assert service.predictions().items() >= before.items()
    assert len(service.predictions()) == 440 - 22
    assert sum(live.shard.view().observations for live in service.rebuilt()) == 440


@pytest.mark.parametrize("shards", [3, 8])
def test_snapshot_of_the_move_is_where_the_next_start_continues(
    tmp_path: Path, shards: int
) -> None:
    """Nothing is replayed, and the snapshots of the old shards are not used."""
    service = Service(tmp_path / "svc", "sqlite", 2)
    service.log.append(keyed(0, 120))
    service.run()
    new = service.reshard(shards)
    for number, shard in enumerate(new):
        store = open_store(service.config(), number)
        past = Past(service.config(), service.log, shard.found, store, lambda done, total: None)
        assert write_snapshot(past, shard.live).endswith(".hws")
        found = sources(service.config(), service.log, number)
        owner = service.log.owner("svc", number, found.inputs)
        live = recover(service.config(), service.log, owner, found, store, now=NOW)
        owner.close()
        assert (live.replayed, live.refused) == (0, ())
        assert live.shard.fingerprint() == shard.live.shard.fingerprint()


def test_relearned_service_moves_with_its_present_settings(tmp_path: Path) -> None:
    """The new journal begins with them."""
    service = Service(tmp_path / "svc", "memory", 2)
    service.log.append(keyed(0, 120))
    service.run()
    service.model = MODELS[1]
    ready = []
    for number in range(2):
        found = sources(service.config(), service.log, number)
        store = open_store(service.config(), number)
        ready.append(learned_again(service.config(), service.log, found, store))
    swap(service.config(), service.log, ready, now=NOW, reason="")
    service.reshard(4)
    service.log.append(keyed(120, 160))
    service.run()
    assert service.prints() == fresh(tmp_path / "fresh", 4, MODELS[1], 160).prints()


def test_prediction_of_the_old_shards_is_audited_with_their_configuration(tmp_path: Path) -> None:
    """The new journal says where it was made; a later prediction is repeated."""
    service = Service(tmp_path / "svc", "sqlite", 2)
    service.log.append(keyed(0, 60))
    service.run()
    old = service.config()
    service.reshard(4)
    service.log.append(keyed(60, 100))
    service.run()
    assert audited(service, old, "7", 2).same
    assert audited(service, service.config(), "77", 4).same
    with pytest.raises(ConfigError, match=r"by one of 2 shards, whose journal is svc-journal: use"):
        audited(service, service.config(), "7", 4)


def audited(service: Service, config: Config, id_: str, shards: int) -> Audit:
    """The prediction of an id, by the shard that owns it."""
    number = (murmur2(id_.encode()) & 0x7FFFFFFF) % PARTITIONS % shards
    found, store = sources(config, service.log, number), open_store(config, number)
    return audit(config, service.log, found, store, id_)


def rollback(service: Service) -> None:
    config, found = service.config(), sources(service.config(), service.log, 0)
    live = rebuild(config, service.log, found, None, end=2)
    owner = service.log.owner("svc", 0, found.inputs)
    roll_back(service.log, owner, found, live, now=NOW, reason="")
    owner.close()


def remade(service: Service) -> None:
    remake(service.log, "obs", PARTITIONS)
    service.log.append(keyed(0, 20))
    found = sources(service.config(), service.log, 0)
    owner = service.log.owner("svc", 0, found.inputs)
    store = open_store(service.config(), 0)
    recover(service.config(), service.log, owner, found, store, now=NOW, decision="new")
    owner.close()


def silent(service: Service) -> None:
    service.more = "[labels]\nsilence = false\nafter = '1h'\n"


def narrow(service: Service) -> None:
    """More shards than partitions."""
    service.wanted = 2 * PARTITIONS


def other_topic(service: Service) -> None:
    service.log.create_topic("elsewhere", 3)
    service.topic = "elsewhere"


def filled_topic(service: Service) -> None:
    service.topic = "obs"


REFUSED = [
    (rollback, "is a rollback"),
    (remade, "was recreated or removed at journal record"),
    (narrow, r"is more than the 8 partitions of"),
    (other_topic, "needs 4 partitions and has 3; give another one with --journal"),
    (lambda service: setattr(service, "wanted", 2), "already has .scale. shards = 2"),
    (lambda service: setattr(service, "journal", "nothing-yet"), "is empty: run the service first"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_what_cannot_be_moved_is_refused_and_nothing_is_changed(
    tmp_path: Path, change, message: str
) -> None:
    """With one sentence that says what to do."""
    service = Service(tmp_path / "svc", "memory", 2)
    service.log.append(keyed(0, 60))
    service.run()
    service.log.create_topic("nothing-yet", 2)
    change(service)
    before = service.values("svc-journal")
    with pytest.raises(ConfigError, match=message):
        service.planned(service.wanted, service.topic)
    assert service.values("svc-journal") == before


def test_expired_records_are_refused(tmp_path: Path) -> None:
    """The inputs have lost a record that a new shard would have to learn."""
    service = Service(tmp_path / "svc", "memory", 2)
    service.log.append(keyed(0, 60))
    service.run()
    lost = Partition("obs", 5)
    service.log = Trimmed(service.log, {lost: 2})
    with pytest.raises(ConfigError, match=r"obs\[5\] has lost its records 0 to 1, which the new"):
        service.planned(4)
