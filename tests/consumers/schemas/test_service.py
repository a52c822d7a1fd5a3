"""A service over topics with schemas: it predicts, learns, replays and answers in their format."""

from __future__ import annotations

import json
import threading
from uuid import uuid4

import pytest

from consumers.base.errors import ConfigError, RegistryError
from consumers.codecs.format import framed, schema_id
from consumers.codecs.registry import wire_format
from consumers.journal import records as journal
from consumers.journal.records import SchemasRecord
from consumers.schemas import client
from consumers.schemas.client import subject_of
from consumers.service import schemas as supply
from consumers.service import trial
from consumers.service.recovery import rebuild, sources
from consumers.service.runner import Runner
from consumers.service.trial import TrialProcesses
from consumers.snapshots.store import open_store
from consumers.timetravel.old_shards import load_old_shards
from consumers.timetravel.relearn import learned_again, swap
from consumers.timetravel.reshard import Move
from tests.consumers.schemas.registered import FORMATS, HEADLESS, NOW, SCHEMAS, Failing, Registered


@pytest.mark.parametrize("name", FORMATS)
def test_predictions_have_the_format_and_a_registered_schema(tmp_path, name) -> None:
    """Learned from the first half, right on the second, and framed with the registered id."""
    shop = Registered(tmp_path, name)
    shop.feed(40)

    shop.run()

    made = shop.predictions()
    last = [record["prediction"] for record in made[-10:]]
    assert last == ["no", "yes"] * 5
    assert made[0]["prediction"] is None
    assert made[0]["probabilities"] == []
    assert [record["position"]["offset"] for record in made] == list(range(40))
    registered = shop.registry.latest(subject_of("shop-predictions"))
    assert registered is not None
    assert {schema_id(r.value) for r in shop.records("shop-predictions")} == {registered[0]}
    assert shop.dead() == []


@pytest.mark.parametrize("name", FORMATS)
def test_replay_needs_no_registry(tmp_path, name, monkeypatch) -> None:
    """The journal has every schema, so the state is rebuilt although all requests fail."""
    shop = Registered(tmp_path, name)
    shop.feed(30)
    shop.run()
    before = shop.predictions()

    monkeypatch.setattr(client, "_client", _refused)
    first = shop.fingerprint()
    monkeypatch.undo()
    shop.feed(10, first=30)
    shop.run()

    assert first != shop.fingerprint()
    assert shop.predictions()[:30] == before
    assert len(shop.predictions()) == 40


def _refused(settings: object) -> None:
    raise AssertionError("the registry was asked")


def test_new_settings_are_learned_without_the_registry(tmp_path, monkeypatch) -> None:
    """With the schemas of the journal, and the new model is one that has always had them."""
    shops = [Registered(tmp_path / name, "avro") for name in "ab"]
    old, new = shops
    corrected = [shop.configured("[labels]\ncorrections = true") for shop in shops]
    for shop, config in ((old, old.config), (new, corrected[1])):
        shop.feed(30)
        shop.run(config)
    found, store = sources(corrected[0], old.log), open_store(corrected[0], 0)
    with monkeypatch.context() as patched:
        patched.setattr(client, "_client", _refused)
        both = learned_again(corrected[0], old.log, found, store)
        swap(corrected[0], old.log, [both], now=0, reason="")
    for shop, config in zip(shops, corrected, strict=True):
        shop.feed(10, first=30)
        shop.run(config)
        shop.config = config

    assert old.fingerprint() == new.fingerprint()
    assert old.predictions() == new.predictions(), "corrections change nothing here"


def test_moved_shards_know_the_schemas_of_their_records(tmp_path) -> None:
    """In the order in which a service that has always had two shards met them: in one a label
    comes first, and the other one has no labels."""
    url, two = f"mock://{uuid4()}", f"{HEADLESS}\n[scale]\nshards = 2"
    old = Registered(tmp_path / "old", "avro", registry=url, partitions=2)
    new = Registered(tmp_path / "new", "avro", two, registry=url, partitions=2)
    for topic, text in SCHEMAS["avro"].items():
        old.registry.register(subject_of(topic), text)
    for shop in (old, new):
        for at, (topic, id_, number) in enumerate(
            [("visits", "a", 0), ("bought", "d", 1), ("visits", "d", 1)]
        ):
            record = {"id": id_} | ({"label": "yes"} if topic == "bought" else {"amount": 1.0})
            record |= {"shop": {"city": "Rom"}} if topic == "visits" else {}
            value = shop.translator.record(topic, record)
            shop.write(topic, value, NOW + at, id_.encode(), number)
        shop.run()

    move = Move(load_old_shards(old.config, old.log, 2, None))
    old.log.create_topic(move.old.new.journal_topic, 2)
    shards = [move.shard(number) for number in range(2)]
    move.swap(shards, NOW, "more load", lambda done, total: None)

    old.config = old.configured(f'{two}\n[journal]\ntopic = "{move.old.new.journal_topic}"')
    for number, known in enumerate((1, 2)):
        assert len(shards[number].live.shard.schemas) == known
        assert old.fingerprint(number) == new.fingerprint(number)


def test_schema_is_journaled_once_and_before_its_commit(tmp_path) -> None:
    """One journal record for both schemas; none for a second run with the same ids."""
    shop = Registered(tmp_path, "avro")
    shop.feed(5)
    shop.run()
    shop.feed(5, first=5)
    shop.run()

    entries = [journal.decode(r.value) for r in shop.records("shop-journal")]
    kinds = [type(entry).__name__ for entry in entries]
    (given,) = [entry for entry in entries if isinstance(entry, SchemasRecord)]
    assert kinds[:3] == ["IdentityRecord", "SchemasRecord", "CommitRecord"]
    assert [schema.type for _, schema in given.schemas] == ["AVRO", "AVRO"]


def test_unknown_id_is_a_dead_letter_with_its_bytes(tmp_path) -> None:
    """Also at a replay after the id was registered: the journal did not have it."""
    shop = Registered(tmp_path, "avro")
    strange = framed(77, b"\x02a")
    shop.write("visits", strange)
    shop.feed(3)
    shop.run()
    ids = [shop.registry.register(f"later{n}-value", _numbered(n)) for n in range(80)]
    assert 77 in ids

    assert shop.dead() == [("unknown_schema", strange)]
    shop.run()  # another start, by the journal
    assert shop.dead() == [("unknown_schema", strange)]


def _numbered(number: int) -> str:
    return json.dumps({"type": "fixed", "name": f"F{number}", "size": number})


def test_records_wait_while_the_registry_does_not_answer(tmp_path, monkeypatch) -> None:
    """No record becomes a dead letter for it; the same predictions, later."""
    shop = Registered(tmp_path, "avro")
    shop.feed(10)
    monkeypatch.setattr(supply, "FIRST_PAUSE", 0.001)
    failing = Failing(shop.registry, failures=4)
    monkeypatch.setattr("consumers.service.runner.registry_of", lambda config: failing)

    Runner(shop.config, shop.log, threading.Event(), drain=True).run()

    assert failing.asked == 6  # two ids, and four failures
    assert len(shop.predictions()) == 10
    assert shop.dead() == []


def test_drain_ends_when_the_registry_stays_away(tmp_path, monkeypatch) -> None:
    """Nobody watches a drain, so it fails after some attempts; nothing is lost."""
    shop = Registered(tmp_path, "avro")
    shop.feed(4)
    monkeypatch.setattr(supply, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr("consumers.service.runner.PAUSE_SECONDS", 0.001)
    failing = Failing(shop.registry, failures=10**6)
    monkeypatch.setattr("consumers.service.runner.registry_of", lambda config: failing)

    with pytest.raises(RegistryError, match="does not answer"):
        Runner(shop.config, shop.log, threading.Event(), drain=True).run()

    monkeypatch.undo()
    assert shop.predictions() == shop.dead() == []
    shop.run()
    assert len(shop.predictions()) == 4


def test_shard_that_was_followed_writes_with_the_registered_schema(tmp_path) -> None:
    """A standby never asks the registry; the runner that takes over has asked."""
    shop = Registered(tmp_path, "avro")
    shop.feed(5)
    shop.run()
    found = sources(shop.config, shop.log)
    end = shop.log.end_offsets([found.journal])[found.journal]
    warm = rebuild(shop.config, shop.log, found, None, end=end)
    shop.feed(5, first=5)

    stop = threading.Event()
    Runner(shop.config, shop.log, stop, drain=True, warm=lambda: warm).run()

    assert not warm.rebuilt
    assert len({schema_id(r.value) for r in shop.records("shop-predictions")}) == 1
    assert len(shop.predictions()) == 10


@pytest.mark.parametrize("name", FORMATS)
def test_predictions_are_cloudevents_on_request(tmp_path, name) -> None:
    """From the start that sets it on; each has an id of its own."""
    shop = Registered(tmp_path, name)
    shop.feed(2)
    shop.run()
    shop.feed(2, first=2)
    shop.run(shop.configured(f"[output]\ncloudevents = true\n{HEADLESS}"))

    headers = [dict(r.headers) for r in shop.records("shop-predictions")]
    assert headers[:2] == [{}, {}]
    assert [h["ce_id"] for h in headers[2:]] == [b"visits:0:2", b"visits:0:3"]
    assert headers[3]["ce_subject"] == b"3"
    assert headers[3]["ce_time"] == b"2026-11-18T11:06:40.030+00:00"
    media = {"avro": b"application/avro", "protobuf": b"application/protobuf"}
    assert headers[3]["content-type"] == media.get(name, b"application/json")


def test_trial_of_suspected_records_decodes_without_the_registry(tmp_path) -> None:
    """The child gets the schemas with the state, and no section that may hold a secret."""
    shop = Registered(tmp_path, "avro")
    shop.feed(3)
    shop.run()
    found = sources(shop.config, shop.log)
    end = shop.log.end_offsets([found.journal])[found.journal]
    live = rebuild(shop.config, shop.log, found, None, end=end)
    shop.feed(2, first=3)
    parts = list(shop.log.read(live.shard.positions, shop.log.end_offsets(found.inputs)))
    trials = TrialProcesses(
        shop.config, tmp_path, seconds=60, turn=lambda: None, stopping=lambda: False
    )

    with trials.of(live, parts, NOW + 1_000) as process:
        ended = process.run(4)
    handed = trial.handed(shop.config)

    assert (ended.end, ended.how) == ("lived", "")
    assert handed["registry"] == {"url": "mock://"}
    assert list(live.shard.schemas)


def test_renamed_field_is_found_by_the_alias_of_the_readers_schema(tmp_path) -> None:
    """A producer renames `amount` to `sum` and drops nothing else; old and new records agree."""
    text = json.loads(SCHEMAS["avro"]["visits"])
    new = json.loads(SCHEMAS["avro"]["visits"].replace('"amount"', '"sum"'))
    text["fields"][1] |= {"aliases": ["sum"], "default": None}
    (tmp_path / "reader.avsc").write_text(json.dumps(text))
    shop = Registered(tmp_path, "avro")
    shop.feed(6)
    shop.registry.register(subject_of("visits"), json.dumps(new))
    renamed = shop.registry.latest(subject_of("visits"))
    assert renamed is not None
    write = wire_format("avro").writer(renamed[1])
    visit = {"id": "new", "sum": 3.0, "shop": {"city": "Bonn"}}
    shop.write("visits", framed(renamed[0], write(visit)), key=b"new")
    config = _with_reader(shop, json.dumps(text))
    shop.run(config)

    assert shop.dead() == []
    assert len(shop.predictions()) == 7
    with pytest.raises(ConfigError, match=r"input\.reader_schema"):
        shop.run(_with_reader(shop, json.dumps({**text, "doc": "another"})))


def _with_reader(shop: Registered, text: str):
    source = shop.config.input.model_copy(update={"reader_schema": text})
    return shop.config.model_copy(update={"input": source})
