"""Challengers in a service: journaled, replayed bit for bit, promoted at one record for good."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from consumers.base.errors import ConfigError, FencedError
from consumers.journal import records as journal
from consumers.journal.records import ChallengersRecord
from consumers.service.promotion import promote
from consumers.service.recovery import rebuild, sources
from consumers.shard.challengers import ChallengerSet
from consumers.snapshots.store import SnapshotStore
from consumers.telemetry.prometheus import ShardCollector
from consumers.timetravel.audit import audit
from consumers.timetravel.moment import moment, rebuild_at
from consumers.timetravel.rollback import roll_back
from stream.contest.compare import Comparison
from tests.consumers.feeds import NOW, batch, feed, fill, phishing, seen, shard, told

BAYES = '[[challenger]]\nname = "bayes"\ntype = "GaussianBayes"\n'
SLOW = '[[challenger]]\nname = "slow"\ntype = "KNNClassifier"\nwindow = 40\n'
CATEGORIES = '[[challenger]]\nname = "cat"\ntype = "CategoricalNB"\n'
TREE = '[[challenger]]\nname = "tree"\ntype = "river:tree.HoeffdingTreeClassifier"\n'
DRIFT = '[drift]\ndetectors = [{on = "error", type = "ADWIN"}]\n'
RULE = '[promotion]\nrule = "e_value"\nthreshold = 4\n'


@pytest.fixture(autouse=True)
def few_records_are_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The streams here are short."""
    monkeypatch.setattr(Comparison, "RECORDS", 10)
    monkeypatch.setattr(Comparison, "CHANGES", 2)


def filled(make_service, n: int = 300, kind: str = "memory"):
    """A service whose inputs hold so many records of Phishing."""
    service = make_service(kind)
    fill(service.log, phishing(n))
    return service


def contests(service) -> list[ChallengersRecord]:
    """The entries that say who challenges."""
    entries = [journal.decode(r.value) for r in service.records("svc-journal")]
    return [e for e in entries if isinstance(e, ChallengersRecord)]


def speakers(service) -> list[str]:
    """Who made each prediction."""
    return [json.loads(value)["model"]["name"] for _, _, value in service.predictions()]


def store_of(service) -> SnapshotStore:
    """Its snapshots."""
    return SnapshotStore(Path(service.directory) / "headwater-state" / "svc" / "shard-0")


def promoted(service, name: str, more: str = ""):
    """Promote as the command does; the entry."""
    config, found = service.config(more=more), sources(service.config(), service.log)
    owner = service.log.owner("svc", 0, found.inputs)
    end = service.log.end_offsets([found.journal])[found.journal]
    live = rebuild(config, service.log, found, store_of(service), end=end)
    return promote(config, owner, found, live, name, now=NOW, reason="it is better")


def standing(view) -> dict[str, Any]:
    """The view's challengers by name."""
    return {c.name: c for c in view.challengers}


def test_challengers_change_no_byte_of_what_is_said(make_service) -> None:
    """Predictions, dead letters and the model are those of a service without any."""
    plain, service = filled(make_service), filled(make_service)
    before, view = plain.run(), service.run(more=BAYES + SLOW + CATEGORIES)

    assert service.predictions() == plain.predictions()
    assert view.quality.scores == before.quality.scores
    assert [c.name for c in view.challengers] == ["bayes", "slow", "cat"]
    assert {c.learned for c in view.challengers} == {view.learned}


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_every_restart_is_the_run_without_any(make_service, kind) -> None:
    """Stopped after each few commits, from snapshots and from the journal: the same bits."""
    more = BAYES + CATEGORIES + RULE.replace("4", "1.2")
    one, many = filled(make_service, 1_000, kind), filled(make_service, 1_000, kind)
    at_once = one.run(more=more)
    for _ in range(4):
        many.run(more=more, stop_after=4, every_records=70)
    view = many.run(more=more)

    assert at_once.promotions == view.promotions >= 1
    assert many.predictions() == one.predictions()
    assert len(set(speakers(one))) > 1
    assert one.rebuilt(more=more).shard.fingerprint() == many.rebuilt(more=more).shard.fingerprint()
    assert len(contests(many)) == 1


def test_promotion_by_the_rule_is_at_the_same_record_however_commits_fall(
    make_service, caplog
) -> None:
    """The first prediction of the new champion is the same one, and the log names what decided."""
    firsts, named = set(), []
    for size in (7, 64, 5000):
        service = filled(make_service, 600)
        service.run(more=CATEGORIES + RULE.replace("4", "1.2"), max_records=size)
        firsts.add((speakers(service).index("cat"), speakers(service)[-1]))
        named.append([m for m in caplog.messages if "is champion after" in m])
        caplog.clear()

    assert len(firsts) == 1
    assert named[0]
    assert named[0] == named[1] == named[2]


def test_new_challenger_starts_empty_where_the_journal_ends(make_service, caplog) -> None:
    """It says so; a replay from the beginning has it learn from the same record on."""
    caplog.set_level(logging.INFO)
    service = filled(make_service)
    service.run(stop_after=5)
    view = service.run(more=BAYES)
    late = standing(view)["bayes"]
    seq = contests(service)[0].seq

    assert seq == 6
    assert f"challenger bayes starts empty at journal record {seq}" in caplog.text
    assert 0 < late.learned < view.learned
    assert late.comparison.compared == late.quality.scores["all"].scored
    again = service.rebuilt(more=BAYES).shard.view()
    assert standing(again)["bayes"].learned == late.learned
    assert standing(again)["bayes"].comparison == late.comparison


def test_changed_challenger_starts_anew_and_a_removed_one_is_gone(make_service, caplog) -> None:
    """The one that stays goes on; a replay of the journal does the same."""
    caplog.set_level(logging.INFO)
    service = filled(make_service)
    service.run(more=BAYES + SLOW, stop_after=4)
    changed = SLOW.replace("40", "50") + BAYES
    service.run(more=changed, stop_after=4)
    view = service.run(more=BAYES)

    assert [len(entry.challengers) for entry in contests(service)] == [2, 2, 1]
    assert "challenger slow starts empty at journal record 6" in caplog.text
    assert "challenger slow was removed" in caplog.text
    assert standing(view)["bayes"].learned == view.learned
    assert service.rebuilt(more=BAYES).shard.fingerprint() == service.fingerprint()


def test_unchanged_configuration_writes_nothing(make_service) -> None:
    """The order of the blocks, and of the keys in a block, does not matter."""
    service = filled(make_service, 60)
    service.run(more=BAYES + SLOW, stop_after=1)
    turned = '[[challenger]]\nwindow = 40\ntype = "KNNClassifier"\nname = "slow"\n'
    service.run(more=turned + BAYES)
    service.run(more=turned + BAYES)

    assert len(contests(service)) == 1


def test_promoted_challenger_speaks_from_the_next_record_on(make_service) -> None:
    """Also after restarts, from snapshots and without; the former champion is a challenger."""
    service = filled(make_service, 200)
    service.run(more=BAYES)
    before = len(service.predictions())
    entry = promoted(service, "bayes")
    service.log.append([r for r in feed(phishing(300), 50) if int(r.key) >= 200])
    service.run(more=BAYES, stop_after=1)
    view = service.run(more=BAYES)
    said = speakers(service)

    assert (entry.champion, entry.reason) == ("bayes", "it is better")
    assert set(said[:before]) == {"svc"}
    assert set(said[before:]) == {"bayes"}
    assert json.loads(service.predictions()[-1][2])["model"]["type"] == "GaussianBayes"
    assert view.champion == ("bayes", "GaussianBayes")
    assert [c.name for c in view.challengers] == ["svc"]
    assert service.rebuilt(more=BAYES).shard.fingerprint() == service.fingerprint()


def test_a_model_has_one_name_in_predictions_metrics_and_commands(make_service) -> None:
    """That of its block, for [model] the service's; a challenger may be called like a type."""
    more = BAYES.replace('"bayes"', '"GaussianNB"') + DRIFT
    service = filled(make_service, 100)
    before = service.run(more=more)
    promoted(service, "GaussianNB", more)
    after = service.run(more=more)

    assert set(speakers(service)) == {"svc"}
    assert [named(view, "headwater_champion") for view in (before, after)] == [
        {"svc": 1, "GaussianNB": 0},
        {"GaussianNB": 1, "svc": 0},
    ]
    for view in (before, after):
        assert named(view, "headwater_accuracy_ratio").keys() == {"svc", "GaussianNB"}
        assert named(view, "headwater_drift_alarms_total").keys() == {"svc"}


def named(view, metric: str) -> dict[str, float]:
    """The series of a metric by their model."""
    scraped = ShardCollector(lambda: view, clock=lambda: 0.0).collect()
    samples = (sample for family in scraped for sample in family.samples)
    return {s.labels["model"]: s.value for s in samples if s.name == metric}


def test_prediction_of_a_promoted_challenger_comes_out_again_byte_for_byte(make_service) -> None:
    """`headwater audit`, before and after."""
    service = filled(make_service, 200)
    service.run(more=BAYES, max_records=30)
    promoted(service, "bayes")
    service.log.append([r for r in feed(phishing(260), 50) if int(r.key) >= 200])
    service.run(more=BAYES, max_records=30)
    config, found = service.config(more=BAYES), sources(service.config(), service.log)

    for id_, name in (("150", "svc"), ("250", "bayes")):
        made = audit(config, service.log, found, store_of(service), id_)
        assert made.same
        assert json.loads(made.again.value)["model"]["name"] == name


def test_promotion_is_taken_back_by_another_and_by_a_rollback(make_service) -> None:
    """A rollback to before it cuts it out of the history with everything else."""
    service = filled(make_service, 200)
    service.run(more=BAYES)
    promoted(service, "bayes")
    config, found = service.config(more=BAYES), sources(service.config(), service.log)
    at = moment(service.log, found.journal, str(service.ends("svc-journal")[0] - 1))
    live = rebuild_at(config, service.log, found, store_of(service), at)
    owner = service.log.owner("svc", 0, found.inputs)
    roll_back(service.log, owner, found, live, now=NOW, reason="")

    assert service.rebuilt(more=BAYES).shard.champion == ""
    promoted(service, "bayes")
    assert service.rebuilt(more=BAYES).shard.champion == "bayes"
    promoted(service, "svc")
    assert service.rebuilt(more=BAYES).shard.champion == ""


def test_promotion_fences_the_running_owner(make_service) -> None:
    """It would go on saying what the former champion says (I8)."""
    service = filled(make_service, 100)
    service.run(more=BAYES)
    old = service.log.owner("svc", 0, sources(service.config(), service.log).inputs)
    promoted(service, "bayes")

    with pytest.raises(FencedError):
        old.confirm({})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("svc", "champion already; promote bayes"),
        ("nobody", "no challenger nobody: expected bayes"),
    ],
)
def test_who_cannot_be_promoted_is_one_line(make_service, name, words) -> None:
    """It says who could be."""
    service = filled(make_service, 60)
    service.run(more=BAYES)

    with pytest.raises(ConfigError, match=words):
        promoted(service, name)


def test_champion_cannot_be_taken_out_of_the_configuration(make_service) -> None:
    """Nor changed: what speaks would vanish. The way on is to promote another one first."""
    service = filled(make_service, 100)
    service.run(more=BAYES)
    promoted(service, "bayes")

    for more in ("", BAYES + "shrinkage = 0.5\n"):
        with pytest.raises(ConfigError, match=r"bayes is the champion.*promote another one first"):
            service.run(more=more)
    promoted(service, "svc")
    assert service.run(more="").challengers == []


def test_challenger_that_holds_fewer_classes_is_refused_before_it_is_journaled(
    make_service,
) -> None:
    """The labels that the model takes must fit into each."""
    service = filled(make_service, 60)
    small = '[[challenger]]\nname = "words"\ntype = "MultinomialNB"\nmax_state_bytes = "64MiB"\n'

    with pytest.raises(ConfigError, match=r"words: MultinomialNB: max_state_bytes = 67,108,864"):
        service.run(more=small)
    assert contests(service) == []


def test_snapshot_from_before_there_were_challengers_is_gone_on_from(make_service) -> None:
    """It is the model's; the journal says when the challenger came."""
    service = filled(make_service)
    service.run(stop_after=3)
    count = len(service.snapshots())
    service.run(more=BAYES)

    assert count == 1
    assert service.rebuilt(more=BAYES).shard.fingerprint() == service.fingerprint()


def test_pickle_that_is_trusted_no_more_gives_its_challenger_up(make_service) -> None:
    """The snapshot serves all the same, so that the block can be removed from a trimmed journal."""
    service = filled(make_service)
    trusted = TREE + "trust_pickle = true\n"
    service.run(more=BAYES + trusted, stop_after=4)
    found, config = sources(service.config(), service.log), service.config(more=BAYES)
    end = service.log.end_offsets([found.journal])[found.journal]
    live = rebuild(config, service.log, found, store_of(service), end=end)

    assert (live.refused, live.replayed) == ((), 0)
    assert list(live.shard.challenger_set.challengers) == ["bayes"]
    assert list(standing(service.run(more=BAYES))) == ["bayes"]
    assert list(contests(service)[-1].challengers) == ["bayes"]
    assert service.rebuilt(more=BAYES).shard.fingerprint() == service.fingerprint()


def test_pickle_that_is_trusted_no_more_starts_its_challenger_anew(make_service, caplog) -> None:
    """The block stays. The journal records the removal, so a replay restarts the model too."""
    caplog.set_level(logging.INFO)
    service = filled(make_service)
    service.run(more=TREE + "trust_pickle = true\n", stop_after=4)
    view = service.run(more=TREE)
    rebuilt = service.rebuilt(more=TREE).shard.view()

    assert "challenger tree is dropped" in caplog.text
    assert [list(entry.challengers) for entry in contests(service)] == [["tree"], [], ["tree"]]
    assert 0 < standing(view)["tree"].learned < view.learned
    assert standing(rebuilt)["tree"].learned == standing(view)["tree"].learned


def test_river_challenger_without_snapshots_is_rebuilt_from_the_journal(
    make_service, caplog
) -> None:
    """And with it all the others: it says so."""
    caplog.set_level(logging.INFO)
    service = filled(make_service)
    service.run(more=TREE, stop_after=4)
    view = service.run(more=TREE)

    assert service.snapshots() == []
    assert "tree is not saved in snapshots" in caplog.text
    assert standing(view)["tree"].learned == view.learned


def test_challenger_of_another_version_is_one_line() -> None:
    """A type this version does not know stands in the journal."""
    with pytest.raises(
        ConfigError, match=r"not supported by this version.*type: expected one of auto"
    ) as e:
        shard().set_challengers(ChallengerSet({"new": {"type": "TransformerNB", "parameters": {}}}))

    assert "\n" not in str(e.value)


def test_model_decides_what_is_a_dead_letter_whoever_speaks() -> None:
    """A record it can take is said nothing of by a champion that cannot; and one it cannot take
    is a dead letter although the champion could."""
    words: dict[str, Any] = {"type": "MultinomialNB", "parameters": {}}
    one = shard()
    one.set_challengers(ChallengerSet({"words": words}))
    one.process(batch([seen("a", a=1.0), told("a", "x")]), NOW)
    one.set_challengers(ChallengerSet({"words": words}), champion="words")
    out = one.process(batch([seen("b", 1, a=-1.0), seen("c", 2, a=2.0)]), NOW)
    said = [json.loads(r.value or b"") for r in out.predictions()]

    assert list(out.dead_letters()) == []
    assert [(p["prediction"], p["model"]["name"]) for p in said] == [
        (None, "words"),
        ("x", "words"),
    ]
    assert said[0]["probabilities"] == []
