"""Drift in the service: alarms at their records, in the journal's chain, across restarts."""

from __future__ import annotations

import json
import threading
from functools import partial
from itertools import pairwise

import pytest

from consumers.base.errors import ConfigError, TransportError
from consumers.base.records import Partition
from consumers.service.recovery import sources
from consumers.shard.assembly import check_drift
from consumers.shard.batches import Commit
from consumers.shard.challengers import ChallengerSet
from consumers.snapshots.format import from_bytes, to_bytes
from consumers.timetravel.rollback import roll_back
from stream import Schema
from stream.drift import DETECTORS, DriftRule, MonitorRule
from stream.drift.watch import Monitor
from tests.consumers.feeds import NOW, batch, config, fill, phishing, shard, stream
from tests.consumers.snapshots.test_snapshots import about

RULE = DriftRule(
    (
        MonitorRule("error", "DDM", {}, "forget"),
        MonitorRule("feature:a", "PageHinkley", {"threshold": 12.0}),
        MonitorRule("feature:urgent", "ADWIN", {"delta": 0.5, "clock": 1}),
        MonitorRule("log_loss", "PageHinkley", {"threshold": 5.0}, "reset"),
    ),
    keep=30,
    warm_up=10,
)
RESET = """
[drift]
action = "reset"
warm_up = 50
detectors = [{on = "error", type = "DDM"}, {on = "score", type = "ADWIN", action = "alert"}]
"""
FORGET = """
[drift]
action = "forget"
keep = 100
warm_up = 50
detectors = [{on = "error", type = "HDDM_A"}]
"""
CHOICE = """
[drift]
action = "challenger"
warm_up = 50
detectors = [{on = "error", type = "DDM"}]
[[challenger]]
name = "quick"
type = "GaussianNB"
half_life = 30
"""


def run(machine, records, cuts=()):
    """All records in batches that end at `cuts`: predictions, alarms."""
    predictions, alarms = [], []
    for start, stop in pairwise([0, *sorted(cuts), len(records)]):
        part = batch(records[start:stop])
        outcome = machine.process(part, NOW, Commit(drift=machine.drift_change))
        predictions += [p.value for p in outcome.predictions()]
        alarms += outcome.alarms
    return predictions, alarms


def turned(n: int) -> list:
    """Phishing, its labels the other way round from the middle on."""
    return [(x, y if i < n // 2 else not y) for i, (x, y) in enumerate(phishing(n))]


@pytest.fixture
def service(make_service):
    """A service over 1,000 records that turn in the middle."""
    made = make_service()
    fill(made.log, turned(1000), delay=20)
    return made


@pytest.mark.parametrize("cuts", [[200], list(range(7, 500, 7)), list(range(1, 500))],
                         ids=["halves", "sevens", "single"])  # fmt: skip
def test_any_cut_of_a_stream_alarms_and_acts_the_same(cuts) -> None:
    """Predictions, alarms with their places, and state; labels late, early, double, missing."""
    records = stream(300, seed=4)
    whole, cut = shard(drift=RULE), shard(drift=RULE)
    said = run(whole, records)

    assert run(cut, records, cuts) == said
    assert cut.fingerprint() == whole.fingerprint()
    assert {alarm.on for alarm in said[1]} >= {"feature:a", "log_loss"}
    assert whole.view().drift.actions


def test_an_alarm_names_its_record() -> None:
    """Topic, partition, offset and stream time of the record behind which it was raised."""
    machine = shard(drift=RULE)
    records = stream(300, seed=4)
    _, alarms = run(machine, records)
    alarm = alarms[0]
    where = {(r.topic, r.partition, r.offset): r for r in records}
    record = where[(*alarm.partition, alarm.offset)]

    assert alarm.time == min(record.timestamp, NOW + 60_000)  # a clock ahead is not believed
    assert alarm.before != alarm.after
    assert [a.scored for a in alarms] == sorted(a.scored for a in alarms)
    assert machine.view().drift.last == tuple(alarms[-20:])
    told = {(m.detector, m.on): m.alarms for m in machine.view().drift.monitors}
    assert sum(told.values()) == len(alarms)


def test_challengers_change_no_alarm_and_no_dead_letter() -> None:
    """Whether they could speak, which has records taken one by one, or not; explained or not."""
    records = stream(300, seed=4)
    alone = shard(drift=RULE)
    _, alarms = run(alone, records)
    for explain, threshold in ((0, None), (2, None), (2, 1e300)):
        machine = shard(drift=RULE, explain=explain)
        machine.set_challengers(
            ChallengerSet({"rival": {"type": "CategoricalNB", "parameters": {}}}, threshold)
        )

        assert run(machine, records)[1] == alarms
        assert machine.view().dead_letters == alone.view().dead_letters
        assert machine.learner.fingerprint() == alone.learner.fingerprint()


def test_without_drift_nothing_is_watched_or_told() -> None:
    """Neither in the state nor in the view."""
    machine = shard()
    run(machine, stream(50, seed=1))

    assert machine.view().drift is None
    assert "drift" not in machine.to_state().header


def test_every_detector_lives_in_snapshots() -> None:
    """So do the records for a restart: the restored shard continues with the same bits."""
    on = {True: "error", False: "score"}
    monitors = [MonitorRule(on[kind.binary], name) for name, kind in DETECTORS.items()]
    rule = DriftRule((*monitors, MonitorRule("log_loss", "ADWIN", {}, "forget")), 30, 10)
    records = stream(300, seed=2)
    going, restored = shard(drift=rule), shard(drift=rule)
    run(going, records[:400])
    _, back = from_bytes(to_bytes(about(), going.to_state()))
    restored.load_state(back)

    assert restored.fingerprint() == going.fingerprint()
    assert run(restored, records[400:]) == run(going, records[400:])
    assert restored.fingerprint() == going.fingerprint()
    assert restored.drift_change is None


@pytest.mark.parametrize("more", [RESET, FORGET], ids=["reset", "forget"])
def test_a_model_that_began_anew_comes_out_of_the_journal_again(service, more) -> None:
    """Run in three lives with snapshots between; replayed from nothing: the same bits."""
    service.run(stop_after=8, more=more)
    service.run(stop_after=8, more=more, every_records=10**6)
    view = service.run(more=more)
    rebuilt = service.rebuilt()

    assert sum(view.drift.actions.values()) > 0
    assert rebuilt.shard.view().drift == view.drift
    assert view.quality.scores["last_1000"].accuracy > 0.75
    assert service.rebuilt(more=more).shard.fingerprint() == service.fingerprint()


def test_an_alarm_changes_the_champion_and_a_replay_does_too(service) -> None:
    """Predictions name who made them; the journal alone leads to the same champion."""
    view = service.run(more=CHOICE)
    rebuilt = service.rebuilt().shard
    made_by = [json.loads(value)["model"]["name"] for _, _, value in service.predictions()]

    assert view.drift.actions == {"challenger": 1}
    assert rebuilt.champion == "quick"
    assert rebuilt.fingerprint() == service.rebuilt(more=CHOICE).shard.fingerprint()
    first = made_by.index("quick")
    assert 500 < first < 700
    assert set(made_by[:first]) == {"svc"}
    assert set(made_by[first:]) == {"quick"}


def test_the_journal_says_what_was_watched_where_that_changed(service) -> None:
    """So [drift] may be changed at any time, and an old entry is replayed by its own rule."""
    service.run(stop_after=5, more=RESET)
    service.run(stop_after=5, more=FORGET)
    service.run(stop_after=5, more=FORGET)
    view = service.run()
    said = [entry.drift for entry in service.entries()]
    rules = [s for s in said if s is not None]

    assert [s is not None for s in said[:11]] == [True, *[False] * 4, True, *[False] * 4, False]
    assert [len(rule.get("monitors", ())) for rule in rules] == [2, 1, 0]
    assert view.drift is None
    assert service.rebuilt(more=RESET).shard.fingerprint() == service.fingerprint()


def test_a_rule_of_a_newer_version_is_one_line() -> None:
    """Not a traceback, and not a detector left out."""
    newer = {"monitors": [{"on": "error", "type": "NEWER"}], "keep": 1, "warm_up": 0}

    with pytest.raises(TransportError, match="run the version that wrote it") as caught:
        shard().process(batch(stream(3, seed=1)), NOW, Commit(drift=newer))
    assert "\n" not in str(caught.value)


def test_the_chain_vouches_for_alarms(service, monkeypatch) -> None:
    """A replay in which a detector is silent is another history, though no model changed."""
    alert = RESET.replace('"reset"', '"alert"')
    view = service.run(more=alert)
    assert view.drift.last

    monkeypatch.setattr(Monitor, "look", lambda self, values: -1)
    with pytest.raises(TransportError, match="the replay diverged"):
        service.rebuilt()


def test_a_rollback_takes_alarms_back(service) -> None:
    """What was done because of them too: it is part of the history that is cut out."""
    view = service.run(more=RESET)
    found = sources(service.config(), service.log)
    owner = service.log.owner("svc", 0, found.inputs)
    roll_back(service.log, owner, found, service.rebuilt(4), now=2 * NOW, reason="a test")
    owner.close()
    after = service.rebuilt().shard.view()

    assert view.drift.last
    assert view.drift.actions
    assert (after.drift.last, after.drift.actions) == ((), {})


def test_a_feature_that_was_inferred_otherwise_is_one_line(tmp_path) -> None:
    """Where [features] says nothing, it is known at the start only."""
    text = '[drift]\ndetectors = [{on = "feature:height", type = "ADWIN"}]'
    settings = config(tmp_path, "memory:x", features=("height",), more=text)

    check_drift(settings, Schema.of(height="binary"))
    with pytest.raises(ConfigError, match="no numeric feature 'height'; only numbers"):
        check_drift(settings, Schema.of(height="categorical"))


def test_alarms_are_committed_in_order(service) -> None:
    """Each commit tells its own; together, the last twenty are those of the view."""
    told: list = []
    listen = partial(_told, told)
    view = service.runner(threading.Event(), listen, None, more=RESET).run()

    assert told
    assert tuple(told[-20:]) == view.drift.last
    assert all(alarm.partition in (Partition("obs", 0), Partition("ans", 0)) for alarm in told)


def _told(told: list, event, view) -> None:
    told.extend(event.alarms)
