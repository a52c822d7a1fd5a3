"""Early labels that are refused in a span that a rollback cuts out: a dead letter once."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

from hypothesis import example

from consumers.base.records import Outgoing, Partition
from consumers.journal import records as journal
from consumers.journal.records import CommitRecord
from consumers.service.recovery import sources
from consumers.timetravel.rollback import roll_back
from tests.consumers.conftest import FEATURES, MakeService, Service
from tests.consumers.feeds import NOW, batch, fill
from tests.consumers.service.test_recovery import recovered
from tests.consumers.timetravel.test_point_in_time import cut_to
from tests.seed import seeds


def observed(id_: str) -> Outgoing:
    """An observation."""
    document = {"id": id_, **dict.fromkeys(FEATURES, 1.0)}
    return Outgoing("obs", b"k", json.dumps(document).encode(), NOW)


def labelled(id_: str, label: object, number: int = 0) -> Outgoing:
    """A label; no two of other numbers are alike."""
    return Outgoing("ans", b"%d" % number, json.dumps({"id": id_, "label": label}).encode(), NOW)


def fed(service: Service, *records: Outgoing) -> str:
    """Feed these to the service, a commit a run; the journal's end after them."""
    for record in records:
        service.log.append([record])
        service.run()
    return str(service.ends("svc-journal")[0])


def dead(service: Service) -> Counter[bytes | None]:
    """How often each label is a dead letter."""
    return Counter(record.key for record in service.records("svc-dead-letters"))


def started(make_service: MakeService) -> Service:
    """A service of nothing yet."""
    service = make_service()
    fill(service.log, [])
    return service


def test_early_label_refused_in_a_span_that_is_cut_out_is_a_dead_letter_once(make_service) -> None:
    """Its observation is sent again after the rollback; the label is not refused again."""
    service = started(make_service)
    to = fed(service, labelled("x", 7))
    fed(service, observed("a"), labelled("a", "yes", 1), observed("x"))
    before = dead(service)
    cut_to(service, to)
    fed(service, observed("b"), labelled("b", "yes", 2), observed("x"))

    assert before == {b"0": 1}
    assert dead(service) == before
    assert service.fingerprint() == recovered(service).shard.fingerprint()


def test_rollback_leaves_the_shard_as_a_start_finds_it(make_service) -> None:
    """Without the labels that were refused in the span."""
    service = started(make_service)
    to = fed(service, labelled("x", 7), labelled("y", 7, 1))
    fed(service, observed("a"), labelled("a", "yes", 2), observed("x"))
    live, found = service.rebuilt(int(to)), sources(service.config(), service.log)
    before = live.shard.fingerprint()
    owner = service.log.owner("svc", 0, found.inputs)
    roll_back(service.log, owner, found, live, now=NOW, reason="labels were wrong")

    assert live.shard.fingerprint() == service.fingerprint() != before


def test_early_label_that_was_not_refused_then_is_still_waiting(make_service) -> None:
    """The cut takes away what happened in the span, not what came before it."""
    service = started(make_service)
    to = fed(service, labelled("x", 7))
    fed(service, observed("a"), labelled("a", "yes", 1))
    cut_to(service, to)
    fed(service, observed("b"), labelled("b", "yes", 2), observed("x"))

    assert dead(service) == {b"0": 1}


@example(seed=0)  # writes some
@seeds(0.03)
def test_any_rollbacks_write_no_dead_letter_twice(own_services, seed) -> None:
    """Random observations, labels of two kinds, ids that recur, rollbacks of rollbacks (I2)."""
    with own_services() as make_service:
        random, service, number = Random(seed), started(make_service), 0
        ends = [fed(service, observed("first"))]
        for _ in range(6):
            records: list[Outgoing] = []
            for _ in range(random.randint(1, 6)):
                id_, number = str(random.randrange(5)), number + 1
                label = random.choice([7, "yes"])
                records.append(random.choice([observed(id_), labelled(id_, label, number)]))
            service.log.append(records)
            ends.append(fed(service))
            service.run(max_records=random.randint(1, 4))
            ends.append(str(service.ends("svc-journal")[0]))
            if random.random() < 0.5:
                cut_to(service, random.choice(ends))
        service.run()
        found = dead(service)
        assert max(found.values(), default=1) == 1
        assert service.fingerprint() == recovered(service).shard.fingerprint()
        assert found or seed != 0


def test_refused_early_labels_that_an_entry_names_are_bounded(monkeypatch) -> None:
    """It must fit a record of the journal: the first are named."""
    monkeypatch.setattr(journal, "MOST_EARLY", 3)
    places = [(Partition("ans", n % 2), n) for n in range(5)]
    entry = journal.entry_of(batch([]), {}, seq=1, now=1, outputs=(0, 5), early=places)

    assert entry.early == [("ans", 0, [0, 2]), ("ans", 1, [1])]
    assert journal.decode(journal.encode(entry)) == entry
    assert isinstance(entry, CommitRecord)
