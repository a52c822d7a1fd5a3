"""A journal that lost its newest records is not continued: a start would predict records again."""

from __future__ import annotations

import shutil
from random import Random

import pytest

from consumers.base.errors import ConfigError, FencedError, InputChangedError, TransportError
from consumers.base.records import Outgoing, Partition
from consumers.commands.past import Past
from consumers.commands.rollback import _cut
from consumers.journal import records as journal
from consumers.journal.records import CommitRecord, InputsRecord
from consumers.service import journal_end
from consumers.service.journal_end import check_journal
from consumers.service.recovery import rebuild, sources
from consumers.snapshots.locate import locate
from consumers.snapshots.store import open_store
from consumers.timetravel.moment import moment, rebuild_at
from tests.consumers.conftest import MakeService, Service
from tests.consumers.feeds import fill, phishing
from tests.consumers.service.test_inputs import observations, run
from tests.consumers.timetravel.test_rollback_inputs import rolled_back
from tests.seed import seeds
from tests.topics import cut, remake, widen

JOURNAL = Partition("svc-journal", 0)
KINDS = ["memory", "sqlite"]
REFUSED = (ConfigError, InputChangedError, TransportError)
LOST = r"svc-journal\[0\] of svc has lost its newest records: it ends at "


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process commits in these tests."""
    monkeypatch.setattr(journal_end, "PAUSE_SECONDS", 0.0)


class History:
    """A service whose life is drawn. None of its starts may be refused."""

    def __init__(self, service: Service, seed: int) -> None:
        self.service, self.random, self.sent = service, Random(seed), 300
        self.earliest = 2  # what was consumed of a topic before it was made again is gone
        fill(service.log, phishing(120))
        self.run()

    def live(self, steps: int) -> None:
        for _ in range(steps):
            self.random.choice([self.feed, self.feed, self.roll_back, self.restart, self.widen])()
            self.run()
        self.feed()
        self.run()

    def run(self, decision=None) -> None:
        run(self.service, decision, max_records=40, every_records=self.random.choice([60, 10**6]))

    def feed(self) -> None:
        partition = self.random.randrange(self.service.log.topics()["obs"])
        count = self.random.randrange(1, 90)
        self.service.log.append(observations(self.sent, count, partition))
        self.sent += count

    def roll_back(self) -> None:
        if self.earliest < end(self.service):
            rolled_back(self.service, self.random.randrange(self.earliest, end(self.service)))

    def restart(self) -> None:
        """A topic that is made again, with as many partitions or with less."""
        partitions = self.service.log.topics()["obs"]
        remake(self.service.log, "obs", self.random.randrange(1, partitions + 1))
        self.feed()
        self.run("new")
        self.earliest = end(self.service)

    def widen(self) -> None:
        topics = self.service.log.topics()
        if max(topics, key=list(topics).index) == "obs" or not self.service.url.startswith("sql"):
            widen(self.service.log, "obs", topics["obs"] + 1)


def end(service: Service) -> int:
    return service.ends("svc-journal")[0]


def forget_offsets(service: Service) -> None:
    """As a broker does that has not seen the group for a week."""
    if service.url.startswith("memory:"):
        service.log._store.offsets.clear()
    elif service.url.startswith("sqlite:"):
        service.log._database._connection.execute("DELETE FROM offsets")
    else:
        for path in (service.directory / "log.db").rglob("*.offsets.json"):
            path.unlink()


def written(service: Service) -> object:
    """Everything that a start could write."""
    topics = service.log.topics()
    parts = [Partition(topic, n) for topic, count in topics.items() for n in range(count)]
    return (
        service.log.end_offsets(parts),
        service.log.committed("svc", parts),
        [(path, path.stat().st_mtime_ns) for path in service.snapshots()],
    )


def put_back(service: Service, records) -> None:
    for r in records:
        service.log.append([Outgoing(r.topic, r.key, r.value, r.timestamp, (), r.partition)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("evidence", ["both", "offsets", "snapshot"])
@seeds(0.0075)
def test_shortened_journal_is_refused_at_every_length(
    own_services, kind: str, seed: int, evidence: str
) -> None:
    """Nothing is written, nothing is predicted again, and the whole journal continues."""
    with own_services() as make_service:
        refused_at_every_length(History(make_service(kind), seed), evidence)


def refused_at_every_length(history: History, evidence: str) -> None:
    """Cut the journal of this service record by record."""
    service = history.service
    history.live(4)
    if evidence == "offsets":
        shutil.rmtree(service.directory / "headwater-state")
    elif evidence == "snapshot":
        forget_offsets(service)
    records, before = service.records("svc-journal"), len(service.predictions())
    made, moved = written(service), False
    for length in reversed(range(1, len(records))):
        entry = journal.decode(records[length].value)
        moved |= isinstance(entry, CommitRecord | InputsRecord) or evidence != "offsets"
        cut(service.log, JOURNAL, length)
        made[0][JOURNAL] = length
        if moved:  # offsets do not show the loss of a last rollback alone, which predicts nothing
            with pytest.raises(REFUSED) as refused:
                history.run()
            assert "\n" not in str(refused.value)
            if (
                evidence != "offsets"
            ):  # a lost restart may leave them lower, but then the id differs
                with pytest.raises(ConfigError, match=LOST):
                    check(service)
        assert written(service) == made
    put_back(service, records[1:])
    if evidence == "offsets":
        return  # topics that were made again: the model was in its snapshots
    history.feed()
    history.run()
    assert len(service.predictions()) > before


def check(service: Service) -> None:
    """What `headwater check` asks."""
    config = service.config()
    found = sources(config, service.log)
    check_journal(config, service.log, found.journal, found.inputs, open_store(config))


@pytest.fixture(params=KINDS)
def stopped(request: pytest.FixtureRequest, make_service: MakeService) -> Service:
    """A service that consumed 300 observations and labels, and stopped with a snapshot."""
    service = make_service(request.param)
    fill(service.log, phishing(300))
    service.run(max_records=100)
    return service


def test_message_says_what_was_found_and_what_to_do(stopped: Service) -> None:
    """By the offsets, or by the snapshot if the broker has forgotten them."""
    cut(stopped.log, JOURNAL, 4)
    with pytest.raises(ConfigError, match=LOST + "4, but its group has committed ans") as by_group:
        stopped.run()
    forget_offsets(stopped)
    with pytest.raises(ConfigError, match=LOST + "4, but a snapshot contains") as by_snapshot:
        stopped.run()

    for refused in (by_group, by_snapshot):
        assert "Restore the journal topic, or give the service a new name" in str(refused.value)
    assert "set them back" in str(by_group.value)
    assert "move the snapshots after 4 out of" in str(by_snapshot.value)


def test_operator_who_removes_the_evidence_continues(stopped: Service) -> None:
    """As the messages say: offsets set back by hand, newer snapshots moved away."""
    cut(stopped.log, JOURNAL, 4)
    forget_offsets(stopped)
    shutil.rmtree(stopped.directory / "headwater-state")
    stopped.run()

    assert stopped.rebuilt().shard.view().observations == 300


def test_offsets_set_ahead_by_hand_are_refused_and_set_back_they_are_not(
    make_service: MakeService,
) -> None:
    """A start never seeks to them, so they can only mean a loss or a mistake."""
    service = make_service()
    fill(service.log, phishing(100))
    service.run(stop_after=2)
    offsets = service.log._store.offsets
    kept = dict(offsets)
    offsets["svc", Partition("obs", 0)] = 100
    with pytest.raises(ConfigError, match=r"if someone set the group's offsets by hand"):
        service.run()
    offsets |= kept
    service.run()
    offsets |= dict.fromkeys(offsets, 0)  # behind the journal: it is the truth
    service.run()

    assert len(service.predictions()) == 100


def test_rebuild_of_a_shortened_journal_and_of_an_earlier_end_are_allowed(stopped: Service) -> None:
    """Both only read, and the past is what they are asked for."""
    config = stopped.config()
    found, store = sources(config, stopped.log), open_store(config)
    assert rebuild(config, stopped.log, found, store, end=4).position == 4
    cut(stopped.log, JOURNAL, 4)

    assert rebuild(config, stopped.log, found, store, end=4).position == 4


def test_rollback_of_a_shortened_journal_is_refused(stopped: Service) -> None:
    """It would commit the lower offsets, and no start would find the loss."""
    config = stopped.config()
    found, store = sources(config, stopped.log), open_store(config)
    cut(stopped.log, JOURNAL, 4)
    of = Past(config, stopped.log, found, store, lambda *_: None)
    live = rebuild_at(config, stopped.log, found, store, moment(stopped.log, JOURNAL, "2"))
    before = written(stopped)
    with pytest.raises(ConfigError, match=LOST):
        _cut(of, live, "labels were wrong")

    assert written(stopped) == before


def test_lost_records_of_an_added_partition_alone_are_noticed(make_service: MakeService) -> None:
    """The journal that is left knows no such partition; one that the journal says is gone may have
    offsets."""
    service = make_service()
    fill(service.log, phishing(50))
    service.run()
    before = end(service)
    widen(service.log, "obs", 2)
    service.log.append(observations(300, 20, partition=1))
    service.run()
    records = service.records("svc-journal")
    cut(service.log, JOURNAL, before)
    with pytest.raises(ConfigError, match=r"committed obs\[1\] 20 .*no such partition"):
        service.run()
    put_back(service, records[before:])
    remake(service.log, "obs", 1)
    run(service, "new")
    widen(service.log, "obs", 2)
    service.run()

    assert len(service.predictions()) == 70


def test_check_beside_a_running_service_does_not_take_its_commit_for_a_loss(
    stopped: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end that it reads first may be older than the newest snapshot."""
    ends = [4]

    def older(config, log, partition, store):
        return locate(config, log, partition, store, ends.pop() if ends else None)

    monkeypatch.setattr(journal_end, "locate", older)
    check(stopped)

    assert not ends


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_commits_of_a_successor_are_no_loss(
    make_service: MakeService, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard that is taken over while its last owner still starts: that one is fenced, no more."""
    service = make_service(kind)
    fill(service.log, phishing(120))
    run(service)
    own = service.log.owner

    def owned(*arguments):
        owner = own(*arguments)
        committed = owner.committed

        def committed_by_the_next():
            monkeypatch.setattr(service.log, "owner", own)
            service.log.append(observations(300, 40))
            run(service)
            return committed()

        owner.committed = committed_by_the_next
        return owner

    monkeypatch.setattr(service.log, "owner", owned)

    with pytest.raises(FencedError, match="taken it over during the recovery"):
        run(service)
