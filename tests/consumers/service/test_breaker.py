"""The dead-letter breaker: too many bad records, and nothing is learned until they have passed."""

from __future__ import annotations

import json
import threading
from itertools import pairwise

import pytest

from consumers.base.records import Outgoing, Record
from consumers.journal import records as journal
from consumers.snapshots.format import from_bytes
from stream.evaluate.breaker import LAST, Breaker
from tests.consumers.feeds import NOW, batch, feed, fill, phishing, seen, shard, told

BAD = b'{"id": "x", "a": "no number"}'


def test_it_opens_above_the_ratio_and_closes_below_half_of_it() -> None:
    """At the record that makes it so, both ways."""
    breaker = Breaker(ratio=0.2)
    for _ in range(200):
        breaker.add(dead=True)
    assert not breaker.open
    breaker.add(dead=True)
    assert breaker.open
    for _ in range(LAST - 201 + 101):
        breaker.add(dead=False)
    assert (breaker.dead, breaker.open) == (100, True)

    breaker.add(dead=False)

    assert (breaker.dead, breaker.open) == (99, False)


def test_it_counts_the_last_thousand_records_and_no_others() -> None:
    """Against a list of all of them."""
    breaker, told = Breaker(ratio=0.3), []
    for i in range(5 * LAST):
        dead = i * i % 7 < 1 + i // 700
        told.append(dead)
        breaker.add(dead)

        assert breaker.dead == sum(told[-LAST:])


def test_ratio_of_one_never_opens() -> None:
    """However bad it is."""
    breaker = Breaker(ratio=1.0)
    for _ in range(3 * LAST):
        breaker.add(dead=True)

    assert (breaker.open, breaker.dead) == (False, LAST)


def burst(good: int = 120, bad: int = 150, after: int = 1100) -> list[Record]:
    """Labelled observations, a burst of bad ones among them, and enough good ones to close it."""
    out: list[Record] = []
    for i in range(good + bad + after):
        id_ = str(i)
        value = BAD if good <= i < good + bad else None
        record = seen(id_, a=float(i % 7), b=1.0)
        out.append(record._replace(offset=i, value=value or record.value, timestamp=NOW + i))
        if i % 2 and value is None:
            out.append(told(id_, "xy"[i % 7 > 3], i, ts=NOW + i))
    return out


def run(machine, records, cuts=()):
    """Everything written by batches that end at `cuts`, and where learning was held back."""
    said = []
    for start, stop in pairwise([0, *cuts, len(records)]):
        outcome = machine.process(batch(records[start:stop]), NOW + 10**6)
        said += [*outcome.predictions(), *outcome.dead_letters()]
    return sorted(said, key=lambda r: (r.topic, r.timestamp))


@pytest.mark.parametrize("cuts", [[300], range(1, 1400), range(7, 1400, 7)])
def test_held_back_labels_are_the_same_for_any_cut(cuts) -> None:
    """It is asked record by record, and its window is part of the state (I1)."""
    records = burst()
    whole, cut = shard(max_dead_letter_ratio=0.1), shard(max_dead_letter_ratio=0.1)
    output = run(whole, records)

    assert run(cut, records, cuts) == output
    assert cut.fingerprint() == whole.fingerprint()
    assert whole.view().labels["held_back"] > 100


@pytest.mark.parametrize("at", [100, 250, 320, 1600])
def test_restored_breaker_goes_on_where_it_was(at) -> None:
    """Before, while and after it is open (I2)."""
    records = burst()
    whole, before, after = (shard(max_dead_letter_ratio=0.1) for _ in range(3))
    run(whole, records)
    run(before, records[:at])
    after.load_state(before.to_state())
    assert after.view().held_back is before.view().held_back is (at == 320)
    run(after, records[at:])

    assert after.fingerprint() == whole.fingerprint()


def test_while_it_is_open_nothing_is_learned_and_everything_predicted() -> None:
    """Labels are counted as held back; those of later are learned again."""
    machine = shard(max_dead_letter_ratio=0.1)
    records = burst()
    run(machine, records[:400])
    assert machine.view().held_back
    before, learned = machine.learner.fingerprint(), machine.view().learned
    run(machine, records[400:500])
    view = machine.view()
    assert machine.learner.fingerprint() == before
    assert (view.learned, view.predictions) == (learned, view.observations - 150)

    run(machine, records[500:])

    assert not machine.view().held_back
    assert machine.view().learned > learned


def spoiled(service, n: int = 300) -> None:
    """Good records with labels, then a burst of bad ones, then good ones again."""
    records = list(feed(phishing(n), 10))
    fill(service.log, [])
    bad = [Outgoing("obs", b"x", b"broken", NOW + 1005, (), 0)] * 120
    observations, labels = records[:n], records[n:]
    service.log.append([*observations[:100], *bad, *observations[100:], *labels])


def test_replay_opens_and_closes_it_at_the_same_records(make_service) -> None:
    """From the journal alone, whatever the configuration says by now (I2)."""
    service = make_service()
    spoiled(service)
    view = service.run(more="[output]\nmax_dead_letter_ratio = 0.1", max_records=30)
    assert view.held_back
    assert view.labels["held_back"] > 50
    ran = from_bytes(service.snapshots()[-1].read_bytes())[1]

    assert service.rebuilt().shard.fingerprint() == ran.fingerprint()
    assert service.rebuilt(more="[output]\nmax_dead_letter_ratio = 1").shard.view().held_back
    entries = [journal.decode(r.value) for r in service.records("svc-journal")][1:]
    assert {e.max_dead_letter_ratio for e in entries} == {0.1}


def test_service_that_holds_back_is_not_ready_and_says_why(make_service) -> None:
    """Alive, for a restart would not help; ready again once it has closed."""
    service = make_service()
    spoiled(service)
    told = {}

    def listen(event, view) -> None:
        told[view.held_back] = str(runner.health()), runner.health().ready, runner.health().alive
        told["metric"] = runner.registry.get_sample_value("headwater_breaker_open", {"shard": "0"})

    more = "[output]\nmax_dead_letter_ratio = 0.1"
    runner = service.runner(threading.Event(), listen, None, more=more, max_records=30)
    runner.run()

    assert told[False] == ("live", True, True)
    assert told[True][0].startswith("degraded: nothing is learned: 120 of the last 1,000 records")
    assert (told[True][1:], told["metric"]) == ((False, True), 1.0)


def test_predictions_go_on_while_it_is_open(make_service) -> None:
    """Every good observation has its prediction; `learned` stands still."""
    service = make_service()
    spoiled(service)
    service.run(more="[output]\nmax_dead_letter_ratio = 0.1")
    values = [json.loads(value) for _, _, value in service.predictions()]

    assert len(values) == 300
    assert values[-1]["model"]["learned"] == values[120]["model"]["learned"] > 0
