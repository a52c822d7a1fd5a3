"""The first start of a service: entry 0, the fields it infers, where it begins."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from consumers.base.errors import ConfigError
from consumers.base.records import Outgoing, Partition
from consumers.config import parse
from consumers.config.sample import SAMPLE_SIZE
from consumers.journal import records as journal
from consumers.journal.records import IdentityRecord
from consumers.service.beginning import schema_from
from consumers.service.live import LiveShard
from consumers.service.recovery import recover, sources
from tests.consumers.conftest import FEATURES
from tests.consumers.feeds import NOW, config_text, fill, phishing
from tests.consumers.service.test_recovery import recovered, store_of


def test_first_start_writes_the_identity_and_nothing_else(make_service) -> None:
    """Fields and starting offsets are journaled: every later start sees the same."""
    service = make_service()
    fill(service.log, phishing(20))
    live = recovered(service)
    (entry,) = [journal.decode(r.value) for r in service.records("svc-journal")]

    assert isinstance(entry, IdentityRecord)
    assert [name for name, _ in entry.fields] == list(FEATURES)
    assert entry.starts == [("ans", 0, 0), ("obs", 0, 0)]
    assert (live.seq, live.position, live.replayed) == (0, 1, 0)
    assert recovered(service).shard.fingerprint() == live.shard.fingerprint()
    assert service.ends("svc-journal") == [1]


def inferring(service, **changes) -> LiveShard:
    """Recovery of a configuration without [features]."""
    config = service.config(**changes).model_copy(update={"features": None})
    found = sources(config, service.log)
    owner = service.log.owner("svc", 0, found.inputs)
    return recover(config, service.log, owner, found, store_of(service), now=NOW)


def test_inferred_fields_stay_what_they_were_at_the_first_start(make_service) -> None:
    """New fields in later records do not change a model that runs."""
    service = make_service()
    fill(service.log, phishing(100))
    fields = inferring(service).fields
    assert {f.name for f in fields} == set(FEATURES)

    service.log.append([Outgoing("obs", b"n", b'{"id":"n","new":1}', NOW, (), 0)] * 400)

    assert inferring(service).fields == fields


def test_inference_without_records_is_one_line(make_service) -> None:
    """There is nothing to look at."""
    service = make_service()
    fill(service.log, [])

    with pytest.raises(ConfigError, match=r"declare \[features\] or fill the topic first"):
        inferring(service)


@pytest.mark.parametrize(("start", "first"), [("earliest", 0), ("latest", 30), ("time", 12)])
def test_start_counts_for_an_empty_journal(make_service, start, first) -> None:
    """At the beginning, the end, or the first record of a time."""
    service = make_service()
    fill(service.log, phishing(30))
    config = service.config()
    moment = "2023-11-14T22:13:20.120Z" if start == "time" else start
    section = config.input.model_copy(update={"start": moment})
    config = config.model_copy(update={"input": section})
    found = sources(config, service.log)
    owner = service.log.owner("svc", 0, found.inputs)
    live = recover(config, service.log, owner, found, store_of(service), now=NOW)

    assert live.shard.positions[Partition("obs", 0)] == first


def test_schema_is_taken_from_the_first_records_and_no_others_are_read() -> None:
    """Hundreds of partitions have many times as many. Records that are not valid do not count."""
    read = []

    def values() -> Iterator[bytes]:
        for number in count():
            read.append(number)
            yield b"no json" if number % 5 == 0 else b'{"id": "a", "size": 1.5}'

    schema = schema_from(values(), parse(config_text("memory:schema", ["a"])))

    assert [field.name for field in schema.fields] == ["size"]
    assert len(read) < 2 * SAMPLE_SIZE
