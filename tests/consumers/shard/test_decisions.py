"""Decisions of the service: in the prediction record, in the view, across a restart."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from consumers.base.records import Record
from stream.decision import BayesDecision
from stream.errors import StateError
from tests.consumers.feeds import NOW, batch, fill, phishing, seen, shard, stream, told

RULE = BayesDecision({"wait": {"p": 0, "q": 2, "r": 9}, "act": {"p": 3, "q": 1, "r": 0}}, 1.5)


def run(machine, records: list[Record], cuts=()):
    """All records in batches that end at `cuts`: predictions, decoded."""
    out = []
    for start, stop in pairwise([0, *sorted(cuts), len(records)]):
        outcome = machine.process(batch(records[start:stop]), NOW)
        out += [json.loads(p.value) for p in outcome.predictions()]
    return out


def test_prediction_tells_the_decision_and_its_risk() -> None:
    """Only where decisions are configured; the rest of the record is the same."""
    records = [seen("1", a=0), told("1", "p"), seen("2", 1, a=5), told("2", "r", 1), seen("3", 2)]
    deciding, plain = shard(decision=RULE), shard()
    predictions = run(deciding, records)
    decisions = [p.pop("decision") for p in predictions]

    assert decisions == [
        {"action": None, "risk": 1.5},
        {"action": "wait", "risk": 0.0},
        {"action": "act", "risk": 1.5},
    ]
    assert predictions == run(plain, records)
    assert deciding.learner.fingerprint() == plain.learner.fingerprint()


def test_nothing_is_decided_where_nothing_is_known() -> None:
    """Without a reject option the first record has neither action nor risk."""
    (prediction,) = run(shard(decision=BayesDecision(RULE.losses)), [seen("1", a=0)])

    assert prediction["decision"] == {"action": None, "risk": None}


def test_view_tells_what_decisions_cost() -> None:
    """Realised losses of decisions as they were made; what was done on every observation."""
    machine = shard(decision=RULE)
    run(machine, [seen("1", a=0), told("1", "p"), seen("2", 1, a=5), told("2", "r", 1)])
    run(machine, [seen("3", 2)])
    risk = machine.view().risk

    assert (risk.overall, risk.scored) == ((1.5 + 9) / 2, 2)
    assert risk.actions == {"wait": 1, "act": 1}
    assert risk.constant == ("act", (3 + 0) / 2)
    assert shard().view().risk is None


def test_record_before_the_first_label_is_no_rejection() -> None:
    """It costs what rejecting costs, but not because a model weighed anything."""
    rule = BayesDecision(RULE.losses, 0.5)
    machine = shard(decision=rule)
    run(machine, [seen("1", a=0), seen("2", a=0), told("1", "q"), seen("3", a=0)])
    risk = machine.view().risk

    assert (risk.rejected, risk.actions) == (1, {"wait": 0, "act": 0})


@pytest.mark.parametrize("cuts", [[200], list(range(7, 400, 7)), list(range(1, 400))],
                         ids=["halves", "sevens", "single"])  # fmt: skip
def test_any_cut_of_a_stream_decides_the_same(cuts) -> None:
    """Decisions, overall risk and state, on late, early, double and missing labels (I1)."""
    records = stream(250, seed=4)
    whole, cut = shard(decision=RULE), shard(decision=RULE)
    predictions = run(whole, records)

    assert run(cut, records, cuts) == predictions
    assert cut.fingerprint() == whole.fingerprint()
    assert cut.view().risk == whole.view().risk
    assert len({json.dumps(p["decision"]["action"]) for p in predictions}) == 3
    assert whole.view().risk.scored > 150


def test_overall_risk_goes_on_after_a_restart() -> None:
    """A restored shard ends with the same sums (I2)."""
    records = stream(250, seed=4)
    whole, before, after = (shard(decision=RULE) for _ in range(3))
    run(whole, records)
    run(before, records[:222])
    after.load_state(before.to_state())
    run(after, records[222:])

    assert after.fingerprint() == whole.fingerprint()
    assert after.view().risk == whole.view().risk


def test_service_may_begin_and_cease_to_decide() -> None:
    """A snapshot of the other kind is taken: the risk begins where decisions do."""
    records = stream(250, seed=4)
    plain, deciding, ever = shard(), shard(decision=RULE), shard(decision=RULE)
    run(plain, records[:222])
    run(ever, records[:222])
    before = ever.view().risk.scored
    run(ever, records[222:])
    deciding.load_state(plain.to_state())
    run(deciding, records[222:])
    ceased = shard()
    ceased.load_state(deciding.to_state())

    assert deciding.view().risk.scored == ever.view().risk.scored - before > 0
    assert ceased.view().risk is None
    assert ceased.learner.fingerprint() == deciding.learner.fingerprint()


def test_damaged_risk_is_refused() -> None:
    """StateError, so that an older snapshot is taken."""
    machine = shard(decision=RULE)
    state = machine.to_state()
    state.header["risk"].pop("total")

    with pytest.raises(StateError, match="damaged"):
        shard(decision=RULE).load_state(state)


DECISION = """
[decision]
reject = 0.4
losses.warn = {true = 0, false = 1}
losses.pass = {true = 5, false = 0}
"""
NAMED = ("warn", "pass")


def test_configured_service_decides_and_recovers_its_risk(make_service) -> None:
    """Phishing, stopped halfway: the journal alone and the newest snapshot give the same risk."""
    service = make_service()
    fill(service.log, phishing(300))
    service.run(stop_after=3, more=DECISION)
    view = service.run(more=DECISION)
    predictions = [json.loads(r.value) for r in service.records("svc-predictions")]
    decisions = [p["decision"] for p in predictions]

    assert {d["action"] for d in decisions} == {"warn", "pass", None}
    assert all(d["risk"] == 0.4 for d in decisions if d["action"] is None)
    blind = sum(not p["probabilities"] for p in predictions)
    assert blind > 0
    assert view.risk.rejected == sum(d["action"] is None for d in decisions) - blind
    assert view.risk.actions == {a: sum(d["action"] == a for d in decisions) for a in NAMED}
    assert view.risk.scored == 300
    assert 0 < view.risk.overall < 5
    rebuilt = service.rebuilt(more=DECISION).shard
    assert rebuilt.view().risk == view.risk
