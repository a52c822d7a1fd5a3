"""A service that begins with an imported model: the model is part of its journal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consumers.base.errors import ConfigError, SnapshotError, TransportError
from consumers.base.records import Outgoing, Partition
from consumers.journal import model_parts
from consumers.journal import records as journal
from consumers.journal.records import IdentityRecord
from consumers.service import importing
from consumers.service.importing import checked, import_model
from consumers.service.recovery import load, rebuild, sources
from consumers.service.replay import replay
from consumers.snapshots import model_file
from consumers.snapshots.exported import load_model
from consumers.snapshots.store import open_store
from consumers.timetravel.moment import exported
from consumers.timetravel.relearn import learned_again
from consumers.transports import open_log
from stream import Learner
from stream.data.state import State
from stream.errors import StateError
from tests.consumers.conftest import FEATURES
from tests.consumers.feeds import NOW, fill, phishing

MODEL = 'type = "MixedNB"\nbins = { strategy = "quantile" }'
SILENCE = '[labels]\nsilence = "ham"\nafter = "1h"\ncorrections = true\n'


@pytest.fixture(autouse=True)
def small_parts(monkeypatch) -> None:
    """A file of a few kilobytes has several parts, and is appended in several calls."""
    monkeypatch.setattr(model_parts, "PART_BYTES", 3000)
    monkeypatch.setattr(importing, "PARTS_AT_ONCE", 2)


@pytest.fixture
def data(make_service) -> bytes:
    """A model that has learned 200 records."""
    service = make_service()
    fill(service.log, phishing(200))
    service.run(model=MODEL)
    return exported(service.config(model=MODEL), service.rebuilt(model=MODEL))[1]


@pytest.fixture
def fresh(make_service):
    """A service with 150 other records that has not run."""
    service = make_service()
    fill(service.log, phishing(350)[200:])
    return service


def begun(service, data: bytes, **changes) -> bool:
    """Import the model into the service."""
    config = service.config(**{"model": MODEL, **changes})
    found, store = sources(config, service.log), open_store(config, 0)
    return import_model(config, service.log, found, store, checked(config, data), now=NOW)


def learned(data: bytes, directory: Path) -> Learner:
    """The learner of the file."""
    (directory / "model.hw").write_bytes(data)
    return load_model(directory / "model.hw")


def identity(service) -> IdentityRecord:
    """Record 0."""
    values = [r.value for r in service.records("svc-journal") if r.key == b"0"]
    (entry,) = map(journal.decode, values)
    assert isinstance(entry, IdentityRecord)
    return entry


def lose_part(service, number: int) -> None:
    """The log no longer returns this part."""
    read = service.log.read

    def fewer(starts, ends, **more):
        for chunk in read(starts, ends, **more):
            parts = [i for i, key in enumerate(chunk.keys) if key == model_parts.PART_KEY]
            for i in parts[number : number + 1]:
                for column in (chunk.offsets, chunk.timestamps, chunk.keys, chunk.values):
                    del column[i]
            yield chunk

    service.log.read = fewer


def test_service_continues_the_model_from_its_first_record(fresh, data, tmp_path) -> None:
    """The first prediction is that of the model, its labels are learned on top, and scores count
    only what was predicted here."""
    assert begun(fresh, data)
    view = fresh.run(model=MODEL)
    model = learned(data, tmp_path)
    first = json.loads(fresh.predictions()[0][2])
    records = phishing(350)[200:]
    expected = model.predict_proba_one(records[0][0])
    for x, y in records:
        model.learn_one(x, y)
    live = fresh.rebuilt(model=MODEL)

    assert dict(map(tuple, first["probabilities"])) == pytest.approx(expected)
    assert first["model"]["learned"] == 0
    assert live.shard.learner.fingerprint() == model.fingerprint()
    assert view.learned == 150
    assert view.quality.scores["all"].scored == 150
    assert "svc of the service svc at journal position" in view.imported
    assert identity(fresh).model.parts > 3


def test_replay_snapshot_and_restart_give_the_same_bits(fresh, data) -> None:
    """The journal is the only truth: from it alone, from a snapshot, and after stops."""
    begun(fresh, data)
    fresh.run(model=MODEL, stop_after=2, every_records=60)
    fresh.run(model=MODEL, every_records=60)
    config = fresh.config(model=MODEL)
    found, store = sources(config, fresh.log), open_store(config, 0)
    end = fresh.ends("svc-journal")[0]
    by_snapshot = rebuild(config, fresh.log, found, store, end=end)
    alone = rebuild(config, fresh.log, found, None, end=end)

    assert by_snapshot.replayed < alone.replayed == 300
    assert by_snapshot.shard.fingerprint() == alone.shard.fingerprint()
    assert len({key for _, key, _ in fresh.predictions()}) == len(fresh.predictions()) == 150


def test_moment_before_the_first_record_is_the_imported_model(fresh, data, tmp_path) -> None:
    """A rebuild to record 0, as rollback makes it, has its bits; it can be exported again."""
    begun(fresh, data)
    fresh.run(model=MODEL)
    at = identity(fresh).model.parts + 1
    live = fresh.rebuilt(at, model=MODEL)
    info, again = exported(fresh.config(model=MODEL), live)

    assert live.shard.learner.fingerprint() == learned(data, tmp_path).fingerprint()
    assert model_file.from_bytes(again)[1] == model_file.from_bytes(data)[1]
    assert info.source["imported"]["sha256"] == identity(fresh).model.sha256
    assert info.source["imported"]["learned"] == 200


def test_second_import_of_the_file_writes_nothing(fresh, data) -> None:
    """And another model, or a service that has run, is refused."""
    assert begun(fresh, data)
    end = fresh.ends("svc-journal")
    assert not begun(fresh, data)
    assert fresh.ends("svc-journal") == end

    info, state = model_file.from_bytes(data)
    other = model_file.to_bytes(info, state.arrays, "a-key-of-16-characters")
    with pytest.raises(ConfigError, match="began with another model, and an import starts a new"):
        begun(fresh, other)


def test_service_that_has_run_is_not_replaced(fresh, data) -> None:
    """Its journal began with an empty model."""
    fresh.run(model=MODEL)

    with pytest.raises(ConfigError, match="began with an empty model"):
        begun(fresh, data)


@pytest.mark.parametrize("point", ["import_fenced", "import_part", "import_parts"])
def test_interrupted_import_is_repeated(fresh, data, monkeypatch, point: str) -> None:
    """A start refuses to begin empty; the second import begins the journal, once."""

    def fails(name: str) -> None:
        if name == point:
            raise TransportError(point)

    with monkeypatch.context() as patch:
        patch.setattr(importing, "reach", fails)
        with pytest.raises(TransportError):
            begun(fresh, data)
    if point != "import_fenced":
        with pytest.raises(ConfigError, match="run headwater import or headwater backfill again"):
            fresh.run(model=MODEL)
    assert begun(fresh, data)
    fresh.run(model=MODEL)

    assert identity(fresh).model is not None
    assert fresh.rebuilt(model=MODEL).shard.view().learned == 150


def test_import_that_was_interrupted_after_record_0_is_complete(fresh, data, monkeypatch) -> None:
    """The journal says so; repeating it writes nothing."""

    def fails(name: str) -> None:
        if name == "import_journaled":
            raise TransportError(name)

    with monkeypatch.context() as patch:
        patch.setattr(importing, "reach", fails)
        with pytest.raises(TransportError):
            begun(fresh, data)

    assert not begun(fresh, data)
    assert fresh.run(model=MODEL).learned == 150


def test_journal_that_lost_a_part_is_refused(fresh, data) -> None:
    """Unless a snapshot makes the model unnecessary."""
    begun(fresh, data)
    fresh.run(model=MODEL)
    lose_part(fresh, 1)

    with pytest.raises(TransportError, match="no longer holds the imported model"):
        fresh.rebuilt(model=MODEL)
    config = fresh.config(model=MODEL)
    found, end = sources(config, fresh.log), fresh.ends("svc-journal")[0]
    live = rebuild(config, fresh.log, found, open_store(config, 0), end=end)
    assert live.shard.view().learned == 150


def test_other_records_under_the_key_of_parts_hide_none(tmp_path) -> None:
    """A commit, what is no part, a part of another file, and one that came twice."""
    log, journal, data = open_log(f"sqlite:{tmp_path}/log.db"), Partition("j", 0), b"model" * 99
    log.create_topic("j", 1)
    parts = list(model_parts.parts_of(data, journal, NOW))
    other = list(model_parts.parts_of(b"other", journal, NOW))
    wrong = [parts[0]._replace(value=value) for value in (b"no json", b"\xff", None)]
    log.append([parts[0]._replace(key=b"0"), *wrong, *other, *parts, *parts])
    end = log.end_offsets([journal])[journal]

    file = model_parts.stored(data)
    assert model_parts.joined_parts(log, journal, file, 0, end) == data
    log.close()


def test_relearn_is_refused(fresh, data) -> None:
    """The records that the imported model learned are not in the inputs."""
    begun(fresh, data)
    fresh.run(model=MODEL)
    config = fresh.config(model='type = "MixedNB"')
    found, store = sources(config, fresh.log), open_store(config, 0)

    with pytest.raises(ConfigError, match="began with an imported model"):
        learned_again(config, fresh.log, found, store)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": 'type = "GaussianNB"'}, "expected the state of a GaussianNB, got 'Discretized'"),
        ({"model": f"{MODEL}\nhalf_life = 9"}, "with"),
        ({"features": FEATURES[1:]}, f"{FEATURES[0]}: not declared here, numeric in the model"),
        (
            {"more": '[labels]\nsilence = "ham"\nafter = "1h"\ncorrections = true\n'},
            "of kind boolean, such as True",
        ),
    ],
)
def test_configuration_of_another_model_is_one_line(fresh, data, changes, words: str) -> None:
    """It says what differs, and nothing is written."""
    with pytest.raises(ConfigError, match=words) as caught:
        begun(fresh, data, **changes)

    assert "\n" not in str(caught.value)
    assert fresh.ends("svc-journal") == [0]


def test_inputs_with_labels_of_another_kind_are_refused(make_service, data) -> None:
    """All of them would be dead letters."""
    service = make_service()
    fill(service.log, [])
    service.log.append([Outgoing("ans", None, b'{"id": "1", "label": "spam"}', NOW)])

    with pytest.raises(ConfigError, match="of kind boolean, such as True, and ans has 'spam'"):
        begun(service, data)


def test_challengers_start_empty_beside_the_imported_model(fresh, data) -> None:
    """They are journaled after record 0, and may become champion."""
    more = '[[challenger]]\nname = "joint"\ntype = "GaussianBayes"\n[promotion]\nrule = "e_value"\n'
    begun(fresh, data)
    view = fresh.run(model=MODEL, more=more)
    (challenger,) = view.challengers
    again = fresh.rebuilt(model=MODEL, more=more).shard.view()

    assert (view.learned, challenger.learned) == (150, 150)
    assert again.quality.scores["all"].log_loss == view.quality.scores["all"].log_loss
    assert again.champion == view.champion


def test_standby_follows_from_the_imported_model(fresh, data) -> None:
    """Without a snapshot it begins with the model too."""
    begun(fresh, data)
    fresh.run(model=MODEL, every_records=10**6)
    for file in fresh.snapshots():
        file.unlink()
    config, end = fresh.config(model=MODEL), fresh.ends("svc-journal")[0]
    found, store = sources(config, fresh.log), open_store(config, 0)
    live, ahead = load(config, fresh.log, found, store, end=end)
    began = live.shard.learner.fingerprint()
    replay(fresh.log, found, live, end, ahead)

    assert began == model_file.from_bytes(data)[0].fingerprint
    assert live.shard.fingerprint() == fresh.rebuilt(model=MODEL).shard.fingerprint()


def test_file_that_is_too_large_for_a_journal_is_refused(fresh, data, monkeypatch) -> None:
    """Before it is read."""
    monkeypatch.setattr(importing, "MOST_BYTES", 1000)

    with pytest.raises(ConfigError, match="expected at most 1,000 bytes"):
        checked(fresh.config(model=MODEL), data)


def test_model_without_classes_can_leave_and_begin_a_service(make_service) -> None:
    """It has fields and parameters only."""
    empty, new = make_service(), make_service()
    for service in (empty, new):
        fill(service.log, phishing(60))
    empty.run(model=MODEL, stop_after=1, max_records=1)
    data = exported(empty.config(model=MODEL), empty.rebuilt(model=MODEL))[1]

    assert model_file.from_bytes(data)[0].labels.classes == []
    assert begun(new, data)
    assert new.run(model=MODEL).learned == 60


def test_key_of_the_service_must_have_signed_the_file(fresh, data) -> None:
    """Or the operator accepts the file."""
    config = fresh.config(model=MODEL)
    keyed = config.model_copy(
        update={"snapshots": config.snapshots.model_copy(update={"key": "another-key-of-16-chars"})}
    )

    with pytest.raises(SnapshotError, match="not signed, and a key was given; --unsigned accepts"):
        checked(keyed, data)
    assert checked(keyed, data, unsigned=True).data == data


def test_fields_are_those_of_the_file_if_none_are_declared(fresh, data) -> None:
    """They are not inferred from the topic."""
    config = fresh.config(model=MODEL).model_copy(update={"features": None})
    found, store = sources(config, fresh.log), open_store(config, 0)

    assert import_model(config, fresh.log, found, store, checked(config, data), now=NOW)
    assert [name for name, _ in identity(fresh).fields] == sorted(FEATURES)


def test_state_of_another_model_is_never_loaded_by_a_replay(fresh, data, monkeypatch) -> None:
    """If this version reads the file in another way, the start ends, and nothing is predicted."""
    begun(fresh, data)
    monkeypatch.setattr(
        "consumers.service.recovery.model_file.from_bytes", lambda _: (None, State())
    )

    with pytest.raises(StateError, match="expected the state of a Discretized"):
        fresh.run(model=MODEL)
    assert fresh.predictions() == []
