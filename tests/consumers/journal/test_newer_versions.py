"""What a newer version of this program has written: refused in clear words, never read in part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from consumers.base.errors import JournalFormatError
from consumers.base.records import Outgoing
from consumers.codecs.schemas import StoredSchema
from consumers.journal import records as journal
from consumers.journal.records import (
    ChallengersRecord,
    CommitRecord,
    History,
    IdentityRecord,
    ImportedModel,
    InputsRecord,
    MixRecord,
    MovedFrom,
    MovedRecord,
    PeerStatistics,
    Range,
    RelearnRecord,
    RollbackRecord,
    SchemasRecord,
    StoredFile,
)
from consumers.service import recovery
from consumers.shard.shape import OutputShape
from consumers.snapshots.locate import versions
from consumers.snapshots.store import open_store
from tests.consumers.feeds import fill, phishing

IDENTITY = IdentityRecord("n", 0, {}, [("a", "text")], [], "b", {}, {})
ENTRIES = (
    IDENTITY,
    msgspec.structs.replace(
        IDENTITY,
        model=ImportedModel("0" * 64, 1, 1, "f", {}),
        history=History(StoredFile("0" * 64, 1, 1), None, "time", None, None),
        moved=MovedFrom("j", 2, 3),
    ),
    CommitRecord(3, 99, [Range("t", 1, 0, 5, 4, 123)], 4, 1, shape=OutputShape("p", "d", 1, 10)),
    RollbackRecord(3, 99, 1, "c"),
    ChallengersRecord(3, 99, {}, "c"),
    InputsRecord(3, 99, "c"),
    SchemasRecord(3, 99, "c", [(7, StoredSchema("AVRO", "{}"))]),
    MixRecord(3, 99, "c", [PeerStatistics(1, 0, 1, StoredFile("0" * 64, 1, 1))]),
    RelearnRecord(3, 99, {}, "c"),
    MovedRecord(3, 99, "c", 2, "j"),
)


def newer_forms(value: Any) -> Iterator[Any]:
    """The JSON value as a newer version could write it: with one thing more, at each place."""
    if isinstance(value, dict):
        yield {**value, "of_a_newer_version": 1}
        for key, inner in value.items():
            # These are settings, ids and a source by their names, which configurations compare.
            if key not in ("identity", "auto", "topics", "source", "challengers"):
                yield from ({**value, key: each} for each in newer_forms(inner))
    elif isinstance(value, list) and value:
        yield [*value, 1] if not isinstance(value[0], list) else [[*value[0], 1], *value[1:]]
        for n, inner in enumerate(value):
            if isinstance(inner, dict | list):
                for each in newer_forms(inner):
                    yield [*value[:n], each, *value[n + 1 :]]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_record_with_something_of_a_newer_version_is_refused(entry) -> None:
    """Wherever it stands: to leave it out would give another model in silence."""
    plain = msgspec.to_builtins(entry)
    forms = list(newer_forms(plain))

    assert len(forms) > 0
    for form in forms:
        with pytest.raises(JournalFormatError, match="newer version"):
            journal.decode(msgspec.json.encode(form))


@pytest.mark.parametrize("newest", [0, -1], ids=["first record", "last record"])
def test_start_in_the_journal_of_a_newer_version_fences_nobody(make_service, newest) -> None:
    """The newer one goes on."""
    service = make_service()
    fill(service.log, phishing(10))
    commits = [CommitRecord(n, 0, [], 0, 0) for n in range(1, 100)]
    entries = [msgspec.to_builtins(each) for each in (IDENTITY, *commits)]
    entries[newest] |= {"of_a_newer_version": 1}
    values = map(msgspec.json.encode, entries)
    service.log.append([Outgoing("svc-journal", b"%d" % n, v) for n, v in enumerate(values)])
    owner = service.log.owner("svc", 0, [])

    with pytest.raises(JournalFormatError, match="newer version"):
        service.run()
    owner.confirm({})
    assert service.predictions() == []


def test_snapshot_of_a_newer_version_is_not_used(make_service, monkeypatch) -> None:
    """This version might take a part of its state for the whole. The journal is replayed."""
    service = make_service()
    fill(service.log, phishing(40))
    monkeypatch.setattr(recovery, "versions", lambda: {**versions(), "headwater": "99.0.0"})
    service.run()
    monkeypatch.undo()
    config = service.config()
    found, (end,) = recovery.sources(config, service.log), service.ends("svc-journal")
    live = recovery.rebuild(config, service.log, found, open_store(config), end=end)

    assert service.snapshots() != []
    assert live.loaded is None
    assert any("of a newer version: headwater 99.0.0" in why for why in live.refused)
    assert live.shard.fingerprint() == service.fingerprint()
