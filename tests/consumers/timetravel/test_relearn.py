"""New settings under the same name: learned again from the journal, swapped at one record."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from random import Random

import pytest

from consumers.base.errors import ConfigError, DivergedError, FencedError, TransportError
from consumers.cluster.standby import Follower
from consumers.config import Config
from consumers.journal import records as journal
from consumers.journal.reader import course
from consumers.journal.records import JournalRecord, RelearnRecord
from consumers.service.live import LiveShard
from consumers.service.promotion import promote
from consumers.service.recovery import about_of, rebuild, recover, sources
from consumers.service.replay import replay
from consumers.service.runner import Runner
from consumers.snapshots.format import from_bytes
from consumers.snapshots.store import open_store
from consumers.timetravel.audit import audit
from consumers.timetravel.moment import moment, rebuild_at
from consumers.timetravel.relearn import learned_again, swap
from consumers.timetravel.rollback import roll_back
from consumers.transports import open_log
from tests.consumers.feeds import NOW, config_text, feed, fill, phishing
from tests.consumers.snapshots.test_snapshots_trimmed import JOURNAL, OBS, Trimmed
from tests.seed import seeds
from tests.topics import widen
from tests.waiting import until

OLD = 'type = "GaussianNB"'
NEW = 'type = "MixedNB"\nhalf_life = 80'
CORRECTED = "[labels]\ncorrections = true"
MODELS = (
    OLD,
    NEW,
    'type = "GaussianNB"\nhalf_life = 50',
    'type = "LogisticRegression"',
    'type = "KNNClassifier"\nwindow = 60',
    'type = "auto"',
    'type = "CategoricalNB"\nbins = {strategy = "quantile", n_bins = 4}',
    'type = "river:tree.HoeffdingTreeClassifier"\ntrust_pickle = true',
)
DRIFT = """
[drift]
warm_up = 10
action = "{}"
detectors = [{{on = "error", type = "ADWIN", delta = 0.9, clock = 1, grace_period = 5}}]
"""
CORRECTABLE = (0, 1, 2)  # of MODELS: can unlearn a label


def rows(first: int, end: int) -> list:
    """Records `first` to `end` - 1 of the feed: each label 50 records late, every fifth changes."""
    return [r for r in feed(phishing(end), 50) if int(r.key or b"0") >= first]


def corrected(first: int, end: int) -> list:
    """Second labels of every fifth record."""
    records = [r for r in rows(first, end) if r.topic == "ans" and int(r.key) % 5 == 0]
    out = []
    for r in records:
        value = json.loads(r.value)
        value["label"] = not value["label"]
        out.append(r._replace(value=json.dumps(value).encode(), timestamp=r.timestamp + 300))
    return out


def learned(service, **changes) -> RelearnRecord:
    """Re-learn with these settings, as the command does."""
    config = service.config(**changes)
    found, store = sources(config, service.log), open_store(config, 0)
    both = learned_again(config, service.log, found, store)
    return swap(config, service.log, [both], now=NOW, reason="better")[0]


def entries(service) -> list[JournalRecord]:
    """The whole journal."""
    return [journal.decode(r.value) for r in service.records("svc-journal")]


def rebuilt(service, end: int | None = None, **changes) -> LiveShard:
    """From the journal alone."""
    return service.rebuilt(end, **changes)


def cut_to(service, position: int, **changes) -> None:
    """Roll back to a journal position."""
    config, found = service.config(**changes), sources(service.config(**changes), service.log)
    store = open_store(config, 0)
    then = moment(service.log, found.journal, str(position))
    live = rebuild_at(config, service.log, found, store, then)
    owner = service.log.owner("svc", 0, found.inputs)
    roll_back(service.log, owner, found, live, now=NOW, reason="")
    owner.close()
    part = store.of(live.identity)
    with part.locked():
        part.write(about_of(config, live), live.shard.to_state())


@pytest.fixture(params=["memory", "sqlite"])
def ran(make_service, request: pytest.FixtureRequest):
    """A service that drained 300 records, with snapshots."""
    service = make_service(request.param)
    fill(service.log, phishing(300))
    service.run(max_records=40, every_records=100)
    return service


def test_model_after_the_swap_is_a_fresh_run_with_the_new_settings(ran, make_service) -> None:
    """Same state, same bits, also by a later start, from a snapshot or from nothing."""
    before = ran.predictions()
    entry = learned(ran, model=NEW, more=CORRECTED)
    fresh = make_service("memory")
    fill(fresh.log, phishing(300))
    fresh.run(max_records=23, model=NEW, more=CORRECTED)
    here = rebuilt(ran, model=NEW, more=CORRECTED)

    assert here.shard.fingerprint() == fresh.rebuilt(model=NEW, more=CORRECTED).shard.fingerprint()
    assert (here.seq, here.entry.since, here.chain) == (entry.seq, entry.seq, entry.chain)
    assert ran.predictions() == before, "what was published stays"
    for log in (ran.log, fresh.log):
        log.append(rows(300, 400))
    ran.run(max_records=31, model=NEW, more=CORRECTED)
    fresh.run(max_records=40, model=NEW, more=CORRECTED)
    assert ran.predictions()[: len(before)] == before
    assert ran.predictions()[len(before) :] == fresh.predictions()[len(before) :]
    assert (
        ran.rebuilt(model=NEW, more=CORRECTED).shard.fingerprint()
        == fresh.rebuilt(model=NEW, more=CORRECTED).shard.fingerprint()
    )


def empty(make_service):
    """A service whose topics are empty."""
    service = make_service("memory")
    for topic in ("obs", "ans", "svc-predictions", "svc-dead-letters", "svc-journal"):
        service.log.create_topic(topic, 1)
    return service


@seeds(0.04)
def test_any_settings_cut_points_and_restarts_give_the_fresh_run(own_services, seed: int) -> None:
    """The law: whatever the settings were before, the last ones alone decide the state."""
    with own_services() as make_service:
        random = Random(seed)
        drift = random.choice(("", DRIFT.format("reset"), DRIFT.format("forget")))
        one, settings, fed = empty(make_service), settings_of(random, drift), 0
        batches = []
        for _ in range(random.randint(2, 4)):
            end = fed + random.randint(40, 120)
            batches.append([*rows(fed, end), *corrected(fed, end)])
            one.log.append(batches[-1])
            fed = end
            for stop in random.choice([[None], [1, None], [2, 1, None]]):
                sizes = {
                    "max_records": random.randint(7, 90),
                    "every_records": random.randint(30, 300),
                }
                one.run(stop_after=stop, **sizes, **settings)
            then = settings_of(random, drift)
            if then != settings:
                settings = then
                learned(one, **settings)
        two = empty(make_service)
        for batch in batches:
            two.log.append(batch)
            two.run(max_records=random.randint(7, 90), **settings)
        here = one.rebuilt(**settings)

        assert bits(here) == bits(two.rebuilt(**settings))
        assert bits(recovered(one, **settings)) == bits(here)
        assert here.diverged is None


def bits(live: LiveShard) -> object:
    """The fingerprint; of a river model its scores, because the same model has many pickles."""
    if not live.shard.pickled:
        return live.shard.fingerprint()
    view = live.shard.view()
    total = view.quality.scores["all"]
    return total.accuracy, total.log_loss, view.labels, view.dead_letters, view.positions


def settings_of(random: Random, drift: str) -> dict[str, str]:
    """Settings by chance, and what is done about drift."""
    number = random.randrange(len(MODELS))
    correct = number in CORRECTABLE and random.random() < 0.5
    waits = [f'horizon = "{random.choice((20, 49, 51, 120, 10**6))}ms"']
    waits += ["max_pending = 30"] if random.random() < 0.3 else []
    labels = "\n".join([CORRECTED if correct else "[labels]", *waits])
    return {"model": MODELS[number], "more": labels + "\n" + drift}


def test_labels_after_the_old_horizon_are_learned_with_a_longer_one(make_service) -> None:
    """Nothing that was published changes, and the model is the one of a service that had it."""
    short, long = {"more": '[labels]\nhorizon = "20ms"'}, {"more": '[labels]\nhorizon = "1h"'}
    late = make_service("memory")
    fill(late.log, phishing(300))
    late.run(**short)
    before = [late.records(topic) for topic in ("svc-predictions", "svc-dead-letters")]
    assert late.rebuilt(**short).shard.learned == 0

    learned(late, **long)

    assert late.rebuilt(**long).shard.learned == 300
    fresh = make_service("memory")
    fill(fresh.log, phishing(300))
    fresh.run(max_records=23, **long)
    assert late.rebuilt(**long).shard.fingerprint() == fresh.rebuilt(**long).shard.fingerprint()
    assert [late.records(topic) for topic in ("svc-predictions", "svc-dead-letters")] == before


def test_horizon_of_a_service_with_silence_stays(make_service) -> None:
    """The journal says what silence taught for the observations that waited then."""
    quiet = '[labels]\nsilence = false\ncorrections = true\nafter = "1h"\nhorizon = "{}"'
    service = make_service("memory")
    fill(service.log, phishing(300))
    service.run(more=quiet.format("7d"))

    with pytest.raises(ConfigError, match=r"does not change horizon.*silence"):
        learned(service, more=quiet.format("9d"))


def test_before_the_record_it_is_the_old_model_and_after_it_the_new_one(ran) -> None:
    """A replay up to each journal position, with the configuration of today."""
    old = [rebuilt(ran, end).shard.fingerprint() for end in range(1, ran.ends("svc-journal")[0])]
    learned(ran, model=NEW)
    end = ran.ends("svc-journal")[0]
    found, config = sources(ran.config(model=NEW), ran.log), ran.config(model=NEW)
    store = open_store(config, 0)

    for position, mark in enumerate(old, 1):
        for kept in (None, store):
            live = rebuild(config, ran.log, found, kept, end=position)
            assert live.shard.fingerprint() == mark
            assert live.shard.spec.model == "GaussianNB"
    assert rebuilt(ran, end, model=NEW).shard.spec.model == "MixedNB"


def test_predictions_of_both_models_are_repeated(ran) -> None:
    """An audit takes the settings of the time of the prediction."""
    learned(ran, model=NEW)
    ran.log.append(rows(300, 360))
    ran.run(model=NEW)
    config, found = ran.config(model=NEW), sources(ran.config(model=NEW), ran.log)
    store = open_store(config, 0)

    for id_, kind in (("0", "GaussianNB"), ("250", "GaussianNB"), ("330", "MixedNB")):
        made = audit(config, ran.log, found, store, id_)
        assert made.same
        assert json.loads(made.again.value)["model"]["type"] == kind


def test_start_with_other_settings_points_to_the_command(ran) -> None:
    """Before: the changed configuration. After: the old one. Other sections get no such hint."""
    with pytest.raises(ConfigError, match=r"model\.type: was.*`headwater relearn CONFIG`"):
        ran.run(model=NEW)
    with pytest.raises(ConfigError, match=r"labels\.horizon: was.*`headwater relearn CONFIG`"):
        ran.run(more='[labels]\nhorizon = "1h"')
    with pytest.raises(ConfigError, match=r"missing.*change it back") as other:
        ran.run(more="[values]\nmissing = []")
    learned(ran, model=NEW)
    with pytest.raises(ConfigError, match=r'was "MixedNB", now "GaussianNB".*relearn'):
        ran.run()

    assert "relearn" not in str(other.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "nothing to re-learn"),
        ({"model": NEW, "more": "[values]\nmissing = []"}, "values.missing"),
        ({"model": NEW, "features": ("age_of_domain",)}, "only .*features"),
        ({"model": NEW, "more": "[scale]\nshards = 2"}, "only .*scale.shards"),
        ({"model": 'type = "MixedNB"\nhalf_lif = 3'}, "did you mean 'half_life'"),
        ({"model": MODELS[-1], "more": CORRECTED}, "cannot unlearn a label"),
    ],
)
def test_what_cannot_be_learned_again_is_one_line(ran, changes, words) -> None:
    """And nothing is written."""
    before = entries(ran)
    with pytest.raises(ConfigError, match=words) as refused:
        learned(ran, **changes)

    assert "\n" not in str(refused.value)
    assert entries(ran) == before


def test_rollback_to_before_the_swap_returns_to_the_old_settings(ran) -> None:
    """A rollback of that rollback brings the new ones back. Snapshots of either are not mixed."""
    middle = ran.ends("svc-journal")[0]
    learned(ran, model=NEW)
    ran.log.append(rows(300, 350))
    ran.run(model=NEW, every_records=20)
    end, there = ran.ends("svc-journal")[0], rebuilt(ran, model=NEW).shard.learner.fingerprint()
    cut_to(ran, middle, model=NEW)

    with pytest.raises(ConfigError, match="relearn"):
        ran.run(model=NEW)
    then = ran.rebuilt()
    assert then.shard.spec.model == "GaussianNB"
    assert then.entry.since == 0
    ran.log.append(rows(350, 400))
    ran.run(every_records=20)
    with_snapshot = recovered(ran)
    assert with_snapshot.shard.fingerprint() == ran.fingerprint()
    assert with_snapshot.snapshot is not None
    cut_to(ran, end)
    again = rebuilt(ran, model=NEW)
    with pytest.raises(ConfigError, match="relearn"):
        ran.run()
    assert again.shard.spec.model == "MixedNB"
    assert again.shard.learner.fingerprint() == there
    ran.run(model=NEW)


def recovered(service, **changes) -> LiveShard:
    """By a start, with snapshots."""
    config = service.config(**changes)
    found = sources(config, service.log)
    owner = service.log.owner("svc", 0, found.inputs)
    try:
        return recover(config, service.log, owner, found, open_store(config, 0), now=NOW)
    finally:
        owner.close()


def test_relearn_after_a_rollback_learns_what_is_left(ran, make_service) -> None:
    """What was removed stays removed, and its records stay consumed."""
    cut_to(ran, 4)
    ran.log.append(rows(300, 340))
    ran.run()
    learned(ran, model=NEW)
    fresh = make_service("memory")
    fill(fresh.log, phishing(300))
    fresh.run(model=NEW, max_records=40)
    cut_to(fresh, 4, model=NEW)
    fresh.log.append(rows(300, 340))
    fresh.run(model=NEW)

    state = fresh.rebuilt(model=NEW).shard.fingerprint()
    assert rebuilt(ran, model=NEW).shard.fingerprint() == state


def test_learned_again_twice_and_back(ran) -> None:
    """Each change is a record; back to the first settings is the first model, bit for bit."""
    old = ran.fingerprint()
    learned(ran, model=NEW)
    learned(ran, model=MODELS[3])
    learned(ran)
    recovered_ = recovered(ran)

    assert ran.fingerprint() == old
    assert recovered_.shard.fingerprint() == old
    assert [e.seq for e in entries(ran) if isinstance(e, RelearnRecord)] == [
        recovered_.seq - 2, recovered_.seq - 1, recovered_.seq,
    ]  # fmt: skip
    assert recovered_.snapshot is None, "a snapshot from before the changes has other hashes"


def test_running_owner_is_fenced_and_what_it_consumed_meanwhile_is_learned(ran) -> None:
    """The model was compared at an earlier position; the swap is at the journal's end."""
    config = ran.config(model=NEW)
    found, store = sources(config, ran.log), open_store(config, 0)
    both = learned_again(config, ran.log, found, store)
    ran.log.append(rows(300, 350))
    ran.run()
    loser = ran.log.owner("svc", 0, found.inputs)
    (entry,) = swap(config, ran.log, [both], now=NOW, reason="")
    with pytest.raises(FencedError):
        loser.commit([], journal.written(entry, found.journal, NOW), {})
    loser.close()

    assert both.new.shard.fingerprint() == rebuilt(ran, model=NEW).shard.fingerprint()
    assert both.new.position == ran.ends("svc-journal")[0]


@pytest.mark.parametrize("what", ["rollback", "relearn"])
def test_change_of_the_history_meanwhile_ends_it(ran, what: str) -> None:
    """Nothing is written after that."""
    config = ran.config(model=NEW)
    found, store = sources(config, ran.log), open_store(config, 0)
    both = learned_again(config, ran.log, found, store)
    if what == "rollback":
        cut_to(ran, 4)
    else:
        learned(ran, model=MODELS[3])
    before = entries(ran)
    with pytest.raises(ConfigError, match="meanwhile"):
        swap(config, ran.log, [both], now=NOW, reason="")

    assert entries(ran) == before


def test_records_that_expired_cannot_be_learned_again(ran) -> None:
    """The journal names them, and the inputs have lost them."""
    before, log = entries(ran), ran.log
    for partition, words in ((OBS, "has lost its records 0 to 9"), (JOURNAL, "was trimmed")):
        ran.log = Trimmed(log, {partition: 10 if partition == OBS else 4})
        with pytest.raises(TransportError, match=words):
            learned(ran, model=NEW)
    ran.log = log

    assert entries(ran) == before


def test_challengers_are_left_behind_and_a_champion_first_steps_down(make_service) -> None:
    """At the next start they are new; a promoted one must not lose its place unnoticed."""
    more = '[[challenger]]\nname = "joint"\ntype = "GaussianBayes"\n'
    service = make_service("memory")
    fill(service.log, phishing(300))
    service.run(more=more)
    live = recovered(service, more=more)
    config, found = service.config(more=more), sources(service.config(), service.log)
    owner = service.log.owner("svc", 0, found.inputs)
    promote(config, owner, found, live, "joint", now=NOW, reason="")
    with pytest.raises(ConfigError, match=r"joint is the champion.*headwater promote CONFIG svc"):
        learned(service, model=NEW, more=more)
    promote(config, owner, found, live, "svc", now=NOW, reason="")
    owner.close()
    learned(service, model=NEW, more=more)
    there = rebuilt(service, model=NEW, more=more)
    then = recovered(service, model=NEW, more=more)
    fresh = make_service("memory")
    fill(fresh.log, phishing(300))
    fresh.run(model=NEW)

    assert there.shard.fingerprint() == fresh.rebuilt(model=NEW).shard.fingerprint()
    assert not there.shard.challenger_set.challengers
    assert list(then.shard.challenger_set.challengers) == ["joint"]
    service.log.append(rows(300, 330))
    service.run(model=NEW, more=more)


@pytest.mark.parametrize("seen", [True, False])
def test_outputs_that_a_dead_owner_did_not_write_are_those_of_the_old_model(
    make_service, seen: bool
) -> None:
    """At least once: they are written before the swap. After it they would be other bytes."""
    whole, cut = make_service("memory"), make_service("memory")
    least = {"max_records": 40, "guarantee": "at_least_once"}
    for service in (whole, cut):
        fill(service.log, phishing(200))
    whole.run(**least)
    stop = threading.Event()
    with pytest.raises(TransportError, match="on purpose"):
        Runner(cut.config(**least), Dying(cut.log, stop), stop, drain=True).run()
    missing = len(whole.predictions()) - len(cut.predictions())
    config = cut.config(model=NEW, **least)
    found, store = sources(config, cut.log), open_store(config, 0)
    both = learned_again(config, cut.log, found, store)
    if seen:  # another start has written them, and the compared model does not know that
        recovered(cut, **least)
    swap(config, cut.log, [both], now=NOW, reason="")
    recovered(cut, model=NEW)

    assert missing > 0
    assert set(cut.predictions()) == set(whole.predictions()), "at least once"


class Dying:
    """A log whose owner dies between its last journal record and the outputs."""

    def __init__(self, log, stop: threading.Event) -> None:
        self._log, self._stop = log, stop

    def __getattr__(self, name: str):
        return getattr(self._log, name)

    def append(self, records) -> None:
        """The outputs of a commit."""
        ends = self._log.end_offsets([JOURNAL, OBS])
        chunks = list(self._log.read({JOURNAL: 0}, {JOURNAL: ends[JOURNAL]}))
        last = journal.decode(chunks[-1].values[-1])
        if any(r.topic == "obs" and r.end == ends[OBS] for r in last.ranges):
            self._stop.set()  # or the same process would start over
            raise TransportError("died on purpose")
        self._log.append(records)


@pytest.mark.parametrize("now", [4, 1])
def test_only_one_of_the_models_can_explain(make_service, now: int) -> None:
    """[output] explain is of the present model; what the other one wrote is journaled."""
    explain, service = "[output]\nexplain = 2", make_service("memory")
    fill(service.log, phishing(120))
    service.run(model=MODELS[5 - now], more=explain if now == 4 else "", max_records=50)
    then = {"model": MODELS[now], "more": "" if now == 4 else explain}
    learned(service, **then)
    service.log.append(rows(120, 160))
    service.run(**then)
    config = service.config(**then)
    found = sources(config, service.log)

    for id_ in ("20", "119", "150"):
        assert audit(config, service.log, found, open_store(config, 0), id_).same


def test_budget_that_changed_after_the_record_has_the_evidence_since(make_service) -> None:
    """A replay from the start gives each record the budget of its time, as a snapshot has it."""
    service = make_service("memory")
    fill(service.log, phishing(120))
    before, after = (
        f'[decision]\nmax_false_positive_rate = {{label = "true", rate = {rate}}}'
        for rate in (0.3, 0.2)
    )
    service.run(model=OLD, more=before, max_records=50)
    learned(service, model=NEW, more=before)
    service.log.append(rows(120, 200))
    service.run(model=NEW, more=after, max_records=20, every_records=100)
    config = service.config(model=NEW, more=after)
    found, end = sources(config, service.log), service.ends("svc-journal")[0]
    kept = rebuild(config, service.log, found, open_store(config, 0), end=end)
    replayed = rebuilt(service, model=NEW, more=after)

    assert replayed.shard.view().budget == kept.shard.view().budget
    assert 0 < kept.shard.view().budget.others < 60
    assert replayed.shard.fingerprint() == kept.shard.fingerprint()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_standby_follows_the_new_model_only_with_the_new_settings(
    make_service, kind: str, caplog
) -> None:
    """One with the old settings stops following, with the reason; a takeover refuses to start."""
    ran = make_service(kind)
    fill(ran.log, phishing(300))
    ran.run(max_records=40, every_records=100)
    followers = [Follower(ran.config(model=m), lambda: open_log(ran.url)) for m in (OLD, NEW)]
    old, new = (follower.follow(0) for follower in followers)
    end = ran.ends("svc-journal")[0]
    until(lambda: old.seq == rebuilt(ran).seq)
    assert new.seq is None
    learned(ran, model=NEW)
    there = rebuilt(ran, model=NEW)
    until(lambda: new.seq == there.seq and old.seq is None)
    until(lambda: "belongs to another configuration" in caplog.text)
    left, live = old.release(), new.release()
    for follower in followers:
        follower.close()

    assert left is None or left.position <= end
    assert "new settings" not in caplog.text, "it is loaded again without a failed replay"
    assert live is not None
    assert live.shard.fingerprint() == there.shard.fingerprint()
    config, found = ran.config(), sources(ran.config(), ran.log)
    owner = ran.log.owner("svc", 0, found.inputs)
    with pytest.raises(ConfigError, match="belongs to another"):
        recover(config, ran.log, owner, found, open_store(config, 0), now=NOW, warm=left)
    owner.close()


def test_shard_with_earlier_settings_does_not_continue_after_the_record(ran) -> None:
    """A replay that meets it in a shard that it did not rebuild stops."""
    live = rebuilt(ran)
    learned(ran, model=NEW)
    found, end = sources(ran.config(), ran.log), ran.ends("svc-journal")[0]
    ahead = course(ran.log, found.journal, live.position, end)
    with pytest.raises(DivergedError, match="new settings"):
        replay(ran.log, found, live, end, ahead)


def test_journal_trimmed_up_to_a_snapshot_keeps_the_new_settings(ran) -> None:
    """Record 0 and the record of the new settings are gone: the snapshot has both."""
    learned(ran, model=NEW)
    ran.log.append(rows(300, 350))
    ran.run(model=NEW)
    ran.log.append(rows(350, 400))
    ran.run(model=NEW)
    whole, log = rebuilt(ran, model=NEW), ran.log
    newest = from_bytes(ran.snapshots()[-1].read_bytes())[0]
    for first in range(1, newest.position + 1):
        ran.log = Trimmed(log, {JOURNAL: first})
        live = recovered(ran, model=NEW)
        assert live.shard.fingerprint() == whole.shard.fingerprint()
        assert live.entry == whole.entry
        with pytest.raises(ConfigError, match="relearn"):
            recovered(ran)
    ran.log = log


def test_trimmed_journal_that_was_rolled_back_has_the_old_settings(ran) -> None:
    """A snapshot of the new settings reaches the rest of the journal too, and is not believed."""
    middle = ran.ends("svc-journal")[0]
    learned(ran, model=NEW)
    ran.log.append(rows(300, 350))
    ran.run(model=NEW)
    end, log = ran.ends("svc-journal")[0], ran.log
    cut_to(ran, middle, model=NEW)
    old = ran.rebuilt()
    for first in (end, end + 1):
        ran.log = Trimmed(log, {JOURNAL: first})
        live = recovered(ran)
        assert live.shard.fingerprint() == old.shard.fingerprint()
        assert live.entry == old.entry
    ran.log = log


def test_inputs_that_change_after_the_record_keep_the_new_settings(ran) -> None:
    """Also a record that is no commit says which settings it has."""
    learned(ran, model=NEW)
    widen(ran.log, "obs", 2)
    live = recovered(ran, model=NEW)
    last = entries(ran)[-1]
    with pytest.raises(ConfigError, match="relearn"):
        recovered(ran)

    assert isinstance(last, journal.InputsRecord)
    assert last.settings == live.entry.settings > 0
    assert rebuilt(ran, model=NEW).shard.fingerprint() == live.shard.fingerprint()


def test_configuration_text_is_the_same_as_the_files(tmp_path: Path) -> None:
    """`with_settings` gives the journaled identity back, and trusts no pickle by itself."""
    from consumers.config import parse

    texts = [config_text("memory:x", ("a",), model=model) for model in MODELS]
    configs: list[Config] = [parse(text, directory=tmp_path) for text in texts]
    for now in configs:
        for then in configs:
            assert now.with_settings(then.identity()).identity() == then.identity()
            if not now.model.trust_pickle:
                assert not now.with_settings(then.identity()).model.trust_pickle
