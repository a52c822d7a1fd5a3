"""Back in time: any moment of the journal, any prediction again, and a span cut out for good."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consumers.base.errors import ConfigError, FencedError, TransportError
from consumers.journal import records as journal
from consumers.journal.records import CommitRecord, RollbackRecord
from consumers.service.live import LiveShard
from consumers.service.recovery import recover, sources
from consumers.snapshots.store import SnapshotStore
from consumers.timetravel.audit import audit, find
from consumers.timetravel.moment import clock, moment, rebuild_at
from consumers.timetravel.rollback import cut_from, roll_back
from tests.consumers.feeds import NOW, feed, fill, phishing

PLACES = ["memory", "sqlite"]


@pytest.fixture(params=PLACES)
def ran(make_service, request: pytest.FixtureRequest):
    """A service that drained 300 records in commits of 40, without snapshots but the last."""
    service = make_service(request.param)
    fill(service.log, phishing(300))
    service.run(max_records=40)
    return service


def store_of(service) -> SnapshotStore:
    """Its snapshots."""
    return SnapshotStore(Path(service.directory) / "headwater-state" / "svc" / "shard-0")


def at(service, when: str) -> LiveShard:
    """The shard as it was then."""
    config, found = service.config(), sources(service.config(), service.log)
    then = moment(service.log, found.journal, when)
    return rebuild_at(config, service.log, found, store_of(service), then)


def entries_of(service) -> list[CommitRecord]:
    """The journal, but for entry 0."""
    return [journal.decode(r.value) for r in service.records("svc-journal")][1:]


def cut_to(service, when: str) -> RollbackRecord:
    """Roll back to that moment."""
    config, found = service.config(), sources(service.config(), service.log)
    live = rebuild_at(
        config, service.log, found, store_of(service), moment(service.log, found.journal, when)
    )
    owner = service.log.owner("svc", 0, found.inputs)
    return roll_back(service.log, owner, found, live, now=NOW, reason="labels were wrong")


def test_any_position_is_the_run_that_ended_there(ran, make_service) -> None:
    """The same records, stopped after three commits: the same bits."""
    stopped = make_service("memory")
    fill(stopped.log, phishing(300))
    stopped.run(max_records=40, stop_after=3)

    then = at(ran, "4")
    assert then.seq == 3
    assert then.shard.fingerprint() == stopped.fingerprint()


def test_a_time_is_the_last_entry_until_then(ran) -> None:
    """By the journaled clock."""
    entries = entries_of(ran)
    last = [e.seq for e in entries if e.now <= entries[2].now][-1]

    assert at(ran, clock(entries[2].now)).seq == last
    assert at(ran, "2999-01-01").seq == entries[-1].seq


@pytest.mark.parametrize("when", ["0", "yesterday", "-3", "4711"])
def test_a_moment_that_is_none_is_one_line(ran, when) -> None:
    """Before the journal or beyond it, or no position and no time."""
    told = r"before the start of|after the end of the journal .*, which is \d|position or a time"
    with pytest.raises(ConfigError, match=told):
        at(ran, when)


def test_beyond_what_is_kept_it_names_the_earliest_moment(ran, make_service) -> None:
    """The journal's head is gone; the last snapshot is all that reaches back."""
    found = sources(ran.config(), ran.log)
    then = moment(ran.log, found.journal, "3")
    config = ran.config()
    ran.log = _Trimmed(ran.log, found.journal, 2)

    with pytest.raises(TransportError, match=r"earliest that can be rebuilt is journal position"):
        rebuild_at(config, ran.log, found, store_of(ran), then)


class _Trimmed:
    """A log whose journal lost its first offsets."""

    def __init__(self, log, partition, first: int) -> None:
        self._log, self._partition, self._first = log, partition, first

    def __getattr__(self, name: str):
        return getattr(self._log, name)

    def beginning_offsets(self, partitions):
        begins = self._log.beginning_offsets(partitions)
        return {p: self._first if p == self._partition else at for p, at in begins.items()}


@pytest.mark.parametrize("explain", [0, 3])
def test_a_prediction_comes_out_again_byte_for_byte(ran, make_service, explain) -> None:
    """By id and by place, whatever the service explains; with what it rested on."""
    service = make_service("memory")
    fill(service.log, phishing(300))
    more = f"[output]\nexplain = {explain}\n"
    service.run(max_records=40, more=more)
    config, found = service.config(more=more), sources(service.config(), service.log)
    said = json.loads(service.records("svc-predictions")[200].value)
    place = f"{said['position']['topic']}:0:{said['position']['offset']}"

    for what in (said["id"], place):
        made = audit(config, service.log, found, store_of(service), what)
        assert made.same
        assert made.explained is not None
        why = json.loads(made.explained.value)["explanation"]
        assert sum(share for _, share in why["top"]) == pytest.approx(why["log_odds"], rel=0.5)


def test_a_prediction_that_was_changed_shows(ran) -> None:
    """One digit of a probability in the topic."""
    config, found = ran.config(), sources(ran.config(), ran.log)
    record = find(config, ran.log, json.loads(ran.records("svc-predictions")[150].value)["id"])[0][
        0
    ]
    made = audit(config, ran.log, found, store_of(ran), record.key.decode())
    forged = made.published._replace(value=record.value.replace(b"0.", b"0.1", 1))

    assert made.same
    assert not type(made)(forged, made.again, made.entry, made.explained).same


def test_what_was_never_predicted_is_one_line(ran) -> None:
    """An unknown id, and an offset nobody consumed."""
    config, found = ran.config(), sources(ran.config(), ran.log)

    with pytest.raises(ConfigError, match="no prediction of 'nobody'"):
        audit(config, ran.log, found, None, "nobody")
    with pytest.raises(ConfigError, match="in no record of the journal"):
        audit(config, ran.log, found, None, "obs:0:100000")


def test_a_rollback_is_the_model_of_then_and_goes_on_behind_what_was_consumed(
    ran, make_service
) -> None:
    """As if the records between had never been learned; each restart says the same."""
    then = at(ran, "4").shard
    reset = cut_to(ran, "4")
    rebuilt = ran.rebuilt()

    assert (reset.to, reset.seq) == (3, entries_of(ran)[-1].seq)
    assert rebuilt.chain == reset.chain
    assert rebuilt.shard.view().learned == then.view().learned
    assert rebuilt.shard.learner.fingerprint() == then.learner.fingerprint()
    assert rebuilt.shard.positions != then.positions

    ran.log.append([r for r in feed(phishing(400), 50) if int(r.key) >= 300])
    view = ran.run(max_records=40)
    assert view is not None
    assert view.observations == then.view().observations + 100
    assert len(ran.predictions()) == 400
    assert ran.rebuilt().shard.fingerprint() == ran.fingerprint()


def test_no_snapshot_of_what_was_cut_out_is_used(ran) -> None:
    """The last one lies in the span: a start passes it over and says why."""
    config, found = ran.config(), sources(ran.config(), ran.log)
    cut_to(ran, "4")
    owner = ran.log.owner("svc", 0, found.inputs)
    live = recover(config, ran.log, owner, found, store_of(ran), now=NOW)

    assert any("removed from the history by record" in line for line in live.refused)
    assert live.shard.fingerprint() == ran.rebuilt().shard.fingerprint()


def test_a_rollback_of_a_rollback_brings_back_what_was_cut(ran) -> None:
    """To a moment inside the span: the first reset is itself cut out."""
    sixth = at(ran, "7").shard.learner.fingerprint()
    cut_to(ran, "4")
    again = cut_to(ran, "7")

    assert again.to == 6
    assert ran.rebuilt().shard.learner.fingerprint() == sixth


def test_what_would_be_cut_is_counted(ran) -> None:
    """Entries and records behind the moment."""
    found = sources(ran.config(), ran.log)
    entries = entries_of(ran)
    cut = cut_from(ran.log, found, moment(ran.log, found.journal, "4"))

    assert cut.entries == len(entries) - 3
    assert cut.records == sum(sum(r.count for r in e.ranges) for e in entries[3:])
    assert cut.last.seq == entries[-1].seq


def test_a_rollback_fences_the_running_owner(ran) -> None:
    """It learned on from what was cut out: it must not commit any more (I8)."""
    found = sources(ran.config(), ran.log)
    old = ran.log.owner("svc", 0, found.inputs)
    cut_to(ran, "4")

    with pytest.raises(FencedError):
        old.confirm({})
