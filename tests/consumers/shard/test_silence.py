"""Silence in the service: from the configuration to the journal, and back from it."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from consumers.base.errors import ConfigError
from consumers.base.records import Outgoing
from consumers.config import parse
from consumers.config.model import identity_difference
from consumers.snapshots.format import from_bytes
from stream.decision import BayesDecision
from stream.join.label_delay import Silence
from tests.consumers.feeds import NOW, batch, config_text, feed, fill, phishing, seen, shard, told

ON = '[labels]\ncorrections = true\nsilence = false\nafter = "150ms"\nscore_silence = {scored}\n'
RULE = """
[decision]
losses.junk = {{true = 0, false = {cost}}}
losses.keep = {{true = 1, false = 0}}
"""


def flags_only(service, n: int = 300) -> None:
    """Labels of phishing sites only, at once or, by turns, after silence was heard."""
    data = phishing(n)
    fill(service.log, [])
    every = [r for r in feed(data, 0) if r.topic == "obs"]
    for i, (_, y) in enumerate(data):
        if y:
            value = json.dumps({"id": str(i), "label": y}).encode()
            every.append(Outgoing("ans", b"k", value, NOW + 10 * i + (255 if i % 3 else 5), (), 0))
    service.log.append(sorted(every, key=lambda r: r.timestamp))


@pytest.mark.parametrize("scored", ["true", "false", "false\nlabel_frequency = 0.8"])
@pytest.mark.parametrize("max_records", [7, 1000])
def test_silence_survives_stops_and_replays(make_service, max_records, scored) -> None:
    """Predictions to the byte, the state to the bit, from snapshots and from the journal (I2)."""
    more = ON.format(scored=scored) + RULE.format(cost=3) * ("frequency" in scored)
    whole, cut = make_service(), make_service()
    for service in (whole, cut):
        flags_only(service)
    view = whole.run(more=more, max_records=max_records)
    assert min(view.labels[o] for o in ("silence", "silence_ignored", "corrected", "joined")) > 5
    cut.run(more=more, max_records=13, stop_after=5)
    cut.run(more=more, max_records=29, stop_after=4)
    last = cut.run(more=more)

    assert last.labels == view.labels
    assert cut.predictions() == whole.predictions()
    ran = from_bytes(cut.snapshots()[-1].read_bytes())[1]
    assert cut.rebuilt(more=more).shard.fingerprint() == ran.fingerprint()
    assert whole.rebuilt(more=more).shard.fingerprint() == ran.fingerprint()


def test_replay_hears_silence_by_the_decisions_of_the_time(make_service) -> None:
    """Losses may change at any start. The journal has those by which each record was decided."""
    before, after = (ON.format(scored="false") + RULE.format(cost=c) for c in (1e6, 0.001))
    service, other = make_service(), make_service()
    for each in (service, other):
        flags_only(each)
    service.run(more=before, max_records=20, stop_after=10)
    view = service.run(more=after, max_records=20)
    assert other.run(more=before, max_records=20).labels["silence"] != view.labels["silence"]

    ran = from_bytes(service.snapshots()[-1].read_bytes())[1]
    rebuilt = service.rebuilt(more=after).shard
    model = ran.nested("machine").fingerprint()  # costs are counted by the present losses
    assert rebuilt.to_state().nested("machine").fingerprint() == model
    assert rebuilt.view().labels == view.labels
    assert service.rebuilt(more=before).shard.view().labels == view.labels


@pytest.mark.parametrize("cuts", [[], [3], range(1, 40), range(7, 40, 7)])
def test_batches_do_not_decide_when_silence_falls(cuts) -> None:
    """Nor does a record that becomes a dead letter in between."""
    records = []
    for i in range(20):
        records.append(seen(str(i), i, ts=NOW + 40 * i, a=i % 5, b=-i))
        label = {4: True, 8: False, 9: "no kind"}.get(i)
        if label is not None:
            records.append(told(str(i), label, len(records), ts=NOW + 40 * i + 1))
    rule = BayesDecision()
    whole, cut = (
        shard(corrections=True, silence=Silence(False, 100), horizon=300, decision=rule)
        for _ in range(2)
    )
    whole.process(batch(records), NOW + 10**6)
    for start, stop in pairwise([0, *(c for c in cuts if c < len(records)), len(records)]):
        cut.process(batch(records[start:stop]), NOW + 10**6)

    assert whole.view().labels["silence"] > 3
    assert cut.fingerprint() == whole.fingerprint()


@pytest.mark.parametrize(
    ("labels", "more", "said"),
    [
        ('silence = "ham"', "", "silence needs corrections = true"),
        ('silence = ""', "", "silence is empty"),
        ('after = "1h"', "", "after has no meaning without silence"),
        ("score_silence = true", "", "score_silence has no meaning without silence"),
        (
            'silence = "ham"\ncorrections = true\nafter = "8d"',
            "",
            r"after is 8d, and observations wait for 7d \(horizon\)",
        ),
        (
            'silence = "ham"\ncorrections = true',
            '[[challenger]]\nname = "rival"\ntype = "MixedNB"',
            r"silence and \[\[challenger\]\] exclude each other",
        ),
        (
            'silence = "Ham"\ncorrections = true',
            "[decision]\nlosses.keep = {ham = 0, spam = 1}\nlosses.junk = {ham = 1, spam = 0}",
            r"silence is 'Ham', and \[decision\] losses names .*'ham'",
        ),
    ],
)
def test_silence_that_cannot_work_is_refused(tmp_path, labels, more, said) -> None:
    """In one line, with what to do."""
    text = config_text("memory:x", ["a"], more=f"[labels]\n{labels}\n{more}")
    with pytest.raises(ConfigError, match=said) as caught:
        parse(text, directory=tmp_path)
    assert "\n" not in str(caught.value)


def test_silence_is_part_of_the_identity(tmp_path) -> None:
    """With it, it is another model; without it, how long it lasts does not matter."""
    base = config_text("memory:x", ["a"], more="[labels]\ncorrections = true\n")
    on = base.replace("corrections = true", 'corrections = true\nsilence = "ham"')
    old, new, later = (
        parse(text, directory=tmp_path).identity()
        for text in (base, on, on.replace('"ham"', '"ham"\nafter = "2d"'))
    )

    assert not {"after", "score_silence"} & old["labels"].keys()
    assert "labels.silence" in [line.split(":")[0] for line in identity_difference(old, new)]
    assert [line.split(":")[0] for line in identity_difference(new, later)] == ["labels.after"]


def test_published_probabilities_are_corrected_and_the_model_is_not(make_service) -> None:
    """Of the first predictions, before silence learned by other decisions makes models differ."""
    plain, corrected = make_service(), make_service()
    for service in (plain, corrected):
        flags_only(service)
    rule = RULE.format(cost=3)
    plain.run(more=ON.format(scored="false") + rule)
    corrected.run(more=ON.format(scored="false\nlabel_frequency = 0.8") + rule)
    pairs = [
        (json.loads(a.value), json.loads(b.value))
        for a, b in zip(
            plain.records("svc-predictions"), corrected.records("svc-predictions"), strict=True
        )
    ]
    known = [(a, b) for a, b in pairs if a["prediction"] is not None][:5]

    assert len(known) == 5
    for a, b in known:
        flag, spam = (dict(each["probabilities"]) for each in (a, b))
        assert spam[True] == pytest.approx(min(flag[True] / 0.8, 1.0), abs=1e-5)
