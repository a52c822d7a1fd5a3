"""An input that is made again before a new service has consumed a record of it.

The journal then holds record 0 alone: where reading begins, and of which topics.
"""

from __future__ import annotations

from collections import Counter
from itertools import product

import msgspec
import pytest

from consumers.base.errors import InputChangedError
from consumers.base.records import Outgoing, Partition
from consumers.journal import records as journal
from consumers.journal.records import IdentityRecord, mark_of
from consumers.service.differences import consumed, differences, restarted
from consumers.service.recovery import sources
from consumers.snapshots.locate import locate
from consumers.snapshots.store import open_store
from tests.consumers.conftest import MakeService, Service
from tests.consumers.feeds import fill, phishing
from tests.consumers.service.test_inputs import KINDS, keys, kinds, observations, run
from tests.topics import remake


def beginning(service: Service, start: str) -> Service:
    """The service with another `[input] start`."""
    plain = service.config

    def config(**changes):
        made = plain(**changes)
        return made.model_copy(update={"input": made.input.model_copy(update={"start": start})})

    service.config = config  # type: ignore[method-assign]
    return service


@pytest.fixture(params=product(KINDS, [True, False]), ids=lambda p: "-".join(map(str, p)))
def idle(request, make_service: MakeService) -> Service:
    """A service that began at the end of its inputs and stopped before its first record, its
    snapshots kept or lost."""
    kind, kept = request.param
    service = beginning(make_service(kind), "latest")
    fill(service.log, phishing(300))
    run(service)
    assert kinds(service) == ["IdentityRecord"]
    for path in [] if kept else service.snapshots():
        path.unlink()
    return service


def checked(service: Service) -> None:
    """What `headwater check` compares."""
    config, partition = service.config(), Partition("svc-journal", 0)
    store = open_store(config)
    origin = locate(config, service.log, partition, store)
    assert origin is not None
    known = consumed(origin, store)
    restarted(differences(service.log, sources(config, service.log).inputs, *known), known[0])


@pytest.mark.parametrize("topics", [["obs"], ["ans"], ["obs", "ans"]], ids="-".join)
def test_topic_made_again_before_a_first_commit_is_not_passed_over(idle, topics) -> None:
    """300 of 700 new records were, and the check found nothing."""
    checked(idle)
    for topic in topics:
        remake(idle.log, topic)
    idle.log.append(observations(0, 700))

    with pytest.raises(InputChangedError, match=rf"{topics[0]} has id .*--accept-new-topic"):
        checked(idle)
    for _ in range(2):
        with pytest.raises(InputChangedError, match=rf"{topics[0]} has id .*--same-topic"):
            run(idle)
    assert kinds(idle) == ["IdentityRecord"]
    run(idle, "new")
    if "obs" in topics:
        assert keys(idle) == Counter(b"n%d" % i for i in range(700))
    checked(idle)
    before = keys(idle).total()
    idle.log.append(observations(700, 5))
    run(idle)
    assert keys(idle).total() == before + 5


def test_same_topic_goes_on_where_a_new_service_began(idle) -> None:
    """A restored cluster: another id, what was there and more."""
    there = [
        Outgoing(r.topic, r.key, r.value, r.timestamp, (), r.partition) for r in idle.records("obs")
    ]
    remake(idle.log, "obs")
    idle.log.append([*there, *observations(0, 50)])
    run(idle, "same")

    assert keys(idle) == Counter(b"n%d" % i for i in range(50))
    assert run(idle).observations == 50


def test_topic_that_ends_before_a_new_service_began_is_not_the_same(make_service) -> None:
    """It holds less than was there then."""
    service = beginning(make_service(), "latest")
    fill(service.log, phishing(300))
    run(service)
    remake(service.log, "obs")
    service.log.append(observations(0, 299))

    with pytest.raises(
        InputChangedError, match=r"obs\[0\] ends at 299, but was consumed up to 300"
    ):
        run(service, "same")


def test_rebuild_without_a_commit_knows_the_topics(idle) -> None:
    """From record 0 alone: what a standby follows with."""
    told = idle.log.describe(["obs", "ans"])

    assert idle.rebuilt().topics == {topic: made.id for topic, made in told.items()}


@pytest.mark.parametrize("start", ["earliest", "latest"])
@pytest.mark.parametrize("partitions", [1, 2, 3])
@pytest.mark.parametrize("read", [(), (0,), (1,)], ids=str)
def test_recreated_topic_needs_a_decision_only_if_some_of_it_was_consumed(
    make_service, start, partitions, read
) -> None:
    """Or if a partition is missing. Otherwise all records of the new topic are predicted."""
    service = beginning(make_service(), start)
    fill(service.log, [], partitions=2)
    run(service)
    service.log.append([o for p in read for o in observations(0, 5, p)])
    run(service)
    before = keys(service).total()
    remake(service.log, "obs", partitions)
    new = [o for p in range(partitions) for o in observations(100 * p, 50, p)]
    service.log.append(new)

    if read or partitions < 2:
        with pytest.raises(InputChangedError, match="obs has id"):
            checked(service)
        with pytest.raises(InputChangedError, match="obs has id"):
            run(service)
        run(service, "new")
    else:
        checked(service)
        run(service)
        assert ("InputsRecord" in kinds(service)) == (partitions > 2)
    assert keys(service, before) == Counter(o.key for o in new)
    remake(service.log, "obs", partitions)
    with pytest.raises(InputChangedError, match="obs has id"):
        run(service)


def test_recreated_topic_that_begins_where_it_was_consumed_to_needs_a_decision(
    make_service, monkeypatch
) -> None:
    """Its first records expired before they were read."""
    service = make_service()
    fill(service.log, [])
    service.log.append(observations(0, 5))
    run(service)
    remake(service.log, "obs")
    service.log.append(observations(100, 10))
    begins = type(service.log).beginning_offsets

    def trimmed(self, partitions):
        return {p: 5 if p.topic == "obs" else at for p, at in begins(self, partitions).items()}

    monkeypatch.setattr(type(service.log), "beginning_offsets", trimmed)
    with pytest.raises(InputChangedError, match="obs has id"):
        checked(service)


def test_recreated_label_topic_needs_no_decision_before_its_first_label(
    make_service, caplog
) -> None:
    """Its new id is journaled with the next commit, though observations were consumed."""
    caplog.set_level("INFO")
    service = make_service()
    fill(service.log, [])
    service.log.append(observations(0, 50))
    run(service)
    remake(service.log, "ans")
    run(service)
    assert "ans has a new id, but nothing of it was consumed" in caplog.text
    assert service.rebuilt().topics["ans"] != service.log.describe(["ans"])["ans"].id

    service.log.append(observations(50, 5))
    run(service)
    topics = service.log.describe(["obs", "ans"])
    assert service.rebuilt().topics == {topic: made.id for topic, made in topics.items()}


def test_topic_without_an_id_leaves_the_mark_as_it_was(make_service, monkeypatch) -> None:
    """A transport may not know it: then the mark is that of an older program, and ids that are
    there later are taken over."""
    service = make_service()
    fill(service.log, [])
    describe = type(service.log).describe

    def nameless(self, topics):
        return {t: about._replace(id="") for t, about in describe(self, topics).items()}

    with monkeypatch.context() as patched:
        patched.setattr(type(service.log), "describe", nameless)
        run(service)
    entry = journal.decode(service.records("svc-journal")[0].value)
    assert isinstance(entry, IdentityRecord)
    assert entry.topics == {}
    assert mark_of(msgspec.structs.replace(entry, topics={"obs": "1"})) != mark_of(entry)

    checked(service)
    service.log.append(observations(0, 50))
    run(service)
    assert keys(service).total() == 50
    remake(service.log, "obs")
    with pytest.raises(InputChangedError, match="obs has id"):
        run(service)
