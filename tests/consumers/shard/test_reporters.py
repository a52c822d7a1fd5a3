"""Reporters in the service: from the configuration to the journal, and back from it."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

from consumers.api.routes import document
from consumers.base.errors import ConfigError
from consumers.base.records import Outgoing, Partition
from consumers.config import parse
from consumers.config.model import identity_difference
from consumers.service.recovery import sources
from consumers.shard.answer import Answerer
from consumers.shard.challengers import ChallengerSet
from consumers.snapshots.format import from_bytes
from consumers.snapshots.store import open_store
from consumers.timetravel.relearn import learned_again, swap
from stream.join.reporters import LONGEST_REPORTER, ReporterRules
from tests.consumers.feeds import NOW, batch, config_text, feed, fill, phishing, seen, shard, told

HOUR_MS = 3_600_000
NEW = 'type = "MixedNB"\nhalf_life = 80'
ON = """
[labels]
corrections = {corrections}
reporter = "by.user"
[reporters]
max_reporters = 6
max_labels_per_hour = 60
prior_labels = 3
"""


def reports(service, n: int = 250) -> None:
    """Labels by ten users, late and twice. Every label of one user is wrong, some names are bad."""
    rng, data = np.random.default_rng(5), phishing(n)
    fill(service.log, [])
    every = [r for r in feed(data, 0) if r.topic == "obs"]
    for i, (_, y) in enumerate(data):
        for _ in range(1 + int(rng.random() < 0.6)):
            user: object = int(rng.integers(10))
            label = not y if user == 0 else y
            user = [user, f"u{user}", None, "", "u1"][int(rng.integers(5))] if user else "eve"
            value = json.dumps({"id": str(i), "label": label, "by": {"user": user}}).encode()
            at = NOW + 10 * i + int(rng.integers(5, 400))
            every.append(Outgoing("ans", b"k", value, at, (), 0))
    service.log.append(sorted(every, key=lambda r: r.timestamp))


@pytest.mark.parametrize("corrections", ["true", "false"])
def test_reporters_survive_stops_and_replays(make_service, corrections) -> None:
    """Predictions and dead letters to the byte, the state to the bit, from snapshots and from the
    journal (I2), whatever the size of commits (I1)."""
    more = ON.format(corrections=corrections)
    whole, cut = make_service(), make_service()
    for service in (whole, cut):
        reports(service)
    view = whole.run(more=more, max_records=1000)
    cut.run(more=more, max_records=13, stop_after=5)
    cut.run(more=more, max_records=29, stop_after=4)
    last = cut.run(more=more)

    seen_outcomes = {o for o, n in view.labels.items() if n}
    expected = {"joined", "duplicate", "outvoted", "quarantined", "over_rate"}
    assert seen_outcomes >= expected | ({"corrected"} if corrections == "true" else {"conflicting"})
    assert view.dead_letters.keys() == {"bad_reporter", "reporter_rate"}
    assert view.overflows["reporters"] > 0
    assert (last.labels, last.reporters, last.dead_letters) == (
        view.labels,
        view.reporters,
        view.dead_letters,
    )
    assert cut.predictions() == whole.predictions()
    dead = [[(r.key, r.value) for r in s.records("svc-dead-letters")] for s in (whole, cut)]
    assert dead[0] == dead[1]
    ran = from_bytes(cut.snapshots()[-1].read_bytes())[1]
    assert cut.rebuilt(more=more).shard.fingerprint() == ran.fingerprint()
    assert whole.rebuilt(more=more).shard.fingerprint() == ran.fingerprint()


def test_relearned_labels_have_the_weights_of_their_reporters(make_service) -> None:
    """New settings give the model of a fresh start with them, and reporters stay as they are."""
    more = ON.format(corrections="true")
    one, fresh = make_service(), make_service()
    for service in (one, fresh):
        reports(service)
    before = one.run(more=more, max_records=40).reporters
    config = one.config(more=more, model=NEW)
    found, store = sources(config, one.log), open_store(config, 0)
    both = learned_again(config, one.log, found, store)
    swap(config, one.log, [both], now=NOW, reason="")
    after = fresh.run(more=more, model=NEW, max_records=23).reporters
    here = one.rebuilt(more=more, model=NEW).shard

    assert here.fingerprint() == fresh.rebuilt(more=more, model=NEW).shard.fingerprint()
    assert before == after == here.view().reporters


def test_view_has_the_reporters_with_the_most_labels() -> None:
    """And whom others contradicted."""
    going = shard(corrections=True, reporter_field="by", reporters=ReporterRules())
    records = []
    for i in range(20):
        records.append(seen(str(i), i, a=i % 2))
        records.append(told(str(i), "pq"[1 - i % 2], 3 * i, by="eve"))
        records.append(told(str(i), "pq"[i % 2], 3 * i + 1, by="ann"))
        records.append(told(str(i), "pq"[i % 2], 3 * i + 2))
    outcome = going.process(batch(records), NOW)
    view = going.view().reporters

    assert not outcome.rejected
    assert (view.known, view.agreed, view.disagreed) == (3, 20, 40)
    names = [(one.name, one.labels, one.agreed, one.disagreed) for one in view.top]
    assert names == [("eve", 20, 0, 40), ("ann", 20, 20, 0), ("", 20, 0, 0)]
    assert view.top[0].trust < 0.2 < 0.8 == view.top[2].trust < view.top[1].trust
    assert shard().view().reporters is None


@pytest.mark.parametrize("cuts", [range(1, 90), range(7, 90, 7)])
def test_challengers_learn_the_same_labels_with_the_same_weights(cuts) -> None:
    """A model that is its own challenger has the same state, whoever reported what."""
    records = [seen(str(i), i, a=i % 2, ts=NOW + i) for i in range(30)]
    for i in range(60):
        who, ts = ["ann", "bob", "eve", None][i % 4], NOW + 30 + i
        label = "pq"[(i % 2) ^ (who == "eve" or i % 7 == 0)]
        records.append(told(str(i // 2), label, i, by=who, ts=ts))
    whole, cut, alone = (
        shard(corrections=True, reporter_field="by", reporters=ReporterRules()) for _ in range(3)
    )
    for each in (whole, cut):
        each.set_challengers(ChallengerSet({"twin": {"type": "GaussianNB", "parameters": {}}}))
    for each in (whole, alone):
        each.process(batch(records), NOW + 10**6)
    for start, stop in pairwise([0, *cuts, len(records)]):
        cut.process(batch(records[start:stop]), NOW + 10**6)

    assert whole.view().labels["corrected"] > 2
    assert whole.view().labels["outvoted"] > 2
    assert whole.fingerprint() == cut.fingerprint()
    learner = alone.learner.fingerprint()
    assert whole.learner.fingerprint() == learner
    whole.set_challengers(whole.challenger_set, champion="twin")
    assert whole.champion_learner.fingerprint() == learner


def test_label_above_the_cap_is_a_dead_letter_that_says_so() -> None:
    """With its own bytes, so that it can be sent again."""
    rules = ReporterRules(per_hour=2)
    going = shard(reporter_field="by", reporters=rules, largest_dead_letter=None)
    records = [seen(str(i), i, a=i) for i in range(4)]
    records += [told(str(i), "p", i, by="eve", ts=NOW // HOUR_MS * HOUR_MS) for i in range(4)]
    outcome = going.process(batch(records), NOW)
    dead = [dict(letter.headers) for letter in outcome.dead_letters()]

    assert [(h["reason"], h["offset"]) for h in dead] == [
        (b"reporter_rate", b"2"),
        (b"reporter_rate", b"3"),
    ]
    assert b"[reporters] max_labels_per_hour" in dead[0]["detail"]
    assert going.view().labels == {"joined": 2, "over_rate": 2}


@pytest.mark.parametrize(
    ("labels", "more", "said"),
    [
        ("", "[reporters]\nmin_trust = 0.7", r"\[reporters\] min_trust has no meaning without"),
        ('reporter = "w"', "", r"\[labels\] reporter = 'w' is another field of a label"),
        ('reporter = ""', "", "reporter"),
        ('reporter = "by"', "[reporters]\nmin_trust = 0.5", "min_trust"),
        ('reporter = "by"', "[reporters]\nprior_trust = 0.5", "so nobody could ever be trusted"),
        ('reporter = "by"', "[reporters]\nmax_labels_per_hour = 0", "max_labels_per_hour"),
    ],
)
def test_reporters_that_cannot_work_are_refused(tmp_path, labels, more, said) -> None:
    """In one line, with what to do."""
    text = config_text("memory:x", ["a"], more=f"[labels]\n{labels}\n{more}")
    with pytest.raises(ConfigError, match=said) as caught:
        parse(text, directory=tmp_path)
    assert "\n" not in str(caught.value)


def test_labels_inside_have_no_reporter(tmp_path) -> None:
    """So the setting needs a topic of labels."""
    text = config_text("memory:x", ["a"], more='[labels]\nreporter = "by"')
    with pytest.raises(ConfigError, match=r"reporter needs \[input\] labels"):
        parse(text.replace('labels = "ans"', 'label = "y"'), directory=tmp_path)


def test_reporters_are_part_of_the_identity(tmp_path) -> None:
    """With them, it is another model."""
    base = config_text("memory:x", ["a"], more="[labels]\ncorrections = true\n")
    on = base.replace("corrections = true", 'corrections = true\nreporter = "by"')
    more = "[reporters]\nwithout_reporter = 'trusted'\nprior_trust = 0.5"
    old, new, later = (
        parse(text, directory=tmp_path).identity() for text in (base, on, f"{on}\n{more}")
    )

    assert "reporters" not in old
    keys = [line.split(":")[0] for line in identity_difference(old, new)]
    assert "labels.reporter" in keys
    assert [line.split(":")[0] for line in identity_difference(new, later)] == [
        "reporters.prior_trust",
        "reporters.without_reporter",
    ]


def test_http_api_knows_reporters(tmp_path) -> None:
    """It describes the field, and refuses what would be a dead letter."""
    text = config_text("memory:x", ["a"], more='[labels]\nreporter = "by"')
    schemas = document(parse(text, directory=tmp_path))["components"]["schemas"]
    going = shard(reporter_field="by", reporters=ReporterRules())
    answerer = Answerer(going.copied(Partition("svc-journal", 0), 0))
    values = [f'{{"id":"1","label":"x","by":{by}}}'.encode() for by in ('"ann"', "7", "null", "[]")]
    ids, refused = answerer.check_labels(values)

    assert schemas["LabelRecord"]["properties"]["by"]["maxLength"] == LONGEST_REPORTER
    assert (ids[:3], list(refused), refused[3].reason) == (["1"] * 3, [3], "bad_reporter")
