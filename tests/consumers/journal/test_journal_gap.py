"""A journal that loses records under a running service: the run ends, and says how to go on."""

from __future__ import annotations

from random import Random

import pytest

from consumers.base.errors import JournalLostError
from consumers.base.records import Outgoing, Partition, Record
from consumers.journal import records as journal
from consumers.service import inputs
from consumers.service.recovery import rebuild, sources
from consumers.snapshots.store import open_store
from tests.consumers.conftest import MakeService, Service
from tests.consumers.feeds import fill, phishing
from tests.consumers.service.test_inputs import Elected, keys, looking, ran_once
from tests.consumers.timetravel.test_rollback_inputs import rolled_back
from tests.seed import seeds
from tests.topics import cut, delete, remake

JOURNAL = Partition("svc-journal", 0)
KINDS = ["memory", "sqlite"]
SEEN = "has lost its newest records while the service ran: .* Restore the journal topic, or give"
LATE = "has lost records while the service ran: .* Start it again: it continues from its snapshot"
ONCE = {b"%d" % i: 1 for i in range(300)}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look before each commit, and a log that shows all of a commit."""
    monkeypatch.setattr(inputs, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(inputs, "SHARE", 0)
    monkeypatch.setattr(inputs, "PAUSE_SECONDS", 0.0)


class Loss:
    """A run whose journal loses its last records after a commit. What and when is drawn."""

    def __init__(self, make_service: MakeService, kind: str, seed: int, *, elected: bool) -> None:
        random = Random(seed)
        self.service, self.kept = make_service(kind), list[Record]()
        self.every = random.choice([60, 10**6])
        self.log = Elected(self.service.log)
        self.after, count = random.randrange(2, 10), random.randrange(1, 4)
        self.elected, self.count = elected, min(count, self.after - 1)
        fill(self.service.log, phishing(300))

    def hit(self, commits: int) -> None:
        if commits != self.after:
            return
        end = self.service.ends("svc-journal")[0] - self.count
        self.kept = self.service.records("svc-journal")[end:]
        cut(self.service.log, JOURNAL, end)
        self.log.epoch += self.elected

    def run(self, match: str) -> None:
        with pytest.raises(JournalLostError, match=match) as error:
            self.service.run(self.log, every_records=self.every, on_commit=self.hit)
        assert "\n" not in str(error.value)

    def restore(self) -> None:
        """As from a replica."""
        self.service.log.append(
            [Outgoing(r.topic, r.key, r.value, r.timestamp, (), r.partition) for r in self.kept]
        )


def seqs(service: Service) -> list[int]:
    """The numbers of the journal records."""
    return [journal.decode(r.value).seq for r in service.records("svc-journal")]


def fingerprint(service: Service) -> str:
    """The state that a start finds, snapshots and all."""
    config = service.config()
    found, end = sources(config, service.log), service.ends("svc-journal")[0]
    return rebuild(config, service.log, found, open_store(config), end=end).shard.fingerprint()


@pytest.fixture(scope="module")
def undisturbed(own_services) -> str:
    """The state where nothing was lost."""
    with own_services() as make_service:
        service = make_service()
        fill(service.log, phishing(300))
        service.run()
        return service.fingerprint()


@pytest.mark.parametrize("kind", KINDS)
@seeds(0.01)
def test_loss_that_an_election_shows_ends_the_run_and_a_restored_journal_goes_on(
    own_services, undisturbed, kind, seed
) -> None:
    """Nothing is committed after it, and the state with the lost records is kept."""
    with own_services() as make_service:
        loss = Loss(make_service, kind, seed, elected=True)
        loss.run(SEEN)
        service = loss.service

        assert seqs(service) == [*range(loss.after + 1 - loss.count)]
        assert (
            keys(service).total() == len(keys(service)) == sum(e.predictions for e in commits(loss))
        )
        assert service.snapshots()[-1].name == f"snap-{loss.after + 1:020d}.hws"
        loss.restore()
        service.run()
        assert keys(service) == ONCE
        assert service.fingerprint() == fingerprint(service) == undisturbed


def commits(loss: Loss) -> list[journal.CommitRecord]:
    """Every commit that was ever journaled, lost ones too."""
    lost = [journal.decode(r.value) for r in loss.kept]
    return loss.service.entries() + [e for e in lost if isinstance(e, journal.CommitRecord)]


@pytest.mark.parametrize("kind", KINDS)
@seeds(0.01)
def test_loss_that_the_next_commit_finds_ends_the_run_and_its_snapshot_goes_on(
    own_services, undisturbed, kind, seed
) -> None:
    """The journal has a gap then. What comes before it is in the snapshot."""
    with own_services() as make_service:
        loss = Loss(make_service, kind, seed, elected=False)
        loss.run(LATE)
        service, last = loss.service, loss.after - loss.count

        assert seqs(service) == [*range(last + 1), loss.after + 1]
        service.run()
        assert keys(service) == ONCE
        assert fingerprint(service) == undisturbed


@pytest.mark.parametrize("kind", KINDS)
@seeds(0.01)
def test_journal_with_a_gap_is_rolled_back_where_no_snapshot_reaches_over_it(
    own_services, kind, seed
) -> None:
    """The error names the position. What was learned since is lost, but nothing is doubled."""
    with own_services() as make_service:
        loss = Loss(make_service, kind, seed, elected=False)
        loss.run(LATE)
        service, gap = loss.service, loss.after - loss.count + 1
        service.run()
        for path in service.snapshots():
            if int(path.stem[5:]) > gap:
                path.unlink()
        with pytest.raises(JournalLostError, match=rf"rollback --to {gap}; or give .* a new name"):
            service.run()
        rolled_back(service, gap)
        service.snapshots()[-1].unlink()  # the journal alone says it too
        model = fingerprint(service)

        service.run()
        assert keys(service) == ONCE
        assert fingerprint(service) == model == service.fingerprint()


def test_rollback_over_a_gap_that_hides_what_was_consumed_is_refused(make_service) -> None:
    """A partition that only the lost records have moved would be predicted again."""
    service = make_service()
    fill(service.log, phishing(300))
    service.run()
    service.log.append([Outgoing("obs", b"more", b'{"id": "more"}')])
    service.run()
    cut(service.log, JOURNAL, service.ends("svc-journal")[0] - 1)

    with pytest.raises(JournalLostError, match=r"obs\[0\] at 300, but 301 is committed"):
        rolled_back(service, 3)


@pytest.mark.parametrize("lost", [0, 1])
def test_journal_is_compared_once_after_an_election(make_service, monkeypatch, lost) -> None:
    """And not at any other look, which costs one request."""
    service = ran_once(make_service)
    log, live, watch = looking(service, lambda: 0.0)
    asked: list[str] = []
    for name in ("describe", "read", "end_offsets", "beginning_offsets"):
        told = getattr(service.log, name)
        counted = lambda *a, told=told, name=name, **k: (asked.append(name), told(*a, **k))[1]  # noqa: E731
        monkeypatch.setattr(service.log, name, counted)
    cut(service.log, JOURNAL, live.position - lost)
    watch.look(live)
    assert asked == ["describe"]
    log.epoch = 1

    if lost:
        with pytest.raises(JournalLostError, match=SEEN):
            watch.look(live)
    else:
        watch.look(live)
        asked.clear()
        watch.look(live)
        assert asked == ["describe"]


@pytest.mark.parametrize("again", [False, True])
def test_journal_that_is_deleted_under_a_running_service_ends_it(make_service, again) -> None:
    """It is asked twice before it is believed, unless it was made again."""
    service = ran_once(make_service)
    _, live, watch = looking(service, lambda: 0.0)
    if again:
        remake(service.log, "svc-journal")
        what = "it is empty, where record"
    else:
        delete(service.log, "svc-journal")
        what = "svc-journal was deleted while the service ran"
        with pytest.raises(Exception, match=what) as first:
            watch.look(live)
        assert not isinstance(first.value, JournalLostError)

    with pytest.raises(JournalLostError, match=what):
        watch.look(live)


def test_commit_that_a_broker_shows_late_is_no_loss(make_service, monkeypatch) -> None:
    """After an election the end of its transaction may still be missing."""
    service = ran_once(make_service)
    log, live, watch = looking(service, lambda: 0.0)
    end, looks = service.log.end_offsets, [0]

    def late(partitions):
        looks[0] += JOURNAL in partitions
        return {p: at - (p == JOURNAL and looks[0] < 5) for p, at in end(partitions).items()}

    monkeypatch.setattr(service.log, "end_offsets", late)
    log.epoch = 1

    assert not watch.look(live)
    assert looks[0] >= 5
