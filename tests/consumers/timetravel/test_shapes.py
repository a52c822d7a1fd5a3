"""What shapes outputs is journaled: an old prediction comes out byte for byte as it was written."""

from __future__ import annotations

import json
import threading
from random import Random

import pytest

from consumers.base.errors import ConfigError, TransportError
from consumers.base.records import Outgoing
from consumers.config import Config
from consumers.journal import records as journal
from consumers.journal.records import CommitRecord
from consumers.service.recovery import sources
from consumers.service.runner import Runner
from consumers.snapshots.store import open_store
from consumers.timetravel.audit import audit
from tests.consumers.feeds import fill, phishing
from tests.consumers.service.test_at_least_once import Dying, configured
from tests.seed import seeds

CHANGES = [
    "",
    "[output]\ntop = 1\n",
    '[output]\npredictions = "second"\ndead_letters = "second-dead"\n',
    "[output]\nexplain = 3\n",
    "[decision]\nreject = 0.3\n",
    "[decision]\nlosses.stay = {true = 1, false = 0}\nlosses.go = {true = 0, false = 2}\n",
    '[output]\ntop = 1\nexplain = 1\npredictions = "third"\n[decision]\nreject = 0.1\n',
]


def audited(service, config: Config, id_: str):
    """That prediction made again."""
    store = open_store(config)
    return audit(config, service.log, sources(config, service.log), store, id_)


def entries_of(service) -> list[CommitRecord]:
    """The journal, but for what has no records."""
    found = [journal.decode(r.value) for r in service.records("svc-journal")]
    return [entry for entry in found if isinstance(entry, CommitRecord)]


def prepared(service, n: int = 240) -> None:
    """Full inputs, and every topic there may be."""
    for topic in ("second", "third"):
        service.log.create_topic(topic, 2)
    service.log.create_topic("second-dead", 1)
    fill(service.log, phishing(n))


@seeds(0.01)
def test_audit_repeats_each_prediction_whatever_was_configured_since(own_services, seed) -> None:
    """Seven configurations in a drawn order, two commits each, and every one of them asks."""
    with own_services() as make_service:
        service, random = make_service(), Random(seed)
        prepared(service)
        order = random.sample(CHANGES, len(CHANGES))
        for more in order:
            service.run(
                more=more, stop_after=2, max_records=20, every_records=random.choice((30, 999))
            )
        service.run(more=order[-1])

        for more in order[: 1 + seed % 2]:
            config = service.config(more=more)
            for id_ in map(str, random.sample(range(240), 12)):
                found = audited(service, config, id_)
                assert found.same, (id_, found.published, found.again)
                assert found.published is not None
                assert found.published.topic == found.again.topic


def test_shape_is_journaled_only_where_it_changes(make_service) -> None:
    """Also across starts from snapshots and from nothing."""
    service = make_service()
    prepared(service)
    for more, snapshots in (("", 999), ("", 30), (CHANGES[1], 30), (CHANGES[1], 999), ("", 30)):
        service.run(more=more, stop_after=2, max_records=20, every_records=snapshots)

    shapes = [entry.shape for entry in entries_of(service)]
    assert [i for i, shape in enumerate(shapes) if shape is not None] == [0, 4, 8]
    assert [shape.top for shape in shapes if shape is not None] == [10, 1, 10]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("after", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("more", CHANGES[1:])
def test_repeats_are_the_same_bytes_in_the_same_topic(make_service, kind, after, more) -> None:
    """At least once: the process dies around its outputs, and another configuration goes on."""
    service = make_service(kind)
    prepared(service, 120)
    service.log.append([Outgoing("obs", b"bad", b"{")])
    first, second = ("", more) if after != 0.5 else (more, "")
    died(service, 3, after, first)
    again(service, second)

    made: dict[str, set[tuple[str, bytes]]] = {}
    for topic in service.log.topics():
        if topic in ("svc-predictions", "second", "third"):
            for record in service.records(topic):
                assert record.key is not None
                assert record.value is not None
                made.setdefault(record.key.decode(), set()).add((topic, record.value))
    assert {id_ for id_, said in made.items() if len(said) != 1} == set()
    assert made.keys() >= {str(i) for i in range(120)}


def died(service, at: int, after: float, more: str) -> None:
    """Run until an entry whose outputs are written only in part."""
    stop = threading.Event()

    class Log(Dying):
        def append(self, records) -> None:
            if self.appends + 1 == self._at:
                stop.set()
            super().append(records)

    config = configured(service, more=more, max_records=20)
    with pytest.raises(TransportError, match="on purpose"):
        Runner(config, Log(service.log, at, after), stop, drain=True).run()


def again(service, more: str) -> None:
    """The next start, to the end of the inputs."""
    Runner(configured(service, more=more), service.log, threading.Event(), drain=True).run()


def test_outputs_whose_topic_is_gone_are_reported_and_left_out(make_service) -> None:
    """What was deleted on purpose does not stop the service for good."""
    service = make_service()
    prepared(service, 120)
    died(service, 3, 0.0, CHANGES[2])
    del service.log._store.topics["second"]
    again(service, "")

    ids = {json.loads(value)["id"] for _, _, value in service.predictions()}
    assert ids
    with pytest.raises(ConfigError, match="no prediction"):
        audited(service, service.config(), "nobody")
