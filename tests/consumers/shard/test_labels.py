"""Labels in the service: corrections from the configuration to the journal, ids that repeat."""

from __future__ import annotations

import json
import threading
from itertools import pairwise

import pytest

from consumers.base.errors import ConfigError
from consumers.base.records import Outgoing
from consumers.config import parse
from consumers.shard.assembly import shard_of
from consumers.snapshots.format import from_bytes
from stream.join.label_delay import MOST_CORRECTIONS
from tests.consumers.feeds import NOW, batch, config_text, feed, fill, phishing, seen, shard, told

ON = "[labels]\ncorrections = true"


def flipped(service, n: int = 200) -> None:
    """A feed whose every tenth label is told again, the other way round."""
    data = phishing(n)
    fill(service.log, data, delay=10)
    again = [
        Outgoing("ans", b"k", json.dumps({"id": str(i), "label": not data[i][1]}).encode(), at)
        for i in range(0, n, 10)
        for at in [NOW + 10 * (i + 30)]
    ]
    service.log.append(again)


@pytest.mark.parametrize("max_records", [7, 1000])
def test_corrections_survive_stops_and_replays(make_service, max_records) -> None:
    """Predictions to the byte, the state to the bit, from snapshots and from the journal (I2)."""
    whole, cut = make_service(), make_service()
    for service in (whole, cut):
        flipped(service)
    view = whole.run(more=ON, max_records=max_records)
    assert view.labels["corrected"] == 20
    cut.run(more=ON, max_records=13, stop_after=5)
    cut.run(more=ON, max_records=29, stop_after=4)
    cut.run(more=ON)

    assert cut.predictions() == whole.predictions()
    ran = from_bytes(cut.snapshots()[-1].read_bytes())[1]
    assert cut.rebuilt(more=ON).shard.fingerprint() == ran.fingerprint()
    assert whole.rebuilt(more=ON).shard.fingerprint() == ran.fingerprint()


def test_without_corrections_the_first_label_wins(make_service) -> None:
    """The default: counted, and the model is that of the first labels alone."""
    plain, contradicted = make_service(), make_service()
    fill(plain.log, phishing(200), delay=10)
    plain.run()
    flipped(contradicted)
    view = contradicted.run()

    assert (view.labels["conflicting"], view.labels.get("corrected")) == (20, None)
    assert contradicted.predictions() == plain.predictions()


def test_metric_of_every_outcome_is_there_from_the_start(make_service) -> None:
    """Corrections and held-back labels too, at 0 before any."""
    service = make_service()
    flipped(service)
    runner = service.runner(threading.Event(), lambda *_: None, None, more=ON)
    runner.run()
    value = runner.registry.get_sample_value

    def count(outcome: str) -> float | None:
        return value("headwater_labels_total", {"shard": "0", "outcome": outcome})

    assert (count("joined"), count("corrected"), count("conflicting")) == (200, 20, 0)
    assert (count("held_back"), count("duplicate_observation")) == (0, 0)


def test_account_of_labels_survives_stops_and_replays(make_service) -> None:
    """Delays, coverage and the estimate are in the state: a restart changes none of them (I2)."""
    more = '[labels]\nhorizon = "150ms"'
    whole, cut = make_service(), make_service()
    every = feed(phishing(200), 10)
    # A third of the labels never come; those of the last 15 or so could still.
    records = [r for r in every if r.topic != "ans" or json.loads(r.value)["id"][-1] not in "369"]
    for service in (whole, cut):
        fill(service.log, [])
        service.log.append(records)
    expected = whole.run(more=more).labelling
    cut.run(more=more, max_records=13, stop_after=5)

    found = cut.run(more=more).labelling
    assert found == expected == whole.rebuilt(more=more).shard.view().labelling
    assert found.estimate.accuracy is not None
    assert sum(found.delays) == 140
    assert found.coverage == 140 / (140 + 60 - found.estimate.waiting)


def test_model_that_cannot_unlearn_is_refused_with_one_line(make_service) -> None:
    """At the start, not at the first correction."""
    service = make_service()
    fill(service.log, phishing(10))
    text = config_text(service.url, ["a", "b"], more=ON)
    text = text.replace('"GaussianNB"', '"river:naive_bayes.GaussianNB"')
    config = parse(text, directory=service.directory)

    with pytest.raises(ConfigError, match="corrections: RiverClassifier cannot unlearn") as caught:
        shard_of(config, config.declared_schema)
    assert "\n" not in str(caught.value)


def test_duplicate_observation_has_a_prediction_a_record_and_one_learn() -> None:
    """Each record of the log is answered; the id is learned once, on its first features."""
    machine = shard()
    records = [seen("1", 0, a=1.0), told("1", "x"), seen("q", 1, a=1.0), seen("q", 2, a=9.0)]
    records += [told("q", "y", 1), told("q", "y", 2), seen("q", 3, a=5.0)]
    said = []
    for start, stop in pairwise([0, 3, 5, len(records)]):
        said += machine.process(batch(records[start:stop]), NOW).predictions()
    only_first = shard()
    only_first.process(batch([*records[:3], records[4]]), NOW)

    offsets = [json.loads(p.value)["position"]["offset"] for p in said]
    assert [p.key for p in said] == [b"1", b"q", b"q", b"q"]
    assert offsets == [0, 1, 2, 3]
    assert machine.view().labels == {"joined": 2, "duplicate_observation": 2, "duplicate": 1}
    assert machine.learner.fingerprint() == only_first.learner.fingerprint()


def test_feed_of_the_tests_is_what_it_says() -> None:
    """Every label of the feed comes once, so that what contradicts it is what was added."""
    labels = [r for r in feed(phishing(20), 5) if r.topic == "ans"]

    assert len(labels) == len({json.loads(r.value)["id"] for r in labels}) == 20


def test_corrections_above_the_rate_are_dead_letters_that_a_replay_repeats(make_service) -> None:
    """With the reason and the bytes, so that they can be sent again; they hold nothing up."""
    service, data = make_service(), phishing(4)
    fill(service.log, data, delay=1)
    flips = [data[0][1] ^ (i % 2 == 0) for i in range(MOST_CORRECTIONS + 20)]
    values = [json.dumps({"id": "0", "label": flip}).encode() for flip in flips]
    service.log.append([Outgoing("ans", b"k", value, NOW + 100) for value in values])
    view = service.run(more=ON, max_records=300)

    assert (view.labels["corrected"], view.labels["duplicate"]) == (MOST_CORRECTIONS, 10)
    assert view.labels["correction_over_rate"] == view.dead_letters["correction_rate"] == 10
    letters = service.records("svc-dead-letters")
    assert [letter.value for letter in letters] == values[MOST_CORRECTIONS::2]
    ran = from_bytes(service.snapshots()[-1].read_bytes())[1]
    assert service.rebuilt(more=ON).shard.fingerprint() == ran.fingerprint()
