"""A budget of false positives in the service: in the record, in the view, across a restart."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from consumers.base.records import Record
from stream.decision import BayesDecision, Budget
from stream.errors import SchemaError
from stream.join.label_delay import Silence
from tests.consumers.feeds import NOW, batch, fill, phishing, seen, shard, spec, stream, told
from tests.oracles.decision import decide

RULE = Budget("r", 0.1)
DOUBTING = Budget("r", 0.1, min_learned=40, unsure=0.4)
RECORDS = stream(900, seed=4)
CUTS = [len(RECORDS) // 2], list(range(7, len(RECORDS), 7)), list(range(1, len(RECORDS)))


def run(machine, records: list[Record], cuts=()):
    """All records in batches that end at `cuts`: predictions, decoded."""
    out = []
    for start, stop in pairwise([0, *sorted(cuts), len(records)]):
        outcome = machine.process(batch(records[start:stop]), NOW)
        out += [json.loads(p.value) for p in outcome.predictions()]
    return out


@pytest.mark.parametrize("corrections", [False, True])
@pytest.mark.parametrize("cuts", CUTS, ids=["halves", "sevens", "single"])
def test_any_cut_of_a_stream_flags_the_same(cuts, corrections: bool) -> None:
    """Decisions and state, on late, early, double and missing labels (I1)."""
    whole, cut = (shard(budget=RULE, corrections=corrections) for _ in range(2))
    predictions = run(whole, RECORDS)

    assert run(cut, RECORDS, cuts) == predictions
    assert cut.fingerprint() == whole.fingerprint()
    assert cut.view().budget == whole.view().budget
    actions = [p["decision"]["action"] for p in predictions]
    assert actions.count("r") == whole.view().budget.flagged > 50
    assert whole.view().budget.others > 300


def test_budget_goes_on_after_a_restart() -> None:
    """A restored shard decides the same, also on labels of records that waited (I2)."""
    half = 1500
    whole, before, after = (shard(budget=RULE) for _ in range(3))
    predictions = run(whole, RECORDS)
    made = run(before, RECORDS[:half])
    after.load_state(before.to_state())
    made += run(after, RECORDS[half:])

    assert made == predictions
    assert after.fingerprint() == whole.fingerprint()


@pytest.mark.parametrize("cuts", CUTS, ids=["halves", "sevens", "single"])
def test_any_cut_of_a_stream_doubts_the_same(cuts) -> None:
    """With corrections, and once with a restart at each cut. Then every record has an action."""
    whole, cut, again = (shard(budget=DOUBTING, corrections=True) for _ in range(3))
    predictions, made = run(whole, RECORDS), []
    for start, stop in pairwise([0, *cuts[::50], len(RECORDS)]):
        again.load_state(again.to_state())
        made += run(again, RECORDS[start:stop])
    actions = [p["decision"]["action"] for p in predictions]
    view = whole.view().budget

    assert run(cut, RECORDS, cuts) == made == predictions
    assert cut.fingerprint() == again.fingerprint() == whole.fingerprint()
    assert actions.count(None) == view.unsure > 100
    assert min(view.learned) > 100
    assert actions[:80] == [None] * 80
    assert actions.count("r") == view.flagged > 20


def test_record_below_the_least_probability_is_not_flagged() -> None:
    """The rest stays: with a journal's settings a replay decides the same."""
    rule = replace(RULE, min_probability=0.8)
    free, bound = shard(budget=RULE), shard(budget=rule)
    flagged = [
        [
            dict(p["probabilities"])["r"]
            for p in run(machine, RECORDS)
            if p["decision"]["action"] == "r"
        ]
        for machine in (free, bound)
    ]

    assert min(flagged[0]) < 0.8 <= min(flagged[1])
    assert bound.view().budget.flagged == len(flagged[1]) > 20
    assert (free.spec.budget, bound.spec.budget) == (RULE, rule)


def test_another_doubt_keeps_the_evidence_and_another_number_of_labels_does_not() -> None:
    """`unsure` only says which of the records that are not flagged have an action."""
    before, other, more = (shard(budget=DOUBTING) for _ in range(3))
    run(before, RECORDS)
    other.load_state(before.to_state())
    more.load_state(before.to_state())
    other.spec, more.spec = (spec(budget=Budget("r", 0.1, n)) for n in (40, 41))
    for machine in (other, more):
        run(machine, [seen("x", 5000)])

    assert other.view().budget.others == before.view().budget.others
    assert more.view().budget.others == 0


def test_prediction_before_enough_labels_is_no_evidence() -> None:
    """The model said nothing then that counts."""
    machine = shard(budget=Budget("r", 0.1, 1))
    run(machine, [seen("1", a=0), told("1", "r"), seen("2", 1, a=5), told("2", "p", 1)])
    before = machine.view().budget
    run(machine, [seen("3", 2, a=1), told("3", "p", 2)])

    assert (before.others, before.learned, before.unsure) == (0, (1, 1), 2)
    assert machine.view().budget.others == 1
    assert machine.view().budget.learned == (1, 2)


def test_nothing_else_changes_and_another_budget_starts_empty() -> None:
    """Probabilities and learner are those without a budget. Evidence belongs to one rule."""
    plain, flagging, other = shard(), shard(budget=RULE), shard(budget=Budget("r", 0.2))
    without, records = run(plain, RECORDS), run(flagging, RECORDS)
    other.load_state(flagging.to_state())
    run(other, [seen("x", 5000)])
    ceased = shard()
    ceased.load_state(flagging.to_state())
    run(ceased, [seen("x", 5000)])

    assert [{k: v for k, v in p.items() if k != "decision"} for p in records] == without
    assert flagging.learner.fingerprint() == plain.learner.fingerprint()
    assert (other.view().budget.others, other.view().budget.flagged) == (0, 0)
    assert ceased.view().budget is None


def test_prediction_before_the_label_was_known_is_no_evidence() -> None:
    """Its probability of 0 says nothing about the model."""
    machine = shard(budget=RULE)
    records = [seen("1", a=0), told("1", "p"), seen("2", 1, a=5), seen("3", 2, a=1)]
    run(machine, [*records, told("2", "r", 1), told("3", "p", 2)])
    before = machine.view().budget.others
    run(machine, [seen("4", 3, a=1), told("4", "p", 3)])

    assert before == 0
    assert machine.view().budget.others == 1


def test_correction_counts_as_if_it_had_been_the_first_label() -> None:
    """From another label to the flagged one, and back."""
    machine = shard(budget=RULE, corrections=True)
    start = [seen("1", a=0), told("1", "p"), seen("2", 1, a=5), told("2", "r", 1)]
    run(machine, [*start, seen("3", 2, a=1), told("3", "p", 2)])
    counts = [machine.view().budget.others]
    for offset, label in enumerate(["r", "q", "p"], 3):
        run(machine, [told("3", label, offset)])
        counts.append(machine.view().budget.others)

    assert counts == [1, 0, 1, 1]


def test_silence_and_a_budget_exclude_each_other() -> None:
    """Silence falls on records that were not flagged only."""
    with pytest.raises(SchemaError, match="silence and a budget"):
        run(shard(budget=RULE, corrections=True, silence=Silence("p", 1000)), [seen("1")])


def test_decisions_are_the_argmin_of_the_reported_probabilities_and_losses() -> None:
    """Computed from the published record by an oracle that shares no code."""
    losses = {"wait": {"p": 0, "q": 2, "r": 9}, "act": {"p": 3, "q": 1, "r": 0}}
    made = run(shard(decision=BayesDecision(losses, 1.5)), RECORDS)
    for p in made:
        if p["probabilities"]:
            action, risk = decide(losses, dict(p["probabilities"]), 1.5)

            assert p["decision"]["risk"] == pytest.approx(risk, rel=1e-12)
            assert p["decision"]["action"] == action
    assert {p["decision"]["action"] for p in made} == {"wait", "act", None}


BUDGET = """
[decision]
max_false_positive_rate = {label = "true", rate = 0.2}
"""


def test_configured_service_flags_and_recovers(make_service) -> None:
    """Phishing, stopped halfway: the journal alone and the newest snapshot give the same."""
    service = make_service()
    fill(service.log, phishing(300))
    service.run(stop_after=3, more=BUDGET)
    view = service.run(more=BUDGET)
    predictions = [json.loads(r.value) for r in service.records("svc-predictions")]

    assert sum(p["decision"]["action"] is True for p in predictions) == view.budget.flagged > 5
    assert service.rebuilt(more=BUDGET).shard.view().budget == view.budget
