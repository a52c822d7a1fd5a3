"""An input that is not the log that was consumed is never read on in silence; what grew is read."""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from consumers.base.errors import ConfigError, InputChangedError, TransportError
from consumers.base.records import Outgoing, Partition
from consumers.cluster.standby import Follower
from consumers.journal import records as journal
from consumers.journal.records import CommitRecord, IdentityRecord, InputsRecord
from consumers.service import inputs, recovery
from consumers.service.inputs import LogWatch
from consumers.service.live import LiveShard
from consumers.service.recovery import recover, sources
from consumers.service.runner import Runner
from consumers.snapshots.format import from_bytes, to_bytes
from consumers.snapshots.store import SnapshotStore
from consumers.transports.placement import murmur2
from tests.consumers.conftest import Service
from tests.consumers.feeds import NOW, fill, phishing
from tests.topics import cut, delete, remake, widen
from tests.waiting import PATIENCE, until

OBS, ANS = Partition("obs", 0), Partition("ans", 0)
KINDS = ["memory", "sqlite"]


def observations(first: int, count: int, partition: int = 0) -> list[Outgoing]:
    """Observations with ids of their own."""
    have = phishing()
    return [
        Outgoing(
            "obs", b"n%d" % i, msgspec.json.encode({"id": f"n{i}", **x}), NOW + i, (), partition
        )
        for i in range(first, first + count)
        for x, _ in [have[i % len(have)]]
    ]


@pytest.fixture(params=KINDS)
def stopped(request, make_service) -> Service:
    """A service that consumed 300 observations and labels, and stopped with a snapshot."""
    service = make_service(request.param)
    fill(service.log, phishing(300))
    service.run(max_records=100)
    return service


def run(service: Service, decision=None, **changes):
    """One run to the end of the inputs."""
    config = service.config(**changes)
    stop = threading.Event()
    return Runner(config, service.log, stop, drain=True, decision=decision).run()


def keys(service: Service, since: int = 0) -> Counter[bytes | None]:
    """Of predictions."""
    return Counter(r.key for r in service.records("svc-predictions")[since:])


def consumed(service: Service) -> int:
    """How many records are journaled."""
    entries = [journal.decode(r.value) for r in service.records("svc-journal")]
    return sum(r.count for e in entries if isinstance(e, CommitRecord) for r in e.ranges)


def kinds(service: Service) -> list[str]:
    """Of journal records."""
    entries = [journal.decode(r.value) for r in service.records("svc-journal")]
    return [type(e).__name__ for e in entries]


def test_topic_that_was_made_again_ends_the_start_and_says_what_to_do(stopped) -> None:
    """Its first 300 records would have been passed over: 1,000 of 3,000 were, with exit 0."""
    remake(stopped.log, "obs")
    stopped.log.append(observations(0, 700))

    with pytest.raises(InputChangedError, match=r"obs has id .*--accept-new-topic.*--same-topic"):
        run(stopped)
    assert keys(stopped).total() == 300


def test_accepted_new_topic_is_read_from_its_first_record(stopped) -> None:
    """Every record of it is predicted once, and a start after that needs no word more."""
    remake(stopped.log, "obs")
    stopped.log.append(observations(0, 700))
    view = run(stopped, "new")

    assert view.observations == 1000
    assert keys(stopped, 300) == Counter(b"n%d" % i for i in range(700))
    assert kinds(stopped).count("InputsRecord") == 1
    stopped.log.append(observations(700, 5))
    assert run(stopped).observations == 1005


def test_replay_passes_where_a_topic_began_again(stopped) -> None:
    """From every snapshot that is left: the same bits as the service that ran."""
    remake(stopped.log, "obs")
    stopped.log.append(observations(0, 300))
    ran = run(stopped, "new", every_records=10**6)
    store = SnapshotStore(stopped.directory / "headwater-state" / "svc" / "shard-0")
    paths = stopped.snapshots()
    assert len(paths) >= 2
    paths[-1].unlink()  # what is left was taken before the topic began again
    found = sources(stopped.config(), stopped.log)
    owner = stopped.log.owner("svc", 0, found.inputs)
    live = recover(stopped.config(), stopped.log, owner, found, store, now=NOW)

    assert live.replayed >= 300
    assert live.shard.view().observations == ran.observations == 600


def test_history_of_before_a_topic_began_again_is_not_replayed_from_the_new_one(stopped) -> None:
    """Without a snapshot the model is lost, and that is said."""
    remake(stopped.log, "obs")
    stopped.log.append(observations(0, 700))
    run(stopped, "new")

    with pytest.raises(TransportError, match=r"obs\[0\] restarted at journal record"):
        stopped.rebuilt()


def test_same_topic_goes_on_where_the_records_are_the_same(stopped) -> None:
    """A restored or mirrored cluster: another id, the same records, and more."""
    kept = [
        Outgoing(r.topic, r.key, r.value, r.timestamp, (), r.partition)
        for r in stopped.records("obs")
    ]
    remake(stopped.log, "obs")
    stopped.log.append([*kept, *observations(300, 50)])
    view = run(stopped, "same")

    assert view.observations == 350
    assert keys(stopped, 300) == Counter(b"n%d" % i for i in range(300, 350))
    assert run(stopped).observations == 350


def test_same_topic_is_refused_where_the_records_are_others(stopped) -> None:
    """Whoever says so is mistaken."""
    remake(stopped.log, "obs")
    stopped.log.append(observations(0, 700))

    with pytest.raises(InputChangedError, match="--same-topic expects the consumed records"):
        run(stopped, "same")


@pytest.mark.parametrize("regrown", [0, 20, 400])
def test_topic_that_lost_records_ends_the_start_however_it_grew_since(stopped, regrown) -> None:
    """The id is the same; what was consumed last is not there, or is something else."""
    cut(stopped.log, OBS, 290)
    stopped.log.append(observations(1000, regrown))
    what = "ends at" if regrown < 10 else "has other records"

    with pytest.raises(InputChangedError, match=rf"obs\[0\] {what}"):
        run(stopped)
    assert keys(stopped).total() == 300


def test_only_the_partition_that_lost_records_begins_again(make_service) -> None:
    """The other one goes on where it stood."""
    service = make_service()
    fill(service.log, phishing(100), partitions=2)
    service.run()
    before = service.ends("obs")
    cut(service.log, Partition("obs", 1), before[1] - 1)
    service.log.append(observations(500, 3, partition=1))
    run(service, "new")
    entries = [journal.decode(r.value) for r in service.records("svc-journal")]

    assert [e.starts for e in entries if isinstance(e, InputsRecord)] == [[("obs", 1, 0)]]
    assert keys(service).total() == 100 + before[1] - 1 + 3


def test_journal_without_ids_takes_them_over_at_its_next_start(stopped) -> None:
    """And knows the last records of its inputs by the entry they are in."""
    records = stopped.records("svc-journal")
    delete(stopped.log, "svc-journal")
    stopped.log.create_topic("svc-journal", 1)
    for r in records:  # as on a log without ids
        entry = journal.decode(r.value)
        if isinstance(entry, IdentityRecord | CommitRecord):
            entry = msgspec.structs.replace(entry, topics={})
        stopped.log.append([Outgoing("svc-journal", r.key, journal.encode(entry), r.timestamp)])
    old = journal.decode(stopped.records("svc-journal")[0].value)
    assert isinstance(old, IdentityRecord)
    _without_tails(stopped, identity=journal.mark_of(old), entry=old)
    stopped.log.append(observations(300, 10))
    run(stopped)
    last = journal.decode(stopped.records("svc-journal")[-1].value)

    assert last.topics == {t: made.id for t, made in stopped.log.describe(["obs", "ans"]).items()}
    remake(stopped.log, "obs")
    with pytest.raises(InputChangedError):
        run(stopped)


def _without_tails(service: Service, **others) -> None:
    """Snapshots as on a log without ids."""
    for path in service.snapshots():
        about, state = from_bytes(path.read_bytes())
        about = msgspec.structs.replace(about, topics={}, tails=[], **others)
        path.write_bytes(to_bytes(about, state))


def test_decision_that_is_not_needed_changes_nothing(stopped, caplog) -> None:
    """An operator who left the option in the command line."""
    before = kinds(stopped)
    with caplog.at_level(logging.INFO, "headwater"):
        run(stopped, "new")

    assert kinds(stopped) == before
    assert "no input has changed: --accept-new-topic changes nothing" in caplog.text


def test_model_that_is_in_no_snapshot_does_not_begin_a_topic_again(stopped, monkeypatch) -> None:
    """It could not be rebuilt at the start after."""
    monkeypatch.setattr("consumers.shard.shard.Shard.unsaved", ["X"])
    remake(stopped.log, "obs")

    with pytest.raises(ConfigError, match="X is not saved in snapshots"):
        run(stopped, "new")


class Running:
    """A service that runs in a thread."""

    def __init__(self, service: Service, **changes) -> None:
        self.service, self.stop, self.error = service, threading.Event(), None
        self.runner = Runner(service.config(**changes), service.log, self.stop)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.runner.run()
        except Exception as error:
            self.error = error

    def until(self, condition) -> None:
        """Wait for something to hold, as long as it runs; what it did before it ended counts."""

        def holds() -> bool:
            runs = self.thread.is_alive()
            held = condition()
            assert held or runs, self.error
            return held

        until(holds)

    def ended(self):
        """What it ended with, by itself."""
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        return self.error


@pytest.fixture
def running(make_service):
    """A service in memory that has consumed 40 observations, with their labels, and runs."""
    service = make_service()
    fill(service.log, phishing(40))
    ran = Running(service)
    ran.until(lambda: consumed(service) == 80)
    yield ran
    ran.stop.set()
    ran.thread.join(PATIENCE)


def test_topic_made_again_under_a_running_service_ends_it_before_another_prediction(
    running, monkeypatch
) -> None:
    """However far it has grown by then; and the state is kept, for its records are gone."""
    service = running.service
    monkeypatch.setattr(inputs, "LOOK_SECONDS", 0.0)  # here it grows in no time
    monkeypatch.setattr(inputs, "SHARE", 0)
    with service.log._store.changed:
        running.stop.wait(0.1)
        del service.log._store.topics["obs"]
        service.log._store.topics["obs"] = [[]]
        service.log._store.ids["obs"] = "another"
        service.log._store.write(observations(0, 100), NOW)
    error = running.ended()

    assert isinstance(error, InputChangedError)
    assert "was deleted and recreated while it was consumed" in str(error)
    assert running.runner.health().state == "dead"
    assert keys(service).total() == 40
    assert run(service, "new").observations == 140


def test_topic_that_is_deleted_under_a_running_service_ends_it(running) -> None:
    """It is asked twice before it is believed."""
    service = running.service
    delete(service.log, "obs")
    running.thread.join(PATIENCE)

    assert isinstance(running.error, InputChangedError | ConfigError | TransportError)
    assert service.snapshots()


def test_partitions_added_to_a_running_service_are_read_from_their_beginning(running) -> None:
    """Without a restart, and journaled before their first record."""
    service = running.service
    widen(service.log, "obs", 3)
    service.log.append(observations(100, 5, partition=2))
    running.until(lambda: keys(service).total() == 45)
    running.stop.set()
    running.thread.join(PATIENCE)

    assert running.error is None
    entries = [journal.decode(r.value) for r in service.records("svc-journal")]
    assert [e.starts for e in entries if isinstance(e, InputsRecord)] == [
        [("obs", 1, 0), ("obs", 2, 0)]
    ]
    assert service.rebuilt().shard.view().observations == 45


def test_model_is_kept_where_a_topic_goes_right_after_partitions_were_added(running) -> None:
    """What is handed over to the next owner is in no snapshot yet, and can be replayed no more."""
    service = running.service
    widen(service.log, "obs", 2)
    running.until(lambda: kinds(service)[-1] == "InputsRecord")
    remake(service.log, "obs", 2)

    assert isinstance(running.ended(), InputChangedError)
    service.log.append(observations(0, 10))
    assert run(service, "new").observations == 50


def test_model_is_kept_where_the_log_fails_while_nothing_is_in_hand(running, monkeypatch) -> None:
    """A broker that goes may come back without what was consumed: an idle owner finds out first
    when it confirms its ownership."""
    service = running.service
    assert service.snapshots() == []

    def lost(self, positions):
        raise TransportError("the coordinator is away")

    monkeypatch.setattr("consumers.service.pace.CONFIRM_SECONDS", 0.0)
    monkeypatch.setattr("consumers.transports.memory.log.MemoryOwner.confirm", lost)
    running.until(lambda: len(service.snapshots()) == 1)
    monkeypatch.undo()


def test_standby_that_took_over_keeps_what_it_followed(make_service) -> None:
    """Its host has no snapshot of it; the next start there would replay everything."""
    service = make_service()
    fill(service.log, phishing(40))
    service.run()
    for path in service.snapshots():
        path.unlink()
    warm = service.rebuilt()
    Runner(service.config(), service.log, threading.Event(), drain=True, warm=lambda: warm).run()

    assert len(service.snapshots()) == 1


def test_standby_follows_what_was_added_and_takes_it_over(make_service) -> None:
    """It used to die of a KeyError, for good."""
    service = make_service()
    fill(service.log, phishing(40))
    ran = Running(service)
    ran.until(lambda: keys(service).total() == 40)
    follower = Follower(service.config(), lambda: service.log)
    standby = follower.follow(0)
    service.log.close = lambda: None
    ran.until(lambda: standby.seq is not None)
    widen(service.log, "obs", 2)
    service.log.append(observations(100, 5, partition=1))
    ran.until(lambda: keys(service).total() == 45)
    last = journal.decode(service.records("svc-journal")[-1].value).seq
    ran.until(lambda: standby.seq == last)
    ran.stop.set()
    ran.thread.join(PATIENCE)
    widen(service.log, "obs", 3)  # what nobody has journaled yet
    service.log.append(observations(200, 5, partition=2))
    warm = standby.release()
    follower.close()
    Runner(service.config(), service.log, threading.Event(), drain=True, warm=lambda: warm).run()

    assert keys(service).total() == 50
    assert service.rebuilt().shard.view().observations == 50


SHARDED = """
[scale]
shards = 2
"""


@pytest.fixture
def sharded(make_service) -> Service:
    """A service of two shards, its inputs of two partitions each and empty."""
    service = make_service()
    for topic in ("obs", "ans", "svc-predictions", "svc-dead-letters", "svc-journal"):
        service.log.create_topic(topic, 2)
    return service


def test_shards_do_not_read_partitions_where_labels_would_miss_them(sharded, monkeypatch) -> None:
    """One line, a metric, not ready; and read once both topics have as many."""
    monkeypatch.setattr(inputs, "OBJECT_SECONDS", 0.2)
    service, warned = sharded, []
    monkeypatch.setattr(
        "consumers.service.runner.log.warning", lambda line, *of: warned.append(line % of)
    )
    ran = Running(service, more=SHARDED)
    ran.until(lambda: ran.runner.health().state == "live")
    widen(service.log, "obs", 4)
    ran.until(lambda: ran.runner.health().state == "degraded")

    def unread() -> float | None:
        return ran.runner.registry.get_sample_value("headwater_unread_partitions", {"shard": "0"})

    assert unread() == 1
    assert not ran.runner.health().ready
    assert ["were added and are not read" in line for line in warned] == [True]
    widen(service.log, "ans", 4)
    ran.until(lambda: ran.runner.health().state == "live" and unread() == 0)
    ran.stop.set()
    ran.thread.join(PATIENCE)
    entries = [journal.decode(r.value) for r in service.records("svc-journal")]

    assert ran.error is None
    assert [e.starts for e in entries if isinstance(e, InputsRecord)] == [
        [("ans", 2, 0), ("obs", 2, 0)]
    ]


def test_failure_of_the_log_does_not_end_shards_with_unread_partitions(
    sharded, monkeypatch
) -> None:
    """It starts over with the partitions it had, and reads the others once it may."""
    monkeypatch.setattr(inputs, "OBJECT_SECONDS", 0.2)
    ran = Running(sharded, more=SHARDED)
    ran.until(lambda: ran.runner.health().state == "live")
    widen(sharded.log, "obs", 4)
    ran.until(lambda: ran.runner.health().state == "degraded")

    def lost(*_, **__) -> int:
        raise TransportError("the coordinator is away")

    monkeypatch.setattr(ran.runner._owner, "commit", lost)
    placed = [(i, murmur2(b"n%d" % i) % 4) for i in range(60)]
    sent = [o for i, part in placed if part in (0, 2) for o in observations(i, 1, part)]
    sharded.log.append(sent)
    ran.until(lambda: keys(sharded).total() == sum(o.partition == 0 for o in sent))
    ran.until(lambda: ran.runner.health().state == "degraded")
    widen(sharded.log, "ans", 4)
    ran.until(lambda: keys(sharded).total() == len(sent) and ran.runner.health().state == "live")
    ran.stop.set()
    ran.thread.join(PATIENCE)

    assert ran.error is None
    assert keys(sharded) == Counter(o.key for o in sent)


def test_start_with_partitions_that_shards_do_not_allow_is_refused(sharded) -> None:
    """Also the start of a standby that takes over, which no command checks."""
    run(sharded, more=SHARDED)
    widen(sharded.log, "obs", 4)

    with pytest.raises(ConfigError, match="needs inputs with equal numbers of partitions"):
        run(sharded, more=SHARDED)


class Elected:
    """A log after the election of another leader."""

    def __init__(self, log, epoch: int = 0) -> None:
        self._log, self.epoch = log, epoch

    def __getattr__(self, name):
        return getattr(self._log, name)

    def describe(self, topics):
        return {
            topic: told._replace(epochs=(self.epoch,) * told.partitions)
            for topic, told in self._log.describe(topics).items()
        }


def ran_once(make_service) -> Service:
    """A service that has consumed 60 observations and their labels."""
    service = make_service()
    fill(service.log, phishing(60))
    service.run()
    return service


def looking(service: Service, clock: Callable[[], float]) -> tuple[Elected, LiveShard, LogWatch]:
    """The log, whose leaders may be elected; the shard as a start finds it; what looks at it."""
    config, log = service.config(), Elected(service.log)
    found = sources(config, log)
    owner = service.log.owner("svc", 0, found.inputs)
    store = SnapshotStore(service.directory / "headwater-state" / "svc" / "shard-0")
    live = recover(config, log, owner, found, store, now=NOW)
    return log, live, LogWatch(config, log, found, live, clock)


@pytest.mark.parametrize(("lost", "regrown"), [(0, 50), (1, 0), (1, 1), (1, 500)])
def test_records_are_read_again_after_the_election_of_a_leader(make_service, lost, regrown) -> None:
    """An unclean one: the new leader lacks what was consumed, or has something else there."""
    service = ran_once(make_service)
    log, live, watch = looking(service, lambda: 0.0)
    cut(service.log, OBS, 60 - lost)
    service.log.append(observations(100, regrown))
    assert not watch.look(live)  # nothing was elected: what was consumed is not read again
    log.epoch = 1

    if lost:
        with pytest.raises(
            InputChangedError, match=r"obs\[0\] .* its new leader has lost consumed"
        ):
            watch.look(live)
    else:
        assert not watch.look(live)


def test_comparison_that_takes_its_time_makes_no_look_newer(make_service, monkeypatch) -> None:
    """The log may be made again meanwhile: records read then are not committed without a look."""
    now = [0.0]
    log, live, watch = looking(ran_once(make_service), lambda: now[0])
    compared = inputs.changed

    def slowly(*given):
        now[0] += 0.5
        return compared(*given)

    monkeypatch.setattr(inputs, "changed", slowly)
    log.epoch = 1
    watch.look(live)

    assert watch.due(idle=False)


def test_election_between_the_comparison_of_a_start_and_the_first_look_is_seen(
    make_service, monkeypatch
) -> None:
    """What was consumed was compared before it, so it is compared once more; and kept."""
    service = make_service()
    fill(service.log, phishing(60))
    service.run()
    for path in service.snapshots():
        path.unlink()
    log = Elected(service.log)
    adopt = recovery.adopt

    def elected(*given) -> None:
        adopt(*given)
        cut(service.log, OBS, 55)
        service.log.append(observations(100, 20))
        log.epoch = 1

    monkeypatch.setattr(recovery, "adopt", elected)

    with pytest.raises(InputChangedError, match=r"obs\[0\] .* its new leader has lost consumed"):
        Runner(service.config(), log, threading.Event(), drain=True).run()
    assert keys(service).total() == 60
    assert len(service.snapshots()) == 1


def test_journal_says_what_an_input_is_once(stopped) -> None:
    """Ids cost a few bytes in the first entry, and nothing after."""
    entries = [json.loads(r.value) for r in stopped.records("svc-journal")]
    with_ids = [e for e in entries if "topics" in e]

    assert len(with_ids) == 1
    assert with_ids[0]["topics"].keys() == {"obs", "ans"}
