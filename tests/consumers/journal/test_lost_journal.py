"""A journal that is gone, or is called otherwise now: the service never starts empty unasked."""

from __future__ import annotations

import shutil
import threading

import pytest

from consumers.base.errors import ConfigError, TransportError
from consumers.base.records import Outgoing, Partition
from consumers.journal import records as journal
from consumers.journal.records import IdentityRecord
from consumers.service.journal_end import traces
from consumers.service.partitioning import inputs_of
from consumers.service.runner import Runner
from consumers.snapshots.locate import locate
from consumers.snapshots.store import open_store
from tests.consumers.feeds import fill, phishing

RENAMED = '[journal]\ntopic = "other-journal"\n'
KINDS = pytest.mark.parametrize("kind", ["memory", "sqlite"])


def begun(make_service, kind: str = "memory", n: int = 120, **changes):
    """A service that has run; the topic of the journal to come is there."""
    service = make_service(kind)
    fill(service.log, phishing(n))
    service.run(**changes)
    service.log.create_topic("other-journal", 1)
    return service


def left(service, **changes) -> list[str]:
    """What a start without a journal finds."""
    config = service.config(**changes)
    inputs = inputs_of(config, service.log.topics(), 0)
    return traces(config, service.log, inputs, open_store(config))


def forget_offsets(service) -> None:
    """As a broker does that has not seen the group for a week."""
    if service.url.startswith("memory:"):
        service.log._store.offsets.clear()
    else:
        service.log._database._connection.execute("DELETE FROM offsets")


@KINDS
def test_changed_journal_topic_is_refused_and_doubles_nothing(make_service, kind) -> None:
    """With what is left, and the ways on; under the old name it goes on."""
    service = begun(make_service, kind)
    said = service.predictions()
    with pytest.raises(ConfigError, match=r"has run before \(its group has .*--new-journal") as e:
        service.run(more=RENAMED)

    assert "Set [journal] topic to the journal it had" in str(e.value)
    assert "\n" not in str(e.value)
    assert service.predictions() == said
    assert service.ends("other-journal") == [0]
    fill_more(service)
    service.run()
    assert len(service.predictions()) == 121


def fill_more(service) -> None:
    """One observation more."""
    service.log.append([Outgoing("obs", b"new", b'{"id": "new"}')])


@KINDS
@pytest.mark.parametrize("trace", ["offsets", "snapshot", "predictions"])
def test_each_trace_alone_is_enough(make_service, kind, trace) -> None:
    """Offsets expire, snapshots lie on another host, predictions are kept for a while only."""
    service = begun(make_service, kind)
    if trace != "offsets":
        forget_offsets(service)
    if trace != "snapshot":
        shutil.rmtree(service.directory / "headwater-state")
    changes = {"more": RENAMED}
    if trace != "predictions":
        changes["more"] += '[output]\npredictions = "elsewhere"\n'
        service.log.create_topic("elsewhere", 1)
    if (kind, trace) == ("memory", "snapshot"):
        assert left(service, **changes) == []  # of a process that is gone
        return

    assert len(left(service, **changes)) == 1
    with pytest.raises(ConfigError, match="has run before"):
        service.run(**changes)


@KINDS
def test_first_start_is_silent(make_service, kind) -> None:
    """Topics made by `check --create`, inputs full, another service's predictions beside."""
    service = make_service(kind)
    fill(service.log, phishing(60))
    foreign = b'{"id":"1","model":{"name":"else"},"position":{"topic":"obs","partition":0}}'
    elsewhere = b'{"id":"1","model":{"name":"svc"},"position":{"topic":"far","partition":0}}'
    for value in (foreign, elsewhere, b"nothing", None):
        service.log.append([Outgoing("svc-predictions", b"1", value)])

    assert left(service) == []
    service.run()
    assert identity(service).replaces == []


def identity(service, topic: str = "svc-journal") -> IdentityRecord:
    """Entry 0."""
    part = Partition(topic, 0)
    first = next(iter(service.log.read({part: 0}, {part: 1})))
    entry = journal.decode(first.values[0])
    assert isinstance(entry, IdentityRecord)
    return entry


def test_first_commit_that_failed_leaves_no_trace(make_service) -> None:
    """The second start is a first one."""
    service = make_service()
    fill(service.log, phishing(60))

    class Failing:
        def __getattr__(self, name: str):
            return getattr(service.log, name)

        def owner(self, *args):
            owner = service.log.owner(*args)

            def commit(*_):
                raise TransportError("on purpose")

            owner.commit = commit
            return owner

    with pytest.raises(TransportError):
        service.run(Failing())

    service.run()
    assert len(service.predictions()) == 60


@KINDS
def test_new_journal_is_begun_when_asked_and_says_why(make_service, kind) -> None:
    """Once: what it replaced is in its entry 0, and the next start needs no word."""
    service = begun(make_service, kind)
    config = service.config(more=RENAMED)
    stop = threading.Event()
    Runner(config, service.log, stop, drain=True, new_journal=True).run()

    assert len(service.predictions()) == 240
    replaced = identity(service, "other-journal").replaces
    assert any("committed offsets" in phrase for phrase in replaced)
    service.run(more=RENAMED)
    assert len(service.predictions()) == 240


def test_journal_that_was_deleted_and_made_again_is_refused(make_service) -> None:
    """Its topic is there, and empty."""
    service = begun(make_service)
    service.log._store.topics["svc-journal"][0].clear()
    with pytest.raises(ConfigError, match="has run before"):
        service.run()

    assert len(service.predictions()) == 120


def test_journal_of_another_name_is_still_refused(make_service) -> None:
    """A journal that is there is not lost."""
    service = begun(make_service)
    config = service.config().model_copy(update={"name": "else"})
    config = config.model_copy(
        update={"journal": config.journal.model_copy(update={"topic": "svc-journal"})}
    )
    end = service.ends("svc-journal")[0]
    with pytest.raises(ConfigError, match="another configuration"):
        locate(config, service.log, Partition("svc-journal", 0), end=end)
