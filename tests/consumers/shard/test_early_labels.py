"""Labels before their observation: what junk among them may not do, and what it becomes."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from consumers.base.records import Outgoing
from stream import GaussianNB
from stream.compat import RiverClassifier
from tests.consumers.feeds import NOW, batch, feed, fill, phishing, seen, shard, told

JUNK = [7, "x" * 100, True, -1, "0", "1"]


def junk(n: int, at: int = NOW - 1000) -> list[Outgoing]:
    """n labels of all kinds, for ids that come later, never, or twice."""
    documents = ({"id": f"{i % 80 + 40}", "label": JUNK[i % len(JUNK)]} for i in range(n))
    return [
        Outgoing("ans", b"key %d" % i, json.dumps(d).encode(), at) for i, d in enumerate(documents)
    ]


def begin(service, first: list[Outgoing], n: int) -> None:
    """Fill the log with these labels, then n observations with theirs."""
    fill(service.log, [])
    service.log.append([*first, *feed(phishing(n), 10)])


def test_junk_labels_on_a_fresh_service_stop_nothing(make_service) -> None:
    """One label of another kind, and more classes than are allowed, all for unknown ids."""
    service = make_service()
    records = [Outgoing("ans", b"k", b'{"id":"nobody","label":7}', NOW - 1000)]
    for i in range(300):
        label = json.dumps({"id": f"nobody {i}", "label": f"class {i}"}).encode()
        records.append(Outgoing("ans", b"k", label, NOW - 1000))
    begin(service, records, 200)
    view = service.run()

    assert view.learned == 200
    assert view.labels["joined"] == 200
    assert dict(view.dead_letters) == {}


def test_early_label_that_does_not_fit_is_a_dead_letter_of_its_own_bytes(make_service) -> None:
    """Written when its observation comes: key, value, timestamp and place are those it had."""
    service = make_service()
    begin(service, junk(60), 100)
    view = service.run(max_records=7)
    sent = {(r.key, r.value, r.timestamp) for r in service.records("ans")}
    letters = service.records("svc-dead-letters")
    written = [(r.key, r.value, r.timestamp) for r in letters]

    assert view.dead_letters == {"label_kind": len(letters)}
    assert view.labels["rejected"] == len(set(written)) == len(letters) > 20
    assert set(written) <= sent
    assert not any(type(json.loads(r.value)["label"]) is bool for r in letters)


@pytest.mark.parametrize("model", [GaussianNB, None])
def test_refused_early_labels_are_the_same_for_every_split(model) -> None:
    """Outputs and state, with a restart between two batches (I1, I2)."""

    def learner():
        if model is not None:
            return model()
        from river.naive_bayes import BernoulliNB

        return RiverClassifier(BernoulliNB())

    records = [told(str(i), JUNK[i % 4], i, ts=NOW) for i in range(30)]
    records += [seen("first", 0, a=1.0), told("first", "yes", 30)]
    records += [seen(str(i), i + 1, a=float(i % 3)) for i in range(30)]
    records += [told(str(i), "no", i + 31) for i in range(30)]
    whole = shard(learner(), max_classes=2)
    out = [*whole.process(batch(records), NOW).dead_letters()]
    apart, parts = shard(learner(), max_classes=2), []
    for start, stop in pairwise([0, 5, 31, 33, 40, 58, len(records)]):
        parts += apart.process(batch(records[start:stop]), NOW).dead_letters()
        if model is not None:
            again = shard(learner(), max_classes=2)
            again.load_state(apart.to_state())
            apart = again

    assert parts == out
    assert len(out) > 15
    assert dict(whole.view().dead_letters) == dict(apart.view().dead_letters)
    if model is not None:
        assert apart.fingerprint() == whole.fingerprint()
