"""Records in child processes: every way to die is recognized, and nothing else is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from pydantic import ValidationError

from consumers.base.records import Outgoing
from consumers.config import Config, parse
from consumers.config.learner import Trust
from consumers.journal.records import IdentityRecord, defaults_of
from consumers.service import trial
from consumers.service.crash_guard import TrialResult
from consumers.service.live import LiveShard
from consumers.service.recovery import sources
from consumers.service.trial import NOT_HANDED, TrialProcesses, _cause, _load, handed
from consumers.shard.assembly import shard_of
from consumers.shard.spec import ShardSpec
from consumers.transports import open_log
from tests.config.every_key import SECRETS, VARIANTS, every_key, keys, place, shown, toml, written
from tests.consumers.deadly import TRIAL
from tests.consumers.feeds import NOW, fill, phishing
from tests.consumers.service.test_crash_guard import AB, fed

RIVER = "river:naive_bayes.GaussianNB"
EVERYTHING = f"""
[labels]
max_pending = 150
[decision]
reject = 0.3
[output]
top = 1
[promotion]
rule = "e_value"
[[challenger]]
name = "near"
type = "KNNClassifier"
window = 20
[[challenger]]
name = "stream"
type = "{RIVER}"
[[drift.detectors]]
on = "error"
type = "ADWIN"
action = "challenger"
"""


def begun(service, config: Config) -> LiveShard:
    """The shard before its first record."""
    found = sources(config, service.log)
    schema = config.declared_schema
    assert schema is not None
    shard = shard_of(config, schema)
    shard.positions = dict.fromkeys(found.inputs, 0)
    entry = IdentityRecord(config.name, 0, {}, [], [], "born", {"type": "MixedNB"}, {})
    return LiveShard(shard, 0, 0, 0, "mark", schema.fields, entry)


@pytest.fixture
def court(make_service, monkeypatch):
    """Opens a court over four records of which the third observation is deadly once learned."""
    service = make_service()
    fed(service, 4, {2})
    config = service.config(features=AB)
    model = config.model.model_copy(update={"type": RIVER})
    config = config.model_copy(update={"model": model})
    monkeypatch.setattr(trial, "COMMAND", [sys.executable, "-m", "tests.consumers.deadly", TRIAL])
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    found = sources(config, service.log)
    turns = []

    @contextmanager
    def opened(by: str, seconds: float = 60.0, stopping=lambda: False) -> Iterator[object]:
        monkeypatch.setenv("DEADLY_BY", by)
        parts = list(
            service.log.read(dict.fromkeys(found.inputs, 0), service.log.end_offsets(found.inputs))
        )
        trials = TrialProcesses(
            config,
            service.directory,
            seconds=seconds,
            turn=lambda: turns.append(time.monotonic()),
            stopping=stopping,
        )
        live = begun(service, config)
        before = live.shard.view()
        with trials.of(live, parts, NOW + 1_000) as process:
            yield process
        assert turns
        assert live.shard.view().observations == before.observations == 0
        assert list(service.directory.iterdir()) == []

    return opened


@pytest.mark.parametrize(
    ("by", "how", "outside"),
    [
        ("SIGSEGV", "SIGSEGV", False),
        ("SIGKILL", "SIGKILL", True),
        ("exit", "exit code 0", False),
        ("hang", "did not return within 1 s", False),
        ("sleep", "did not return within 1 s", False),
        ("memory", "more memory than there is", False),
    ],
)
def test_record_that_ends_or_stops_its_process_is_seen(court, by, how, outside) -> None:
    """With what comes before it the third label kills; without it, or passed over, all live."""
    with court(by, 1.0 if "within" in how else 60.0) as process:
        died, lived, passed = process.run(6), process.run(5), process.run(1, without_first=True)

    assert (died.end, died.outside) == ("died", outside)
    assert how in died.how
    assert (lived.end, passed.end) == ("lived", "lived")


def test_exception_is_no_death(court) -> None:
    """It will stop the service with its message."""
    with court("raise") as process:
        assert process.run(8).end == "lived"


def test_too_little_memory_for_two_states_says_nothing(court) -> None:
    """The child would die of the state's second copy, not of the record."""
    with court("crowded") as process:
        fate = process.run(8)

    assert fate.end == "unclear"
    assert "less than 256 MiB of memory is free" in fate.how


def test_process_that_ends_or_is_not_wanted_any_more_says_nothing(court, monkeypatch) -> None:
    """Nobody is condemned by it, and nothing waits for it."""
    with court("SIGSEGV", stopping=lambda: True) as process:
        assert process.run(8).end == "unclear"
    monkeypatch.setattr(trial, "COMMAND", [sys.executable, "-c", "import sys; sys.exit(1)"])
    with court("SIGSEGV") as process:
        first, second = process.run(8), process.run(1)

    assert (first.end, second.end) == ("unclear", "unclear")
    assert "has ended" in first.how


def test_child_begins_with_the_very_state_of_the_service(make_service, tmp_path) -> None:
    """Bit for bit, whatever the shard holds: rivals of river that no snapshot holds, too."""
    service = make_service()
    fill(service.log, phishing(200))
    service.run(more=EVERYTHING)
    live = service.rebuilt(more=EVERYTHING)
    config = service.config(more=EVERYTHING)
    trials = TrialProcesses(
        config,
        tmp_path,
        seconds=1,
        turn=lambda: None,
        stopping=lambda: False,
    )
    with trials._file() as file:
        trials._write(file, live, [], 7)
        file.seek(0)
        case, shard = _load(file)

    assert live.shard.unsaved == ["stream"]
    with live.shard.pickling():
        assert shard.fingerprint() == live.shard.fingerprint()
    assert repr(shard.spec) == repr(as_sent(live.shard.spec, shard.spec.trusted))
    assert (case.now, case.parts) == (7, [])


def as_sent(spec: ShardSpec, trusted: Trust) -> ShardSpec:
    """The settings of a shard in a child, which trusts other challengers."""
    return replace(spec, config=arrived(spec.config), trusted=trusted)


def arrived(config: Config) -> Config:
    """The configuration as a child has it."""
    sent = msgspec.msgpack.encode(handed(config), enc_hook=str)
    return Config.model_validate(msgspec.msgpack.decode(sent))


RICH = """
name = "x"
features={a="numeric",b.c="numeric"}
labels={corrections=true,horizon="2h"}
[input]
transport="kafka://h:1"
observations="o"
labels="l"
start=2024-03-01T12:00:00Z
[model]
type="KNNClassifier"
window=500
max_state_bytes="64MiB"
[[challenger]]
name="r"
type="river:tree.HoeffdingTreeClassifier"
pipeline=["preprocessing.StandardScaler"]
seed=3
[promotion]
rule="e_value"
[decision]
losses.lend={pays=0,defaults=10}
losses.no={pays=1,defaults=0}
reject=0.5
[drift]
keep=20
[[drift.detectors]]
on="error"
type="ADWIN"
action="forget"
[commit]
max_bytes="2MiB"
[http]
web_config="a.yml"
[snapshots]
directory="~/x"
[kafka]
client_id="a"
"""


def test_configuration_arrives_as_it_was_written() -> None:
    """Dates, paths, sizes and the order of losses; but for the sections that hold secrets."""
    config = parse(RICH)
    came = arrived(config)

    assert came.model_dump(exclude=NOT_HANDED) == config.model_dump(exclude=NOT_HANDED)
    assert list(came.decision.losses or ()) == ["lend", "no"]
    assert came.kafka == {}


def test_keys_on_disk_arrive_without_the_answers_that_exclude_them() -> None:
    """The child has all keys in memory, and answers no requests."""
    text = RICH.replace('type="KNNClassifier"\nwindow=500', 'per="t"\nkeys_on_disk=true')
    text = text.replace('action="forget"', "") + "[serve]\nenabled=false\n"
    config = parse(text.replace("corrections=true,", ""))

    assert arrived(config).model == config.model


def everything(directory: Path, monkeypatch: pytest.MonkeyPatch, variant: str) -> Config:
    """A configuration with every key."""
    place(directory, monkeypatch.setenv)
    return parse(toml(every_key(variant)), directory=directory)


def test_every_key_of_every_section_is_set(tmp_path, monkeypatch) -> None:
    """The test below forgets none: not one that is added, nor one whose default is changed."""
    every = [everything(tmp_path, monkeypatch, variant) for variant in VARIANTS]

    assert set[str]().union(*map(written, every)) == keys()


@pytest.mark.parametrize("variant", VARIANTS)
def test_record_is_tried_whatever_is_configured(tmp_path, monkeypatch, variant) -> None:
    """In a real process, with the same rules as the service; no secret leaves the service."""
    config = everything(tmp_path, monkeypatch, variant)
    log = open_log(config.input.transport)
    for topic in config.topics.values():
        log.create_topic(topic, 1)
    value = b'{"key":{"id":"1"},"a":1,"b":{"c":2},"d":"x","truth":"pays"}'
    log.append([Outgoing(config.input.observations, None, value, NOW, (), 0)])
    found = sources(config, log)
    assert config.declared_schema is not None
    entry = IdentityRecord(config.name, 0, {}, [], [], "born", {"type": "MixedNB"}, {})
    shard = shard_of(config, config.declared_schema, defaults=defaults_of(entry))
    shard.positions = dict.fromkeys(found.inputs, 0)
    live = LiveShard(shard, 0, 0, 0, "mark", config.declared_schema.fields, entry)
    parts = list(log.read(dict.fromkeys(found.inputs, 0), log.end_offsets(found.inputs)))
    trials = TrialProcesses(config, tmp_path, seconds=60, turn=lambda: None, stopping=lambda: False)
    with trials._file() as file:
        trials._write(file, live, parts, NOW)
        file.seek(0)
        case = file.read()
        file.seek(0)
        _, loaded = _load(file)

    assert shown(case) == []
    assert repr(loaded.spec) == repr(as_sent(shard.spec, loaded.spec.trusted))
    with trials.of(live, parts, NOW) as process:
        assert process.run(1) == TrialResult("lived")
    log.close()


def test_configuration_that_does_not_arrive_is_named_without_its_values() -> None:
    """What the process answers goes to the log of the service."""
    with pytest.raises(ValidationError) as caught:
        Config.model_validate({"name": "x", "snapshots": {"key": SECRETS[1]}})

    assert _cause(caught.value) == (
        "the configuration did not arrive as it was sent: input (missing), "
        "snapshots.key (is_instance_of)"
    )
    assert SECRETS[1][:8] not in str(caught.value)
    assert _cause(ValueError(SECRETS[1])) == "ValueError"
